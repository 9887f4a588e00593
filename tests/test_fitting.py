"""From a run's answers to its ranking: weights by contrast, groups, style, and a folder that keeps all of them."""

from dataclasses import replace

import numpy as np
import pytest

from comparo import Comparisons, Items, StoreError, fit, load_judge, rank
from inside import METHODS, Budget, Fitting, Store, Task, contrasts, criterion_prompt, read_record, styles, voices_of
from split import one_short
from stored import run

WORDS = "river stone amber willow thunder quiet golden paper morning shadow copper velvet".split()


def rows_of(contexts=6, number=5, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {"id": f"system {k}", "context_id": f"c{c}", "text": " ".join(rng.choice(WORDS, 8)), "team": f"team {k % 2}"}
        for c in range(contexts)
        for k in range(number)
    ]


def task_of(rows, **options):
    judge = load_judge("simulated/soft", seed=1)
    return Task(Items.of(rows), criterion_prompt("better"), judge, Budget.of("4n"), **options)


def asked_in(items, rng, noise=0.2, calls=12):
    """Soft answers about random pairs of every context; the scores are those of the ids."""
    found = []
    for context, ids in items.names.items():
        scores = dict(zip(ids, np.linspace(-1, 1, len(ids)), strict=True))
        for _ in range(calls):
            first, second = rng.choice(ids, 2, replace=False).tolist()
            d = scores[first] - scores[second] + noise * rng.standard_normal()
            for one, other, sign in ((first, second, 1), (second, first, -1)):
                found.append((one, other, float(1 / (1 + np.exp(-sign * d - 0.2))), context))
    first, second, p, context = zip(*found, strict=True)
    return Comparisons.from_columns(first, second, p, context=context)


def test_weights_are_a_power_of_the_contrast_and_their_sum_stays():
    items = Items.of(rows_of())
    data, fitting = asked_in(items, np.random.default_rng(0)), Fitting(items)
    weighed = fitting.weigh(data)
    table = contrasts(items)
    worth = np.array(
        [
            table[data.contexts[c]][
                items.names[data.contexts[c]].index(data.items[i]), items.names[data.contexts[c]].index(data.items[j])
            ]
            for c, i, j in zip(data.context, data.first, data.second, strict=True)
        ]
    )
    assert np.sum(weighed.weights) == pytest.approx(len(data))
    slope = np.polyfit(np.log(worth), np.log(weighed.weights), 1)
    np.testing.assert_allclose(np.polyval(slope, np.log(worth)), np.log(weighed.weights), atol=1e-9)
    assert 0.0 <= slope[0] <= 3.0
    doubled = fitting.weigh(replace(data, weight=np.full(len(data), 2.0)))
    assert np.sum(doubled.weights) == pytest.approx(2 * len(data))


def test_noise_that_falls_with_contrast_is_found_and_its_absence_too():
    rng = np.random.default_rng(1)
    same = " ".join(WORDS)
    texts = [" ".join([*rng.choice(WORDS, 3), same]) if k % 2 else " ".join(rng.choice(WORDS, 6)) for k in range(12)]
    items = Items.of([{"id": k, "context_id": c, "text": text} for c in range(40) for k, text in enumerate(texts)])
    table = contrasts(items)[0]
    steep = []
    for power in (0.0, 2.0):
        first = rng.integers(12, size=1600)
        second = (first + rng.integers(1, 12, size=1600)) % 12
        noise = 0.1 * (table[first, second] / table.mean()) ** (-power / 2) * rng.standard_normal(1600)
        p = 1 / (1 + np.exp(0.1 * (second - first) - noise))
        data = Comparisons.from_columns(first, second, p, context=np.repeat(np.arange(40), 40))
        weight = Fitting(items).weigh(data).weights
        steep.append(np.polyfit(np.log(table[first, second]), np.log(weight), 1)[0])
    assert steep[0] < 0.2
    assert steep[1] > 1.1


