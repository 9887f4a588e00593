"""A run as files for other tools: its answers, preference pairs for training, and its ranking as a TREC run.

Every pair of texts that was judged at least once is a candidate, in whichever orders and by however many voices. With
p̄ the mean over voices of the answers in both orders together (`Comparisons.merge_orders`), and s the scores of the
run's ranking,

    margin = s_chosen − s_rejected > 0,

the chosen text being that with the higher score. The scores rest on all comparisons of the run, and the margin is less
noisy than the answers about this pair alone. A pair is left out as a tie where p̄ is ½ or the scores are equal, and as
contradicted where p̄ and the scores name different winners.

In a TREC run, a context is a query: each line holds `qid Q0 docid rank score tag`, separated by spaces.
"""

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from comparo.data.columns import Column, look_up, shown
from comparo.data.comparisons import Comparisons
from comparo.data.formats import split_ending, write_columns
from comparo.data.grammar import check_one
from comparo.data.items import Items
from comparo.data.lineups import joined, lineup_columns
from comparo.data.wordings import PLACES
from comparo.errors import Message, StoreError
from comparo.judges import Judgement
from comparo.log.store import read_configuration, read_judgements, stored_items
from comparo.model.linalg.graph import Graph
from comparo.ranking.ranking import Ranking
from comparo.report.record import Record, read_record
from comparo.run.voices import comparisons, sorted_answers
from comparo.types import Array

CONTEXT = "{context}"
EQUAL = 1e-9  # probabilities or scores that differ by less are equal, such as p̄ and ½ for two opposite answers
ExportFormat = Literal["csv", "parquet", "jsonl", "dpo", "trec"]
ENDINGS: dict[ExportFormat, str] = {
    "csv": ".csv",
    "parquet": ".parquet",
    "jsonl": ".jsonl",
    "dpo": "-dpo.jsonl",
    "trec": ".trec",
}
QUERY = "all"  # the query of a run without contexts


@dataclass(frozen=True)
class Exported:
    """What was written: the path, the number of rows by table, and a sentence about rows that were left out."""

    path: Path
    rows: dict[str, int]
    left_out: str = ""


def export_run(
    run: str | os.PathLike[str],
    out: str | os.PathLike[str] | None = None,
    *,
    format: ExportFormat | None = None,  # noqa: A002
    texts: bool = False,
    prompt: str = CONTEXT,
    top: int | None = None,
    force: bool = False,
) -> Exported:
    """Write the answers, the preference pairs or the ranking of a run to a file for other tools (docs/runs.md).

    Parameters
    ----------
    run
        A run folder.
    out
        The file to write; by default named after the run, in the working folder.
    format
        By default that of the ending of `out`, or "csv":

        - "csv", "parquet", "jsonl": the comparisons, a row per answer; `comparo.fit` reads them;
        - "dpo": preference pairs in lines of JSON: prompt, chosen, rejected, margin, p, answers and the ids. The margin
          is the difference of the scores in the run's ranking; ties, and pairs whose answers contradict the scores, are
          left out (`comparo.export`);
        - "trec": the ranking, best first, as ranx and trec_eval read it; a context is a query, and without contexts the
          query is "all". Texts that were never compared are left out.
    texts
        Add the texts to the comparisons: first_text, second_text and context_text.
    prompt
        For "dpo": the prompt that both texts answer, where {context} is replaced by the text of their context.
    top
        For "trec": only so many of each query, the best.
    force
        Overwrite an existing file.

    Returns
    -------
    Exported

    Raises
    ------
    ValueError
        If the file exists, an option does not belong to the format, or a name has white space in a TREC run.
    StoreError
        If the folder is not a run folder, or holds no answers.

    Examples
    --------
    >>> import tempfile
    >>> from comparo import load_judge, rank
    >>> quality = {"ana": 2.0, "bo": 0.0, "cy": -2.0}
    >>> judge = load_judge("simulated/soft", scores=quality)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = rank({name: f"A story by {name}." for name in quality}, "better", judge=judge, out=f"{folder}/run")
    ...     export_run(f"{folder}/run", f"{folder}/pairs.jsonl", format="dpo", prompt="Write a story.").rows
    {'pairs': 3}
    """
    if format is None:
        ends = {ending: name for name, ending in ENDINGS.items()}
        format = ends.get(Path(str(out).removesuffix(".gz")).suffix, "csv")  # noqa: A001
    check_one("format", format, get_args(ExportFormat))
    if format != "dpo" and prompt != CONTEXT:
        raise ValueError(Message("{prompt} belongs to {format:'dpo'}; leave it out"))
    if texts and format in ("dpo", "trec"):
        raise ValueError(Message("{texts} belongs to csv, parquet and jsonl; {format:'dpo'} always has them"))
    if top is not None and (format != "trec" or top < 1):
        raise ValueError(Message("{top} is a number from 1, and belongs to {format:'trec'}; leave it out"))
    folder = Path(run)
    path = Path(f"{folder.resolve().name}{ENDINGS[format]}") if out is None else Path(out)
    split_ending(path, [Path(f"run{ENDINGS[format]}").suffix])
    if (path.exists() or path.is_symlink()) and not force:
        raise ValueError(f"{path} exists already; " + Message("choose another {out}, or overwrite it by {force:True}"))
    if format == "trec":
        record = read_record(folder)
        lines, unreached = trec_columns(record.ranking, top), len(record.ranking.solution.unreached)
        write_columns(path, lines)
        return Exported(path, {"texts": len(lines["qid"])}, f"{unreached:,} never compared" if unreached else "")
    if format == "dpo":
        columns, pairs = preference_columns(read_record(folder), prompt)
        write_columns(path, columns)
        why = {"tied": pairs.ties, "contradicted by the scores": pairs.contradicted}
        left = ", ".join(f"{count:,} {name}" for name, count in why.items() if count)
        return Exported(path, {"pairs": len(pairs.margin)}, left)
    judgements = sorted_answers(read_judgements(folder))
    columns = comparison_columns(judgements, read_configuration(folder), stored_items(folder) if texts else None)
    if not (rows := len(columns["judge"])):
        raise StoreError(f"{folder} holds no answers yet; run its command again to go on")
    write_columns(path, columns)
    failed = sum(one.failed for one in judgements)
    return Exported(path, {"comparisons": rows}, f"{failed:,} failed" if failed else "")


