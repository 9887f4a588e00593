"""What the recorded judgements say of the judge, and one idea that was left out: the figures of docs/efficiency.md.

Of the logits l of a pair in both orders, S = ½(l_ij − l_ji) is what the judge prefers and A = ½(l_ij + l_ji) what it
makes of the position; S = s_i − s_j + pair, A = context + text_i + text_j + rest.
"""

from pathlib import Path

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import spsolve
from scipy.special import logit

from comparo.contrast import contrasts, overlaps
from comparo.fitting import Fitting
from comparo.studies.cells import correlate
from comparo.studies.draws import draw
from comparo.studies.opening import open_set

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
        whole = 1 - overlaps([items.texts[row] for row in place]) if table[label] is None else table[label]
        contrast[here] = whole[a, b]
    return [np.mean(pair[part] ** 2) for part in np.array_split(np.argsort(contrast), 5)]


def discounted(opened, recorded):
    """Spearman × 100 with groups, and with the text's own part discounted by the variance of its position effects."""
    spread, _, _, texts, _ = variances(recorded)
    share = np.clip(1 - texts / (spread / 2), 0.1, 1.0)
    fitting, many, found = Fitting(opened.items), np.int64(len(recorded.items)), []
    key = recorded.context * many + recorded.item
    order = np.argsort(key)
    drawn = draw(recorded, FEW[opened.name], DRAWS, rng=np.random.default_rng(0))
    for number in range(DRAWS):
        ranking = fitting.rank(drawn.one(number))
        place = order[np.searchsorted(key, ranking.graph.context * many + ranking.graph.item, sorter=order)]
        scores, mean = np.empty((2, len(key))), ranking.effects.mean
        scores[0, place], scores[1, place] = ranking.scores, mean + share * (ranking.scores - mean)
        found.append(100 * correlate(recorded, scores).spearman)
    return np.mean(found, axis=0)


def main() -> None:
    print("\n# Efficiency: what the recorded judgements say of the judge (variances in logits)", flush=True)
    if not (DATA / "judgements").exists():
        print(f"skipped, {DATA}/judgements is not there")
        return
    print("spread of differences, pair; position: context, text, rest; | pair by fifths of contrast, lowest first; |")
    print("Spearman × 100 from few random calls, systems known: as it is, and discounted")
    for name in SETS:
        opened = open_set(name, DATA)
        for attribute, recorded in opened.recorded.items():
            parts = "".join(f"{value:>8.3f}" for value in variances(recorded))
            noise = " ".join(f"{value:.4f}" for value in noise_by_contrast(recorded, opened.items))
            plain, less = discounted(opened, recorded)
            print(f"{name + ' ' + attribute:<30}{parts} | {noise} | {plain:.1f} {less:.1f}", flush=True)


if __name__ == "__main__":
    main()
