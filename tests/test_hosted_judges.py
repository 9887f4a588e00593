"""What every hosted judge does, whoever hosts it: one contract for OpenAI's API, Anthropic's and Gemini's."""

import math
import re
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

import claude
import comparo
import gemini
from comparo import JudgeError, Question, load_judge
from inside import Rest, criterion_prompt
from servers import Api, Reply, in_turn, pairs, prefers, raw_server, refusal, tokens, words

KEY = "secret-test-0123456789abcdefghijklmnop"
PROMPT = criterion_prompt("clearer", kind="Summary")
SOON = {"Retry-After": "0.01"}
PAUSE = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "0.01s"}


@dataclass(frozen=True)
class Provider:
    """A hosted provider, and what its server says."""

    model: str
    sure: Reply  # the first text is better, with probability 0.75
    early: Reply  # a reply that ends before its verdict
    aside: Reply  # a reply without a verdict
    busy: Callable[[int], Reply]
    long: str  # how it says that a prompt is too long
    larger: Callable[[Any], Reply]  # prefers the text with the larger number
    says: Callable[[str], Reply]  # a reply with these words
    usage: str = "usage"  # where a reply counts tokens
    shows: Callable[..., Reply] | None = None  # a reply with log-probabilities
    options: dict[str, Any] = field(default_factory=dict)
    base: str = ""  # the end of the address that is not part of its base

    @property
    def extra(self) -> str:
        return self.model.partition("/")[0]

    @property
    def variable(self) -> str:
        return f"{self.extra.upper()}_API_KEY"

    def server(self, *script):
        return Api(in_turn(script))

    def load(self, url, **options):
        options = {"retries": 0, "timeout": 20.0} | self.options | options
        return load_judge(self.model, base_url=url.removesuffix(self.base) if self.base else url, **options)

    def ask(self, api, count=1, **options):
        return list(self.load(api.url, **options).judge(iter(pairs(count)), PROMPT))

    def failure(self, api, **options):
        """Why the one question has no answer: a failed judgement is never a tie."""
        [judgement] = self.ask(api, **options)
        assert judgement.failed
        assert math.isnan(judgement.p)
        return judgement.error

    def refused(self, text, status=400):
        if self.extra == "anthropic":
            return claude.refused(status, "invalid_request_error", text)
        return gemini.refused(status, "INVALID_ARGUMENT", text) if self.extra == "gemini" else refusal(status, text)


