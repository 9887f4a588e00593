"""Results stay as they were: some 300 fits, selections and runs, beside the numbers stored in unchanged.json.gz.

Numbers agree to 1e-8, integers and chosen pairs exactly. `make test` runs a tenth of the cases, `make test-long` the
others. A change that is meant to change results stores new ones: python tests/test_unchanged.py --write
"""

import csv
import gzip
import hashlib
import io
import json
import math
import re
import sys
import tempfile
import warnings
import zlib
from contextlib import chdir, redirect_stdout
from dataclasses import astuple, replace
from functools import cache, partial
from inspect import signature
from itertools import pairwise, product
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

import comparo as c
from benchmarks.bt_sigma import bt_sigma
from comparo import metrics, selection
from comparo.analysis import correlations
from comparo.cli import main
from comparo.ranking import powered as people_powered
from comparo.ranking.ranking import ranking_of
from inside import Davidson, Gaussian, StudentT, expected_spearman, top_probability
from oracle import design_log_det

STORED = Path(__file__).with_name("unchanged.json.gz")
SHOWN, NEAR, LESS_NEAR = 3, 1e-8, 1e-6
THREADS = ("run of", "run with", "audition", "export")  # answers in any order; a panel ends within 1e-7
FEW = {"limits": replace(signature(c.fit).parameters["limits"].default, exact=8)}  # above 8 items as with thousands
WORDS = "amber birch cedar delta ember fjord grove haven islet jetty".split()
NUMBER = re.compile(r"-?\d+\.\d+(?:e-?\d+)?")
KINDS = ("soft", "hard")
CASES = {}


def over(*values, name=None):
    """Register a function as one case for each combination of the values of its arguments."""

    def register(made):
        for given in product(*values):
            CASES[" ".join([name or made.__name__, *map(str, given)])] = partial(made, *given)
        return made

    return register


def digest(value, path="", into=None):
    """Documents and tables as {path: summary}: some numbers of a column and projections of it, a hash of texts."""
    into = {} if into is None else into
    if isinstance(value, dict):
        for name, part in value.items():
            digest(part, f"{path}/{name}", into)
    elif isinstance(value, list | tuple | np.ndarray):
        column = np.asarray(value, dtype=object).ravel().tolist()
        if column and isinstance(column[0], dict):
            digest({name: [row.get(name) for row in column] for name in column[0]}, path, into)
        else:
            into[path] = summary(column)
    elif value is not None:
        into[path] = summary([value])
    return into


def summary(column):
    if any(isinstance(entry, str) for entry in column):
        return hashlib.sha256(json.dumps(column).encode()).hexdigest()[:12]
    if all(isinstance(entry, int | np.integer | np.bool_) for entry in column):
        numbers = list(map(int, column))
        return [*numbers[:SHOWN], len(numbers), sum(number * k for k, number in enumerate(numbers, 1))]
    known = np.array(column, dtype=float)  # None is NaN
    weights = np.random.default_rng(len(known)).standard_normal((2, len(known)))
    shown = [*known[:SHOWN], *weights @ np.where(np.isfinite(known), known, 0.0), np.sum(np.isfinite(known))]
    return [float(f"{x:.13g}") if math.isfinite(x) else str(x) for x in shown[: None if len(known) > SHOWN else SHOWN]]


def apart(one, other):
    """The largest difference of two summaries, or of two of their numbers; ∞ where they cannot be compared."""
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max(map(apart, one, other), default=0.0)
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) / max(1.0, abs(other))
    return 0.0 if one == other else math.inf


def computed(name):
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder, chdir(folder):
        warnings.simplefilter("ignore")  # the notes of a ranking
        return digest(CASES[name]())


