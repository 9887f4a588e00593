"""The files and run folders that the commands of the pages name; texts have a number, and the higher is better."""

from __future__ import annotations

import csv
import gzip
import json
import math
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np

QUESTIONS, MODELS = [f"What is a {thing}?" for thing in ("map", "mill", "moor", "mast")], ("gpt-a", "gpt-b", "gpt-c")
Row = dict[str, Any]


def sized(number: int) -> str:
    """The end of a text, so that the lengths differ."""
    return " It goes on." * (number * 7 % 5)


def texts(kind: str, size: int, start: int = 0) -> list[Row]:
    numbers = range(start, start + size)
    return [{"id": f"t{number}", "text": f"{kind} number {number}.{sized(number)}"} for number in numbers]


def summaries() -> list[Row]:
    articles = [f"An article about {topic}." for topic in ("owls", "rain")]
    return [row | {"article": articles[place // 6]} for place, row in enumerate(texts("Summary", 12))]


def answers() -> list[Row]:
    """The answers of three models to four questions."""
    rows = [
        {"id": model, "model": model, "context": question, "question": question, "number": 3 * place + 2 * number}
        for number, question in enumerate(QUESTIONS)
        for place, model in enumerate(MODELS)
    ]
    return [row | {"text": f"Answer number {row.pop('number')}.{sized(place)}"} for place, row in enumerate(rows)]


def outputs(start: int) -> list[Row]:
    """What one version of a prompt answers to twenty questions."""
    rows = enumerate(texts("Answer", 20, start))
    return [{"id": f"q{k}", "context": f"Question about {'x' * (k + 1)}?", "text": row["text"]} for k, row in rows]


def judged(rows: list[Row], *judges: str, key: str = "context", hard: bool = False) -> list[Row]:
    """What judges say of all pairs of texts in a context, by their numbers and a little noise."""
    rng, found = np.random.default_rng(len(judges)), []
    for first, second in permutations(rows, 2):
        if first.get(key) != second.get(key):
            continue
        d = [float(row["text"].split("number ")[1].partition(".")[0]) for row in (first, second)]
        for judge in judges or ("",):
            p = 1 / (1 + math.exp(-0.5 * (d[0] - d[1]) - rng.standard_normal()))
            place = {"context": first[key]} if key in first else {}
            said = {"p": round(float(p > 0.5) if hard else p, 3)} | ({"judge": judge} if judge else {})
            found.append(place | {"first": first["id"], "second": second["id"]} | said)
    return found


def of_families() -> list[Row]:
    """Texts of systems of two families and of others, on some questions."""
    names = ("gpt-3.5", "gpt-4", "claude-1", "claude-2", "llama", "mistral", "yi", "qwen", "gemma", "phi")
    return [
        {"context": f"q{question}", "id": name, "text": f"Answer number {question + number}."}
        for question in range(6)
        for number, name in enumerate(names)
    ]


def write(path: Path, rows: list[Row]) -> None:
    """Write rows in the format that the name says."""
    path.parent.mkdir(parents=True, exist_ok=True)
    name = path.name.removesuffix(".gz")
    with (gzip.open if path.suffix == ".gz" else open)(path, "wt", encoding="utf-8", newline="") as file:
        if name.endswith(".csv"):
            table = csv.DictWriter(file, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        elif name.endswith(".json"):
            json.dump(rows, file)
        else:
            file.writelines(json.dumps(row) + "\n" for row in rows)


def battles() -> list[Row]:
    """Battles as Chatbot Arena publishes them."""
    said = {(row["context"], row["model"]): row["text"] for row in answers()}
    return [
        {
            "question_id": f"{number}",
            "model_a": first,
            "model_b": second,
            "winner": "model_a" if first > second else "model_b",
            "judge": "ana",
            **{
                f"conversation_{side}": [
                    {"role": "user", "content": question},
                    {"role": "assistant", "content": said[question, model]},
                ]
                for side, model in (("a", first), ("b", second))
            },
        }
        for number, question in enumerate(QUESTIONS)
        for first, second in permutations(MODELS, 2)
    ]


def annotations() -> list[Row]:
    """Annotations as AlpacaEval writes them."""
    return [
        {
            "instruction": question,
            "output_1": "A reference.",
            "generator_1": "reference",
            "output_2": f"Answer number {place}.",
            "generator_2": MODELS[place % 3],
            "annotator": "someone",
            "preference": 1.0 + place % 2,
        }
        for place, question in enumerate(QUESTIONS)
    ]


def essay_rows() -> list[Row]:
    return [{"id": f"e{number:02}", "text": f"Essay number {number}."} for number in range(12)]


def recorded_set(folder: Path) -> None:
    """A set of the paper with what a judge says of it, as small as a study can be."""
    rows = [
        {"id": f"m{number}", "context_id": f"c{context}", "context": "About it.", "text": f"Reply number {number}."}
        | {"score_coherence": (number * 5 + context) % 6}
        for context in range(3)
        for number in range(6)
    ]
    write(folder / "topicalchat.jsonl", rows)
    write(folder / "judgements" / "topicalchat.coherence.csv.gz", judged(rows, key="context_id"))


PEOPLE = ("ana", "bo")
TABLES: dict[str, Callable[[], list[Row]]] = {
    "stories.jsonl": lambda: texts("Story", 8),
    "more.jsonl": lambda: texts("Story", 3, start=8),
    "summaries.csv": summaries,
    "summaries.jsonl": summaries,
    "answers.jsonl": answers,
    "main.jsonl": lambda: outputs(0),
    "branch.jsonl": lambda: outputs(3),
    "old.jsonl": lambda: outputs(0),
    "new.jsonl": lambda: outputs(3),
    "outputs.csv": lambda: [row | {"system": f"s{place % 3}"} for place, row in enumerate(texts("Output", 12))],
    "items.jsonl": lambda: [row | {"score_NAME": k * 7 % 5} for k, row in enumerate(texts("Line", 8))],
    "pairs.csv": lambda: [{"first": f"t{k}", "second": f"t{(k + 1) % 8}"} for k in range(8)],
    "recorded.csv": lambda: judged(texts("Line", 8)),
    "comparisons.csv": lambda: judged(texts("Summary", 12)),
    "anchors.csv": lambda: [{"id": f"t{k}", "score": 50 + 5 * k} for k in range(0, 12, 2)],
    "last-year.csv": lambda: judged(texts("Essay", 12)),
    "this-year.csv": lambda: judged(texts("Essay", 10, start=6)),
    "answers.csv": lambda: judged(answers()),
    "judged.csv": lambda: judged(answers(), "gpt"),
    "machine.csv": lambda: judged(essay_rows(), "gpt"),
    "votes.csv": lambda: judged(answers(), *PEOPLE, hard=True),
    "battles.csv": lambda: judged(answers(), "human", "gpt", hard=True),
    "battles.jsonl.gz": battles,
    "annotations.json": annotations,
    "judges.arena_ppr.csv.gz": lambda: judged(answers(), "human", "gpt4", hard=True),
    "judges.llmfao.csv.gz": lambda: judged(answers(), "human_crowd", "gpt4", hard=True),
    "llmfao.jsonl.gz": lambda: [row | {"context_id": row["context"]} for row in answers()],
    # Where one name means other files on other pages
    "systems.md judged.csv": lambda: judged(of_families(), "gpt-4-judge", "claude-judge", "people", "mistral-judge"),
    "drift.md ../shared/data/panel/judges.arena_ppr.csv.gz": lambda: judged(
        of_families(), "gpt-4", "claude-3", "people"
    ),
    "agree.md judged.csv": lambda: judged(essay_rows(), *PEOPLE, "gpt", hard=True),
}
# Run folders, by the command that makes each; those of people's votes are made by people (`vote_run`).
RANKED = "rank answers.jsonl --criterion better --judge openai/gpt-6-luna --judge openai/MODEL --budget 8n --out"
TOLD = "rank stories.jsonl --criterion better --judge openai/gpt-6-luna --out"
HEARD = "audition stories.jsonl --criterion 'more surprising' --judge openai/gpt-6-luna"
RUNS = {
    "RUN": RANKED,
    "FOLDER": TOLD,
    "comparo-runs/20260301-120000-answers": RANKED,
    "comparo-runs/20260301-120000-stories": TOLD,
    "panel.md FOLDER": f"{HEARD} --wording all --out",
    "grades.md FOLDER": "rank stories.jsonl --criterion 'more surprising' --judge openai/gpt-6-luna --out",
    "audition": f"{HEARD} --judge openai/MODEL --out",
}
VOTED = {
    "comparo-runs/20260301-120000-vote": "answers.jsonl",
    "comparo-runs/20260302-090000-vote": "answers.jsonl",
    "comparo-runs/20260301-120000-essays": "essays",
    "votes": "essays",
    "vote.md RUN": "essays",
}
