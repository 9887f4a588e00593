"""What is held equal, against dense Gaussian models, finite differences and judges with a planted taste for length."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from comparo import Comparisons, Items, fit
from comparo.model.design import Control
from comparo.model.estimators.panel import panel
from comparo.model.likelihoods.gaussian import Gaussian
from inside import BradleyTerry, Design, Fitting, Graph, Shared, consensus, mixed
from oracle import incidence, weights
from split import one_short

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
BETA = 0.8


def judged(rng, contexts=20, systems=8, calls=60, betas=(BETA,), corr=0.8, soft=True, noise=0.7, is_grouped=True):
    """Answers of judges that like length, the true scores and the log lengths by context and system.

    Good systems write at length (`corr`), and some questions need long answers.
    """
    quality = rng.standard_normal(systems) * is_grouped
    long = corr * quality + np.sqrt(1 - corr**2) * 0.7 * rng.standard_normal(systems) * is_grouped
    x = long + 0.6 * rng.standard_normal((contexts, systems)) + rng.standard_normal((contexts, 1))
    truth, rows = quality + 0.7 * rng.standard_normal((contexts, systems)), []
    for number, beta in enumerate(betas):
        taste = 0.4 * rng.standard_normal(truth.shape) if len(betas) > 1 else 0.0
        view = truth + taste + beta * x
        c = np.repeat(np.arange(contexts), calls)
        i = rng.integers(systems, size=len(c))
        j = (i + rng.integers(1, systems, size=len(c))) % systems
        d = view[c, i] - view[c, j] - 0.3
        chance = expit(d + noise * rng.standard_normal(len(d)) * soft)
        p = chance if soft else (rng.random(len(d)) < chance).astype(float)
        columns = {"context": c.tolist(), "first": i.tolist(), "second": j.tolist(), "p": p.tolist()}
        each = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        rows += [row | {"judge": f"j{number}"} for row in each] if len(betas) > 1 else each
    return rows, truth, x


def by_label(values):
    return {(c, i): float(values[c, i]) for c in range(values.shape[0]) for i in range(values.shape[1])}


def of(ranking, values):
    """Values by context and system in the order of the ranking's candidates, centred in each context."""
    return ranking.graph.centre(values[ranking.context.astype(int), ranking.items.astype(int)])


def step_of(ranking, values):
    return float(np.sqrt(np.mean(of(ranking, values) ** 2)))


@pytest.mark.parametrize("is_grouped", [False, True])
def test_scores_coefficient_and_covariance_are_those_of_the_dense_model(is_grouped):
    """Given the variances: θ of groups, and β of w and b without a prior, as one Gaussian model."""
    rng = np.random.default_rng(3)
    n, rows = 30, 500
    x, group = rng.standard_normal(n), rng.integers(5, size=n).astype(np.int32)
    score = 0.5 * rng.standard_normal(5)[group] + x + 0.5 * rng.standard_normal(n)
    first = rng.integers(n, size=rows)
    second = (first + rng.integers(1, n, size=rows)) % n
    _, unlike = np.unique(np.sort([first, second], axis=0), axis=1, return_index=True)
    first, second = first[unlike], second[unlike]
    y = 0.03 * (score[first] - score[second] + 0.5 * rng.standard_normal(len(first)))
    data = Comparisons.from_columns(first, second, 0.5 + y)
    control = Control(("length",), x[:, None], ("1",))
    design = Design(group if is_grouped else None, None, control, is_biased=False)
    product = mixed(data, Gaussian(), design)
    effects, graph = product.effects, product.graph
    shared = Shared.of(graph, design, 10**6)
    sizes = np.full(shared.columns.shape[1], 1e9)
    if is_grouped:
        sizes[shared.kind == 0] = effects.groups / effects.noise
    design = incidence(data)
    hidden = np.hstack([design, design @ shared.columns])  # own scores, then θ
    precision = hidden.T @ (weights(data)[:, None] * hidden)
    precision += np.diag(np.concatenate([np.full(n, effects.noise / effects.scores), 1 / sizes]))
    inverse = np.linalg.inv(precision)
    mean = inverse @ hidden.T @ (weights(data) * (data.p - 0.5))
    assert product.held.coefficient[0] == pytest.approx(mean[n], rel=0.02)
    assert product.held.covariance[0, 0] == pytest.approx(effects.dispersion * inverse[n, n], rel=0.1)
    held = graph.centre(x)
    to_scores = (np.eye(n) - 1 / n) @ np.hstack([np.eye(n), shared.columns - held[:, None] * np.eye(len(sizes))[:1]])
    np.testing.assert_allclose(product.scores, to_scores @ mean, atol=0.03 * np.std(product.scores))
    covariance = effects.dispersion * to_scores @ inverse @ to_scores.T
    found = product.covariance
    np.testing.assert_allclose(found.std, np.sqrt(np.diagonal(covariance)), rtol=0.1)


