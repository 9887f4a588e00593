"""Run folders for tests of what is made of them: two contexts of six texts in three groups, judged by simulation."""

from contextlib import closing

from comparo import load_judge, rank
from inside import Run, Store, encode

QUALITY = {f"s{k}": k / 2 for k in range(6)}
ROWS = [
    {
        "id": name,
        "text": f"Answer {name} to {context}." + " Very." * number,
        "context_id": context,
        "context": f"What is {context}?",
        "group": f"g{number % 3}",
        "price": float(number**2 % 5),
    }
    for context in ("x", "y")
    for number, name in enumerate(QUALITY)
]


def run(task, folder=None):
    """The ranking of a task, and its answers."""
    with closing(Store(folder, task.identity, task.configuration)) as store:
        store.add_items(task.items)
        return Run(task, store).go(), list(store.judgements())


def asked(judgements):
    """What was asked and answered, in an order of its own."""
    return sorted(
        (str(one.question.voice), encode(one.question.context), one.question.first, one.question.second, one.p)
        for one in judgements
        if not one.failed
    )


def two_voices(folder, **more):
    """A run of a soft and a hard judge, 60 answers each."""
    judges = [load_judge(f"simulated/{kind}", scores=QUALITY) for kind in ("soft", "hard")]
    return rank(ROWS, "better", judge=judges, budget="10n", out=folder, **more)


def one_voice(folder, rows=ROWS, **more):
    """A run of a soft judge, 60 answers."""
    return rank(
        rows, "better", judge=load_judge("simulated/soft", scores=QUALITY), **{"budget": "5n", "out": folder} | more
    )
