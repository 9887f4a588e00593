"""Claude as a judge, by Anthropic's own library, against a server that answers as the API reference says."""

import math
import sys

import pytest

from claude import MODEL, claude, message, prefers_larger, refused, verdict
from comparo.data.prompts import Question, criterion_prompt
from comparo.errors import JudgeError
from comparo.judges import load_judge
from comparo.judges.anthropic.judge import load
from comparo.studies.geval import ScorePrompt
from servers import Api, Reply, raw_server

KEY = "sk-ant-test-0123456789abcdefghijklmnop"
PROMPT = criterion_prompt("clearer", kind="Summary")
AGAIN = {"Retry-After": "0.01"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.delenv("ANTHROPIC_BASE_URL", raising=False)


def pairs(count):
    return [Question(f"a{k}", f"b{k}", None, f"Cats purr {k}.", f"Dogs bark {k}.") for k in range(count)]


def judge(api, **options):
    return load("claude-haiku-5-5", base_url=api.url, **({"retries": 0, "timeout": 20.0} | options))


def ask(api, count=1, prompt=PROMPT, **options):
    return list(judge(api, **options).judge(iter(pairs(count)), prompt))


def failure(api, **options):
    """Why the one question has no answer: a failed judgement is never a tie."""
    [judgement] = ask(api, **options)
    assert judgement.failed
    assert math.isnan(judgement.p)
    return judgement.error


def refusal_of(api, **options):
    with pytest.raises(JudgeError) as caught:
        ask(api, **options)
    assert KEY not in str(caught.value)
    return str(caught.value)


# What is sent and read


def test_a_verdict_in_structured_output():
    with Api(claude(verdict("Summary A"))) as api:
        [judgement] = ask(api, price=(1.0, 10.0))
    assert (judgement.p, judgement.mass, judgement.weight) == (0.75, 1.0, 1.0)
    assert judgement.reply == '{"better": "Summary A"}'
    assert (judgement.tokens_in, judgement.tokens_out, judgement.cut) == (100, 8, 0)
    assert judgement.cost == pytest.approx(180e-6)
    [request] = api.requests
    assert (request.method, request.path) == ("POST", "/v1/messages")
    assert KEY in request.headers["authorization"] + request.headers.get("x-api-key", "")
    schema = {
        "type": "object",
        "properties": {"better": {"type": "string", "enum": ["Summary A", "Summary B"]}},
        "required": ["better"],
        "additionalProperties": False,
    }
    assert request.body == {
        "model": "claude-haiku-5-5",
        "max_tokens": 16_000,
        "messages": [{"role": "user", "content": f"{PROMPT.text(pairs(1)[0])}\n\n{PROMPT.instruction}"}],
        "output_config": {"format": {"type": "json_schema", "schema": schema}},
    }


def test_votes_are_one_call_each_and_read_the_prompt_from_the_cache():
    stored = {"input_tokens": 0, "cache_creation_input_tokens": 100, "cache_read_input_tokens": 0}
    cached = {"input_tokens": 0, "cache_creation_input_tokens": 0, "cache_read_input_tokens": 100}
    script = [
        verdict("Summary A", usage=stored),
        verdict("Summary B", usage=cached),
        verdict("Summary A", usage=cached),
    ]
    with Api(claude(*script)) as api:
        [judgement] = ask(api, votes=3)
    assert (judgement.p, judgement.mass, judgement.weight) == (0.625, 1.0, 3.0)
    assert (judgement.tokens_in, judgement.tokens_out) == (300, 24)
    assert [request.body["cache_control"] for request in api.requests] == [{"type": "ephemeral"}] * 3


def test_grades():
    with Api(claude(verdict("B>>A"))) as api:
        [judgement] = ask(api, graded=True, votes=0)
    assert judgement.p == 0.05
    assert "A>>B" in api.requests[0].body["messages"][0]["content"]


def test_scores_on_a_scale():
    scale = ScorePrompt("{first} How clear is it, from 1 to 5?", answer="")
    with Api(claude(message('{"score": "4"}'))) as api:
        [judgement] = ask(api, prompt=scale)
    assert judgement.p == 0.75
    assert api.requests[0].body["output_config"]["format"]["schema"]["required"] == ["score"]


def test_reasoning_is_asked_for_by_effort_and_its_tokens_count():
    thinks = verdict(
        "Summary B",
        thought="Dogs bark.",
        usage={"output_tokens": 900, "output_tokens_details": {"thinking_tokens": 880}},
    )
    with Api(claude(thinks)) as api:
        [judgement] = ask(api, effort="high", price=(1.0, 10.0))
    body = api.requests[0].body
    assert (body["thinking"], body["output_config"]["effort"]) == ({"type": "adaptive"}, "high")
    assert body["max_tokens"] == 16_000
    assert judgement.p == 0.25
    assert judgement.reply == '{"better": "Summary B"}'
    assert judgement.tokens_out == 900
    assert judgement.cost == pytest.approx(9100e-6)


def test_reasoning_by_a_number_of_tokens_and_none():
    with Api(claude(verdict("Summary A"))) as api:
        ask(api, thinking=2048)
        ask(api, effort="none")
    budget, none = (request.body for request in api.requests)
    assert (budget["thinking"], budget["max_tokens"]) == ({"type": "enabled", "budget_tokens": 2048}, 2112)
    assert (none["thinking"], none["max_tokens"]) == ({"type": "disabled"}, 64)


def test_temperature_is_sent_only_if_given():
    with Api(claude(verdict("Summary A"))) as api:
        ask(api, temperature=0.5)
    assert api.requests[0].body["temperature"] == 0.5


def test_a_login_in_the_address_is_sent_in_place_of_the_key():
    with Api(claude(verdict("Summary A"))) as api:
        list(load("m", base_url=api.url.replace("//", "//ana:secret@")).judge(iter(pairs(1)), PROMPT))
    assert api.requests[0].headers["authorization"] == "Basic YW5hOnNlY3JldA=="


def test_the_first_question_goes_alone_then_as_many_as_allowed():
    with Api(claude(Reply(verdict("Summary A").body, after=0.1))) as api:
        answers = ask(api, count=9, concurrency=4)
        assert len(answers) == 9
        assert api.most == 4


# Refusals, and what cannot be read


def test_a_refusal_is_a_failed_judgement_with_its_reason():
    details = {"type": "refusal", "category": "bio", "explanation": "It asks for lab methods."}
    with Api(claude(message("", stop="refusal", body={"stop_details": details}))) as api:
        assert failure(api, votes=3) == "the model refused to answer (bio): It asks for lab methods."
    assert len(api.requests) == 1


def test_a_reply_that_ends_too_early_says_so():
    with Api(claude(message(None, stop="max_tokens", thought="Let me see"))) as api:
        assert "ends before its verdict; raise max_tokens" in failure(api)


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Reply(b"<html>"), "the answer is not JSON: '<html>'"),
        (Reply([1]), "the answer has no reply in it: '[1]'"),
        (Reply({"content": None}), "the answer has no reply in it"),
        (Reply({"content": [{"type": "text"}]}), "the answer has no reply in it"),
        (message("They are alike."), "no verdict in the reply 'They are alike.'"),
        (message(None), "no verdict in the reply ''"),
    ],
)
def test_what_cannot_be_read_fails(reply, said):
    with Api(claude(reply)) as api:
        assert said in failure(api)