@pytest.mark.parametrize("soft", one_short([True, False]), ids=["soft", "decisions"])
@pytest.mark.parametrize("is_grouped", one_short([False, True]), ids=["one text each", "good systems write long"])
def test_controlled_scores_recover_the_truth_and_cover(soft, is_grouped):
    inside, found, better = [], [], []
    for seed in range(12):
        rows, truth, x = judged(np.random.default_rng(seed), contexts=14, calls=80, soft=soft, is_grouped=is_grouped)
        ranking = fit(rows, "mixed", groups="items" if is_grouped else None, control={"length": by_label(x)})
        equal, true = ranking.controlled, of(ranking, truth)
        inside.append((equal.low <= true) & (true <= equal.high))
        step = step_of(ranking, x)
        table = ranking.tables["control"]
        beta, error, low, high = (table[name][0] / step for name in ("coefficient", "std", "low", "high"))
        found.append((beta, (beta - BETA) / error, low <= BETA <= high))
        better.append(np.corrcoef(equal.scores, true)[0, 1] - np.corrcoef(ranking.scores, true)[0, 1])
    assert 0.93 <= np.mean(inside) <= 0.97
    beta, away, covered = np.array(found).T
    assert np.mean(beta) == pytest.approx(BETA, abs=0.12)
    assert 0.3 < np.mean(away**2) < 2.0
    assert np.mean(covered) > 0.8
    assert np.mean(better) > 0.02


@pytest.mark.long
def test_without_groups_the_worth_of_long_winded_systems_would_be_length():
    """That systems are known is what separates them from length: else β takes up what they are worth."""
    coefficient = {"items": [], None: []}
    for seed in range(4):
        rows, _, x = judged(np.random.default_rng(seed), corr=0.95)
        for groups, values in coefficient.items():
            ranking = fit(rows, "mixed", groups=groups, control={"length": by_label(x)})
            values.append(ranking.tables["control"]["coefficient"][0] / step_of(ranking, x))
    assert np.mean(coefficient["items"]) == pytest.approx(BETA, abs=0.15)
    assert np.mean(coefficient[None]) > BETA + 0.3


@pytest.mark.parametrize("method", ["mixed", "panel"])
def test_the_ranking_itself_is_as_without_control_and_units_do_not_matter(method):
    rows, _, x = judged(np.random.default_rng(1), contexts=6, betas=(0.8, 0.2, -0.3) if method == "panel" else (0.8,))
    plain = fit(rows, method, groups="items")
    one, other = (fit(rows, method, groups="items", control={"size": by_label(z)}) for z in (x, 100 - 7 * x))
    np.testing.assert_array_equal(one.scores, plain.scores)
    np.testing.assert_array_equal(one.std, plain.std)
    np.testing.assert_allclose(one.controlled.scores, other.controlled.scores, atol=1e-6)
    np.testing.assert_allclose(one.controlled.std, other.controlled.std, rtol=1e-6)
    np.testing.assert_allclose(one.tables["control"]["coefficient"], -other.tables["control"]["coefficient"], rtol=1e-5)
    assert "control" not in plain.tables
    assert plain.controlled is None


