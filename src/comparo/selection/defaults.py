"""How pairs are chosen where nothing else is said: the defaults that every entry point shares.

`comparo.rank`, `Selector`, `next_pairs`, `plan` and the commands `comparo rank`, `comparo select` and `comparo plan`
take them from here. Pairs are weighted by the contrast of their texts where the texts are known (`contrast.contrasts`).
The measurements behind these defaults are in docs/defaults.md.
"""

import re
from typing import Literal

Strategy = Literal["random", "greedy", "adaptive"]
Orders = Literal["one", "both"]

DEFAULT_GOAL = "ranking"
SYSTEM_GOALS = ("systems", "best-system")  # of groups of texts in all contexts together (`systems`)
DEFAULT_ORDERS: Orders = "both"
DEFAULT_BUDGET = "10n"  # calls: ten per item


def default_strategy(goal: str = DEFAULT_GOAL) -> Strategy:
    """The strategy for a goal: greedy for the whole ranking, adaptive for the others, which need answers.

    >>> default_strategy(), default_strategy("top-5")
    ('greedy', 'adaptive')
    """
    return "greedy" if goal == "ranking" else "adaptive"


def top_of(goal: str, items: int, strategy: str) -> int | None:
    """k of the goal "top-k", None for the goal "ranking" and for goals of systems.

    >>> top_of("top-5", items=20, strategy="adaptive")
    5
    """
    if goal == "ranking":
        return None
    found = re.fullmatch(r"top-(\d+)", goal)
    if found is None:
        raise ValueError(
            f"goal is 'ranking' or 'top-' and a number, such as 'top-5', not {goal!r}; comparo rank also knows the "
            f"goals {' and '.join(map(repr, SYSTEM_GOALS))}, of texts that share groups"
        )
    if strategy != "adaptive":
        raise ValueError(f"goal={goal!r} needs answers to go by: use strategy='adaptive', not {strategy!r}")
    top = int(found[1])
    if not 0 < top < items:
        raise ValueError(f"goal={goal!r} decides nothing among {items} items; choose from top-1 to top-{items - 1}")
    return top