def test_ranking_is_the_fit_with_what_is_known_of_the_items():
    items = Items.of(rows_of())
    data = asked_in(items, np.random.default_rng(2))
    ranking = Fitting(items).rank(data)
    expected = fit(Fitting(items).weigh(data), bias="joint", prior="estimated", groups="items", features=_style(items))
    np.testing.assert_allclose(ranking.scores, expected.scores)
    np.testing.assert_allclose(ranking.std, expected.std)
    effects = ranking.solution.effects
    assert effects.groups > effects.scores
    assert len(np.unique(effects.group)) == 5
    alone = Fitting(items, grouped=False).rank(data)
    assert alone.solution.effects.groups is None


def _style(items):
    style = styles(items)
    labels = zip(items.contexts[items.context].tolist(), items.ids.tolist(), strict=True)
    return dict(zip(labels, style, strict=True)) if style.shape[1] else None


@pytest.mark.parametrize(
    "options",
    [{"plain": True, "method": "mixed"}, {"method": "bt", "bias": "none"}, {"method": "poe-bt", "bias": "plug-in"}],
)
def test_what_estimates_nothing_is_the_bare_fit(options):
    items = Items.of(rows_of())
    data = asked_in(items, np.random.default_rng(3))
    fitting = Fitting(items, **options)
    assert not fitting.pools
    expected = fit(data, fitting.method, bias=fitting.bias)
    np.testing.assert_array_equal(fitting.rank(data).scores, expected.scores)


@pytest.mark.filterwarnings("ignore")  # of what single methods note
@pytest.mark.parametrize("plain", one_short([False, True]))
@pytest.mark.parametrize("method", METHODS)
def test_a_method_of_rank_is_that_method_of_fit(tmp_path, method, plain):
    """A position bias, in one order, tells apart fits that estimate it from those that do not."""
    scores = {f"system {number}": 0.5 * number for number in range(5)}
    judges = [load_judge(f"simulated/{kind}", scores=scores, bias=1.0) for kind in ("soft", "hard")]
    how = {"judge": judges, "budget": "8n", "orders": "one", "estimate": "judge", "plain": plain}
    ranking = rank(rows_of(), "better", method=method, out=tmp_path / "run", **how)
    assert ranking.method == ("panel" if method == "mixed" else method)  # one judge decides, the other does not
    expected = {"data": tmp_path / "run"}
    if method in ("mixed", "panel") and not plain:  # these also use the texts
        style = _style(Items.of(rows_of()))
        expected = {"data": ranking.comparisons, "groups": "items", "features": style}
        assert ranking.comparisons.weight is not None
    bare = fit(method=method, **expected)
    scores = dict(zip(bare.graph.labels(bare.comparisons), bare.scores, strict=True))
    found = dict(zip(ranking.graph.labels(ranking.comparisons), ranking.scores, strict=True))
    assert found == pytest.approx(scores, abs=1e-6)
    assert read_record(tmp_path / "run").ranking.scores == pytest.approx(ranking.scores, abs=1e-6)


@pytest.mark.parametrize(
    ("judges", "options", "expected"),
    [
        (1, {}, (None, "joint")),
        (2, {}, (None, "joint")),
        (1, {"plain": True}, ("poe-bt", "joint")),
        (1, {"method": "poe-bt"}, ("poe-bt", "none")),
        (2, {"method": "mixed"}, ("mixed", "joint")),
        (1, {"method": "mixed", "bias": "none"}, ("mixed", "none")),
    ],
)
def test_the_default_method_is_named_what_it_is(judges, options, expected):
    voices = voices_of(
        [load_judge("simulated/soft", seed=seed) for seed in range(judges)], [criterion_prompt("better")]
    )
    task = task_of(rows_of(), panel=tuple(voices) if judges > 1 else (), **options)
    assert (task.method, task.bias) == expected