def ranked(ranking):
    """A ranking in a fixed order of its items, and all that its document tells."""
    table = {name: column.tolist() for name, column in ranking.to_columns().items()}
    keys = list(zip(table.get("context", [None] * len(ranking)), table["item"], strict=True))
    order = sorted(range(len(keys)), key=lambda k: str(keys[k]))
    found = {name: [column[k] for k in order] for name, column in table.items()}
    document = json.loads(ranking.to_json())
    kept = "method validity dispersion bias voices views ties control variances groups growth people correlations"
    found |= {name: document[name] for name in kept.split() if name in document}
    keys = [keys[k] for k in order]
    near = [(one[1], other[1], one[0]) for one, other in pairwise(keys) if one[0] == other[0]]
    return found | {"beats": [ranking.probability(*pair) for pair in near], "notes": len(ranking.notes)}


def run_of(ranking):
    """The ranking of a run, and its answers, which several voices give in any order."""
    found, columns = ranked(ranking), ranking.comparisons.to_columns()
    rows = [dict(zip(columns, row, strict=True)) for row in zip(*(x.tolist() for x in columns.values()), strict=True)]
    for name, table in (found | {"asked": rows}).items():
        if isinstance(table, list) and table and isinstance(table[0], dict):
            found[name] = sorted(table, key=lambda row: str([x for x in row.values() if isinstance(x, str)]))
    return found


def compared(rows, judge, **options):
    """What `compare` finds of the first two texts of each context."""
    sides = ({row["context_id"]: row["text"] + side for row in rows if row["id"] == side} for side in ("t0", "t1"))
    found = json.loads(c.compare(*sides, "better", judge=judge, **options).to_json())
    return {name: part for name, part in found.items() if name not in ("verdict", "notes")}


def rejudged(found):
    """What a second judge says of the pairs of a run."""
    return {"numbers": [found.spearman, found.agree, *found.flips], "after": ranked(found.after)}


def board_of(board):
    return board.to_columns() | {"wins": board.wins, "covariance": board.covariance, "best": board.best}


def text_of(text):
    """A text whose numbers may differ by rounding: they are compared apart from its words."""
    return {"words": NUMBER.sub("#", text), "numbers": list(map(float, NUMBER.findall(text)))}


def truth(seed, items, contexts=1):
    return np.linspace(-1, 1, items) + np.random.default_rng(seed).normal(size=(contexts, items))


def answers(seed, items=8, contexts=1, kind="soft", judges=1, orders="both", share=0.6, blocks=False, by="judge"):
    """Rows of answers about a share of all pairs; each judge has a scale, a taste, a bias and noise."""
    rng, scores, rows = np.random.default_rng(seed + 1000), truth(seed, items, contexts), []
    for context, judge in product(range(contexts), range(judges)):
        view = (1 + 0.3 * judge) * (scores[context] + rng.normal(0, 0.5, items))
        for x, y in product(range(items), repeat=2):
            if x >= y or rng.random() > share or (blocks and (x + y - judge) % judges > 1):
                continue
            for i, j in [(x, y), (y, x)] if orders == "both" else [(x, y) if (x + y) % 2 else (y, x)]:
                logit = view[i] - view[j] + 0.4 * (1 - judge) + rng.normal(0, 0.6)
                p = 1 / (1 + math.exp(-logit))
                if kind != "soft" and not (kind == "either" and judge % 2):
                    p = 0.5 if kind == "ties" and abs(logit) < 0.5 else float(rng.random() < p)
                row = {"context": f"c{context}"} if contexts > 1 else {}
                row |= {by: f"v{judge}"} if judges > 1 or by == "voter" else {}
                rows.append(row | {"first": f"t{i}", "second": f"t{j}", "p": p})
    return rows


def texts(items=10, contexts=1, seed=0):
    """Rows of texts of four systems, and their scores by (context, item)."""
    rng, rows, scores = np.random.default_rng(seed + 50), [], {}
    for x, y in product(range(contexts), range(items)):
        text = " ".join(WORDS[k] for k in rng.integers(len(WORDS), size=int(rng.integers(4, 20))))
        row = {"id": f"t{y}", "text": text, "group": f"g{y % 4}", "price": float(y % 3)}
        rows.append(row | ({"context_id": f"c{x}", "context": f"Story {x}?"} if contexts > 1 else {}))
        scores[f"c{x}" if contexts > 1 else None, f"t{y}"] = float(rng.normal() + y % 4 / 2)
    return rows, scores


