"""What every API of batches does, whoever hosts it: one contract for OpenAI's Batch API and Anthropic's."""

import os
import signal
import sqlite3
import threading
from contextlib import closing

import pytest

import comparo
from batch_runs import CALLS, ENDPOINTS, KINDS, LINED_UP, SIZE, answers, check_whole, go, meet, task, texts, work
from batch_server import jsonl
from comparo import JudgeError, PendingError, RunError
from inside import Run, Storage, Store, check_batch, list_runs, read_judgements, waiting_for
from processes import CONTEXT
from servers import KEY, Reply
from split import one_short

pytestmark = pytest.mark.usefixtures("keys")


@pytest.fixture(params=[*ENDPOINTS, *(pytest.param(name, marks=pytest.mark.long) for name in LINED_UP)])
def endpoint(request):
    return (ENDPOINTS | LINED_UP)[request.param]


@pytest.fixture
def server(endpoint):
    with endpoint.server() as made:
        yield made


@pytest.fixture
def begin(endpoint, server, tmp_path):
    """Begins a run in a folder, or goes on with it."""
    return lambda name="run", **more: go(server.url, tmp_path / name, **endpoint.options | more)


def refused(status, text):
    kind = "invalid_request_error" if status < 500 else "api_error"
    return Reply({"type": "error", "error": {"type": kind, "message": text}}, status=status)


def once(server, wanted):
    """Break one request off at a moment."""
    lost = []

    def at(moment):
        if moment == wanted and not lost:
            lost.append(moment)
            raise ConnectionAbortedError

    server.does.at = at
    return lost


def test_all_questions_but_one_go_in_one_batch_at_half_the_price(endpoint, server, begin, tmp_path):
    ranking, run = begin()
    order = ranking.to_columns()["item"].tolist()
    assert {*order[:3]} >= {f"t{SIZE - 1}", f"t{SIZE - 2}"}
    check_whole(server, tmp_path / "run")
    assert len(server.direct) == 1
    [batch] = server.made
    assert len(batch["lines"]) == CALLS - 1
    sent = batch["lines"][0].get("body") or batch["lines"][0]["params"]
    assert sent == {**server.direct[0], "messages": sent["messages"]}
    assert [path.name for path in (tmp_path / "run").glob(".*.jsonl")] == []
    assert run.progress.answered == CALLS
    costs = sorted(one.cost for one in answers(tmp_path / "run"))
    assert costs == pytest.approx([costs[0]] * (CALLS - 1) + [2 * costs[0]])
    assert run.progress.cost == pytest.approx(sum(costs))
    live = task(server.url, **endpoint.options)
    assert check_batch(live, has_folder=True).expense.cost == pytest.approx(live.expense.cost / 2)


def test_a_batch_is_collected_later_and_no_question_is_asked_twice(server, begin, tmp_path):
    folder = tmp_path / "run"
    server.does.looks = -1
    for _ in range(2):
        with pytest.raises(PendingError, match="0 of 39"):
            begin(mode="submit")
    assert len(answers(folder)) == 1
    assert waiting_for(folder).partition(", ")[2].startswith("0 of 39 ")
    assert list_runs(tmp_path)[0].batch == waiting_for(folder)
    server.does.looks = 0
    begin(mode="submit")
    assert len(server.made) == 1
    check_whole(server, folder)
    assert waiting_for(folder) == ""
    begin()  # finished: nothing is asked
    check_whole(server, folder)


@pytest.mark.parametrize("lineup", [2, 4])
def test_rank_submits_and_collects(endpoint, server, tmp_path, lineup):
    server.does.looks = -1
    judge, effort = endpoint.options["judge"], endpoint.options.get("effort")
    options = {"judge": f"{judge}; base_url={server.url}" + (f", effort={effort}" if effort else "")}
    options |= {"budget": CALLS, "out": tmp_path / "run", "lineup": lineup}
    with pytest.raises(PendingError):
        comparo.rank(texts(), "better", **options | {"out": Storage(tmp_path / "run", batch="submit")})
    server.does.looks = 0
    ranking = comparo.rank(texts(), "better", **options | {"out": Storage(tmp_path / "run", batch="wait")})
    assert len(server.made) == 1
    check_whole(server, tmp_path / "run")
    assert {len(one.question.items) for one in answers(tmp_path / "run")} == {lineup}
    assert ranking.comparisons.answers == CALLS
    if lineup > 2:
        assert ranking.to_columns()["item"].tolist() == [f"t{number}" for number in reversed(range(SIZE))]
        more = options | {"budget": CALLS + 10, "out": Storage(tmp_path / "run", batch="wait")}
        assert comparo.rank(texts(), "better", **more).comparisons.answers == CALLS + 10  # other line-ups
        check_whole(server, tmp_path / "run", CALLS + 10)


