"""Several criteria in one call: tokens saved, and agreement with separate calls; docs/measurements/criteria.md.

`python -m benchmarks.criteria` takes a few minutes of one core: the embedded model reads three dialogues of
TopicalChat, every ordered pair of their six responses, by two criteria, in three ways:

- separate: one prompt for each criterion, as a run of one criterion asks it;
- read once: the texts once, then each question by itself, as local/, hf/ and vllm/ judges ask several criteria;
- one reply: all questions in one prompt, answers read where the lines of the reply name a label, as openai/ judges do.

The embedded model (SmolLM2, 135 million parameters) does not write lines when it is asked for them, so each line is
begun for it with the criterion's name, after the lines that it has answered before with the likelier label.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from benchmarks.efficiency import DATA
from benchmarks.verdict import table
from comparo.data.criteria_prompt import CriteriaPrompt, criteria_prompt
from comparo.data.items import Items
from comparo.data.prompts import Prompt, Question
from comparo.judges import Judge, load_judge
from comparo.judges.chat import Encoded
from comparo.types import Array

SETS = {
    "summeval": ("Summary", "Article", ("coherence", "fluency", "relevance", "consistency")),
    "topicalchat": ("Response", "Dialogue", ("coherence", "engagingness", "naturalness", "understandability")),
}
WORDS = {
    "coherence": "more coherent",
    "fluency": "more fluent",
    "relevance": "more relevant to the article",
    "consistency": "more consistent with the article",
    "engagingness": "more engaging",
    "naturalness": "more natural",
    "understandability": "more understandable",
}
CONTEXTS = 3


def prompt_for(name: str, count: int) -> CriteriaPrompt:
    """The prompt for the first so many criteria of a set."""
    kind, heading, names = SETS[name]
    return criteria_prompt({each: WORDS[each] for each in names[:count]}, kind, heading)


def questions_of(name: str, contexts: int) -> tuple[Items, list[Question]]:
    """The items of a set, and every ordered pair of its first contexts."""
    items = Items.of(DATA / f"{name}.jsonl", context="context")
    asked = [
        items.question(context, one, other)
        for context, ids in list(items.names.items())[:contexts]
        for one in ids
        for other in ids
        if one != other
    ]
    return items, asked


def tokens(judge: Any) -> list[str]:
    """How many tokens a call reads, by number of criteria: nothing is computed."""
    rows = []
    for name in SETS:
        _, asked = questions_of(name, 3)
        for count in (1, 2, 4):
            prompt = prompt_for(name, count)
            encoded = [row for row in judge._chat.encode(asked, prompt) if isinstance(row, Encoded)]
            separate = sum(len(row.ids) for row in encoded) / len(asked)
            once = sum(len(row.ids) - row.known for row in encoded) / len(asked)
            whole = Prompt(f"{prompt.template}\n\n{prompt.instruction}", prompt.labels, "")
            one = sum(len(row.ids) for row in judge._chat.encode(asked, whole)) / len(asked)
            reply = len(judge._chat.tokenizer("\n".join(f"{each}: A" for each in prompt.parts))["input_ids"])
            cells = [f"{value:,.0f}" for value in (separate, once, one)]
            rows.append([name, count, *cells, count, reply, f"{separate / once:.2f}", f"{separate / one:.2f}"])
    head = ["set", "criteria", "separate", "read once", "one reply", "written: separate", "one reply"]
    return table([*head, "saved: read once", "one reply"], rows)


def separate(judge: Judge, asked: Sequence[Question], prompt: CriteriaPrompt) -> dict[str, Array]:
    """p of each criterion, (K,), from a prompt of its own."""
    return {name: _asked(judge, asked, part) for name, part in prompt.each}


def read_once(judge: Judge, asked: Sequence[Question], prompt: CriteriaPrompt) -> dict[str, Array]:
    """p of each criterion, (K,), after texts that are read once."""
    calls = {_key(call.question): call for call in judge.judge(iter(asked), prompt)}
    each: list[Any] = [calls[_key(question)] for question in asked]
    return {name: np.array([call.each[number].p for call in each]) for number, name in enumerate(prompt.parts)}


def one_reply(judge: Judge, asked: Sequence[Question], prompt: CriteriaPrompt) -> dict[str, Array]:
    """p of each criterion, (K,), in one reply: each line follows those before it, which have the likelier label."""
    template = f"{prompt.template}\n\n{prompt.instruction}"
    said = [""] * len(asked)
    found = {}
    for name in prompt.parts:
        p = np.empty(len(asked))
        begun = [f"{before}{name}:" for before in said]
        for answer in dict.fromkeys(begun):
            rows = [row for row, each in enumerate(begun) if each == answer]
            p[rows] = _asked(judge, [asked[row] for row in rows], Prompt(template, prompt.labels, answer))
        said = [f"{each} {'A' if one >= 0.5 else 'B'}\n" for each, one in zip(begun, p, strict=True)]
        found[name] = p
    return found


def agreement(judge: Judge, contexts: int) -> list[str]:
    """The three ways on the same pairs: how alike their answers are, and how they agree with people."""
    items, asked = questions_of("topicalchat", contexts)
    prompt = prompt_for("topicalchat", 2)
    alone = separate(judge, asked, prompt)
    ways = {"read once": read_once(judge, asked, prompt), "one reply": one_reply(judge, asked, prompt)}
    first, second = prompt.parts
    turned = {second: WORDS[second], first: WORDS[first]}
    kind, heading, _ = SETS["topicalchat"]
    ways["one reply, other order"] = one_reply(judge, asked, criteria_prompt(turned, kind, heading))
    rows = []
    for name in prompt.parts:
        rows.append([name, "separate", "", "", "", _with_people(items, asked, alone[name], name)])
        for way, found in ways.items():
            apart = np.abs(found[name] - alone[name])
            same = np.mean((found[name] > 0.5) == (alone[name] > 0.5))
            logits = [np.log(p / (1 - p)) for p in (found[name], alone[name])]
            alike = f"{np.corrcoef(*logits)[0, 1]:.3f}"
            cells = [f"{apart.max():.3f}", alike, f"{same:.0%}", _with_people(items, asked, found[name], name)]
            rows.append([name, way, *cells])
    lines = table(
        ["criterion", "way", "largest difference of p", "correlation of logits", "same verdict", "people × 100"], rows
    )
    rows = [[way, f"{_between(asked, found):.2f}"] for way, found in {"separate": alone, **ways}.items()]
    return lines + table(["way", "correlation of the two criteria"], rows)


def _asked(judge: Judge, asked: Iterable[Question], prompt: Prompt) -> Array:
    asked = list(asked)
    found = {_key(answer.question): answer.p for answer in judge.judge(iter(asked), prompt)}
    return np.array([found[_key(question)] for question in asked])


def _key(question: Question) -> tuple[Any, Any, Any]:
    return question.context, question.first, question.second


def _scores(asked: Sequence[Question], p: Array) -> dict[Any, dict[Any, float]]:
    """The mean probability of each item, by context."""
    won: dict[Any, dict[Any, list[float]]] = {}
    for question, each in zip(asked, p.tolist(), strict=True):
        own = won.setdefault(question.context, {})
        own.setdefault(question.first, []).append(each)
        own.setdefault(question.second, []).append(1 - each)
    return {context: {item: float(np.mean(each)) for item, each in own.items()} for context, own in won.items()}


def _with_people(items: Items, asked: Sequence[Question], p: Array, name: str) -> str:
    """The mean Spearman correlation with people's scores, × 100."""
    found = []
    for context, own in _scores(asked, p).items():
        people = [items.scores[name][items.row(context, item)] for item in own]
        if np.ptp(people) > 0:
            found.append(spearmanr(list(own.values()), people).statistic)
    return f"{100 * np.mean(found):.1f}"


def _between(asked: Sequence[Question], found: Mapping[str, Array]) -> float:
    """The mean Spearman correlation of the scores by two criteria."""
    one, other = (_scores(asked, p) for p in found.values())
    each = [spearmanr(list(own.values()), list(other[context].values())).statistic for context, own in one.items()]
    return float(np.mean(each))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contexts", type=int, default=CONTEXTS)
    given, _ = parser.parse_known_args()
    judge = load_judge("local/smollm2", runtime="transformers")
    print("\n".join(tokens(judge)), flush=True)
    print("\n".join(agreement(judge, given.contexts)), flush=True)


if __name__ == "__main__":
    main()
