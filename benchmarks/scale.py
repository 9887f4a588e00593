"""Judging on Ray: what more replicas are worth, and what each judgement costs the one process that keeps them.

The judge takes 20 ms for a batch of 8, whatever the machine, so the figures show what is around it: the whole loop,
with random pairs, storing on disk and a plain fit, on a Ray of this machine. The driver's own work is the processor
time of this process, all its threads together.
"""

from __future__ import annotations

import math
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question, criterion_prompt
from comparo.judges import Judgement, ray_judge
from comparo.log.store import Store
from comparo.run.budget import Budget
from comparo.run.loop import Run
from comparo.run.task import Task

SECONDS, BATCH = 0.020, 8
ENTRY = "[comparo.judges]\npatient = benchmarks.scale:load\n"


@dataclass(frozen=True)
class Patient:
    """A judge that takes 20 ms for a batch."""

    name: str = "patient/judge"
    settings: dict[str, Any] = field(default_factory=dict)
    ahead: int = BATCH

    def judge(self, questions: Iterable[Question], prompt: Prompt) -> Iterator[Judgement]:
        stream = iter(questions)
        while batch := list(islice(stream, self.ahead)):
            time.sleep(SECONDS)
            for question in batch:
                p = 0.25 + 0.5 * (str(question.first) < str(question.second))
                yield Judgement(question, p=p, mass=1.0, reply=str(os.getpid()))


def load(model: str) -> Patient:
    return Patient(f"patient/{model}")


def measure(replicas: int, calls: int, items: Items) -> tuple[float, float]:
    """Judgements a second, and seconds of this process's own work for each: the better of two runs."""
    rate, worked = 0.0, math.inf
    with ray_judge("patient/judge", replicas=replicas, cpus=0.1) as judge:
        warm = [Question(k, k + 1) for k in range(BATCH * 20 * replicas)]
        while len({one.reply for one in judge.judge(warm, criterion_prompt("better"))}) < replicas:
            continue  # until every replica is there
        task = Task(
            items, criterion_prompt("better"), judge, Budget.of(calls), strategy="random", orders="one", plain=True
        )
        for _ in range(2):
            with tempfile.TemporaryDirectory() as folder:
                store = Store(Path(folder, "run"), task.identity, task.configuration)
                run = Run(task, store)
                begin, before = time.perf_counter(), time.process_time()
                run.go()
                worked = min(worked, (time.process_time() - before) / calls)
                rate = max(rate, calls / (time.perf_counter() - begin))
                store.close()
    return rate, worked


def main(calls: int = 5_000) -> None:
    """Throughput at 1, 2 and 8 replicas, with as many calls for each replica."""
    items = Items.of([f"Text number {number}. " + "It goes on like this. " * 20 for number in range(5_000)])
    with tempfile.TemporaryDirectory() as folder:
        information = Path(folder, "patient-1.0.dist-info")
        information.mkdir()
        (information / "METADATA").write_text("Metadata-Version: 2.1\nName: patient\nVersion: 1.0\n")
        (information / "entry_points.txt").write_text(ENTRY)
        os.environ["PYTHONPATH"] = os.pathsep.join([folder, *sys.path])  # where the replicas find the judge
        print(f"\n## Ray: a judge of {1000 * SECONDS:.0f} ms for a batch of {BATCH}, the whole loop\n")
        print("| replicas | judgements a second | times one replica |\n| --- | --- | --- |")
        alone = 0.0
        for replicas in (1, 2, 8):
            rate, worked = measure(replicas, calls * replicas, items)
            alone = alone or rate
            print(f"| {replicas} | {rate:.0f} | {rate / alone:.2f} |", flush=True)
        print(f"\nThe driver's own work, with {replicas} replicas: {1000 * worked:.3f} ms a judgement")


if __name__ == "__main__":
    main()
