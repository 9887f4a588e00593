"""People's leaderboard with a machine's help: do its intervals hold, and how many votes does the machine save?

    python -m benchmarks.powered [--runs 50] [--draws 20] [--data ../shared/data] [--part simulation|arena|llmfao]

Prints the tables of docs/measurements/powered.md:
coverage and width in simulation, with machines that are useful, useless, biased
and reversed; with the recorded answers at hand, leaderboards from some of the votes against those from all of them.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from scipy.special import expit
from scipy.stats import rankdata

from benchmarks.people import votes_alone
from benchmarks.soundness import spread
from benchmarks.verdict import table
from comparo import Comparisons, ComparisonsError, with_votes
from comparo.methods import quiet_fit
from comparo.model.estimators.prediction_powered import GroupAnswers, fitted
from comparo.ranking.leaderboard import Leaderboard
from comparo.ranking.powered import powered

SPREAD, OWN, APART = 0.7, 0.7, 0.3  # logits: systems' means, texts of a system, the machine's own view of systems
FIRST, NOISE = 0.4, 0.5  # logits: the machine's bias towards the first, and the noise of its soft answers
SHARED = 0.8  # correlation of people's and the machine's view of a text
TIES = 0.15  # share of votes
MORE = 10  # contexts that the machine answers, for each with votes
ASKED = 4  # pairs of each context that it answers, beside those voted on
WHO = ("both", "people only", "machine only", "with_votes")
MACHINES = ("useful", "knows texts", "useless", "biased", "reversed")


@dataclass(frozen=True)
class Setting:
    """A machine, `groups` systems with `votes` votes each, so many of them `in_context`, and how both are asked."""

    machine: str = "useful"
    groups: int = 5
    votes: float = 20
    in_context: int = 1
    is_hard: bool = False
    is_other_design: bool = False


def drawn(rng, setting):
    """The machine's answers, people's votes, and people's true scores of the systems.

    The true scores are those of Bradley–Terry for votes without end on new texts.
    """
    groups, kind = setting.groups, setting.machine
    own = 2.0 * OWN if kind == "knows texts" else OWN
    votes = round(setting.votes * groups / 2)
    context = np.arange(votes) // setting.in_context
    contexts = MORE * (int(context[-1]) + 1)
    means = SPREAD * rng.standard_normal(groups)
    texts, others = rng.standard_normal((2, contexts, groups))
    shared = 0.95 if kind == "knows texts" else 0.0 if kind == "useless" else SHARED
    view = APART * rng.standard_normal(groups) + own * (shared * texts + np.sqrt(1 - shared**2) * others)
    view += SPREAD * rng.standard_normal(groups) if kind == "useless" else means
    view = -view if kind == "reversed" else view + (np.arange(groups) == 0) * (kind == "biased")
    pairs = np.array([(i, j) for i in range(groups) for j in range(groups) if i != j])
    chance = np.ones(len(pairs))
    if setting.is_other_design:  # people compare systems that are close to each other
        place = np.argsort(np.argsort(means))
        chance = np.exp(-0.5 * np.abs(place[pairs[:, 0]] - place[pairs[:, 1]]))
    chance /= chance.sum()
    first, second = pairs[rng.choice(len(pairs), votes, p=chance)].T
    p = expit(means[first] + own * texts[context, first] - means[second] - own * texts[context, second])
    p = np.where(rng.random(votes) < TIES, 0.5, rng.random(votes) < p)
    people = Comparisons(np.arange(groups), *_codes(first, second), p, None, np.arange(contexts), _code(context))
    there = np.concatenate([context, np.repeat(np.arange(contexts), ASKED)])
    asked = np.concatenate([np.column_stack([first, second]), pairs[rng.integers(len(pairs), size=ASKED * contexts)]])
    rows = np.unique(np.column_stack([there, np.sort(asked, axis=1)]), axis=0, return_index=True)[1]
    there, (first, second) = there[rows], asked[rows].T
    d = view[there, first] - view[there, second] + FIRST
    p = rng.random(len(d)) < expit(d) if setting.is_hard else expit(d + NOISE * rng.standard_normal(len(d)))
    machine = Comparisons(
        np.arange(groups), *_codes(first, second), p.astype(float), None, people.contexts, _code(there)
    )
    return machine, people, _truth(means, own, pairs, chance)


def _code(values):
    return values.astype(np.int32)


def _codes(*columns):
    return tuple(map(_code, columns))


def _truth(means, own, pairs, chance):
    points, weights = np.polynomial.hermite_e.hermegauss(31)
    apart = means[pairs[:, 0]] - means[pairs[:, 1]]
    won = expit(apart[:, None] + np.sqrt(2.0) * own * points) @ (weights / weights.sum())
    p = 0.5 * TIES + (1 - TIES) * won
    every = Comparisons(np.arange(len(means)), *_codes(*pairs.T), p, 1e6 * chance)
    return quiet_fit(every).scores


def machine_alone(machine, groups, over="new"):
    """The leaderboard of a machine's answers about some groups, as `powered` fits them."""
    codes = np.flatnonzero(np.isin(machine.items, groups))
    machine = machine.take(np.isin(machine.first, codes) & np.isin(machine.second, codes))
    count, cluster = len(codes), machine.context if over == "new" else machine.pair_keys()
    cluster = np.unique(cluster, return_inverse=True)[1]
    ends = np.searchsorted(codes, (machine.first, machine.second))
    fit = fitted(GroupAnswers(*ends, machine.p, machine.weights, cluster), count, int(cluster.max()) + 1)
    columns = {"group": machine.items[codes]} | dict.fromkeys(("won", "texts", "contexts", "calls"), np.zeros(count))
    how = {"freedom": fit.freedom, "level": 0.95, "over": over}
    return Leaderboard.ordered(fit.scores, fit.covariance(fit.robust), np.zeros((count, count)), columns, **how)