def test_style_that_knows_the_length_does_not_swallow_it():
    rows, _, x = judged(np.random.default_rng(2), is_grouped=False)
    features = {label: (value, value**2) for label, value in by_label(x).items()}
    control = {"length": by_label(x)}
    alone, styled = (fit(rows, "mixed", features=given, control=control) for given in (None, features))
    ratio = styled.tables["control"]["coefficient"][0] / alone.tables["control"]["coefficient"][0]
    assert ratio == pytest.approx(1.0, abs=0.1)


def test_several_numbers_are_told_apart():
    rng = np.random.default_rng(4)
    rows, truth, x = judged(rng, contexts=40, betas=(0.0,), is_grouped=False)
    other = 0.7 * x + rng.standard_normal(x.shape)
    for row in rows:
        apart = 0.5 * (other[row["context"], row["first"]] - other[row["context"], row["second"]])
        row["p"] = float(expit(np.log(row["p"] / (1 - row["p"])) + apart))
    ranking = fit(rows, "mixed", control={"length": by_label(x), "price": by_label(other)})
    steps = np.array([step_of(ranking, values) for values in (x, other)])
    np.testing.assert_allclose(ranking.tables["control"]["coefficient"] / steps, [0.0, 0.5], atol=0.2)
    assert np.corrcoef(ranking.controlled.scores, of(ranking, truth))[0, 1] > 0.95
    assert "equal_length_price_score" in ranking.to_columns()


@pytest.mark.long
@pytest.mark.parametrize("soft", [True, False], ids=["soft", "decisions"])
def test_every_voice_of_a_panel_has_its_own_taste_for_length(soft):
    betas, away, gain = np.array([0.8, 0.2, -0.4]), [], []
    for seed in range(8):
        rows, truth, x = judged(np.random.default_rng(seed), contexts=14, betas=betas, soft=soft, is_grouped=False)
        ranking = fit(rows, "panel", control={"length": by_label(x)})
        step, table, true = step_of(ranking, x), ranking.tables["control"], of(ranking, truth)
        assert table["judge"].tolist() == ["j0", "j1", "j2"]
        away.append((table["coefficient"] - betas * step) / table["std"])
        gain.append(np.corrcoef(ranking.controlled.scores, true)[0, 1] - np.corrcoef(ranking.scores, true)[0, 1])
    assert 0.3 < np.mean(np.square(away)) < 2.0
    assert np.mean(gain) > 0.0


def test_errors_of_coefficients_are_passed_on_as_finite_differences_say():
    rows, _, x = judged(np.random.default_rng(0), contexts=8, betas=(0.8, 0.2, -0.4))
    data = Comparisons.from_rows(rows)
    graph = Graph.build(data)
    values = np.array([[x[c, i]] for c, i in graph.labels(data)])
    held = graph.centre(values)
    for groups in (None, graph.item):
        found = panel(data, Design(groups, None, Control(("length",), values, ("1",))))
        shared = Shared.of(graph, Design(groups), 10**7)
        base = replace(found.panel.opinion, spread=None, variance=1.0, errors=np.eye(3))

        def scores(opinion, shared=shared):
            if shared.kinds:
                return opinion.expecting(shared, held)
            star = opinion.panel_graph
            pull = np.concatenate([share * v.pull for share, v in zip(opinion.share, opinion.voices, strict=True)])
            solved = opinion.laplacian.solve(star.rhs(pull, opinion.scale))[star.consensus]
            return opinion.with_coefficient_errors(held), solved

        leaning, before = scores(base)
        for r in range(3):
            voices = list(base.voices)
            pattern = voices[r].pattern
            apart = (held[pattern.first] - held[pattern.second])[:, 0]
            voices[r] = replace(voices[r], offset=voices[r].offset + 1e-3 * apart)
            _, after = scores(replace(base, voices=tuple(voices)))
            slope = graph.centre(after - before) / 1e-3
            np.testing.assert_allclose(-slope, leaning.spread[:, r - 3], atol=0.02 * np.max(np.abs(slope)))


