"""Why texts win: planted reasons found again, reasons that a judge answers, people beside the judge, page and files."""

import csv
import itertools
import json
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.special import expit

import comparo
from comparo import Comparisons, ComparoError, Items, fit, load_judge, rank
from comparo.data.covariates import LIBRARY, clustered, computed_reasons, judged_reasons, own_reasons
from comparo.judges import FunctionJudge, Probe
from comparo.model.estimators.coefficients import adjusted
from comparo.report.command_pages import write_why
from inside import prepare_why, read_record
from servers import Api, Reply

WORDS = "fox river moon stone bread winter garden silver because please lamp 1999 e.g. you I maybe".split()


def texts(count=40, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(8, 120, size=count)
    return [" ".join(rng.choice(WORDS, size).tolist()).capitalize() + "." for size in sizes]


def answers(truth, calls, seed=0, noise=0.3, hard=False):
    """Comparisons of all texts in one context by a judge with these scores."""
    rng, count = np.random.default_rng(seed), len(truth)
    first = rng.integers(count, size=calls)
    second = (first + rng.integers(1, count, size=calls)) % count
    d = truth[first] - truth[second] - 0.2
    p = (rng.random(calls) < expit(d)).astype(float) if hard else expit(d + noise * rng.standard_normal(calls))
    return Comparisons.from_columns(first, second, p)


def by_item(*columns, names=("x",)):
    """Reasons by name, each a number for every item."""
    return {name: dict(enumerate(np.asarray(column).tolist())) for name, column in zip(names, columns, strict=True)}


def rows_of(data, judge, p=None):
    """The comparisons as rows of a judge, who may have answered with another p."""
    ends = data.items[data.first].tolist(), data.items[data.second].tolist()
    columns = zip(*ends, (data.p if p is None else p).tolist(), strict=True)
    return [{"first": i, "second": j, "p": own, "judge": judge} for i, j, own in columns]


def planted(count=60, seed=0, calls=900, rest=0.5, **how):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, 5))
    x[:, 1] += 0.7 * x[:, 0]  # goes with the first, and is worth nothing
    truth = 0.8 * x[:, 0] - 0.5 * x[:, 2] + rest * rng.standard_normal(count)
    reasons = by_item(*x.T, names=["one", "like-one", "two", "nothing", "none"])
    return fit(answers(truth, calls, seed, **how), "mixed"), reasons, x, truth


def found_in(why):
    return {one.name: one for one in why.reasons}


def test_planted_reasons_are_found_and_what_goes_with_them_is_told_apart():
    ranking, reasons, _, _ = planted()
    found = found_in(comparo.why(ranking, reasons=reasons))
    assert found["one"].verdict == found["two"].verdict == "matters"
    assert found["like-one"].verdict == "goes with others"
    assert found["nothing"].verdict == found["none"].verdict == "not shown"
    assert found["one"].beyond.effect > 0 > found["two"].beyond.effect
    assert (found["two"].words, found["two"].more, found["two"].sign) == ("not so: two", "two", -1)


def test_effects_without_noise_are_those_of_least_squares():
    ranking, reasons, x, truth = planted(calls=3000, noise=0.0)
    why = comparo.why(ranking, reasons=reasons)
    scaled = (x - x.mean(0)) / x.std(0)
    expected = dict(zip(reasons, np.linalg.lstsq(scaled, truth - truth.mean(), rcond=None)[0], strict=True))
    for one in why.reasons:
        assert one.beyond.effect == pytest.approx(expected[one.name], abs=0.02)
    left = np.mean((truth - truth.mean() - scaled @ np.array([expected[name] for name in reasons])) ** 2)
    assert why.unexplained == pytest.approx(left / np.var(truth), abs=0.05)


def test_effects_depend_neither_on_units_nor_on_the_order_of_reasons():
    ranking, reasons, _, _ = planted()
    other = {name: {item: 3.0 - 40.0 * value for item, value in of.items()} for name, of in reversed(reasons.items())}
    one, two = found_in(comparo.why(ranking, reasons=reasons)), found_in(comparo.why(ranking, reasons=other))
    for name in reasons:
        assert two[name].beyond.effect == pytest.approx(-one[name].beyond.effect, abs=1e-6)
        assert two[name].alone.share == pytest.approx(one[name].alone.share, abs=1e-6)


