"""Few votes of people beside a judge: the figures of docs/measurements/people.md.

    python -m benchmarks.people [--draws 8] [--runs 40] [--part all|recorded|simulation] [--votes 50 150 800]

How much people share of recorded judges' views, set by set; Spearman × 100 with people by the number of votes, with
constants from the other sets; and, in simulation, whether intervals cover people's scores.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import expit
from scipy.stats import spearmanr

from benchmarks.efficiency import DATA
from benchmarks.soundness import spread
from benchmarks.validity import Case, centred, codes, decided, least_scores, llmfao, means, pooled, soft_cases, table
from benchmarks.verdict import table as lines
from comparo.data.comparisons import Comparisons
from comparo.methods import quiet_fit
from comparo.model.estimators.votes import Expectation, Voted, voted
from comparo.model.tuning import SPREAD, SPREAD_ERROR
from comparo.ranking.consensus import consensus
from comparo.ranking.ranking import Ranking
from comparo.ranking.votes import BETWEEN, Usual, find_voted, with_votes
from comparo.studies.sweep import everything

VOTES = (25, 50, 100, 200)


# How much people share


@dataclass(frozen=True)
class Share:
    """Correlations of a recorded judge with people: of the means of groups, of the rest, of all."""

    set: str
    groups: float
    texts: float
    whole: float


def share(found: Case) -> Share:
    recorded = found.recorded
    if decided(recorded):
        scores, expected, _ = pooled(found, everything(recorded).one(0), grouped=True)
    else:
        scores = least_scores(found)[0]
        expected = centred(means(scores, found.system), recorded.context)
    known = ~np.isnan(recorded.human)
    context, system = (codes([str(code) for code in of[known]]) for of in (recorded.context, found.system))
    human = centred(recorded.human[known], context)
    average = centred(means(human, system), context)
    pairs = ((expected, average), (scores - expected, human - average), (scores, human))
    return Share(found.group, *(float(np.corrcoef(one[known], other)[0, 1]) for one, other in pairs))


def shares() -> dict[str, tuple[float, ...]]:
    """Prints the mean and standard deviation over the judges of each set that go with people; returns the means."""
    found = [share(case) for case in (*soft_cases(), *llmfao())]
    rows, mean = [], {}
    for name in dict.fromkeys(one.set for one in found):
        every = np.array([(one.groups, one.texts, one.whole) for one in found if one.set == name])
        own = every[every[:, 2] > 0]
        mean[name] = tuple(own.mean(axis=0))
        shown = (f"{m:.2f} ± {s:.2f}" for m, s in zip(own.mean(axis=0), own.std(axis=0), strict=True))
        rows.append([name, f"{len(own)} of {len(every)}", *shown])
    print(*lines(["set", "judges that go with people", "groups", "texts beyond groups", "all"], rows), "", sep="\n")
    return mean


def without(mean: dict[str, tuple[float, ...]], left_out: str) -> Usual:
    groups, _, whole = np.mean([values for name, values in mean.items() if name != left_out], axis=0)
    return Usual(groups=float(groups), whole=float(whole))


# By the number of votes


def machine(found: Case) -> Ranking:
    recorded = found.recorded
    data = everything(recorded).one(0)
    if len(recorded.contexts) > 1:
        return quiet_fit(data, "mixed", groups="items")
    return quiet_fit(data, "mixed", groups=dict(zip(recorded.items[recorded.item], found.system.tolist(), strict=True)))


def halves(found: Case, rng) -> tuple[np.ndarray, np.ndarray]:
    """Candidates that votes are about, and those that they are not; whole contexts where there are several."""
    recorded = found.recorded
    count = len(recorded.contexts) if len(recorded.contexts) > 1 else len(recorded.item)
    chosen = np.zeros(count, dtype=bool)
    chosen[rng.permutation(count)[: count // 2]] = True
    own = chosen[recorded.context] if len(recorded.contexts) > 1 else chosen
    return np.flatnonzero(own), np.flatnonzero(~own)


def votes_of(found: Case, own, number: int, rng) -> Comparisons:
    """Votes about pairs of these candidates: those of the crowd where there is one, else by people's scores."""
    recorded = found.recorded
    if found.group == "llmfao":
        return crowd_votes(found, own, number, rng)
    own = own[~np.isnan(recorded.human[own])]
    rows = []
    while len(rows) < number:
        first = int(rng.choice(own))
        others = own[(recorded.context[own] == recorded.context[first]) & (own != first)]
        if len(others):
            rows.append((first, int(rng.choice(others))))
    first, second = np.array(rows).T
    p = 0.5 + 0.5 * np.sign(recorded.human[first] - recorded.human[second])
    items, context = recorded.items[recorded.item], recorded.contexts[recorded.context]
    return Comparisons.from_columns(items[first], items[second], p, context=context[first])


