"""The replicas of one judge on a Ray cluster: how they are placed and loaded, and what happens when one dies.

A replica is a Ray actor. When its process dies, Ray restarts it on a node with room, as soon as there is one. A replica
returns first the node on which it was placed, then a description of the judge that it loaded, then answers to batches.
"""

import logging
import re
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

from comparo.data.prompts import Prompt, Question
from comparo.errors import JudgeError, Message, pip_install
from comparo.judges.protocol import Judgement

TICK = 0.5  # most seconds that `poll` waits
DEATHS = 4  # deaths in a row after which a replica is given up, and deaths over one question that are an error
# Most seconds without a placed replica, on a busy cluster and on an idle one; the latter is twice the minute that Ray
# allows a worker process to start.
BUSY, IDLE = 20.0, 120.0
MEMBERS = {"price": None, "cacheable": True, "weights": None} | dict.fromkeys(("chooses", "several", "lines_up"), False)

logger = logging.getLogger(__name__)


def library() -> Any:
    """The module ray; an ImportError with the command that installs it."""
    try:
        import ray
    except ImportError as problem:
        raise ImportError(f"judging on Ray needs ray: {pip_install('ray')}") from problem
    return ray


class Replica:
    """A judge in a process of its own, as a Ray actor."""

    def where(self) -> str:
        return str(library().util.get_node_ip_address())

    def load(self, name: str, options: dict[str, Any]) -> dict[str, Any] | Exception:
        """Load the judge; return its description, or the error."""
        from comparo.judges.loading import load_judge

        try:
            judge = self._judge = load_judge(name, **options)
        except (JudgeError, ValueError, ImportError) as problem:
            return problem
        about = {"name": judge.name, "settings": dict(judge.settings), "ahead": judge.ahead}
        more = {name: getattr(judge, name, default) for name, default in MEMBERS.items()}
        return about | more | {"comparo": version("comparo")}

    def judge(self, questions: list[Question], prompt: Prompt) -> tuple[list[Judgement], JudgeError | None]:
        """The answers to a batch, and the JudgeError that ended the judge, or None."""
        answers: list[Judgement] = []
        try:
            answers.extend(self._judge.judge(questions, prompt))
        except JudgeError as problem:
            return answers, problem
        return answers, None


@dataclass
class Seat:
    """A replica; `coming`: reference to its next reply, None once it is ready; `deaths`: its deaths in a row."""

    number: int
    actor: Any
    coming: Any = None
    node: str = ""
    deaths: int = 0

    @property
    def is_ready(self) -> bool:
        return self.coming is None

    def start(self) -> None:
        """Request the replica's node; Ray repeats the call until the replica is placed."""
        self.node, self.coming = "", self.actor.where.options(max_task_retries=-1).remote()


