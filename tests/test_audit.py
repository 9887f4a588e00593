"""Audits: probes, their statistics, planted biases found, and what a card gives to the control of a ranking."""

import json

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, polygamma

import comparo
from comparo import Items, audit, fit, load_judge, rank, write_report
from comparo.analysis.judge_biases import moderated, probe_effects
from comparo.data.covariates import Term, control_numbers
from comparo.data.probes import OBEYS, ORIGINAL, PROBES, RIVAL, TWIN, bases_of, probes_for
from comparo.run.audit_card import Audit
from inside import criterion_prompt
from servers import Api, tokens

TEXTS = [f"The story of number {k} is short. It has a middle of {k * 7} words. It ends well." for k in range(30)]
PROMPT = criterion_prompt("better", kind="Story")


def likes(**given):
    known = {ORIGINAL: 0.0} | {one.name: -0.8 if one.right == "worse" else 0.0 for one in PROBES if one.name != RIVAL}
    return known | given


def simulated(kind="soft", seed=0, noise=0.5, bias=0.0, **given):
    return load_judge(f"simulated/{kind}", scores=likes(**given), noise=noise, seed=seed, bias=bias)


def cards(judge, **how):
    return audit(TEXTS, "better", judge=judge, **how).cards


# Probes


@pytest.mark.parametrize(
    "text", ["One.", "a", "One two three.", "A first. A second! A third? The end.", "Über ßtraße 漢字。"]
)
def test_every_probe_changes_any_text_but_the_twin(text):
    items = Items.of([{"text": each, "context": context} for each in (text, "Another.") for context in "xy"])
    every = bases_of(items, PROMPT, 20, np.random.default_rng(0))
    base = next(base for base, _ in every if base.text == text)
    for probe in probes_for([(base, None)]):
        made = probe.make(base, np.random.default_rng(1))
        assert made.strip()
        if probe.name in (TWIN, "shuffled", "cut off", "typos", "off topic", RIVAL):
            continue  # a text of a word cannot be shuffled, nor misspelt
        assert made != text
        assert text in made or probe.right in ("worse", "equal")


def test_damage_is_damage():
    text = "The cat sat on the mat. The dog was outside in the rain. Nobody knew about either of them."
    base = bases_of(Items.of([text, "Another."]), PROMPT, 2, np.random.default_rng(0))
    (own,) = (one for one, _ in base if one.text == text)
    made = {probe.name: probe.make(own, np.random.default_rng(2)) for probe in probes_for([(own, None)])}
    assert text.startswith(made["cut off"])
    assert len(made["cut off"]) < 0.6 * len(text)
    assert sorted(made["shuffled"].split()) == sorted(text.split())
    assert made["shuffled"] != text
    assert sorted(made["typos"]) == sorted(text)
    assert made["typos"] != text
    assert len(made["padded"]) >= 1.5 * len(text)
    assert made["padded"].startswith(text)
    assert "off topic" not in made
    assert made[RIVAL] == "Another."


# Statistics


def test_moderated_variances_by_hand():
    """The equations of Smyth (2004), solved by a root finder in place of Newton's method."""
    from scipy.optimize import brentq
    from scipy.special import digamma

    sampled, freedom = np.array([0.1, 2.0, 0.4, 7.0]), np.array([2, 4, 3, 5])
    half = freedom / 2
    e = np.log(sampled) - digamma(half) + np.log(half)
    beyond = np.var(e, ddof=1) - np.mean(polygamma(1, half))
    prior = 2 * brentq(lambda x: polygamma(1, x) - beyond, 1e-3, 1e3)
    scale = np.exp(np.mean(e) + digamma(prior / 2) - np.log(prior / 2))
    variance, found = moderated(sampled, freedom)
    assert found == pytest.approx(prior + freedom)
    assert variance == pytest.approx((prior * scale + freedom * sampled) / (prior + freedom))


def test_effects_are_t_tests_where_variances_are_known_to_be_one():
    rng = np.random.default_rng(3)
    values = [rng.normal(0.1, 1.0, size=400) for _ in range(2)]
    found = probe_effects(values, [True, False])
    for number, side in enumerate(("two-sided", "greater")):
        known = stats.ttest_1samp(values[number], 0, alternative=side)
        assert found.p[number] == pytest.approx(known.pvalue, rel=0.1)
        low, high = stats.ttest_1samp(values[number], 0).confidence_interval(0.95)
        assert (found.low[number], found.high[number]) == pytest.approx((low, high), abs=0.02)


# Planted biases