def test_the_cost_is_unknown_where_tokens_are_not_told():
    with Api(claude(message('{"better": "Summary A"}', usage={"input_tokens": None}))) as api:
        [judgement] = ask(api, price=(1.0, 1.0))
    assert judgement.p == 0.75
    assert math.isnan(judgement.cost)


# Errors of the server


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_passing_trouble_is_tried_again_when_the_server_says(status):
    busy = refused(status, "overloaded_error", "Overloaded", headers=AGAIN)
    with Api(claude(busy, busy, verdict("Summary A"))) as api:
        [judgement] = ask(api, retries=2)
    assert judgement.p == 0.75
    assert len(api.requests) == 3


def test_trouble_that_does_not_pass_fails_one_judgement():
    with Api(claude(verdict("Summary A"), refused(529, "overloaded_error", "Overloaded", headers=AGAIN))) as api:
        first, second = ask(api, count=2, retries=1, concurrency=1)
    assert not first.failed
    assert "the server answered (529)" in second.error
    assert "Overloaded" in second.error


def test_a_slow_server_is_given_up():
    with Api(claude(Reply(verdict("Summary A").body, after=30))) as api:
        assert failure(api, timeout=0.2) == "no answer in 1 tries of 0.2 s each (TimeoutError)"


def test_a_connection_that_breaks_is_a_failure():
    with raw_server(lambda connection: connection.recv(10)) as url:
        [judgement] = load("m", base_url=url, retries=0, timeout=5.0).judge(iter(pairs(1)), PROMPT)
    assert judgement.error.startswith("no answer in 1 tries")


def test_no_server_at_all_ends_the_run():
    gone = load("m", base_url="http://127.0.0.1:9", retries=0, timeout=5.0)
    with pytest.raises(JudgeError, match=r"there is no server at http://127.0.0.1:9 \(ConnectError"):
        list(gone.judge(iter(pairs(1)), PROMPT))