def trec_columns(ranking: Ranking, top: int | None = None) -> dict[str, Column]:
    """The columns of a TREC run, each query best first.

    >>> from comparo import fit
    >>> trec_columns(fit([("a", "b", 0.2)], "win-ratio"), top=1)
    {'qid': ['all'], 'Q0': ['Q0'], 'docid': ['b'], 'rank': [1], 'score': [1.0], 'tag': ['comparo']}
    """
    found, places, rows = ranking.to_columns(), Counter[str](), []
    queries = found.get("context", [QUERY] * len(found["item"]))
    for query, item, score in zip(map(str, queries), map(str, found["item"]), found["score"], strict=True):
        for name, remedy in ((query, "give each context a context_id without"), (item, "give it an id without")):
            if len(name.split()) != 1:
                raise ValueError(f"{shown(name)} has white space, which separates columns of a TREC run; {remedy}")
        places[query] += 1
        if top is None or places[query] <= top:
            rows.append((query, "Q0", item, places[query], float(score), "comparo"))
    names = ("qid", "Q0", "docid", "rank", "score", "tag")
    return dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))


def comparison_columns(
    judgements: Sequence[Judgement], configuration: Mapping[str, Any], texts: Items | None = None
) -> dict[str, Column]:
    """The columns of the answers, in their order: first, second, p, weight, context, judge, mass, model.

    `judge` is always present, so that files of several runs can be joined. `weight` is present if one is not 1,
    `context` if there are contexts, `mass` (the probability of the labels) and `model` (the model's name in the
    server's reply) if known. `texts` adds first_text, second_text … and context_text. Failed judgements are left out.
    Line-ups have items, logp and order in place of first, second and p.

    >>> from comparo.data.prompts import Question
    >>> answers = [Judgement(Question("ana", "bo"), p=0.7), Judgement(Question("ana", "cy"), error="refused")]
    >>> comparison_columns(answers, {"identity": {"judge": "openai/any"}})
    {'first': ['ana'], 'second': ['bo'], 'p': [0.7], 'judge': ['openai/any']}
    """
    answered = [one for one in judgements if not one.failed]
    asked = [one.question for one in answered]
    first = [question.first for question in asked]
    second = [question.second for question in asked]
    p = [one.p for one in answered]
    columns: dict[str, Column] = {"first": first, "second": second, "p": p}
    if any(said := [one.lineup for one in answered]):
        columns = {}
        for name, column in lineup_columns(first, second, p, said).items():
            if any(column):
                columns[name] = [joined(value) for value in column]
    if any(one.weight != 1 for one in answered):
        columns["weight"] = [one.weight for one in answered]
    if any(question.context is not None for question in asked):
        columns["context"] = [question.context for question in asked]
    columns["judge"] = [question.voice or configuration["identity"]["judge"] for question in asked]
    if any(not math.isnan(one.mass) for one in answered):
        columns["mass"] = [None if math.isnan(one.mass) else one.mass for one in answered]
    if any(one.model for one in answered):
        columns["model"] = [one.model or None for one in answered]
    if texts is not None:
        shown = [texts.question(question.context, question.first, question.second) for question in asked]
        most = max(len(each.texts) for each in shown)
        for place, name in enumerate(PLACES[:most]):
            columns[f"{name}_text"] = [each.texts[place] if place < len(each.texts) else None for each in shown]
        if any(each.context_text is not None for each in shown):
            columns["context_text"] = [each.context_text for each in shown]
    return columns