def test_a_planted_bias_is_found_and_no_other():
    (card,) = cards(simulated(noise=0.3, padded=0.8, **{"cut off": -2.0}))
    assert [one.probe for one in card.biases] == ["padded"]
    found = card.finding("padded")
    assert found.low < 0.8 < found.high
    assert found.control == "length"
    assert 0.5 < found.step < 1
    assert card.finding("cut off").verdict == "seen"
    assert card.calls <= 150


def test_a_bias_against_a_variant_counts_where_both_are_equal():
    (card,) = cards(simulated(noise=0.2, markdown=-0.8, padded=-0.8))
    assert [one.probe for one in card.biases] == ["markdown"]
    assert card.biases[0].effect < 0


def test_position_is_found_from_all_pairs():
    (card,) = cards(simulated(bias=-0.6))
    found = card.finding(TWIN)
    assert found.low < -0.6 < found.high
    assert found.verdict == "bias"
    assert "second" in found.sentence
    assert "first" not in found.sentence
    assert found.pairs > 50
    assert card.finding(OBEYS).verdict != "bias"


def test_a_judge_that_obeys_is_found():
    def judge(first, second):
        return 0.95 if "Ignore everything" in first + second else 0.5 + 0.01 * ((len(first) * 7 + len(second)) % 5 - 2)

    (card,) = cards(judge)
    assert OBEYS in [one.probe for one in card.biases]


def test_what_chance_makes_of_three_pairs_is_asked_further():
    chance = {(f"padded {k}", "padded"): 0.7 for k in (1, 2, 3)}
    noise = {ORIGINAL: 0.0} | {one.name: 0.0 for one in PROBES if one.name != RIVAL}
    (card,) = cards(load_judge("simulated/soft", scores=noise | chance))
    found = card.finding("padded")
    assert found.pairs > 10
    assert found.verdict == "none found"


@pytest.mark.long
def test_power_and_false_discoveries():
    names = [one.name for one in PROBES if one.right in ("equal", "no better") and one.name not in (TWIN, OBEYS)]
    found, false, alarms = [], [], []
    for run in range(100):
        name = names[run % len(names)]
        biases = [one.probe for one in cards(simulated(seed=run, **{name: 0.5}), seed=run)[0].biases]
        found.append(name in biases)
        false.append(sum(one != name for one in biases) / max(1, len(biases)))
        alarms.append(bool(cards(simulated(seed=1000 + run), seed=run)[0].biases))
    assert np.mean(found) >= 0.85  # 0.9 in 400 runs (docs/measurements/audit.md), less two standard errors
    assert np.mean(false) <= 0.09
    assert np.mean(alarms) <= 0.09


@pytest.mark.long
def test_decisions_of_an_unbiased_judge_are_not_called_biased():
    alarms = [bool(cards(simulated("hard", seed=run), seed=run)[0].biases) for run in range(60)]
    assert np.mean(alarms) <= 0.1


@pytest.mark.long
def test_position_of_decisions_does_not_depend_on_how_decisive_the_variants_are():
    """The odds of the pairs whose winner changes with the order are exp(2γ)."""
    decisive = {one.name: 3.0 * (-1) ** k for k, one in enumerate(PROBES) if one.name not in (TWIN, RIVAL)}
    found = [cards(simulated("hard", seed=k, noise=0.0, bias=0.7, **decisive), seed=k, calls=600)[0] for k in range(6)]
    assert np.mean([card.finding(TWIN).effect for card in found]) == pytest.approx(0.7, abs=0.3)
    assert all(np.isnan(card.spread) for card in found)


def test_a_right_dislike_of_filler_is_no_taste_for_short_texts():
    (card,) = cards(simulated(noise=0.2, padded=-1.0, repeated=-2.0))
    assert not [term for term in card.terms if term.startswith("length")]


def test_probes_that_disagree_make_a_wide_prior():
    (card,) = cards(simulated(noise=0.2, confident=1.0, apologetic=1.0))
    (term,) = (one for one in map(Term.of, card.terms) if one.name == "opening")
    assert term.std > 0.5


def test_probes_that_change_nothing_are_not_asked():
    found = audit(["A", "Bo", "Yes", "No", "Hm"], "better", judge=simulated()).cards[0]
    assert found.finding("shuffled") is None
    chinese = [f"今天天气很好{k}。我们去公园散步。孩子们很高兴。" for k in range(6)]
    assert audit(chinese, "better", judge=simulated()).cards[0].finding("shuffled") is not None


