"""The API judge against real servers: one that behaves as told, and llama.cpp's."""

import itertools
import json
import logging
import math
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from comparo import JudgeError, Prompt, Question, load_judge
from comparo.judges.openai import load
from inside import Price, criterion_prompt
from servers import Api, Reply, choices, error_of, llama_server, pairs, refusal, tokens, words

KEY = "sk-test-0123456789abcdefghijklmnopqrstuvwxyz"
PROMPT = criterion_prompt("clearer", kind="Summary")
SURE = tokens({"Summary": 0.9, "The": 0.1}, {" A": 0.5, " B": 0.2, "A": 0.1, " The": 0.05})
AGAIN = {"Retry-After": "0.01"}


@pytest.fixture(autouse=True)
def _environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)


def ask(api, count=1, prompt=PROMPT, **options):
    options = {"retries": 0, "timeout": 10.0} | options
    return list(load("tiny", base_url=api.url, **options).judge(iter(pairs(count)), prompt))


def failure(api, **options):
    return error_of(ask(api, **options))


def judging():
    """The threads of judges that are at work."""
    return [thread for thread in threading.enumerate() if thread.name == "openai/tiny"]


# Log-probabilities


def test_p_is_read_where_the_reply_names_a_label():
    with Api(SURE) as api:
        [judgement] = ask(api, price=(1.0, 10.0))
    assert judgement.p == pytest.approx(0.6 / 0.8)
    assert judgement.mass == pytest.approx(0.8)
    assert judgement.weight == 1
    assert judgement.reply == "Summary A"
    assert (judgement.tokens_in, judgement.tokens_out, judgement.cut) == (100, 2, 0)
    assert judgement.cost == pytest.approx(120e-6)
    assert judgement.seconds > 0
    [request] = api.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert "x-stainless-os" not in request.headers
    assert request.body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": f"{PROMPT.text(pairs(1)[0])}\n\n{PROMPT.instruction}"}],
        "max_tokens": 8,
        "temperature": 0.0,
        "logprobs": True,
        "top_logprobs": 20,
    }


def test_a_sampled_token_that_the_server_left_out_of_its_list_counts():
    reply = tokens({"A": 0.6})
    reply.body["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = [{"token": "B", "logprob": math.log(0.3)}]
    with Api(reply) as api:
        [judgement] = ask(api)
    assert judgement.p == pytest.approx(0.6 / 0.9)


def test_two_tokens_that_are_written_alike_both_count():
    reply = tokens({"A": 0.4, "B": 0.2})
    reply.body["choices"][0]["logprobs"]["content"][0]["top_logprobs"].append({"token": "A", "logprob": math.log(0.2)})
    with Api(reply) as api:
        [judgement] = ask(api)
    assert judgement.p == pytest.approx(0.6 / 0.8)


def test_an_article_is_no_label():
    with Api(tokens({"Well": 1.0, "B": 1e-9}, {" a": 0.9, " b": 0.1}, {" B": 0.8, " A": 0.1})) as api:
        [judgement] = ask(api)
    assert judgement.p == pytest.approx(0.1 / 0.9)


def test_a_begun_reply_is_read_at_its_next_token():
    with Api(tokens({" The": 0.6, " A": 0.3, " B": 0.1})) as api:
        [judgement] = ask(api, prefill=True)
    assert judgement.p == pytest.approx(0.75)
    assert judgement.mass == pytest.approx(0.4)
    [request] = api.requests
    assert request.body["messages"][1] == {"role": "assistant", "content": "Summary"}
    assert PROMPT.instruction not in request.body["messages"][0]["content"]
    assert request.body["max_tokens"] == 1
    assert request.body["continue_final_message"] is True
    assert request.body["add_generation_prompt"] is False


def test_a_server_that_cannot_go_on_with_a_reply_says_so_once():
    with (
        Api(refusal(400, "Unrecognized request argument supplied: add_generation_prompt")) as api,
        pytest.raises(JudgeError, match="drop prefill"),
    ):
        ask(api, prefill=True)
    assert len(api.requests) == 1


def test_fewer_log_probabilities_are_asked_for_where_twenty_are_too_many():
    with Api(refusal(400, "Cannot request more than 5 top_logprobs."), tokens({"A": 0.6, "B": 0.2})) as api:
        judgements = ask(api, 3)
    assert [judgement.p for judgement in judgements] == pytest.approx([0.75] * 3)
    assert [request.body["top_logprobs"] for request in api.requests] == [20, 5, 5, 5]


def test_a_reply_without_a_label_fails_and_says_what_it_was():
    with Api(tokens({"I": 1.0}, {" cannot": 0.9, "A": 0.05, "B": 0.05})) as api:
        assert re.search("'I cannot' .*A or B$", failure(api))


def test_labels_outside_the_likeliest_tokens_fail():
    with Api(tokens({" The": 0.9, " It": 0.1})) as api:
        assert re.search("'The' .*A or B$", failure(api, prefill=True))


def odd_token(**entry):
    reply = tokens({"A": 0.6, "B": 0.4})
    reply.body["choices"][0]["logprobs"]["content"][0]["top_logprobs"][1] |= entry
    return reply.body


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html><body>Bad gateway</body></html>", "not JSON: '<html><body>Bad gateway"),
        (b'{"choices": [{"mess', "not JSON"),
        (b"", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"\xff\xfe\x00", "not JSON"),
        (b"null", "no reply in it: 'null'"),
        (b"[]", "no reply in it"),
        ({"error": {"message": "overloaded"}}, "no reply in it.*overloaded"),
        ({"choices": None}, "no reply in it"),
        ({"choices": []}, "no reply in it"),
        ({"choices": [None]}, "no reply in it"),
        ({"choices": [{}]}, "the reply '' does not name"),
        ({"choices": [{"message": None}], "usage": None}, "the reply '' does not name"),
        ({"choices": [{"message": {"content": None}}], "usage": {"prompt_tokens": "x"}}, "the reply '' does not name"),
        ({"choices": [{"message": {"content": "A"}, "logprobs": {"content": [7]}}]}, "not in the form of the API"),
        (odd_token(logprob=5.0), "no log-probabilities, of the reply 'A'"),
        (odd_token(logprob=-(10**400)), "not in the form of the API"),
        (odd_token(logprob=[1]), "not in the form of the API"),
    ],
)
def test_garbage_is_a_failed_judgement(body, reason):
    with Api(SURE, Reply(body)) as api:
        good, bad = ask(api, 2, concurrency=1)
    assert not good.failed
    assert bad.failed
    assert math.isnan(bad.p)
    with pytest.raises(AssertionError, match=reason):
        raise AssertionError(bad.error)