def crowd_votes(found: Case, own, number: int, rng) -> Comparisons:
    recorded, columns = found.recorded, table(DATA / "panel" / "judges.llmfao.csv.gz")
    contexts = set(recorded.contexts[recorded.context[own]].tolist())
    rows = [
        k for k, name in enumerate(columns["context_id"]) if columns["judge"][k] == "human_crowd" and name in contexts
    ]
    weight = columns["votes"][rows].astype(float)
    drawn = rng.choice(rows, number, p=weight / weight.sum())
    p = (rng.random(number) < columns["p"][drawn]).astype(float)
    first, second, context = (columns[name][drawn] for name in ("first", "second", "context_id"))
    return Comparisons.from_columns(first, second, p, context=context)


def agreement(found: Case, ranking: Ranking, scores, candidates) -> float:
    """Spearman × 100 with people, of these candidates, mean over contexts."""
    recorded = found.recorded
    number = {label: node for node, label in enumerate(ranking.graph.labels(ranking.comparisons))}
    names = zip(recorded.contexts[recorded.context].tolist(), recorded.items[recorded.item].tolist(), strict=True)
    node = np.array([number[label] for label in names])
    values = []
    for context in np.unique(recorded.context[candidates]):
        own = candidates[(recorded.context[candidates] == context) & ~np.isnan(recorded.human[candidates])]
        values.append(spearmanr(scores[node[own]], recorded.human[own])[0])
    return 100 * float(np.nanmean(values))


def votes_alone(judged: Ranking, votes: Comparisons) -> Voted:
    """People's scores from the votes, without the judge."""
    first, second = find_voted(votes, judged.graph.labels(judged.comparisons))
    group = None if judged.solution.groups is None else judged.solution.groups[0]
    between = 0.0 if group is None else BETWEEN
    none = Expectation(np.zeros((len(judged), 0)), np.zeros(0), np.zeros(0), group, between, 1 - between)
    return voted(votes, replace(judged.graph.whole(), first=first, second=second), none)


def by_votes(draws: int, mean: dict[str, tuple[float, ...]], cell: tuple[Case, int]) -> list[object]:
    found, number = cell
    judged = machine(found)
    shared, usual = consensus(judged), without(mean, found.group)
    values = []
    for seed in range(draws):
        rng = np.random.default_rng([seed, number])
        own, others = halves(found, rng)
        votes = votes_of(found, own, number, rng)
        ranking = with_votes(judged, votes, usual)
        of = (judged.scores, shared.scores, votes_alone(judged, votes).scores, ranking.scores)
        told = ranking.people
        values.append([*(agreement(found, judged, s, others) for s in of), told.validity, told.low, told.high])
    middle, error = np.mean(values, axis=0), np.std(values, axis=0) / np.sqrt(draws)
    name = f"{found.group} {found.attribute}" if found.group != "llmfao" else f"llmfao {found.voice}"
    shown = [f"{m:.1f} ± {e:.1f}" for m, e in zip(middle[:4], error[:4], strict=True)]
    k, low, high = np.median(values, axis=0)[4:]
    return [name, number, *shown, f"{k:.2f} ({low:.2f} to {high:.2f})"]


# Do intervals cover what people say?

WORLDS = {  # contexts, groups, ρ_m, ρ_δ, S, sd(δ)/sd(m) of the machine
    "usual judge": (20, 8, 0.65, 0.25, 1.5, 2.0),
    "good judge": (20, 8, 0.9, 0.7, 1.5, 1.0),
    "useless judge": (20, 8, 0.0, 0.0, 1.5, 2.0),
    "reversed judge": (20, 8, -0.7, -0.3, 1.5, 2.0),
    "sure people": (20, 8, 0.65, 0.25, 4.0, 2.0),
    "unsure people": (20, 8, 0.65, 0.25, 0.5, 2.0),
    "many contexts": (60, 6, 0.65, 0.25, 1.5, 2.0),
    "groups not known": (20, 8, 0.5, 0.5, 1.5, 1.0),
    "one context": (1, 60, 0.5, 0.5, 1.5, 1.0),
    "any people": (20, 8, 0.65, 0.25, None, 2.0),  # their spread is drawn from what is expected of it
}


NO_GROUPS = ("groups not known", "one context")


def simulated(runs: int, cell: tuple[str, int]) -> list[object]:
    name, number = cell
    values = []
    for seed in range(runs):
        t, mean, judged, votes = drawn(name, number, seed)
        ranking, alone = with_votes(judged, votes), votes_alone(judged, votes)
        values.append(measured(ranking, alone, t, mean, name not in NO_GROUPS))
    found, error = np.nanmean(values, axis=0), np.nanstd(values, axis=0) / np.sqrt(runs)
    shown = [f"{100 * m:.1f} ± {100 * e:.1f}" for m, e in zip(found[:3], error[:3], strict=True)]
    return [name, number, *shown, *(f"{value:.2f}" for value in found[3:-1]), f"{found[-1]:.0f}"]