@pytest.mark.long
def test_the_leaderboard_at_equal_length_is_that_of_the_truth():
    inside, raw = [], []
    for seed in range(6):
        rows, truth, x = judged(np.random.default_rng(seed), contexts=10)
        ranking = fit(rows, "mixed", groups="items", control={"length": by_label(x)})
        for one, covered in ((ranking, raw), (ranking.controlled, inside)):
            board = one.groups(contexts="these")
            true = (np.mean(truth, axis=0) - np.mean(truth))[board.group.astype(int)]
            covered.append((board.low <= true) & (true <= board.high))
    assert np.mean(inside) > 0.85
    assert np.mean(raw) < 0.5
    with pytest.raises(ValueError, match=r"held equal .*groups"):
        ranking.controlled.groups(by={item: item % 2 for item in range(8)})


def test_the_leaderboard_of_a_gaussian_expert_is_at_equal_length_too():
    rows, _, x = judged(np.random.default_rng(0), contexts=6)
    how = {"groups": "items", "control": {"length": by_label(x)}}
    logits, gaussian = fit(rows, "mixed", **how), fit(rows, "poe-g", prior="estimated", **how)
    expected, found = logits.controlled.groups(), gaussian.controlled.groups()
    assert found.group.tolist() == expected.group.tolist()
    np.testing.assert_allclose(found.score, expected.score, atol=1e-6)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-6)
    assert np.max(np.abs(found.score - gaussian.groups().score)) > 0.1


def test_what_is_held_equal_is_no_group():
    """Decisions have as many degrees of freedom as texts beyond contexts and groups, with a control or without."""
    rows, _, x = judged(np.random.default_rng(1), contexts=5, soft=False)
    ranking = fit(rows, "mixed", groups="items", control={"length": by_label(x)})
    assert ranking.controlled.solution.effects.predicted.is_group.tolist() == [False] * 2 + [True] * 8
    assert ranking.controlled.groups().freedom == ranking.groups().freedom == 5 * 8 - 5 - 8 + 1


def test_a_consensus_at_equal_length_is_that_of_the_controlled_scores():
    rows, _, x = judged(np.random.default_rng(5), contexts=10)
    ranking = fit(rows, "mixed", groups="items", control={"length": by_label(x)})
    shared = consensus(ranking, 0.5)
    np.testing.assert_allclose(shared.controlled.scores, consensus(ranking.controlled, 0.5).scores)
    assert shared.controlled.estimate == "consensus"
    assert "control" in fit(rows, "mixed", groups="items", control={"length": by_label(x)}, estimate="consensus").tables


