"""The API judge against servers that stall, flood, redirect, lie, repeat and pry; each is a real one on loopback."""

import copy
import gzip
import itertools
import json
import logging
import math
import re
import subprocess
import sys
import time
import zlib
from base64 import b64encode
from dataclasses import replace
from urllib.parse import quote

import numpy as np
import pytest
from scipy.stats import spearmanr

import comparo
from comparo import JudgeError, Prompt, Question, load_judge
from server_faults import FAULTS, defects, meet
from servers import KEY, Api, Hosted, Reply, is_probe, raw_server, refusal, tokens, words
from split import one_short

pytestmark = pytest.mark.usefixtures("keys")

SURE = tokens({"A": 0.7, "B": 0.2, "The": 0.05})
OPENAI = Hosted("openai/tiny", options={"concurrency": 1})
failure, load, stopped = OPENAI.failure, OPENAI.load, OPENAI.stopped
PROXIES = [name for kind in ("http", "https", "all", "no") for name in (f"{kind}_proxy", f"{kind}_proxy".upper())]


def question(first="Cats purr.", second="Dogs bark."):
    return Question("a", "b", None, first, second)


def ask(server, *questions, **options):
    return OPENAI.ask(server, questions or [question()], **options)


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch):
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


# Time and size


def drip(send, part):
    with_pauses = itertools.cycle([part])
    for piece in itertools.islice(with_pauses, 500):
        send(piece)
        time.sleep(0.02)


@pytest.mark.measures
@pytest.mark.parametrize("part", [b" ", b"X-More: 1\r\n"])
def test_a_try_has_a_deadline_however_steadily_it_drips(part):
    """One space of a body, or one header, every 20 ms."""

    def behave(connection):
        connection.recv(65536)
        connection.sendall(b"HTTP/1.1 200 OK\r\n" + (b"Content-Length: 500\r\n\r\n" if part == b" " else b""))
        drip(connection.sendall, part)

    with raw_server(behave) as url:
        begin = time.monotonic()
        error = failure(url, timeout=0.3, retries=1)
        assert re.search(r"2 tries .*0\.3 s.*\(TimeoutError\)", error)
        assert time.monotonic() - begin < 5


MEASURED = """
import sys, tracemalloc
from comparo.judges.openai import load
from comparo.data.prompts import Question, criterion_prompt
calls = int(sys.argv[2])
judge = load("tiny", base_url=sys.argv[1], retries=5, timeout=20, concurrency=calls)
judge.dialect.answers = True  # else the first call goes alone
tracemalloc.start()
*_, judgement = judge.judge([Question(1, other) for other in range(calls)], criterion_prompt("better"))
print(tracemalloc.get_traced_memory()[1] // 10**6)
print(judgement.error)
"""


def measured(api, calls=1):
    """The most memory in MB that a process took, and why its judgement failed."""
    command = [sys.executable, "-c", MEASURED, api.url, str(calls)]
    made = subprocess.run(command, capture_output=True, text=True, check=True)
    most, error = made.stdout.splitlines()
    return int(most), error


def bomb():
    """1 GB of zeros in 1 MB, four times over."""
    pack = zlib.compressobj(wbits=31)
    part = b"".join(pack.compress(bytes(2**20)) for _ in range(64)) + pack.flush(zlib.Z_FULL_FLUSH)
    yield from itertools.repeat(part, 64)


@pytest.mark.long
@pytest.mark.parametrize(
    ("reply", "sent"),
    [
        (Reply(pieces=lambda: itertools.repeat(b"x" * 2**16, 24_000)), 100e6),
        (Reply(pieces=bomb, headers={"Content-Encoding": "gzip"}), math.inf),
    ],
)
def test_a_flood_or_a_bomb_is_not_read_to_its_end(reply, sent):
    with Api(reply) as api:
        most, error = measured(api)
    assert "than 2 MB" in error
    assert api.sent < sent  # of 1.5 GB; what went out beyond the limit lies in the buffers of sockets
    assert most < 100
    assert len(api.requests) == 1


