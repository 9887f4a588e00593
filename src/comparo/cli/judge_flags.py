"""The judges of a command: flags that say who is asked, and the judges that they describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from comparo.data.items import Items
from comparo.judges import Judge, accepted_options, load_judge, ray_judge
from comparo.run.cache import CACHE, Recalling, remembering
from comparo.run.folders import ROOT
from comparo.run.task import DEFAULT_JUDGE
from comparo.run.voices import reader

NAMES = (
    "provider/model: local/smollm2 (embedded), local/PATH.gguf, hf/NAME-OR-FOLDER, openai/MODEL (any "
    "such server by --base-url), anthropic/MODEL, gemini/MODEL, vllm/MODEL, replay/FILE, simulated/soft."
)
COMMON = ("base_url", "concurrency", "price")  # options of judges that are flags
JudgeName = Annotated[str, typer.Option("--judge", help=NAMES)]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="NAME=VALUE, for the judge (docs/judges.md); may be repeated.",
    ),
]


@dataclass(frozen=True)
class JudgeFlags:
    """Who is asked."""

    judge: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            help=f"{NAMES} May be repeated, each with options: 'openai/MODEL; price=0.15,0.60'. "
            f"Default: {DEFAULT_JUDGE}",
            show_default=False,
        ),
    ] = None
    option: Options = None
    base_url: Annotated[str | None, typer.Option(help="The server of an API: http://localhost:8000/v1")] = None
    concurrency: Annotated[int | None, typer.Option(min=1, help="How many calls at a time, for an API.")] = None
    price: Annotated[str | None, typer.Option(help="Dollars for a million tokens in and out: 0.15,0.60")] = None
    engine: Annotated[
        Literal["ray"] | None,
        typer.Option(help="Judges run in processes of their own, or on a cluster."),
    ] = None
    ray_address: Annotated[
        str | None,
        typer.Option(help="HOST:PORT of the cluster's head, or auto (docs/scale.md)."),
    ] = None
    judge_replicas: Annotated[
        int | None,
        typer.Option("--judge-replicas", min=1, help="With --engine ray: judges that work side by side. Default: 1"),
    ] = None
    judge_gpus: Annotated[
        float | None,
        typer.Option("--judge-gpus", min=0, help="With --engine ray: GPUs for each of them. Default: 0"),
    ] = None
    judge_cpus: Annotated[
        float | None,
        typer.Option("--judge-cpus", min=0, help="With --engine ray: CPUs for each of them. Default: 1"),
    ] = None

    cache: Annotated[
        Path | None,
        typer.Option(
            help=f"Answers that need not be asked again (docs/cache.md). Default: {ROOT / CACHE}",
            show_default=False,
        ),
    ] = None
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Ask every question, also those that were asked before.")
    ] = False

    @property
    def judges(self) -> list[str]:
        """The judges as they are written, with their own options."""
        return self.judge or [DEFAULT_JUDGE]

    @property
    def reader(self) -> str:
        """The name of a judge that reads prompts, if there is one."""
        return reader([_parted(judge)[0] for judge in self.judges])

    def make(self, items: Items, context: typer.Context) -> list[Judge]:
        """The judges, which end with the command where they run on Ray."""
        common = {name: getattr(self, name) for name in COMMON}
        common = {name: value for name, value in common.items() if value is not None} | parse_options(self.option or ())
        parted = [_parted(judge) for judge in self.judges]
        known = [accepted_options(name) for name, _ in parted]
        if len(parted) > 1 and (alien := [name for name in common if not any(name in accepted for accepted in known)]):
            raise ValueError(f"none of the judges has an option {alien[0]!r}; drop it")
        made = []
        for (name, own), accepted in zip(parted, known, strict=True):
            shared = {option: common[option] for option in common if len(parted) == 1 or option in accepted}
            made.append(make_judge(name, items, shared | own, context, self.ray()))
        judges = remembering(made, None if self.no_cache else self.cache or ROOT / CACHE)
        for judge in judges:
            if isinstance(judge, Recalling):
                context.call_on_close(judge.cache.close)
        return judges

    def of_one(self, number: int) -> dict[str, Any]:
        """The flags that ask one of the judges alone: its name, and of the options for all judges those that it has."""
        judge = self.judges[number]
        accepted = accepted_options(_parted(judge)[0])
        own = [text for text in self.option or () if set(parse_options([text])) <= set(accepted)]
        named = {name: getattr(self, name) for name in COMMON if name in accepted}
        return {**dict.fromkeys(COMMON), **named, "judge": [judge], "option": own}

    def check(self) -> None:
        """Raise a ValueError where flags do not fit together."""
        if self.no_cache and self.cache is not None:
            raise ValueError("--cache and --no-cache contradict each other; give one of them")
        self.ray()

    def ray(self) -> dict[str, Any] | None:
        """What the flags say about Ray, None without it; flags that are of use only there are an error elsewhere."""
        names = ("ray_address", "judge_replicas", "judge_gpus", "judge_cpus")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.engine is None and given:
            flag = next(iter(given)).replace("_", "-")
            raise ValueError(f"--{flag} is of use with --engine ray only; add that, or drop the flag")
        return None if self.engine is None else {name.rpartition("_")[2]: value for name, value in given.items()}


def make_judge(
    name: str, items: Items, options: Mapping[str, Any], context: typer.Context, ray: Mapping[str, Any] | None
) -> Judge:
    """A judge with its options, ended with the command where it runs on Ray.

    A simulated judge's scores may be named after people's.
    """
    given = dict(options)
    if name.startswith("simulated/") and isinstance(given.get("scores"), str):
        wanted = given["scores"]
        if wanted not in items.scores:
            raise ValueError(f"the items have no scores {wanted!r}; they have {', '.join(items.scores) or 'none'}")
        labels = zip(items.contexts[items.context].tolist(), items.ids.tolist(), strict=True)
        given["scores"] = dict(zip(labels, items.scores[wanted].tolist(), strict=True))
    if ray is None:
        return load_judge(name, **given)
    return context.with_resource(ray_judge(name, given, **ray))


def parse_options(texts: Iterable[str]) -> dict[str, Any]:
    """Options written NAME=VALUE.

    >>> parse_options(["base-url=http://localhost", "votes=3"])
    {'base_url': 'http://localhost', 'votes': 3}
    """
    given = {}
    for text in texts:
        option, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"--option {text!r} is not NAME=VALUE")
        given[option.strip().replace("-", "_")] = _value(value.strip())
    return given


def _parted(judge: str) -> tuple[str, dict[str, Any]]:
    """The name of a judge and its own options."""
    name, *own = (part.strip() for part in judge.split(";"))
    if wrong := [part for part in own if "=" not in part]:
        raise ValueError(f"--judge {judge!r}: {wrong[0]!r} is not NAME=VALUE")
    return name, parse_options(own)


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
