"""Several voices on the command line: real servers that differ, flags and files, a kill, a server that refuses."""

import csv
import json
import os

import numpy as np
import pytest

from inside import read_configuration
from servers import Api, prefers

KEY = "sk-a-key-that-must-appear-nowhere"


@pytest.fixture
def comparo(run, tmp_path):
    rows = [{"id": f"item {k}", "text": f"This is number {k}.", "score_wit": k} for k in range(24)]
    (tmp_path / "items.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return lambda *arguments, **variables: run(tmp_path, arguments, **variables)


def ask(*apis, budget="10n"):
    judges = []
    for number, api in enumerate(apis):
        judges += ["--judge", f"openai/model-{number}; base-url={api.url}; concurrency=2"]
    common = ("-o", "retries=0", "-o", "timeout=5")
    return ("rank", "items.jsonl", "--criterion", "better", "--out", "run", "--budget", budget, *judges, *common)


def test_two_servers_are_one_ranking_with_a_judge_column_a_report_and_a_list_of_runs(comparo, tmp_path):
    with Api(prefers(0.4)) as one, Api(prefers(0.2)) as other:
        done = comparo(*ask(one, other), "--format", "json")
        assert done.returncode == 0, done.stderr
        assert {request.body["model"] for request in one.requests} == {"model-0"}
        assert {request.body["model"] for request in other.requests} == {"model-1"}
        assert len(one.asked) + len(other.asked) == 240
    found = json.loads(done.stdout)
    assert found["method"] == "panel"
    assert {voice["judge"] for voice in found["voices"]} == {"openai/model-0", "openai/model-1"}
    assert "2 voices" in done.stderr
    order = [row["item"] for row in found["ranking"]]
    assert order[0] in ("item 23", "item 22")
    identity = read_configuration(tmp_path / "run")["identity"]
    assert identity["judge"] == "openai/model-0, openai/model-1"
    assert identity["voices"]["openai/model-1"]["judge"] == "openai/model-1"
    fitted = comparo("fit", "run", "--method", "panel", "--format", "csv")
    assert fitted.returncode == 0, fitted.stderr
    assert len(list(csv.DictReader(fitted.stdout.splitlines()))) == 24
    assert comparo("runs", "--report", "run").returncode == 0
    page = (tmp_path / "run" / "report.html").read_text()
    assert "openai/model-0, openai/model-1" in page
    (tmp_path / "runs").mkdir()
    (tmp_path / "run").rename(tmp_path / "runs" / "run")
    (row,) = csv.DictReader(comparo("runs", "runs", "--format", "csv").stdout.splitlines())
    assert (row["judge"], row["answered"]) == ("openai/model-0, openai/model-1", "240")


def test_judges_come_from_tables_lists_and_variables_and_wordings_multiply_them(comparo, tmp_path):
    (tmp_path / "comparo.toml").write_text(
        'wording = ["paper", "compare"]\n[rank]\nbudget = "20n"\n'
        '[[judge]]\nname = "simulated/soft"\nscores = "wit"\nstrength = 0.3\n[[judge]]\nname = "simulated/hard"\n'
    )
    flags = ("rank", "items.jsonl", "--criterion", "better", "--dry-run")
    refused = comparo(*flags)
    assert refused.returncode == 2
    assert "nobody named it" in refused.stderr
    done = comparo("--config", "comparo.toml", *flags)
    assert done.returncode == 0, done.stderr
    assert ", 4 voices" in done.stdout
    assert "480 calls" in done.stdout
    for name in ("simulated/soft · paper", "simulated/soft · compare", "simulated/hard · paper"):
        assert f"{name}: price" in done.stdout
    alone = comparo("--config", "comparo.toml", *flags, "--judge", "simulated/soft", "--wording", "paper")
    assert "judge simulated/soft" in alone.stdout
    from_variable = comparo("--config", os.devnull, *flags, COMPARO_JUDGE="simulated/soft|simulated/hard; seed=3")
    assert "2 voices" in from_variable.stdout, from_variable.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--judge", "simulated/soft; seed"], "'seed'"),
        (["--judge", "simulated/soft; colour=red"], "'colour'"),
        (["--judge", "simulated/soft", "--judge", "simulated/hard", "--price", "1,1"], "'price'"),
        (["--judge", "simulated/soft", "--wording", "paper", "--wording", "paper"], "twice"),
        (["--judge", "simulated/soft", "--judge", "simulated/hard", "--budget", "1n"], "cannot connect"),
        (["--judge", "simulated/soft", "--judge", "openai/x; price=1,1", "--budget", "$1"], "price"),
    ],
)
def test_a_wrong_command_is_one_line_and_leaves_nothing(comparo, tmp_path, arguments, message):
    done = comparo("rank", "items.jsonl", "--criterion", "better", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not (tmp_path / "comparo-runs").exists()


def test_voices_without_groups_estimate_what_people_would_say_beyond_style(comparo, tmp_path):
    voices = ("--judge", "simulated/soft; scores=wit", "--judge", "simulated/hard; scores=wit")
    done = comparo("rank", "items.jsonl", "--criterion", "better", *voices, "--estimate", "consensus", "--out", "run")
    assert done.returncode == 0, done.stderr
    with open(tmp_path / "run" / "ranking.csv", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    score, own = (np.array([float(row[name]) for row in rows]) for name in ("score", "judge_score"))
    assert np.std(score) < np.std(own)
    assert np.corrcoef(score, own)[0, 1] > 0.8
    assert "70%" in done.stdout + done.stderr


def test_comparo_judge_asks_one_judge(comparo, tmp_path):
    (tmp_path / "pairs.csv").write_text("first,second\nitem 1,item 2\n")
    flags = ("judge", "pairs.csv", "--items", "items.jsonl", "--criterion", "better", "--judge", "simulated/soft")
    assert comparo(*flags).returncode == 0
    done = comparo(*flags, "--judge", "simulated/hard")
    assert done.returncode == 2
    assert "one wording" in done.stderr