def test_votes_are_one_request_each_where_there_is_no_n_and_an_order_is_one(endpoint, server, begin, tmp_path):
    lineup = endpoint.options.get("lineup", 2)
    votes = 3 if lineup == 2 else 1
    usual = server.does.answer
    if endpoint.variable.startswith("OPENAI"):
        said = '{"better": "Text A"}' if lineup == 2 else '{"order": "B>A>D>C"}'
        reply = {"message": {"content": said}, "finish_reason": "stop", "index": 0}
        usual = lambda _: Reply({"choices": [reply], "usage": {"prompt_tokens": 9, "completion_tokens": 2}})  # noqa: E731
    server.does.answer = usual
    begin(votes=3)
    assert len(server.made[0]["lines"]) == votes * (CALLS - 1)
    found = answers(tmp_path / "run")
    assert (len(found), {one.weight for one in found}) == (CALLS, {float(votes)})


def test_lines_that_failed_have_their_reason_and_only_the_servers_faults_are_tried_again(
    endpoint, server, begin, tmp_path
):
    outcomes = {1: "expired", 2: refused(400, "too bad"), 3: refused(500, "oops"), 4: "missing"}
    server.does.outcome = lambda batch, line: outcomes.get(line, "ok") if batch == 0 else "ok"
    _, run = begin()
    assert (run.progress.answered, run.progress.failed) == (CALLS - 1, 1)
    assert [len(batch["lines"]) for batch in server.made] == [39, 3]
    errors = [one.error for one in read_judgements(tmp_path / "run") if one.failed]
    assert len(errors) == 4
    for said in ("expired", "too bad", "oops", "unanswered in the batch: "):
        assert any(said in error for error in errors), said
    live = task(server.url, **endpoint.options)
    store = Store(tmp_path / "run", live.identity, live.configuration)
    Run(live, store).go()  # by single calls, all that failed is asked once more
    store.close()
    assert len(answers(tmp_path / "run")) == CALLS


def test_lines_that_always_expire_are_failed_in_the_end(server, begin):
    server.does.outcome = lambda _, line: "expired" if line < 2 else "ok"
    _, run = begin()
    assert len(server.made) == 3
    assert (run.progress.answered, run.progress.failed) == (CALLS - 2, 2)
    begin()
    assert len(server.made) == 3  # another start does not go on for ever


@pytest.mark.parametrize("kind", one_short(sorted(KINDS, key=lambda name: not KINDS[name].stops)))
def test_results_of_every_kind_lose_nothing_and_pay_for_nothing_twice_without_a_word(endpoint, tmp_path, kind):
    found = meet(endpoint, KINDS[kind], tmp_path / "run")
    assert (found.said is not None) == KINDS[kind].stops
    assert found.said is None or "cancel" in found.said
    assert (found.again, found.lost, found.doubled) == (0, 0, 0)


def test_results_that_are_whole_at_the_second_download_are_taken(endpoint, server, begin, tmp_path):
    whole, downloads = [], []

    def half(_, lines):
        whole.extend(lines)
        return lines[::2]

    def at(moment):
        if moment == f"after {endpoint.download}":
            downloads.append(moment)
            [batch] = server.made
            batch["results"] = whole
            server.files[f"{batch['id']}-output_file_id"] = {"content": jsonl(whole)}

    server.does.lines, server.does.at = half, at
    begin()
    assert len(downloads) == 2
    check_whole(server, tmp_path / "run")


def test_results_that_are_never_whole_stop_only_their_own_batch(server, begin, tmp_path, monkeypatch):
    for name in ("batch_endpoints.OpenAIBatches", "batch_endpoints.AnthropicBatches"):
        monkeypatch.setattr(f"comparo.judges.{name}.most_lines", 15)
    server.does.lines = lambda batch, lines: lines if batch else lines[2:]
    for _ in range(2):
        with pytest.raises(JudgeError, match="2 lines"):
            begin()
        assert [len(batch["lines"]) for batch in server.made] == [15, 15, 9]
        assert len(answers(tmp_path / "run")) == CALLS - 2
    with pytest.raises(PendingError, match="38 answers"):
        begin(mode="cancel")
    begin()
    assert [len(batch["lines"]) for batch in server.made] == [15, 15, 9, 1]  # and one directly
    assert len(answers(tmp_path / "run")) == CALLS