PROVIDERS = {
    "openai": Provider(
        model="openai/tiny",
        sure=words('{"better": "Summary A"}'),
        early=words("", reason="length"),
        aside=words("They are alike."),
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
        aside=claude.message("They are alike."),
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
        aside=gemini.replies("They are alike."),
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
def provider(request, monkeypatch):
    for name in ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    for one in PROVIDERS.values():
        monkeypatch.setenv(one.variable, KEY)
    return PROVIDERS[request.param]


def test_the_cost_is_unknown_where_tokens_are_not_counted(provider):
    reply = deepcopy(provider.sure)
    del reply.body[provider.usage]
    with provider.server(reply) as api:
        [judgement] = provider.ask(api, price=(1.0, 1.0))
    assert judgement.p == pytest.approx(0.75)
    assert math.isnan(judgement.cost)


def test_the_model_that_a_reply_names_is_kept_with_every_judgement(provider):
    field = "modelVersion" if provider.extra == "gemini" else "model"
    named = [
        replace(reply, body=reply.body | {field: name})
        for reply, name in [(provider.sure, "tiny-1"), (provider.aside, "tiny-2"), (provider.sure, f"{KEY}")]
    ]
    with provider.server(*named, provider.sure) as api:
        judgements = provider.ask(api, count=3, concurrency=1)
    assert [one.model for one in judgements[:2]] == ["tiny-1", "tiny-2"]
    assert [one.failed for one in judgements] == [False, True, False]
    assert judgements[2].model == "***"
    assert judgements[0].row()["model"] == "tiny-1"


def test_an_account_without_credit_stops_the_judge(provider):
    with provider.server(provider.sure, provider.refused("Pay first.", 402)) as api:
        with pytest.raises(JudgeError, match=r"no credit left .*402.*Pay first.*top it up"):
            provider.ask(api, count=9, concurrency=1)
        assert len(api.asked) <= 3


def test_https_to_a_server_without_it_names_http(provider):
    with provider.server(provider.sure) as api, pytest.raises(JudgeError, match=r"check base_url .*http://"):
        provider.ask(SimpleNamespace(url=api.url.replace("http:", "https:")))


def test_a_reply_that_ends_too_early_names_the_option(provider):
    with provider.server(provider.early) as api:
        assert "max_tokens" in provider.failure(api)


@pytest.mark.parametrize(
    ("reply", "part"), [(Reply(b"<html>"), "<html>"), (Reply([1]), "[1]"), (None, "They are alike.")]
)
def test_what_cannot_be_read_fails_with_its_beginning(provider, reply, part):
    with provider.server(reply or provider.aside) as api:
        assert f"'{part}'" in provider.failure(api)


@pytest.mark.parametrize("status", [429, 500, 503, 529])
def test_passing_trouble_is_tried_again(provider, status):
    busy = provider.busy(status)
    with provider.server(busy, busy, provider.sure) as api:
        [judgement] = provider.ask(api, retries=2)
    assert judgement.p == pytest.approx(0.75)
    assert len(api.requests) == 3


def test_trouble_that_lasts_fails_one_judgement(provider):
    with provider.server(provider.sure, provider.busy(503)) as api:
        first, second = provider.ask(api, count=2, retries=1, concurrency=1)
    assert not first.failed
    assert "503" in second.error
    assert "Overloaded" in second.error
    with provider.server(provider.sure, provider.refused("Strange.")) as api:
        first, second = provider.ask(api, count=2, concurrency=1)
    assert not first.failed
    assert "400" in second.error


def test_a_slow_server_and_one_that_breaks_off_are_given_up(provider):
    with provider.server(Reply(provider.sure.body, after=30)) as api:
        error = provider.failure(api, timeout=0.2)
    assert "1 tries of 0.2 s" in error
    assert "TimeoutError" in error


def test_a_server_with_tls_that_is_asked_without_ends_the_run(provider):
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)

    def shake_hands(connection):
        with suppress(OSError):
            tls.wrap_socket(connection, server_side=True)

    with raw_server(shake_hands) as url, pytest.raises(JudgeError, match=r"check base_url .*https://"):
        provider.ask(SimpleNamespace(url=url))
    with (
        provider.server(Reply(b"Client sent an HTTP request to an HTTPS server.", status=400)) as api,
        pytest.raises(JudgeError, match="https://"),
    ):
        provider.ask(api)


@pytest.mark.parametrize("text", [None, "no certificate"])
def test_certificates_that_cannot_be_read_are_named(provider, text, tmp_path, monkeypatch):
    path = tmp_path / "certificates.pem"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with pytest.raises(JudgeError, match="SSL_CERT_FILE"):
        provider.ask(SimpleNamespace(url="https://127.0.0.1:9/v1"))


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
    monkeypatch.delenv("GOOGLE_API_KEY", raising=False)
    provider.load(url).ready()
    assert sum("unencrypted" in record.getMessage() for record in caplog.records) == count
    assert KEY not in caplog.text


def test_no_server_at_all_ends_the_run(provider):
    url = "http://127.0.0.1:9/v1"
    with pytest.raises(JudgeError, match=r"http://127\.0\.0\.1:9.*\(ConnectError"):
        list(provider.load(url, timeout=5.0).judge(iter(pairs(1)), PROMPT))


def test_a_prompt_that_is_too_long_is_cut_and_sent_again(provider):
    question = Question("a", "b", None, "one " * 500, "two " * 500)
    with provider.server(provider.refused(provider.long), provider.sure) as api:
        [judgement] = provider.load(api.url).judge(iter([question]), PROMPT)
    assert judgement.p == pytest.approx(0.75)
    assert judgement.cut > 0
    before, after = (len(str(request.body)) for request in api.requests)
    assert after < before


def test_nothing_is_sent_to_where_a_redirect_points(provider):
    with provider.server(provider.sure) as other:
        elsewhere = Reply(status=307, headers={"Location": other.url})
        with Api(elsewhere) as api, pytest.raises(JudgeError) as caught:
            provider.ask(api)
        assert other.requests == []
    assert other.url.removesuffix("/v1") in str(caught.value)
    assert KEY not in str(caught.value)


def test_a_probe_is_one_small_question(provider):
    with provider.server(provider.sure) as api:
        asked = provider.load(api.url, effort="low")
        assert asked.probe().calls == 1
        [judgement] = asked.judge(iter(pairs(1)), PROMPT)
    assert [request.method for request in api.requests] == ["POST", "POST"]
    assert judgement.p == pytest.approx(0.75)


def test_a_missing_key_is_named_by_its_variable(provider, monkeypatch):
    monkeypatch.delenv(provider.variable)
    with pytest.raises(JudgeError, match=provider.variable):
        load_judge(provider.model.replace("tiny", "gpt-6-luna")).ready()


def test_a_missing_library_is_named_by_the_command_that_installs_it(provider, monkeypatch):
    monkeypatch.setitem(sys.modules, "httpx2", None)
    with pytest.raises(ImportError, match=rf"\[{provider.extra}\]"):
        load_judge(provider.model).ready()


def test_the_command_ranks(provider, tmp_path, run):
    items = tmp_path / "items.csv"
    items.write_text("id,text\n" + "".join(f"t{k},This is number {k}.\n" for k in range(8)))
    with provider.server(provider.larger) as api:
        url = api.url.removesuffix(provider.base) if provider.base else api.url
        flags = ["--criterion", "larger", "--judge", provider.model, "--base-url", url, "--price", "1,5"]
        done = run(tmp_path, ["rank", items, *flags, "--budget", "40", "--out", "run"], **{provider.variable: KEY})
    assert done.returncode == 0, done.stderr
    assert done.stdout.index("t7") < done.stdout.index("t4") < done.stdout.index("t0")
    assert sum(request.method == "POST" for request in api.asked) == 40


# Line-ups

FOUR = PROMPT.resized(4)
LINEUP = Question("a", Rest("bcd")).with_texts(["one " * 500, "two " * 500, "three", "four"])


@pytest.mark.parametrize("votes", [1, 5])
def test_a_line_up_is_answered_by_an_order(provider, votes):
    with provider.server(provider.says('{"order": "C>A>D>B"}'), provider.says("C, A")) as api:
        judge = provider.load(api.url, votes=votes, price=(1.0, 5.0), concurrency=1)
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
    with provider.server(provider.says('{"order": "C>A>D>B"}')) as api:
        [judgement] = provider.load(api.url, votes=1).judge([LINEUP], prompt.resized(4))
    assert not judgement.failed
    assert re.findall(r"Answer (?:only )?with", str(api.requests[0].body)) == ["Answer only with"]


@pytest.mark.parametrize("provider", ["openai", "gemini"], indirect=True)  # Claude gives none
def test_a_line_up_is_answered_by_log_probabilities(provider):
    reply = provider.shows({"Summary": 1.0}, {" C": 0.5, " A": 0.25, "c": 0.0625, " B": 0.125, "The": 0.03125})
    with provider.server(provider.refused(provider.long), reply) as api:
        [judgement] = provider.load(api.url, votes=0).judge([LINEUP], FOUR)
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


def numbers(request):
    """The numbers of the texts in a request, in slot order."""
    parts = request.body["messages"][0]["content"].split("number ")[1:]
    return dict(zip("ABCDEFGH", [int(part.partition(".")[0]) for part in parts], strict=False))


@pytest.mark.parametrize("votes", [0, 1])
def test_a_run_of_line_ups(votes, tmp_path):
    def reply(request):
        shown = numbers(request)
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
