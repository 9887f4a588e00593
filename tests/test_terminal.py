"""What reaches a terminal, what is said of a command before and after it ran, and which exit code ends it."""

import csv
import io
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import comparo
from inside import (
    COMMANDS,
    GUARDED,
    SPENT,
    Console,
    command_line,
    load_command,
    name_of,
    options_of,
    print_table,
    read_configuration,
    visible,
)
from servers import Api, tokens
from split import one_short

EVIL = "a\x1b[31m\x9b2J\x07\u202eb\u2066\ud83d"
SHOWN = "a\\u001b[31m\\u009b2J\\u0007\\u202eb\\u2066\\ud83d"
OBEYED = [chr(number) for number in (*range(9), *range(11, 32), *range(127, 160), 0x061C, 0x200E, 0x200F)]
OBEYED += [chr(number) for number in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))]


@pytest.fixture
def folder(tmp_path):
    rows = [{"id": f"item {k}", "text": f"Text number {k}.", "score_wit": k} for k in range(6)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return tmp_path


def simulated(*more):
    return ["rank", "items.jsonl", "--judge", "simulated/soft", "-o", "scores=wit", "--out", "run", *more]


def test_text_from_elsewhere_cannot_act_on_a_terminal():
    assert visible(EVIL) == SHOWN
    assert not set(visible("".join(OBEYED))) & set(OBEYED)
    assert visible("é 漢字 👋 שלום\n\t") == "é 漢字 👋 שלום\n\t"
    assert visible("a\nb\tc", lines=False) == "a\\nb\\tc"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_console_shows_escapes_and_keeps_its_own(terminal):
    console = Console(file=io.StringIO(), force_terminal=terminal, color_system="standard" if terminal else None)
    console.print(EVIL[:-1], style="red", markup=False, highlight=False)
    said = console.file.getvalue()
    assert SHOWN[:-6] in said
    assert said.startswith("\x1b[31m") == terminal
    assert "\x9b" not in said


def test_a_table_keeps_one_line_a_row(capfd):
    print_table(["item", "score"], [(f"{EVIL}\nx", 1.0)])
    said = capfd.readouterr().out
    assert f"{SHOWN}\\nx" in said
    assert len(said.splitlines()) == 2


def test_errors_and_notes_are_shown_and_not_obeyed(run, tmp_path):
    (tmp_path / "pairs.csv").write_text(f"first,second,p\na,{EVIL[:-1]},7\n", encoding="utf-8")
    done = run(tmp_path, ["fit", "pairs.csv"])
    assert done.returncode == 2
    (tmp_path / f"{EVIL[:-1]}.csv").write_text("first,second,winner\na,b,a\na,c,\n", encoding="utf-8")
    done = run(tmp_path, ["fit", f"{EVIL[:-1]}.csv"])
    assert f"{SHOWN[:-6]}.csv: 1 of 2 " in done.stderr
    assert "\x1b" not in done.stderr
    done = run(tmp_path, ["fit", f"{EVIL[:-1]}none.csv"])
    assert done.stderr.startswith(f"comparo: {SHOWN[:-6]}none.csv ")


def on_terminal(arguments, folder, reply=b"", **environment):
    """What a command writes to a terminal, and its exit code, after it has been given a reply."""
    pty = pytest.importorskip("pty", reason="there are no such terminals here")
    ours, theirs = pty.openpty()
    variables = {name: value for name, value in os.environ.items() if not name.startswith("COMPARO_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "comparo.cli", *arguments],
        cwd=folder,
        env=variables | {"TERM": "dumb", "COLUMNS": "200"} | environment,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    said = b""
    os.write(ours, reply)
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        said += part
    os.close(ours)
    return process.wait(), said.decode()


@pytest.mark.long
def test_results_in_csv_are_as_they_are_in_a_pipe_and_harmless_on_a_terminal(run, tmp_path):
    name = EVIL[:-1]
    (tmp_path / "pairs.csv").write_text(f"first,second,p\na,{name},0.7\n", encoding="utf-8")
    done = run(tmp_path, ["fit", "pairs.csv", "--format", "csv"])
    assert [row["item"] for row in csv.DictReader(io.StringIO(done.stdout))] == ["a", name]
    code, said = on_terminal(["fit", "pairs.csv", "--format", "csv"], tmp_path)
    assert code == 0
    assert SHOWN[:-6] in said
    assert not set(said) & set("\x1b\x9b\x07\u202e\u2066")


def test_a_found_file_that_sends_keys_elsewhere_is_refused_unless_it_is_named(run, folder):
    (folder / "comparo.toml").write_text('base-url = "http://user:word@evil.example/v1"\n[rank]\nbudget = "4n"\n')
    done = run(folder, simulated())
    assert done.returncode == 2
    assert "(base-url = 'http://evil.exam" in done.stderr
    assert "--config comparo.toml rank" in done.stderr
    assert "word" not in done.stderr
    assert not (folder / "run").exists()
    done = run(folder, ["--config", "comparo.toml", *simulated()])
    assert "no option 'base_url'" in done.stderr  # the setting is used


@pytest.mark.parametrize(
    ("setting", "asked"),
    [
        ('judge = "openai/gpt-6-luna"', True),
        ('judge = "mine/model"', True),
        ('judge = "hf/someone/model"', True),
        ('judge = "vllm/someone/model"', True),
        ('judge = "local/model.GGUF"', True),
        ('judge = "local/model.gguf "', True),
        pytest.param('judge = " local/smollm2 "', False, marks=pytest.mark.long),
        ('judge = "replay/../answers.csv"', True),
        ('judge = "replay/elsewhere/answers.csv"', True),
        ('judge = ["local/smollm2", "hf/model.gguf"]', True),
        ('option = ["base_url=http://evil.example"]', True),
        ('judge = "simulated/soft; engine=ray"', True),
        ('[judge]\nname = "simulated/soft"\naddress = "evil.example:6379"', True),
        ('out = "/srv/elsewhere"', True),
        ('out = "../elsewhere"', True),
        ('out = "elsewhere"', True),
        ('out = "elsewhere/run"', True),
        ('out = "a;b/../../run"', True),
        ('out = "~/run"', True),
        ('prompt = "a\\u0000b"', True),
        ('cache = "here.sqlite"', True),
        ('cache = "off"', True),
        ('prompt = "../secret; labels=A,B"', True),
        ('prompt = "elsewhere/secret"', True),
        ('votes = ["votes.csv", "/srv/votes.csv"]', True),
        ('control = ["elsewhere"]', True),
        ("fresh = true", True),
        ("fresh = false", False),
        ('out = "here"', False),
        ('judge = "simulated/soft"', False),
        ('budget = "4n"', False),
        ('[judge]\nbase-url = "http://evil.example"', False),  # of another command
    ],
)
def test_which_settings_of_a_found_file_are_asked_about(run, folder, setting, asked):
    (folder / "comparo.toml").write_text(f"{setting}\n")
    (folder / "elsewhere").symlink_to(folder.parent, target_is_directory=True)
    judge = [] if setting.startswith(("judge", "[judge]\nname")) else ["--judge", "simulated/soft"]
    done = run(folder, ["rank", "items.jsonl", "--criterion", "better", "--dry-run", *judge])
    assert ("keys and texts" in done.stderr) == asked
    assert done.returncode == (2 if asked else 0), done.stderr


@pytest.mark.parametrize(
    ("setting", "asked"),
    [
        ('budget = "4n"', True),
        ('price = "0.000001,0.000001"', True),
        ('batch = "submit"', True),
        ('wording = "all"', True),
        ("least-mass = 0.0", True),
        ("lineup = 4", True),
        ('kind = "Story"', False),
        ("top = 3", False),
    ],
)
def test_a_found_file_decides_nothing_that_a_judge_of_the_users_own_costs(run, folder, setting, asked):
    (folder / "comparo.toml").write_text(f"{setting}\n")
    flags = ["--criterion", "better", "--dry-run", "--judge", "openai/gpt-6-luna"]
    done = run(folder, ["rank", "items.jsonl", *flags])
    assert (done.returncode, "nobody named it" in done.stderr) == ((2, True) if asked else (0, False)), done.stderr


def test_a_found_file_chooses_no_page_elsewhere_and_no_check(run, folder):
    (folder / "pairs.csv").write_text("first,second,p\na,b,0.7\nb,c,0.6\n")
    (folder / "comparo.toml").write_text(f"[fit]\nreport = '{folder.parent / 'page.html'}'\n[runs]\ncheck = true\n")
    assert "(report = " in run(folder, ["fit", "pairs.csv"]).stderr
    assert not (folder.parent / "page.html").exists()
    assert "(check = 'True')" in run(folder, ["runs"]).stderr


def test_what_else_a_found_file_decides_is_said_in_one_line(run, folder, monkeypatch):
    (folder / "comparo.toml").write_text(f'kind = "{"x" * 99}\\n\\u001b"\nquiet = true\ntop = 3\nseed = 4\n')
    done = run(folder, simulated("--seed", "2"))
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stderr.splitlines() if line.startswith("comparo.toml"))
    assert all(said in line for said in ("kind = 'xxx", "quiet = 'True'", "top = '3'"))
    assert len(line) < 200
    assert "seed" not in line
    (folder / "comparo.toml").write_text("top = 3\n")
    assert run(folder, simulated("--quiet", "--fresh")).stderr == ""
    monkeypatch.setenv("COMPARO_CONFIG", "comparo.toml")
    done = run(folder, simulated())
    assert (done.returncode, "comparo.toml" in done.stderr) == (0, False), done.stderr


def test_every_flag_is_known_to_be_harmless_in_a_found_file_or_not():
    """A new flag is added to GUARDED or SPENT of cli/settings.py, or here."""
    harmless = """accuracy anchors answers asked attribute audition because between bias cached cluster columns context
        control criterion data dpo-prompt draws dry-run each estimate fail-below fail-if fail-if-judge-unreliable family
        first-stage for format goal grades group groups invite item items judgements kind leaderboard link markdown
        method next no-browser only open orders out people plain port powered prior probe processes prompt quiet reasons
        report seed sheet strategy table target texts these top twice until voice votes watch""".split()
    flags = {name_of(option) for name in COMMANDS for option in options_of(load_command(name))}
    assert flags == {*harmless, *GUARDED, *SPENT, "judge"}


def test_a_file_of_brackets_is_one_message(run, folder):
    (folder / "comparo.toml").write_text("a = " + "[" * 100_000)
    done = run(folder, simulated())
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "comparo.toml" in done.stderr


def test_a_flag_or_a_variable_of_the_users_own_needs_no_agreement(run, folder, monkeypatch):
    (folder / "comparo.toml").write_text('judge = "openai/gpt-6-luna"\n')
    assert run(folder, simulated("--dry-run")).returncode == 0
    monkeypatch.setenv("COMPARO_JUDGE", "simulated/soft")
    assert run(folder, ["rank", "items.jsonl", "--dry-run"]).returncode == 0
    monkeypatch.delenv("COMPARO_JUDGE")
    monkeypatch.setenv("COMPARO_CONFIG", "comparo.toml")
    done = run(folder, ["rank", "items.jsonl", "--criterion", "better", "--dry-run"])
    assert (done.returncode, "judge openai/gpt-6-luna" in done.stdout) == (0, True), done.stderr


@pytest.mark.long
@pytest.mark.parametrize("reply", one_short(["y", "n"]))
def test_on_a_terminal_a_found_file_is_shown_and_asked_about(folder, reply):
    (folder / "comparo.toml").write_text('judge = "openai/gpt-6-luna"\n')
    arguments = ["rank", "items.jsonl", "--criterion", "better", "--dry-run"]
    code, said = on_terminal(arguments, folder, f"{reply}\n".encode())
    assert "judge = 'openai/gpt-6-luna'" in said
    assert "Use that? [y/N]" in said
    assert ("30 calls" in said) == (reply == "y")
    assert code == (0 if reply == "y" else 2)
    assert ("give --judge yourself" in said) == (reply == "n")


@pytest.mark.long
def test_the_command_that_repeats_a_run_needs_no_file_and_no_variable(run, folder, monkeypatch):
    settings = 'budget = "4n"\nkind = "It\'s a text"\n[rank]\nquiet = true\ncolumns = ["scores=wit"]\n'
    (folder / "comparo.toml").write_text(settings)
    monkeypatch.setenv("COMPARO_SEED", "7")
    done = run(folder, simulated("--criterion", "-x", "-o", "noise=0.5"))
    assert done.returncode == 0, done.stderr
    command = read_configuration(folder / "run")["command"]
    (folder / "comparo.toml").unlink()
    monkeypatch.delenv("COMPARO_SEED")
    words = shlex.split(command)
    assert words[:3] == ["comparo", "rank", "items.jsonl"]
    given = " ".join(words[3:])
    for flag in (
        "--kind It's a text",
        "--budget 4n",
        "--quiet",
        "--columns scores=wit",
        "--seed 7",
        "--criterion=-x",
        "--judge simulated/soft",
        "--option scores=wit --option noise=0.5",
        "--out run",
    ):
        assert flag in given
    assert "--goal" not in given  # at its default
    done = run(folder, words[1:])
    assert (done.returncode, done.stderr) == (0, "")  # the same run: nothing differs
    assert read_configuration(folder / "run")["command"] == command


@pytest.mark.long
def test_the_command_that_repeats_a_run_holds_nothing_secret(run, folder):
    password, token = "pass%40word", "tok-123456789"
    with Api(tokens({"A": 0.7, "B": 0.3})) as api:
        address = api.url.replace("//", f"//me:{password}@")
        flags = ["--judge", "openai/any", "--base-url", address, "--budget", "4n"]
        done = run(folder, ["rank", "items.jsonl", "--criterion", "better", "--out", "run", *flags])
    assert done.returncode == 0, done.stderr
    command = read_configuration(folder / "run")["command"]
    assert f"--base-url {api.url}" in command
    written = b"".join(path.read_bytes() for path in (folder / "run").iterdir())
    assert b"pass%40word" not in written
    assert b"pass@word" not in written
    words = ["items.jsonl", "-o", f"api_token={token}", "-o", f"base_url={address}", "--criterion", "a key = good"]
    context = load_command("rank").make_context("rank", words)
    said = command_line(context=context)
    assert "api_token=…" in said
    assert f"base_url={api.url}" in said
    assert "--criterion 'a key = good'" in said
    assert token not in said
    assert "pass" not in said


def test_the_question_is_shown_as_it_is_sent(run, folder):
    rows = [{"id": k, "text": f"Text {k}. " + "long " * 200, "article": "The context."} for k in range(3)]
    (folder / "long.jsonl").write_text("\n".join(map(json.dumps, rows)))
    arguments = ["rank", "long.jsonl", "--context", "article", "--criterion", "better", "--kind", "Essay", "--dry-run"]
    openai = [*arguments, "--judge", "openai/gpt-6-luna"]
    said = run(folder, openai).stdout
    assert re.search(r"Article:\n(\w{8})\nThe context\.\n\1\n\nEssay A:\n\1\nText ", said)
    assert said.count("long " * 200) == 2
    assert said.count("Essay A or Essay B") == 2
    begun = run(folder, [*openai, "-o", "prefill=true"]).stdout
    assert begun.endswith(": Essay\n")
    assert "Answer" not in run(folder, [*arguments, "--judge", "simulated/soft"]).stdout


def test_small_sums_are_not_nothing(run, folder):
    arguments = ["rank", "items.jsonl", "--criterion", "better", "--dry-run", "--judge", "openai/any"]
    arguments += ["--wording", "paper", "--price"]
    assert "at most $0.00089" in run(folder, [*arguments, "1,1"]).stdout
    assert "at most $0.00000089" in run(folder, [*arguments, "0.001,0.001"]).stdout
    assert "at most $0\n" in run(folder, [*arguments, "0,0"]).stdout


def test_a_run_is_fitted_and_asked_further_by_its_folder(run, folder):
    assert run(folder, simulated("--quiet", "--budget", "4n")).returncode == 0
    for path in ("run", "run/judgements.db"):
        done = run(folder, ["fit", path, "--format", "json"])
        assert done.returncode == 0, done.stderr
        assert len(json.loads(done.stdout)["ranking"]) == 6
        assert Path(folder, run(folder, ["runs", "--report", path]).stdout.strip()).is_file()
    done = run(folder, ["plan", "run", "--asked", "run", "--next", "3"])
    assert len(done.stdout.splitlines()) == 4, done.stderr
    again = run(folder, ["rank", "run", "--judge", "simulated/soft", "--dry-run"])
    assert "6 items" in again.stdout
    other = run(folder, simulated("--quiet", "--seed", "1"))
    assert (other.returncode, "seed was 0" in other.stderr) == (2, True)


def test_pairs_are_chosen_by_columns_of_any_name(run, tmp_path):
    rows = [{"name": name, "text": "T", "article": article} for article in ("x", "y") for name in "abc"]
    (tmp_path / "items.json").write_text(json.dumps(rows))
    flags = ["--next", "2", "--strategy", "random", "--columns", "id=name"]
    for context in (["--context", "article"], ["--columns", "context_id=article"]):
        done = run(tmp_path, ["plan", "items.json", *flags, *context])
        assert [row["context"] for row in csv.DictReader(io.StringIO(done.stdout))] == ["x", "x", "y", "y"], done.stderr
    done = run(tmp_path, ["plan", "items.json", *flags])
    assert done.returncode == 2
    assert "context with --context" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["runs", "--report", "nowhere"], "nowhere is not a run folder"),
        (["runs", "--report", "."], "is not a run folder"),
        (["runs", "--report", "items.jsonl"], "is not a run folder"),
        (["runs", "nowhere"], "nowhere is not a folder"),
        (["runs", "--repair", "nowhere"], "nowhere is not"),
        (["fit", "."], "the folder . "),
        (["fit", "nowhere"], "does not exist"),
        (["rank", "nowhere", "--criterion", "x"], "does not exist"),
        (["rank", ".", "--criterion", "x"], "has no .txt, .md, .docx or .pdf files"),
        (["plan", "nowhere", "--next", "2"], "does not exist"),
        (["--config", "nowhere.toml", "rank", "items.jsonl"], "nowhere.toml does not exist"),
    ],
)
def test_a_wrong_folder_or_file_is_a_wrong_command(run, folder, arguments, message):
    done = run(folder, arguments)
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("mistake", "python", "flags"),
    [
        ({"budget": "2"}, "budget='10'", "--budget 10"),
        ({"goal": "systems"}, "`group`", "--group"),
        ({"estimate": 0.5}, "`group`", "--group"),
        ({"prompt": "no such.txt"}, "prompt='no such.txt'", "--prompt 'no such.txt'"),
        ({"control": "length", "plain": True}, "method='mixed'", "--method mixed"),
        ({"out": "items.jsonl"}, "`out`", "--out"),
        ({"scores": "salt"}, "scores='NAME'", "--columns scores=NAME"),
        ({"goal": "top-2", "strategy": "greedy"}, "strategy='adaptive'", "--strategy adaptive"),
    ],
)
def test_a_mistake_names_parameters_in_python_and_flags_on_the_command_line(run, folder, mistake, python, flags):
    words = []
    for name, value in mistake.items():
        flag = ["--columns", f"scores={value}"] if name == "scores" else [f"--{name}", str(value)]
        words += flag[:1] if value is True else flag
    asked = [] if "prompt" in mistake else ["--criterion", "better"]
    done = run(folder, ["rank", "items.jsonl", "--judge", "simulated/soft", *asked, *words])
    assert (done.returncode, flags in done.stderr) == (2, True), done.stderr
    assert "`" not in done.stderr
    with pytest.raises(ValueError, match=re.escape(python)) as caught:
        comparo.rank("items.jsonl", asked[-1] if asked else None, judge="simulated/soft", **mistake)
    assert "--" not in str(caught.value)


# Results that cannot be written

FULL = Path("/dev/full")
ENDED = {"full": (1, 1), "broken": (1, 0), "closed": (0, 0)}  # exit code, and lines of an error on stderr


@pytest.mark.long
@pytest.mark.skipif(not FULL.exists(), reason="only Linux has a device that is always full")
@pytest.mark.parametrize("form", ["table", "csv"])
@pytest.mark.parametrize("which", ENDED)
def test_a_run_whose_result_cannot_be_printed_is_stored(folder, which, form):
    command = [sys.executable, "-m", "comparo.cli", *simulated("--budget", "10n", "--format", form)]
    closed = {"preexec_fn": lambda: os.close(1)} if which == "closed" else {}
    read, write = os.pipe()
    os.close(read)
    with FULL.open("w") as full, os.fdopen(write, "w") as broken:
        where = full if which == "full" else broken
        done = subprocess.run(command, cwd=folder, stdout=where, stderr=subprocess.PIPE, text=True, **closed)
    code, errors = ENDED[which]
    assert done.returncode == code
    lines = [line for line in done.stderr.splitlines() if line.startswith("comparo: ")]
    assert len(lines) == errors
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert {"ranking.csv", "judgements.db"} <= {path.name for path in (folder / "run").iterdir()}
