"""Batches of questions, in a run folder and at a server: each step is stored before the request that depends on it.

    planned     the questions of the batch and its name are stored; nothing was requested
    uploaded    the server's id of the file, or of the newest batch, is stored; nothing can have been created
    sent        the time is stored, then the creation is requested: from here on a batch may exist
    created     the server's id of the batch is stored
    closed      the judgements of all its questions are stored

A batch that was sent but has no stored id is searched at the server before its questions are sent again.
"""

from __future__ import annotations

import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from uuid import uuid4

from comparo.data.prompts import Question
from comparo.errors import JudgeError, Message
from comparo.judges import Judgement
from comparo.judges.batch_endpoints import Batches
from comparo.judges.batches import LostError, ResultLine, State
from comparo.log.files import OWNER, explained, now
from comparo.log.questions import BatchStore, OpenBatch
from comparo.log.store import Store

UNANSWERED = "unanswered in the batch: "  # begins the error of a question that can be asked again in another batch
CREATIONS = 3  # unconfirmed requests to create a batch after which the run ends
CHUNK = 200  # judgements that are stored at once
DOWNLOADS = 3  # of results that contradict the server's own count, before an error is raised
EXPIRED = "expired"  # status of a batch that was not answered in time
CANCELLED = ("cancelled", "canceled")  # statuses of a batch that was ended early
PASSING = (408, 409, 429)  # HTTP statuses of a line, besides 500 and more, that are worth a retry


@dataclass(frozen=True)
class Pauses:
    """Seconds between polls of a batch, at first (`first`) and at most (`longest`), until a requested batch is in the
    server's list (`settle`), and before a full server is tried again (`full`).
    """

    first: float = 2.0
    longest: float = 60.0
    settle: float = 30.0
    full: float = 300.0