@pytest.mark.long
@pytest.mark.parametrize(("status", "most"), [(200, 64), (400, 32)])
def test_sixteen_floods_at_once_take_little_memory(status, most):
    with Api(Reply(status=status, pieces=lambda: itertools.repeat(b"x" * 2**20, 100))) as api:
        peak, error = measured(api, 16)
    assert peak < most
    assert ("than 2 MB" if status == 200 else "(400)") in error
    assert len(api.requests) == 16


def test_a_flood_beside_a_refused_key_is_still_a_refused_key():
    flood = Reply(status=401, pieces=lambda: itertools.repeat(b"x" * 2**20, 500))
    with Api(flood) as api:
        assert "refused the key" in stopped(api)
    assert api.sent < 100e6


def test_packed_answers_are_read_and_others_fail():
    packed = gzip.compress(json.dumps(SURE.body).encode())
    with Api(Reply(packed, headers={"Content-Encoding": "gzip"})) as api:
        assert ask(api)[0].p == pytest.approx(0.7 / 0.9)
        assert api.requests[0].headers["accept-encoding"] == "gzip"
    with Api(Reply(packed, headers={"Content-Encoding": "br"})) as api:
        assert "'br'" in failure(api, retries=3)
    assert len(api.requests) == 1


def test_a_reply_is_kept_no_longer_than_it_is_read():
    with Api(words("A " * 1_000_000)) as api:
        [judgement] = ask(api, votes=1)
    assert judgement.failed
    assert len(judgement.reply) == 10_001


# Waiting


def busy(seconds):
    return refusal(429, "slow down", headers={"Retry-After": seconds})


def test_waiting_for_long_is_said_once_in_a_while(caplog):
    asked = [question(f"Cats {number}") for number in range(12)]
    with Api(SURE, *[busy("0.1")] * 8, SURE) as api:
        judge = load(api, concurrency=4, retries=5)
        waiting = replace(judge.waiting, quiet=0.05)
        judgements = list(replace(judge, waiting=waiting).judge(asked, Prompt("{first}{second}")))
    assert not any(judgement.failed for judgement in judgements)
    [record] = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert f"{api.url} (429)" in record.getMessage()


def test_short_waits_go_unsaid(caplog):
    with Api(SURE, *[busy("0.01")] * 3, SURE) as api:
        ask(api, question(), question(), retries=5)
    assert not caplog.records


@pytest.mark.long
@pytest.mark.measures
@pytest.mark.parametrize("when", one_short(["7200", "inf", "1e999"]))
def test_a_server_that_asks_for_hours_is_waited_for_as_long_as_a_try_and_then_left(when):
    with Api(busy(when), SURE) as api:
        begin = time.monotonic()
        [judgement] = ask(api, retries=1, timeout=1.0)
        assert time.monotonic() - begin < 5
    assert not judgement.failed
    with Api(busy(when)) as api:
        assert re.search(r"\d+\.\d hours \(429\)", stopped(api, retries=1, timeout=1.0))
    assert len(api.requests) == 2


@pytest.mark.parametrize(
    "when", ["", "soon", "-5", "nan", "Thu, 99 Zzz 2020", "Thu, 01 Jan 1970 00:00:00 GMT", "9" * 400]
)
def test_odd_words_about_when_to_try_again_are_no_trouble(when):
    with Api(busy(when), SURE) as api:
        assert not ask(api, retries=1, timeout=1.0)[0].failed


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_fails_its_own_judgement_or_stops_with_a_message(name):
    assert defects(FAULTS[name], *meet(FAULTS[name])) == []


# Redirects


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status):
    with Api(SURE) as other:
        to = f"{other.url.replace('http://', 'http://ana:hunter22@')}/login?key={KEY}"
        elsewhere = Reply(status=status, headers={"Location": to})
        with Api(SURE, elsewhere) as api:
            said = stopped(api, questions=2)
        assert other.requests == []
    assert f"'{other.url.removesuffix('/v1')}' ({status})" in said
    assert "base_url" in said
    assert not leaked(KEY, said)
    assert not {"login", "hunter22"} & {*re.findall(r"\w+", said)}
    assert [request.method for request in api.requests] == ["POST", "POST"]


