"""Today's models: probed before a run, with and without reasoning, and what their tokens cost."""

import json
import math
import re
from dataclasses import replace
from datetime import date

import pytest

from comparo import JudgeError, Question, load_judge
from comparo.judges.openai import read_usage
from inside import Price, Usage, criterion_prompt, find_price
from openai_models import ASTRA, LUNA, O3, OLDER
from servers import Api, Hosted, Reply, refusal, words

pytestmark = pytest.mark.usefixtures("keys")

PROMPT = criterion_prompt("larger", kind="Text")
QUESTION = Question("a", "b", None, "The number 9.", "The number 4.")
P = 1 / (1 + math.exp(-2.5))


def judge(api, model="gpt-6-luna", **options):
    return Hosted(f"openai/{model}").load(api, **options)


def ask(api, **options):
    [answer] = judge(api, **options).judge([QUESTION], PROMPT)
    return answer


# Log-probabilities and reasoning


def test_no_reasoning_is_asked_for_where_log_probabilities_need_that():
    with Api(LUNA) as api:
        asked = judge(api)
        probe = asked.probe()
        [answer] = asked.judge([QUESTION], PROMPT)
    assert answer.p == pytest.approx(P)
    name, settings = probe.sentence.split(": ")
    assert name == "openai/gpt-6-luna"
    assert settings.split(", ")[1:] == ["effort none", "max_completion_tokens 8", "temperature 0"]
    assert "of 20 tokens" in settings
    assert (probe.calls, probe.tokens) == (1, 108)
    refused, last = [request.body for request in api.requests[:-2]], api.requests[-1].body
    assert len(refused) == 3  # max_tokens, temperature and logprobs; the probe and the question are answered
    assert (last["reasoning_effort"], last["temperature"], last["max_completion_tokens"]) == ("none", 0.0, 8)


def test_a_model_that_does_not_reason_is_not_told_to_stop():
    with Api(OLDER) as api:
        probe = judge(api, "gpt-4o-mini").probe()
    assert probe.sentence.endswith("max_tokens 8, temperature 0")
    assert [request.body.get("reasoning_effort") for request in api.requests] == [None]


@pytest.mark.parametrize(
    ("model", "options", "said"),
    [
        (O3, {}, "no log-probabilities .*effort = none.*votes=5"),
        (ASTRA, {}, "no log-probabilities .*effort = none.*votes=5"),
        (LUNA, {"effort": "minimal", "votes": 1}, r"effort = minimal .*luna \(400\).*'low', 'medium', 'high'.*drop"),
        (O3, {"effort": "none", "votes": 1}, r"effort = none .*o3 \(400\).*'low', 'medium', 'high'.*drop effort"),
        (O3, {"effort": "high", "max_tokens": 200, "votes": 3}, "max_tokens = 200 .*raise it"),
    ],
)
def test_what_a_model_does_not_do_is_refused_by_the_probe_with_the_remedy(model, options, said):
    with Api(model) as api, pytest.raises(JudgeError, match=said):
        judge(api, model.name, **options).probe()


@pytest.mark.parametrize("effort", ["low", 3])
def test_reasoning_and_log_probabilities_do_not_go_together(effort):
    with pytest.raises(ValueError, match=f"effort = {effort} "):
        load_judge("openai/gpt-6-luna", effort=effort)


def thinking(request):
    """An open model that reasons in its reply, with log-probabilities of every token, unless its template is told."""
    if request.body.get("chat_template_kwargs") == {"enable_thinking": False}:
        return LUNA(replace(request, body={**request.body, "reasoning_effort": "none", "max_completion_tokens": 8}))
    text = ["<think>", "A", " or", " B"]
    content = [{"token": token, "logprob": -0.1, "top_logprobs": [{"token": token, "logprob": -0.1}]} for token in text]
    choice = {"message": {"content": "".join(text)}, "logprobs": {"content": content}, "finish_reason": "length"}
    return Reply({"choices": [choice], "usage": {"prompt_tokens": 100, "completion_tokens": 8}})


def without_limit(request):
    body = {name: value for name, value in request.body.items() if name != "max_tokens"}
    return thinking(replace(request, body=body))


def test_a_label_in_the_reasoning_is_not_the_verdict():
    with Api(without_limit) as api:
        answer = ask(api)
    assert answer.p == pytest.approx(P)
    assert (answer.tokens_in, len(api.requests)) == (200, 2)