def test_intervals_do_not_depend_on_the_signs_of_eigenvectors(monkeypatch):
    ranking, reasons, _, _ = planted()
    before, eigh = comparo.why(ranking, reasons=reasons), np.linalg.eigh

    def flipped(matrix):
        values, vectors = eigh(matrix)
        return values, vectors * (-1.0) ** np.arange(len(values))

    monkeypatch.setattr(np.linalg, "eigh", flipped)
    after = comparo.why(ranking, reasons=reasons)
    assert after.unexplained_low == pytest.approx(before.unexplained_low, abs=1e-9)


def test_reasons_may_be_more_than_texts_and_the_same_twice():
    rng = np.random.default_rng(3)
    x = rng.standard_normal((12, 20))
    x[:, 19] = x[:, 0]
    ranking = fit(answers(x[:, 0], 120), "mixed")
    why = comparo.why(ranking, reasons=by_item(*x.T, names=[f"r{k}" for k in range(20)]))
    assert all(np.isfinite([one.beyond.low, one.beyond.high]).all() for one in why.reasons)
    assert not any(one.beyond.is_found for one in why.reasons)
    assert {one.name for one in why.reasons[:2]} == {"r0", "r19"}


@pytest.mark.long
@pytest.mark.parametrize("hard", [False, True])
def test_intervals_cover_and_false_discoveries_are_rare(hard):
    covered, false, shares = [], [], []
    truth = {"one": 0.8, "two": -0.5}
    for seed in range(60):
        ranking, reasons, x, _ = planted(80, seed, 1200, hard=hard)
        why, spread = comparo.why(ranking, reasons=reasons), x.std(0)
        sizes = {name: truth.get(name, 0.0) * spread[k] for k, name in enumerate(reasons)}
        found = [one for one in why.reasons if one.verdict == "matters"]
        covered += [one.beyond.low <= sizes[one.name] <= one.beyond.high for one in why.reasons]
        false.append(sum(one.name not in truth for one in found) / max(len(found), 1))
        explained = np.var(x @ np.array([truth.get(name, 0.0) for name in reasons]))
        shares.append(why.unexplained_low <= 0.25 / (0.25 + explained) <= why.unexplained_high)
    assert 0.92 <= np.mean(covered) <= 0.98  # ± 2 standard errors of 300 intervals around 95%
    assert np.mean(false) <= 0.05 + 0.02
    assert np.mean(shares) >= 0.9  # 54 of 60: fewer has a chance of 3% where 95% are covered


def test_feedback_names_what_a_text_has_and_lacks():
    ranking, reasons, x, _ = planted()
    why = comparo.why(ranking, reasons=reasons)
    table = why.feedback()
    rows = dict(zip(table["item"].tolist(), zip(table["strongest"], table["weakest"], strict=True), strict=True))
    most, least = int(np.argmax(x[:, 0])), int(np.argmin(x[:, 0]))
    assert "one (+" in rows[most][0]
    assert "one (-" in rows[least][1]
    node = ranking.items.tolist().index(least)
    best, gain = why.gains(node)[0]
    assert best.name == "one"
    assert gain > 0.5
    for row in why.shown_by(node, "one"):
        other = int(ranking.graph.second[row] if ranking.graph.first[row] == node else ranking.graph.first[row])
        assert x[ranking.items[other], 0] > x[least, 0]


