"""Gemini as a judge, against a server that answers as the API reference says."""

import re
import time

import pytest

from comparo import JudgeError, load_judge
from comparo.judges import Writing
from gemini import likeliest, refused, replies, verdicts
from inside import criteria_prompt
from servers import KEY, PROMPT, Api, Hosted, Reply, pairs

pytestmark = pytest.mark.usefixtures("keys")

GEMINI = Hosted("gemini/gemini-3.8-flash", base="/v1")
ask, judge, failure, stopped = GEMINI.ask, GEMINI.load, GEMINI.failure, GEMINI.stopped

SURE = likeliest({"Summary": 0.9, "The": 0.1}, {" A": 0.6, " B": 0.2, " The": 0.05})
NOW = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}
INVALID = "INVALID_ARGUMENT"


# Several criteria


def test_several_criteria_are_read_line_by_line_or_key_by_key():
    prompt = criteria_prompt({"wit": "funnier", "length": "longer"})
    lines = [{"wit": 1.0}, {":": 1.0}, {" A": 0.6, " B": 0.2}, {"\n": 1.0}, {"length": 1.0}, {":": 1.0}]
    with Api(likeliest(*lines, {" B": 0.5, " A": 0.5})) as api:
        [call] = ask(api, prompt=prompt)
    assert [one.p for one in call.each] == pytest.approx([0.75, 0.5])
    assert [one.question.voice for one in call.each] == ["wit", "length"]
    with Api(replies('{"wit": "Text B", "length": "Text A"}')) as api:
        [call] = ask(api, prompt=prompt, votes=1)
    assert [one.p for one in call.each] == [0.25, 0.75]
    schema = api.requests[0].body["generationConfig"]["responseJsonSchema"]
    assert schema["required"] == ["wit", "length"]


# Log-probabilities


def test_p_is_read_where_the_reply_names_a_label():
    with Api(SURE) as api:
        [judgement] = ask(api, price=(1.0, 10.0))
    assert judgement.p == pytest.approx(0.75)
    assert judgement.mass == pytest.approx(0.8)
    assert judgement.weight == 1
    assert judgement.reply == "Summary A"
    assert (judgement.tokens_in, judgement.tokens_out) == (100, 8)
    assert judgement.cost == pytest.approx(180e-6)
    [request] = api.requests
    assert request.path == "/v1beta/models/gemini-3.8-flash:generateContent"
    assert request.headers["x-goog-api-key"] == KEY
    text = f"{PROMPT.text(pairs(1)[0])}\n\n{PROMPT.instruction}"
    assert request.body == {
        "contents": [{"parts": [{"text": text}], "role": "user"}],
        "generationConfig": {"temperature": 0.0, "responseLogprobs": True, "logprobs": 20},
    }


@pytest.mark.parametrize(
    "reply",
    [
        refused(400, INVALID, "Logprobs is not enabled for models/gemini-3.8-flash"),
        refused(400, INVALID, "Logprobs is not supported"),
        replies("Summary A"),
    ],
)
def test_a_model_without_log_probabilities_is_told_at_once(reply):
    with Api(reply) as api:
        assert re.search("no log-probabilities.*votes=5", stopped(api))


def test_log_probabilities_in_another_form_fail():
    broken = likeliest({"A": 0.9})
    broken.body["candidates"][0]["logprobsResult"]["topCandidates"] = [{"candidates": 7}]
    with Api(broken) as api:
        assert "the form" in failure(api)


# Votes, grades and reasoning


def test_votes_come_from_one_call_in_structured_output():
    with Api(verdicts("Summary A", "Summary A", "Summary B")) as api:
        [judgement] = ask(api, votes=3)
    assert (judgement.p, judgement.mass, judgement.weight) == (0.625, 1.0, 3.0)
    [request] = api.requests
    config = request.body["generationConfig"]
    assert config["candidateCount"] == 3
    assert config["responseMimeType"] == "application/json"
    assert config["responseJsonSchema"]["properties"] == {
        "better": {"type": "string", "enum": ["Summary A", "Summary B"]}
    }
    assert "temperature" not in config
    assert "maxOutputTokens" not in config


def test_a_model_that_gives_one_reply_only_is_called_for_each_vote():
    one = refused(400, INVALID, "Multiple candidates is not enabled for this model")
    with Api(one, verdicts("Summary A"), verdicts("Summary B"), verdicts("Summary A")) as api:
        first, second = ask(api, 2, votes=2, concurrency=1)
    assert (first.p, second.p) == (0.5, pytest.approx(2.5 / 3))
    assert ["candidateCount" in request.body["generationConfig"] for request in api.requests] == [True] + [False] * 4


def test_a_server_without_structured_output_is_asked_in_words():
    with Api(refused(400, INVALID, "JSON mode is not enabled for this model"), replies("Summary B")) as api:
        [judgement] = ask(api, votes=1)
    assert judgement.p == 0.25
    assert "responseMimeType" not in api.requests[-1].body["generationConfig"]


