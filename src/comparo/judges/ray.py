"""Replicas of one judge on the machines of a Ray cluster, because judging takes most of a run's time.

Only the replicas load the judge. This process sends them the questions in batches and receives the answers. Each
replica has two batches, so that it is never idle. The questions of a replica that died are sent again, so each gets one
answer. Only this process writes to the run folder.

The cluster is a running one, or one on this machine alone that ends with the judge. A missing cluster is an error
within half a minute; Ray itself would try to reach it for a quarter of an hour.
"""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from itertools import islice
from operator import attrgetter
from typing import Any

from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError
from comparo.judges.protocol import Judgement
from comparo.judges.ray_replicas import DEATHS, MEMBERS, Replicas, Seat, library, reason
from comparo.judges.servers import SERVERS

AT_ONCE = 2  # batches in flight per replica: the one that it judges, and the next
LOOK = 5.0  # seconds for a cluster's head to answer: Linux repeats a lost first packet after 1 and 3 s
JOIN = 20.0  # seconds for Ray to join a cluster; with LOOK, less than half a minute
STORE = 200_000_000  # bytes of shared memory of a "local" Ray, for questions and answers; Ray requires 79 million
REMEDY = (
    "check that `ray start --head` runs there, that the port is the one it printed (6379), that no firewall bars it "
    "and that this machine is a node: `ray start --address=HEAD:6379` makes it one"
)

Flying = dict[Any, tuple[Seat, list[Question]]]  # Ray's reference to the answers → replica and questions

_pair = attrgetter("context", "first", "second")


def ray_judge(
    name: str,
    options: Mapping[str, Any] | None = None,
    *,
    replicas: int = 1,
    gpus: float = 0.0,
    cpus: float = 1.0,
    address: str | None = None,
) -> RayJudge:
    """A judge in several processes on a Ray cluster; comparo and the judge's packages are installed on every node.

    Parameters
    ----------
    name, options
        The judge, as for `load_judge`; not one that asks a server, which takes as many calls from one process.
    replicas
        How many processes. Fewer are used where the cluster has no room for all.
    gpus, cpus
        What each replica reserves; a part of a GPU is possible.
    address
        HOST:PORT of the cluster, or "auto" for that of this machine. Without it, and without RAY_ADDRESS in the
        environment, a Ray of this machine alone is started, which ends with the judge.

    Raises
    ------
    ValueError
        The judge asks a server, or a number is outside its range.
    JudgeError
        The cluster cannot be reached, has no room for any replica, or the judge cannot be loaded there.

    Examples
    --------
        with ray_judge("vllm/Qwen/Qwen2.5-7B-Instruct", replicas=8, gpus=1, address="auto") as judge:
            comparo.rank(texts, "more coherent", judge=judge)

    >>> ray_judge("simulated/soft", replicas=0)
    Traceback (most recent call last):
    ValueError: replicas = 0 is not a whole number from 1 up
    """
    if name.partition("/")[0] in SERVERS:
        raise ValueError(
            f"{name} asks a server, which takes the calls of one process: leave engine out, and concurrency (up to "
            "1000) says how many are asked at once"
        )
    if replicas != int(replicas) or replicas < 1:
        raise ValueError(f"replicas = {replicas} is not a whole number from 1 up")
    for resource, amount in (("gpus", gpus), ("cpus", cpus)):
        if not amount >= 0 or (amount > 1 and amount != int(amount)):
            raise ValueError(f"{resource} = {amount} is not a whole number from 0 up, or a part of one")
    return RayJudge(name, dict(options or {}), int(replicas), {"CPU": cpus, "GPU": gpus}, address)