def judge_of(scores, kind="soft", **options):
    return c.load_judge(f"simulated/{kind}", scores=scores, **{"bias": 0.3, "noise": 0.6} | options)


def asked(items=10, contexts=1, kinds=("soft",), seed=0, question="better", judge=None, **options):
    """`rank` of simulated texts by simulated judges."""
    rows, scores = texts(items, contexts, seed)
    judges = [judge_of(scores, kind, seed=number, **(judge or {})) for number, kind in enumerate(kinds)]
    return c.rank(rows, question, judge=judges[0] if len(kinds) == 1 else judges, seed=seed, **options)


def fit(rows, method=None, **options):
    if method != "bt-sigma":
        return ranked(c.fit(rows, method, **options))
    data = c.Comparisons.of(rows)
    found = bt_sigma(data)
    return ranked(ranking_of(found)) | {"method": "bt-sigma"}


METHODS = "poe-bt poe-g poe-g-hard avg-prob win-ratio bt davidson mixed bt-sigma".split()
BIASED = ("poe-bt", "poe-g", "poe-g-hard", "davidson", "mixed")
GROUPS = {"groups": {f"t{k}": f"g{k % 3}" for k in range(12)}}
FEATURES = {"features": {f"t{k}": [float(k % 4), float(k * k % 5)] for k in range(12)}}
LENGTH = {"control": {"length": {f"t{k}": "word " * (3 + k * k % 11) for k in range(12)}}}
TRAITS = {"groups": GROUPS, "length": LENGTH, "consensus": GROUPS | {"estimate": "consensus"}, "none": {"bias": "none"}}
MORE = {"features": FEATURES, "all": GROUPS | FEATURES | LENGTH, "items": {"groups": "items"}} | TRAITS
MORE |= {"price": {"control": {"price": {f"t{k}": float(k % 5) for k in range(12)}}}}
MORE |= {"validity": TRAITS["consensus"] | {"validity": 0.3}}
EXPERTS = {"student": StudentT(), "davidson": Davidson(0.7), "gaussian": Gaussian()}


over(METHODS, ("soft", "ties"), ((1, "one"), (4, "both")), name="method")(
    lambda way, kind, shape: fit(answers(len(way), 8, shape[0], kind, orders=shape[1]), method=way)
)
over(BIASED, KINDS, ("none", "joint"), name="biased")(
    lambda way, kind, bias: fit(answers(2, 9, 3, kind, orders="one"), method=way, bias=bias)
)
over(("plug-in", "joint"), KINDS, (1, 3), name="bias of judges")(
    lambda bias, kind, judges: fit(answers(4, 9, 2, kind, judges, "one"), bias=bias, level=0.8)
)
over(("poe-bt", "poe-g", "bt", "mixed", "avg-prob"), KINDS, name="many")(
    lambda way, kind: fit(answers(1, 13, 2, kind, share=0.5), method=way, **FEW)
)
over(("compared",), name="bt")(lambda pairs: fit(answers(5, 10, 2, "hard"), method="bt", prior_pairs=pairs))
over(("poe-bt", "poe-g"), (1.5, "first", "estimated"), ("soft", "ties"), name="prior")(
    lambda way, prior, kind: fit(answers(6, 9, 1, kind), method=way, prior=prior)
)
over(EXPERTS, name="expert")(lambda expert: fit(answers(7, 9, 2, "ties"), method=EXPERTS[expert]))
over(("poe-bt", "bt", "davidson"), KINDS, name="unconnected")(
    lambda way, kind: fit(answers(8, 20, 1, kind, share=0.06), method=way)
)
over(MORE, KINDS, name="mixed")(
    lambda trait, kind: fit(answers(9, 9, 3, kind, share=0.5), method="mixed", **MORE[trait])
)
over(TRAITS, KINDS, name="panel with")(
    lambda trait, kind: fit(answers(10, 9, 2, kind, 3, share=0.4), method="panel", **TRAITS[trait])
)
over(("soft", "hard", "ties", "either"), (2, 4), (False, True), name="panel")(
    lambda kind, judges, blocks: fit(answers(11, 8, judges - 1, kind, judges, blocks=blocks), method="panel")
)
over(("panel", "bt-sigma", "davidson", "mixed"), ("soft", "ties"), name="judges")(
    lambda way, kind: fit(answers(12, 10, 1, kind, 3, "one"), method=way)
)
over((["v0"], ["v1", "v2"]), name="people")(
    lambda people: fit(answers(12, 8, 2, "either", 3), method="panel", people=people)
)
over(("hard", "ties"), ((8, 1, 1), (4, 2, 2)), name="votes")(
    lambda kind, shape: fit(answers(13, *shape[:2], kind, shape[2], "one", by="voter"))
)


