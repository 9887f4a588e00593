"""What every hosted judge does, whoever hosts it: one contract for OpenAI's API, Anthropic's and Gemini's."""

import math
import re
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import pytest

import claude
import comparo
import gemini
from comparo import JudgeError, Question, load_judge
from comparo.judges.servers import SERVERS
from inside import Rest, criterion_prompt
from servers import KEY, PROMPT, Api, Hosted, Reply, numbers_in, pairs, prefers, raw_server, refusal, tokens, words

pytestmark = pytest.mark.usefixtures("keys")

SOON = {"Retry-After": "0.01"}
PAUSE = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}


@dataclass(frozen=True, kw_only=True)
class Provider(Hosted):
    """A hosted provider, and what its server says."""

    sure: Reply  # the first text is better, with probability 0.75
    early: Reply  # a reply that ends before its verdict
    busy: Callable[[int], Reply]
    long: str  # how it says that a prompt is too long
    larger: Callable[[Any], Reply]  # prefers the text with the larger number
    says: Callable[[str], Reply]  # a reply with these words
    usage: str = "usage"  # where a reply counts tokens
    shows: Callable[..., Reply] | None = None  # a reply with log-probabilities

    @property
    def extra(self):
        return self.model.partition("/")[0]

    @property
    def variable(self):
        return f"{self.extra.upper()}_API_KEY"

    def refused(self, text, status=400):
        if self.extra == "anthropic":
            return claude.refused(status, "invalid_request_error", text)
        return gemini.refused(status, "INVALID_ARGUMENT", text) if self.extra == "gemini" else refusal(status, text)


PROVIDERS = {
    "openai": Provider(
        model="openai/tiny",
        sure=words('{"better": "Summary A"}'),
        early=words("", reason="length"),
        busy=lambda status: refusal(status, "Overloaded", headers=SOON),
        long="This model's maximum context length is 8000 tokens. However, your messages resulted in 9000 tokens.",
        larger=prefers(1.0),
        says=words,
        shows=tokens,
        options={"votes": 1},
    ),
    "anthropic": Provider(
        model="anthropic/claude-haiku-5-5",
        sure=claude.verdict("Summary A"),
        early=claude.message(None, stop="max_tokens", thought="Let me see"),
        busy=lambda status: claude.refused(status, "overloaded_error", "Overloaded", headers=SOON),
        long="prompt is too long: 300000 tokens > 200000 maximum",
        larger=claude.prefers_larger,
        says=claude.message,
    ),
    "gemini": Provider(
        model="gemini/gemini-3.8-flash",
        sure=gemini.verdicts("Summary A"),
        usage="usageMetadata",
        early=gemini.replies(None, reason="MAX_TOKENS"),
        busy=lambda status: gemini.refused(status, "UNAVAILABLE", "Overloaded", PAUSE),
        long="The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        larger=gemini.prefers_larger,
        says=gemini.replies,
        shows=gemini.likeliest,
        options={"votes": 1},
        base="/v1",
    ),
}


@pytest.fixture(params=PROVIDERS)
def provider(request):
    return PROVIDERS[request.param]


def test_the_cost_is_unknown_where_tokens_are_not_counted(provider):
    reply = deepcopy(provider.sure)
    del reply.body[provider.usage]
    with Api(reply) as api:
        [judgement] = provider.ask(api, price=(1.0, 1.0))
    assert judgement.p == pytest.approx(0.75)
    assert math.isnan(judgement.cost)


def test_the_model_that_a_reply_names_is_kept_with_every_judgement(provider):
    field = "modelVersion" if provider.extra == "gemini" else "model"
    named = [
        replace(reply, body=reply.body | {field: name})
        for reply, name in [
            (provider.sure, "tiny-1"),
            (provider.says("They are alike."), "tiny-2"),
            (provider.sure, f"{KEY}"),
        ]
    ]
    with Api(*named, provider.sure) as api:
        judgements = provider.ask(api, 3, concurrency=1)
    assert [one.model for one in judgements[:2]] == ["tiny-1", "tiny-2"]
    assert [one.failed for one in judgements] == [False, True, False]
    assert judgements[2].model == "***"
    assert judgements[0].row()["model"] == "tiny-1"


