"""The replicas of one judge on a Ray cluster: how they are placed and loaded, and what happens when one dies.

A replica returns in turn the node on which it was placed, a description of the judge that it loaded, and the answers to
batches. One that dies is started again, on any node that has room for it, now or later.
"""

import logging
import math
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError, pip_install
from comparo.judges.protocol import Judgement

TICK = 0.5  # seconds between two looks at replicas that wait for a place
MEMBERS = {"price": None, "cacheable": True, "weights": None} | dict.fromkeys(("chooses", "several", "lines_up"), False)
# Methods that a judge may have besides `judge`.
PASSED_ON = ("ready", "begins", "shown", "adds", "writes", "probe", "learn")

logger = logging.getLogger(__name__)


def library() -> Any:
    """Ray, or the command that brings it."""
    try:
        import ray
    except ImportError as problem:
        raise ImportError(f"judging on Ray needs ray: {pip_install('ray')}") from problem
    return ray


def in_words(amounts: Mapping[str, float]) -> str:
    """Resources as a sentence has them."""
    return " and ".join(f"{amounts.get(name, 0):g} {name}" for name in ("CPU", "GPU"))


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds to wait for replicas.

    `pauses` come before a replica is started again after its first, second, … death in a row; after one more death it
    is given up. The later ones give a node time to restart. A first place must be found in `busy` seconds on a cluster
    in use, less than half a minute, and in `idle` seconds on an idle one: twice the minute in which Ray lets a worker
    process start.
    """

    pauses: tuple[float, ...] = (0.0, 5.0, 20.0)
    busy: float = 20.0
    idle: float = 120.0


class Replica:
    """A judge in a process of its own, as a Ray actor."""

    def where(self) -> str:
        return str(library().util.get_node_ip_address())

    def load(self, name: str, options: dict[str, Any]) -> dict[str, Any] | Exception:
        """Load the judge; its description, or the error."""
        from comparo.judges.loading import load_judge

        try:
            judge = self._judge = load_judge(name, **options)
            self._learnt: Mapping[str, Any] | None = None
        except (JudgeError, ValueError, ImportError) as problem:
            return problem
        about = {"name": judge.name, "settings": dict(judge.settings), "ahead": judge.ahead}
        more = {name: getattr(judge, name, default) for name, default in MEMBERS.items()}
        methods = [method for method in PASSED_ON if hasattr(judge, method)]
        return about | more | {"methods": methods, "comparo": version("comparo")}

    def call(self, method: str, *arguments: Any) -> Any:
        """What another method of the judge returns, or the error that it raises."""
        try:
            return getattr(self._judge, method)(*arguments)
        except (JudgeError, ValueError, ImportError) as problem:
            return problem

    def judge(
        self, questions: list[Question], prompt: Prompt, learnt: Mapping[str, Any] | None
    ) -> tuple[list[Judgement], JudgeError | None, float]:
        """The answers to a batch; what ended the judge, if anything; seconds.

        What a probe has `learnt` is taken over before the first batch after it.
        """
        if learnt is not None and learnt != self._learnt:
            self._judge.learn(learnt)  # type: ignore[attr-defined]  # a judge with a probe has it
            self._learnt = learnt
        answers: list[Judgement] = []
        begin, problem = time.perf_counter(), None
        try:
            answers.extend(self._judge.judge(questions, prompt))
        except JudgeError as error:
            problem = error
        return answers, problem, time.perf_counter() - begin


@dataclass
class Seat:
    """One of the replicas, also when its process was replaced: `coming` is its next answer until it is ready.

    It has no actor until the time `start`.
    """

    number: int
    start: float
    actor: Any = None
    coming: Any = None
    node: str = ""
    ready: bool = False
    deaths: int = 0


class Replicas:
    """So many replicas of the judge `name` with `options`, each with the CPUs and GPUs that it needs.

    `about` says what the judge is, as soon as one is loaded; all must be the same. What a probe of one of them has
    `learnt` goes with each batch, also to one that is started later.
    """

    def __init__(
        self, name: str, options: dict[str, Any], count: int, need: Mapping[str, float], patience: Patience
    ) -> None:
        self._ray = library()
        self._spec, self._need, self._pauses = (name, options), need, patience.pauses
        self._lock, self._ended = threading.Lock(), False
        self.about: dict[str, Any] = {}
        self.learnt: Mapping[str, Any] | None = None
        self._check_places(count)
        free = self._ray.available_resources()
        is_idle = all(free.get(name, 0) >= amount for name, amount in need.items())
        self._first_place = patience.idle if is_idle else patience.busy
        self._seats = [Seat(number, time.monotonic()) for number in range(count)]
        self._fill_seats()

    def __len__(self) -> int:
        return len(self._seats)

    @property
    def ready(self) -> list[Seat]:
        """The seats of those that can be asked."""
        return [seat for seat in self._seats if seat.ready]

    def ask(self, seat: Seat, questions: list[Question], prompt: Prompt) -> Any:
        """Send a batch to a replica; returns Ray's reference to its answers."""
        with self._lock:
            self._check_not_ended()
            return seat.actor.judge.remote(questions, prompt, self.learnt)

    def call(self, method: str, *arguments: Any) -> Any:
        """What a method of the judge returns in the first replica that is ready; what it raises is raised here."""
        while not self.ready:
            self.poll([])
        seat = self.ready[0]
        ref = seat.actor.call.remote(method, *arguments)
        while not (found := self.poll([ref])):
            pass
        [(_, reply)] = found
        if self.lost(reply):
            self.replace(seat, reply)
            return self.call(method, *arguments)
        _raise_error(reply, seat)
        return reply

    def poll(self, refs: list[Any]) -> list[tuple[Any, Any]]:
        """The answers that have arrived, after waiting TICK seconds at most; a RayError for one that is lost."""
        self._fill_seats()
        words = {seat.coming: seat for seat in self._seats if seat.coming is not None}
        answers = []
        for ref, reply in self._read([*words, *refs]):
            seat = words.get(ref)
            if seat is None:
                answers.append((ref, reply))
            elif self.lost(reply):
                self.replace(seat, reply)
            else:
                self._go_on(seat, reply)
        self._check_seats()
        return answers

    def lost(self, reply: Any) -> bool:
        """Whether Ray returned an error in place of an answer."""
        return isinstance(reply, self._ray.exceptions.RayError)

    def replace(self, seat: Seat, problem: Exception) -> None:
        """Replace a replica that died, at once or after a pause; after too many deaths in a row, not at all."""
        self._ray.kill(seat.actor)
        pause = self._pauses[seat.deaths] if seat.deaths < len(self._pauses) else math.inf
        seat.deaths += 1
        seat.start, seat.actor, seat.coming, seat.ready = time.monotonic() + pause, None, None, False
        where = f" on the Ray node {seat.node}" if seat.node else ""
        fate = "is started anew" if pause < math.inf else f"is not started again after {seat.deaths} deaths in a row"
        logger.warning("a judge%s died and %s: %s", where, fate, reason(problem))
        if all(other.start == math.inf for other in self._seats):
            raise JudgeError(
                f"every judge on Ray died {seat.deaths} times in a row: {reason(problem)} Mend that and run the same "
                "command again: what was judged is kept"
            )

    def end(self) -> None:
        """End them all; later calls raise a JudgeError."""
        with self._lock:
            self._ended = True
            for seat in self._seats:
                if seat.actor is not None:
                    self._ray.kill(seat.actor)

    def _fill_seats(self) -> None:
        replica = self._ray.remote(Replica).options(
            num_cpus=self._need["CPU"], num_gpus=self._need["GPU"], scheduling_strategy="SPREAD"
        )
        for seat in self._seats:
            if seat.actor is None and time.monotonic() >= seat.start:
                seat.actor, seat.node = replica.remote(), ""
                seat.coming = seat.actor.where.remote()

    def _read(self, refs: list[Any]) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        with self._lock:
            self._check_not_ended()
            if not refs:
                time.sleep(TICK)
            elif self._ray.wait(refs, timeout=TICK)[0]:
                for ref in self._ray.wait(refs, num_returns=len(refs), timeout=0)[0]:
                    try:
                        found.append((ref, self._ray.get(ref)))
                    except self._ray.exceptions.RayTaskError as problem:
                        raise JudgeError(f"the judge on Ray failed: {problem.cause!r}") from problem
                    except self._ray.exceptions.RayError as problem:
                        found.append((ref, problem))
        return found

    def _go_on(self, seat: Seat, reply: Any) -> None:
        """The next step of a replica that was placed, or that has loaded its judge."""
        if not seat.node:
            seat.node, seat.coming = reply, seat.actor.load.remote(*self._spec)
            return
        _raise_error(reply, seat)
        here = version("comparo")
        if reply["comparo"] != here:
            raise JudgeError(
                f"the Ray node {seat.node} has comparo {reply['comparo']} and this machine {here}; install the same"
            )
        if self.about and reply != self.about:
            before, now = ({**about, **about["settings"]} for about in (self.about, reply))
            differing = [name for name in before | now if before.get(name) != now.get(name) and name != "settings"]
            raise JudgeError(
                f"the judge on the Ray node {seat.node} differs from the others in {', '.join(differing)}; give all "
                "nodes the same model and versions"
            )
        self.about, seat.coming, seat.ready = reply, None, True

    def _check_not_ended(self) -> None:
        if self._ended:
            raise JudgeError("the judges on Ray were ended")

    def _check_places(self, count: int) -> None:
        """An error where no node has room for a judge; a warning where there is no room for all, or GPUs are unused."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        wanted = {name: amount for name, amount in self._need.items() if amount}
        rooms = ((int(node.get(name, 0) / amount + 1e-9) for name, amount in wanted.items()) for node in nodes)
        fitting = sum(min(room, default=count) for room in rooms)
        if not fitting:
            raise JudgeError(
                f"no node of the Ray cluster can hold a judge with {in_words(self._need)}; the nodes have "
                f"{', '.join(map(in_words, nodes))}. Ask for less by the options gpus or cpus, or add a node"
            )
        if fitting < count:
            logger.warning("%d of the %d judges asked for find a place on the Ray cluster", fitting, count)
        gpus = self._ray.cluster_resources().get("GPU", 0)
        if gpus and not self._need["GPU"] and self._spec[0].startswith(("hf/", "vllm/")):
            logger.warning("the Ray cluster has %g GPUs and the judges use none; gpus=1 gives each one", gpus)

    def _check_seats(self) -> None:
        """An error where no replica has found a place for too long."""
        there = [seat for seat in self._seats if seat.start < math.inf]
        newest = max(seat.start for seat in there)
        if any(seat.actor is not None and seat.node for seat in there) or time.monotonic() - newest < self._first_place:
            return
        raise JudgeError(
            f"no judge found a place on the Ray cluster: each needs {in_words(self._need)}, and "
            f"{in_words(self._ray.available_resources())} are free. Wait for what else runs there, or ask for less by "
            "the options gpus or cpus"
        )


def _raise_error(reply: Any, seat: Seat) -> None:
    """Raise what a replica's judge raised, with its node; nothing where the reply is no error."""
    if isinstance(reply, Exception):
        raise type(reply)(f"{reply} (on the Ray node {seat.node})")


def reason(problem: Exception) -> str:
    """Ray's message about a death, in one line and without the parts that are the same for all.

    >>> reason(RuntimeError("The actor died. class_name: Replica ip: 10.0.0.1 Out of memory. Some common causes"))
    'The actor died. Out of memory.'
    """
    text = re.sub(r" class_name: .*? ip: \S+", "", " ".join(str(problem).split()))
    return re.split(r" (?:Some common causes|The task may or may not)", text)[0][:400]