class RayJudge:
    """Replicas of one judge that implement `Judge`; made by `ray_judge`, ended by `close` or a `with` block.

    Name, settings, `ahead` and the `MEMBERS` are those of the replicated judge, so a run and its folder are the same on
    one machine and on many. Its only method of the protocol is `judge`: no probe precedes the questions. `room` is how
    many questions all replicas together take at once. It has no `streams`: a batch waits until it is full or the
    questions end.
    """

    def __init__(
        self,
        name: str,
        options: dict[str, Any],
        replicas: int,
        need: Mapping[str, float],
        address: str | None,
    ) -> None:
        self._end = ExitStack()
        try:
            self._end.callback(join(address))
            self._replicas = Replicas(name, options, replicas, need)
            self._end.callback(self._replicas.end)
            while not self._replicas.about:
                self._replicas.poll([])
        except BaseException:
            self.close()
            raise
        about = self._replicas.about
        self.name, self.settings = str(about["name"]), about["settings"]
        for member in MEMBERS:
            setattr(self, member, about[member])
        # Not multiplied by `replicas`: a run's rounds depend on `ahead`, and must be the same for any number.
        self.ahead = int(about["ahead"])
        self.room = (AT_ONCE + 1) * replicas * self.ahead
        self._losses: Counter[Any] = Counter()

    def __enter__(self) -> RayJudge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the replicas, and Ray if it was started here."""
        self._end.close()

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        stream, ended, count = iter(questions), False, 0
        waiting, flying = QuestionBatches(), Flying()
        while True:
            while not ended and count < (AT_ONCE + 1) * len(self._replicas) * self.ahead:
                pulled = list(islice(stream, 1))
                ended = not pulled
                waiting.add(pulled)
                count += len(pulled)
            if not count:
                return
            self._hand_out(waiting, flying, prompt)
            for ref, reply in self._replicas.poll(list(flying)):
                seat, asked = flying.pop(ref)
                if isinstance(reply, Exception):
                    self._count_losses(asked, reply)
                    waiting.add(asked)
                    waiting.move(seat.number)
                    self._replicas.restart(seat, reply)
                    continue
                seat.deaths = 0
                answers, problem = reply
                yield from answers
                if problem is not None:
                    raise problem
                if len(answers) != len(asked):
                    raise JudgeError(f"{self.name} gave {len(answers)} answers to {len(asked)} questions")
                count -= len(asked)

    def _hand_out(self, waiting: QuestionBatches, flying: Flying, prompt: Prompt) -> None:
        """Send a batch to each replica that has none, then to each that has one."""
        ready = self._replicas.ready
        busy = Counter(seat.number for seat, _ in flying.values())
        for batches in range(AT_ONCE):
            for seat in ready:
                if len(waiting) and busy[seat.number] == batches:
                    batch = waiting.take(seat.number, len(ready), self.ahead)
                    flying[self._replicas.ask(seat, batch, prompt)] = seat, batch
                    busy[seat.number] += 1

    def _count_losses(self, asked: list[Question], problem: Exception) -> None:
        self._losses.update(map(_pair, asked))
        worst = max(asked, key=lambda question: self._losses[_pair(question)])
        if self._losses[_pair(worst)] >= DEATHS:
            raise JudgeError(
                f"a judge died {DEATHS} times over the same questions, such as {worst.first!r} against "
                f"{worst.second!r}: {reason(problem)}"
            )


def join(address: str | None) -> Callable[[], None]:
    """Connect this process to Ray; return a function that ends the connection, if this call made it.

    `address` is HOST:PORT of the cluster's head, "auto" for the cluster that this machine belongs to, "local" for a Ray
    on this machine alone. The default is the Ray that the process is connected to, else the environment's RAY_ADDRESS,
    else "local".

    >>> join("somewhere")
    Traceback (most recent call last):
    ValueError: the Ray address 'somewhere' is not HOST:PORT, auto or local
    """
    if address is None and library().is_initialized():
        return lambda: None
    wanted = address or os.environ.get("RAY_ADDRESS") or "local"
    if wanted not in ("auto", "local"):
        _look(wanted)
    ray = library()
    if ray.is_initialized():
        there = ray.get_runtime_context().gcs_address
        if wanted not in ("auto", there):
            raise JudgeError(f"this process is connected to Ray at {there} already; ray.shutdown() leaves it")
        return lambda: None
    options: dict[str, Any] = {"address": wanted, "log_to_driver": False, "logging_level": logging.ERROR}
    if wanted == "local":
        options |= {"include_dashboard": False, "object_store_memory": STORE}
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        if wanted == "local":
            ray.init(**options)
        else:
            _in_time(lambda: ray.init(**options))
    except (OSError, RuntimeError, ValueError) as problem:
        if wanted == "local":
            raise JudgeError(f"Ray cannot be started on this machine: {problem}") from problem
        raise _unreachable(wanted, problem) from problem
    return lambda: ray.shutdown()


def _in_time(call: Callable[[], object]) -> None:
    """Run `call` in a daemon thread; raise a TimeoutError after JOIN seconds, without stopping the thread."""
    done: Future[object] = Future()

    def make() -> None:
        try:
            done.set_result(call())
        except BaseException as problem:  # raised where the result is read
            done.set_exception(problem)

    threading.Thread(target=make, name="ray", daemon=True).start()
    done.result(JOIN)


def _look(address: str) -> None:
    """Raise a JudgeError unless HOST:PORT takes a connection within LOOK seconds."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"the Ray address {address!r} is not HOST:PORT, auto or local")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK).close()
    except OSError as problem:
        raise _unreachable(address, problem) from problem


def _unreachable(address: str, problem: Exception) -> JudgeError:
    why = " ".join(str(problem).split()).rstrip(".") or "no answer"
    return JudgeError(f"the Ray cluster at {address} cannot be joined: {why}; {REMEDY}")


class QuestionBatches:
    """Waiting questions, handed out in batches.

    A judge reads the common prefix of the questions of one context once. So a batch has whole contexts as far as
    possible, and a context goes to the judge that had it before, unless another would be idle.

    >>> shares = QuestionBatches()
    >>> shares.add(Question(first, second, context) for first, second in ("ab", "bc") for context in ("x", "y"))
    >>> [(question.context, question.first) for question in shares.take(0, among=2, most=4)]
    [('x', 'a'), ('x', 'b')]
    """

    def __init__(self) -> None:
        self._waiting: dict[Any, list[Question]] = {}
        self._home: dict[Any, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, questions: Iterable[Question]) -> None:
        for question in questions:
            self._waiting.setdefault(question.context, []).append(question)
            self._count += 1

    def move(self, judge: int) -> None:
        """Release the contexts of a judge that died, for the others."""
        self._home = {context: home for context, home in self._home.items() if home != judge}

    def take(self, judge: int, among: int, most: int) -> list[Question]:
        """A batch for one of `among` judges: its share of the waiting questions, at most `most`.

        The judge's own contexts come first, then those that no judge had. Contexts of other judges, and parts of a
        context, fill a batch that is less than half full.
        """
        size = min(most, -(-self._count // among))
        batch: list[Question] = []
        for context in sorted(self._waiting, key=lambda context: self._distance(context, judge)):
            there, room = self._waiting[context], size - len(batch)
            if 2 * len(batch) >= size and (len(there) > room or self._distance(context, judge) == 2):
                continue
            batch += there[:room]
            if there[room:]:
                self._waiting[context] = there[room:]
                self._home.setdefault(context, judge)
            else:
                del self._waiting[context]
                self._home[context] = judge
        self._count -= len(batch)
        return batch

    def _distance(self, context: Any, judge: int) -> int:
        home = self._home.get(context)
        return 1 if home is None else 0 if home == judge else 2
