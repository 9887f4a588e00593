"""Flags that several commands share, in groups that a command takes as one argument."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from comparo.cli.settings import running
from comparo.data.grammar import read_settings
from comparo.data.items import Items
from comparo.data.run_folder import DATABASE, database_of
from comparo.judges import Judge, accepted_options, load_judge, parse_judge, parse_options
from comparo.log.cache import CACHE
from comparo.options import DEFAULT_JUDGE, CacheOptions, JudgeOptions
from comparo.run.cached_judge import CachedJudge, remembering

SeedFlag = Annotated[int, typer.Option(min=0)]
Count = Annotated[int | None, typer.Option(min=1)]
ROLES = ("id", "text", "context_id", "scores")  # of --columns
WORSE = 3  # the exit code of --fail-if-worse, --not-worse-than and --fail-below
UNRELIABLE = 4  # the exit code of --fail-if-judge-unreliable
COMMON = ("base_url", "price")  # options of judges that are flags
ENGINE = ("engine", "replicas", "gpus", "cpus", "address")  # options that every judge has


@dataclass(frozen=True)
class ColumnFlags:
    """What is compared: columns of the texts, and votes.

    Parameters
    ----------
    context_column : What the judge reads before the texts. Default: context
    columns : Others by their roles: id=NAME (of the items), text=NAME, context_id=NAME (of the contexts), scores=NAME
        (people's, to compare with). May be repeated. Default: the roles themselves.
    """

    context_column: Annotated[str | None, typer.Option("--context")] = None
    columns: list[str] | None = None

    @property
    def names(self) -> dict[str, Any]:
        """The columns by their roles."""
        roles: dict[str, Any] = dict.fromkeys(ROLES) | {"scores": []}
        for text in self.columns or ():
            for role, name in read_settings(text, *roles):
                roles[role] = [*roles[role], name] if role == "scores" else name
        return roles | {"context": self.context_column, "scores": roles["scores"] or None}

    @property
    def without_scores(self) -> dict[str, Any]:
        """The columns by their roles, for commands that do not use people's scores."""
        if self.names["scores"]:
            raise ValueError("--columns scores=NAME has no use here; leave it out")
        return {role: name for role, name in self.names.items() if role != "scores"}

    def read(self, data: str, **more: Any) -> Items:
        return Items.of(data, **self.names | more)


@dataclass(frozen=True)
class GroupFlags(ColumnFlags):
    """What is compared: columns of the texts, and votes.

    Parameters
    ----------
    group : What items share, such as the system; groups are ranked too, and inform the scores. Default: group, else the
        same id in other contexts.
    """

    group: str | None = None

    @property
    def names(self) -> dict[str, Any]:
        return super().names | {"group": self.group}


def named(data: str) -> str:
    """The name of the texts, which is part of the name of the run folder."""
    return "stdin" if data == "-" else data


def names_in(given: list[str] | None) -> list[str]:
    """The names of people in a flag that may be repeated, each with commas between names.

    >>> names_in(["ana, bo", "cy"]), names_in(None)
    (['ana', 'bo', 'cy'], [])
    """
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]


def run_folder(path: Path) -> Path:
    """The run folder at `path` or of the database at `path`; a ValueError if there is none."""
    database = database_of(path)
    if database is None or not database.is_file():
        raise ValueError(f"{path} is not a run folder: it has no {DATABASE}; comparo runs lists those that there are")
    return database.parent


@dataclass(frozen=True)
class UncachedJudgeFlags(JudgeOptions):
    """Who is asked.

    Parameters
    ----------
    option : NAME=VALUE, for every judge (docs/judges.md); may be repeated.
    base_url : The server of an API: http://localhost:8000/v1
    price : Dollars for a million tokens in and out: 0.15,0.60
    """

    judge: Sequence[str] = ()
    option: Annotated[list[str] | None, typer.Option("--option", "-o")] = None
    base_url: str | None = None
    price: str | None = None

    @property
    def judges(self) -> list[str]:
        """The judges as they are written, with their own options."""
        return list(self.judge) or [DEFAULT_JUDGE]

    def load(self, items: Items | None) -> list[Judge]:
        """The judges without a cache, each with its own and the common options; closed when the command ends."""
        common = {name: getattr(self, name) for name in COMMON}
        common = {name: value for name, value in common.items() if value is not None} | parse_options(self.option or ())
        parsed = [parse_judge(judge) for judge in self.judges]
        known = [{*accepted_options(name), *ENGINE} for name, _ in parsed]
        alien = [name for name in common if name not in set().union(*known)]
        if len(parsed) > 1 and alien:
            raise ValueError(f"none of the judges has an option {alien[0]!r}; drop it")
        made = []
        for (name, own), accepted in zip(parsed, known, strict=True):
            shared = {option: common[option] for option in common if len(parsed) == 1 or option in accepted}
            judge = load_judge(name, **_with_scores(name, items, shared | own))
            if hasattr(judge, "close"):
                running().call_on_close(judge.close)
            made.append(judge)
        return made

    def of_one(self, number: int) -> dict[str, Any]:
        """The flags for one of the judges alone: its name, and the common options that it accepts."""
        judge = self.judges[number]
        accepted = {*accepted_options(parse_judge(judge)[0]), *ENGINE}
        own = [text for text in self.option or () if set(parse_options([text])) <= accepted]
        named = {name: getattr(self, name) for name in COMMON if name in accepted}
        return {**dict.fromkeys(COMMON), **named, "judge": [judge], "option": own}


@dataclass(frozen=True)
class JudgeFlags(UncachedJudgeFlags, CacheOptions):
    """Who is asked."""

    def make(self, items: Items) -> list[Judge]:
        """The judges with their cache; the command closes them when it ends."""
        judges = remembering(self.load(items), self.cache or CACHE)
        for judge in judges:
            if isinstance(judge, CachedJudge):
                running().call_on_close(judge.cache.close)
        return judges


def _with_scores(name: str, items: Items | None, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a judge; `scores` of a simulated judge may be the name of people's scores."""
    given = dict(options)
    if items is not None and name.startswith("simulated/") and isinstance(given.get("scores"), str):
        wanted = given["scores"]
        if wanted not in items.scores:
            raise ValueError(f"the items have no scores {wanted!r}; they have {', '.join(items.scores) or 'none'}")
        given["scores"] = dict(zip(items.labels, items.scores[wanted].tolist(), strict=True))
    return given