def test_parts_between_groups_add_up_to_the_difference():
    rng = np.random.default_rng(0)
    length = rng.standard_normal((15, 4)) + np.array([1.0, 0.0, 0.0, -1.0])
    rows = []
    for context, (a, b) in itertools.product(range(15), itertools.permutations(range(4), 2)):
        p = expit(0.7 * (length[context, a] - length[context, b]) + 0.3 * rng.standard_normal())
        rows.append({"context": context, "first": a, "second": b, "p": float(p)})
    ranking = fit(rows, "mixed", groups="items")
    number = {(context, item): float(length[context, item]) for context in range(15) for item in range(4)}
    why = comparo.why(ranking, reasons={"length": number})
    table = why.between(0, 3)
    means = [ranking.scores[ranking.items == item].mean() for item in (0, 3)]
    assert table["reason"].tolist() == ["length", "rest"]
    assert table["part"].sum() == pytest.approx(means[0] - means[1], abs=1e-6)
    assert table["low"][0] > 0
    assert why.lead(0, 3) == -why.lead(3, 0) == pytest.approx(table["part"].sum(), abs=1e-6)
    folded = why.between(0, 3, most=0)
    assert folded["reason"].tolist() == ["others", "rest"]
    assert [folded[name][0] for name in ("part", "low", "high")] == pytest.approx(
        [table[name][0] for name in ("part", "low", "high")]
    )
    with pytest.raises(ValueError, match="no group 9"):
        why.between(0, 9)


def test_people_and_judge_side_by_side():
    rng = np.random.default_rng(1)
    x = rng.standard_normal((60, 2))
    reasons = by_item(*x.T, names=["long", "kind"])
    judge = comparo.why(fit(answers(1.0 * x[:, 0], 900), "mixed"), reasons=reasons)
    people = comparo.why(fit(answers(1.0 * x[:, 1], 900, 5), "mixed"), reasons=reasons)
    table = judge.beside(people)
    row = dict(zip(table["reason"].tolist(), range(2), strict=True))
    assert table["apart"][row["long"]] > 0.5
    assert table["apart"][row["kind"]] < -0.5
    assert (table["adjusted"] < 0.01).all()
    assert (judge.beside(judge)["adjusted"] > 0.9).all()


def test_the_variance_of_scores_is_that_of_the_truth_where_reasons_explain_little():
    rng = np.random.default_rng(4)
    truth, x = rng.standard_normal(60), rng.standard_normal((60, 12))
    reasons = by_item(*x.T, names=[f"r{k}" for k in range(12)])
    why = comparo.why(fit(answers(truth, 1500), "mixed"), reasons=reasons)
    assert why.unexplained > 0.8
    assert why.variance == pytest.approx(np.var(truth), rel=0.25)
    assert np.isfinite(why.beside(why)["judge_high"]).all()


def test_feedback_agrees_with_words_where_no_reason_matters_beyond_its_twin():
    for seed in range(12):
        rng = np.random.default_rng(seed)
        one = rng.standard_normal(30)
        twin = one + 0.02 * rng.standard_normal(30)
        ranking = fit(answers(one, 400, seed), "mixed")
        why = comparo.why(ranking, reasons=by_item(one, twin, names=["one", "twin"]))
        if not why.matters:
            best = int(np.argmax(why.ranking.scores))
            assert (why.parts[best] > 0).all()
            assert {found.words for found in why.reasons} == {"one", "twin"}


def test_judges_that_decide_and_judges_that_say_how_sure_they_are_explain_together():
    rng = np.random.default_rng(0)
    x = rng.standard_normal(40)
    truth, rows = x + 0.5 * rng.standard_normal(40), []
    for name, hard in (("sure", False), ("decides", True)):
        rows += rows_of(answers(truth, 400, hard=hard), name)
    why = comparo.why(fit(rows, "panel"), reasons=by_item(x))
    (found,) = why.reasons
    assert found.verdict == "matters"
    assert why.unexplained_low <= 0.25 / (0.25 + x.var()) <= why.unexplained_high
    assert why.unexplained_high - why.unexplained_low < 0.6