@over((("soft", 1, None, "ties"), ("hard", 1, None, "hard"), ("soft", 2, "items", "hard")))
def with_votes(shape):
    kind, contexts, groups, said = shape
    machine = c.fit(answers(16, 4, contexts, kind, share=1.0), "mixed" if groups else None, groups=groups)
    return ranked(c.with_votes(machine, answers(16, 4, contexts, said, orders="one")))


@over((6, 15, 30), (0, 1))
def design(items, seed):
    found = {
        "random": selection.random_pairs(items, 2 * items, seed),
        "greedy": selection.greedy_pairs(items, 2 * items, seed),
    }
    found |= {
        "one": selection.in_one_order(found["random"], items, seed),
        "both": selection.in_both_orders(found["greedy"]),
    }
    made = {name: c.Comparisons.from_rows((x, y, 0.5) for x, y in pairs.tolist()) for name, pairs in found.items()}
    return {name: {"pairs": str(found[name].tolist()), "log det": design_log_det(made[name])} for name in found}


CONTRAST = {"contrast": 1.0 + np.abs(np.subtract.outer(np.arange(12) % 3, np.arange(12) % 4))}
WAYS = {name: {"strategy": name} for name in ("random", "greedy", "adaptive")} | {"contrast": CONTRAST}
WAYS |= {"top": {"goal": "top-3"}, "greedy of many": FEW}
WAYS |= {"adaptive of many": WAYS["adaptive"] | FEW, "top of many": WAYS["top"] | FEW}


@over(WAYS, ("one", "both"), KINDS)
def select(way, orders, kind):
    selector, scores, rows = selection.Selector(range(12), orders=orders, seed=2, **WAYS[way]), truth(2, 12)[0], []
    for _ in range(5):
        for x, y in selector.next(8):
            p = 1 / (1 + math.exp(scores[y] - scores[x] - math.sin(7 * x + y)))
            rows.append((x, y, float(p > 0.5) if kind == "hard" else p))
        selector.observe(rows[-8:])
    return {"pairs": str([row[:2] for row in rows]), "remaining": selector.remaining}


@over(KINDS, (("mixed", 1, 1), ("mixed", 4, 1), ("panel", 2, 3)))
def sure(kind, shape):
    ranking = c.fit(answers(15, 8, shape[1], kind, shape[2]), shape[0])
    chances = [*expected_spearman(ranking), *expected_spearman(ranking, 1.0), *top_probability(ranking, 2)]
    return {"chances": chances, "top": ranking.top(2), "ranks": ranking.rank_intervals()}


over(KINDS, ("new", "these"), name="leaderboard")(
    lambda kind, over: board_of(c.fit(answers(15, 6, 5, kind), "mixed", groups="items").groups(contexts=over))
)


@over(KINDS, ("new", "these"))
def powered(kind, contexts):
    found = people_powered.powered(
        answers(17, 4, 30, kind, share=1.0), answers(17, 4, 30, "hard", share=0.5), contexts=contexts
    )
    numbers = [*found.weight.values(), found.worth, found.matched]
    return {"numbers": numbers, "board": board_of(found.board), "people": board_of(found.people_only)}