@pytest.mark.parametrize("to", ["", "//", "http://[", "\\\\", "https://" + "x" * 5000])
def test_a_redirect_to_nowhere_is_one(to):
    with Api(Reply(status=302, headers={"Location": to})) as api:
        assert "points to" in stopped(api)


# Refusals that repeat the question


NAMES = [
    "logprobs",
    "top_logprobs",
    "temperature",
    "response_format",
    "grammar",
    "max_completion_tokens",
    "context length",
]


def bodies(api):
    return [{name: value for name, value in request.body.items() if name != "messages"} for request in api.requests]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("form", ["My essay is about {}: it is 12 tokens of 5 tokens.", "{}"])
@pytest.mark.parametrize("name", [*NAMES, "add_generation_prompt", "is too long"])
@pytest.mark.parametrize("options", [{}, {"prefill": True}, {"votes": 2}])
def test_a_refusal_that_repeats_a_text_is_no_word_of_the_servers_own(name, form, first, options):
    text = form.format(name)

    def reply(request):
        if text in request.body["messages"][0]["content"]:
            shown = text if form == "{}" else request.body["messages"][0]["content"]
            return refusal(400, f"Our filter does not let this pass: '{shown}'")
        return words("A", "A") if options.get("votes") else SURE

    asked = [question(text), *(question(f"Cats {number}.") for number in range(3))]
    with Api(reply) as api:
        judgements = ask(api, *asked[:: 1 if first else -1], **options)
    assert [judgement.failed for judgement in judgements] == [True, *[False] * 3][:: 1 if first else -1]
    [failed] = [judgement for judgement in judgements if judgement.failed]
    assert "(400)" in failed.error
    assert failed.cut == 0
    taken = {json.dumps(body) for body in bodies(api)}
    assert len(taken) == (2 if options.get("votes") else 1)  # replies that are no JSON end the asking for it


def test_a_part_that_was_left_out_in_vain_is_put_again():
    """A refusal that may be about a part is tried without; only an answer shows that it was."""

    def reply(request):
        bad = "Cats 0" in request.body["messages"][0]["content"]
        return refusal(400, "the temperature of this text is too high") if bad else SURE

    with Api(reply) as api:
        judgements = ask(api, *(question(f"Cats {number}.") for number in range(3)))
    assert [judgement.failed for judgement in judgements] == [True, False, False]
    assert ["temperature" in body for body in bodies(api)] == [True, False, True, True]


def field(**error):
    return Reply({"error": error}, status=400)


@pytest.mark.parametrize(
    ("complaint", "part"),
    [
        (field(message="Unsupported value", param="temperature", code="unsupported_value"), "temperature"),
        (Reply({"detail": [{"loc": ["body", "temperature"], "msg": "no", "input": 0}]}, status=422), "temperature"),
        (Reply({"object": "error", "message": "bad temperature", "code": 400}, status=400), "temperature"),
        (Reply({"error": "temperature is not for this model"}, status=400), "temperature"),
        (Reply(b"temperature is not for this model", status=400), "temperature"),
    ],
)
def test_refusals_are_understood_in_the_words_of_every_server(complaint, part):
    with Api(lambda request: complaint if part in request.body else SURE) as api:
        judgements = ask(api, question("It is the temperature that counts."), question())
    assert not any(judgement.failed for judgement in judgements)
    assert [part in body for body in bodies(api)] == [True, False, False]


def test_a_field_counts_where_words_do_not():
    """The text is about log-probabilities, and the server has none: its field says so."""
    none = field(message="logprobs is not supported", param="logprobs")
    with Api(none) as api:
        assert "no log-probabilities" in stopped(api, questions=[question("An essay on logprobs.")])
    with Api(field(message="Bad request", param="messages", code="context_length_exceeded"), SURE) as api:
        [judgement] = ask(api, question("Cats purr. " * 100))
    assert judgement.cut > 0
    assert not judgement.failed


