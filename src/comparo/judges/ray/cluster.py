"""Connects to Ray: to a running cluster, or to one of this machine alone that ends with the judge.

A missing cluster is an error within half a minute; Ray itself would try to reach it for a quarter of an hour.
"""

import logging
import os
import socket
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from comparo.errors import JudgeError, pip_install

LOOK = 5.0  # seconds for a cluster's head to answer: Linux repeats a lost first packet after 1 and 3 s
JOIN = 20.0  # seconds for Ray to join a cluster; with LOOK, less than half a minute
STORE = 200_000_000  # bytes of shared memory for a Ray of our own, for questions and answers; Ray needs 79 million
# The first bytes of a client of HTTP/2, and so of Ray's head (RFC 9113, 3.4); the answer begins with a frame of type 4.
GREETING = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
REMEDY = (
    "check that `ray start --head` runs there, that the port is the one it printed (6379) and that no firewall bars it"
)


def library() -> Any:
    """Ray, or the command that brings it."""
    try:
        import ray
    except ImportError as problem:
        raise ImportError(f"judging on Ray needs ray: {pip_install('ray')}") from problem
    return ray


def join(address: str | None) -> Callable[[], None]:
    """Connect this process to Ray; the function returned ends the connection, if it was made here.

    `address` is HOST:PORT of the cluster's head, "auto" for the cluster that this machine belongs to, "local" for a Ray
    of this machine alone. Without one, it is the Ray that the process is connected to, else the environment's
    RAY_ADDRESS, else "local".

    >>> join("somewhere")
    Traceback (most recent call last):
    ValueError: the Ray address 'somewhere' is not HOST:PORT, auto or local
    """
    if address is None and library().is_initialized():
        return lambda: None
    wanted = address or os.environ.get("RAY_ADDRESS") or "local"
    if wanted not in ("auto", "local"):
        look(wanted)
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
        reason = " ".join(str(problem).split()).rstrip(".") or "no answer"
        raise JudgeError(
            f"the Ray cluster at {wanted} cannot be joined: {reason}; check that its head runs, and that this machine "
            "is a node of it: `ray start --address=HEAD:6379` makes it one"
        ) from problem
    return lambda: ray.shutdown()


def _in_time(call: Callable[[], object]) -> None:
    """Make a call; a TimeoutError after JOIN seconds, when the call may continue in a daemon thread."""
    done: Future[object] = Future()

    def make() -> None:
        try:
            done.set_result(call())
        except BaseException as problem:  # raised where the result is read
            done.set_exception(problem)

    threading.Thread(target=make, name="ray", daemon=True).start()
    done.result(JOIN)


def look(address: str, seconds: float = LOOK) -> None:
    """Raise a JudgeError unless the head of a Ray cluster answers at HOST:PORT within so many seconds."""
    if address.startswith("ray://"):
        raise ValueError(
            f"{address} is Ray's client port; run comparo on a node of the cluster, with HOST:6379 or auto"
        )
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        raise ValueError(f"the Ray address {address!r} is not HOST:PORT, auto or local")
    try:
        with socket.create_connection((host.strip("[]"), int(port)), timeout=seconds) as connection:
            if os.environ.get("RAY_USE_TLS") == "1":
                return
            connection.sendall(GREETING)
            with connection.makefile("rb") as answer:
                frame = answer.read(9)
    except OSError as problem:
        reason = "no answer" if isinstance(problem, TimeoutError) else problem.strerror or problem
        raise JudgeError(f"the Ray cluster at {address} cannot be reached: {reason}; {REMEDY}") from problem
    if frame[3:4] != b"\x04":
        raise JudgeError(f"what answers at {address} is not the head of a Ray cluster; {REMEDY}")


def places(need: Mapping[str, float]) -> int | None:
    """How many judges that each need so much fit on the nodes of the cluster, if these were idle; None: no limit."""
    wanted = {name: amount for name, amount in need.items() if amount}
    if not wanted:
        return None
    nodes = [node["Resources"] for node in library().nodes() if node["Alive"]]
    return sum(min(int(node.get(name, 0) / amount + 1e-9) for name, amount in wanted.items()) for node in nodes)


def free(need: Mapping[str, float]) -> bool:
    """Whether the cluster has now as much free as a judge needs."""
    there = library().available_resources()
    return all(there.get(name, 0) >= amount for name, amount in need.items())


def in_words(amounts: Mapping[str, float]) -> str:
    """Resources as a sentence has them."""
    return " and ".join(f"{amounts.get(name, 0):g} {name}" for name in ("CPU", "GPU"))