def test_judges_of_a_panel_explain_on_one_scale():
    """Judges with small logits, and one that prefers the worse text, say the same as judges with large logits."""
    found = []
    for scales in ((1.0, 1.0, 1.0, 1.0), (1.0, 0.2, 0.2, -1.0)):
        rng, rows = np.random.default_rng(2), []
        x = rng.standard_normal(40)
        truth = x + 0.5 * rng.standard_normal(40)
        for number, scale in enumerate(scales):
            data = answers(truth, 300, number, noise=0.0)
            p = expit(scale * (np.log(data.p / (1 - data.p)) + 0.2 + 0.2 * rng.standard_normal(300)))
            rows += rows_of(data, f"j{number}", p)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "'j3'|the views")  # j3 is reversed, and all views are the same
            ranking = fit(rows, "panel")
        why = comparo.why(ranking, reasons=by_item(x))
        found.append([why.unexplained, why.unexplained_low, why.unexplained_high, why.reasons[0].beyond.share])
    assert found[1] == pytest.approx(found[0], abs=0.02)


@pytest.mark.parametrize(
    ("reasons", "place"),
    [
        ({}, "no reason"),
        ({"a": dict.fromkeys(range(60), 1.0)}, "alike"),
        ({"a": {0: 1.0}}, "item"),
        ({"a": dict.fromkeys(range(60), "many")}, "not a number"),
    ],
)
def test_bad_reasons_are_named(reasons, place):
    ranking = planted(calls=300)[0]
    with pytest.raises(ValueError, match=place):
        comparo.why(ranking, reasons=reasons)


# Reasons


def test_the_library_has_a_name_words_and_an_opposite_for_about_thirty_reasons():
    assert 28 <= len(LIBRARY) <= 34
    assert len({one.name for one in LIBRARY}) == len({one.words for one in LIBRARY}) == len(LIBRARY)
    assert all(one.against != one.words for one in LIBRARY)
    assert len(judged_reasons(True)) == len(judged_reasons(False)) + 1


@pytest.mark.parametrize(
    ("name", "more", "less"),
    [
        ("length", "A dog barks at night.", "A dog."),
        ("examples", "Dogs, for example, bark.", "Dogs of all kinds bark."),
        ("causes", "It barks because it is afraid.", "It barks and it is afraid."),
        ("careless", "i dont know ,really..", "I do not know, really."),
        ("emphasis", "That is WRONG!!!", "That is wrong."),
        ("sources", "See https://example.org for dogs.", "See the page for dogs."),
        ("grounded", "The river froze.", "The desert burned."),
    ],
)
def test_computed_numbers_rise_with_what_they_are_called(name, more, less):
    items = Items.of([{"text": text, "context": "The river froze in winter."} for text in (more, less)])
    values = {reason.name: column for reason, column in computed_reasons(items).items()}
    assert values[name][0] > values[name][1]


def test_own_reasons_have_names_of_their_own():
    found = own_reasons(["cites sources", "Cites sources!", "more polite"], ["more-polite"])
    assert [one.name for one in found] == ["cites-sources", "cites-sources-2", "more-polite-2"]
    with pytest.raises(ValueError, match="more coherent"):
        own_reasons(["coherence"])
    with pytest.raises(ValueError, match="says nothing"):
        own_reasons(["  "])


def test_wordings_that_are_alike_are_one():
    found = clustered(["better examples", "gives better examples", "", "the", "polite", "is polite", "more polite"])
    assert found == {"polite": 3, "better examples": 2}


# Runs


def judged_run(folder, count=24):
    """A run of a judge that likes long and specific texts, and a judge that says how specific they are."""
    given, rng = texts(count), np.random.default_rng(2)
    specific = dict(zip(given, rng.standard_normal(count).tolist(), strict=True))
    view = {text: 0.6 * np.log2(len(text)) + specific[text] for text in given}
    items = [{"id": f"t{k}", "text": text, "system": "AB"[k % 2]} for k, text in enumerate(given)]
    own = {"group": "system", "estimate": "judge", "out": folder}
    ranking = rank(items, "better", judge=lambda a, b: float(expit(view[a] - view[b])), **own)
    calls = []

    def about(question):
        calls.append(question)
        d = specific[question.first_text] - specific[question.second_text]
        names = [one.name for one in judged_reasons(False)] + ["cites-sources"]
        return {name: rng.uniform(0.3, 0.7) for name in names} | {"specific": float(expit(d))}

    return ranking, FunctionJudge(about), calls