def test_a_question_that_is_forbidden_ends_nothing_where_others_were_answered():
    with Api(SURE, Reply(b"<h1>Blocked</h1>", status=403), SURE) as api:
        judgements = ask(api, *[question()] * 3)
    assert [judgement.failed for judgement in judgements] == [False, True, False]
    assert judgements[1].error.endswith("(403): '<h1>Blocked</h1>'")


# Answers that lie


def mutants(body):
    """The body with every part of it replaced by every odd value."""
    deep = []
    for _ in range(400):
        deep = [deep]
    odd = [None, True, -1, 2.5, 10**30, math.nan, -math.inf, "x", "\ud83d", "\0", [], [[]], {}, [None], {"a": 1}, deep]
    for path in paths(body):
        for value in odd:
            mutant = copy.deepcopy(body)
            *way, last = path
            inner = mutant
            for step in way:
                inner = inner[step]
            inner[last] = value
            yield mutant


def paths(value, path=()):
    if path:
        yield path
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in inside:
        yield from paths(inner, (*path, key))


@pytest.mark.parametrize(
    ("body", "options"),
    one_short(
        [
            (tokens({"A": 0.7, "B": 0.2}).body, {}),
            (tokens({"A": 0.7, "B": 0.2}).body, {"prefill": True}),
            (words('{"better": "A"}', "B").body, {"votes": 2}),
        ]
    ),
)
def test_no_answer_whatever_it_holds_raises_or_stops_the_others(body, options):
    odd = list(mutants(body))
    replies = iter([Reply(body), *map(Reply, odd)])
    good = Reply(body)
    with Api(lambda _: next(replies, good)) as api:
        asked = [question(f"Cats {number}") for number in range(len(odd) + 1)]
        judgements = ask(api, *asked, concurrency=8, price=(1.0, 2.0), **options)
    assert len(judgements) == len(odd) + 1 > 100
    assert 0.1 < np.mean([judgement.failed for judgement in judgements]) < 0.9
    for judgement in judgements:
        assert judgement.failed or 0 <= judgement.p <= 1
        assert max(judgement.tokens_in, judgement.tokens_out) < 2**62
        assert math.isnan(judgement.cost) or judgement.cost > 0
        for kept in (judgement.reply, judgement.error or ""):
            assert "\0" not in kept
            kept.encode()


@pytest.mark.long
def test_no_refusal_whatever_it_holds_raises_or_stops_the_others():
    told = {"message": "no", "param": "messages[0]", "code": "odd", "type": "odd"}
    odd = list(mutants({"error": told, "detail": [{"loc": ["body", "messages"], "msg": "no"}], "message": "no"}))
    replies = iter([SURE, *(Reply(body, status=status) for body in odd for status in (400, 422, 409, 500))])
    with Api(lambda _: next(replies)) as api:
        judgements = ask(api, *[question()] * (4 * len(odd) + 1), concurrency=8)
    assert [judgement.failed for judgement in judgements].count(True) == 4 * len(odd) > 500
    for judgement in judgements:
        (judgement.error or "").encode()


@pytest.mark.parametrize(
    "count", [10**30, -1, 2.5, True, "7", [], {}, None, math.nan, math.inf, 10**9 + 1], ids=lambda count: str(count)[:9]
)
def test_a_count_that_cannot_be_one_leaves_the_cost_unknown(count):
    reply = copy.deepcopy(SURE.body)
    reply["usage"]["prompt_tokens"] = count
    with Api(Reply(reply)) as api:
        [judgement] = ask(api, price=(1.0, 10.0))
    assert not judgement.failed
    assert (judgement.tokens_in, judgement.tokens_out) == (0, 2)
    assert math.isnan(judgement.cost)


