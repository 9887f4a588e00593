"""comparo against other libraries on the recorded judgements, at the same calls: docs/measurements/rivals.md.

What do other libraries make of the very same answers? What does a sort (PairS) find with the calls that it needs? And
what does `comparo rank` find with as many calls as each? Spearman × 100 with people's scores, mean over contexts and
attributes.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.paper.baselines import pairs_cell
from benchmarks.paper.datasets import open_dataset
from benchmarks.yardstick import chosen, judged_and_shared
from comparo.data.comparisons import Comparisons
from comparo.model.linalg.graph import Graph
from comparo.run.fit_policy import Fitting
from comparo.studies.draws import draw
from comparo.studies.sweep import Fit, evaluate
from comparo.types import Array, Index

DATA = Path(__file__).parents[2] / "shared" / "data"
SETS = {"summeval": ("2n", "3n", "5n"), "topicalchat": ("2n", "3n", "5n")}
DRAWS = 3
BEAM = 8  # half of SummEval's 16 candidates: a wider one misses nothing

Score = Callable[[Index, Index, Array, int], Array]


@dataclass(frozen=True)
class Placed:
    """Candidates and their scores, as `comparo.studies` takes them."""

    graph: Graph
    scores: Array


@dataclass(frozen=True)
class Rival:
    """Another library as a scorer: it gets the first item, the second item and p of each pair of a context.

    A pair that was asked in both orders is given once, with p̃ = ½(p + 1 − p turned), as to comparo's own methods that
    use decisions: else the position bias would make ties.
    """

    score: Score
    independent: bool = True

    def __call__(self, comparisons: Comparisons) -> Placed:
        merged = comparisons.merge_orders()
        graph = Graph.build(merged)
        where = graph.position[graph.first]
        order = np.argsort(where, kind="stable")
        ends = np.searchsorted(where[order], np.arange(graph.contexts + 1))
        scores = np.empty(graph.nodes)
        for context, begin in enumerate(graph.starts[:-1].tolist()):
            rows = order[ends[context] : ends[context + 1]]
            end = int(graph.starts[context + 1])
            first, second = graph.first[rows] - begin, graph.second[rows] - begin
            scores[begin:end] = self.score(first, second, merged.p[rows], end - begin)
        return Placed(graph, scores)


def evalica_ways() -> dict[str, Score]:
    """evalica's methods on decisions, and its Bradley–Terry with both outcomes of a pair weighted by p and 1 − p."""
    import evalica
    import pandas as pd

    def decided(method: Callable[..., evalica.Result]) -> Score:
        def score(first: Index, second: Index, p: Array, items: int) -> Array:
            kinds = np.where(p > 0.5, "x", np.where(p < 0.5, "y", "t"))
            winners = [{"x": evalica.Winner.X, "y": evalica.Winner.Y, "t": evalica.Winner.Draw}[kind] for kind in kinds]
            found = method(first.tolist(), second.tolist(), winners, index=pd.Index(range(items)))
            return np.asarray(found.scores.reindex(range(items)), dtype=np.float64)

        return score

    def weighted(first: Index, second: Index, p: Array, items: int) -> Array:
        xs, ys = np.tile(first, 2).tolist(), np.tile(second, 2).tolist()
        winners = [evalica.Winner.X] * len(p) + [evalica.Winner.Y] * len(p)
        weights = np.concatenate([p, 1 - p]).tolist()
        found = evalica.bradley_terry(xs, ys, winners, index=pd.Index(range(items)), weights=weights)
        return np.asarray(found.scores.reindex(range(items)), dtype=np.float64)

    return {
        "evalica average_win_rate": decided(evalica.average_win_rate),
        "evalica elo": decided(evalica.elo),
        "evalica pagerank": decided(evalica.pagerank),
        "evalica bradley_terry": decided(evalica.bradley_terry),
        "evalica bradley_terry, p as weights": weighted,
    }


def choix_ways() -> dict[str, Score]:
    """choix on decisions, with the regularisation that its documentation uses; a tie is one win for either."""
    import choix

    def by(method: Callable[..., Array]) -> Score:
        def score(first: Index, second: Index, p: Array, items: int) -> Array:
            pairs = zip(first.tolist(), second.tolist(), p.tolist(), strict=True)
            won = [pair for i, j, q in pairs for pair in ([(i, j)] * (q >= 0.5) + [(j, i)] * (q <= 0.5))]
            return np.asarray(method(items, won, alpha=0.01))

        return score

    return {"choix ilsr_pairwise": by(choix.ilsr_pairwise), "choix opt_pairwise": by(choix.opt_pairwise)}


def main(draws: int = DRAWS) -> None:
    print("\n# Rivals: Spearman × 100 with people on recorded judgements, mean of attributes and draws", flush=True)
    if not (DATA / "judgements").exists():
        print(f"skipped, {DATA}/judgements is not there")
        return
    scorers = {name: Rival(score) for name, score in {**evalica_ways(), **choix_ways()}.items()}
    scorers |= {"comparo poe-bt (the paper's)": Fit("poe-bt"), "comparo mixed": Fit("mixed")}
    for name, grid in SETS.items():
        opened = open_dataset(name, DATA)
        print(f"\n{name}, the same answers: random pairs in both orders, {', '.join(grid)} calls", flush=True)
        every = list(opened.recorded.values())
        drawn = {
            calls: [draw(one, calls, draws, rng=np.random.default_rng([0, k])) for k, one in enumerate(every)]
            for calls in grid
        }
        for way, scorer in scorers.items():
            values = [[100 * np.mean(evaluate(one, scorer).spearman) for one in drawn[calls]] for calls in grid]
            print(f"{way:<40}" + "".join(f"{np.mean(row):>8.1f}" for row in values), flush=True)
        fittings = {
            "systems not known": Fitting(opened.items, grouped=False, estimate="judge"),
            "systems known": Fitting(opened.items, estimate="auto"),
        }
        print(f"{name}, pairs of its own, {', '.join(grid)} calls", flush=True)
        for label, fitting in fittings.items():
            found = [chosen(one, fitting, grid, draws, 0) for one in every]
            both = [np.mean([judged_and_shared(one[calls], fitting) for one in found], axis=0) for calls in grid]
            print(f"{'comparo rank, ' + label:<40}" + "".join(f"{own:>8.1f}" for own, _ in both), flush=True)
            if label == "systems known":
                print(f"{'comparo rank, consensus':<40}" + "".join(f"{shared:>8.1f}" for _, shared in both), flush=True)
        print(f"{name}, a sort, and comparo rank (systems not known) with as many calls", flush=True)
        for label, beam, in_both in (("greedy", 1, False), ("beam", BEAM, False), ("greedy, both orders", 1, True)):
            sorts = [pairs_cell(one, draws, beam=beam, both=in_both, rng=np.random.default_rng(1)) for one in every]
            calls = str(round(float(np.mean([calls for _, calls in sorts])) / 2) * 2)
            fitting = fittings["systems not known"]
            ours = [judged_and_shared(chosen(one, fitting, [calls], draws, 0)[calls], fitting)[0] for one in every]
            sorted_by = 100 * np.mean([np.mean(cell.spearman) for cell, _ in sorts])
            print(f"{'PairS-' + label:<40}{sorted_by:>8.1f}{np.mean(ours):>8.1f}   {calls} calls", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=DRAWS, help="how often pairs are drawn, and sorts begun")
    main(parser.parse_args().draws)