def outcome(rng, setting):
    """Coverage, width and error of the first system for both, people and machine alone; worth and λ."""
    machine, people, truth = drawn(rng, setting)
    found = powered(machine, people)
    row = []
    for board in (found.board, found.people_only, machine_alone(machine, found.board.group)):
        true, at = truth[board.group] - np.mean(truth[board.group]), int(np.argmin(board.group))
        row += [np.mean((board.low <= true) & (true <= board.high)), np.mean(board.high - board.low)]
        row.append(board.score[at] - true[at])
    return [*row, found.worth / found.votes, found.weight["machine"]]


def cell(runs, seed, key):
    """The outcomes of a row of the table, (runs·4, 11): soft answers and decisions, the same design and another."""
    rng = np.random.default_rng([seed, MACHINES.index(key[0]), *map(int, key[1:])])
    ways = product((False, True), (False, True))
    return np.array([answered(rng, Setting(*key, *way)) for way in ways for _ in range(runs)])


def answered(rng, setting):
    """The outcome of the next draw whose votes are not refused as too few."""
    while True:
        try:
            return outcome(rng, setting)
        except ComparisonsError:
            continue


def simulation(runs, seed):
    keys = list(product(MACHINES, (5, 20), (3.2, 10, 50), (1, 5)))
    rows = []
    for key, found in zip(keys, spread(partial(cell, runs, seed), keys, os.cpu_count() or 1), strict=True):
        mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
        covered = [f"{100 * mean[k]:.1f} ± {100 * error[k]:.1f}" for k in (0, 3, 6)]
        ratio = f"{mean[1]:.2f} / {mean[4]:.2f} / {mean[7]:.2f}"
        bias = [f"{mean[k]:+.2f} ± {error[k]:.2f}" for k in (2, 8)]
        rows.append([*key, *covered, ratio, f"{np.median(found[:, 9]):.2f}", f"{mean[10]:+.2f}", *bias])
    header = ["machine", "systems", "votes per system", "in a context", "covered: both, %", "people, %", "machine, %"]
    header += ["width: both / people / machine", "a vote is worth", "λ", "first system's error, both", "machine"]
    print(*table(header, rows), sep="\n")


def without(data):
    """The comparisons without their judges."""
    return replace(data, judges=None, judge=None)


def figures(board, target):
    """Mean distance of ranks to those of the target, mean width, share of intervals that cover its scores, and groups.

    Groups that the board has not are in the middle of it; the two others are about those that it has.
    """
    place = {name: k for k, name in enumerate(target.group.tolist())}
    at = np.array([place[name] for name in board.group.tolist()])
    score = np.zeros(len(target))
    score[at] = board.score
    true = target.score[at] - np.mean(target.score[at])
    return [
        np.mean(np.abs(rankdata(-score) - target.rank)),
        np.mean(board.high - board.low),
        np.mean((board.low <= true) & (true <= board.high)),
        len(board),
    ]


