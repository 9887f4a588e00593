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

from comparo import Prompt, Question, load_judge
from inside import Price, criterion_prompt
from servers import KEY, PROMPT, Api, Hosted, Reply, choices, llama_server, pairs, refusal, tokens, words

pytestmark = pytest.mark.usefixtures("keys")

OPENAI = Hosted("openai/tiny")
ask, load, failure, stopped = OPENAI.ask, OPENAI.load, OPENAI.failure, OPENAI.stopped

SURE = tokens({"Summary": 0.9, "The": 0.1}, {" A": 0.5, " B": 0.2, "A": 0.1, " The": 0.05})


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


def shown(*tokens_shown):
    """A reply of one token, "A", and the tokens that the server shows in its place."""
    reply = tokens({"A": 0.6})
    top = [{"token": token, "logprob": math.log(p)} for token, p in tokens_shown]
    reply.body["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = top
    return reply


@pytest.mark.parametrize(
    ("reply", "p"),
    [
        (shown(("B", 0.3)), 0.6 / 0.9),  # the sampled token is not among those shown
        (shown(("A", 0.4), ("B", 0.2), ("A", 0.2)), 0.6 / 0.8),  # two tokens that are written alike
        (tokens({"Well": 1.0, "B": 1e-9}, {" a": 0.9, " b": 0.1}, {" B": 0.8, " A": 0.1}), 0.1 / 0.9),  # an article
    ],
)
def test_all_tokens_of_a_label_count_and_no_other(reply, p):
    with Api(reply) as api:
        assert ask(api)[0].p == pytest.approx(p)


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
    with Api(refusal(400, "Unrecognized request argument supplied: add_generation_prompt")) as api:
        assert "prefill" in stopped(api, prefill=True)
    assert len(api.requests) == 1


def test_fewer_log_probabilities_are_asked_for_where_twenty_are_too_many():
    with Api(refusal(400, "Cannot request more than 5 top_logprobs."), tokens({"A": 0.6, "B": 0.2})) as api:
        judgements = ask(api, 3)
    assert [judgement.p for judgement in judgements] == pytest.approx([0.75] * 3)
    assert [request.body["top_logprobs"] for request in api.requests] == [20, 5, 5, 5]


@pytest.mark.parametrize(
    ("reply", "options", "said"),
    [
        (tokens({"I": 1.0}, {" cannot": 0.9, "A": 0.05, "B": 0.05}), {}, "'I cannot' .*A or B$"),
        (tokens({" The": 0.9, " It": 0.1}), {"prefill": True}, "'The' .*A or B$"),
        (words("Hm.", None, "A or B?"), {"votes": 3}, " 'Hm. A or B.'$"),
        (words("<think>Well", reason="length"), {"votes": 1}, "'<think>Well', .* 25,000 tokens"),
    ],
)
def test_a_reply_without_a_label_fails_and_says_what_it_was(reply, options, said):
    with Api(reply) as api:
        assert re.search(said, failure(api, **options))


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
    with Api(reply) as api:
        assert re.search("no log-probabilities; .*votes=5", stopped(api, questions=50))
    assert len(api.requests) == (1 if reply.status == 200 else 2)  # a refusal may be of reasoning


@pytest.mark.parametrize("reply", [words("A"), refusal(400, "no logprobs today")])
def test_one_answer_without_log_probabilities_is_no_reason_to_end(reply):
    with Api(SURE, reply, SURE) as api:
        assert [judgement.failed for judgement in ask(api, 3, concurrency=1)] == [False, True, False]


# When the server fails


def test_a_server_of_ones_own_needs_no_key(monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY")
    with Api(SURE) as api:
        monkeypatch.setenv("OPENAI_BASE_URL", api.url)
        [judgement] = load_judge("openai/tiny").judge(pairs(1), PROMPT)
    assert not judgement.failed


def test_a_server_that_goes_away_fails_judgements_only():
    with Api(SURE, Reply(SURE.body, after=60.0, cut=True)) as api:
        answers = load(api, concurrency=1, retries=0).judge(iter(pairs(2)), PROMPT)
        assert not next(answers).failed
    [last] = answers
    assert last.failed


# What servers take


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
        [judgement] = ask(api, [question], prompt)
    assert not judgement.failed
    sent = api.requests[-1].body["messages"][0]["content"]
    assert 500 < len(sent) <= 2000
    kept = sent.removeprefix("Article: ").partition("…")[0]
    assert judgement.cut == pytest.approx(12_000 - len(kept), abs=1)  # a space before the cut is dropped
    assert "Cats purr." in sent
    assert 2 <= len(api.requests) <= 7


def test_a_window_is_kept_beforehand():
    prompt = criterion_prompt("clearer", context="Article")
    question = Question(1, 2, 0, "Cats purr.", "Dogs bark.", "漢字" * 1000)
    with Api(SURE) as api:
        [judgement] = ask(api, [question], prompt, window=400)
    [request] = api.requests
    assert judgement.cut > 1500
    assert len(request.body["messages"][0]["content"].encode()) < 400 * 3


def test_a_broken_character_is_sent_as_a_question_mark():
    with Api(SURE) as api:
        [judgement] = ask(api, [Question(1, 2, None, "Hi \ud800!", "No.")])
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
        judge = load(api, concurrency=3)
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
        answers = load(api, concurrency=8).judge(choose(), PROMPT)
        while (judgement := next(answers, None)) is not None:
            answered.append(judgement)
    assert len(answered) == 16
    assert known[-1] >= 12


def test_what_the_questions_raise_comes_out():
    def broken():
        yield pairs(1)[0]
        raise ZeroDivisionError

    with Api(SURE) as api, pytest.raises(ZeroDivisionError):
        list(load(api).judge(broken(), PROMPT))
    assert not judging()


def test_leaving_ends_every_call_and_thread():
    with Api(SURE, SURE, Reply(SURE.body, after=60.0)) as api:
        answers = load(api, concurrency=4).judge(itertools.cycle(pairs(5)), PROMPT)
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


def strict(request):
    """llama.cpp takes one choice at a time; this one takes no response_format either."""
    if "n" in request.body:
        return refusal(400, "Field 'n': Value must be between 1 <= value <= 1, but got 3")
    if "response_format" in request.body:
        return refusal(422, "response_format: extra fields not permitted")
    return words("A")


@pytest.mark.parametrize(
    ("reply", "n", "formats"),
    [
        (words('{"better": "Summary A"}'), [3, 1, 1, 1, 1, 1], [True] * 6),  # it ignores n
        (words(*["A"] * 3), [3, 3], [True, False]),  # it ignores response_format
        (strict, [3, 1, 1, 1, 1, 1, 1, 1], [True, True, *[False] * 6]),
    ],
)
def test_a_part_that_the_server_ignores_or_refuses_is_left_out_from_then_on(reply, n, formats, caplog):
    caplog.set_level(logging.INFO, logger="comparo")
    with Api(reply) as api:
        judgements = ask(api, 2, votes=3, concurrency=1)
    assert {(judgement.p, judgement.weight) for judgement in judgements} == {(3.5 / 4, 3.0)}
    assert [request.body.get("n", 1) for request in api.requests] == n
    assert ["response_format" in request.body for request in api.requests] == formats
    assert len(caplog.records) == (3 in n[:-1] and 1 in n) + (False in formats)
    assert {record.levelno for record in caplog.records} == {logging.INFO}


# Options


def test_settings_hold_what_changes_an_answer():
    plain = load_judge("openai/org/tiny", base_url="http://localhost:8000/v1/")
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
    assert load_judge("openai/org/tiny").settings["base_url"] == "https://api.openai.com/v1"
    assert (
        plain.settings
        == load_judge("openai/org/tiny", base_url="http://localhost:8000/v1", concurrency=2, timeout=1).settings
    )


def test_prices_are_known_or_given():
    assert load_judge("openai/gpt-4o-mini-2024-07-18").price[:2] == (0.15, 0.60)
    assert load_judge("openai/gpt-4o-2024-05-13").price[:2] == (5.0, 15.0)
    assert load_judge("openai/gpt-6-luna", price=(1, 2)).price == Price(1.0, 2.0)
    assert load_judge("openai/gpt-4.5").price is None
    assert load_judge("openai/mistral-large-latest", base_url="https://api.mistral.ai/v1").price.written > 0
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
        [served] = load_judge("openai/smollm2", base_url=url, prefill=True).judge([REAL], SHORT)
    [local] = load_judge("local/smollm2", runtime="llama.cpp", window=512, threads=1).judge([REAL], SHORT)
    assert served.p == pytest.approx(local.p, abs=0.02)
    assert served.mass == pytest.approx(local.mass, abs=0.02)
    assert served.tokens_in == local.tokens_in


@pytest.mark.long
def test_a_real_model_votes(llama):
    [judgement] = load_judge("openai/smollm2", base_url=llama, votes=2, max_tokens=200).judge([REAL], SHORT)
    assert not judgement.failed
    assert judgement.weight == 2
    assert judgement.p in (0.5 / 3, 1.5 / 3, 2.5 / 3)
    assert judgement.reply.count('"better"') == 2


@pytest.mark.long
def test_a_real_prompt_too_long_is_cut():
    prompt = Prompt("Article: {context}\n\nText A: {first}\nText B: {second}\nWhich is better?", answer="Text")
    question = Question(1, 2, 0, "Cats purr.", "Dogs bark.", "So it goes. " * 80)
    with llama_server(window=256) as url:
        [judgement] = load_judge("openai/smollm2", base_url=url, prefill=True).judge([question], prompt)
    assert not judgement.failed
    assert judgement.cut > 0
    assert judgement.tokens_in <= 256