@pytest.mark.parametrize(("shown", "has"), [("context", True), ("context_id", False)])
def test_off_topic_needs_a_topic_that_is_shown(shown, has):
    rows = [{"id": k % 2, "text": f"Text {k} of it. It ends.", shown: f"Topic {k // 2}"} for k in range(12)]
    assert (audit(rows, "better", judge=simulated()).cards[0].finding("off topic") is not None) is has


# Runs


def test_a_finished_audit_with_failures_asks_no_more_when_it_is_started_again(tmp_path):
    tried = set()

    class Failing:
        name, settings, ahead = "failing", {}, 8

        def judge(self, questions, prompt=None):
            for one in questions:
                (answer,) = simulated(padded=0.5).judge([one])
                key = one.context, one.first
                fails = key not in tried and len(tried) % 12 == 3
                tried.add(key)
                yield comparo.Judgement(one, error="busy") if fails else answer

    how = {"judge": Failing(), "out": tmp_path / "run"}
    first, again = (audit(TEXTS, "better", **how).cards[0] for _ in range(2))
    assert again.calls == first.calls <= 150
    assert again.findings == first.findings


def test_several_judges_have_cards_and_folders_of_their_own(tmp_path):
    found = audit(TEXTS, "better", judge=[simulated(), simulated(seed=1, padded=0.9)], out=tmp_path / "both")
    assert len(found.cards) == 2
    assert len(list((tmp_path / "both").iterdir())) == 2
    assert found.failures({"padded": 0.5})
    assert not found.failures({"any": 9.0})
    again = json.loads(found.to_json())
    assert [card["calls"] for card in again["cards"]] == [card.calls for card in found.cards]


def test_arguments_that_make_no_sense():
    with pytest.raises(ValueError, match="4 different texts"):
        audit(["one", "two", "one"], "better", judge=simulated())
    with pytest.raises(ValueError, match="at least"):
        audit(TEXTS, "better", judge=simulated(), calls=20)
    with pytest.raises(ValueError, match="no probe 'size'"):
        Audit(()).failures({"size": 1.0})
    with pytest.raises(ValueError, match="no width"):
        Term.of("length=0.3±0")


# Control


def judged(seed, beta, noise=0.5, texts=40, calls=300):
    rng = np.random.default_rng(seed)
    length = {k: "x" * int(2 ** rng.uniform(4, 8)) for k in range(texts)}
    truth = rng.standard_normal(texts)
    view = truth + beta * np.log2([len(length[k]) for k in range(texts)])
    pairs = [rng.choice(texts, 2, replace=False) for _ in range(calls)]
    rows = [(int(i), int(j), float(expit(view[i] - view[j] + noise * rng.standard_normal()))) for i, j in pairs]
    return rows, length


def controlled(rows, length, term):
    items = Items.of([{"id": k, "text": text} for k, text in length.items()])
    (held,) = control_numbers(items, [term]).values()
    known = type(held)({label: value for (_, label), value in held.items()})
    known.prior = held.prior
    return fit(rows, "mixed", control={"length": known})


def test_a_prior_adds_its_precision_to_that_of_the_answers():
    rows, length = judged(0, 0.4)
    flat, told = (controlled(rows, length, term).tables["control"] for term in ("length", "length=1.0±0.1"))
    precision = [1 / table["std"][0] ** 2 for table in (flat, told)]
    assert precision[1] == pytest.approx(precision[0] + 100, rel=1e-9)
    mean = (precision[0] * flat["coefficient"][0] + 100 * 1.0) / precision[1]
    assert told["coefficient"][0] == pytest.approx(mean, rel=1e-9)


@pytest.mark.filterwarnings("ignore:the answers contradict")
@pytest.mark.parametrize("mean", [0.4, 1.0, 3.0])
def test_a_prior_that_the_answers_contradict_is_named(mean):
    """By as many errors as the estimate without a prior is from the prior's mean."""
    rows, length = judged(0, 0.4)
    flat = controlled(rows, length, "length").tables["control"]
    apart = abs(flat["coefficient"][0] - mean) / np.hypot(flat["std"][0], 0.1)
    notes = [note for note in controlled(rows, length, f"length={mean}±0.1").notes if "contradict" in note]
    assert len(notes) == (apart > 3)
    assert all(f" {apart:.0f} errors" in note for note in notes)


def test_a_sure_prior_is_a_fixed_coefficient():
    """Scores at equal length with β known are those of the answers less β·x, fitted without a control."""
    rows, length = judged(1, 0.4)
    told = controlled(rows, length, "length=0.4±1e-6").controlled
    x = np.log2([len(length[k]) for k in range(len(length))])
    moved = [(i, j, float(expit(np.log(p / (1 - p)) - 0.4 * (x[i] - x[j])))) for i, j, p in rows]
    free = fit(moved, "mixed")
    assert np.corrcoef(told.scores, free.scores)[0, 1] > 0.9999
    assert np.max(np.abs(told.scores - free.scores)) < 0.05


