"""Long work: lines in a log, a list of runs that is shown again and again, a bar, and why a run ended."""

import io
import json
import re
from itertools import pairwise

import pytest

from comparo import JudgeError, load_judge, rank, rejudge
from comparo.cli.runs import watch_runs
from comparo.run.stopping import stop_sentence
from inside import Bar, Console, Progress, Simulated, prepare_rank, watched
from stored import QUALITY, ROWS, one_voice, two_voices

LINE = re.compile(r"\d+/60 calls  [\d,.]+/s")


def log():
    return Console(file=io.StringIO(), force_terminal=False, highlight=False, width=200)


def test_a_run_that_is_shorter_than_a_minute_says_nothing_and_a_longer_one_does(tmp_path):
    def go(folder, console, *pace):
        with watched(console, *pace) as watch:
            one_voice(tmp_path / folder, watch=watch)
        return console.file.getvalue()

    assert not LINE.findall(go("short", log()))
    assert LINE.findall(go("long", log(), 0.0))
    assert go("quiet", Console(file=io.StringIO(), quiet=True), 0.0) == ""


@pytest.mark.parametrize("is_terminal", [True, False])
def test_judgements_reach_a_file_whether_or_not_the_progress_is_on_a_terminal(run, tmp_path, is_terminal):
    (tmp_path / "items.jsonl").write_text("".join(json.dumps({"id": name, "text": name}) + "\n" for name in "abcd"))
    (tmp_path / "pairs.csv").write_text("first,second\n" + "".join(f"{a},{b}\n" for a, b in pairwise("abcd")))
    (tmp_path / "answers.csv").write_text("first,second,p\n" + "".join(f"{a},{b},0.7\n" for a, b in pairwise("abcd")))
    words = ["judge", "pairs.csv", "--items", "items.jsonl", "--judge", "replay/answers.csv", "--criterion", "x"]
    done = run(tmp_path, words, **({"FORCE_COLOR": "1"} if is_terminal else {}))
    assert [line[:3] for line in done.stdout.splitlines()] == ["fir", "a,b", "b,c", "c,d"], done.stderr
    assert ("calls" in done.stderr) == is_terminal


@pytest.mark.parametrize("is_terminal", [True, False])
def test_the_list_of_runs_is_shown_while_a_run_goes_on_until_interrupted(tmp_path, capfd, is_terminal):
    console = Console(file=io.StringIO(), force_terminal=True, width=200) if is_terminal else log()
    waits = []

    def wait(seconds):
        """There are more answers at the third look than at the second, while the run holds its folder."""
        waits.append(seconds)
        if len(waits) == 3:
            raise KeyboardInterrupt
        if len(waits) == 2:
            run.finish()

    judge = load_judge("simulated/soft", scores=QUALITY)
    with prepare_rank(ROWS, "better", judge=judge, budget="5n", out=tmp_path / "run").base.started() as run:
        watch_runs(tmp_path, console, wait)
    said = console.file.getvalue() if is_terminal else capfd.readouterr().out
    assert waits == [2.0 if is_terminal else 60.0] * 3
    assert [int(number) for number in re.findall(r"5n +(\d+)", said)][:3] == [0, 0, 60]


def test_watching_an_empty_folder_and_a_wrong_format(run, tmp_path, capfd):
    def stop(_):
        raise KeyboardInterrupt

    watch_runs(tmp_path, log(), stop)
    assert "answered" in capfd.readouterr().out
    done = run(tmp_path, ["runs", ".", "--watch", "--format", "csv"])
    assert done.returncode == 2
    assert "--format csv" in done.stderr


class Calm(Simulated):
    """A judge that works on few questions at once: rounds are small, so that there is something left to stop."""

    ahead = 4


def ended(rows=ROWS, strength=3.0, **options):
    """The sentence about the end of a run, and the run."""
    judge = Calm("soft", scores={name: strength * score for name, score in QUALITY.items()}, noise=0.1)
    plan = prepare_rank(rows, "better", judge=judge, **options).base
    ranking, run = plan.run(), plan.loop
    progress = run.progress
    return stop_sentence(run.task, ranking, run.contexts.rounds, progress.answered, progress.total), run