class Courier:
    """Packs questions into batches, takes them to the server and brings judgements back.

    `texts` adds the texts to a question of the folder. A process may end within any method: `resume` of the next
    process goes on.
    """

    def __init__(self, store: Store, server: Batches, texts: Callable[[Question], Question], pauses: Pauses) -> None:
        self._store, self.server, self._texts, self._pauses = store, server, texts, pauses
        self.batches = BatchStore(store)

    def resume(self) -> list[OpenBatch]:
        """The batches that may be at the server; those of earlier starts that were never sent are dropped."""
        for path in self._folder.glob(".*.jsonl"):
            path.unlink(missing_ok=True)
        batches = self.batches.open()
        for batch in batches:
            if batch.sent is None:
                self.batches.drop(batch)
        return [batch for batch in batches if batch.sent is not None]

    def pack(self, pool: deque[Question], most: int, refuse: Callable[[Judgement], None]) -> OpenBatch | None:
        """Move up to `most` questions from `pool` to a new batch, or as many as one batch may hold.

        Its lines are written to a file. Questions that cannot be asked go to `refuse` as failed judgements; None where
        there are no others.
        """
        name, size, lines = uuid4().hex[:16], 0, 0
        path, asked = self._path(name), list[tuple[Question, int]]()
        with (
            explained(self._folder),
            os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER), "wb") as file,
        ):
            while pool and len(asked) < most:
                requests = self.server.requests(pool[0])
                if isinstance(requests, Judgement):
                    pool.popleft()
                    refuse(requests)
                    continue
                text = b"".join(
                    self.server.line(f"{name}-{len(asked)}-{number}", each) for number, each in enumerate(requests)
                )
                lines, size = lines + len(requests), size + len(text)
                if asked and (lines > self.server.most_lines or size > self.server.most_bytes):
                    break
                asked.append((pool.popleft(), len(requests)))
                file.write(text)
        if not asked:
            path.unlink()
            return None
        return self.batches.plan(name, asked)

    def send(self, batch: OpenBatch) -> OpenBatch:
        """Upload the lines of a batch and create it; its id is None where the server did not confirm the creation."""
        path = self._path(batch.name)
        try:
            batch = self.batches.update(batch, file=self.server.upload(batch.name, path), status="uploaded")
            batch = self.batches.update(batch, sent=time.time(), status="sent")
            return self.batches.seen(batch, self.server.create(batch.name, batch.file, path))
        except ConnectionError:
            return batch
        except JudgeError:
            self.batches.drop(batch)
            raise
        finally:
            path.unlink(missing_ok=True)

    def look_at(self, batch: OpenBatch) -> tuple[OpenBatch, State] | None:
        """The batch and its state at the server; None where the server does not have it: then it is dropped."""
        state = self.server.state(batch.id) if batch.id else self._find(batch)
        if state is None:
            self.batches.drop(batch)
            return None
        return self.batches.seen(batch, state), state

    def _find(self, batch: OpenBatch) -> State | None:
        """Search for a batch whose creation was not confirmed, for `settle` seconds."""
        end = time.monotonic() + self._pauses.settle
        while (state := self.server.find(batch.name, batch.file, batch.lines)) is None:
            if (left := end - time.monotonic()) <= 0:
                return None
            time.sleep(min(left, 1.0))
        return state

    def answers(self, batch: OpenBatch, state: State) -> Iterator[list[Judgement]]:
        """Store and yield the judgements of a finished batch, then close it.

        A question without an answer gets a failed judgement, or none if the batch was cancelled. Where the server
        counts more answers than its results hold, the results are downloaded again. If they still lack some, the others
        are stored, the batch stays open, and a LostError is raised.
        """
        for download in range(DOWNLOADS):
            if download:
                time.sleep(self._pauses.first)
                state = self.server.state(str(batch.id))
            judged, missing = self._collect(batch, state)
            is_whole = state.status not in (*CANCELLED, EXPIRED)
            counted = min(state.done, batch.lines) or (batch.lines if is_whole else 0)
            if is_certain := missing <= batch.lines - counted:
                break
        left = [number for number in batch.questions if number not in judged]
        if is_certain and state.status not in CANCELLED:
            why = "it expired" if state.status == EXPIRED else "there is no line about it in the results"
            judged |= {number: Judgement(batch.questions[number][0], error=UNANSWERED + why) for number in left}
        ready = list(judged.items())
        for begin in range(0, max(1, len(ready)), CHUNK):
            yield self.batches.keep(batch, ready[begin : begin + CHUNK])
        if not is_certain:
            raise LostError(
                f"the results of batch {batch.id} ({state.status}, {state.done:,} of {batch.lines:,} done "
                f"by the server's count) lack {missing:,} lines. All other answers are kept, and nothing "
                "was asked again. Run the same command later to download them once more; "
                + Message("{batch:'cancel'} gives them up, ")
                + f"and then the same command asks {len(left):,} questions again, and pays for them again"
            )
        self.batches.update(batch, closed=now(), status=state.status)

    def _collect(self, batch: OpenBatch, state: State) -> tuple[dict[int, Judgement], int]:
        """The judgements in the results of a batch by question number, and the number of missing lines.

        Lines of other batches and of questions judged in an earlier start are left out. Of several lines of one request
        the first good one counts, wherever it stands, else the first.
        """
        judged: dict[int, Judgement] = {}
        waiting: dict[int, dict[int, ResultLine]] = {number: {} for number in batch.questions}
        for line in self.server.results(state):
            found = re.fullmatch(rf"{batch.name}-(\d{{1,9}})-(\d{{1,9}})", line.id)
            number, copy = map(int, found.groups()) if found else (-1, 0)
            if number not in waiting:
                continue
            question, lines = batch.questions[number]
            if copy >= lines:
                continue
            parts = waiting[number]
            parts[copy] = max(parts.get(copy, line), line, key=lambda one: one.is_good)
            if len(parts) == lines and all(one.is_good for one in parts.values()):
                judged[number] = self._read(question, waiting.pop(number))
        missing = 0
        for number, parts in waiting.items():
            question, lines = batch.questions[number]
            missing += lines - len(parts)
            if len(parts) == lines:
                judged[number] = self._read(question, parts)
        return judged, missing

    def _read(self, question: Question, parts: Mapping[int, ResultLine]) -> Judgement:
        answers = [parts[copy] for copy in sorted(parts)]
        judgement = self.server.read(self._texts(question), answers)
        passes = any(one.error is not None or one.status in PASSING or one.status >= 500 for one in answers)
        if judgement.failed and passes:
            return replace(judgement, error=f"{UNANSWERED}{judgement.error}")
        return judgement

    def _path(self, name: str) -> Path:
        return self._folder / f".{name}.jsonl"

    @property
    def _folder(self) -> Path:
        assert self._store.folder is not None
        return self._store.folder