over((("soft", 1, 3), ("ties", 1, 1), ("soft", 2, 2)), name="reliability")(
    lambda shape: c.reliability(answers(19, 9 + shape[2], shape[1], shape[0], shape[2]))
)


@over((["v1", "v2"], ["v1"]))
def agree(people):
    rows = answers(14, 6, 6, "ties", 3)
    return json.loads(c.agree(rows, people, draws=50, seed=2).to_json())


@over((6, 22))
def annotators(contexts):
    rows = answers(14, 5, contexts, "ties", 3)
    found = metrics.krippendorff_alpha(rows), metrics.cohen_kappa(rows, "v0", "v1")
    return {"estimates": [number for each in found for number in astuple(each)]}


@over()
def calibrate():
    rows, scores = answers(18, 12), {f"t{k}": float(score) for k, score in enumerate(truth(18, 12)[0])}
    expert, p = correlations.calibrate(rows, scores), np.linspace(0.05, 0.95, 7)
    return fit(rows, method=expert) | {"mean": expert.mean(p), "variance": expert.variance(p)}


@over(KINDS, ("random", "adaptive"), ("one", "both"))
def plan(kind, strategy, orders):
    found = c.plan(10, 0.8, 0.8, answers=kind, strategy=strategy, orders=orders, draws=4, bias=0.2, seed=1)
    return found.to_columns() | {"calls": found.calls}


SEVERAL = {"question": {"wit": "funnier; weight=2", "plot": "more coherent"}}
RUNS = {"default": {}, "budget": {"budget": 44}, "until": {"until": 0.85, "budget": "30n"}, "criteria": SEVERAL}
RUNS |= {"one order": {"orders": "one"}, "adaptive": {"strategy": "adaptive", "budget": "6n"}, "plain": {"plain": True}}
RUNS |= {"top": {"goal": "top-3", "budget": "8n"}, "top until": {"goal": "top-2", "until": 0.9, "budget": "20n"}}
RUNS |= {"length": {"control": "length"}, "consensus": {"estimate": 0.4}}
RUNS |= {"share": {"budget": "40%"}, "random": {"strategy": "random"}, "price": {"control": ["price"]}}
RUNS |= {name: {"method": name, "budget": "5n"} for name in ("poe-bt", "bt", "davidson")}
OTHERS = {"wordings": {"wording": ["paper", "between"]}}
OTHERS |= {"voices until": {"kinds": ("soft", "soft"), "until": 0.85, "budget": "40n"}}
OTHERS |= {f"seed {seed}": {"seed": seed, "judge": {"effect": 0.4}} for seed in (1, 2, 3)}


over(RUNS, (("soft", 1), ("hard", 1), ("soft", 3)), name="run")(
    lambda way, shape: run_of(asked(9 - shape[1], shape[1], shape[:1], **RUNS[way]))
)
over(OTHERS, name="run with")(lambda way: run_of(asked(**OTHERS[way])))
over(("systems", "best-system"), KINDS, (None, 0.8), name="run for")(
    lambda goal, kind, until: run_of(asked(6, 2, [kind], goal=goal, budget="6n", until=until, judge={"strength": 2.0}))
)
over((("soft", "soft"), ("soft", "hard"), ("hard", "hard", "soft")), (1, 2), name="run of")(
    lambda kinds, contexts: run_of(asked(8, contexts, kinds))
)


@over(KINDS, (1, 2))
def grown(kind, contexts):
    (rows, scores), options = texts(9, contexts, 3), {"out": "run"}
    options["judge"] = judge_of(scores, kind)
    c.rank([row for row in rows if row["id"] not in ("t3", "t8")], "better", budget="6n", **options)
    return run_of(c.rank(rows, "better", budget="8n", **options))


@over((("soft", "100%"), ("hard", "100%"), ("hard", "50%")))
def rejudge(voice):
    asked(8, 2, out="run", budget="4n")
    found = c.rejudge("run", judge_of(texts(8, 2)[1], voice[0], seed=5), budget=voice[1])
    return rejudged(found) | {"questions": found.questions, "both": ranked(found.ranking)}