def drawn(name: str, number: int, seed: int) -> tuple[np.ndarray, np.ndarray, Ranking, Comparisons]:
    """People's scores (C, G), the groups' means (G,), a judge's ranking and people's votes in a world."""
    contexts, groups, of_groups, of_texts, given, ratio = WORLDS[name]
    rng = np.random.default_rng([seed, number, list(WORLDS).index(name)])
    mean, own = rng.standard_normal(groups), rng.standard_normal((contexts, groups))
    size = SPREAD * np.exp(SPREAD_ERROR * rng.standard_normal()) if given is None else given
    t = size * (np.sqrt(BETWEEN) * mean + np.sqrt(1 - BETWEEN) * own)
    if name in NO_GROUPS:
        t = size * own
    m = of_groups * mean + np.sqrt(1 - of_groups**2) * rng.standard_normal(groups)
    s = 0.6 * ratio * (of_texts * own + np.sqrt(1 - of_texts**2) * rng.standard_normal(own.shape))
    s = s if name in NO_GROUPS else s + 0.6 * m
    data = machine_answers(rng, s, 4)
    judged = quiet_fit(data, "mixed", groups=None if name in NO_GROUPS else "items")
    return t, size * np.sqrt(BETWEEN) * mean, judged, people_votes(rng, t, number)


def machine_answers(rng, s, calls: int) -> Comparisons:
    contexts, groups = s.shape
    pairs = np.array([(i, j) for i in range(groups) for j in range(groups) if i != j])
    chosen = [pairs[rng.choice(len(pairs), min(calls * groups, len(pairs)), replace=False)] for _ in range(contexts)]
    context = np.repeat(np.arange(contexts), [len(rows) for rows in chosen])
    first, second = np.concatenate(chosen).T
    p = expit(s[context, first] - s[context, second] + 0.3 + 0.5 * rng.standard_normal(len(first)))
    return Comparisons.from_columns(first, second, p, context=context)


def people_votes(rng, t, number: int) -> Comparisons:
    contexts, groups = t.shape
    context, first = rng.integers(contexts, size=number), rng.integers(groups, size=number)
    second = (first + rng.integers(1, groups, size=number)) % groups
    p = (rng.random(number) < expit(t[context, first] - t[context, second])).astype(float)
    return Comparisons.from_columns(first, second, p, context=context)


def measured(ranking: Ranking, alone: Voted, t, mean, is_grouped: bool) -> list[float]:
    """Coverage of texts, groups in new contexts and in these; widths in people's spread; correlations; worth."""
    labels = ranking.graph.labels(ranking.comparisons)
    true = np.array([(t - t.mean(axis=1, keepdims=True))[int(c), int(i)] for c, i in labels])
    covered, groups = np.mean(np.abs(ranking.scores - true) < 1.96 * ranking.std), [np.nan, np.nan]
    if is_grouped:
        groups = []
        for over, truth in (("new", mean - mean.mean()), ("these", np.mean(t - t.mean(axis=1, keepdims=True), axis=0))):
            board = ranking.groups(contexts=over)
            own = truth[board.group.astype(int)]
            groups.append(np.mean((board.low <= own) & (own <= board.high)))
    told = ranking.people
    widths = [3.92 * np.mean(of.std) / np.std(true) for of in (ranking, alone)]
    reached = [np.corrcoef(of.scores, true)[0, 1] for of in (ranking, alone, ranking.judged)]
    return [covered, *groups, *widths, *reached, told.correlation / (1.0 - ranking.covariance.equal), told.worth]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.people", description=__doc__.split("\n")[0])
    parser.add_argument("--draws", type=int, default=8)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--part", choices=("all", "recorded", "simulation"), default="all")
    parser.add_argument("--votes", type=int, nargs="+", default=[50, 150, 800], help="of the simulation")
    given, workers = parser.parse_args(arguments), os.cpu_count() or 1
    if given.part != "simulation" and DATA.is_dir():
        mean = shares()
        own = [case for case in soft_cases() if case.voice == "qwen15"] + list(llmfao())
        header = ["set", "votes", "judge", "consensus, no votes", "votes alone", "both", "validity"]
        cells = [(case, number) for case in own for number in VOTES]
        print(*lines(header, spread(partial(by_votes, given.draws, mean), cells, workers)), sep="\n", flush=True)
    if given.part == "recorded":
        return
    cells = [(name, number) for name in WORLDS for number in given.votes]
    header = ["world", "votes", "texts, %", "groups, new contexts, %", "groups, these, %", "width", "votes alone"]
    header += ["r with people", "r, votes alone", "r, judge", "expected r", "worth in votes"]
    print(*lines(header, spread(partial(simulated, given.runs), cells, workers)), "", sep="\n")


if __name__ == "__main__":
    main()