def test_ids_that_come_once_are_no_groups_and_groups_of_ones_own_are():
    rows = rows_of()
    once = [row | {"id": f"{row['context_id']} {row['id']}"} for row in rows]
    data = asked_in(Items.of(once), np.random.default_rng(4))
    assert Fitting(Items.of(once)).rank(data).solution.effects.groups is None
    grouped = Items.of(once, group="team")
    effects = Fitting(grouped).rank(data).solution.effects
    assert len(np.unique(effects.group)) == 2
    assert Fitting(grouped, grouped=False).rank(data).solution.effects.group is None


def test_items_have_groups_by_the_name_of_their_column():
    items = Items.of(rows_of(), group="team")
    assert items.group.tolist() == [row["team"] for row in rows_of()]
    assert Items.of(rows_of()).group is None
    assert Items.of([{"text": "a", "group": 7}, {"text": "b", "group": 8}]).group.tolist() == [7, 8]
    with pytest.raises(ValueError, match="crew"):
        Items.of(rows_of(), group="crew")
    with pytest.raises(ValueError, match="team"):
        Items.of([*rows_of(), {"id": 9, "context_id": "c0", "text": "more", "team": None}], group="team")
    assert items.digest() == Items.of(rows_of()).digest()


def test_a_record_ranks_as_the_run_did_and_refits_with_the_same_weights(tmp_path):
    task = task_of([row | {"group": row["team"]} for row in rows_of()])
    ranked, _ = run(task, tmp_path)
    record = read_record(tmp_path)
    np.testing.assert_allclose(record.ranking.scores, ranked.scores)
    again = record.fitting.fit(record.ranking.comparisons)
    np.testing.assert_allclose(again.scores, record.ranking.scores)
    np.testing.assert_array_equal(again.comparisons.weights, record.ranking.comparisons.weights)
    assert np.ptp(again.comparisons.weights) > 0


def test_a_plain_task_chooses_and_fits_as_the_paper_does(tmp_path):
    plain, own = task_of(rows_of(), plain=True), task_of(rows_of())
    assert "pairs" not in plain.identity
    assert own.identity == plain.identity | {"pairs": "by contrast"}
    assert task_of(rows_of(), strategy="random").identity.get("pairs") is None
    assert all(table is None for table in plain.fitting.contrast.values())
    assert plain.configuration["plain"]
    assert not own.configuration["plain"]
    ranking, _ = run(plain, tmp_path)
    assert ranking.solution.effects is None
    assert ranking.comparisons.weight is None
    with pytest.raises(StoreError, match=r"pairs .*'by contrast'"):
        Store(tmp_path, own.identity, own.configuration)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "poe-bt", "groups": {"a": 1}}, "`groups` belongs to prior='estimated'"),
        ({"method": "poe-bt", "features": {"a": [1.0]}}, "`features` belongs to prior='estimated'"),
        ({"prior": "estimated", "groups": {"a": 1}}, "groups have no entry for item 'b'"),
        ({"prior": "estimated", "features": {"a": [1.0]}}, "features have no entry for item 'b'"),
        ({"prior": "estimated", "features": {"a": [1.0], "b": [1.0, 2.0]}}, "features are of different lengths"),
        ({"prior": "estimated", "features": {"a": [1.0], "b": [np.nan]}}, "not a finite number"),
        ({"prior": "estimated", "bias": "plug-in"}, "finds the bias with the scores"),
        ({"prior": "estimated", "method": "avg-prob"}, "takes no prior"),
    ],
)
def test_misuse_is_told_with_its_remedy(given, message):
    with pytest.raises(ValueError, match=message):
        fit([("a", "b", 0.7)], **given)


def test_misuse_names_the_context():
    data = Comparisons.from_columns(["a", "a"], ["b", "b"], [0.6, 0.7], context=["x", "y"])
    with pytest.raises(ValueError, match=r"'a' .*'y'"):
        fit(data, prior="estimated", groups={("x", "a"): 0, "b": 1})
