"""How many calls a run may make (a number, per item, a share of all pairs, tokens or dollars), and its spending."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from comparo.data.prompts import Question
from comparo.errors import Message, OptionError, named
from comparo.judges import Judgement
from comparo.selection.designs import Orders

_FORM = re.compile(
    r"(?P<dollars>\$)?(?P<number>\d+(?:\.\d*)?|\.\d+)(?:(?P<unit>[n%])|\s*(?:(?P<times>[kM])\s*)?(?P<tokens>tokens))?"
)
_TIMES = {None: 1.0, "k": 1e3, "M": 1e6}
TOKENS = " tokens"  # the unit
NEEDS_PRICE = Message("a budget in dollars needs the judge's price; give it by {price}, or a budget such as 10n")
SEARCHED = 2**40  # limit of the search for a sufficient budget, in units of its last digit
_key = attrgetter("context", "first", "second", "voice")
_cost = attrgetter("cost")
RECENT = 100  # last calls that set the reserved price: the next is dearer than all of them with probability 1/101


@dataclass(frozen=True, slots=True)
class Budget:
    """500 calls in all, 10n calls per item, 5% of all ordered pairs, 300k tokens that are read, or $2.50.

    >>> Budget.of("10n").number, Budget.of("$2.50").unit, Budget.of(500).unit, Budget.of("300k tokens").number
    (10.0, '$', '', 300000.0)
    >>> Budget.of("lots")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    comparo.errors.OptionError: budget = 'lots' is none of calls (500), calls per item (10n), a share (5%), 300k ...
    """

    number: float
    unit: str

    @classmethod
    def of(cls, text: str | int) -> Budget:
        found = _FORM.fullmatch(str(text).strip().replace(",", ""))
        if not found or not float(found["number"]) or (found["dollars"] and (found["unit"] or found["tokens"])):
            remedy = "is none of calls (500), calls per item (10n), a share (5%), 300k tokens and $2.50"
            raise OptionError("budget", text, remedy)
        if found["tokens"]:
            return cls(float(found["number"]) * _TIMES[found["times"]], TOKENS)
        return cls(float(found["number"]), "$" if found["dollars"] else found["unit"] or "")

    def __str__(self) -> str:
        number = f"{self.number:.12g}"
        return f"${number}" if self.unit == "$" else f"{number}{self.unit}"

    @property
    def dollars(self) -> float:
        """The maximum to spend; infinite if the budget is not in dollars."""
        return self.number if self.unit == "$" else math.inf

    def less(self, calls: Sequence[Judgement], whole: int) -> Budget:
        """The budget left after some of `whole` calls; unknown dollars or tokens count 0.

        >>> calls = [Judgement(Question("ana", "bo"), p=0.7, cost=0.5)]
        >>> Budget.of("10n").less(calls, 1000), Budget.of("$2").less(calls, 1000)
        (Budget(number=999.0, unit=''), Budget(number=1.5, unit='$'))
        """
        if self.unit not in ("$", TOKENS):
            return Budget(float(whole - len(calls)), "")
        took = map(tokens_of if self.unit == TOKENS else _cost, calls)
        return Budget(self.number - sum(value for value in took if value > 0), self.unit)

    def calls(
        self,
        sizes: Mapping[Any, int],
        orders: Orders = "one",
        cost: float = math.nan,
        voices: int = 1,
        groups: int | None = None,
        new: Mapping[Any, int] | None = None,
        given: Mapping[Any, int] | None = None,
        texts: int = 2,
    ) -> dict[Any, tuple[int, Orders]]:
        """The total number of calls of each context, and the orders in which its pairs are asked.

        No voice is asked a pair twice in one order, so a context of n items takes n(n − 1) calls per voice at most;
        where more than n(n − 1)/2 are allowed, pairs are asked in both orders. `cost` is the dollars or tokens of a
        call. The pairs of all `voices` together must be able to connect all items. With a number of `groups`, the calls
        of all contexts must connect these instead, and a context has whole pairs where both orders are asked.
        In a run that grows, the budget is for the `new` items of each context, each of which needs one pair, and the
        `given` answers of a context are added to its calls. A call about k > 2 `texts` has one order and k − 1 links.

        >>> Budget.of("10n").calls({None: 100}), Budget.of("5%").calls({None: 101}), Budget.of("10n").calls({"x": 6})
        ({None: (1000, 'one')}, {None: (505, 'one')}, {'x': (30, 'both')})
        >>> Budget.of(100).calls({"x": 4, "y": 12})
        {'x': (12, 'both'), 'y': (75, 'both')}
        >>> Budget.of("1n").calls({None: 12}, "both")
        Traceback (most recent call last):
        ValueError: 12 calls cannot connect the 12 items: at least 22 are needed; allow more: budget='1.8n'
        """
        if self.unit == "$" and cost == 0:
            raise ValueError("the judge costs nothing, so a budget in dollars sets no bound; use one such as 10n")
        if self.unit == "$" and not cost > 0:
            raise ValueError(NEEDS_PRICE)
        added = dict(sizes) if new is None else {context: new.get(context, 0) for context in sizes}
        total = max(1, sum(added.values()))
        whole = 2 if groups is not None and orders == "both" and texts == 2 else 1

        def spread(number: float) -> tuple[dict[Any, tuple[int, Orders]], str]:
            """The calls of each context with this number in the budget, and why they are too few, else ""."""
            allowed = number / cost if self.unit in ("$", TOKENS) else number
            parts, calls = dict[Any, float](), dict[Any, tuple[int, Orders]]()
            for context, size in sizes.items():
                wanted = allowed * added[context]
                if self.unit == "%":
                    wanted = number / 100 * (_ordered(size) - _ordered(size - added[context]))
                elif self.unit != "n":
                    wanted /= total
                parts[context] = wanted / whole
            for context, part in rounded(parts).items():
                asked, known = whole * part, (given or {}).get(context, 0)
                most = voices * _ordered(sizes[context])
                chosen: Orders = "both" if known + asked > most // 2 else orders
                if texts > 2:
                    chosen = "one"
                calls[context] = min(known + asked, most), chosen
                needed = min(most - known, links_of(sizes[context], added[context], texts, chosen))
                if groups is None and asked < needed:
                    place = "" if context is None else f" in context {context!r}"
                    what = f"connect the {sizes[context]}" if new is None else f"place the {added[context]} new"
                    return calls, f"{asked} calls cannot {what} items{place}: at least {needed} are needed"
            made = sum(asked for asked, _ in calls.values())
            if groups is not None and made < (needed := whole * links_of(groups, groups, texts)):
                return calls, f"{made} calls cannot connect the {groups} groups: at least {needed} are needed"
            return calls, ""

        calls, too_few = spread(self.number)
        if too_few:
            raise ValueError(too_few + self.more(lambda number: not spread(number)[1]))
        return calls

    def more(self, is_enough: Callable[[float], bool]) -> str:
        """How to allow the smallest number that is enough, in whole calls or tokens, else in three digits.

        >>> Budget.of("$0.05").more(lambda number: number > 0.06), Budget.of(5).more(lambda _: False)
        ("; allow more: budget='$0.0601'", '')
        """
        digits = 0 if self.unit in ("", TOKENS) else 2 - math.floor(math.log10(self.number))
        low, high = 0, max(1, math.floor(self.number * 10.0**digits))
        while high < SEARCHED and not is_enough(high / 10.0**digits):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if is_enough(middle / 10.0**digits) else (middle, high)
        if high >= SEARCHED:
            return ""
        return "; allow more: " + named("budget", str(Budget(high / 10.0**digits, self.unit)))


@dataclass(frozen=True, slots=True)
class Expense:
    """Calls and orders per context, calls in total, approximate tokens, and dollars (nan if unknown).

    In a run that grows, the calls per context include those from before, and the total does not.
    `costs` are dollars per call by voice. With several voices, `cost` is for calls to the dearest, and `alike` is the
    number of voices that can be asked every pair while the pairs still connect all items.
    """

    by_context: Mapping[Any, tuple[int, Orders]]
    calls: int
    tokens: int
    cost: float
    costs: Mapping[str | None, float]
    alike: int = 1


def links_of(size: int, new: int, texts: int = 2, orders: Orders = "one") -> int:
    """The number of calls about `texts` texts that connect the `new` items of a context of `size` items."""
    return (new if new < size else -(-(size - 1) // (texts - 1))) * (2 if orders == "both" else 1)


def _ordered(size: int) -> int:
    return size * (size - 1)


def rounded(wanted: Mapping[Any, float]) -> dict[Any, int]:
    """Integers with the same sum, each within 1 of the wanted number."""
    floors = {context: math.floor(number + 1e-9) for context, number in wanted.items()}
    left = round(sum(wanted.values())) - sum(floors.values())
    by_rest: Sequence[Any] = sorted(wanted, key=lambda context: floors[context] - wanted[context])
    return floors | {context: floors[context] + 1 for context in by_rest[:left]}


def dollars(amount: float) -> str:
    """An amount in dollars and cents; below one cent with two significant digits, so that only 0 shows as $0.

    >>> dollars(12.5), dollars(0.00042), dollars(0.0), dollars(1234.5)
    ('$12.50', '$0.00042', '$0', '$1,234.50')
    """
    if math.isnan(amount):
        return "unknown"
    if amount == 0:
        return "$0"
    rounded = float(f"{amount:.2g}")
    if not 0 < rounded < 0.01:
        return f"${amount:,.2f}"
    return f"${rounded:.{1 - math.floor(math.log10(rounded))}f}"


def price_words(much: str, cost: float) -> str:
    """The price after the words `much`, such as "about", or how to set an unknown price."""
    return Message("price not known (set it by {price})") if math.isnan(cost) else f"{much} {dollars(cost)}"


def tokens_of(judgement: Judgement) -> float:
    """The tokens that a call read, nan where not known."""
    return float(judgement.tokens_in) or math.nan


class Spending:
    """Limits a run to `limit` dollars, or the unit that `took` returns; an infinite limit allows everything.

    The limit is exceeded by at most one call while prices scatter about the same level.

    The expected cost of a call is `expect(question)` times the largest ratio of actual to expected cost of the last
    `RECENT` calls (at least 1). A question is allowed if the money spent, the expected cost of all calls in flight and
    its own expected cost stay within the limit. The number of calls in flight is at most `most`, and one more than the
    number of paid calls: the ratio is known before many calls depend on it. Where the price rises, at
    most `most` calls in flight were reserved at the old price: the excess is at most their extra cost.

    >>> spending = Spending(1.0, lambda question: 0.1)
    >>> spending.reserve(Question("ana", "bo"))
    >>> spending.allows(Question("bo", "ana"))  # the first goes alone
    False
    >>> spending.settle(Judgement(Question("ana", "bo"), p=0.7, cost=0.3))
    >>> round(spending.spent + spending.expected(Question("bo", "ana")), 2)  # three times what was expected
    0.6
    """

    def __init__(
        self,
        limit: float,
        expect: Callable[[Question], float],
        spent: float = 0.0,
        most: float = math.inf,
        took: Callable[[Judgement], float] = _cost,
    ) -> None:
        self.limit, self.spent, self._took = limit, spent, took
        self._expect, self._most = expect, most
        self._ratios, self._paid = deque[float](maxlen=RECENT), 0
        self._flying: dict[object, float] = {}
        self.is_limited = math.isfinite(limit)

    @property
    def _ratio(self) -> float:
        return max([1.0, *self._ratios])

    def expected(self, question: Question) -> float:
        return self._ratio * self._expect(question) if self.is_limited else 0.0

    def allows(self, question: Question) -> bool:
        """Whether a question may be asked now."""
        has_room = not self.is_limited or len(self._flying) < min(self._paid + 1, self._most)
        return has_room and self.expected(question) <= self.left

    @property
    def left(self) -> float:
        """The limit less what was spent and the expected cost of calls in flight."""
        return self.limit - self.spent - self._ratio * sum(self._flying.values())

    def reserve(self, question: Question, times: float = 1.0) -> None:
        """Reserve `times` the expected cost of a question that is sent."""
        if self.is_limited:
            self._flying[_key(question)] = times * self._expect(question)

    def settle(self, judgement: Judgement) -> None:
        """Book the cost of a judgement: if unknown, its expected cost; nothing for a failed call without a cost."""
        expected = self._flying.pop(_key(judgement.question), 0.0)  # a voice left out was not sent all its questions
        took = self._took(judgement)
        is_known = took >= 0
        if not self.is_limited or (judgement.failed and not is_known):
            return
        if is_known and expected > 0:
            self._ratios.append(took / expected)
        self.spent += took if is_known else self._ratio * expected
        self._paid += 1