def test_what_a_useless_answer_cost_is_told():
    with Api(Reply({"choices": [], "usage": {"prompt_tokens": 100.0, "completion_tokens": 0}})) as api:
        [judgement] = ask(api, price=(1.0, 10.0))
    assert judgement.failed
    assert judgement.cost == pytest.approx(100e-6)


def test_a_free_server_costs_nothing_even_where_it_does_not_count():
    reply = {name: value for name, value in SURE.body.items() if name != "usage"}
    with Api(SURE, Reply(reply)) as api:
        assert [judgement.cost for judgement in ask(api, question(), question(), price="0,0")] == [0.0, 0.0]


def test_half_a_character_is_replaced():
    body = json.dumps(words("A\ud83d", "\ud83d\ude00").body).encode()
    assert b"\\ud83d" in body
    with Api(Reply(body)) as api:
        [judgement] = ask(api, votes=2)
    assert judgement.reply == "A�\n😀"


# Labels without a number


def odd_label(p, number, impossible):
    """An answer to which every tenth time one of the labels, in turn, has no number."""
    reply = copy.deepcopy(tokens({"A": 0.95 * p, "B": 0.95 * (1 - p), "The": 0.03, "Both": 0.01}).body)
    if number % 10 == 0:
        reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"][number // 10 % 2]["logprob"] = impossible
    return Reply(reply)


@pytest.mark.parametrize("impossible", [-math.inf, None])
def test_labels_without_a_number_hardly_move_a_ranking(impossible):
    """-Infinity for every tenth call: read as p = 0 or 1, it took the Spearman correlation below 0.7."""
    quality = dict(zip(range(30), np.linspace(-2, 2, 30), strict=True))
    asked = itertools.count()

    def reply(request):
        if is_probe(request.body):
            return odd_label(0.6, 1, impossible)
        shown = request.body["messages"][0]["content"].split("quality ")[1:]
        first, second = (float(part.split(";")[0]) for part in shown)
        return odd_label(1 / (1 + math.exp(second - first)), next(asked), impossible)

    with Api(reply) as api:
        judge = load(api, retries=5)
        texts = {name: f"quality {score};" for name, score in quality.items()}
        ranking = comparo.rank(texts, "better", judge=judge, budget="4n")
    columns = ranking.to_columns()
    truth = [quality[name] for name in columns["item"].tolist()]
    assert spearmanr(columns["score"], truth).statistic > 0.99


def test_a_label_that_is_not_among_the_likeliest_is_less_likely_than_they_are():
    reply = copy.deepcopy(tokens({"A": 0.7, "The": 0.1, "It": 0.04, "B": 0.1}).body)
    reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"][3]["logprob"] = -9999.0
    with Api(Reply(reply)) as api:
        [judgement] = ask(api)
    assert judgement.p == pytest.approx(0.7 / 0.74)


# What is nobody else's business


def leaked(secret, *texts):
    """Parts of a secret, of six characters or more, in texts."""
    parts = {secret[start : start + 6] for start in range(len(secret) - 5)}
    return [part for part in parts for text in texts if part in text]


def kept(judge, judgements, caplog):
    return [*map(repr, judgements), repr(judge), str(judge), judge.name, json.dumps(judge.settings), caplog.text]


def test_no_part_of_the_key_is_handed_on(caplog):
    caplog.set_level(logging.DEBUG)
    parts = [KEY, KEY[:12], KEY[-12:], KEY[9:15], f"{KEY[:8]}***{KEY[-8:]}", KEY.upper(), quote(KEY, safe="")]
    for part in parts:
        script = [
            tokens({f"{part} A": 1.0}, {"A": 0.7, "B": 0.3}),
            refusal(400, f"Incorrect API key provided: {part}."),
            Reply(b"x" * 190 + part.encode(), status=500),
            Reply(part.encode()),
            words(part),
            Reply({"choices": part}),
            tokens({part: 1.0}),
        ]
        with Api(*script) as api:
            judge = load(api)
            judgements = list(judge.judge([question()] * len(script), Prompt("{first}{second}")))
        assert [judgement.failed for judgement in judgements] == [False, *[True] * 6]
        assert not leaked(KEY.lower(), *(text.lower() for text in kept(judge, judgements, caplog)))
        assert "***" in judgements[0].reply
    for status in (403, 404):
        with Api(refusal(status, f"no {KEY[:12]}")) as api:
            assert not leaked(KEY, stopped(api))


