"""Flags that several commands share, in groups that a command takes as one argument."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer

from comparo.cli.settings import ROLES
from comparo.data.items import Items
from comparo.data.prompts import PAPER, Prompt
from comparo.data.run_folder import DATABASE, database_of
from comparo.data.wordings import DEFAULT_WORDING, WORDINGS
from comparo.judges import parse_judge
from comparo.judges.batches import WINDOW
from comparo.run.audition import all_wordings
from comparo.run.batch import Mode
from comparo.run.voices import make_prompt

TEXTS = "What is compared: columns of the texts, and votes"  # where --help shows these flags
GroupColumn = Annotated[
    str | None,
    typer.Option(
        "--group",
        help="What items share, such as the system; groups are ranked too, and inform the scores. Default: group, else "
        "the same id in other contexts.",
        rich_help_panel=TEXTS,
    ),
]
Batch = Annotated[
    Mode | None,
    typer.Option(
        help=f"Ask the server for a batch at half the price (openai/, anthropic/), answered within {WINDOW} hours; the "
        "same command goes on, also days later (docs/batch.md). wait for it; submit it, and collect the answers later; "
        "cancel it, and keep what was answered.",
        rich_help_panel="How much is asked",
    ),
]
AllowChanges = Annotated[
    bool,
    typer.Option(
        "--allow-changes",
        help="Leave out judgements about texts that changed or are gone (docs/runs.md).",
        rich_help_panel="Output",
    ),
]
UNRELIABLE = 4  # the exit code of --fail-if-judge-unreliable: by `Flips.are_many`
FailIfJudgeUnreliable = Annotated[
    bool,
    typer.Option(
        "--fail-if-judge-unreliable",
        help=f"Exit code {UNRELIABLE} if the judge hardly reads.",
        rich_help_panel="Output",
    ),
]


@dataclass(frozen=True)
class QuestionFlags:
    """What the judge is asked."""

    criterion: Annotated[
        str | None,
        typer.Option(
            help='What makes a text better, to end "Which Text is …": "more coherent"; or "continues the story better".'
        ),
    ] = None
    kind: Annotated[str, typer.Option(help="What the texts are, as the judge is told: Story, Answer.")] = "Text"
    heading: Annotated[
        str | None,
        typer.Option(help="What stands above the context. Default: the name of its column."),
    ] = None
    wording: Annotated[
        list[str] | None,
        typer.Option(
            help=f"How it is put (docs/judges.md): {', '.join(WORDINGS)}; all; auto (comparo rank): by an "
            f"audition. May be repeated. Default: {DEFAULT_WORDING}"
        ),
    ] = None
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            help="In place of --criterion: a file with {first}, {second} and, if wanted, {context}, with its labels "
            "and how the answer begins: 'FILE; labels=A,B, answer=Text'; or a prompt of the paper: "
            f"{next(iter(PAPER))}.",
        ),
    ] = None

    def spelled_out(self, *names: str) -> QuestionFlags:
        """The same with every wording that can put the criterion, if one of these names stands for all of them."""
        stands_for_all = self.wording is not None and len(self.wording) == 1 and self.wording[0] in names
        return replace(self, wording=all_wordings(self.criterion)) if stands_for_all else self

    def make(self, items: Items, columns: ColumnFlags, judge: str) -> list[Prompt]:
        """The prompt of each wording for these items."""
        prompt, own = (self.prompt, {}) if "{" in (self.prompt or "{") else parse_judge(self.prompt or "")
        if unknown := set(own) - {"labels", "answer"}:
            raise ValueError(f"--prompt has the options labels and answer, not {unknown.pop()!r}")
        labels = tuple(word.strip() for word in str(own["labels"]).split(",")) if "labels" in own else None
        if labels is not None and len(labels) != 2:
            raise ValueError(f"the labels of --prompt are two words with a comma between, not {own['labels']!r}")
        if self.wording and len(set(self.wording)) < len(self.wording):
            raise ValueError(f"--wording {', '.join(self.wording)}: one of them is there twice; give each once")
        wordings: list[str | None] = list(self.wording) if self.wording else [None]
        return [
            make_prompt(
                items,
                self.criterion,
                prompt,
                judge,
                kind=self.kind,
                heading=self.heading,
                context=columns.context_column,
                wording=wording,
                labels=labels,
                answer=str(own["answer"]) if "answer" in own else None,
            )
            for wording in wordings
        ]


@dataclass(frozen=True)
class ColumnFlags:
    """What is compared: columns of the texts, and votes."""

    context_column: Annotated[
        str | None, typer.Option("--context", help="What the judge reads before the texts. Default: context")
    ] = None
    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Others by their roles: id=NAME (of the items), text=NAME, context_id=NAME (of the contexts), "
            "scores=NAME (people's, to compare with). May be repeated. Default: the roles themselves."
        ),
    ] = None

    @property
    def names(self) -> dict[str, Any]:
        """The columns by their roles."""
        roles: dict[str, Any] = dict.fromkeys(ROLES) | {"scores": []}
        for text in self.columns or ():
            for role, name in (part.partition("=")[::2] for part in re.split(r",(?=\s*\w+\s*=)", text)):
                role = role.strip().replace("-", "_")
                if role not in roles or not name.strip():
                    raise ValueError(f"--columns {text!r} is not ROLE=NAME; the roles are {', '.join(roles)}")
                roles[role] = [*roles[role], name.strip()] if role == "scores" else name.strip()
        return roles | {"context": self.context_column, "scores": roles["scores"] or None}

    @property
    def without_scores(self) -> dict[str, Any]:
        """The columns by their roles, where people's scores have no use."""
        if self.names["scores"]:
            raise ValueError("--columns scores=NAME has no use here; leave it out")
        return {role: name for role, name in self.names.items() if role != "scores"}

    def read(self, data: str, **more: Any) -> Items:
        return Items.of(data, **self.names | more)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose arguments that are groups of flags come as one flag per field of the group.

    >>> @with_groups
    ... def show(columns: ColumnFlags, top: int = 3) -> None:
    ...     print(columns.names["id"], top)
    >>> list(inspect.signature(show).parameters)
    ['context_column', 'columns', 'top']
    >>> show(context_column=None, columns=["id=name"], top=3)
    name 3
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type[Any]] = {
        name: hint for name, hint in hints.items() if isinstance(hint, type) and is_dataclass(hint)
    }
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _flags(groups[name])
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=hints[name]))

    @wraps(command)
    def call(**given: Any) -> None:
        made = {
            name: group(**{field.name: given.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        command(**given, **made)

    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    del call.__wrapped__
    return call


def _flags(group: type[Any]) -> list[inspect.Parameter]:
    """A parameter per field of a group; --help shows them under the group's docstring."""
    hints, parameters = get_type_hints(group, include_extras=True), []
    for field in fields(group):
        kind, flag = get_args(hints[field.name])
        flag = copy(flag)
        flag.rich_help_panel = flag.rich_help_panel or str(group.__doc__).rstrip(".")
        parameters.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=Annotated[kind, flag]
            )
        )
    return parameters


def names_in(given: list[str] | None) -> list[str]:
    """The names of people in a flag that may be repeated, each with commas between names.

    >>> names_in(["ana, bo", "cy"]), names_in(None)
    (['ana', 'bo', 'cy'], [])
    """
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]


def run_folder(path: Path) -> Path:
    """A run folder, named by itself or by the database in it; a ValueError where it is none."""
    database = database_of(path)
    if database is None or not database.is_file():
        raise ValueError(f"{path} is not a run folder: it has no {DATABASE}; comparo runs lists those that there are")
    return database.parent
