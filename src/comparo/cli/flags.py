"""Flags that several commands share, in groups that a command takes as one argument."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from comparo.cli.settings import ROLES
from comparo.data.items import Items
from comparo.data.prompts import Prompt
from comparo.data.run_folder import DATABASE, database_of
from comparo.data.wordings import DEFAULT_WORDING, WORDINGS, all_wordings
from comparo.judges import parse_judge
from comparo.judges.batches import WINDOW
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
    """What the judge is asked.

    Parameters
    ----------
    criterion : What makes a text better, to end "Which Text is …": "more coherent"; or "continues the story better".
    kind : What the texts are, in the judge's question: Story, Answer.
    heading : What stands above the context. Default: the name of its column.
    """

    criterion: str | None = None
    kind: str = "Text"
    heading: str | None = None
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
            "and how the answer begins: 'FILE; labels=A,B, answer=Text'.",
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


def names_in(given: list[str] | None) -> list[str]:
    """The names of people in a flag that may be repeated, each with commas between names.

    >>> names_in(["ana, bo", "cy"]), names_in(None)
    (['ana', 'bo', 'cy'], [])
    """
    return [name.strip() for text in given or () for name in text.split(",") if name.strip()]


def run_folder(path: Path) -> Path:
    """A run folder, given by its own path or by that of its database; a ValueError where it is none."""
    database = database_of(path)
    if database is None or not database.is_file():
        raise ValueError(f"{path} is not a run folder: it has no {DATABASE}; comparo runs lists those that there are")
    return database.parent