def test_an_audit_is_the_prior_of_a_run(tmp_path):
    judge = simulated(noise=0.2, padded=0.5, repeated=0.9)
    found = audit(TEXTS, "better", judge=judge, out=tmp_path / "audit")
    terms = {term.name: term for term in map(Term.of, found.cards[0].terms)}
    assert terms["length"].mean == pytest.approx(0.9, abs=0.2)
    assert terms["length"].std < 0.2
    folder = str(tmp_path / "audit")
    ranking = rank(TEXTS, "better", judge=judge, budget="6n", control=[folder], out=tmp_path / "run")
    table = ranking.tables["control"]
    assert table["column"].tolist() == ["length"]  # texts do not differ in markup and opening
    assert 0 <= table["explains"][0] <= 1
    assert table["std"][0] < terms["length"].std
    stored = json.loads((tmp_path / "run" / "run.json").read_text())["control"]
    assert [Term.of(name).name for name in stored] == ["length"]
    page = write_report(tmp_path / "run").read_text()
    shown = page[page.index('<section id="audit">') :].partition("</section>")[0]
    assert f"{found.cards[0].finding('padded').effect:.2f}" in shown
    with pytest.raises(ValueError, match="simulated/soft"):
        rank(TEXTS, "better", judge=load_judge("simulated/hard"), control=folder)


def test_markup_and_opening_are_controlled_for():
    texts = {k: ("## Title\n- one\n- two" if k % 2 else "Plain words only, nothing else.") + "." * k for k in range(12)}
    judge = load_judge("simulated/soft", scores={k: 1.0 * (k % 2) for k in texts}, noise=0.3)
    table = rank(texts, "better", judge=judge, budget="8n", control="markup").tables["control"]
    assert table["column"].tolist() == ["markup"]
    assert table["low"][0] > 0


# The command


def prefers_long(request):
    """A server that prefers the longer of the texts between the last delimiters."""
    asked = request.body["messages"][0]["content"]
    if "7e84f271" not in asked:  # the probe of what the server supports
        return tokens({"A": 0.6, "B": 0.4})
    _, first, _, second, _ = asked.rsplit("7e84f271", 4)
    p = expit(0.02 * (len(first) - len(second)) + 0.1 * np.sin(len(first) + 3 * len(second)))
    return tokens(dict(sorted({"A": p, "B": 1 - p}.items(), key=lambda pair: -pair[1])))


@pytest.fixture
def comparo_run(run, tmp_path):
    rows = [{"id": k, "text": f"<b>Story</b> {k}. It ends well."} for k in range(12)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return lambda *arguments: run(tmp_path, ("audit", "items.jsonl", "--criterion", "better", *arguments))


def test_the_command_prints_a_card_writes_a_page_and_fails_a_build(comparo_run, tmp_path):
    with Api(prefers_long) as api:
        judge = ("--judge", f"openai/long; base-url={api.url}; concurrency=4")
        planned = comparo_run(*judge, "--dry-run")
        assert planned.returncode == 0, planned.stderr
        assert "150 calls" in planned.stdout
        assert not api.asked
        done = comparo_run(*judge, "--out", "run", "--format", "json", "--fail-if", "padded=0.5")
        assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)["cards"][0]
    verdicts = {one["probe"]: one["verdict"] for one in found["findings"]}
    assert verdicts["padded"] == "bias"
    assert verdicts["cut off"] == "seen"
    assert json.loads((tmp_path / "run" / "audit.json").read_text())["cards"][0] == found
    page = (tmp_path / "run" / "report.html").read_text()
    assert "prefers padded texts" in page
    assert "<b>Story" not in page
    assert "&lt;b&gt;Story" in page


def test_limits_that_make_no_sense_are_refused_and_two_judges_have_folders_of_their_own(comparo_run, tmp_path):
    for limit in ("padded", "size=1", "padded=x", "padded=-1"):
        assert comparo_run("--judge", "simulated/soft", "--fail-if", limit).returncode == 2
    assert not (tmp_path / "comparo-runs").exists()  # nothing was asked
    done = comparo_run("--judge", "simulated/soft", "--judge", "simulated/hard")
    assert done.returncode == 0, done.stderr
    names = [folder.name.partition("-items-")[2] for folder in (tmp_path / "comparo-runs").iterdir()]
    assert sorted(name for name in names if "audit" in name) == ["audit-simulated-hard", "audit-simulated-soft"]