@pytest.mark.parametrize(
    ("status", "kind", "text", "said"),
    [
        (401, "authentication_error", f"invalid x-api-key {KEY}", "refused the key (401); set ANTHROPIC_API_KEY"),
        (402, "billing_error", "Check your payment details.", "has no credit left for this key (402)"),
        (400, "invalid_request_error", "Your credit balance is too low to access the API.", "has no credit left"),
        (404, "not_found_error", "model: claude-haiku-5-5", "has no model 'claude-haiku-5-5' (404)"),
        (403, "permission_error", "Not for you.", "does not let this key use 'claude-haiku-5-5' (403)"),
    ],
)
def test_what_no_question_escapes_ends_the_run(status, kind, text, said):
    with Api(claude(refused(status, kind, text))) as api:
        assert said in refusal_of(api)


def test_a_spent_monthly_limit_ends_the_run():
    reply = refused(429, "rate_limit_error", "Limit.", details={"error_code": "enforced_spend_limit_reached"})
    with Api(claude(reply)) as api:
        assert "has no credit left" in refusal_of(api)


@pytest.mark.parametrize(
    ("text", "options", "said"),
    [
        ("This model does not support the effort parameter.", {"effort": "low"}, "does not take this effort"),
        ("adaptive thinking is not supported on this model", {"effort": "low"}, "does not take this effort"),
        ("thinking.budget_tokens is not supported", {"thinking": 2000}, "use effort=low, medium or high instead"),
        ("`temperature` is deprecated for this model.", {"temperature": 0.5}, "does not take this temperature"),
        ("max_tokens: 99999999 > 64000", {"max_tokens": 99999999}, "set another max_tokens"),
    ],
)
def test_an_option_that_the_model_does_not_take_is_named(text, options, said):
    with Api(claude(refused(400, "invalid_request_error", text))) as api:
        assert said in refusal_of(api, **options)


def test_a_question_that_speaks_of_temperature_is_not_mistaken():
    texts = Question("a", "b", None, "The temperature is deprecated here, in this long sentence.", "It is warm.")
    reply = refused(400, "invalid_request_error", "Blocked: The temperature is deprecated here, in this long sentence.")
    with Api(claude(reply)) as api:
        [judgement] = judge(api, temperature=0.5).judge(iter([texts]), PROMPT)
    assert "the server answered (400)" in judgement.error


def test_a_server_without_structured_output_is_asked_in_words():
    no = refused(400, "invalid_request_error", "output_config.format: Extra inputs are not permitted")
    with Api(claude(no, message("Summary B"))) as api:
        answers = ask(api, count=2, concurrency=1)
    assert [judgement.p for judgement in answers] == [0.25, 0.25]
    assert ["output_config" in request.body for request in api.requests] == [True, False, False]


def test_a_prompt_that_is_too_long_is_cut_and_sent_again():
    long = refused(400, "invalid_request_error", "prompt is too long: 300000 tokens > 200000 maximum")
    question = Question("a", "b", None, "one " * 500, "two " * 500)
    with Api(claude(long, verdict("Summary A"))) as api:
        [judgement] = judge(api).judge(iter([question]), PROMPT)
    assert judgement.p == 0.75
    assert judgement.cut > 0
    before, after = (len(request.body["messages"][0]["content"]) for request in api.requests)
    assert after < before


def test_nothing_is_sent_to_where_a_redirect_points():
    with Api(claude(verdict("Summary A"))) as other, Api(Reply(status=307, headers={"Location": other.url})) as api:
        assert "where nothing was sent" in refusal_of(api)
    assert other.requests == []


# Before the first question


def test_ready_asks_the_list_of_models_and_spends_nothing():
    with Api(claude(verdict("Summary A"))) as api:
        judge(api, effort="low").ready()
    assert [(request.method, request.path) for request in api.requests] == [("GET", "/v1/models/claude-haiku-5-5")]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"effort": "max"}, "has no effort=max; use effort=low, medium, high or xhigh"),
        ({"thinking": 2000}, "drop thinking and use effort=low, medium, high or xhigh"),
        ({"max_tokens": 100_000}, "writes 64000 tokens at most, not 100000; lower max_tokens"),
    ],
)
def test_ready_refuses_settings_that_the_model_lacks(options, said):
    with Api(claude(verdict("Summary A"))) as api, pytest.raises(JudgeError, match=said):
        judge(api, **options).ready()


