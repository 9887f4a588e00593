"""Flags that several commands share, in groups: a command takes a group as one argument."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any, get_args, get_type_hints

import typer

from comparo.cli import options
from comparo.data.items import Items
from comparo.data.prompts import Prompt
from comparo.judges import Judge
from comparo.run.rank import make_prompt
from comparo.run.task import DEFAULT_JUDGE


@dataclass(frozen=True)
class QuestionFlags:
    """What the judge is asked."""

    criterion: options.Criterion = None
    kind: options.Kind = "Text"
    heading: options.Heading = None
    prompt: options.PromptName = None
    labels: options.Labels = None
    answer: options.Answer = None

    def make(self, items: Items, columns: ColumnFlags, judge: str) -> Prompt:
        """The prompt for these items."""
        words = None if self.labels is None else tuple(word.strip() for word in self.labels.split(","))
        if words is not None and len(words) != 2:
            raise ValueError(f"--labels are two words with a comma between, not {self.labels!r}")
        return make_prompt(
            items,
            self.criterion,
            self.prompt,
            judge,
            kind=self.kind,
            heading=self.heading,
            context=columns.context_column,
            labels=words,
            answer=self.answer,
        )


@dataclass(frozen=True)
class JudgeFlags:
    """Who is asked, and where it runs."""

    judge: options.JudgeName = DEFAULT_JUDGE
    option: options.Options = None
    base_url: options.BaseUrl = None
    votes: options.Votes = None
    concurrency: options.Concurrency = None
    price: options.Price = None
    engine: options.Engine = None
    ray_address: options.RayAddress = None
    judge_replicas: options.Replicas = None
    judge_gpus: options.Gpus = None
    judge_cpus: options.Cpus = None

    def make(self, items: Items, context: typer.Context) -> Judge:
        """The judge, which ends with the command where it runs on Ray."""
        named = {name: getattr(self, name) for name in ("base_url", "votes", "concurrency", "price")}
        return options.make_judge(self.judge, items, self.option, context, self.ray(), **named)

    def ray(self) -> dict[str, Any] | None:
        """What the flags say about Ray, None without it; flags that are of use only there are an error elsewhere."""
        names = ("ray_address", "judge_replicas", "judge_gpus", "judge_cpus")
        given = {name: getattr(self, name) for name in names if getattr(self, name) is not None}
        if self.engine is None and given:
            flag = next(iter(given)).replace("_", "-")
            raise ValueError(f"--{flag} is of use with --engine ray only; add that, or drop the flag")
        return None if self.engine is None else {name.rpartition("_")[2]: value for name, value in given.items()}


@dataclass(frozen=True)
class ColumnFlags:
    """Where the items' columns are."""

    id_column: options.IdColumn = None
    text_column: options.TextColumn = None
    context_column: options.ContextColumn = None
    context_id: options.ContextIdColumn = None

    def read(self, data: str, **more: Any) -> Items:
        """The items of a file."""
        return Items.of(
            data,
            id=self.id_column,
            text=self.text_column,
            context=self.context_column,
            context_id=self.context_id,
            **more,
        )


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose arguments that are groups of flags come as one flag per field of the group.

    >>> @with_groups
    ... def show(columns: ColumnFlags, top: int = 3) -> None:
    ...     print(columns.id_column, top)
    >>> list(inspect.signature(show).parameters)
    ['id_column', 'text_column', 'context_column', 'context_id', 'top']
    >>> show(id_column="name", text_column=None, context_column=None, context_id=None, top=3)
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
        flag.rich_help_panel = str(group.__doc__).rstrip(".")
        parameters.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=Annotated[kind, flag]
            )
        )
    return parameters
