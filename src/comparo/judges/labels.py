"""From the probabilities of the next token to the probability of a label, or to the expected label of a scale."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

UNLISTED = -9999.0  # what servers say of a token that is not among the likeliest
AROUND = " \t\n\r\"'`*_.,:;()[]{}<>▁ĠĊ"


def spells(token: str, label: str) -> bool:
    """Whether a token is a spelling of the label: `A`, ` A`, `a`, `(A`, `A.` or, in a vocabulary's writing, `▁A`.

    >>> [token for token in ("A", " A", "▁A", "a", "**A", "B", "An", "") if spells(token, "A")]
    ['A', ' A', '▁A', 'a', '**A']
    """
    return token.strip(AROUND).casefold() == label.strip().casefold()


def label_probability(logprobs: Iterable[tuple[str, float]], labels: Sequence[str]) -> tuple[float, float] | None:
    """p and the mass ΣP from the log-probabilities of the likeliest next tokens; None where no label is among them.

    Of two labels, p = P(A) / (P(A) + P(B)). Of the S labels of a scale, the highest first, p is where the expected
    label lies between the last and the first:

        p = Σ_k v_k P(label_k) / Σ_k P(label_k),   v_k = 1 − k / (S − 1),   k = 0 … S − 1

    The spellings of a label are summed. Where only one of two labels is among the tokens, the other gets the most that
    it can have: the probability of the least likely token, or what is left over where that is less. On a longer scale
    a label that is not among the tokens counts for nothing. Labels that are among them without a number (−∞ or nan)
    get what all others leave over, in equal shares: that they are impossible is more than such a server knows.

    >>> label_probability([("A", math.log(0.6)), (" A", math.log(0.2)), ("B", math.log(0.2))], ("A", "B"))
    (0.8, 1.0)
    >>> label_probability([("A", math.log(0.9)), ("The", math.log(0.06))], ("A", "B"))
    (0.957..., 0.94...)
    >>> label_probability([("5", math.log(0.5)), ("4", math.log(0.25))], ("5", "4", "3", "2", "1"))
    (0.916..., 0.75)
    >>> label_probability([("A", math.log(0.1)), ("B", -math.inf), ("The", math.log(0.5))], ("A", "B"))
    (0.2..., 0.5)
    >>> label_probability([("The", -0.1)], ("A", "B"))
    """
    masses, total, least = [0.0] * len(labels), 0.0, 1.0
    found, unknown = [False] * len(labels), set()
    for token, logprob in logprobs:
        if -math.inf < logprob <= UNLISTED:
            continue
        named = [number for number, label in enumerate(labels) if spells(token, label)]
        if not logprob > UNLISTED:
            unknown.update(named)
            continue
        probability = math.exp(logprob)
        total, least = total + probability, min(least, probability)
        for number in named:
            masses[number] += probability
            found[number] = True
    if not any(found):
        return None
    left = max(1.0 - total, 0.0)
    unknown = {number for number in unknown if not found[number]}
    for number in unknown:
        masses[number] = left / len(unknown)
    if len(labels) == 2 and not all(found) and not unknown:
        masses[found.index(False)] = min(least, left)
    mass = sum(masses)
    if not mass > 0:
        return None
    last = len(labels) - 1
    expected = sum(share * (last - number) for number, share in enumerate(masses)) / (last * mass)
    return min(expected, 1.0), min(mass, 1.0)