@pytest.mark.parametrize(
    ("status", "said"), [(401, "{variable}"), (402, "no credit left"), (403, "{variable}"), (404, "no model {name!r}")]
)
def test_what_no_question_escapes_ends_the_run_at_once(provider, status, said):
    with Api(provider.refused(f"Incorrect API key {KEY}", status)) as api:
        told = provider.stopped(api, questions=50, retries=5)
    assert said.format(variable=provider.variable, name=provider.model.partition("/")[2]) in told
    assert f"({status})" in told
    assert "://127.0.0.1" in told
    assert len(api.requests) == 1


def test_credit_that_ends_on_the_way_ends_the_run(provider):
    with Api(provider.sure, provider.refused("Pay first.", 402)) as api:
        assert re.search(r"credit .*402.*Pay first", provider.stopped(api, questions=9, concurrency=1))
    assert len(api.requests) <= 3


def test_https_to_a_server_without_it_names_http(provider):
    with Api(provider.sure) as api:
        assert re.search("base_url .*http://", provider.stopped(api.url.replace("http:", "https:")))


def test_a_reply_that_ends_too_early_names_the_option(provider):
    with Api(provider.early) as api:
        assert "max_tokens" in provider.failure(api)


@pytest.mark.parametrize(
    ("reply", "part"), [(Reply(b"<html>"), "<html>"), (Reply([1]), "[1]"), (None, "They are alike.")]
)
def test_what_cannot_be_read_fails_with_its_beginning(provider, reply, part):
    with Api(reply or provider.says("They are alike.")) as api:
        assert f"'{part}'" in provider.failure(api)


@pytest.mark.parametrize("trouble", [429, 500, 503, 529, "cut", "late"])
def test_passing_trouble_is_tried_again(provider, trouble):
    usual = provider.sure.body
    busy = {"cut": Reply(usual, cut=True), "late": Reply(usual, after=30.0)}.get(trouble) or provider.busy(trouble)
    with Api(busy, busy, provider.sure) as api:
        [judgement] = provider.ask(api, retries=2, timeout=0.3 if trouble == "late" else 20.0)
    assert judgement.p == pytest.approx(0.75)
    assert len(api.requests) == 3


def test_trouble_that_lasts_fails_one_judgement(provider):
    for trouble, said in ((provider.busy(503), "Overloaded"), (provider.refused("Strange."), "Strange.")):
        with Api(provider.sure, trouble) as api:
            first, second = provider.ask(api, 2, retries=1, concurrency=1)
        assert not first.failed
        assert f"({trouble.status}): {said!r}" in second.error


def test_a_server_with_tls_that_is_asked_without_ends_the_run(provider):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def shake_hands(connection):
        with suppress(OSError):
            tls.wrap_socket(connection, server_side=True)

    with raw_server(shake_hands) as url, Api(Reply(b"Client sent an HTTP request to an HTTPS server.", 400)) as api:
        for server in (url, api):
            assert re.search("base_url .*https://", provider.stopped(server))


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_named(provider, text, tmp_path, monkeypatch):
    path = tmp_path / "certificates.pem"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    assert "SSL_CERT_FILE" in provider.stopped("https://127.0.0.1:9/v1")


@pytest.mark.parametrize(
    ("url", "key", "count"),
    [
        ("http://example.org/v1", KEY, 1),
        ("http://example.org/v1", "", 0),
        ("http://localhost:9/v1", KEY, 0),
        ("https://example.org/v1", KEY, 0),
    ],
)
def test_a_key_without_tls_is_warned_of_once(provider, url, key, count, monkeypatch, caplog):
    monkeypatch.setenv(provider.variable, key)
    provider.load(url).ready()
    assert sum("unencrypted" in record.getMessage() for record in caplog.records) == count
    assert KEY not in caplog.text


def test_no_server_at_all_ends_the_run(provider):
    assert re.search(r"http://127\.0\.0\.1:9.*\(ConnectError", provider.stopped("http://127.0.0.1:9/v1", timeout=5.0))


