"""Several voices in one model: known scales, tastes, noise and biases are found again, and intervals cover."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import truncnorm

from benchmarks.bt_sigma import bt_sigma
from comparo import Comparisons, fit
from comparo.analysis.confidence import expected_spearman
from comparo.model.estimators.panel import panel
from comparo.model.estimators.panel_members import ViewCorrelation, copies, loadings, signs
from comparo.model.estimators.voice import VoiceModel
from comparo.model.tuning import LOADING_SPREAD, MOST_LOADING, USUAL_LOADING
from comparo.ranking.consensus import PANEL_STYLE
from comparo.ranking.votes import with_votes
from inside import LIMITS, Design, Graph, consensus, nodes_of, quiet_fit
from split import one_short

SCALES = np.array([1.0, 1.0, 0.5, -0.7, 1.0, 0.3])
TASTES = np.array([0.3, 0.5, 1.0, 0.3, 0.3, 0.5])
LOADINGS = SCALES / np.hypot(SCALES, TASTES)


def voices(rng, items, contexts, calls, scales=SCALES, tastes=TASTES, noise=1.0, bias=0.3, kind="soft", both=False):
    """Answers of simulated voices, `calls` per voice and context, and the consensus (contexts, items)."""
    truth = rng.standard_normal((contexts, items))
    columns = {name: [] for name in ("first", "second", "p", "context", "judge")}
    for judge, (scale, taste) in enumerate(zip(scales, tastes, strict=True)):
        view = scale * truth + taste * rng.standard_normal(truth.shape)
        c = np.repeat(np.arange(contexts), calls)
        i = rng.integers(items, size=len(c))
        j = (i + rng.integers(1, items, size=len(c))) % items
        if both:
            i, j, c = np.concatenate([i, j]), np.concatenate([j, i]), np.concatenate([c, c])
        d = view[c, i] - view[c, j] - bias
        p = expit(d + np.sqrt(noise) * rng.standard_normal(len(c)))
        if kind == "decisions":
            p = (rng.random(len(c)) < expit(d)).astype(float)
        for name, values in zip(columns, (i, j, p, c, np.full(len(c), judge)), strict=True):
            columns[name].append(values)
    data = {name: np.concatenate(parts) for name, parts in columns.items()}
    return truth, Comparisons.from_columns(**data)


def known(ranking, truth, scales=SCALES):
    """The true consensus of each candidate, in the unit of the scores."""
    labels = ranking.graph.labels(ranking.comparisons)
    return ranking.graph.centre(np.array([truth[c, i] for c, i in labels])) * np.mean(np.abs(scales))


@pytest.mark.long
@pytest.mark.parametrize("kind", one_short(["soft", "decisions"]))
def test_known_voices_are_found_again(kind):
    found = [quiet_fit(voices(np.random.default_rng(seed), 16, 20, 60, kind=kind)[1], "panel") for seed in range(6)]
    tables = [ranking.tables["voices"] for ranking in found]
    numbers = [name for name, column in tables[0].items() if column.dtype == float]
    mean = {name: np.mean([table[name] for table in tables], axis=0) for name in numbers}
    assert mean["agreement"] == pytest.approx(LOADINGS, abs=0.08)
    assert mean["scale"] == pytest.approx(SCALES / np.mean(np.abs(SCALES)), rel=0.25)
    assert mean["taste"] == pytest.approx(TASTES, abs=0.2)
    assert mean["gamma"] == pytest.approx(np.full(6, 0.3), abs=0.1)
    if kind == "soft":
        assert mean["noise"] == pytest.approx(np.ones(6), abs=0.03)
    inside = [np.mean((table["low"] <= LOADINGS) & (table["high"] >= LOADINGS)) for table in tables]
    assert np.mean(inside) > 0.85
    for ranking in found:
        assert any("'3' ranks against" in note for note in ranking.notes)


@pytest.mark.parametrize(
    ("items", "contexts", "calls", "kind", "both"),
    one_short(
        [
            (16, 20, 24, "soft", True),
            (16, 20, 48, "soft", False),
            (16, 20, 32, "decisions", False),
            (200, 1, 600, "soft", False),
            (200, 1, 600, "decisions", True),
            (6, 100, 18, "soft", False),
            (6, 100, 18, "decisions", False),
        ]
    ),
)
def test_intervals_cover_the_consensus(items, contexts, calls, kind, both):
    covered, sure = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        truth, data = voices(rng, items, contexts, calls, kind=kind, both=both)
        ranking = quiet_fit(data, "panel")
        true = known(ranking, truth)
        covered.append(np.mean((ranking.low < true) & (true < ranking.high)))
        a, b = rng.integers(items, size=(2, 200))
        start = nodes_of(ranking, 0).start
        sure += [
            (ranking.probability(i, j, 0), true[start + i] > true[start + j])
            for i, j in zip(a.tolist(), b.tolist(), strict=True)
            if i != j
        ][:60]
    assert 0.93 <= np.mean(covered) <= 0.97
    chance, right = np.array(sure, dtype=float).T
    assert np.mean(np.where(chance > 0.5, right, 1 - right)) == pytest.approx(
        np.mean(np.maximum(chance, 1 - chance)), abs=0.05
    )


@pytest.mark.long
@pytest.mark.parametrize(("items", "contexts", "calls"), [(8, 20, 60), (60, 1, 300)])
def test_no_one_of_three_equal_voices_is_taken_for_the_consensus(items, contexts, calls):
    """The best loading of one of them would be 1 in some of these runs, whose intervals then cover 60 to 70%."""
    scales, tastes, covered = np.full(3, 0.7), np.full(3, 0.4), []
    for seed in range(30):
        truth, data = voices(np.random.default_rng(seed), items, contexts, calls, scales, tastes, noise=0.5)
        ranking = quiet_fit(data, "panel")
        t = known(ranking, truth, scales)
        covered.append(np.mean((ranking.low <= t) & (t <= ranking.high)))
        assert np.min(ranking.tables["voices"]["taste"]) > 0.2
        assert np.max(ranking.tables["voices"]["gamma_error"]) < 0.1
    assert min(covered) > 0.8
    assert 0.93 < np.mean(covered) < 0.975


def test_a_panel_of_one_is_the_single_fit():
    _, data = voices(np.random.default_rng(0), 12, 3, 40)
    one = data.take(data.judged_by == 2)
    single, several = quiet_fit(one, "mixed"), quiet_fit(one, "panel")
    assert np.array_equal(single.scores, several.scores)
    assert np.array_equal(single.std, several.std)
    same = quiet_fit(replace(one, judges=None, judge=None), prior="estimated", bias="joint")
    assert single.scores == pytest.approx(same.scores, abs=1e-9)


def test_two_copies_of_a_voice_are_noticed_and_count_once():
    _, data = voices(np.random.default_rng(1), 16, 20, 48, [1.0, 1.0, 0.8], [0.8, 0.8, 0.8])
    columns = data.to_columns()
    own = columns["judge"] == 0
    again = {name: np.concatenate([values, values[own]]) for name, values in columns.items()}
    again["judge"][len(own) :] = 9
    alone, copied = quiet_fit(data, "panel"), quiet_fit(Comparisons.from_columns(**again), "panel")
    assert copied.tables["voices"]["copy_of"].tolist() == ["", "", "", "0"]
    assert any("'9' and '0'" in note for note in copied.notes)
    assert not any("told apart" in note for note in alone.notes)
    assert np.corrcoef(copied.scores, alone.scores)[0, 1] > 0.999
    assert copied.std == pytest.approx(alone.std, rel=0.02)
    # A second run of the same judge has new noise: the same opinion, known better.
    rng = np.random.default_rng(2)
    truth = rng.standard_normal((20, 16))
    view = [truth + 0.8 * rng.standard_normal(truth.shape) for _ in range(3)]
    rows = []
    for judge, which in (("a", 0), ("a again", 0), ("b", 1), ("c", 2)):
        c, i = rng.integers(20, size=2000), rng.integers(16, size=2000)
        j = (i + rng.integers(1, 16, size=2000)) % 16
        y = view[which][c, i] - view[which][c, j] + 0.5 * rng.standard_normal(2000)
        rows += [
            {"first": int(a), "second": int(b), "p": p, "context": int(k), "judge": judge}
            for a, b, p, k in zip(i, j, expit(y), c, strict=True)
        ]
    assert quiet_fit(Comparisons.from_rows(rows), "panel").tables["voices"]["copy_of"].tolist() == ["", "a", "", ""]


@pytest.mark.parametrize(("items", "calls", "noise"), [(16, 40, 0.1), (40, 400, 0.7)])
def test_a_judge_that_was_asked_twice_about_few_texts_is_a_copy_and_one_like_it_is_not(items, calls, noise):
    """The true correlation is 1 with new noise in every answer, and 0.8 with another voice."""
    found, other = [], []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        view, own = rng.standard_normal((2, items))
        rows = []
        for judge, seen in (("a", view), ("again", view), ("b", 0.8 * view + 0.6 * own)):
            i = rng.integers(items, size=calls)
            j = (i + rng.integers(1, items, size=calls)) % items
            p = expit(seen[i] - seen[j] + noise * rng.standard_normal(calls))
            rows += [{"first": x, "second": y, "p": q, "judge": judge} for x, y, q in zip(i, j, p, strict=True)]
        family = panel(Comparisons.from_rows(rows)).panel.family
        found.append(family[1] == family[0])
        other.append(family[2] == family[0])
    assert np.mean(found) > 0.8
    assert not any(other)


def test_voices_that_tell_nothing_have_no_say():
    rng = np.random.default_rng(3)
    _, data = voices(rng, 16, 20, 48, [1.0, 1.0, 0.0], [0.5, 0.5, 1.0])
    ranking = quiet_fit(data, "panel")
    assert abs(ranking.tables["voices"]["agreement"][2]) < 0.2
    assert any("'2' tells" in note for note in ranking.notes)
    without = quiet_fit(data.take(data.judged_by < 2), "panel")
    assert np.corrcoef(ranking.scores, without.scores)[0, 1] > 0.99


def test_people_are_what_the_consensus_means():
    """Two machines share a taste that people do not have; with people the consensus is theirs."""
    rng = np.random.default_rng(4)
    truth, machine = rng.standard_normal((2, 40, 10))
    rows = []
    for judge, view, size, calls in (
        ("m1", truth + 1.2 * machine, 0.5, 4000),
        ("m2", truth + 1.2 * machine, 0.7, 4000),
        ("ana", truth, 1.0, 600),
    ):
        c, i = rng.integers(40, size=calls), rng.integers(10, size=calls)
        j = (i + rng.integers(1, 10, size=calls)) % 10
        d = view[c, i] - view[c, j]
        p = (
            (rng.random(calls) < expit(2 * d)).astype(float)
            if judge == "ana"
            else expit(size * d + 0.3 * rng.standard_normal(calls))
        )
        rows += [
            {"first": int(a), "second": int(b), "p": q, "context": int(k), "judge": judge}
            for a, b, q, k in zip(i, j, p, c, strict=True)
        ]
    data = Comparisons.from_rows(rows)
    shared, people = quiet_fit(data, "panel"), quiet_fit(data, "panel", people=["ana"])
    true = np.array([truth[c, i] for c, i in shared.graph.labels(data)])
    machines = quiet_fit(data.take(data.judged_by < 2), "panel")
    assert np.corrcoef(people.scores, true)[0, 1] > np.corrcoef(machines.scores, true)[0, 1] + 0.05
    assert people.tables["voices"]["agreement"][2] > 0.99
    assert people.tables["voices"]["agreement"][0] == pytest.approx(1 / np.hypot(1, 1.2), abs=0.1)


def test_groups_predict_what_a_panel_says():
    rng = np.random.default_rng(5)
    contexts, items = 30, 8
    system = rng.standard_normal(items)
    truth = 1.5 * system + 0.3 * rng.standard_normal((contexts, items))
    rows = []
    for judge in range(3):
        view = truth + 0.7 * rng.standard_normal(truth.shape)
        c, i = rng.integers(contexts, size=480), rng.integers(items, size=480)
        j = (i + rng.integers(1, items, size=480)) % items
        p = expit(view[c, i] - view[c, j] + rng.standard_normal(480))
        rows += [
            {"first": int(a), "second": int(b), "p": q, "context": int(k), "judge": judge}
            for a, b, q, k in zip(i, j, p, c, strict=True)
        ]
    data = Comparisons.from_rows(rows)
    plain, grouped = quiet_fit(data, "panel"), quiet_fit(data, "panel", groups="items")
    true = plain.graph.centre(np.array([truth[c, i] for c, i in plain.graph.labels(data)]))
    assert np.corrcoef(grouped.scores, true)[0, 1] > np.corrcoef(plain.scores, true)[0, 1] + 0.02
    assert np.mean(grouped.std) < np.mean(plain.std)


def agreeing(rng, agreed):
    """Rows of soft answers of four voices, the third reversed, whose views have `agreed` (C, N) in common."""
    contexts, items = agreed.shape
    for judge, sign in enumerate((1, 1, -1, 1)):
        view = agreed + 0.7 * rng.standard_normal(agreed.shape)
        c, i = rng.integers(contexts, size=1600), rng.integers(items, size=1600)
        j = (i + rng.integers(1, items, size=1600)) % items
        p = expit(sign * (view[c, i] - view[c, j]) + rng.standard_normal(1600))
        yield from (
            {"first": int(a), "second": int(b), "p": q, "context": int(e), "judge": judge}
            for a, b, q, e in zip(i, j, p, c, strict=True)
        )


@pytest.mark.long
@pytest.mark.parametrize("known", ["systems", "style"])
def test_what_people_would_say_of_a_panel(known):
    """Voices agree on m + δ; people share the part k of δ. The consensus is nearer to them, and its intervals cover."""
    k, contexts, items, covered, gains, usual, expected = 0.5, 40, 10, [], [], [], []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        system, own = rng.standard_normal(items), 2.0 * rng.standard_normal((contexts, items))
        style = rng.standard_normal((contexts, items, 3))
        mean = system if known == "systems" else style.sum(axis=2)
        agreed = mean + own
        people = mean + k * own + np.sqrt(k * (1 - k)) * 2.0 * rng.standard_normal(own.shape)
        rows = list(agreeing(rng, agreed))
        features = {(c, i): style[c, i].tolist() for c in range(contexts) for i in range(items)}
        prior = {"groups": "items"} if known == "systems" else {"features": features}
        found = quiet_fit(Comparisons.from_rows(rows), "panel", **prior, estimate="consensus", validity=k)
        assert (found.estimate, found.solution.validity) == ("consensus", k)
        true = found.graph.centre(np.array([people[c, i] for c, i in found.graph.labels(found.comparisons)]))
        covered.append(np.mean((found.low < true) & (true < found.high)))
        gains.append(np.corrcoef(found.scores, true)[0, 1] - np.corrcoef(found.judged.scores, true)[0, 1])
        usual.append(quiet_fit(found.comparisons, "panel", **prior, estimate="consensus").solution.validity)
        between = np.var(np.mean(agreed, axis=0)) - 4.0 / contexts
        by_rule = min(max(1.2 * between / 4.0, 0.15), 1.0)  # B/(1 − B) is between/4
        expected.append(by_rule if known == "systems" else PANEL_STYLE)
    assert usual == pytest.approx(expected, rel=0.3 if known == "systems" else 0)
    assert 0.93 <= np.mean(covered) <= 0.97
    assert np.mean(gains) > 0.01


def test_the_errors_of_a_panels_consensus_beyond_style_are_those_of_its_linear_map():
    """t = k·s + (1 − k)·P θ; s and θ by one regression on all that the voices say: W, g and a prior by style."""
    rng = np.random.default_rng(0)
    style = rng.standard_normal((1, 12, 2))
    rows = list(agreeing(rng, style.sum(axis=2) + rng.standard_normal((1, 12))))
    features = {(0, i): style[0, i].tolist() for i in range(12)}
    found = quiet_fit(Comparisons.from_rows(rows), "panel", features=features, estimate="consensus", validity=0.3)
    opinion, predicted = found.solution.panel.opinion, found.solution.panel.opinion.predicted
    w, g = (part[0] for part in opinion.information(0))
    columns, ratio = predicted.columns, predicted.variances.ratio
    both = np.block([[w + np.eye(12) / ratio, -columns / ratio], [-columns.T / ratio, columns.T @ columns / ratio]])
    both[12:, 12:] += np.diag(1.0 / predicted.variances.ratios)
    inverse = np.linalg.inv(both)
    solved = inverse @ np.concatenate([g, np.zeros(2)])
    centre = np.eye(12) - 1.0 / 12
    take = centre @ np.hstack([0.3 * np.eye(12), 0.7 * columns])
    assert found.scores == pytest.approx(opinion.unit * take @ solved, abs=1e-6)
    own = (0.3 - 0.3**2) * opinion.unit**2 * ratio
    block = found.covariance.block(found.covariance.pattern.batches[0])[0]
    assert block == pytest.approx(opinion.unit**2 * take @ inverse @ take.T + own * centre, abs=1e-6)


def test_a_consensus_of_a_panel_needs_something_to_expect_of_a_text():
    rows = list(agreeing(np.random.default_rng(0), np.zeros((3, 6))))
    with pytest.raises(ValueError, match="groups or features"):
        consensus(quiet_fit(rows, "panel"))


def naive(found):
    """The posterior of t by conditioning on all answers at once: soft answers in one order, γ known."""
    graph, family, opinion = found.graph, found.panel.family, found.panel.opinion
    alpha, ties, unit = opinion.scale, opinion.ties, opinion.unit
    n, families = graph.nodes, int(family.max()) + 1
    rows, y, noise = [], [], []
    for r, voice in enumerate(found.panel.voices):
        first, second = voice.pattern.first, voice.pattern.second
        for i, j, c, pull in zip(first, second, voice.c, voice.pull, strict=True):
            x = np.zeros((families + 1, n))
            x[family[r], i], x[family[r], j] = alpha[r], -alpha[r]
            rows.append(x.ravel())
            y.append(pull / c)
            noise.append(1 / c)
    design = np.array(rows)
    cover = np.zeros((families + 1, n, families + 1, n))
    for a in range(families + 1):
        for b in range(families + 1):
            own = 1.0 / ties[a] if a == b < families else 0.0
            cover[a, :, b, :] = np.eye(n) * (1.0 + own)
    cover = cover.reshape((families + 1) * n, -1)
    gain = cover @ design.T @ np.linalg.inv(design @ cover @ design.T + np.diag(noise))
    mean, after = gain @ np.array(y), cover - gain @ design @ cover
    mean, after = mean[-n:], after[-n:, -n:]
    centre = np.eye(n) - (graph.component[:, None] == graph.component) / np.bincount(graph.component)[graph.component]
    return unit * centre @ mean, unit**2 * centre @ after @ centre


@settings(max_examples=12 * settings.default.max_examples // 100)
@given(st.integers(0, 10**6))
def test_the_star_is_the_model(seed):
    _, data = voices(np.random.default_rng(seed), 5, 2, 31, [1.0, 0.6, -0.8], [0.4, 0.8, 0.5])
    whole = panel(data)
    for found in whole.either or (whole,):
        posterior = found.panel.opinion.posterior
        scores, covariance = naive(found)
        assert found.scores == pytest.approx(scores, abs=1e-5)
        assert posterior.std == pytest.approx(np.sqrt(np.diag(covariance)), abs=1e-7)
        assert posterior.difference(0, 1) == pytest.approx(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])


def test_large_contexts_have_the_same_errors():
    _, data = voices(np.random.default_rng(0), 30, 2, 100, [1.0, 0.6, -0.8], [0.4, 0.8, 0.5])
    exact, sampled = (
        panel(data, limits=limits).panel.opinion.posterior
        for limits in (LIMITS, replace(LIMITS, exact=1, error_draws=512))
    )
    assert sampled.std == pytest.approx(exact.std, rel=0.08)
    assert sampled.difference(0, 1) == pytest.approx(exact.difference(0, 1), rel=1e-4)


def restricted(parameters, graph, found):
    """The exact log-likelihood of all answers, of log v and log φ of each voice, and the loadings."""
    n, count = graph.nodes, len(found)
    variance, noise = np.exp(parameters[:count]), np.exp(parameters[count : 2 * count])
    rho = np.tanh(parameters[2 * count :])
    observed = [
        (voice.pattern.first, voice.pattern.second, voice.pull / voice.c, voice.c * voice.noise) for voice in found
    ]
    design = [np.eye(n)[first] - np.eye(n)[second] for first, second, _, _ in observed]
    y = np.concatenate([part[2] for part in observed])
    blocks = [
        [rho[a] * rho[b] * np.sqrt(variance[a] * variance[b]) * design[a] @ design[b].T for b in range(count)]
        for a in range(count)
    ]
    for a in range(count):
        blocks[a][a] = variance[a] * design[a] @ design[a].T + np.diag(noise[a] / observed[a][3])
    cover = np.block(blocks)
    return -0.5 * (np.linalg.slogdet(cover).logabsdet + y @ np.linalg.solve(cover, y))


@pytest.mark.long
def test_moments_come_close_to_the_maximum_of_the_likelihood():
    gaps = []
    for seed in range(3):
        _, data = voices(np.random.default_rng(seed), 30, 1, 100, [1.0, 0.8, -0.9], [0.5, 0.8, 0.4], bias=0.0)
        graph = Graph.build(data)
        found = panel(data, Design(is_biased=False)).panel
        start = np.concatenate(
            [
                np.log([voice.variance for voice in found.voices]),
                np.log([voice.noise for voice in found.voices]),
                np.arctanh(found.loading),
            ]
        )
        best = minimize(lambda x, g=graph, f=found: -restricted(x, g, f.voices), start, method="L-BFGS-B")
        gaps.append(-best.fun - restricted(start, graph, found.voices))
    # Nine numbers that maximise a likelihood gain half a nat each over the true ones on the mean.
    assert max(gaps) < 4.5


@given(st.integers(0, 10**6), st.integers(3, 6))
def test_loadings_of_exact_correlations(seed, count):
    rng = np.random.default_rng(seed)
    rho = rng.uniform(0.3, 0.95, count)
    sign = np.where(rng.random(count) < 0.3, -1.0, 1.0)
    sign *= np.sign(np.sum(sign * rho)) or 1.0
    agreement = ViewCorrelation(np.outer(sign * rho, sign * rho), np.full((count, count), 1e7))
    turned, _ = signs(agreement, np.zeros(count, dtype=bool))
    assert np.array_equal(turned, sign) or np.array_equal(turned, -sign)
    family = copies(ViewCorrelation(np.where(np.eye(count), 1.0, agreement.correlation), agreement.candidates))
    assert family.tolist() == list(range(count))
    merged, content = agreement.merged(family, turned), rng.uniform(0.1, 1, count)
    best, shrunk_loading, error = loadings(merged, np.zeros(count, dtype=bool), content)
    assert best == pytest.approx(rho, abs=2e-3)
    assert shrunk_loading == pytest.approx(rho, abs=2e-3)
    assert np.all((error > 0) & (error < 0.01))


def in_blocks(seed, reversed_voice=None):
    """Six voices of agreement 0.9 with the truth (40, 8): voice r judges the contexts c with c ≡ r modulo 2."""
    rng = np.random.default_rng(seed)
    truth, rows = rng.standard_normal((40, 8)), []
    for r in range(6):
        view = 0.9 * truth + np.sqrt(1 - 0.9**2) * rng.standard_normal(truth.shape)
        view = -view if r == reversed_voice else view
        for c in range(r % 2, 40, 2):
            for i, j in rng.permutation([(i, j) for i in range(8) for j in range(8) if i != j])[:24].tolist():
                p = float(expit(view[c, i] - view[c, j] + 0.7 * rng.standard_normal()))
                rows.append({"context": c, "first": i, "second": j, "p": p, "judge": f"v{r}"})
    return truth, Comparisons.from_rows(rows)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_voices_without_a_common_candidate_are_not_reversed(seed):
    truth, data = in_blocks(seed)

    def correlation(ranking):
        labels = ranking.graph.labels(ranking.comparisons)
        return np.corrcoef(ranking.scores, ranking.graph.centre(np.array([truth[c, i] for c, i in labels])))[0, 1]

    ranking = quiet_fit(data, "panel")
    assert np.all(ranking.tables["voices"]["low"] > 0.5)
    assert not ranking.notes
    assert correlation(ranking) > correlation(quiet_fit(replace(data, judges=None, judge=None), "mixed")) - 0.01


def test_notes_of_a_kind_are_a_handful():
    rng = np.random.default_rng(0)
    score = 2.0 * rng.standard_normal(12)
    rows = [
        {"first": i, "second": j, "p": expit(sign * (score[i] - score[j]) + rng.normal(0, 0.4)), "judge": f"v{judge}"}
        for judge, sign in enumerate([-1] * 9 + [1] * 21)
        for i, j in combinations(range(12), 2)
    ]
    ranking = quiet_fit(rows, "panel")
    assert sum(ranking.solution.panel.reversed) == 9
    copies, *against = ranking.notes
    assert (copies.count("' and 'v0'"), "24 more" in copies) == (5, True)
    assert [f"'v{k}'" in note for k, note in enumerate(against)] == [True] * 5 + [False]
    assert "4 more" in against[-1]


def test_a_reversed_voice_of_a_block_is_found_and_named_with_its_interval():
    ranking = quiet_fit(in_blocks(0, reversed_voice=3)[1], "panel")
    table = ranking.tables["voices"]
    assert np.sign(table["agreement"]).tolist() == [1, 1, 1, -1, 1, 1]
    (note,) = [note for note in ranking.notes if "'v3'" in note]
    assert all(f"{table[name][3]:.2f}" in note for name in ("agreement", "low", "high"))


def test_signs_need_significant_evidence_and_do_not_depend_on_rounding():
    """Under ρ = 0 the statistic is normal: 2.5% of uncorrelated pairs of voices are reversed, whichever of the two."""
    none, rng = np.zeros(2, dtype=bool), np.random.default_rng(0)
    pairs = [np.array([[1, c], [c, 1]]) for c in rng.standard_normal(2000) / np.sqrt(50)]
    found = [signs(ViewCorrelation(pair, np.full((2, 2), 50.0)), none)[0].min() < 0 for pair in pairs]
    assert np.mean(found) == pytest.approx(0.025, abs=3 * np.sqrt(0.025 * 0.975 / 2000))
    apart = np.array([[1.0, -0.9], [-0.9, 1.0]])
    for shown in (20.0, 20.0 * (1 - 1e-14), 20.0 * (1 + 1e-14)):
        candidates = np.array([[20.0, 15.0], [15.0, shown]])
        for noise in (0.0, 1e-14, -1e-14):
            assert signs(ViewCorrelation(apart + np.array([[0, noise], [0, 0]]), candidates), none)[0].tolist() == [
                1,
                -1,
            ]
    more = np.array([[20.0, 15.0], [15.0, 21.0]])
    assert signs(ViewCorrelation(apart, more), none)[0].tolist() == [-1, 1]
    assert signs(ViewCorrelation(apart, more), np.array([True, False]))[0].tolist() == [1, -1]


def test_what_is_believed_of_a_loading_is_the_mean_of_what_is_open_below_one():
    """Of three voices the first one has the best loading 1; given the others, its own is normal, cut off there."""
    c = np.array([[1.0, 0.85, 0.85], [0.85, 1.0, 0.55], [0.85, 0.55, 1.0]])
    agreement, open_to_all = ViewCorrelation(c, np.full((3, 3), 100.0)), np.zeros(3, dtype=bool)
    best, shrunk_loading, error = loadings(agreement, open_to_all, np.ones(3))
    assert best[0] == MOST_LOADING
    even, others = 1.0 / LOADING_SPREAD**2, agreement.precision[0, 1:]
    known = np.sum(others * shrunk_loading[1:] ** 2) + even
    centre = (np.sum(others * c[0, 1:] * shrunk_loading[1:]) + even * np.mean([*shrunk_loading, USUAL_LOADING])) / known
    left = truncnorm(-np.inf, (MOST_LOADING - centre) * np.sqrt(known), centre, 1.0 / np.sqrt(known))
    assert shrunk_loading[0] == pytest.approx(left.mean(), abs=1e-4)
    assert shrunk_loading[0] < MOST_LOADING - 0.4 * error[0]


def test_single_answers_in_many_contexts():
    """With one answer per context and voice, scores, biases by context and noise cannot be told apart."""
    rng = np.random.default_rng(7)
    rows = [
        {"context": c, "first": "x", "second": "y", "p": float(rng.random() < share), "judge": judge}
        for c in range(500)
        for judge, share in (("even", 0.5), ("first", 0.9))
    ]
    ranking = quiet_fit(rows, "panel")
    assert ranking.tables["voices"]["gamma"] == pytest.approx([0.0, -np.log(9)], abs=0.3)
    assert np.all(ranking.tables["voices"]["high"] - ranking.tables["voices"]["low"] > 0.3)
    assert np.all(np.abs(ranking.scores) < 2 * ranking.std)


def test_many_voices_with_few_answers_are_one():
    rng = np.random.default_rng(6)
    truth, rows = rng.standard_normal(20), []
    for judge, calls in [("gpt", 200), *((f"person {k}", 8) for k in range(30))]:
        i = rng.integers(20, size=calls)
        j = (i + rng.integers(1, 20, size=calls)) % 20
        won = rng.random(calls) < expit(2 * (truth[i] - truth[j]))
        rows += [
            {"first": int(a), "second": int(b), "p": float(w), "judge": judge}
            for a, b, w in zip(i, j, won, strict=True)
        ]
    ranking = quiet_fit(rows, "panel")
    assert ranking.tables["voices"]["judge"].tolist() == ["gpt", "others"]
    assert ranking.tables["voices"]["calls"].tolist() == [200, 240]
    assert np.corrcoef(ranking.scores, truth[ranking.items.astype(int)])[0, 1] > 0.85


def test_a_voice_seen_from_the_panel():
    _, data = voices(np.random.default_rng(0), 10, 2, 40)
    graph = Graph.build(data)
    rows = data.judged_by == 1
    own = replace(data.take(rows), judges=None, judge=None)
    voice = VoiceModel.of(own, replace(graph, first=graph.first[rows], second=graph.second[rows]), Design(), LIMITS)
    matrix = np.zeros((graph.nodes, graph.nodes))
    for i, j, c in zip(voice.pattern.first, voice.pattern.second, voice.c, strict=True):
        matrix[[i, j], [i, j]] += c
        matrix[[i, j], [j, i]] -= c
    shown = np.linalg.solve(matrix + np.eye(graph.nodes) / voice.variance, matrix)
    assert voice.seen(np.eye(graph.nodes)) == pytest.approx(shown, abs=2e-3)


def test_what_a_panel_tells():
    _, data = voices(np.random.default_rng(0), 10, 3, 40)
    ranking = quiet_fit(data, "panel")
    assert ranking.solution.bias.shape == (3, 6)
    assert list(ranking.tables["views"]) == ["context", "item", "0", "1", "2", "3", "4", "5"]
    assert np.all(np.isfinite(expected_spearman(ranking)))
    document = ranking.to_json()
    assert '"voices": [{"judge": "0", "calls": 120' in document
    d, apart = ranking.solution.differences, ranking.solution.apart
    assert np.corrcoef(d, np.log(data.p / (1 - data.p)))[0, 1] > 0.5
    assert apart.shape == d.shape


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "panel", "people": ["zoe"]}, "no judge 'zoe'.* ana, bo"),
        ({"method": "panel", "people": "ana"}, r"such as \['ana'\]"),
        ({"method": "mixed", "people": ["ana"]}, "`people` belong to method='panel'"),
        ({"method": "mixed", "prior": 2.0}, "estimates its prior"),
    ],
)
def test_arguments_of_panels(arguments, message):
    rows = [{"first": "a", "second": "b", "p": 0.8, "judge": judge} for judge in ("ana", "bo")]
    with pytest.raises((ValueError, TypeError), match=message):
        fit(rows, **arguments)


def test_bt_sigma_finds_discriminations():
    _, data = voices(
        np.random.default_rng(0), 200, 1, 2000, [1.0, 0.5, 0.25, -0.5], [0.0] * 4, bias=0.0, kind="decisions"
    )
    found = bt_sigma(data, 10.0)
    assert found.converged
    assert found.discrimination * np.mean([1.0, 0.5, 0.25, 0.5]) == pytest.approx([1.0, 0.5, 0.25, -0.5], abs=0.06)
    one = data.take(data.judged_by == 0)
    assert bt_sigma(one).scores == pytest.approx(fit(one, "poe-bt").scores, abs=1e-4)


def test_bt_sigma_is_the_maximum_of_its_likelihood():
    _, data = voices(np.random.default_rng(1), 6, 1, 40, [1.0, 0.4], [0.0, 0.0], bias=0.0)
    found = bt_sigma(data, 10.0)
    graph, judge = found.graph, data.judged_by

    def value(scores, a):
        d = a[judge] * (scores[graph.first] - scores[graph.second])
        return np.sum(data.p * d - np.logaddexp(0, d)) - 0.5 * np.sum(scores**2) / 100

    for k in range(6):
        step = 1e-4 * np.eye(6)[k]
        slope = (
            value(found.scores + step, found.discrimination) - value(found.scores - step, found.discrimination)
        ) / 2e-4
        assert slope == pytest.approx(0, abs=1e-3)
    turn = 1e-4 * np.array([1.0, -1.0])  # along which mean |a| stays 1
    slope = (value(found.scores, found.discrimination + turn) - value(found.scores, found.discrimination - turn)) / 2e-4
    assert slope == pytest.approx(0, abs=0.05)


def test_a_consensus_of_people_is_that_of_the_voices_which_say_enough_about_the_texts():
    """The fourth voice is mostly noise, the third ranks the other way round; `judged` is still that of all."""
    rng = np.random.default_rng(0)
    truth, style = rng.standard_normal((20, 8)), rng.standard_normal((20, 8))
    rows = []
    for judge, scale, noise in (("ana", 1.0, 0.5), ("bo", 1.2, 0.5), ("cy", -1.0, 0.5), ("dee", 0.3, 2.0)):
        view = scale * (truth + style) + 0.3 * rng.standard_normal(truth.shape)
        for c, i, j in rng.permutation([(c, i, j) for c in range(20) for i in range(8) for j in range(8) if i != j])[
            :700
        ].tolist():
            p = float(expit(view[c, i] - view[c, j] - 1.5 + noise * rng.standard_normal()))
            rows.append({"context": c, "first": i, "second": j, "p": p, "judge": judge})
    features = {(c, i): [float(style[c, i])] for c in range(20) for i in range(8)}
    options = {"features": features, "estimate": "consensus"}
    found = quiet_fit(rows, "panel", **options)
    assert any(note.startswith("'dee' says") for note in found.notes)
    alone = quiet_fit([row for row in rows if row["judge"] != "dee"], "panel", **options)
    np.testing.assert_allclose(found.scores, alone.scores, atol=1e-6)
    np.testing.assert_allclose(found.std, alone.std, rtol=1e-6)
    assert found.tables["voices"]["judge"].tolist() == ["ana", "bo", "cy", "dee"]
    assert len(found.comparisons) == len(found.judged.comparisons) == len(rows)
    assert np.corrcoef(found.scores, (truth + style)[found.context, found.items])[0, 1] > 0.8
    assert not any("too little" in note for note in found.judged.notes)


def test_all_voices_count_where_the_best_alone_would_not_connect_the_texts():
    rng = np.random.default_rng(1)
    truth, rows = rng.standard_normal(40), []
    for judge, some, noise in (("ana", 20, 0.2), ("bo", 20, 0.2), ("cy", 40, 3.0)):
        for i, j in rng.permutation([(i, j) for i in range(some) for j in range(some) if i != j])[:300].tolist():
            p = float(expit(truth[i] - truth[j] + noise * rng.standard_normal()))
            rows.append({"first": i, "second": j, "p": p, "judge": judge})
    assert quiet_fit(rows, "panel").solution.panel.counts.all()


def apart(ranking):
    """P(one candidate beats another) of every two candidates of the first context."""
    nodes = nodes_of(ranking, 0)
    return np.array(
        [ranking.probability(i, j, 0) for i in ranking.items[nodes] for j in ranking.items[nodes] if i != j]
    )


@pytest.mark.parametrize("kind", one_short(["soft", "decisions"]))
def test_two_voices_that_contradict_each_other_decide_nothing(kind):
    """Both signs of t are equally likely: the posterior has the mean 0 and contains the scores of either sign."""
    _, data = voices(np.random.default_rng(0), 8, 12, 40, [1.0, -1.0], [0.4, 0.4], kind=kind)
    found = quiet_fit(data, "panel", groups="items")
    one, other = found.solution.either
    assert other.scores == pytest.approx(-one.scores, abs=1e-9)
    assert one.scores.std() > 0.5
    assert found.scores == pytest.approx(0.0, abs=1e-9)
    assert found.std == pytest.approx(np.sqrt(one.covariance.std**2 + one.scores**2))
    assert apart(found) == pytest.approx(0.5)
    assert set(found.tier) == set(found.rank) == {1}
    best = found.top(1)["probability"]
    assert np.max(best) < 0.6
    assert expected_spearman(found) == pytest.approx(0.0)
    assert found.groups().to_columns()["score"] == pytest.approx(0.0, abs=1e-9)
    assert np.max(found.groups().to_columns()["low"]) < 0
    assert found.tables["voices"]["low"] == pytest.approx(-found.tables["voices"]["high"])
    assert sum("'0'" in note and "'1'" in note for note in found.notes) == 1
    for validity in (None, 0.3, 1.0):
        shared = consensus(found, validity)
        assert shared.scores == pytest.approx(0.0, abs=1e-9)
        assert apart(shared) == pytest.approx(0.5)
    assert shared.std == pytest.approx(found.std)


def test_who_agrees_with_one_of_two_that_contradict_each_other_decides():
    """So do a third voice, people among the voices, and votes of others."""
    truth, data = voices(np.random.default_rng(0), 8, 12, 40, [1.0, -1.0, 1.0], [0.4, 0.4, 0.4])

    def correlation(ranking):
        labels = ranking.graph.labels(ranking.comparisons)
        return np.corrcoef(ranking.scores, ranking.graph.centre(np.array([truth[c, i] for c, i in labels])))[0, 1]

    two = data.take(data.judged_by < 2)
    assert correlation(quiet_fit(data, "panel")) > 0.8
    assert correlation(quiet_fit(two, "panel", people=[0])) > 0.8
    assert correlation(quiet_fit(two, "panel", people=[1])) < -0.8
    rng = np.random.default_rng(1)
    context, i = rng.integers(12, size=150), rng.integers(8, size=150)
    j = (i + rng.integers(1, 8, size=150)) % 8
    won = rng.random(150) < expit(2.0 * (truth[context, i] - truth[context, j]))
    votes = Comparisons.from_columns(first=i, second=j, p=won.astype(float), context=context)
    assert correlation(with_votes(quiet_fit(two, "panel"), votes)) > 0.7


def test_texts_that_others_judge_are_decided():
    """Two voices contradict each other on the contexts up to 9, two others agree on the rest."""
    _, data = voices(np.random.default_rng(0), 8, 20, 40, [1.0, -1.0, 1.0, 1.0], [0.4] * 4)
    kept = (data.context < 10) == (data.judged_by < 2)
    found = quiet_fit(data.take(kept), "panel")
    first = np.isin(found.context, np.arange(10))
    assert found.solution.panel.undecided.tolist() == [True, True, False, False]
    assert found.scores[first] == pytest.approx(0.0, abs=1e-6)
    alone = quiet_fit(data.take(kept & (data.judged_by > 1)), "panel")
    assert np.corrcoef(found.scores[~first], alone.scores)[0, 1] > 0.99


@pytest.mark.long
@pytest.mark.parametrize("kind", ["soft", "decisions"])
@pytest.mark.parametrize("scales", [[1.0, -1.0], [1.0, -1.0, 1.0]])
def test_what_is_said_surely_is_right_though_one_voice_is_reversed(kind, scales):
    sure = []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        truth, data = voices(rng, 12, 1, 90, rng.permutation(scales), [0.5] * len(scales), kind=kind)
        ranking = quiet_fit(data, "panel")
        sure += [
            truth[0, i] > truth[0, j]
            for i in range(12)
            for j in range(12)
            if i != j and ranking.probability(i, j, 0) > 0.95
        ]
    assert np.mean(sure or [True]) > 0.93
    assert len(scales) == 2 or len(sure) > 100
