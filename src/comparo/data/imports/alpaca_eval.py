"""Annotations of AlpacaEval: `annotations.json` in the results of a model.

A row holds instruction, output_1, output_2, generator_1, generator_2, annotator and preference: 1 where the first
output is preferred, 2 where the second is, and anything between from annotators that give probabilities, so that

    p = P(output_1 is better) = 2 − preference.

1.5, and 0 in older files, is a tie; a preference that is missing is an annotation that failed. In which order the
annotator saw the two outputs is drawn at random and not recorded, so that there is no position bias to estimate.
"""

import math

from comparo.data.columns import Table, shown
from comparo.data.imports.gathering import Gathering, Imported

ANNOTATIONS = frozenset({"instruction", "output_1", "output_2", "preference"})


def read_annotations(table: Table) -> Imported:
    """The comparisons of generators on instructions, which are numbered from 1 in the order of their appearance."""
    found = Gathering(table)
    number: dict[str, str] = {}
    for row in range(len(found)):
        question = found.cell(row, "instruction")
        context = number.setdefault(str(question), str(len(number) + 1))
        first, second = (found.name(row, f"generator_{place}") for place in (1, 2))
        for place, item in ((1, first), (2, second)):
            found.tell(context, item, found.cell(row, f"output_{place}"), question)
        p = _probability(found, row)
        if p is None:
            found.left_out["without a preference"] += 1
        else:
            annotator = found.cell(row, "annotator")
            found.compare(context, first, second, p, None if annotator is None else str(annotator))
    return found.finish("alpaca_eval")


def _probability(found: Gathering, row: int) -> float | None:
    said = found.cell(row, "preference")
    if said is None:
        return None
    try:
        preference = float(said)
    except (TypeError, ValueError):
        preference = math.inf
    if math.isnan(preference):
        return None
    if preference == 0:
        return 0.5
    if not 1 <= preference <= 2:
        raise found.error(row, "preference", f"{shown(said)} is not a number from 1 to 2; correct it, or drop the row")
    return 2 - preference