def test_reasoning_that_cannot_be_stopped_is_an_error():
    with Api(lambda request: thinking(replace(request, body={}))) as api, pytest.raises(JudgeError, match="reasons"):
        ask(api)


def test_a_server_that_knows_no_template_options_is_asked_without():
    def strict(request):
        if "chat_template_kwargs" in request.body:
            return refusal(400, "Unrecognized request argument supplied: chat_template_kwargs")
        return LUNA(request)

    with Api(strict) as api:
        assert not ask(api).failed
    assert "chat_template_kwargs" not in api.requests[-1].body


# Verdicts after reasoning


def test_verdicts_after_reasoning_have_room_and_are_structured():
    with Api(O3) as api:
        asked = judge(api, "o3", votes=3, effort="low", price="2,8")
        probe = asked.probe()
        [answer] = asked.judge([QUESTION], PROMPT)
    assert probe.sentence.startswith("openai/o3: verdicts ")
    assert probe.sentence.split(", ")[-3:] == ["effort low", "max_completion_tokens 25,000", "temperature 1"]
    assert answer.p == 3.5 / 4
    assert (answer.tokens_out, answer.tokens_reasoning) == (924, 900)
    assert answer.cost == pytest.approx((100 * 2 + 924 * 8) / 1e6)  # reasoning is among the tokens written
    last = api.requests[-1].body
    assert (last["max_completion_tokens"], last["reasoning_effort"], "logprobs" in last) == (25_000, "low", False)
    assert last["response_format"]["type"] == "json_schema"


def test_a_model_that_reasons_by_itself_gets_room_from_the_probe_on():
    with Api(LUNA) as api:
        asked = judge(api, votes=2, timeout=None)
        probe = asked.probe()
        assert asked.patience == 600.0
        [answer] = asked.judge([QUESTION], PROMPT)
    assert re.search("reasons .*max_completion_tokens 25,000", probe.sentence)
    assert answer.weight == 2
    assert [request.body.get("max_completion_tokens") for request in api.requests] == [None, 64, 25_000, 25_000]


@pytest.mark.parametrize("votes", [1, 3])
def test_a_reply_that_its_limit_cuts_is_a_failure_and_never_a_tie(votes):
    with Api(O3) as api:
        answer = ask(api, model="o3", votes=votes, effort="high", max_tokens=200)
    assert answer.failed
    assert math.isnan(answer.p)
    assert re.search("200 tokens .*max_tokens.*effort$", answer.error)
    assert answer.tokens_reasoning == 200 * votes  # which are paid for


def test_half_a_reply_of_a_model_that_reasons_is_not_read():
    with Api(words("A is better in style, but", reason="length")) as api:
        assert ask(api, votes=1, effort="low").failed
    with Api(words("A is better because of", reason="length")) as api:
        assert ask(api, votes=1).p > 0.5


def test_a_room_that_is_too_large_is_halved_before_any_text_is_cut():
    with Api(replace(O3, most=8_000)) as api:
        answer = ask(api, model="o3", votes=1, effort="low")
    assert (answer.failed, answer.cut) == (False, 0)
    assert api.requests[-1].body["max_completion_tokens"] == 6_250


# What was found is kept


def test_what_was_found_is_taken_over_without_a_call():
    with Api(LUNA) as api:
        found = json.loads(json.dumps(judge(api).probe().found))
        before = len(api.requests)
        later = judge(api)
        later.learn(found)
        assert not next(later.judge([QUESTION], PROMPT)).failed
        assert len(api.requests) == before + 1


def begun(continues):
    """A server that goes on with a reply, or ignores that it was begun."""

    def reply(request):
        if len(request.body["messages"]) == 1 or "Count" not in request.body["messages"][0]["content"]:
            return OLDER(replace(request, body={**request.body, "max_tokens": 8}))
        token = " four" if continues else "One"
        top = [{"token": token, "logprob": -0.01}]
        choice = {"message": {"content": token}, "logprobs": {"content": [{**top[0], "top_logprobs": top}]}}
        return Reply({"choices": [choice], "usage": {"prompt_tokens": 30, "completion_tokens": 1}})

    return reply


