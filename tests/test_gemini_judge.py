"""Gemini as a judge, against a server that answers as the API reference says."""

import time

import pytest

from comparo import JudgeError, load_judge
from comparo.judges import Writing
from comparo.judges.gemini import load
from gemini import gemini, likeliest, refused, replies, verdicts
from inside import criteria_prompt, criterion_prompt
from servers import Api, Reply, error_of, pairs, stopped_by

KEY = "AIza-test-0123456789abcdefghijklmnop"
PROMPT = criterion_prompt("clearer", kind="Summary")
SURE = likeliest({"Summary": 0.9, "The": 0.1}, {" A": 0.6, " B": 0.2, " The": 0.05})
NOW = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}
INVALID = "INVALID_ARGUMENT"


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("GEMINI_API_KEY", KEY)
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    monkeypatch.delenv("GOOGLE_GEMINI_BASE_URL", raising=False)


def judge(api, **options):
    return load("gemini-3.8-flash", base_url=api.url.removesuffix("/v1"), **({"retries": 0, "timeout": 20.0} | options))


def ask(api, count=1, **options):
    return list(judge(api, **options).judge(iter(pairs(count)), PROMPT))


def failure(api, **options):
    return error_of(ask(api, **options))


def refusal_of(api, **options):
    return stopped_by(KEY, lambda: ask(api, **options))


# Several criteria


def test_several_criteria_are_read_line_by_line_or_key_by_key():
    prompt = criteria_prompt({"wit": "funnier", "length": "longer"})
    lines = [{"wit": 1.0}, {":": 1.0}, {" A": 0.6, " B": 0.2}, {"\n": 1.0}, {"length": 1.0}, {":": 1.0}]
    with Api(gemini(likeliest(*lines, {" B": 0.5, " A": 0.5}))) as api:
        [call] = list(judge(api).judge(iter(pairs(1)), prompt))
    assert [one.p for one in call.each] == pytest.approx([0.75, 0.5])
    assert [one.question.voice for one in call.each] == ["wit", "length"]
    with Api(gemini(replies('{"wit": "Text B", "length": "Text A"}'))) as api:
        [call] = list(judge(api, votes=1).judge(iter(pairs(1)), prompt))
    assert [one.p for one in call.each] == [0.25, 0.75]
    schema = api.requests[0].body["generationConfig"]["responseJsonSchema"]
    assert schema["required"] == ["wit", "length"]


# Log-probabilities


def test_p_is_read_where_the_reply_names_a_label():
    with Api(gemini(SURE)) as api:
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


@pytest.mark.parametrize("text", ["Logprobs is not enabled for models/gemini-3.8-flash", "Logprobs is not supported"])
def test_a_model_without_log_probabilities_is_told_at_once(text):
    with Api(gemini(refused(400, INVALID, text))) as api:
        assert "gives no log-probabilities; use votes=5" in refusal_of(api)


def test_a_reply_without_log_probabilities_is_told_too():
    with Api(gemini(replies("Summary A"))) as api:
        assert "gives no log-probabilities" in refusal_of(api)


def test_log_probabilities_in_another_form_fail():
    broken = likeliest({"A": 0.9})
    broken.body["candidates"][0]["logprobsResult"]["topCandidates"] = [{"candidates": 7}]
    with Api(gemini(broken)) as api:
        assert "the log-probabilities are not in the form of the API" in failure(api)


def test_a_sampled_token_that_is_not_among_the_likeliest_counts():
    reply = likeliest({"A": 0.6, "B": 0.3})
    reply.body["candidates"][0]["logprobsResult"]["topCandidates"][0]["candidates"].pop(0)
    with Api(gemini(reply)) as api:
        [judgement] = ask(api)
    assert judgement.p == pytest.approx(2 / 3)


# Votes, grades and reasoning


