"""What the loop itself costs: selection, storing and fitting for 10,000 items and 100,000 calls."""

import tempfile
import time
from pathlib import Path

from comparo.data.items import Items
from comparo.data.prompts import Question, criterion_prompt
from comparo.judges import load_judge
from comparo.run.budget import Budget
from comparo.run.loop import Run
from comparo.run.store import Store
from comparo.run.task import Task


def main(items: int = 10_000, calls: int = 100_000) -> None:
    judge = load_judge("simulated/soft")
    begin = time.perf_counter()
    for _ in judge.judge(Question(number % items, number % 7 + items) for number in range(calls)):
        pass
    alone = time.perf_counter() - begin
    texts = Items.of([f"Text number {number}." for number in range(items)])
    print(
        f"\n## Loop: {items:,} items, {calls:,} calls of the simulated judge ({1000 * alone / calls:.2f} ms a call)\n"
    )
    print("| strategy | ms a call beyond the judge's |\n| --- | --- |")
    for strategy in ("random", "greedy", "adaptive"):
        task = Task(texts, criterion_prompt("better"), judge, Budget.of(calls), strategy=strategy)
        with tempfile.TemporaryDirectory() as folder:
            begin = time.perf_counter()
            store = Store(Path(folder, "run"), task.identity, task.configuration)
            store.add_items(texts)
            Run(task, store).go()
            store.close()
            print(f"| {strategy} | {1000 * (time.perf_counter() - begin - alone) / calls:.2f} |", flush=True)


if __name__ == "__main__":
    main()