@dataclass(frozen=True)
class PreferencePairs:
    """M preference pairs of a ranking, and the numbers of judged pairs that were left out.

    Parameters
    ----------
    chosen, rejected : The candidates, as indices into those of the ranking, shape (M,).
    margin : s_chosen − s_rejected, shape (M,).
    p : The mean answer, as the probability that the chosen one is better, shape (M,).
    answers : The number of answers that `p` is the mean of, shape (M,).
    ties, contradicted : How many judged pairs were left out: ties, and pairs whose answers contradict the scores.
    """

    chosen: NDArray[np.intp]
    rejected: NDArray[np.intp]
    margin: Array
    p: Array
    answers: NDArray[np.intp]
    ties: int
    contradicted: int


def preferred_pairs(ranking: Ranking, answered: Comparisons) -> PreferencePairs:
    """The preference pairs among the compared pairs, in the order of their first answers.

    >>> from comparo import fit
    >>> rows = [("a", "b", 0.8), ("b", "a", 0.4), ("b", "c", 0.5), ("c", "b", 0.5), ("a", "c", 0.9)]
    >>> found = preferred_pairs(fit(rows), Comparisons.from_rows(rows))
    >>> found.chosen.tolist(), found.p.round(2).tolist(), found.answers.tolist(), found.ties
    ([0, 0], [0.7, 0.9], [2, 1], 1)
    """
    merged = answered.merge_orders()
    first, low, high, key = _ends(merged, ranking)
    _, lead, pair = np.unique(key, return_index=True, return_inverse=True)
    mean = np.bincount(pair, np.where(first == low, merged.p, 1 - merged.p)) / np.bincount(pair)
    counts = np.unique(_ends(answered, ranking)[-1], return_counts=True)[1]
    low, high = low[lead], high[lead]
    difference = ranking.scores[low] - ranking.scores[high]
    tied = (np.abs(mean - 0.5) < EQUAL) | (np.abs(difference) < EQUAL)
    contradicted = ~tied & ((mean > 0.5) != (difference > 0))
    kept = np.flatnonzero(~(tied | contradicted))
    kept = kept[np.argsort(lead[kept], kind="stable")]
    is_low = difference[kept] > 0
    return PreferencePairs(
        np.where(is_low, low[kept], high[kept]),
        np.where(is_low, high[kept], low[kept]),
        np.abs(difference[kept]),
        np.where(is_low, mean[kept], 1 - mean[kept]),
        counts[kept],
        int(np.count_nonzero(tied)),
        int(np.count_nonzero(contradicted)),
    )


def _ends(data: Comparisons, ranking: Ranking) -> tuple[NDArray[Any], ...]:
    """The candidate that each comparison shows first, the lower and the higher one, and the pair, (K,) each."""
    graph = Graph.build(data)
    node = look_up(graph.labels(data), ranking.solution.labels)
    first, second = node[graph.first], node[graph.second]
    low, high = np.minimum(first, second), np.maximum(first, second)
    return first, low, high, low.astype(np.int64) * ranking.graph.nodes + high


def preference_columns(record: Record, prompt: str) -> tuple[dict[str, Column], PreferencePairs]:
    """The pairs of a run as prompt, chosen, rejected, margin, p, answers, context, chosen_id and rejected_id.

    `prompt` is the text that both texts answer; {context} in it stands for the text of their context.
    """
    found = preferred_pairs(record.ranking, comparisons(record.judgements))
    items, row = record.items, record.row
    if not len(found.margin):
        raise ValueError(
            f"no pair is preferred: {found.ties} are ties, and the answers about {found.contradicted} contradict the "
            "scores"
        )
    chosen, rejected = row[found.chosen], row[found.rejected]
    context = items.context[chosen].tolist()
    shown = [items.context_texts[code] for code in context]
    missing = [code for code in context if items.context_texts[code] is None]
    if missing and CONTEXT in prompt:
        label = items.contexts[missing[0]]
        place = "the texts have" if label is None else f"context {label!r} has"
        raise ValueError(f"{place} no text to be the prompt; " + Message("say by {prompt} what the texts answer"))
    columns: dict[str, Column] = {
        "prompt": [prompt.replace(CONTEXT, text or "") for text in shown],
        "chosen": [items.texts[each] for each in chosen.tolist()],
        "rejected": [items.texts[each] for each in rejected.tolist()],
        "margin": found.margin,
        "p": found.p,
        "answers": found.answers,
    }
    if items.contexts.tolist() != [None]:
        columns["context"] = items.contexts[context].tolist()
    columns |= {"chosen_id": items.ids[chosen].tolist(), "rejected_id": items.ids[rejected].tolist()}
    return columns, found