# Servers without log-probabilities


@pytest.mark.parametrize(
    "reply",
    [
        words("A"),
        Reply(choices({"message": {"content": "A"}})),
        Reply(choices({"message": {"content": "A"}, "logprobs": {"content": []}})),
        Reply(choices({"message": {"content": "A"}, "logprobs": {"content": [{"token": "A", "logprob": -0.1}]}})),
        refusal(400, "This model does not support logprobs."),
        refusal(403, "You are not allowed to request logprobs from this model."),
        refusal(422, "top_logprobs: extra fields not permitted"),
    ],
)
def test_a_server_without_log_probabilities_is_noticed_on_the_first_call(reply):
    with Api(reply) as api, pytest.raises(JudgeError, match=r"no log-probabilities; .*votes=5"):
        ask(api, 50)
    assert len(api.requests) == (1 if reply.status == 200 else 2)  # a refusal may be of reasoning


def test_one_answer_without_log_probabilities_is_no_reason_to_end():
    with Api(SURE, words("A"), SURE) as api:
        judgements = ask(api, 3, concurrency=1)
    assert [judgement.failed for judgement in judgements] == [False, True, False]
    assert "no log-probabilities" in judgements[1].error


# When the server fails


@pytest.mark.parametrize(
    "trouble",
    [
        refusal(429, "slow down", headers=AGAIN),
        refusal(500, "oops", headers=AGAIN),
        refusal(503, "oops", headers=AGAIN),
        Reply(SURE.body, cut=True),
        Reply(SURE.body, after=30.0),
    ],
)
def test_passing_trouble_is_retried(trouble):
    with Api(SURE, trouble, SURE) as api:
        judgements = ask(api, 2, concurrency=1, retries=1, timeout=1.0 if trouble.after else 10.0)
    assert not any(judgement.failed for judgement in judgements)
    assert len(api.requests) == 3


@pytest.mark.long
def test_the_wait_is_as_long_as_the_server_says():
    with Api(refusal(429, "slow down", headers={"Retry-After": "1.5"}), SURE) as api:
        [judgement] = ask(api, retries=1)
    assert not judgement.failed
    assert judgement.seconds > 1.5  # without a word of the server's, it is half a second at most