def test_a_judge_is_asked_about_all_reasons_in_one_call_per_pair_and_once(tmp_path):
    folder = tmp_path / "run"
    ranking, judge, calls = judged_run(folder)
    found = prepare_why(folder, ranking, judge, because=["cites sources"], budget=80).run()
    assert found.calls == len(calls) == 80
    reasons = found_in(found.why)
    assert reasons["specific"].alone.is_found  # beyond 30 others, 24 texts are too few
    assert reasons["specific"].words == "more specific"
    assert reasons["length"].beyond.effect > 0
    again = prepare_why(folder, ranking, judge, because=["cites sources"], budget=80).run()
    assert len(calls) == 80
    assert prepare_why(folder, ranking, judge, budget=5).run().calls == 5  # other reasons, in another folder
    assert again.why.unexplained == found.why.unexplained


def test_a_judge_that_proposes_reads_both_texts_and_their_context(tmp_path):
    folder, asked = tmp_path / "run", []
    items = [{"id": f"t{k}", "text": text, "context": "Why {rivers} freeze"} for k, text in enumerate(texts(8))]
    ranking = rank(items, "better", judge=lambda a, b: 0.9 if len(a) > len(b) else 0.1, out=folder)

    def write(text, _):
        asked.append(text)
        return Probe("It gives better examples.", {}, calls=1, cost=0.01)

    names = [one.name for one in judged_reasons(True)] + ["gives-better-examples"]
    judge = FunctionJudge(lambda _: dict.fromkeys(names, 0.6))
    object.__setattr__(judge, "write", write)
    with pytest.raises(ValueError, match="more coherent"):
        prepare_why(folder, ranking, judge, because=["coherence"], propose=2)
    plan = prepare_why(folder, ranking, judge, propose=2)
    assert not asked  # nothing is asked before the plan runs
    found = plan.run()
    assert len(asked) == 2
    assert plan.asked[-1].words == "gives better examples"
    assert found.cost == pytest.approx(0.02)
    assert all("Why {rivers} freeze" in text and sum(item["text"] in text for item in items) == 2 for text in asked)


def test_proposals_of_a_judge_without_a_cache_are_asked_once_also_after_a_stop(tmp_path):
    folder, asked = tmp_path / "run", []
    ranking, about, _ = judged_run(folder, 8)

    def write(text, _):
        if len(asked) == 2:
            asked.append("stop")
            raise KeyboardInterrupt
        asked.append(text)
        return Probe("It cites sources.", {}, calls=1, cost=0.01)

    judge = SimpleNamespace(name="writing/any", settings={}, ahead=8, several=True, judge=about.judge, write=write)
    with pytest.raises(KeyboardInterrupt):
        prepare_why(folder, ranking, judge, propose=4).run()
    for _ in range(2):
        prepare_why(folder, ranking, judge, propose=4).run()
    assert len(asked) == len(set(asked)) == 5  # with the stop


def test_what_cannot_be_asked_is_refused_before_anything_is(tmp_path):
    folder = tmp_path / "run"
    ranking, judge, calls = judged_run(folder, 8)
    with pytest.raises(ValueError, match="judge"):
        prepare_why(folder, ranking, because=["cites sources"])
    with pytest.raises(ValueError, match="several reasons"):
        prepare_why(folder, ranking, SimpleNamespace(name="one-answer", several=False))
    with pytest.raises(ValueError, match="words"):
        prepare_why(folder, ranking, judge, propose=2)
    assert not calls