def draw(data, human, shares, over, single, seed):
    """The figures of one draw of votes: {(share, who): [rank, width, covered, groups, votes, worth per vote]}."""
    rng = np.random.default_rng([seed])
    is_vote = data.judged_by == data.judges.tolist().index(human)
    votes = np.flatnonzero(is_vote)
    names = [name for name in data.judges.tolist() if name != human]
    target, found = powered(data, people=[human], contexts=over).people_only, {}
    machines = {name: without(data.take(data.judges[data.judged_by] == name)) for name in names}
    if seed < single:
        ranking = quiet_fit(machines[names[0]], "mixed", groups="items")
        own = alone(ranking, single_votes(data.take(votes)), over)
    for share in shares:
        some = np.sort(rng.choice(votes, round(share * len(votes)), replace=False))
        for name, answers in machines.items():
            board = machine_alone(answers, target.group, over)
            found[share, f"machine only, {name}"] = [*figures(board, target), np.nan, np.nan]
        for chosen in [names, *([name] for name in names)]:
            rows = np.isin(data.judges[data.judged_by], chosen)
            who = "both, all machines" if len(chosen) > 1 else f"both, {chosen[0]}"
            try:
                both = powered(data.take(np.concatenate([some, np.flatnonzero(rows)])), people=[human], contexts=over)
            except ComparisonsError:  # too few votes
                refused = [np.nan, np.nan, np.nan, 0, len(some), np.nan]
                found |= {(share, who): refused, (share, "people only"): refused}
                continue
            found[share, who] = [*figures(both.board, target), len(some), both.worth / both.votes]
            found[share, "people only"] = [*figures(both.people_only, target), len(some), 1.0]
        if seed < single:
            board = with_votes(ranking, single_votes(data.take(some))).groups(contexts=over)
            found[share, f"with_votes, {names[0]}"] = [*figures(board, own), len(some), np.nan]
    return found


def single_votes(data):
    """The votes as `with_votes` takes them, each a decision."""
    return replace(without(data), weight=None).decisions()


def alone(ranking, votes, over):
    """People's leaderboard from votes by the model of `with_votes`, in its units, without the machine."""
    own = votes_alone(ranking, votes)
    return replace(ranking.judged, scores=own.scores, covariance=own).groups(contexts=over)


def recorded(data, human, shares, over, draws, single):
    """The table of one set of battles that people and machines judged."""
    work = partial(draw, data, human, shares, over, single)
    found = spread(work, range(draws), os.cpu_count() or 1)
    rows = []
    for key in sorted(found[0], key=lambda key: (key[0], WHO.index(key[1].split(",")[0]))):
        own = np.array([each[key] for each in found if key in each])
        mean, error = np.mean(own, axis=0), np.std(own, axis=0) / np.sqrt(len(own))
        figure = []
        for k, scale, digits in ((3, 1, 1), (0, 1, 2), (1, 1, 2), (2, 100, 1), (5, 1, 2)):
            known = f" ± {scale * error[k]:.{digits}f}" if error[k] > 1e-9 else ""  # one draw, or the same in all
            figure.append("–" if np.isnan(mean[k]) else f"{scale * mean[k]:.{digits}f}{known}")
        figure[0] = "refused" if mean[3] == 0 else f"{mean[3]:.0f}" if error[3] == 0 else figure[0]
        rows.append([f"{100 * key[0]:.0f}%", "–" if np.isnan(mean[4]) else f"{mean[4]:.0f}", key[1], *figure])
    header = ["share of votes", "votes", "leaderboard", "systems", "ranks apart, mean", "width, logits", "covered, %"]
    print(*table([*header, "a vote is worth"], rows), sep="\n")


def arena(folder, draws, single):
    """26,919 battles of 20 systems, each about a question of its own."""
    data = Comparisons.of(folder / "judges.arena_ppr.csv.gz")
    recorded(data, "human", (0.01, 0.05, 0.2), "new", draws, single)


def llmfao(folder, draws, single):
    """59 systems on 13 prompts, 2139 pairs; a row of people is the mean of up to five votes."""
    path = folder / "judges.llmfao.csv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as file:
        weight = np.array([float(row["votes"]) for row in csv.DictReader(file)])
    data = replace(Comparisons.of(path), weight=weight)
    recorded(data, "human_crowd", (0.01, 0.05, 0.2, 0.5), "these", draws, single)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=50, help="of each of the four ways of a row of the simulation")
    parser.add_argument("--draws", type=int, default=20, help="of recorded votes")
    parser.add_argument("--single", type=int, default=1, help="of them, how many also by with_votes (a minute each)")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--part", choices=("all", "simulation", "arena", "llmfao"), default="all")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    if args.part in ("all", "simulation"):
        simulation(args.runs, args.seed)
    for work in (arena, llmfao):
        if args.part in ("all", work.__name__) and args.data.is_dir():
            print("", f"{work.__doc__}", "", sep="\n")
            work(args.data / "panel", args.draws, args.single)


if __name__ == "__main__":
    main()