def test_a_prompt_that_is_too_long_is_cut_and_sent_again(provider):
    question = Question("a", "b", None, "one " * 500, "two " * 500)
    with Api(provider.refused(provider.long), provider.sure) as api:
        [judgement] = provider.ask(api, [question])
    assert judgement.p == pytest.approx(0.75)
    assert judgement.cut > 0
    before, after = (len(str(request.body)) for request in api.requests)
    assert after < before


def test_a_missing_key_is_named_by_its_variable_before_anything_is_asked(provider, monkeypatch):
    monkeypatch.delenv(provider.variable)
    judge, questions = load_judge(provider.model.replace("tiny", "gpt-6-luna")), iter(pairs(3))
    for ask in (judge.ready, lambda: next(judge.judge(questions, PROMPT))):
        with pytest.raises(JudgeError, match=provider.variable):
            ask()
    assert len(list(questions)) == 3


ALIKE = [name for name, server in SERVERS.items() if server.api == "openai" and name != "openai"]


@pytest.mark.parametrize("name", ALIKE)
def test_a_provider_that_speaks_openais_api_gets_its_own_key_at_its_own_address(name, monkeypatch):
    server = SERVERS[name]
    model = f"{name}/maker/tiny"
    if server.is_template:
        with pytest.raises(ValueError, match=re.escape(server.home)):
            load_judge(model)
    elif server.home.startswith("https:"):
        with pytest.raises(JudgeError, match=server.keys[0]):
            load_judge(model).ready()
    else:
        load_judge(model).ready()  # a server of one's own needs no key
    monkeypatch.setenv(server.keys[0], "its-own-key")
    with Api(PROVIDERS["openai"].sure) as api:
        judge = load_judge(model, base_url=f"{api.url}/?api-version=2024-10-21", votes=1)
        [answer] = judge.judge(iter(pairs(1)), PROMPT)
    assert answer.p == pytest.approx(0.75)
    [request] = api.requests
    assert (request.path, request.body["model"]) == ("/v1/chat/completions?api-version=2024-10-21", "maker/tiny")
    assert "its-own-key" in request.headers[server.header or "authorization"]
    assert KEY not in str(request.headers)
    assert judge.name == model


def test_a_key_in_the_address_is_refused_without_showing_it():
    with pytest.raises(ValueError, match="api_key") as caught:
        load_judge("openai/tiny", base_url=f"http://localhost/v1?version=1&api_key={KEY}")
    assert KEY not in str(caught.value)


def test_a_missing_library_is_named_by_the_command_that_installs_it(provider, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ImportError, match=rf"\[{provider.extra}\]"):
        load_judge(provider.model).ready()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("concurrency", value) for value in (0, "8", True)),
        *(("votes", value) for value in (-1, 2.5)),
        *(("timeout", value) for value in (0, math.nan)),
        *(("price", value) for value in ("1", (1, -2))),
        *(("base_url", value) for value in ("localhost:8000", "http://localhost:port/")),
        *((name, 0) for name in ("window", "max_tokens")),
        ("retries", -1),
        ("temperature", 3),
        ("effort", "very high"),
        ("thinking", 2000),
    ],
)
def test_an_option_that_cannot_be_is_refused_by_its_name(provider, name, value):
    with pytest.raises(ValueError, match=name):
        load_judge(provider.model, **{name: value})


def test_the_command_ranks(provider, tmp_path, run):
    items = tmp_path / "items.csv"
    items.write_text("id,text\n" + "".join(f"t{k},This is number {k}.\n" for k in range(8)))
    with Api(provider.larger) as api:
        flags = ["--criterion", "larger", "--judge", provider.model, "--price", "1,5"]
        flags += ["--base-url", api.url.removesuffix(provider.base)]
        done = run(tmp_path, ["rank", items, *flags, "--budget", "40", "--out", "run"], **{provider.variable: KEY})
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("t7") < done.stdout.index("t4") < done.stdout.index("t0")
    assert sum(request.method == "POST" for request in api.asked) == 40


# Line-ups

FOUR = PROMPT.resized(4)
LINEUP = Question("a", Rest("bcd")).with_texts(["one " * 500, "two " * 500, "three", "four"])