def test_votes_with_written_reasons_are_read_and_compared(tmp_path):
    folder, path = tmp_path / "run", tmp_path / "votes.csv"
    ranking, _, _ = judged_run(folder)
    pairs = [(i, j) for i in range(24) for j in range(24) if i != j and (i + j) % 3 == 0]
    why = ["clearer", "better evidence; clearer"]
    rows = [(f"t{i}", f"t{j}", "first" if i < j else "second", why[i % 2]) for i, j in pairs]
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["first", "second", "winner", "reason"])
        table.writerows(rows)
    found = prepare_why(folder, ranking, votes=path).run()
    assert found.people is not None
    assert found.stated == {"clearer": len(rows), "better evidence": sum(i % 2 for i, _ in pairs)}
    beside = {row["reason"]: row for row in found.to_dict()["people"]["beside"]}
    assert set(beside["length"]) >= {"judge", "people", "apart", "adjusted"}
    assert beside["careless"]["words"].endswith("more carelessly")  # also where its effect is negative
    path.write_text("first,second,winner\nt0,unknown,first\n")
    with pytest.raises(ComparoError, match="unknown"):
        prepare_why(folder, ranking, votes=path)


def test_a_server_writes_a_reason_in_its_own_words(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    reply = Reply({"choices": [{"message": {"content": "gives better examples"}, "finish_reason": "stop"}]})
    with Api(reply) as api:
        judge = load_judge("openai/tiny", base_url=api.url)
        assert judge.write("Why did it win?", 60).sentence == "gives better examples"
        sent = api.requests[-1].body
    assert sent["messages"][-1]["content"].endswith("win?")
    assert not {"logprobs", "response_format"} & set(sent)
    assert max(sent.get(name, 0) for name in ("max_tokens", "max_completion_tokens")) >= 60


def test_the_command_writes_table_files_and_page(tmp_path, run):
    folder = tmp_path / "run"
    judged_run(folder)
    done = run(tmp_path, ["why", folder, "--between", "A", "--between", "B", "--item", "t3"])
    assert done.returncode == 0, done.stderr
    assert "longer" in done.stdout
    assert "no reason" in done.stdout
    stored = json.loads((folder / "why.json").read_text())
    assert {"summary", "reasons", "unexplained", "feedback", "between", "advice"} <= set(stored)
    with (folder / "why.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 24
    assert all(row["feedback"] for row in rows)
    printed = run(tmp_path, ["why", folder, "--format", "json", "-q"])
    assert json.loads(printed.stdout)["reasons"] == stored["reasons"]
    table = run(tmp_path, ["why", folder, "--format", "csv", "-q"])
    assert table.stdout.startswith("reason,words,verdict,effect,low,high")
    assert "<svg" in (folder / "why.html").read_text()
    assert run(tmp_path, ["runs", "--report", folder]).returncode == 0
    section = (folder / "report.html").read_text().partition('<section id="why">')[2].partition("</section>")[0]
    assert all(f"<bdi>{one['words']}</bdi>" in section for one in stored["reasons"][:8])
    listed = run(tmp_path, ["fit", folder, "--grades", "A:50%, B", "--report", "class.csv"])
    assert listed.returncode == 0, listed.stderr
    with (tmp_path / "class.csv").open() as file:
        names = [name for name in ("context", "item") if name in rows[0]]
        said = {tuple(row[name] for name in names): row["feedback"] for row in rows}
        listed = {tuple(row[{"item": "text"}.get(name, name)] for name in names): row for row in csv.DictReader(file)}
        assert {label: row["feedback"] for label, row in listed.items()} == said
    run(tmp_path, ["fit", folder, "--grades", "A:50%, B", "--report", "list.html"])
    assert (tmp_path / "list.html").read_text().count('<td class="remark">') == 24
    (folder / "why.json").write_text("{}")
    damaged = run(tmp_path, ["runs", "--report", folder])
    assert (damaged.returncode, "why.json" in damaged.stderr) == (1, True)


@pytest.mark.parametrize(
    ("flags", "place"),
    [
        (["--between", "A"], "--between"),
        (["--between", "A", "--between", "A"], "--between"),
        (["--between", "A", "--between", "Z", "--judge", "simulated/soft"], "A, B"),
        (["--votes", "few.csv"], "few.csv"),
        (["--item", "nobody"], "nobody"),
        (["--because", "cites sources"], "--judge"),
        (["--judge", "simulated/soft", "--judge", "simulated/hard"], "--judge"),
    ],
)
def test_wrong_flags_are_named(tmp_path, run, flags, place):
    folder = tmp_path / "run"
    judged_run(folder, 8)
    (tmp_path / "few.csv").write_text("first,second,winner\nt0,t1,first\nt1,t2,first\n")
    done = run(tmp_path, ["why", folder, *flags])
    assert done.returncode == 2
    assert place in done.stderr
    assert not list(tmp_path.glob("run-why*"))  # nothing was asked


def test_names_and_texts_on_the_page_are_escaped(tmp_path):
    folder, evil = tmp_path / "run", "<script>alert(1)</script>"
    given = {f"{evil} {k}": f"{text} {evil}" for k, text in enumerate(texts(8))}
    rank(given, "better", judge=lambda a, b: 0.8 if len(a) > len(b) else 0.2, out=folder)
    record = read_record(folder)
    found = prepare_why(folder, record.ranking, item=str(record.ranking.items[-1])).run()
    page = write_why(folder, found, record).read_text()
    assert evil not in page
    assert "&lt;script&gt;" in page


@pytest.mark.long
@pytest.mark.judges
def test_a_local_model_says_why_from_beginning_to_end(tmp_path, unpacked):
    folder = tmp_path / "run"
    items = {f"t{k}": text for k, text in enumerate(texts(6))}
    rank(items, "longer", judge=unpacked, budget=12, out=folder)
    record = read_record(folder)
    found = prepare_why(folder, record.ranking, unpacked, because=["about animals"], budget=6).run()
    assert found.calls == 6
    assert {"specific", "about-animals", "length"} <= set(found_in(found.why))
    assert 0 <= found.why.unexplained_low <= found.why.unexplained <= found.why.unexplained_high <= 1
    llama = load_judge("local/smollm2", runtime="llama.cpp", window=1024, threads=1)
    proposing = prepare_why(folder, record.ranking, llama, propose=1, budget=2, out=tmp_path / "other")
    assert proposing.run().calls >= 2
    assert len(proposing.asked) >= len(judged_reasons(False))
    assert llama.write("Say hello.", 8).sentence.strip()


def chat_server(request):
    """Answers every criterion by A, and names a reason where it is asked for one."""
    asked = request.body["messages"][-1]["content"]
    names = [one.name for one in judged_reasons(False)] + ["gives-better-examples"]
    said = "gives better examples" if "was preferred" in asked else json.dumps(dict.fromkeys(names, "A"))
    usage = {"prompt_tokens": 200, "completion_tokens": 10}
    return Reply({"choices": [{"message": {"content": said}, "finish_reason": "stop"}], "usage": usage})


def test_proposals_are_priced_before_and_asked_once(tmp_path, run, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    folder = tmp_path / "run"
    judged_run(folder, 8)
    with Api(chat_server) as api:
        asked = ["why", folder, "--judge", "openai/tiny", "--base-url", api.url, "--price", "1,2", "--budget", "6"]
        asked += ["--option", "votes=1"]
        dry = [run(tmp_path, [*asked, "--dry-run", *more]).stdout for more in ([], ["--propose", "4"])]
        more = dry[1].replace(dry[0], "")
        assert "to 8 calls" in more
        assert "at most $0.00" in more
        assert not api.requests
        first = run(tmp_path, [*asked, "--propose", "4"])
        assert first.returncode == 0, first.stderr
        assert "gives better examples" in first.stderr
        count = len(api.requests)
        again = run(tmp_path, [*asked, "--propose", "4"])
        assert again.returncode == 0, again.stderr
        assert len(api.requests) == count
        dear = run(tmp_path, [*asked[:-4], "--budget", "$0.0001", "--propose", "4"])
        assert (dear.returncode, "--propose" in dear.stderr, len(api.requests)) == (2, True, count)


def test_an_unknown_p_value_is_no_discovery_and_helps_no_other():
    known = [0.01, 0.04, 0.2]
    assert adjusted(np.array([*known, np.nan])) == pytest.approx(adjusted(np.array([*known, 1.0])), rel=1e-12)