def test_votes_come_from_one_call_in_structured_output():
    with Api(gemini(verdicts("Summary A", "Summary A", "Summary B"))) as api:
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
    with Api(gemini(one, verdicts("Summary A"), verdicts("Summary B"), verdicts("Summary A"))) as api:
        first, second = ask(api, count=2, votes=2, concurrency=1)
    assert (first.p, second.p) == (0.5, pytest.approx(2.5 / 3))
    assert ["candidateCount" in request.body["generationConfig"] for request in api.requests] == [True] + [False] * 4


def test_a_server_without_structured_output_is_asked_in_words():
    with Api(gemini(refused(400, INVALID, "JSON mode is not enabled for this model"), replies("Summary B"))) as api:
        [judgement] = ask(api, votes=1)
    assert judgement.p == 0.25
    assert "responseMimeType" not in api.requests[-1].body["generationConfig"]


def test_thoughts_are_paid_for_and_not_read():
    reply = verdicts("Summary B", thought="Summary A is short.", usage={"thoughtsTokenCount": 500})
    with Api(gemini(reply)) as api:
        [judgement] = ask(api, votes=1, effort="low", price=(1.0, 10.0))
    assert api.requests[0].body["generationConfig"]["thinkingConfig"] == {"thinkingLevel": "LOW"}
    assert judgement.p == 0.25
    assert judgement.reply == '{"better": "Summary B"}'
    assert (judgement.tokens_out, judgement.tokens_reasoning) == (508, 500)
    assert judgement.cost == pytest.approx(5180e-6)


def test_no_reasoning():
    with Api(gemini(verdicts("Summary A"))) as api:
        ask(api, votes=1, effort="none")
    none = api.requests[0].body["generationConfig"]
    assert (none["thinkingConfig"], none["maxOutputTokens"]) == ({"thinkingBudget": 0}, 64)


def test_tokens_from_the_cache_have_their_own_price():
    with Api(gemini(verdicts("Summary A", usage={"cachedContentTokenCount": 60}))) as api:
        [judgement] = ask(api, votes=1, price="1,10,0.1")
    assert judgement.tokens_cached == 60
    assert judgement.cost == pytest.approx(126e-6)
    assert load("gemini-2.5-flash").price[:3] == (0.3, 2.5, 0.03)


# What was withheld, and what cannot be read


def test_a_blocked_prompt_is_a_failed_judgement_with_its_reason():
    blocked = Reply(
        {"promptFeedback": {"blockReason": "PROHIBITED_CONTENT"}, "usageMetadata": {"promptTokenCount": 90}}
    )
    with Api(gemini(blocked)) as api:
        assert failure(api, votes=3) == "Gemini blocked the prompt (PROHIBITED_CONTENT)"
    assert len(api.requests) == 1


@pytest.mark.parametrize("options", [{}, {"votes": 1}])
@pytest.mark.parametrize("reason", ["SAFETY", "RECITATION"])
def test_a_withheld_reply_is_a_failed_judgement_with_its_reason(reason, options):
    with Api(gemini(replies("Summary A", reason=reason))) as api:
        assert failure(api, **options) == f"Gemini withheld its reply ({reason})"


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply({"candidates": []}), "the answer has no reply in it"),
        (Reply({"candidates": [7]}), "the answer has no reply in it"),
    ],
)
def test_what_cannot_be_read_fails(reply, said):
    with Api(gemini(reply)) as api:
        assert said in failure(api, votes=1)


# Errors of the server


