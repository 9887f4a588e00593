"""The judges of a command: flags that say who is asked, and the judges that they describe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import typer

from comparo.data.items import Items
from comparo.judges import Judge, accepted_options, load_judge, ray_judge
from comparo.run.starting import reader
from comparo.run.task import DEFAULT_JUDGE

NAMES = (
    "provider/model: local/smollm2 (embedded, a smoke test), local/PATH.gguf, hf/REPOSITORY-OR-FOLDER, openai/MODEL "
    "(also for any compatible server, with --base-url), anthropic/MODEL, gemini/MODEL, vllm/MODEL, replay/FILE, "
    "simulated/soft."
)
COMMON = ("base_url", "concurrency", "price")  # options of judges that are flags
JudgeName = Annotated[str, typer.Option("--judge", help=NAMES)]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-o",
        help="An option of the judge, NAME=VALUE, or of all judges that have it; may be repeated. docs/judges.md lists "
        "them.",
    ),
]


@dataclass(frozen=True)
class JudgeFlags:
    """Who is asked, and where it runs."""

    judge: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            help=f"{NAMES} May be repeated: the ranking is then what the judges agree on, and calls go to those that "
            "tell most of it for their price. Options of one judge follow its name: "
            f"'openai/MODEL; base-url=http://localhost:8000/v1; price=0.15,0.60'. Default: {DEFAULT_JUDGE}",
            show_default=False,
        ),
    ] = None
    option: Options = None
    base_url: Annotated[
        str | None, typer.Option(help="For judges behind an API: the server, such as http://localhost:8000/v1.")
    ] = None
    concurrency: Annotated[
        int | None, typer.Option(min=1, help="For judges behind an API: how many calls at a time.")
    ] = None
    price: Annotated[
        str | None,
        typer.Option(help="For judges behind an API: dollars for a million tokens in and out, such as 0.15,0.60."),
    ] = None
    engine: Annotated[
        Literal["ray"] | None,
        typer.Option(
            help="ray: the judge runs in processes of its own, on this machine or on the Ray cluster at --ray-address."
        ),
    ] = None
    ray_address: Annotated[
        str | None,
        typer.Option(
            help="With --engine ray: HOST:PORT of the cluster's head, or auto for the cluster that this machine belongs"
            " to. Default: RAY_ADDRESS, else a Ray of this machine alone."
        ),
    ] = None
    judge_replicas: Annotated[
        int | None,
        typer.Option(
            "--judge-replicas", min=1, help="With --engine ray: how many judges work side by side. Default: 1"
        ),
    ] = None
    judge_gpus: Annotated[
        float | None,
        typer.Option("--judge-gpus", min=0, help="With --engine ray: GPUs that each judge takes. Default: 0"),
    ] = None
    judge_cpus: Annotated[
        float | None,
        typer.Option("--judge-cpus", min=0, help="With --engine ray: CPUs that each judge takes. Default: 1"),
    ] = None

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
        return made

    def of_one(self, number: int) -> dict[str, Any]:
        """The flags that ask one of the judges alone: its name, and of the options for all judges those that it has."""
        judge = self.judges[number]
        accepted = accepted_options(_parted(judge)[0])
        own = [text for text in self.option or () if set(parse_options([text])) <= set(accepted)]
        named = {name: getattr(self, name) for name in COMMON if name in accepted}
        return {**dict.fromkeys(COMMON), **named, "judge": [judge], "option": own}

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
