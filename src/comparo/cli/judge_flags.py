"""The judges of a command: flags that say who is asked, and the judges that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from comparo.data.items import Items
from comparo.judges import Judge, accepted_options, load_judge, parse_judge, parse_options
from comparo.run.cache import CACHE
from comparo.run.recalling import Recalling, remembering
from comparo.run.task import DEFAULT_JUDGE
from comparo.run.voices import reader

COMMON = ("base_url", "price")  # options of judges that are flags
ENGINE = ("engine", "replicas", "gpus", "cpus", "address")  # options that every judge has


@dataclass(frozen=True)
class UncachedJudgeFlags:
    """Who is asked.

    Parameters
    ----------
    option : NAME=VALUE, for every judge (docs/judges.md); may be repeated.
    base_url : The server of an API: http://localhost:8000/v1
    price : Dollars for a million tokens in and out: 0.15,0.60
    """

    judge: Annotated[
        list[str] | None,
        typer.Option(
            "--judge",
            help="provider/model: local/smollm2 (embedded), local/PATH.gguf, hf/NAME-OR-FOLDER, openai/MODEL (any "
            "such server by --base-url), anthropic/MODEL, gemini/MODEL, vllm/MODEL, replay/FILE, simulated/soft. May "
            f"be repeated, each with options: 'openai/MODEL; effort=low, price=0.15,0.60'. Default: {DEFAULT_JUDGE}",
            show_default=False,
        ),
    ] = None
    option: Annotated[list[str] | None, typer.Option("--option", "-o")] = None
    base_url: str | None = None
    price: str | None = None

    @property
    def judges(self) -> list[str]:
        """The judges as they are written, with their own options."""
        return self.judge or [DEFAULT_JUDGE]

    @property
    def reader(self) -> str:
        """The name of a judge that reads prompts, if there is one."""
        return reader([parse_judge(judge)[0] for judge in self.judges])

    def load(self, items: Items | None, context: typer.Context) -> list[Judge]:
        """The judges alone, each with its own options and with those for all judges that it has."""
        common = {name: getattr(self, name) for name in COMMON}
        common = {name: value for name, value in common.items() if value is not None} | parse_options(self.option or ())
        parsed = [parse_judge(judge) for judge in self.judges]
        known = [{*accepted_options(name), *ENGINE} for name, _ in parsed]
        if len(parsed) > 1 and (alien := [name for name in common if not any(name in accepted for accepted in known)]):
            raise ValueError(f"none of the judges has an option {alien[0]!r}; drop it")
        made = []
        for (name, own), accepted in zip(parsed, known, strict=True):
            shared = {option: common[option] for option in common if len(parsed) == 1 or option in accepted}
            judge = load_judge(name, **_with_scores(name, items, shared | own))
            if hasattr(judge, "close"):
                context.call_on_close(judge.close)
            made.append(judge)
        return made

    def of_one(self, number: int) -> dict[str, Any]:
        """The flags that ask one of the judges alone: its name, and of the options for all judges those that it has."""
        judge = self.judges[number]
        accepted = {*accepted_options(parse_judge(judge)[0]), *ENGINE}
        own = [text for text in self.option or () if set(parse_options([text])) <= accepted]
        named = {name: getattr(self, name) for name in COMMON if name in accepted}
        return {**dict.fromkeys(COMMON), **named, "judge": [judge], "option": own}


@dataclass(frozen=True)
class JudgeFlags(UncachedJudgeFlags):
    """Who is asked."""

    cache: Annotated[
        str | None,
        typer.Option(
            help=f"The file of answers that need not be asked again (docs/runs.md), or off. Default: {CACHE}",
            show_default=False,
        ),
    ] = None

    def make(self, items: Items, context: typer.Context) -> list[Judge]:
        """The judges with their cache; the command closes them when it ends."""
        judges = remembering(self.load(items, context), self.cache or CACHE)
        for judge in judges:
            if isinstance(judge, Recalling):
                context.call_on_close(judge.cache.close)
        return judges


def _with_scores(name: str, items: Items | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a judge; the scores of a simulated one may be named after people's."""
    given = dict(options)
    if items is not None and name.startswith("simulated/") and isinstance(given.get("scores"), str):
        wanted = given["scores"]
        if wanted not in items.scores:
            raise ValueError(f"the items have no scores {wanted!r}; they have {', '.join(items.scores) or 'none'}")
        labels = zip(items.contexts[items.context].tolist(), items.ids.tolist(), strict=True)
        given["scores"] = dict(zip(labels, items.scores[wanted].tolist(), strict=True))
    return given