def test_no_reasoning_and_tokens_from_the_cache():
    with Api(verdicts("Summary A", usage={"cachedContentTokenCount": 60})) as api:
        [judgement] = ask(api, votes=1, effort="none", price="1,10,0.1")
    none = api.requests[0].body["generationConfig"]
    assert (none["thinkingConfig"], none["maxOutputTokens"]) == ({"thinkingBudget": 0}, 64)
    assert judgement.tokens_cached == 60
    assert judgement.cost == pytest.approx(126e-6)
    assert load_judge("gemini/gemini-2.5-flash").price[:3] == (0.3, 2.5, 0.03)


def test_thoughts_are_paid_for_and_not_read():
    reply = verdicts("Summary B", thought="Summary A is short.", usage={"thoughtsTokenCount": 500})
    with Api(reply) as api:
        [judgement] = ask(api, votes=1, effort="low", price=(1.0, 10.0))
    assert api.requests[0].body["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "LOW"}
    assert judgement.p == 0.25
    assert judgement.reply == '{"better": "Summary B"}'
    assert (judgement.tokens_out, judgement.tokens_reasoning) == (508, 500)
    assert judgement.cost == pytest.approx(5180e-6)


# What was withheld, and what cannot be read


def test_a_blocked_prompt_is_a_failed_judgement_with_its_reason():
    blocked = Reply(
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 90}}
    )
    with Api(blocked) as api:
        assert "prompt (PROHIBITED" in failure(api, votes=3)
    assert len(api.requests) == 1


@pytest.mark.parametrize("options", [{}, {"votes": 1}])
@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION"])
def test_a_withheld_reply_is_a_failed_judgement_with_its_reason(reason, options):
    with Api(replies("Summary A", reason=reason)) as api:
        assert f"its reply ({reason})" in failure(api, **options)


@pytest.mark.parametrize("candidates", [[], [7]])
def test_what_cannot_be_read_fails(candidates):
    with Api(Reply({"candidates": candidates})) as api:
        assert "no reply" in failure(api, votes=1)


# Errors of the server


def test_the_pause_that_a_refusal_asks_for_is_in_its_body():
    busy = refused(429, "RESOURCE_EXHAUSTED", "Quota.", NOW | {"retryDelay": "0.8s"})
    with Api(busy, SURE) as api:
        start = time.monotonic()
        [judgement] = ask(api, retries=1)
    assert not judgement.failed
    assert time.monotonic() - start >= 0.8  # without a word of the server's, it is half a second at most


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (refused(400, INVALID, "API key not valid.", {"reason": "API_KEY_INVALID"}), "GEMINI_API_KEY"),
        (refused(400, "FAILED_PRECONDITION", "Free tier is not available."), "billing"),
        (refused(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), "no credit left"),
        (refused(429, "RESOURCE_EXHAUSTED", "Quota.", {"violations": [{"quotaId": "RequestsPerDay"}]}, NOW), "today"),
    ],
)
def test_what_no_question_escapes_ends_the_run_at_once(reply, said):
    with Api(reply) as api:
        assert said in stopped(api, retries=3)
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("Thinking level is not supported for this model.", {"effort": "low"}),
        ("Budget 0 is invalid. This model only works in thinking mode.", {"effort": "none"}),
        ("Request contains an invalid argument.", {"effort": "none"}),
        ("max_output_tokens must be at most 65536", {"max_tokens": 100_000}),
    ],
)
def test_an_option_that_the_model_does_not_take_is_named(text, options):
    with Api(refused(400, INVALID, text)) as api:
        for ask_first in (judge(api, votes=1, **options).probe, lambda: ask(api, votes=1, **options)):
            with pytest.raises(JudgeError, match=f"this {next(iter(options))} .400.*{text[:20]}"):
                ask_first()


# Before the first question


def test_a_probe_asks_one_small_question():
    with Api(likeliest({"A": 0.9, "B": 0.1})) as api:
        probe = judge(api).probe()
    path = "/v1beta/models/gemini-3.8-flash"
    paths = [(request.method, request.path) for request in api.requests]
    assert paths == [("POST", f"{path}:generateContent")]
    assert "of 20 tokens" in probe.sentence
    assert probe.found["gives_logprobs"] is True
    reasoning = judge(api, votes=2, effort="low")
    assert reasoning.writes(PROMPT) is None  # without a limit, nobody knows
    assert judge(api, votes=2, effort="low", max_tokens=500).writes(PROMPT) == Writing(1000, probed=False)
    reasoning.learn({"written": 300})
    assert reasoning.writes(PROMPT) == Writing(600, probed=True)


def test_the_other_variable_is_taken_too(monkeypatch):
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.setenv("GOOGLE_API_KEY", "other-0123456789")
    with Api(SURE) as api:
        ask(api)
    assert api.requests[0].headers["x-goog-api-key"] == "other-0123456789"