def test_the_end_of_a_run_says_whether_and_at_what_it_stopped():
    said, run = ended(until=0.9, budget="100%")
    assert run.progress.answered < run.progress.total
    pattern = r"stopped by until=0\.9 after (\d+) of at most 60 calls.*Spearman correlation .*[01]\.\d+ .*[01]\.\d+ "
    found = re.match(pattern, said)
    assert found, said
    assert int(found[1]) == run.progress.answered
    said, run = ended(until=0.9999, budget="3n", rows=ROWS[:6], strength=0.1)
    assert run.progress.answered == run.progress.total
    assert re.fullmatch(r"not .*until=0\.9999.*0\.\d+; .*budget.*", said)
    said, _ = ended(until=0.8, goal="top-2", budget="100%", rows=ROWS[:6])
    assert re.search(r"best 2 .*[01]\.\d+", said)
    said, _ = ended(until=0.8, goal="best-system", budget="100%", rows=[row | {"group": row["id"]} for row in ROWS])
    assert "system is right" in said


def test_some_contexts_may_stop_and_others_not():
    """In one context texts differ clearly, in the other hardly."""
    rows = [row | {"id": f"{row['id']} {row['context_id']}"} for row in ROWS]
    scores = {row["id"]: QUALITY[row["id"][:2]] * (4 if row["context_id"] == "x" else 0.001) for row in rows}
    judge = Calm("soft", scores=scores, noise=0.1)
    rows = [{name: value for name, value in row.items() if name != "group"} for row in rows]
    plan = prepare_rank(rows, "better", judge=judge, until=0.9, budget="100%").base
    ranking, run = plan.run(), plan.loop
    sure = [one.is_sure for one in run.contexts.rounds.values()]
    said = stop_sentence(run.task, ranking, run.contexts.rounds, 50, 60)
    assert sum(sure) == 1
    assert re.match(r"until=0\.9 .*1 of 2", said)


@pytest.mark.long
def test_the_command_prints_how_it_ended_unless_there_was_no_target(run, tmp_path):
    lines = [f'{{"id": "i{k}", "text": "Text {k}.", "score_wit": {k / 3}}}' for k in range(30)]
    (tmp_path / "items.jsonl").write_text("\n".join(lines))
    words = ["rank", "items.jsonl", "--judge", "simulated/soft", "-o", "scores=wit", "-o", "noise=0.1"]
    done = run(tmp_path, [*words, "--out", "a", "--until", "0.9", "--budget", "20n"])
    assert done.returncode == 0, done.stderr
    assert re.search(r"^stopped by --until 0\.9.*\d+ calls", done.stderr, re.MULTILINE)
    assert "--until" not in run(tmp_path, [*words, "--out", "b"]).stderr


def test_a_bar_ends_at_the_last_call_and_ends_its_line(tmp_path, capfd):
    one_voice(tmp_path / "run", watch="bar")
    said = capfd.readouterr().err
    assert said.endswith("\n")
    last = said.removesuffix("\n").split("\r")[-1].rstrip()
    assert last.startswith("100%|████████████████████| 60/60 calls")
    assert all(len(line) <= 79 for line in said.splitlines()[-1].split("\r"))
    judge = load_judge("simulated/hard", scores=QUALITY)
    rejudge(tmp_path / "run", judge, watch="bar")
    assert "100%|" in capfd.readouterr().err
    two_voices(tmp_path / "two", watch="bar")
    assert "120/120 calls" in capfd.readouterr().err


def test_a_bar_is_closed_where_the_run_breaks_off(capfd):
    def refuse(_first, _second):
        raise JudgeError("no more")

    plan = prepare_rank(["A.", "B.", "C."], "better", judge=refuse).base

    def go():
        with plan.started("bar") as run:
            run.watch(run.progress)
            run.finish()

    with pytest.raises(JudgeError, match="no more"):
        go()
    assert capfd.readouterr().err.startswith("\r  0%|                    | 0/6 calls  0.0/s\n")


def test_a_function_that_watches_sees_the_end_and_a_wrong_word_is_refused_first():
    seen, asked = [], []

    def judge(first, second):
        asked.append((first, second))
        return 0.6

    rank(["A.", "B.", "C."], "better", judge=judge, watch=lambda progress: seen.append(progress.answered))
    assert seen[-1] == 6
    before = len(asked)
    with pytest.raises(ValueError, match="'line'"):
        rank(["A.", "B.", "C."], "better", judge=judge, watch="line")
    assert len(asked) == before


def test_a_shorter_line_leaves_nothing_of_a_longer_one():
    stream = io.StringIO()
    bar = Bar(stream)
    bar(Progress(total=10, answered=3, failed=2, cost=1.5))
    bar(Progress(total=10, answered=5))
    first, second = stream.getvalue().split("\r")[1:]
    assert len(second) == len(first)
    assert second.rstrip() == " 50%|██████████          | 5/10 calls  0.0/s"