@pytest.mark.parametrize(
    ("trouble", "reason"),
    [
        (refusal(429, "slow down", headers=AGAIN), "(429): 'slow down'"),
        (Reply(b"<h1>Oops</h1>", status=502, headers=AGAIN), "(502): '<h1>Oops</h1>'"),
        (Reply(SURE.body, cut=True), "2 tries of 1 s each (RemoteProtocolError)"),
        pytest.param(Reply(SURE.body, after=30.0), "2 tries of 1 s each (TimeoutError)", marks=pytest.mark.long),
        (refusal(400, "content filter"), "(400): 'content filter'"),
    ],
)
def test_lasting_trouble_fails_one_judgement_and_not_the_others(trouble, reason):
    def reply(request):
        return trouble if "purr 1." in request.body["messages"][0]["content"] else SURE

    with Api(reply) as api:
        judgements = {judgement.question.first: judgement for judgement in ask(api, 3, retries=1, timeout=1.0)}
    assert [judgements[name].failed for name in ("a0", "a1", "a2")] == [False, True, False]
    assert reason in judgements["a1"].error


@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "set OPENAI_API_KEY"), (403, "'tiny'.*OPENAI_API_KEY"), (404, "no model 'tiny'.*base_url")],
)
def test_a_wrong_key_or_model_ends_it_at_once(status, words):
    with Api(refusal(status, f"Incorrect API key {KEY}")) as api, pytest.raises(JudgeError, match=words) as caught:
        ask(api, 50, retries=5)
    assert len(api.requests) == 1
    assert KEY not in repr(caught.value)
    assert KEY not in repr(caught.value.__cause__)
    assert KEY not in repr(caught.value.__context__)
    assert api.url in str(caught.value)


