"""Pairwise judgements of MT-Bench: FastChat's `model_judgment/gpt-4_pair.jsonl`.

A row holds question_id, model_1, model_2, judge (a model and the name of its prompt), turn, and two winners: g1_winner
of the game in which model_1 was shown first, g2_winner of that in which model_2 was. Each is model_1, model_2, tie, or
error where no verdict was found in the judge's reply. A row is two comparisons, one in each order. A row with m1_score
and m2_score was made from scores that each answer got on its own, and both winners are the same: it is one comparison.

The second turn of a question is a context of its own, because it is another question.
"""

from typing import Any

from comparo.data.columns import Table, shown
from comparo.data.imports.gathering import Gathering, Imported

GAMES = frozenset({"question_id", "model_1", "model_2", "g1_winner", "g2_winner"})
WINNERS = {"model_1": 1.0, "model_2": 0.0, "tie": 0.5}
ERROR = "error"


def read_games(table: Table) -> Imported:
    """The comparisons of models on questions, in the orders in which the judge saw them."""
    found = Gathering(table)
    for row in range(len(found)):
        one, two = (found.name(row, f"model_{place}") for place in (1, 2))
        judge = _judge(found.cell(row, "judge"))
        turn = found.cell(row, "turn")
        question = found.name(row, "question_id")
        context = question if turn is None or str(turn) == "1" else f"{question} turn {turn}"
        games = [("g1_winner", one, two), ("g2_winner", two, one)]
        is_scored = found.cell(row, "m1_score") is not None
        for column, first, second in games[:1] if is_scored else games:
            winner = found.name(row, column)
            if winner == ERROR:
                found.left_out["games without a verdict"] += 1
                continue
            if winner not in WINNERS:
                raise found.error(row, column, f"{shown(winner)} is not one of {', '.join(WINNERS)}, {ERROR}")
            p = WINNERS[winner]
            found.compare(context, first, second, p if first == one else 1 - p, judge)
    return found.finish("mt_bench")


def _judge(judge: Any) -> str | None:
    """A model and its prompt, as comparo names a judge with its wording."""
    parts = judge if isinstance(judge, list | tuple) else [judge]
    return " · ".join(str(part) for part in parts if part is not None) or None
