"""What the recorded judgements say of the judge: the figures of docs/measurements/efficiency.md.

Of the logits l of a pair in both orders, S = ½(l_ij − l_ji) is what the judge prefers and A = ½(l_ij + l_ji) what it
makes of the position; S = s_i − s_j + pair, A = context + text_i + text_j + rest.
"""

from itertools import pairwise
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import spsolve
from scipy.special import expit, logit

from benchmarks.paper.datasets import open_dataset
from comparo.analysis.correlations import spearman
from comparo.data.comparisons import Comparisons
from comparo.data.text_features import contrasts, count_sequences, overlaps, rarities
from comparo.methods import fit
from comparo.run.fit_policy import Fitting
from comparo.selection.designs import in_both_orders, random_pairs
from comparo.selection.selector import Selector

DATA = Path(__file__).parents[2] / "shared" / "data"
SETS = ("summeval", "topicalchat", "hanna")
FEW = {"summeval": "2n", "topicalchat": "2n", "hanna": "5n"}
DRAWS = 5


def both_orders(recorded):
    """The candidates of each pair asked in both orders, and the logits of both orders."""
    pairs = recorded.pairs[recorded.pairs.min(axis=1) >= 0]
    p = np.clip(recorded.p[pairs], 1e-4, 1 - 1e-4)
    return recorded.first[pairs[:, 0]], recorded.second[pairs[:, 0]], logit(p[:, 0]), logit(p[:, 1])


def least_squares(first, second, values, sign, nodes):
    """x that makes x_first + sign·x_second nearest to the values, and what is left of them."""
    rows = np.arange(len(values))
    entries = np.concatenate([np.ones(len(rows)), np.full(len(rows), float(sign))])
    x = csr_array((entries, (np.tile(rows, 2), np.concatenate([first, second]))), shape=(len(rows), nodes))
    found = spsolve((x.T @ x + diags_array(np.full(nodes, 1e-9))).tocsc(), x.T @ values)
    return found, values - x @ found


def variances(recorded):
    """Variances of: score differences of a context, pair; context, text, rest."""
    first, second, one, other = both_orders(recorded)
    n, contexts = len(recorded.item), len(recorded.contexts)
    context = recorded.context[first]
    prefers, position = (one - other) / 2, (one + other) / 2
    freedom = (len(first) - n + contexts) / len(first)
    scores, pair = least_squares(first, second, prefers, -1, n)
    mean = np.bincount(context, position) / np.bincount(context)
    texts, rest = least_squares(first, second, position - mean[context], 1, n)
    sizes = np.bincount(recorded.context)
    centred = scores - (np.bincount(recorded.context, scores) / sizes)[recorded.context]
    spread = 2 * np.sum(centred**2) / np.sum(sizes - 1)
    return spread, np.mean(pair**2) / freedom, np.var(mean), np.var(texts), np.mean(rest**2) / freedom


def noise_by_contrast(recorded, items):
    """The variance of S around the difference of the scores in each fifth of the pairs, the most alike first."""
    first, second, one, other = both_orders(recorded)
    _, pair = least_squares(first, second, (one - other) / 2, -1, len(recorded.item))
    labels = zip(recorded.contexts[recorded.context].tolist(), recorded.items[recorded.item].tolist(), strict=True)
    rows = np.array([items.row(*label) for label in labels])
    table = contrasts(items)
    contrast = np.empty(len(first))
    for code, label in enumerate(recorded.contexts.tolist()):
        here = np.flatnonzero(recorded.context[first] == code)
        place = {row: number for number, row in enumerate(items.groups[label].tolist())}
        a, b = ([place[row] for row in rows[end[here]].tolist()] for end in (first, second))
        counts = count_sequences([items.texts[row] for row in place])
        whole = 1 - overlaps(counts, rarities(counts)) if table[label] is None else table[label]
        contrast[here] = whole[a, b]
    return [np.mean(pair[part] ** 2) for part in np.array_split(np.argsort(contrast), 5)]


def made_up(items, scale, odd, hard, calls, rng):
    """Spearman × 100 with made-up scores of SummEval's texts, by the paper's way and ours, of a judge who knows them.

    Its logits have the noise ½·max(1, scale/2) and a bias of 0.3; `odd` is the score of the text that is least like the
    others of its context, None for any.
    """
    contrast, names = contrasts(items), items.names
    truth, rows = {}, {"paper": [], "ours": []}
    for context, ids in names.items():
        score = scale * rng.standard_normal(len(ids))
        if odd is not None:
            score[np.argmax(contrast[context].sum(axis=1))] = odd
        truth |= {(context, item): value for item, value in zip(ids, score, strict=True)}
        noise = 0.5 * max(1.0, scale / 2) * rng.standard_normal((len(ids), len(ids)))
        p = expit(score[:, None] - score + noise + 0.3)
        p = (rng.random(p.shape) < p).astype(float) if hard else p
        random = in_both_orders(random_pairs(len(ids), calls // 2, rng))
        ours = Selector(range(len(ids)), strategy="greedy", orders="both", contrast=contrast[context], seed=rng)
        for way, pairs in (("paper", random.tolist()), ("ours", ours.next(calls))):
            rows[way] += [{"context": context, "first": ids[i], "second": ids[j], "p": p[i, j]} for i, j in pairs]
    fits = {"paper": fit, "ours": Fitting(items, grouped=False).rank}
    return [100 * agreement(fits[way](Comparisons.from_rows(rows[way])), truth) for way in rows]


def agreement(ranking, truth):
    """Spearman's correlation with the true scores, the mean over contexts."""
    labels = zip(ranking.context.tolist(), ranking.items.tolist(), strict=True)
    known = np.array([truth[label] for label in labels])
    parts = [slice(begin, end) for begin, end in pairwise(ranking.graph.starts.tolist())]
    return float(np.mean([spearman(ranking.scores[part], known[part]) for part in parts]))


def confident() -> None:
    """Judges that are surer than the recorded one, whom the choice of pairs by contrast must not mislead."""
    print("\n# Made-up scores of SummEval's texts, Spearman × 100: the paper's way, ours", flush=True)
    items, rng = open_dataset("summeval", DATA).items, np.random.default_rng(0)
    for scale, odd, hard in ((1, None, False), (3, None, False), (3, -6, False), (6, -10, False), (2, None, True)):
        found = [
            np.mean([made_up(items, scale, odd, hard, calls, rng) for _ in range(DRAWS)], axis=0)
            for calls in (32, 48, 80)
        ]
        kind = f"{'decisions' if hard else 'soft'}, scores ± {scale}" + (f", the odd one {odd}" if odd else "")
        print(f"{kind:<40}" + "   ".join(f"{paper:.1f} {ours:.1f}" for paper, ours in found), flush=True)


def main() -> None:
    print("\n# Efficiency: what the recorded judgements say of the judge (variances in logits)", flush=True)
    if not (DATA / "judgements").exists():
        print(f"skipped, {DATA}/judgements is not there")
        return
    print("spread of differences, pair; position: context, text, rest; | pair by fifths of contrast, lowest first")
    for name in SETS:
        opened = open_dataset(name, DATA)
        for attribute, recorded in opened.recorded.items():
            parts = "".join(f"{value:>8.3f}" for value in variances(recorded))
            noise = " ".join(f"{value:.4f}" for value in noise_by_contrast(recorded, opened.items))
            print(f"{name + ' ' + attribute:<30}{parts} | {noise}", flush=True)
    confident()


if __name__ == "__main__":
    main()