def able(**types):
    abilities = MODEL["capabilities"] | {"effort": {"supported": False}}
    abilities["thinking"] = {"supported": True, "types": {name: {"supported": yes} for name, yes in types.items()}}
    return Reply(MODEL | {"capabilities": abilities})


@pytest.mark.parametrize(
    ("about", "options", "said"),
    [
        (able(adaptive=False, disabled=True, enabled=True), {"effort": "low"}, "use thinking=TOKENS, effort=none"),
        (able(adaptive=True, disabled=False, enabled=False), {"effort": "none"}, "always reasons; drop effort"),
        (Reply(MODEL | {"lifecycle": "retired"}), {}, "is retired"),
        (refused(401, "authentication_error", "invalid"), {}, "refused the key .401.; set ANTHROPIC_API_KEY"),
    ],
)
def test_ready_refuses_what_the_list_says(about, options, said):
    with Api(claude(verdict("Summary A"), about=about)) as api, pytest.raises(JudgeError, match=said):
        judge(api, **options).ready()


@pytest.mark.parametrize("about", [Reply(b"no", status=404), Reply(b"<html>"), Reply(b"", status=503), Reply([])])
def test_a_server_without_a_list_of_models_is_asked_all_the_same(about):
    with Api(claude(verdict("Summary A"), about=about)) as api:
        asked = judge(api, effort="max")
        asked.ready()
        [judgement] = asked.judge(iter(pairs(1)), PROMPT)
    assert judgement.p == 0.75


def test_a_model_without_structured_output_is_asked_in_words_from_the_start():
    about = Reply(MODEL | {"capabilities": {"structured_outputs": {"supported": False}}})
    with Api(claude(message("Summary A"), about=about)) as api:
        asked = judge(api)
        asked.ready()
        [judgement] = asked.judge(iter(pairs(1)), PROMPT)
    assert judgement.p == 0.75
    assert "output_config" not in api.requests[-1].body


def test_a_missing_key_is_named_by_its_variable(monkeypatch):
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    with pytest.raises(JudgeError, match="needs a key; set ANTHROPIC_API_KEY, or base_url"):
        load("claude-haiku-5-5").ready()


def test_a_missing_library_is_answered_by_the_command_that_brings_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ImportError, match=r"pip install 'comparo\[anthropic\]'"):
        load("claude-haiku-5-5").ready()


# Options


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"votes": 0}, "which Claude does not give"),
        ({"votes": -1}, "votes = -1 is not a whole number from 0 up"),
        ({"effort": "minimal"}, "effort = 'minimal' is not one of none, low, medium, high, xhigh, max"),
        ({"effort": "low", "thinking": 2000}, "drop one of them"),
        ({"thinking": 100}, "thinking = 100 is less than 1024"),
        ({"graded": 1}, "graded = 1 is not one of true, false"),
        ({"base_url": "example.org"}, "base_url is not the address of an API"),
    ],
)
def test_options_are_checked(options, said):
    with pytest.raises(ValueError, match=said):
        load_judge("anthropic/claude-haiku-5-5", **options)


def test_secrets_are_not_among_the_settings():
    found = load("m", base_url="http://ana:secret@localhost/v1")
    assert found.base_url == "http://localhost"
    assert "secret" not in repr(found) + str(found.settings)


# For batches


def test_requests_and_messages_of_a_batch():
    question = pairs(1)[0]
    claude_judge = load("claude-haiku-5-5", votes=2, temperature=0.5, price=(1.0, 1.0))
    sent = claude_judge.params(question, PROMPT)
    assert sent["temperature"] == 0.5
    assert "cache_control" not in sent
    bodies = [verdict("Summary A").body, verdict("Summary A").body]
    judgement = claude_judge.judgement(question, PROMPT, bodies)
    assert judgement.p == pytest.approx(2.5 / 3)
    assert judgement.cost == pytest.approx(216e-6)
    assert claude_judge.judgement(question, PROMPT, [{"content": 1}]).error.startswith("the answer has no reply")


# The command


def test_the_command_ranks(tmp_path, run):
    items = tmp_path / "items.csv"
    items.write_text("id,text\n" + "".join(f"t{k},This is number {k}.\n" for k in range(8)))
    with Api(claude(prefers_larger)) as api:
        flags = ["--criterion", "larger", "--judge", "anthropic/claude-haiku-5-5", "--base-url", api.url]
        flags += ["--option", "effort=low", "--price", "1,5", "--budget", "40", "--out", "run"]
        done = run(tmp_path, ["rank", items, *flags])
    assert done.returncode == 0, done.stderr
    assert "t7" in done.stdout
    assert api.requests[0].method == "GET"
    assert len(api.requests) == 41