class Replicas:
    """`count` replicas of the judge `name` with `options`, each with the CPUs and GPUs in `need`.

    `about` is the description of the judge, {} until one is loaded; it must be the same for all replicas.
    """

    def __init__(self, name: str, options: dict[str, Any], count: int, need: Mapping[str, float]) -> None:
        self._ray = library()
        self._spec, self._need = (name, options), need
        self._lock, self._ended = threading.Lock(), False
        self.about: dict[str, Any] = {}
        self._check_places(count)
        free = self._ray.available_resources()
        is_idle = all(free.get(name, 0) >= amount for name, amount in need.items())
        self._patience, self._last_placed = IDLE if is_idle else BUSY, time.monotonic()
        actor = self._ray.remote(Replica).options(
            num_cpus=need["CPU"], num_gpus=need["GPU"], scheduling_strategy="SPREAD", max_restarts=-1
        )
        self._seats = [Seat(number, actor.remote()) for number in range(count)]
        for seat in self._seats:
            seat.start()

    def __len__(self) -> int:
        return len(self._seats)

    @property
    def ready(self) -> list[Seat]:
        """The seats of the replicas that can take questions."""
        return [seat for seat in self._seats if seat.is_ready]

    def ask(self, seat: Seat, questions: list[Question], prompt: Prompt) -> Any:
        """Send a batch to a replica; returns Ray's reference to its answers."""
        with self._lock:
            self._check_not_ended()
            return seat.actor.judge.remote(questions, prompt)

    def poll(self, refs: list[Any]) -> list[tuple[Any, Any]]:
        """(reference, reply) of the answers that arrive within TICK seconds; the reply is a RayError if it is lost."""
        coming = {seat.coming: seat for seat in self._seats if not seat.is_ready}
        answers = []
        for ref, reply in self._read([*coming, *refs]):
            if ref not in coming:
                answers.append((ref, reply))
            elif isinstance(reply, self._ray.exceptions.RayError):
                coming[ref].coming = None
                self.restart(coming[ref], reply)
            else:
                self._go_on(coming[ref], reply)
        self._check_seats()
        return answers

    def restart(self, seat: Seat, problem: Exception) -> None:
        """Wait until Ray has started a dead replica again, or give it up after `DEATHS` in a row."""
        if not seat.is_ready or seat not in self._seats:  # another batch reported its death
            return
        seat.deaths += 1
        is_last = seat.deaths == DEATHS
        where = f" on the Ray node {seat.node}" if seat.node else ""
        fate = f"is not started again after {DEATHS} deaths in a row" if is_last else "is started anew"
        logger.warning("a judge%s died and %s: %s", where, fate, reason(problem))
        if not is_last:
            seat.start()
            return
        self._ray.kill(seat.actor)
        self._seats.remove(seat)
        if not self._seats:
            raise JudgeError(
                f"every judge on Ray died {DEATHS} times in a row: {reason(problem)} Mend that and run the same "
                "command again: what was judged is kept"
            )

    def end(self) -> None:
        """End all replicas; later calls raise a JudgeError."""
        with self._lock:
            self._ended = True
            for seat in self._seats:
                if not seat.node and seat.coming is not None:
                    self._ray.cancel(seat.coming)  # else Ray prints on stdout that it repeats the call
                self._ray.kill(seat.actor)

    def _read(self, refs: list[Any]) -> list[tuple[Any, Any]]:
        found: list[tuple[Any, Any]] = []
        with self._lock:
            self._check_not_ended()
            if self._ray.wait(refs, timeout=TICK)[0]:
                for ref in self._ray.wait(refs, num_returns=len(refs), timeout=0)[0]:
                    try:
                        found.append((ref, self._ray.get(ref)))
                    except self._ray.exceptions.RayTaskError as problem:
                        raise JudgeError(f"the judge on Ray failed: {problem.cause!r}") from problem
                    except self._ray.exceptions.RayError as problem:
                        found.append((ref, problem))
        return found

    def _go_on(self, seat: Seat, reply: Any) -> None:
        """Load the judge of a replica that was placed; check the judge of a replica that has loaded it."""
        if not seat.node:
            seat.node, seat.coming = reply, seat.actor.load.remote(*self._spec)
            return
        if isinstance(reply, Exception):
            raise type(reply)(f"{reply} (on the Ray node {seat.node})")
        known, found = ({**about, **about["settings"]} for about in (self.about or reply, reply))
        known["comparo"] = version("comparo")
        differing = [name for name in known if name != "settings" and found.get(name) != known[name]]
        if differing:
            raise JudgeError(
                f"the judge on the Ray node {seat.node} differs from the others in {', '.join(differing)}; give this "
                "machine and all nodes the same model and versions"
            )
        self.about, seat.coming = reply, None

    def _check_not_ended(self) -> None:
        if self._ended:
            raise JudgeError("the judges on Ray were ended")

    def _check_places(self, count: int) -> None:
        """Raise an error if no node has room for a judge; warn if not all have room, or GPUs are unused."""
        nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"]]
        wanted = {name: amount for name, amount in self._need.items() if amount}
        fitting = 0
        for node in nodes:
            rooms = [int(node.get(name, 0) / amount + 1e-9) for name, amount in wanted.items()]
            fitting += min(rooms, default=count)
        if not fitting:
            raise JudgeError(
                f"no node of the Ray cluster can hold a judge with {_in_words(self._need)}; the nodes have "
                f"{', '.join(map(_in_words, nodes))}. Ask for less by the options gpus or cpus, or add a node"
            )
        if fitting < count:
            logger.warning("%d of the %d judges asked for find a place on the Ray cluster", fitting, count)
        gpus = self._ray.cluster_resources().get("GPU", 0)
        if gpus and not self._need["GPU"] and self._spec[0].startswith(("hf/", "vllm/")):
            remedy = Message("{option.gpus:1} gives each one")
            logger.warning(f"the Ray cluster has {gpus:g} GPUs and the judges use none; " + remedy)

    def _check_seats(self) -> None:
        if any(seat.node for seat in self._seats):
            self._last_placed = time.monotonic()
        if time.monotonic() - self._last_placed > self._patience:
            raise JudgeError(
                f"no judge found a place on the Ray cluster: each needs {_in_words(self._need)}, and "
                f"{_in_words(self._ray.available_resources())} are free. Wait for what else runs there, or ask for "
                "less by the options gpus or cpus"
            )


def _in_words(amounts: Mapping[str, float]) -> str:
    return " and ".join(f"{amounts.get(name, 0):g} {name}" for name in ("CPU", "GPU"))


def reason(problem: Exception) -> str:
    """Ray's message about a death, in one line and without its boilerplate.

    >>> reason(RuntimeError("The actor died. class_name: Replica ip: 10.0.0.1 Out of memory. Some common causes"))
    'The actor died. Out of memory.'
    """
    text = re.sub(r" class_name: (?:(?! class_name: ).)*? ip: \S+", "", " ".join(str(problem).split()))
    return re.split(r" (?:Some common causes|The task may or may not)", text)[0][:400]