@pytest.mark.parametrize("password", ["correct horse/battery", 'quo"te&stäple', "tiny5", "abcd"])
def test_no_part_of_a_password_is_handed_on(password, caplog):
    caplog.set_level(logging.DEBUG)
    login = f"ana:{password}"
    basic = b64encode(login.encode()).decode()
    told = " ".join([login, password, quote(password), quote(password, safe=""), password.replace(" ", "+"), basic])
    with Api(SURE, refusal(400, told), words(told), Reply(told.encode(), status=500)) as api:
        url = api.url.replace("http://", f"http://ana:{quote(password, safe='')}@")
        judge = load(url)
        judgements = list(judge.judge([question()] * 4, Prompt("{first}{second}")))
        [failed] = judge.judge([question()], Prompt("{first}{second}"))
    assert api.requests[0].headers["authorization"] == f"Basic {basic}"
    assert judge.settings["base_url"] == api.url
    texts = kept(judge, [*judgements, failed], caplog)
    assert password not in "\n".join(texts)
    assert not leaked(password, *texts)
    assert not leaked(quote(password, safe=""), *texts)
    assert not leaked(basic, *texts)


def test_no_variable_but_the_key_is_sent(monkeypatch):
    told = {"OPENAI_ORG_ID": "org-123456", "OPENAI_PROJECT_ID": "proj_123456", "OPENAI_ADMIN_KEY": "sk-admin-123456"}
    told |= {"OPENAI_CUSTOM_HEADERS": "X-Own: custom-123456", "OPENAI_WEBHOOK_SECRET": "whsec-123456"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    with Api(SURE) as api:
        ask(api)
    [request] = api.requests
    assert not [value for value in request.headers.values() if "123456" in value.replace(KEY, "")]
    usual = "accept accept-encoding authorization connection content-length content-type host user-agent"
    assert set(request.headers) == set(usual.split())
    assert set(load_judge("openai/gpt-6-luna").access()[0]) == {"Authorization"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.1", "0.0.0.0"])
def test_no_proxy_sees_a_call_to_this_machine(host, monkeypatch):
    with Api(SURE) as proxy, Api(SURE) as api:
        for name in PROXIES[:6]:
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        assert not ask(api.url.replace("127.0.0.1", host))[0].failed
        assert len(api.requests) == 1
        assert proxy.requests == []


def test_a_remote_server_is_reached_by_the_proxy(monkeypatch):
    with Api(SURE) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.removesuffix("/v1"))
        assert not ask("http://judge.invalid/v1")[0].failed
    assert proxy.requests[0].path == "http://judge.invalid/v1/chat/completions"


def test_a_proxy_that_cannot_be_is_said_without_its_password(monkeypatch):
    monkeypatch.setenv("http_proxy", "gopher://ana:hunter22@proxy.invalid")
    said = stopped("http://judge.invalid/v1")
    assert "http_proxy" in said
    assert "hunter22" not in said


# Before anything is asked


@pytest.mark.parametrize("broken", [f"{KEY}\n{KEY}", f"{KEY}…"])
def test_a_key_that_cannot_be_sent_is_named_by_its_variable(broken, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    assert load_judge("openai/gpt-6-luna").access()[0]["Authorization"] == f"Bearer {KEY}"
    monkeypatch.setenv("OPENAI_API_KEY", broken)
    with pytest.raises(JudgeError, match="OPENAI_API_KEY") as caught:
        load_judge("openai/gpt-6-luna").ready()
    assert not leaked(KEY, str(caught.value))