def test_the_pause_that_a_refusal_asks_for_is_in_its_body():
    busy = refused(429, "RESOURCE_EXHAUSTED", "Quota.", NOW | {"retryDelay": "0.35s"})
    with Api(gemini(busy, SURE)) as api:
        start = time.monotonic()
        [judgement] = ask(api, retries=1)
    assert not judgement.failed
    assert time.monotonic() - start >= 0.35


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (
            refused(400, INVALID, "API key not valid.", {"reason": "API_KEY_INVALID"}),
            "refused the key (400); set GEMINI_API_KEY",
        ),
        (refused(401, "UNAUTHENTICATED", "No."), "refused the key (401); set GEMINI_API_KEY"),
        (refused(403, "PERMISSION_DENIED", "No."), "use 'gemini-3.8-flash' (403)"),
        (refused(404, "NOT_FOUND", "models/x is not found for API version v1beta"), "has no model 'gemini-3.8-flash'"),
        (refused(400, "FAILED_PRECONDITION", "Free tier is not available."), "check its billing"),
        (refused(429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."), "has no credit left"),
        (
            refused(429, "RESOURCE_EXHAUSTED", "Quota.", {"violations": [{"quotaId": "RequestsPerDayPerModel"}]}, NOW),
            "takes no more requests today",
        ),
    ],
)
def test_what_no_question_escapes_ends_the_run_at_once(reply, said):
    with Api(gemini(reply)) as api:
        assert said in refusal_of(api, retries=3)
    assert len(api.requests) == 1


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("Thinking level is not supported for this model.", {"effort": "low"}, "does not take this effort"),
        (
            "Budget 0 is invalid. This model only works in thinking mode.",
            {"effort": "none"},
            "does not take this effort",
        ),
        ("Request contains an invalid argument.", {"effort": "none"}, "does not take this effort"),
    ],
)
def test_an_option_that_the_model_does_not_take_is_named(text, options, said):
    with Api(gemini(refused(400, INVALID, text))) as api:
        assert said in refusal_of(api, votes=1, **options)


# Before the first question


def test_a_probe_asks_one_small_question():
    with Api(gemini(likeliest({"A": 0.9, "B": 0.1}))) as api:
        probe = judge(api).probe()
    path = "/v1beta/models/gemini-3.8-flash"
    paths = [(request.method, request.path) for request in api.requests]
    assert paths == [("POST", f"{path}:generateContent")]
    assert "log-probabilities of 20 tokens" in probe.sentence
    assert probe.found["gives_logprobs"] is True
    reasoning = judge(api, votes=2, effort="low")
    assert reasoning.writes(PROMPT) is None  # without a limit, nobody knows
    assert judge(api, votes=2, effort="low", max_tokens=500).writes(PROMPT) == Writing(1000, probed=False)
    reasoning.learn({"written": 300})
    assert reasoning.writes(PROMPT) == Writing(600, probed=True)


@pytest.mark.parametrize(
    ("status", "text", "options", "said"),
    [
        (400, "max_output_tokens must be at most 65536", {"max_tokens": 100_000}, "65536.*set another max_tokens"),
        (400, "Thinking is not supported by this model.", {"effort": "low", "votes": 1}, "this effort.* or drop it"),
        (404, "models/m is not supported for generateContent", {}, "has no model"),
    ],
)
def test_a_probe_refuses_what_the_model_lacks(status, text, options, said):
    with Api(gemini(refused(status, INVALID, text))) as api, pytest.raises(JudgeError, match=said):
        judge(api, **options).probe()


def test_the_other_variable_is_taken_too(monkeypatch):
    monkeypatch.delenv("GEMINI_API_KEY")
    monkeypatch.setenv("GOOGLE_API_KEY", "other-0123456789")
    with Api(gemini(SURE)) as api:
        ask(api)
    assert api.requests[0].headers["x-goog-api-key"] == "other-0123456789"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"votes": -1}, "votes = -1 .* 0 "),
        ({"effort": "xhigh"}, "effort = 'xhigh' .*none, minimal, low, medium, high"),
        ({"thinking": 2000}, "no option 'thinking'"),
        ({"temperature": 3.0}, "temperature = 3.0 .*0 to 2"),
    ],
)
def test_options_are_checked(options, said):
    with pytest.raises(ValueError, match=said):
        load_judge("gemini/gemini-3.8-flash", **options)