@pytest.mark.parametrize("votes", [1, 5])
def test_a_line_up_is_answered_by_an_order(provider, votes):
    with Api(provider.says('{"order": "C>A>D>B"}'), provider.says("C, A")) as api:
        judge = provider.load(api, votes=votes, price=(1.0, 5.0), concurrency=1)
        right, short = judge.judge([LINEUP, LINEUP], FOUR)
    assert (right.lineup, right.p, right.mass, right.weight) == ("C>A>D>B", 0.0, 1.0, 1.0)
    assert right.cost == pytest.approx((right.tokens_in + 5 * right.tokens_out) / 1e6)
    assert right.tokens_in == 100
    assert math.isnan(short.p)
    assert "C, A" in short.error
    assert short.lineup == ""
    assert len(api.requests) == 2  # an order is one reply, whatever the votes
    asked = str(api.requests[0].body)
    assert "C>A>B>D" in asked
    assert "'order': {'type': 'string', 'enum': ['A>B>C>D'," in asked


@pytest.mark.parametrize("wording", ["between", "which", "letter"])
def test_an_order_is_the_only_answer_that_is_asked_for(provider, wording):
    prompt = criterion_prompt("more coherent", "Summary", wording=wording)
    with Api(provider.says('{"order": "C>A>D>B"}')) as api:
        [judgement] = provider.ask(api, [LINEUP], prompt.resized(4))
    assert not judgement.failed
    assert re.findall(r"Answer (?:only )?with", str(api.requests[0].body)) == ["Answer only with"]


@pytest.mark.parametrize("provider", ["openai", "gemini"], indirect=True)  # Claude gives none
def test_a_line_up_is_answered_by_log_probabilities(provider):
    reply = provider.shows({"Summary": 1.0}, {" C": 0.5, " A": 0.25, "c": 0.0625, " B": 0.125, "The": 0.03125})
    with Api(provider.refused(provider.long), reply) as api:
        [judgement] = provider.ask(api, [LINEUP], FOUR, votes=0)
    masses = [0.25, 0.125, 0.5625, 0.03125]  # D has at most what is left, and what the last token has
    total = sum(masses)
    assert [float(part) for part in judgement.lineup.split("|")] == pytest.approx([math.log(m / total) for m in masses])
    assert judgement.p == pytest.approx(masses[0] / total)
    assert judgement.mass == pytest.approx(total)
    assert judgement.cut > 0
    assert "Summary D" in str(api.requests[0].body)


def test_an_order_has_room_for_all_labels():
    judge = load_judge("openai/tiny", votes=5, base_url="http://localhost:1/v1")
    assert (judge.writes(FOUR).tokens, judge.writes(PROMPT).tokens) == (64 + 4 * 8, 5 * 64)
    assert replace(judge, max_tokens=50).limit(FOUR) == 50
    assert replace(judge, votes=0).limit(FOUR) == replace(judge, votes=0).limit(PROMPT)


@pytest.mark.parametrize("votes", [0, 1])
def test_a_run_of_line_ups(votes, tmp_path):
    def reply(request):
        shown = dict(zip("ABCDEFGH", numbers_in(request.body["messages"][0]["content"]), strict=False))
        order = sorted(shown, key=lambda label: -shown[label])
        if votes:
            key = "better" if len(shown) == 2 else "order"
            return words(f'{{"{key}": "{">".join(order) if key == "order" else order[0]}"}}')
        total = sum(math.exp(0.5 * number) for number in shown.values())
        return tokens({label: math.exp(0.5 * shown[label]) / total for label in order})

    texts = {f"t{k}": f"This is number {k}." for k in range(12)}
    with Api(reply) as api:
        judge = f"openai/tiny; base_url={api.url}; votes={votes}"
        ranking = comparo.rank(texts, "larger", judge=judge, lineup=4, budget=24, out=tmp_path / "run")
    assert len(api.asked) == 24
    assert ranking.to_columns()["item"].tolist() == [f"t{k}" for k in range(11, -1, -1)]
    assert set(ranking.comparisons.lineup["size"].tolist()) == {4}
