"""How a run grows: what is new, what was answered before, and how many calls that allows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from comparo.judges import Judgement
from comparo.run.budget import Budget, rounded
from comparo.run.merging import Label
from comparo.run.past import Past
from comparo.selection.defaults import Orders


@dataclass(frozen=True, eq=False)
class Growth:
    """How a run has grown, or is about to.

    Parameters
    ----------
    number : How often it will have grown.
    digest : That of all its items.
    new : How many items of each context are new.
    given : The answers from before that count.
    paid : What all judgements before count for within a budget, and what was spent on them, in dollars.
    audition : What the identity of the run says of an audition, if anything.
    past : The run before.
    mark : The number of the last judgement before.
    changed, removed : The items whose text is another now, and that are not there any more.
    configuration : That of the folder before the growth; None where the folder has grown already.
    """

    number: int
    digest: str
    new: Mapping[Any, int]
    given: tuple[Judgement, ...] = field(repr=False)
    paid: tuple[float, float]
    audition: str | None
    past: Past = field(repr=False)
    mark: int
    changed: tuple[Label, ...] = ()
    removed: tuple[Label, ...] = ()
    configuration: Mapping[str, Any] | None = field(default=None, repr=False)

    @property
    def before(self) -> tuple[int, float, float]:
        """How many answers are given, and what all judgements before count for and cost, in dollars."""
        return len(self.given), *self.paid

    def calls(
        self, budget: Budget, sizes: Mapping[Any, int], orders: Orders, cost: float, voices: int
    ) -> dict[Any, tuple[int, Orders]]:
        """The number of calls that a context may have had in the end, and the orders in which its pairs are asked.

        The budget is for what is asked now: 500 calls, 10n for each new item, 5% of all ordered pairs with a new item,
        or $2.50. It is shared out by the number of new items. What a call costs is `cost`.

        Raises
        ------
        ValueError
            If there is not one pair for each new item.
        """
        budget.check_price(cost)
        new = {context: self.new.get(context, 0) for context in sizes}
        total = max(1, sum(new.values()))
        old = {context: size - new[context] for context, size in sizes.items()}
        wanted = {
            context: {
                "": budget.number * number / total,
                "n": budget.number * number,
                "%": budget.number / 100 * (sizes[context] * (sizes[context] - 1) - old[context] * (old[context] - 1)),
                "$": budget.number / cost * number / total if cost > 0 else 0.0,
            }[budget.unit]
            for context, number in new.items()
        }
        found: dict[Any, tuple[int, Orders]] = {}
        given, links = self.given_in, self.links(sizes)
        for context, number in rounded(wanted).items():
            size = sizes[context]
            most = voices * size * (size - 1) - given[context]
            chosen: Orders = "both" if given[context] + number > voices * size * (size - 1) // 2 else orders
            needed = min(most, links[context] * (2 if chosen == "both" else 1))
            if number < needed:
                place = "" if context is None else f" in context {context!r}"
                raise ValueError(
                    f"{number} calls cannot place the {new[context]} new items{place}: at least {needed} are needed; "
                    "allow more, such as --budget 5n, which is for each new item"
                )
            found[context] = given[context] + min(number, most), chosen
        return found

    @property
    def given_in(self) -> Counter[Any]:
        """How many answers are given in each context."""
        return Counter(one.question.context for one in self.given)

    def links(self, sizes: Mapping[Any, int]) -> dict[Any, int]:
        """How many pairs join the new items of each context with the others."""
        new = {context: self.new.get(context, 0) for context in sizes}
        return {context: new[context] if new[context] < size else size - 1 for context, size in sizes.items()}

    def more(self, by_context: Mapping[Any, tuple[int, Orders]]) -> int:
        """Of the calls of all contexts, how many are not given."""
        return sum(number for number, _ in by_context.values()) - len(self.given)