def test_many_failures_end_the_run(server, begin):
    server.does.outcome = lambda *_: refused(400, "no")
    with pytest.raises(RunError, match="39 of 40"):
        begin()
    assert len(server.made) == 1


def test_a_wrong_key_costs_nothing(server, begin):
    server.does.key = "sk-other"
    with pytest.raises(JudgeError, match="refused the key"):
        begin()
    assert server.made == []
    server.does.key, server.does.looks = KEY, -1
    with pytest.raises(PendingError):
        begin(mode="submit")
    server.does.key = "sk-other"
    with pytest.raises(JudgeError, match="refused the key"):
        begin()


def test_a_cancelled_batch_keeps_what_was_answered(server, begin, tmp_path):
    server.does.looks = -1
    with pytest.raises(PendingError):
        begin(mode="submit")
    with pytest.raises(PendingError, match=r"2[01] answers"):
        begin(mode="cancel")
    server.does.looks = 0
    begin()
    check_whole(server, tmp_path / "run")


@pytest.mark.parametrize("mode", ["wait", "submit"])
def test_a_batch_that_somebody_else_cancelled_is_an_error_that_says_so(endpoint, server, begin, tmp_path, mode):
    server.does.looks = -1
    with pytest.raises(PendingError):
        begin(mode="submit")
    judge = check_batch(task(server.url, **endpoint.options), has_folder=True)
    with closing(judge.judge.batches(judge.prompt)) as elsewhere:
        elsewhere.cancel(server.made[0]["id"])
    with pytest.raises(RunError, match=r"2[01] answers") as caught:
        begin(mode=mode)
    assert not isinstance(caught.value, PendingError)
    server.does.looks = 0
    begin(mode=mode)
    check_whole(server, tmp_path / "run")


@pytest.mark.parametrize(
    ("when", "behind", "mode"),
    [("before", 0.0, "wait"), ("before", 0.0, "submit"), *(("after", by, "wait") for by in (-7200.0, 600.0, 7200.0))],
)
def test_a_creation_or_its_answer_may_be_lost_whatever_the_clocks_say(server, begin, tmp_path, when, behind, mode):
    server.does.behind = behind
    lost = once(server, f"{when} POST batches")
    begin(mode=mode)
    assert lost
    assert len(server.made) == 1
    check_whole(server, tmp_path / "run")


@pytest.mark.parametrize("looks", one_short([-1, 0]))
def test_of_two_batches_alike_each_run_finds_its_own(server, begin, tmp_path, looks):
    """Both have as many requests and nearly the same time; at Anthropic only their results tell whose they are."""
    server.does.looks = -1
    for name in ("one", "two"):
        with pytest.raises(PendingError):
            begin(name, mode="submit")
        with sqlite3.connect(tmp_path / name / "judgements.db") as connection:  # as if killed before its id was stored
            connection.execute("UPDATE batches SET id = NULL, status = 'sent'")
    server.does.looks = 0
    if looks == 0:  # both have ended before they are looked for
        for batch in server.made:
            server.move(batch)
    for name in ("one", "two"):
        begin(name)
        assert len(answers(tmp_path / name)) == CALLS
    assert len(server.made) == 2


@pytest.mark.long
@pytest.mark.parametrize("wanted", ["download", "before POST batches"])
def test_a_process_may_be_killed_within_a_request(endpoint, server, begin, tmp_path, wanted):
    wanted = f"after {endpoint.download}" if wanted == "download" else wanted
    processes, is_killed, is_there = [], threading.Event(), threading.Event()

    def at(moment):
        if moment == wanted and not is_killed.is_set():
            assert is_there.wait(60)
            os.kill(processes[0].pid, signal.SIGKILL)
            is_killed.set()

    server.does.at = at
    arguments = (server.url, tmp_path / "run", {endpoint.variable: KEY})
    processes.append(CONTEXT.Process(target=work, args=arguments, kwargs=endpoint.options))
    processes[0].start()
    is_there.set()
    processes[0].join(60)
    assert processes[0].exitcode == -signal.SIGKILL
    assert is_killed.wait(60)
    begin()
    assert len(server.made) == 1
    check_whole(server, tmp_path / "run")
