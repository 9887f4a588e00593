"""comparo rank as a user meets it: servers that fail, money, keys, recorded judgements, flags from elsewhere."""

import csv
import json
import re
from pathlib import Path

import pytest

from comparo.errors import OptionError
from inside import Budget, Progress, progress_line, read_judgements
from servers import Api, refusal, tokens

DATA = Path(__file__).parents[2] / "shared" / "data"
KEY = "sk-a-key-that-must-appear-nowhere"
YES = tokens({"A": 0.7, "B": 0.3})


@pytest.fixture
def comparo(run):
    return lambda *arguments, folder, **variables: run(folder, arguments, **variables)


@pytest.fixture
def folder(tmp_path):
    rows = [{"id": f"item {k}", "text": f"Text number {k}.", "score_wit": k} for k in range(12)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def ask(api, *more):
    options = (
        "--judge",
        "openai/any",
        "--base-url",
        api.url,
        "-o",
        "concurrency=2",
        "-o",
        "retries=0",
        "-o",
        "timeout=5",
    )
    return ("rank", "items.jsonl", "--criterion", "better", "--out", "run", "--budget", "4n", *options, *more)


@pytest.mark.long
def test_a_server_that_goes_away_for_good_stops_the_run_which_goes_on_when_it_is_back(comparo, folder):
    with Api(*[YES] * 30, refusal(503, "gone for good")) as api:
        done = comparo(*ask(api), folder=folder)
        assert done.returncode == 1
        assert "judgements failed" in done.stderr
        assert "judged is kept" in done.stderr
        assert "Traceback" not in done.stderr
        assert sum(not one.failed for one in read_judgements(folder / "run")) == 29  # and the probe
        before = len(api.requests)
        api.script = (YES,)
        again = comparo(*ask(api), folder=folder)
        assert again.returncode == 0, again.stderr
        assert len(api.requests) - before == 19
        assert "48 of 132 " in again.stderr


def test_a_wrong_key_stops_at_once_and_the_key_appears_nowhere(comparo, folder):
    with Api(refusal(401, f"Incorrect API key provided: {KEY}")) as api:
        done = comparo(*ask(api), folder=folder, OPENAI_API_KEY=KEY)
        assert done.returncode == 1
        assert "OPENAI_API_KEY" in done.stderr
        assert len(api.requests) <= 2
        api.script = (YES,)
        done = comparo(*ask(api), folder=folder, OPENAI_API_KEY=KEY)
        assert done.returncode == 0, done.stderr
        assert api.requests[-1].headers["authorization"] == f"Bearer {KEY}"
    written = b"".join(path.read_bytes() for path in (folder / "run").rglob("*") if path.is_file())
    assert KEY.encode() not in written
    assert KEY not in done.stdout + done.stderr


def test_a_dry_run_says_what_it_would_take_and_asks_nothing(comparo, folder):
    with Api(YES) as api:
        done = comparo(*ask(api, "--dry-run", "--price", "1,1"), folder=folder)
    assert done.returncode == 0
    assert "48 calls" in done.stdout
    assert "at most $0.00" in done.stdout
    assert "Text is better," in done.stdout
    assert not api.requests
    assert not (folder / "run").exists()


@pytest.mark.parametrize(
    ("characters", "more", "warns"),
    [(2_000_000, (), "128,000"), (2_000_000, ("-o", "window=2000000"), None), (8000, ("-o", "window=1000"), "1,000")],
)
def test_a_prompt_that_exceeds_the_context_window_is_named_before_anything_is_asked(
    comparo, tmp_path, characters, more, warns
):
    rows = [{"text": "x" * characters}, {"text": "short", "context_id": 1}, {"text": "y" * characters}]
    rows.append({"text": "short, too", "context_id": 1})
    (tmp_path / "items.jsonl").write_text("\n".join(json.dumps({"context_id": 0} | row) for row in rows))
    with Api(YES) as api:
        planned = comparo(*ask(api, *more, "--dry-run"), folder=tmp_path)
        assert not api.requests
        (line,) = (line for line in planned.stdout.splitlines() if "longest prompt" in line)
        tokens_said = int(re.search(r"about ([\d,]+) tokens", line)[1].replace(",", ""))
        assert 2 * characters / 4 < tokens_said < 2 * characters / 4 + 50
        assert re.findall(r"openai/any \(([\d,]+) tokens", line) == ([warns] if warns else [])
        if characters < 10_000:
            done = comparo(*ask(api, *more), folder=tmp_path)
            assert line in done.stderr


@pytest.mark.long
@pytest.mark.recorded
def test_summeval_by_recorded_judgements_in_one_command(comparo, tmp_path):
    judge = f"replay/{DATA / 'judgements' / 'summeval.relevance.csv.gz'}"
    done = comparo(
        "rank", DATA / "summeval.jsonl", "--judge", judge, "--budget", "3n", "--format", "csv", folder=tmp_path
    )
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(done.stdout.splitlines()))
    assert len(rows) == 1600
    assert len({row["context"] for row in rows}) == 100
    assert "4,800 of 24,000 " in done.stderr
    line = next(line for line in done.stderr.splitlines() if "with relevance" in line)
    assert "of 100 contexts" in line
    assert 0.35 < float(line.split(": ")[1].split(",")[0]) < 0.45
    assert "validity 0.15" in done.stderr


