"""Flags of a run by batches, and what is said about one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from comparo.judges.batches import WINDOW
from comparo.run.batch import Mode


@dataclass(frozen=True)
class BatchFlags:
    """Batches, at half the price."""

    batch: Annotated[
        bool,
        typer.Option(
            "--batch",
            help=f"Ask the server for a batch (openai/, anthropic/), answered within {WINDOW} hours; the same command "
            "goes on, also days later (docs/batch.md).",
        ),
    ] = False
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="With --batch: do not wait; the same command collects the answers."),
    ] = False
    cancel: Annotated[
        bool,
        typer.Option("--cancel", help="With --batch: end the batch early, and keep what was answered by then."),
    ] = False

    @property
    def mode(self) -> bool | Mode:
        """What is to be done with a batch; flags that do not fit together are a ValueError."""
        if (self.no_wait or self.cancel) and not self.batch:
            raise ValueError(f"--{'cancel' if self.cancel else 'no-wait'} is about a batch; add --batch, or drop it")
        if self.no_wait and self.cancel:
            raise ValueError("--cancel waits until the batch has ended; drop --no-wait")
        return "cancel" if self.cancel else "submit" if self.no_wait else self.batch