def test_prefill_is_refused_where_the_server_does_not_go_on():
    with Api(begun(True)) as api:
        assert "goes on with" in judge(api, prefill=True).probe().sentence
    with Api(begun(False)) as api, pytest.raises(JudgeError, match="prefill"):
        judge(api, prefill=True).probe()


def test_a_survey_is_what_the_probe_finds_and_the_price():
    with Api(LUNA) as api:
        found, probe = judge(api, price="1,2").survey()
        voting, _ = judge(api, votes=5, effort="low").survey()
    told = dict(found)
    assert told["log-probabilities"] == "of 20 tokens"
    assert (told["effort"], told["temperature"], told["max_completion_tokens"]) == ("none", "0", "8")
    assert told["price"].startswith("$1 read, $2")
    assert (probe.calls, probe.tokens) == (1, 108)
    assert probe.cost == pytest.approx((100 * 1 + 8 * 2) / 1e6)
    assert dict(voting)["verdicts"] == "as structured output"
    assert dict(voting)["effort"] == "low"


# Prices


def test_cached_tokens_have_their_price():
    with Api(replace(LUNA, cached=80)) as api:
        answer = ask(api, price="1,10,0.1")
        plain = ask(api, price="1,10")
    assert (answer.tokens_in, answer.tokens_cached) == (100, 80)
    assert answer.cost == pytest.approx((20 * 1 + 80 * 0.1 + 8 * 10) / 1e6)
    assert plain.cost == pytest.approx((100 * 1 + 8 * 10) / 1e6)  # the upper bound, where no price for them is given


def test_tokens_written_to_the_cache_have_their_price():
    price = Price(1.0, 10.0, cached=0.1, stored=1.25)
    assert Usage(100, 0, cached=40, stored=50).cost(price) == pytest.approx((10 + 4 + 62.5) / 1e6)


@pytest.mark.parametrize(
    "told",
    [
        {"prompt_tokens": 5, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 6}},
        {"prompt_tokens": 5, "completion_tokens": 5, "prompt_tokens_details": None},
        {"prompt_tokens": 5, "completion_tokens": 5, "completion_tokens_details": {"reasoning_tokens": "3"}},
        {"prompt_tokens": 5, "completion_tokens": 5, "completion_tokens_details": [3]},
    ],
)
def test_details_that_cannot_be_are_not_counted(told):
    assert read_usage(told) == Usage(5, 5)


def test_the_table_has_a_date_and_todays_models():
    price = find_price("gpt-6-luna")
    assert price[:4] == (0.10, 0.50, 0.01, 0.125)
    assert date(2026, 10, 1) < date.fromisoformat(price.day) <= date(2026, 11, 16)
    assert re.search(rf"{price.day}.*\b21 days", price.source(date(2026, 11, 16)))
    assert find_price("claude-sonnet-5-5", provider="anthropic").written > 0


def test_the_table_is_that_of_the_package_it_names():
    from benchmarks.price_table import PLACE, table, written

    stored = json.loads(PLACE.read_text(encoding="utf-8"))
    assert written(table(date(2026, 11, 16))) == PLACE.read_text(encoding="utf-8"), stored["source"]


# A whole run


