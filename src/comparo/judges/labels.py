"""From the probabilities of the next token to the probability of a label."""

from __future__ import annotations

import math
from collections.abc import Iterable

AROUND = " \t\n\r\"'`*_.,:;()[]{}<>▁ĠĊ"


def spells(token: str, label: str) -> bool:
    """Whether a token is a spelling of the label: `A`, ` A`, `a`, `(A`, `A.` or, in a vocabulary's writing, `▁A`.

    >>> [token for token in ("A", " A", "▁A", "a", "**A", "B", "An", "") if spells(token, "A")]
    ['A', ' A', '▁A', 'a', '**A']
    """
    return token.strip(AROUND).casefold() == label.strip().casefold()


def label_probability(logprobs: Iterable[tuple[str, float]], labels: tuple[str, str]) -> tuple[float, float] | None:
    """p = P(A) / (P(A) + P(B)) and the mass P(A) + P(B) from the log-probabilities of the likeliest next tokens.

    The spellings of a label are summed. Where only one label is among the tokens, the other gets the most that it can
    have: the probability of the least likely token, or what is left over where that is less. None where neither label
    is there.

    >>> label_probability([("A", math.log(0.6)), (" A", math.log(0.2)), ("B", math.log(0.2))], ("A", "B"))
    (0.8, 1.0)
    >>> label_probability([("A", math.log(0.9)), ("The", math.log(0.06))], ("A", "B"))
    (0.957..., 0.94...)
    >>> label_probability([("The", -0.1)], ("A", "B"))
    """
    masses, total, least = [0.0, 0.0], 0.0, 1.0
    found = [False, False]
    for token, logprob in logprobs:
        probability = math.exp(logprob)
        total, least = total + probability, min(least, probability)
        for number, label in enumerate(labels):
            if spells(token, label):
                masses[number] += probability
                found[number] = True
    if not any(found):
        return None
    if not all(found):
        masses[found.index(False)] = min(least, max(1.0 - total, 0.0))
    mass = sum(masses)
    return (masses[0] / mass, min(mass, 1.0)) if mass > 0 else None
