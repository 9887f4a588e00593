"""Line-ups against pairs on recorded judgements: the tables of docs/lineups.md.

    python -m benchmarks.lineups [--draws 5] [--auto] [--sets summeval.coherence …]

Spearman × 100 with people's scores, the mean over contexts, of Qwen2.5-Coder-1.5B at equal prompt tokens: those of n,
2n and 4n pairs. A call reads the context and its texts; tokens are counted as characters, which does for a ratio. All
ways have the same contexts, those of which line-ups were recorded. No constant of comparo was tuned on line-ups.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from functools import cached_property
from itertools import pairwise

import numpy as np

from benchmarks.efficiency import DATA
from benchmarks.paper.datasets import open_dataset
from comparo.analysis.correlations import spearman
from comparo.data.columns import Table
from comparo.data.comparisons import Comparisons
from comparo.data.items import Items
from comparo.data.layouts import fields_from_table
from comparo.data.text_features import contrasts
from comparo.methods import quiet_fit
from comparo.ranking.ranking import Ranking
from comparo.run.fit_policy import Fitting
from comparo.run.pilot import SHOWN, chosen_size, rate
from comparo.selection.selector import Selector

SETS = tuple(f"summeval.{name}" for name in ("coherence", "consistency", "fluency", "relevance")) + tuple(
    f"topicalchat.{name}" for name in ("coherence", "engagingness", "naturalness")
)
SIZES = (3, 4, 6)
HALVES = 2000  # random halves of the contexts
TIMES = (1, 2, 4)  # tokens, as so many calls about pairs for each text


def within(data: Comparisons, contexts: set[str]) -> Comparisons:
    """The comparisons of some contexts, as if there were no others."""
    kept = data.take(np.array([context in contexts for context in data.contexts.tolist()])[data.context])
    return Comparisons(**fields_from_table(Table(kept.to_columns())))


class Recorded:
    """The contexts of a set of which line-ups were recorded: pairs, line-ups, people's scores, and lengths."""

    def __init__(self, name: str) -> None:
        kind, attribute = name.split(".")
        lineups = {k: Comparisons.read(DATA / "lineups" / f"{name}.k{k}.csv.gz") for k in SIZES}
        kept = set(lineups[6].contexts.tolist())
        items = open_dataset(kind, DATA).items
        known = np.array([context in kept for context in items.contexts.tolist()])
        self.items: Items = items.take(np.flatnonzero(known[items.context]))
        self.attribute = attribute
        self.lineups = {k: within(data, kept) for k, data in lineups.items()}
        self.pairs = within(Comparisons.read(DATA / "judgements" / f"{name}.csv.gz"), kept)

    @cached_property
    def truth(self) -> dict[tuple[str, str], float]:
        items, scores = self.items, self.items.scores[self.attribute].tolist()
        labels = zip(items.contexts[items.context].tolist(), items.ids.tolist(), strict=True)
        return dict(zip(labels, scores, strict=True))

    def tokens(self, context: str, size: int) -> float:
        """Characters of a call about `size` texts of a context."""
        texts = [self.items.texts[row] for row in self.items.groups[context]]
        shown = self.items.context_texts[self.items.contexts.tolist().index(context)]
        return len(shown or "") + size * float(np.mean([len(text) for text in texts]))

    def some_lineups(self, size: int, times: float, rng: np.random.Generator) -> Comparisons:
        """Line-ups drawn from those recorded, at the tokens of times·n pairs in each context."""
        data = self.lineups[size]
        rows = []
        for code, context in enumerate(data.contexts.tolist()):
            own = np.flatnonzero(data.context == code)
            answers = np.unique(data.lineup["answer"][own])
            calls = times * len(self.items.groups[context]) * self.tokens(context, 2) / self.tokens(context, size)
            chosen = rng.choice(answers, min(max(round(calls), 1), len(answers)), replace=False)
            rows.append(own[np.isin(data.lineup["answer"][own], chosen)])
        return data.take(np.concatenate(rows))

    def some_pairs(self, times: int, rng: np.random.Generator) -> Comparisons:
        """Pairs as comparo chooses them, times·n in each context."""
        contrast, names = contrasts(self.items), self.items.names
        labels = zip(*(self.pairs.to_columns()[name].tolist() for name in ("context", "first", "second")), strict=True)
        row = {label: number for number, label in enumerate(labels)}
        chosen = []
        for context, ids in names.items():
            selector = Selector(ids, strategy="greedy", orders="both", contrast=contrast[context], seed=rng)
            chosen += [row[context, i, j] for i, j in selector.next(times * len(ids))]
        return self.pairs.take(chosen)

    def rank(self, data: Comparisons, grouped: bool) -> Ranking:
        return Fitting(self.items, grouped=grouped, estimate="auto").rank(data)

    def agreement(self, data: Comparisons, grouped: bool) -> float:
        return self.correlation(self.rank(data, grouped))

    def correlation(self, ranking: Ranking) -> float:
        """Spearman × 100 with people's scores, the mean over contexts in which these differ; 0 for equal scores."""
        return float(np.mean(list(self.correlations(ranking).values())))

    def correlations(self, ranking: Ranking) -> dict[str, float]:
        """The same of each context."""
        found = {}
        for begin, end in pairwise(ranking.graph.starts.tolist()):
            labels = zip(ranking.context[begin:end].tolist(), ranking.items[begin:end].tolist(), strict=True)
            human = np.array([self.truth[label] for label in labels])
            if np.ptp(human) > 0:
                found[ranking.context[begin]] = 100 * float(np.nan_to_num(spearman(ranking.scores[begin:end], human)))
        return found

    def chosen(self, rng: np.random.Generator) -> int:
        """The number of texts that `lineup="auto"` takes, by pilots of as many answers of one context or two."""
        some = rng.permutation(len(self.pairs.contexts))[: 1 if len(self.items) > 12 * len(self.pairs.contexts) else 2]
        rates = {}
        for size in (2, *SIZES):
            data = self.pairs if size == 2 else self.lineups[size]
            own = np.flatnonzero(np.isin(data.context, some))
            number = own if size == 2 else data.lineup["answer"][own]
            asked = np.unique(number)
            kept = rng.choice(asked, min(SHOWN // size, len(asked)), replace=False)
            tokens = np.mean([self.tokens(context, size) for context in data.contexts[some].tolist()])
            rates[size] = rate(data.take(own[np.isin(number, kept)]), float(tokens))
        return chosen_size(rates)


def automatic(name: str, draws: int) -> dict[str, float]:
    """At the tokens of 2n pairs: the best k in hindsight, the best by people's scores of half of the contexts, auto."""
    recorded, rng, sizes = Recorded(name), np.random.default_rng(1), (2, *SIZES)
    table = []  # of each size and context
    for size in sizes:
        fresh, found = np.random.default_rng(0), []
        for _ in range(5 if size > 2 else 1):
            data = recorded.some_lineups(size, 2, fresh) if size > 2 else recorded.some_pairs(2, fresh)
            found.append(recorded.correlations(recorded.rank(data, False)))
        table.append([np.mean([one[context] for one in found]) for context in sorted(found[0])])
    values, halves, split = np.array(table), [], np.random.default_rng(2)
    for _ in range(HALVES):
        some = split.permutation(values.shape[1]) < values.shape[1] // 2
        halves.append(np.mean(values[np.argmax(np.mean(values[:, some], axis=1))][~some]))
    means = np.mean(values, axis=1)
    chosen = [recorded.chosen(rng) for _ in range(draws)]
    result = {"best k": float(np.max(means)), "best k by half of the contexts": float(np.mean(halves))}
    result["auto"] = float(np.mean([means[sizes.index(k)] for k in chosen]))
    return result | {f"chose {k}": chosen.count(k) / draws for k in sizes}


def measured(name: str, draws: int) -> dict[str, float]:
    """The mean over draws of every way at every number of tokens."""
    recorded, found = Recorded(name), {}
    found["all pairs, paper"] = recorded.correlation(quiet_fit(recorded.pairs, "avg-prob"))
    found["all pairs"] = recorded.agreement(recorded.pairs, False)
    for grouped in (False, True):
        known = ", systems" if grouped else ""
        for times in TIMES:
            rng = np.random.default_rng(0)
            values = [recorded.agreement(recorded.some_pairs(times, rng), grouped) for _ in range(draws) if times > 1]
            found[f"pairs {times}n{known}"] = float(np.mean(values)) if values else np.nan
            for size in SIZES:
                rng = np.random.default_rng(0)
                values = [recorded.agreement(recorded.some_lineups(size, times, rng), grouped) for _ in range(draws)]
                found[f"{size} texts, {times}n{known}"] = float(np.mean(values))
    return found


def picture(means: Mapping[str, float], path: str) -> None:
    """Accuracy against tokens, of pairs, line-ups and all pairs, as an image."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    for size in (*SIZES[::-1], 2):
        way = "pairs {}n" if size == 2 else f"{size} texts, {{}}n"
        known = [(times, means[way.format(times)]) for times in TIMES if np.isfinite(means[way.format(times)])]
        label = "pairs" if size == 2 else f"line-ups of {size}"
        axes.plot(*zip(*known, strict=True), "o-", label=label, color=None if size > 2 else "black")
    axes.axhline(means["all pairs, paper"], color="grey", linestyle="--", label="all pairs, the paper's method")
    axes.set_xscale("log", base=2)
    axes.set_xticks(TIMES, [f"{times}n" for times in TIMES])
    axes.set_xlabel("prompt tokens, as of so many calls about pairs")
    axes.set_ylabel("Spearman × 100 with people")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--auto", action="store_true", help="what lineup='auto' chooses, and what it is worth")
    parser.add_argument("--sets", nargs="+", default=list(SETS))
    parser.add_argument("--image", help="draw accuracy against tokens into this file")
    given = parser.parse_args()
    found = {name: (automatic if given.auto else measured)(name, given.draws) for name in given.sets}
    print("| way | " + " | ".join(given.sets) + " | mean |")
    print("| --- |" + " ---: |" * (len(found) + 1))
    for way in next(iter(found.values())):
        values = [found[name][way] for name in given.sets]
        print(f"| {way} | " + " | ".join(f"{value:.1f}" for value in [*values, float(np.mean(values))]) + " |")
    if given.image:
        means = {way: float(np.mean([one[way] for one in found.values()])) for way in next(iter(found.values()))}
        picture(means, given.image)


if __name__ == "__main__":
    main()