@over((("soft", "soft"), ("soft", "hard")))
def audition(kinds):
    rows, scores = texts(10, 2)
    judges = [judge_of(scores, kind, seed=k, bias=float(k)) for k, kind in enumerate(kinds)]
    found = c.audition(rows, "better", judge=judges, pairs=16)
    later = c.rank(rows, "better", judge=judges[0], audition=found, budget="6n")
    return dict(found.table) | {"best": found.best, "panel": found.panel, "later": run_of(later)}


@over((("soft", 0.2, True), ("soft", 1.0, True), ("soft", 1.0, False), ("hard", 1.0, True)))
def compare(shape):
    kind, strength, stop = shape
    return compared(texts(2, 16, 4)[0], judge_of({"A": 0.0, "B": strength}, kind), stop=stop, seed=1)


@over(("csv", "jsonl", "dpo"))
def export(form):
    asked(6, 2, KINDS, out="run", budget="8n")
    c.export_run("run", path := f"out.{form.replace('dpo', 'jsonl')}", format=form, texts=form == "csv")
    return text_of("\n".join(sorted(Path(path).read_text().split("\n"))))


@over(("csv", "jsonl", "csv.gz"))
def files(ending):
    c.Comparisons.from_rows(answers(20, 6, 2, "ties", 2)).write(path := f"rows.{ending}")
    found = c.Comparisons.read(path)
    return found.to_columns() | {"merged": found.merge_orders().to_columns(), "both": found.both_orders()}


ANNOTATION = {"instruction": "Why?", "output_1": "So.", "output_2": "No.", "generator_1": "x", "generator_2": "y"}
IMPORTS = {"alpaca_eval": [ANNOTATION | {"annotator": "gpt", "preference": 1 + k / 4} for k in range(5)]}
IMPORTS["arena"] = [{"model_a": "x", "model_b": "y", "winner": win, "turn": 1} for win in ("model_a", "tie", None)]


@over(IMPORTS)
def imports(source):
    Path("file.json").write_text(json.dumps(IMPORTS[source]))
    found = c.import_file("file.json")
    return {"rows": found.comparisons.to_columns(), "items": found.items, "left": found.left_out}


NEXT = "plan texts.csv --next 8"
COMMANDS = [NEXT, f"{NEXT} --asked rows.csv --strategy adaptive", f"{NEXT} --for ana,bo,cy --seed 3 --format jsonl"]
COMMANDS += [f"fit rows.csv --method {name} --format csv" for name in ("panel", "mixed --leaderboard")]


@over(COMMANDS)
def command(line):
    for name, rows in {"rows.csv": answers(21, 8, 2, "ties", 2, share=0.3), "texts.csv": texts(8, 2)[0]}.items():
        with open(name, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    argv = patch.object(sys, "argv", ["comparo", *line.split()])
    with argv, redirect_stdout(io.StringIO()) as said, pytest.raises(SystemExit) as end:
        main()
    assert not end.value.code
    return text_of(said.getvalue())


@cache
def stored():
    return json.loads(gzip.decompress(STORED.read_bytes()))


SHORT = [name for name in CASES if zlib.crc32(name.encode()) % 10 == 7]


@pytest.mark.parametrize("name", [pytest.param(x, marks=[] if x in SHORT else pytest.mark.long) for x in CASES])
def test_the_results_are_the_stored_ones(name):
    found, known = computed(name), stored()[name]
    assert sorted(found) == sorted(known), name
    differences = {path: apart(found[path], known[path]) for path in known}
    worst = max(differences, key=differences.get)
    near = LESS_NEAR if name.startswith(THREADS) else NEAR
    assert differences[worst] <= near, f"{name}{worst}: off by {differences[worst]:.3g}, {found[worst]} {known[worst]}"


def test_every_stored_case_is_there():
    assert sorted(stored()) == sorted(CASES)


if __name__ == "__main__" and sys.argv[1:] == ["--write"]:
    document = json.dumps({name: computed(name) for name in CASES}, separators=(",", ":"))
    STORED.write_bytes(gzip.compress(document.encode(), mtime=0))