def test_openai_itself_needs_a_key_before_anything_is_asked(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    questions = iter(pairs(3))
    with pytest.raises(JudgeError, match="set OPENAI_API_KEY"):
        next(load("gpt-6-luna").judge(questions, PROMPT))
    assert len(list(questions)) == 3


def test_a_server_of_ones_own_needs_no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with Api(SURE) as api:
        monkeypatch.setenv("OPENAI_BASE_URL", api.url)
        [judgement] = load("tiny").judge(pairs(1), PROMPT)
    assert not judgement.failed


def test_a_server_that_goes_away_fails_judgements_only():
    with Api(SURE) as api:
        answers = load("tiny", base_url=api.url, concurrency=1, retries=0).judge(iter(pairs(2)), PROMPT)
        assert not next(answers).failed
    [last] = answers
    assert last.failed


# What servers take


def picky(request):
    """A newer model of OpenAI's: it rejects what older ones take."""
    if "max_tokens" in request.body:
        return refusal(400, "Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
    if "temperature" in request.body:
        return refusal(400, "Unsupported value: 'temperature' does not support 0 with this model.")
    return SURE


def test_what_a_model_does_not_take_is_left_out_from_then_on(caplog):
    caplog.set_level(logging.INFO, logger="comparo")
    with Api(picky) as api:
        judge = load("tiny", base_url=api.url)
        for _ in range(2):
            assert not any(judgement.failed for judgement in judge.judge(pairs(10), PROMPT))
    assert len(api.requests) == 22
    assert api.requests[-1].body["max_completion_tokens"] == 8
    assert len(caplog.records) == 2


def window_of(limit, words):
    """A server whose window holds so many characters."""

    def reply(request):
        size = len(request.body["messages"][0]["content"])
        return refusal(400, words.format(limit=limit, size=size)) if size > limit else SURE

    return reply


@pytest.mark.parametrize(
    "words",
    [
        "This model's maximum context length is {limit} tokens. However, your messages resulted in {size} tokens.",
        "request ({size} tokens) exceeds the available context size ({limit} tokens), try increasing it",
        "The prompt is too long.",
    ],
)
def test_a_prompt_too_long_is_cut_and_asked_again(words):
    prompt = criterion_prompt("clearer", context="Article")
    question = Question(1, 2, 0, "Cats purr.", "Dogs bark.", "So it goes. " * 1000)
    with Api(window_of(2000, words)) as api:
        [judgement] = load("tiny", base_url=api.url).judge([question], prompt)
    assert not judgement.failed
    sent = api.requests[-1].body["messages"][0]["content"]
    assert 500 < len(sent) <= 2000
    kept = sent.removeprefix("Article: ").partition("…")[0]
    assert judgement.cut == pytest.approx(12_000 - len(kept), abs=1)  # a space before the cut is dropped
    assert "Cats purr." in sent
    assert 2 <= len(api.requests) <= 7


def test_a_prompt_that_never_fits_fails():
    with Api(refusal(400, "maximum context length is 10 tokens, you sent 20 tokens")) as api:
        assert "hold the question itself" in failure(api)
    assert len(api.requests) <= 8


def test_a_window_is_kept_beforehand():
    prompt = criterion_prompt("clearer", context="Article")
    question = Question(1, 2, 0, "Cats purr.", "Dogs bark.", "漢字" * 1000)
    with Api(SURE) as api:
        [judgement] = load("tiny", base_url=api.url, window=400).judge([question], prompt)
    [request] = api.requests
    assert judgement.cut > 1500
    assert len(request.body["messages"][0]["content"].encode()) < 400 * 3


def test_a_broken_character_is_sent_as_a_question_mark():
    with Api(SURE) as api:
        [judgement] = load("tiny", base_url=api.url).judge([Question(1, 2, None, "Hi \ud800!", "No.")], PROMPT)
    assert not judgement.failed
    assert "Hi ?!" in api.requests[0].body["messages"][0]["content"]


# Many at once


def test_as_many_calls_at_once_as_allowed_and_the_first_one_alone():
    beside, many = [], threading.Event()

    def first(_):
        time.sleep(0.1)
        beside.append(api.open)
        return SURE

    def later(_):
        if api.open == 8:
            many.set()
        many.wait(20)
        return SURE

    with Api(first, later) as api:
        judgements = ask(api, 60, concurrency=8, timeout=60.0)
    assert sorted(judgement.question.first for judgement in judgements) == sorted(pair.first for pair in pairs(60))
    assert not any(judgement.failed for judgement in judgements)
    assert beside == [1]
    assert api.most == 8


def test_questions_are_taken_as_there_is_room():
    taken = 0

    def endless():
        nonlocal taken
        for question in itertools.cycle(pairs(10)):
            taken += 1
            yield question

    with Api(SURE) as api:
        judge = load("tiny", base_url=api.url, concurrency=3)
        answers = judge.judge(endless(), PROMPT)
        for given in range(1, 40):
            next(answers)
            assert taken - given < judge.ahead == 6
        answers.close()


def test_answers_are_handed_over_before_more_questions_are_taken():
    answered, known = [], []

    def choose():
        for number, question in enumerate(pairs(16)):
            while len(api.requests) < number or api.open:
                time.sleep(0.01)
            time.sleep(0.05)  # what the server answered has come
            known.append(len(answered))
            yield question

    with Api(SURE) as api:
        answers = load("tiny", base_url=api.url, concurrency=8).judge(choose(), PROMPT)
        while (judgement := next(answers, None)) is not None:
            answered.append(judgement)
    assert len(answered) == 16
    assert known[-1] >= 12


def test_what_the_questions_raise_comes_out():
    def broken():
        yield pairs(1)[0]
        raise ZeroDivisionError

    with Api(SURE) as api, pytest.raises(ZeroDivisionError):
        list(load("tiny", base_url=api.url).judge(broken(), PROMPT))
    assert not judging()


def test_leaving_ends_every_call_and_thread():
    with Api(SURE, SURE, Reply(SURE.body, after=60.0)) as api:
        answers = load("tiny", base_url=api.url, concurrency=4).judge(itertools.cycle(pairs(5)), PROMPT)
        assert not next(answers).failed
        assert not next(answers).failed
        while api.open < 4:
            time.sleep(0.01)
        assert judging()
        answers.close()
        assert not judging()
        assert len(api.requests) == 6


def test_an_interrupt_ends_the_process():
    code = (
        "import sys; from comparo.judges import load_judge; from comparo.data.prompts import *;"
        "list(load_judge('openai/tiny', base_url=sys.argv[1]).judge([Question(1, 2)] * 9, criterion_prompt('better')))"
    )
    with (
        Api(Reply(SURE.body, after=60.0)) as api,
        subprocess.Popen([sys.executable, "-c", code, api.url], stderr=subprocess.PIPE, text=True) as process,
    ):
        while not api.open:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode in (1, -signal.SIGINT, 130)
    assert errors.rstrip().endswith("KeyboardInterrupt")


# The key


def test_the_key_is_nowhere_to_be_read(caplog):
    caplog.set_level(logging.DEBUG)
    script = [
        tokens({f"{KEY} A": 1.0}, {"A": 0.7, "B": 0.3}),
        tokens({KEY: 1.0}),
        refusal(400, f"you sent {KEY}"),
        Reply(b"x" * 180 + KEY.encode(), status=500),
        Reply(KEY.encode()),
        Reply({"choices": KEY}),
        words(KEY),
    ]
    with Api(*script) as api:
        judge = load("tiny", base_url=api.url, concurrency=1, retries=0)
        judgements = list(judge.judge(pairs(len(script)), PROMPT))
    assert [judgement.failed for judgement in judgements] == [False, *[True] * 6]
    for kept in (*map(repr, judgements), repr(judge), json.dumps(judge.settings), caplog.text):
        assert KEY not in kept
        assert KEY[:20] not in kept
    assert all(request.headers["authorization"].endswith(KEY) for request in api.requests)


def test_a_password_in_the_address_is_sent_and_not_told(caplog):
    caplog.set_level(logging.DEBUG)
    with Api(SURE, refusal(400, "user:pass word dXNlcjpwYXNzIHdvcmQ=")) as api:
        url = api.url.replace("http://", "http://user:pass%20word@")
        judge = load("tiny", base_url=url, concurrency=1)
        judgements = list(judge.judge(pairs(2), PROMPT))
    assert api.requests[0].headers["authorization"] == "Basic dXNlcjpwYXNzIHdvcmQ="
    assert judge.settings["base_url"] == api.url
    for kept in (*map(repr, judgements), repr(judge), json.dumps(judge.settings), caplog.text):
        assert "pass word" not in kept
        assert "user:pass" not in kept
        assert "dXNlcjpwYXNzIHdvcmQ" not in kept


# Votes and grades


def test_votes_become_a_soft_probability():
    with Api(words("Summary A", "**B**", "A is better than B.", "I cannot say.", "A")) as api:
        [judgement] = ask(api, votes=5, price="1,10")
    assert judgement.p == pytest.approx(3.5 / 5)
    assert judgement.weight == 4
    assert judgement.mass == pytest.approx(0.8)
    assert judgement.reply.splitlines()[1] == "**B**"
    assert judgement.cost == pytest.approx(120e-6)
    [request] = api.requests
    assert request.body["n"] == 5
    assert request.body["temperature"] == 1.0
    assert "logprobs" not in request.body
    enum = request.body["response_format"]["json_schema"]["schema"]["properties"]["better"]["enum"]
    assert enum == ["Summary A", "Summary B"]


def test_a_server_that_ignores_n_is_asked_again():
    with Api(words('{"better": "Summary A"}')) as api:
        judgements = ask(api, 2, votes=3, concurrency=1)
    assert {judgement.p for judgement in judgements} == {3.5 / 4}
    assert {judgement.tokens_in for judgement in judgements} == {300}
    assert [request.body.get("n", 1) for request in api.requests] == [3, 1, 1, 1, 1, 1]


def plain(request):
    """llama.cpp takes one choice at a time; this one takes no response_format either."""
    if "n" in request.body:
        return refusal(400, "Field 'n': Value must be between 1 <= value <= 1, but got 3")
    if "response_format" in request.body:
        return refusal(422, "response_format: extra fields not permitted")
    return words("B")


def test_a_server_that_refuses_n_and_response_format_is_asked_plainly(caplog):
    caplog.set_level(logging.INFO, logger="comparo")
    with Api(plain) as api:
        judgements = ask(api, 4, votes=3)
    assert {judgement.p for judgement in judgements} == {0.5 / 4}
    assert len(api.requests) == 2 + 4 * 3
    assert len(caplog.records) == 2
    assert caplog.records[0].levelno == logging.INFO


def test_a_server_that_ignores_response_format_is_asked_without():
    with Api(words("A")) as api:
        ask(api, 3, votes=1, concurrency=1)
    assert ["response_format" in request.body for request in api.requests] == [True, False, False]


def test_replies_without_a_verdict_fail():
    with Api(words("Hm.", None, "A or B?")) as api:
        assert failure(api, votes=3).endswith(" 'Hm. A or B?'")
    with Api(words("<think>Well", reason="length")) as api:
        assert "'<think>Well', cut at 25,000 tokens" in failure(api, votes=1)


# Options


@pytest.mark.parametrize(
    ("options", "allowed"),
    [
        ({"concurrency": 0}, "concurrency = 0 .*1 to 1000"),
        ({"concurrency": "8"}, "concurrency = '8' is not"),
        ({"concurrency": True}, "concurrency = True is not"),
        ({"votes": -1}, "votes = -1 .* 0 "),
        ({"votes": 2.5}, "votes = 2.5 is not"),
        ({"retries": -1}, "retries = -1"),
        ({"timeout": 0}, "timeout = 0 .*0.001"),
        ({"timeout": math.nan}, "timeout = nan"),
        ({"temperature": 3}, "temperature = 3 .*0 to 2"),
        ({"window": 0}, "window = 0"),
        ({"max_tokens": 0}, "max_tokens = 0"),
        ({"prefill": 1}, "prefill = 1 .*true, false"),
        ({"prefill": True, "votes": 3}, "prefill is for log-probabilities"),
        ({"price": "1"}, "price = '1' .*two numbers"),
        ({"price": (1, -2)}, "price = .*-2.*two numbers"),
        ({"base_url": "localhost:8000"}, "base_url .*address"),
        ({"base_url": "http://localhost:port/"}, "base_url .*address"),
        ({"key": "sk"}, "have no option 'key'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, allowed):
    with pytest.raises(ValueError, match=allowed):
        load_judge("openai/tiny", **options)


def test_a_model_must_be_named():
    with pytest.raises(ValueError, match="needs a model"):
        load_judge("openai/")


def test_settings_hold_what_changes_an_answer():
    plain = load("org/tiny", base_url="http://localhost:8000/v1/")
    assert plain.name == "openai/org/tiny"
    assert json.loads(json.dumps(plain.settings)) == {
        "model": "org/tiny",
        "base_url": "http://localhost:8000/v1",
        "votes": 0,
        "prefill": False,
        "window": None,
        "temperature": 0.0,
        "max_tokens": 8,
    }
    assert load("org/tiny").settings["base_url"] == "https://api.openai.com/v1"
    assert plain.settings == load("org/tiny", base_url="http://localhost:8000/v1", concurrency=2, timeout=1).settings


def test_prices_are_known_or_given():
    assert load("gpt-4o-mini-2024-07-18").price[:2] == (0.15, 0.60)
    assert load("gpt-4o-2024-05-13").price[:2] == (5.0, 15.0)
    assert load("gpt-6-luna", price=(1, 2)).price == Price(1.0, 2.0)
    assert load("gpt-4.5").price is None
    assert load("mistral-large-latest", base_url="https://api.mistral.ai/v1").price.written > 0
    with Api(SURE) as api:
        [judgement] = ask(api)
    assert math.isnan(judgement.cost)


# A real model


@pytest.fixture(scope="module")
def llama():
    with llama_server() as url:
        yield url


SHORT = criterion_prompt("better")
REAL = Question(1, 2, None, "The cat sat on the mat.", "Mat cat the on.")


@pytest.mark.long
def test_the_model_says_the_same_over_the_network_as_in_this_process():
    """Both are asked for the first time: what llama.cpp remembers of a question before moves p by some hundredths."""
    with llama_server() as url:
        [served] = load("smollm2", base_url=url, prefill=True).judge([REAL], SHORT)
    [local] = load_judge("local/smollm2", runtime="llama.cpp", window=512, threads=1).judge([REAL], SHORT)
    assert served.p == pytest.approx(local.p, abs=0.02)
    assert served.mass == pytest.approx(local.mass, abs=0.02)
    assert served.tokens_in == local.tokens_in


@pytest.mark.long
def test_a_real_model_votes(llama):
    [judgement] = load("smollm2", base_url=llama, votes=2, max_tokens=200).judge([REAL], SHORT)
    assert not judgement.failed
    assert judgement.weight == 2
    assert judgement.p in (0.5 / 3, 1.5 / 3, 2.5 / 3)
    assert judgement.reply.count('"better"') == 2


@pytest.mark.long
def test_a_real_prompt_too_long_is_cut():
    prompt = Prompt("Article: {context}\n\nText A: {first}\nText B: {second}\nWhich is better?", answer="Text")
    question = Question(1, 2, 0, "Cats purr.", "Dogs bark.", "So it goes. " * 80)
    with llama_server(window=256) as url:
        [judgement] = load("smollm2", base_url=url, prefill=True).judge([question], prompt)
    assert not judgement.failed
    assert judgement.cut > 0
    assert judgement.tokens_in <= 256