def test_tables_have_the_scores_beside_each_other():
    texts = {"ana": "A.", "bo": "A cat sat.", "cy": "A cat sat on the mat."}
    rows = [("ana", "bo", 0.3), ("bo", "cy", 0.4), ("cy", "ana", 0.8), ("bo", "ana", 0.6), ("cy", "bo", 0.7)]
    ranking = fit(rows, "mixed", control={"length": texts})
    columns = ranking.to_columns()
    assert list(columns)[-3:] == ["equal_length_score", "equal_length_std", "equal_length_rank"]
    order = [ranking.items.tolist().index(item) for item in columns["item"]]
    np.testing.assert_array_equal(columns["equal_length_score"], ranking.controlled.scores[order])
    shown = json.loads(ranking.to_json())
    assert shown["control"][0]["column"] == "length"
    assert shown["control"][0]["step"] == "twice"
    assert np.all(ranking.controlled.std >= 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "poe-bt", "control": {"length": {"a": 1, "b": 2}}}, "`control` belongs to prior='estimated'"),
        ({"control": {"length": {"a": 1}}}, "have no entry for item 'b'"),
        ({"control": {"length": {"a": 1, "b": "long"}}}, "'length' of item 'b' .*number"),
        ({"control": {"length": {"a": 1, "b": float("nan")}}}, "'length' of item 'b' .*number"),
        ({"control": {"length": {"a": 1, "b": 1}}}, "texts .*alike"),
    ],
)
def test_arguments_that_make_no_sense(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit([("a", "b", 0.7), ("b", "a", 0.2)], **{"method": "mixed"} | arguments)
    with pytest.raises(TypeError, match=r"control .*mapping"):
        fit([("a", "b", 0.7)], "mixed", control={"a": 1.0})


def items_file(folder, rng):
    """Texts of four systems on six questions, and what a judge that likes length says of them."""
    words = "the cat ran over hills and saw a dog near old house by sea".split()
    rows, scores = [], {}
    for question in range(6):
        for system in "abcd":
            text = " ".join(rng.choice(words, int(rng.integers(3, 60))))
            rows.append({"id": system, "context_id": f"q{question}", "text": text, "price": float(rng.integers(1, 9))})
            scores[f"q{question}", system] = float(np.log2(len(text)) + 0.2 * rng.standard_normal())
    (folder / "texts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    return scores


@pytest.mark.long
def test_the_commands_hold_length_equal(run, tmp_path):
    scores = items_file(tmp_path, np.random.default_rng(0))
    pairs = ["context_id,first,second,p"]
    for c, i in scores:
        pairs += [f"{c},{i},{j},{expit(scores[c, i] - scores[c, j]):.4f}" for j in "abcd" if j != i]
    (tmp_path / "pairs.csv").write_text("\n".join(pairs), encoding="utf-8")
    fitted = ["fit", "pairs.csv", "--method", "mixed", "--control", "length"]
    done = run(tmp_path, [*fitted, "--items", "texts.jsonl", "--format", "csv"])
    assert re.search(r"longer texts: .*\d", done.stderr)
    assert done.stdout.splitlines()[0].endswith("equal_length_score,equal_length_std,equal_length_rank")
    assert "by --items" in run(tmp_path, fitted).stderr
    assert "--control" in run(tmp_path, ["fit", "pairs.csv", "--items", "texts.jsonl"]).stderr
    asked = ["rank", "texts.jsonl", "--judge", "replay/pairs.csv", "--out", "run", "--budget", "12n"]
    done = run(tmp_path, [*asked, "--control", "length", "--control", "price"])
    assert "twice the length" in done.stderr
    assert "more of it" in done.stderr
    header = (tmp_path / "run" / "ranking.csv").read_text(encoding="utf-8").splitlines()[0]
    assert "equal_length_price_score" in header
    assert run(tmp_path, ["runs", "--report", "run"]).returncode == 0
    assert "Equal price" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "twice the length" in run(tmp_path, ["fit", "run", "--method", "mixed", "--control", "length"]).stderr
    assert "--control needs" in run(tmp_path, [*asked, "--plain", "--control", "length"]).stderr
    assert "no column 'weight'" in run(tmp_path, [*asked, "--control", "weight"]).stderr


def test_a_run_is_ranked_while_the_texts_compared_are_alike():
    """What is held equal needs texts that differ; the first answers may be about others."""
    items = Items.of({"a": "one", "b": "two", "c": "three"})
    fitting = Fitting(items, control=("length",))
    fitting.check()
    alike = Comparisons.from_rows([("a", "b", 0.7), ("b", "a", 0.4)])
    assert fitting.rank(alike).controlled is None
    with pytest.raises(ValueError, match=r"texts .*alike"):
        Fitting(Items.of({"a": "one", "b": "two"}), control=("length",)).check()
    unlike = Comparisons.from_rows([("a", "c", 0.7), ("b", "a", 0.4)])
    assert fitting.rank(unlike).tables["control"]["column"].tolist() == ["length"]
    assert isinstance(fitting.rank(unlike).solution.expert, BradleyTerry)