@pytest.fixture
def folder(tmp_path):
    rows = [{"id": f"item {k}", "text": f"Text number {k}."} for k in range(6)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def ranked(run, folder, api, model, *more):
    asked = ("--judge", f"openai/{model}", "--base-url", api.url, "-o", "retries=0", "--out", "run", "--budget", "4n")
    return run(
        folder, ("rank", "items.jsonl", "--criterion", "larger", *asked, *more), OPENAI_API_KEY="sk-test-0123456"
    )


@pytest.mark.long
def test_a_run_probes_once_says_and_stores_what_it_found_and_counts_its_cost(run, folder):
    with Api(replace(LUNA, cached=40)) as api:
        done = ranked(run, folder, api, "gpt-6-luna")
        assert done.returncode == 0, done.stderr
        made = len(api.requests)
        again = ranked(run, folder, api, "gpt-6-luna", "--budget", "5n")
        assert again.returncode == 0, again.stderr
        assert len(api.requests) == made + 6  # nothing is probed or refused again
        printed = ranked(run, folder, api, "gpt-6-luna", "--budget", "5n", "--format", "json")
        assert json.loads(printed.stdout)["calls"]["prices"]["openai/gpt-6-luna"]["day"] == "2026-10-26"
    assert re.search("gpt-6-luna: .*, effort none", done.stderr)
    assert "108 tokens, $0.000010" in done.stderr
    assert "a probe" not in again.stderr
    assert re.search("3,000 .*1,200 .*240 written", again.stderr)
    assert "prices of 2026-10-26" in again.stderr
    stored = json.loads((folder / "run" / "run.json").read_text())
    [probe] = stored["probes"]
    assert (probe["found"]["effort"], probe["found"]["max_tokens"]) == ("none", "max_completion_tokens")
    each = (60 * 0.10 + 40 * 0.01 + 8 * 0.50) / 1e6
    assert probe["cost"] == pytest.approx(each)
    assert stored["prices"]["openai/gpt-6-luna"]["day"] == "2026-10-26"
    assert f"{31 * each:.5f}" in again.stderr
    page = (folder / "run" / "report.html").read_text()
    assert "tokens, effort none" in page
    assert "prices of 2026-10-26" in page


@pytest.mark.long
def test_a_refused_setting_leaves_no_folder_so_the_remedy_works_in_its_place(run, folder):
    with Api(O3) as api:
        done = ranked(run, folder, api, "o3")
        assert (done.returncode, done.stdout) == (1, "")
        assert "votes=5" in done.stderr
        assert not (folder / "run").exists()
        done = ranked(run, folder, api, "o3", "-o", "votes=3", "-o", "effort=low")
    assert done.returncode == 0, done.stderr
    assert "22,176 written, 21,600" in done.stderr


def test_a_dry_run_says_how_old_prices_are_and_asks_nothing(run, folder):
    with Api(LUNA) as api:
        done = ranked(run, folder, api, "gpt-6-luna", "--dry-run", "-o", "votes=3", "-o", "effort=low")
        given = ranked(run, folder, api, "gpt-6-luna", "--dry-run", "--price", "1,2")
    assert api.requests == []
    allowed = (
        "at most 1,800,000 written (75,000 a call, reasoning included, as many as the settings allow), at most $0.90"
    )
    assert allowed in done.stdout
    assert "prices of 2026-10-26, " in done.stdout
    assert "prices:" not in given.stdout


@pytest.mark.long
def test_a_dry_run_counts_what_an_earlier_probe_saw_a_reply_write(run, folder):
    reasoning = ("-o", "votes=3", "-o", "effort=low")
    with Api(LUNA) as api:
        first = ranked(run, folder, api, "gpt-6-luna", "--dry-run", "--price", "1,10")
        assert "24 calls" in first.stdout
        assert re.search(r"192 written \(8 .*\$0\.00", first.stdout)
        assert not (folder / "comparo-runs").exists()  # no cache is made
        assert ranked(run, folder, api, "gpt-6-luna", *reasoning).returncode == 0
        made = len(api.requests)
        saw = "about 22,176 written (924 a call, reasoning included, as a probe by a few words saw), about $0.01"
        for more in ((), ("--out", "other"), ("--cache", "off")):  # from the cache and the folder, each of them alone
            told = ranked(run, folder, api, "gpt-6-luna", "--dry-run", *reasoning, *more)
            assert saw in told.stdout
        several = ("--criterion", "size=larger", "--criterion", "length=longer", "--out", "more")
        items, asked = (
            ("rank", "items.jsonl"),
            ("--judge", "openai/gpt-6-luna", "--base-url", api.url, "--budget", "4n"),
        )
        each = run(folder, (*items, *several, *asked, "--dry-run", *reasoning), OPENAI_API_KEY="sk-test-0123456")
        assert re.search(r"\(1,023 a .*probe", each.stdout)
        assert len(api.requests) == made


def test_the_command_that_only_probes(run, folder):
    with Api(LUNA) as api:
        probe = ("judge", "--probe", "--judge", "openai/gpt-6-luna", "--base-url", api.url)
        done = run(folder, probe, OPENAI_API_KEY="sk-test-0123456")
    assert done.returncode == 0, done.stderr
    lines = dict(line.split("  ", 1) for line in done.stdout.splitlines()[1:])
    assert lines["log-probabilities"].strip() == "of 20 tokens"
    assert lines["effort"].strip() == "none"
    assert "prices of 2026-10-26, " in lines["price"]
    other = run(folder, ("judge", "--probe", "--judge", "simulated/soft"))
    assert (other.returncode, "a server" in other.stderr) == (2, True)
