"""Every door fits answers by the model of `usual_method`, whose intervals hold: 16 texts, 64 answers.

`PYTHONPATH=.:tests python tests/test_doors.py` prints the coverage of mixed and panel by answers per text, for
`ENOUGH`.
"""

import itertools
import json
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy.special import expit

from comparo import Comparisons, Items
from inside import FEW, Fit, Fitting, csv_text, quiet_fit

TEXTS, ANSWERS = 16, 64


def judged(rng, kind, voices=1, per_text=ANSWERS / TEXTS, taste=0.0, texts=TEXTS):
    """Answers of `voices` about random pairs, `per_text` per text in all, and the true scores."""
    truth, count = rng.normal(0.0, 1.2, texts), int(per_text * texts)
    first, voice = rng.integers(texts, size=count), np.arange(count) % voices
    second = (first + rng.integers(1, texts, size=count)) % texts
    own, gamma = rng.normal(0.0, taste, (voices, texts)), rng.normal(0.0, 0.3, voices)
    if kind == "winners":  # a list of winners has no position bias
        gamma = np.zeros(voices)
    if kind == "both":
        first, second = (np.tile(part[: count // 2], 2) for part in (first, second))
        first[count // 2 :], second[count // 2 :] = second[count // 2 :].copy(), first[count // 2 :].copy()
        voice = np.tile(voice[: count // 2], 2)
    d = truth[first] - truth[second] + own[voice, first] - own[voice, second] - gamma[voice]
    d = d + rng.normal(0.0, 0.8, count) if kind in ("soft", "both", "winners") else d
    p = expit(d) if kind in ("soft", "both", "winners") else (rng.random(count) < expit(d)).astype(float)
    if kind in ("winners", "won"):
        turned = p < 0.5
        first, second = np.where(turned, second, first), np.where(turned, first, second)
        p = np.maximum(p, 1.0 - p)
    names = np.array([f"t{k:02}" for k in range(texts)])
    judge = np.array([f"v{k}" for k in voice]) if voices > 1 else None
    return Comparisons.from_columns(names[first], names[second], p, judge=judge), truth


def covered(ranking, truth):
    """The share of texts whose interval holds their true score."""
    true, part = truth[[int(name[1:]) for name in ranking.items]], ranking.graph.component
    true = true - (np.bincount(part, true) / np.bincount(part))[part]
    return np.mean((ranking.low <= true) & (true <= ranking.high))


def coverage(door, runs, *how, **more):
    """The mean coverage of a door, and its standard error."""
    rng = np.random.default_rng(7)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = [covered(door(data), truth) for data, truth in (judged(rng, *how, **more) for _ in range(runs))]
    return np.mean(found), np.std(found) / np.sqrt(runs)


DOORS = {
    "fit": quiet_fit,
    "rank": lambda data: Fitting(Items.of({name: name for name in data.items}), estimate="judge").rank(data),
    "study": Fit("rank"),
}


@pytest.mark.statistical
@pytest.mark.long
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(
    ("kind", "voices"), [("soft", 1), ("both", 1), ("winners", 1), ("won", 1), ("hard", 1), ("hard", 32)]
)
def test_intervals_hold_at_every_door(door, kind, voices):
    mean, error = coverage(DOORS[door], 80, kind, voices)
    assert 0.93 - 2 * error <= mean <= 0.97 + 2 * error


@pytest.mark.parametrize(
    ("kind", "per_text", "method"), [("soft", 4, "panel"), ("hard", 4, "mixed"), ("hard", 12, "panel")]
)
def test_all_doors_choose_one_model_and_names_of_columns_change_nothing(run, tmp_path, kind, per_text, method):
    data, _ = judged(np.random.default_rng(1), kind, 2, per_text)
    rankings = [door(each) for door in DOORS.values() for each in (data, replace(data, voted=True))]
    columns = data.to_columns()
    for name in ("judge", "voter"):
        path = tmp_path / f"{name}.csv"
        path.write_text(csv_text({name if key == "judge" else key: column for key, column in columns.items()}))
        rankings.append(quiet_fit(path))
        rows = json.loads(run(tmp_path, ["fit", path, "--format", "json"]).stdout)
        assert rows["method"] == method
        assert [row["item"] for row in rows["ranking"]] == list(rankings[0])
    for ranking in rankings:
        assert ranking.method == method
        scores = [ranking[name].score for name in rankings[0]]
        assert scores == pytest.approx([rankings[0][name].score for name in rankings[0]], abs=0.02)  # style, in a run


if __name__ == "__main__":
    for kind, texts, voices, per_text in itertools.product(("soft", "hard"), (16, 40), (2, 4), (2, 4, 6, 10, 12, 16)):
        if per_text * texts >= FEW * voices:
            ways = [partial(quiet_fit, method=method) for method in ("mixed", "panel")]
            means = [coverage(way, 60, kind, voices, per_text, texts=texts)[0] for way in ways]
            print(kind, texts, voices, per_text, *(f"{100 * mean:.1f}" for mean in means), flush=True)
