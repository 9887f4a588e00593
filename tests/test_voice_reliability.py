"""What part of a voice's answers is signal: known shares are found again, and intervals cover them."""

import numpy as np
import pytest
from scipy.special import expit

from comparo import Comparisons, fit, reliability
from comparo.model.likelihoods.bradley_terry import LOGISTIC
from inside import count_flips
from split import one_short

SCALES = np.array([1.0, 1.0, 0.6, -0.8])
TASTES = np.array([0.4, 0.6, 0.8, 0.4])
BIAS, MOVED = 0.5, 0.4


def answers(seed, items, contexts, calls, kind):
    """Answers of known voices, each pair in both orders, and the true shares of each voice."""
    rng = np.random.default_rng(seed)
    truth = rng.standard_normal((contexts, items))
    moved, noise = (MOVED, 1.0) if kind == "soft" else (0.0, LOGISTIC)
    parts = {name: [] for name in ("first", "second", "p", "context", "judge")}
    for judge, (scale, taste) in enumerate(zip(SCALES, TASTES, strict=True)):
        view = scale * truth + taste * rng.standard_normal(truth.shape)
        e = moved * rng.standard_normal(truth.shape)
        c = np.repeat(np.arange(contexts), calls // 2)
        i = rng.integers(items, size=len(c))
        j = (i + rng.integers(1, items, size=len(c))) % items
        i, j, c = np.concatenate([i, j]), np.concatenate([j, i]), np.concatenate([c, c])
        d = view[c, i] - view[c, j] - BIAS + e[c, i] + e[c, j]
        p = expit(d + rng.standard_normal(len(c))) if kind == "soft" else (rng.random(len(c)) < expit(d)).astype(float)
        for name, values in zip(parts, (i, j, p, c, np.full(len(c), judge)), strict=True):
            parts[name].append(values)
    content, position = 2 * (SCALES**2 + TASTES**2), BIAS**2 + 2 * moved**2
    total = content + position + noise
    shares = {"signal": 2 * SCALES**2 / total, "content": content / total, "position": position / total}
    known = shares | {"noise": noise / total, "agreement": SCALES / np.hypot(SCALES, TASTES), "gamma": BIAS}
    return Comparisons.from_columns(**{name: np.concatenate(values) for name, values in parts.items()}), known


@pytest.mark.long
@pytest.mark.parametrize(
    ("kind", "items", "contexts", "calls", "runs"),
    one_short(
        [("soft", 12, 15, 60, 1), ("soft", 12, 15, 60, 12), ("soft", 50, 1, 400, 12), ("decisions", 12, 15, 100, 3)]
    ),
)
def test_known_shares_are_found_again_and_intervals_cover(kind, items, contexts, calls, runs):
    tables, known = [], {}
    for seed in range(runs):
        data, known = answers(seed, items, contexts, calls, kind)
        tables.append(reliability(data))
    for name, true in known.items():
        found = np.mean([table[name] for table in tables], axis=0)
        assert found == pytest.approx(np.broadcast_to(true, found.shape), abs=0.05 * (180 / (runs * contexts)) ** 0.5)
        inside = [(table[f"{name}_low"] <= true) & (true <= table[f"{name}_high"]) for table in tables]
        least = 0.9 if (name, kind, contexts) == ("signal", "soft", 15) else 0.83
        assert np.mean(inside) >= (least if runs > 1 else 0.75)
        width = np.mean([table[f"{name}_high"] - table[f"{name}_low"] for table in tables])
        assert 0.02 < width < 0.8
    for table in tables:
        assert table["content"] + table["position"] + table["noise"] == pytest.approx(np.ones(4))
        assert table["signal"] == pytest.approx(table["agreement"] ** 2 * table["content"])


@pytest.mark.long
def test_a_lower_level_covers_less():
    """How often those of 0.95 cover is in the test above."""
    inside = []
    for seed in range(12):
        data, known = answers(100 + seed, 10, 12, 60, "soft")
        table = reliability(data, level=0.6)
        inside.append((table["signal_low"] <= known["signal"]) & (known["signal"] <= table["signal_high"]))
    assert 0.45 <= np.mean(inside) <= 0.85
    wide = reliability(data)
    assert np.all((wide["signal_low"] < table["signal_low"]) & (table["signal_high"] < wide["signal_high"]))


def test_one_voice_has_content_but_no_signal():
    data, known = answers(0, 12, 15, 60, "soft")
    alone = data.take(data.judged_by == 0)
    table = reliability(
        Comparisons(alone.items, alone.first, alone.second, alone.p, None, alone.contexts, alone.context)
    )
    assert table["judge"].tolist() == ["judge"]
    assert np.isnan([table["signal"][0], table["agreement"][0], table["signal_low"][0]]).all()
    assert table["content"][0] == pytest.approx(known["content"][0], abs=0.1)


def test_counts_are_what_counting_one_by_one_gives():
    rng = np.random.default_rng(0)
    pairs = [(i, j) for i in range(12) for j in range(12) if i != j and rng.random() < 0.7]
    data = Comparisons.from_rows([(i, j, float(rng.choice([0.0, 0.3, 0.5, 0.8, 1.0]))) for i, j in pairs])
    asked = {(i, j): p for i, j, p in zip(data.first.tolist(), data.second.tolist(), data.p.tolist(), strict=True)}
    both = [(asked[i, j], asked[j, i]) for i, j in asked if i < j and (j, i) in asked]
    assert count_flips(data).share == pytest.approx(np.mean([(p - 0.5) * (q - 0.5) > 0 for p, q in both]))
    assert np.isnan(count_flips(Comparisons.from_rows([("a", "b", 0.7)])).share)


@pytest.mark.long
def test_what_is_accepted(tmp_path):
    data, _ = answers(0, 12, 3, 60, "soft")
    table = reliability(data)
    again = reliability(fit(data, "poe-bt"))
    for name, column in table.items():
        assert np.array_equal(column, again[name], equal_nan=name not in ("judge", "calls"))
    assert not np.array_equal(table["signal_low"], reliability(data, seed=1)["signal_low"])
    lines = ["first,second,p,mass", *(f"{i},{j},0.{k}5,0.{k}" for k, (i, j) in enumerate(["ab", "bc", "ca", "ac"], 2))]
    file = tmp_path / "pairs.csv"
    file.write_text("\n".join(lines))
    small = reliability(file)
    assert small["mass"] == pytest.approx([0.35])
    assert np.isnan(small["content_low"][0])  # three texts are too few for a jackknife
    assert np.isnan(table["mass"]).all()
    with pytest.raises(ValueError, match="0 and 1"):
        reliability(data, level=95)