def test_flags_come_from_the_environment_and_from_a_file(comparo, folder):
    (folder / "comparo.toml").write_text('judge = "simulated/soft"\n[rank]\nbudget = "3n"\nformat = "csv"\n')
    done = comparo("rank", "items.jsonl", "-o", "scores=wit", folder=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("item,score,")
    assert "36 of 132" in done.stderr
    done = comparo("rank", "items.jsonl", folder=folder, COMPARO_BUDGET="5n", COMPARO_FORMAT="json")
    assert len(json.loads(done.stdout)["ranking"]) == 12
    assert "60 of 132" in done.stderr
    (folder / "comparo.toml").write_text("judgde = 3\n")
    done = comparo("rank", "items.jsonl", folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert re.search(r"comparo\.toml: .*flag 'judgde'", done.stderr)


def test_runs_and_reports_are_found_again(comparo, folder):
    first = comparo("rank", "items.jsonl", "--judge", "simulated/soft", "-o", "scores=wit", "--quiet", folder=folder)
    assert (first.returncode, first.stderr) == (0, "")
    assert "Spearman" not in first.stdout
    listed = comparo("runs", "--format", "csv", folder=folder)
    (row,) = csv.DictReader(listed.stdout.splitlines())
    assert row["answered"] == "120"
    (Path(folder, row["folder"]) / "report.html").unlink()
    made = comparo("runs", "--report", row["folder"], folder=folder)
    assert Path(folder, made.stdout.strip()).stat().st_size > 10_000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["none.jsonl", "--criterion", "x"], "does not exist"),
        (["items.jsonl", "--judge", "openai/any"], "say what makes a text better"),
        (["missing.jsonl", "--criterion", "x", "--budget", "lots"], "--budget lots is none of"),  # before data are read
        (["items.jsonl", "--criterion", "x", "--budget", "5"], "cannot connect the 12 items"),
        (["items.jsonl", "--criterion", "x", "--until", "95"], "not between 0 and 1"),
        (["items.jsonl", "--criterion", "x", "--goal", "best"], "goal is 'ranking' or 'top-'"),
        (["items.jsonl", "--criterion", "x", "--budget", "$1"], "needs the judge's price"),
        (["items.jsonl", "--criterion", "x", "--context", "article"], "there is no column 'article'"),
        (["items.jsonl", "--prompt", "none.txt"], "no such file"),
    ],
)
def test_a_wrong_command_is_one_line_and_leaves_nothing(comparo, folder, arguments, message):
    done = comparo("rank", "--judge", "simulated/soft", *arguments, folder=folder)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert not (folder / "comparo-runs").exists()


@pytest.mark.parametrize(
    ("text", "sizes", "calls"),
    [
        ("7n", {None: 20}, {None: (140, "one")}),
        ("10%", {"x": 21, "y": 11}, None),
        ("95", {"x": 10, "y": 9}, {"x": (50, "both"), "y": (45, "both")}),
        ("1,000", {None: 1000}, {None: (1000, "one")}),
        ("1e3", {None: 1000}, "error"),
        ("$5n", {None: 10}, "error"),
        ("0", {None: 10}, "error"),
        ("10%", {"x": 21, "y": 21}, {"x": (42, "one"), "y": (42, "one")}),
    ],
)
def test_budgets(text, sizes, calls):
    if calls == "error":
        with pytest.raises(OptionError) as refused:
            Budget.of(text)
        assert (refused.value.option, refused.value.value) == ("budget", text)
    elif calls is None:
        assert Budget.of(text).calls(sizes) == {"x": (42, "one"), "y": (11, "one")}
    else:
        assert Budget.of(text).calls(sizes) == calls


def test_the_line_of_progress_tells_calls_rate_time_cost_and_failures():
    progress = Progress(1000, answered=490, failed=10, cost=1.234, asked=500)
    progress.started -= 50
    line = progress_line(progress).plain
    assert "500/1,000 calls" in line
    assert "10.0/s" in line
    assert "50 s left" in line
    assert "$1.23" in line
    assert "10 failed" in line
