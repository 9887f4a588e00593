"""A fixture for pytest: a test fails if new texts are surely worse than old ones.

pytest loads this file at its start (entry point group pytest11), so the first test that compares imports the rest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from comparo.run.compare_result import Duel

SHOWN = 3  # inputs that a failed test names


@pytest.fixture(scope="session")
def comparo_compare() -> Callable[..., Duel]:
    """`comparo.compare(old, new, criterion, …)`, which fails the test if `new` is surely worse.

    `sure` (0.95) is the confidence level: of changes that make nothing worse, at most a share of 1 − `sure` fails. The
    other arguments are those of `comparo.compare`; `names` of the two sides are by default old and new. It returns the
    `Duel`, so that a test may require more than "not worse".
    """
    return compare_or_fail


def compare_or_fail(
    old: Any,
    new: Any,
    criterion: str | None = None,
    *,
    sure: float = 0.95,
    names: tuple[str, str] = ("old", "new"),
    **asked: Any,
) -> Duel:
    """The value of the fixture `comparo_compare`: `comparo.compare`, which fails the test if `new` is surely worse.

    Raises
    ------
    pytest.fail.Exception
        If the new texts are surely worse.
    RunError
        If the judge does not answer, which proves nothing; further errors are those of `comparo.compare`.

    Examples
    --------
    >>> old = [f"answer {k}" for k in range(30)]
    >>> judge = lambda first, second: 0.7 if len(first) > len(second) else 0.3
    >>> compare_or_fail(old, [f"a longer {text}" for text in old], "better", judge=judge).verdict
    'new is better than old: win rate 70% (54% to 82%) on 16 inputs'
    """
    from comparo.run.compare import compare

    duel = compare(old, new, criterion, names=names, level=sure, **asked)
    if duel.is_worse(sure):
        pytest.fail(_said(duel), pytrace=False)
    return duel


def _said(duel: Duel) -> str:
    """The message of a failed test: the win rate of the new side, and the inputs on which it loses most."""
    from comparo.data.sanitize import visible

    said = f"{duel.verdict}, {duel.calls} calls"
    columns = duel.to_columns()
    lost = [(name, by) for name, by in zip(columns["input"], columns["margin"], strict=True) if by < 0][::-1]
    if not lost:
        return said
    worst = ", ".join(f"{visible(name, lines=False)} ({by:+.2f})" for name, by in lost[:SHOWN])
    return f"{said}\nit loses most, by so many logits, on the inputs {worst}"
