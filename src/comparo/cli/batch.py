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
            help=f"Put all questions to the server as a batch, which costs half and is answered within {WINDOW} hours; "
            "for openai/ (also servers that imitate its Batch API) and anthropic/ judges. The same command goes on "
            "with a batch, also days later and from another terminal.",
        ),
    ] = False
    no_wait: Annotated[
        bool,
        typer.Option("--no-wait", help="With --batch: do not wait for the answers; the same command collects them."),
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
