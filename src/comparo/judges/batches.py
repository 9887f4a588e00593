"""The contract of batches: many questions in one upload, answered within a day at a lower price.

A judge that takes batches has two further members: `batches(prompt)` returns its `Batches`, and `at_batch_price()` the
same judge at the price of a batch. A batch is a file of lines, one request each; it is uploaded, created, looked at
until it is over, and then its lines are read, in any order. A question has one line, or several where each vote is a
request of its own. `batch_endpoints.py` implements the contract; `run/batch.py` keeps batches in a run folder.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from comparo.data.prompts import Question
from comparo.errors import JudgeError
from comparo.judges.protocol import Judgement

WINDOW = 24  # hours in which OpenAI and Anthropic answer a batch, or let it expire
SHARE = 0.5  # of the ordinary price that a batch costs: half of it at both


class SilentError(JudgeError):
    """A server that gives no answer, which may pass."""


class LostError(JudgeError):
    """A server that does not have a batch, or not all of its results."""


class GarbledError(JudgeError):
    """An answer that is not what the API gives, to a request that may have been done."""


@dataclass(frozen=True, slots=True)
class State:
    """How far a batch is, by its server.

    `status` is the server's own word. `done` lines of `total` were answered or failed. `error` says why the server took
    none of it, and `is_full` that it would take it later, when fewer batches wait there; `room` is then how many tokens
    may wait there at once, where the server states it. `results` is where the lines of a batch that is over are.
    """

    id: str
    status: str
    is_over: bool
    total: int = 0
    done: int = 0
    error: str | None = None
    is_full: bool = False
    room: int | None = None
    results: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the results: the answer to a request with its HTTP status, or the reason why it has none."""

    id: str
    status: int = 200
    body: Any = None
    error: str | None = None


class Batches(Protocol):
    """Batches of one judge, all asked by one prompt; errors that no further try can mend are a JudgeError.

    No batch has more than `most_lines` lines or `most_bytes` bytes. `find` looks for a batch whose
    creation was never confirmed: after `created` (a time in seconds since 1970), of `lines` lines, of the file with
    this id, and none of those that are known to be `others`.
    """

    most_lines: int
    most_bytes: int

    def requests(self, question: Question) -> list[Any] | Judgement:
        """The requests that a question needs, one for each line; a failed judgement where it cannot be asked."""

    def line(self, name: str, request: Any) -> bytes:
        """A line of the file; the name identifies its result."""

    def read(self, question: Question, answers: Sequence[Line]) -> Judgement:
        """What the answers to all requests of a question say."""

    def upload(self, name: str, path: Path) -> str:
        """Upload a file of lines under a name; return its id, "" where lines are sent when the batch is created."""

    def create(self, name: str, file: str, path: Path) -> State:
        """Create the batch; ConnectionError where it is not known whether that was done."""

    def find(self, name: str, file: str, created: float, lines: int, others: Sequence[str]) -> State | None:
        """The batch of this name, None where there is none."""

    def state(self, id: str) -> State:  # noqa: A002
        """How far a batch is."""

    def results(self, state: State) -> Iterator[Line]:
        """The lines of a batch that is over, in any order, perhaps some of them twice or not at all."""

    def cancel(self, id: str) -> None:  # noqa: A002
        """Let the server end a batch early; lines that are answered by then have results."""

    def discard(self, name: str, file: str) -> None:
        """Delete an uploaded file of which no batch was made, if that is possible; `file` may be ""."""

    def close(self) -> None:
        """Close the connections."""
