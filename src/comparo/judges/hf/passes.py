"""Which questions run through a model together.

The CPU launches the kernels of a pass while the GPU computes, so a pass takes as long as the slower of the two. In
units of tokens, where launching a pass takes as long as computing `pass_tokens` tokens,

    cost = max(pass_tokens · launches, tokens)

Questions run as rows, each with all its tokens or, after a pass for what the questions of a context begin with, with
the rest of them; or as a tree, in which every common beginning is read once, with more launches.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

from comparo.data.prompts import Prompt, Question
from comparo.judges.chat import Chat, Encoded
from comparo.judges.hf.tree import DEEPEST, Tree, grow, packs
from comparo.judges.protocol import Judgement

READING = 0.22  # share of a pass's launches that one more reading in every layer adds; measured with 24 layers
DEARER = 1.1  # cost of a token in a tree over one in a batch, for its attention; measured 1.02 with 7B, 1.16 with 0.5B


def pulls(
    chat: Chat, questions: Iterable[Question], prompt: Prompt, ahead: int
) -> Iterator[tuple[list[Encoded], list[Judgement]]]:
    """The questions, `ahead` of them at a time: those that are encoded, and the failures of those that do not fit."""
    stream = iter(questions)
    while pulled := list(islice(stream, ahead)):
        encoded = chat.encode(pulled, prompt)
        yield (
            [row for row in encoded if isinstance(row, Encoded)],
            [failed for failed in encoded if isinstance(failed, Judgement)],
        )


@dataclass(frozen=True, slots=True)
class Batch:
    """Questions that run at once, as a tree or as rows whose first `shared` tokens are read once for all.

    Of these, other batches share the first `outer` tokens. The rows of a tree are the questions' sequences, `order` the
    place of each among them.
    """

    rows: list[Encoded]
    shared: int = 0
    tree: Tree | None = None
    order: list[int] = field(default_factory=list)
    outer: int = 0

    @property
    def tokens(self) -> int:
        """How many tokens run, with the padding of shorter rows."""
        return self.tree.size if self.tree else len(self.rows) * max(row.size for row in self.rows)


@dataclass
class Batches:
    """How many questions run at once: `size`, or as many as make `tokens` tokens.

    >>> rows = [Encoded(Question(1, 2), [7] * length) for length in (2, 5, 4)]
    >>> [[len(row.ids) for row in batch.rows] for batch in Batches(None, tokens=10, pass_tokens=0).of(rows)]
    [[5, 4], [2]]
    """

    size: int | None
    tokens: int
    pass_tokens: float

    def trees(self, rows: Iterable[Encoded], *, always: bool = False, deepest: int = DEEPEST) -> Iterator[Batch]:
        """The rows in trees, those that begin alike in the same one; without `always`, only where that is cheaper."""
        ordered, single = sorted(rows, key=lambda row: row.ids), []
        branches = max((len(row.after) for row in ordered), default=1)
        for part in packs([row.ids for row in ordered], self.tokens // branches, self.size):
            batch = _tree(ordered[part.start : part.stop], deepest)
            if always or self._cheaper(batch, sum(row.size for row in batch.rows)):
                yield batch
            else:
                single += batch.rows
        for batch in self.of(single):  # its rows are padded to the longest, those of a tree are not
            tree = _tree(batch.rows, deepest)
            yield tree if self._cheaper(tree, batch.tokens) else batch

    def _cheaper(self, batch: Batch, tokens: int) -> bool:
        """Whether a tree costs less than a pass of so many tokens."""
        depth = len(batch.tree.levels) if batch.tree else 1
        launched = self.pass_tokens * (1 + READING * depth * (depth - 1) / 2)  # each level reads each above it
        return max(launched, DEARER * batch.tokens) < max(self.pass_tokens, tokens)

    def of(self, rows: Iterable[Encoded], shared: int = 0) -> Iterator[Batch]:
        """The rows in batches of similar length, the longest first."""
        batch: list[Encoded] = []
        for row in sorted(rows, key=lambda row: len(row.ids), reverse=True):
            if batch and len(batch) >= (self.size or self.tokens // batch[0].size):
                yield Batch(batch, shared)
                batch = []
            batch.append(row)
        if batch:
            yield Batch(batch, shared)

    def pays(self, questions: int, shared: int, kept: bool) -> bool:
        """Whether reading the shared tokens once is cheaper: a pass for them, unless kept, and one for the rest."""
        passes = 1 if kept else 2
        return shared * (questions + 1 - passes) > passes * self.pass_tokens

    def halve(self, batch: Batch) -> tuple[Batch, Batch]:
        """The halves of a batch that the device's memory did not hold; later batches have half of its size."""
        self.size, self.tokens = self.size and len(batch.rows) // 2, batch.tokens // 2
        return split(batch)


def split(batch: Batch) -> tuple[Batch, Batch]:
    """The two halves of a batch, in the same layout."""
    middle = len(batch.rows) // 2
    first, second = batch.rows[:middle], batch.rows[middle:]
    if batch.tree:
        return _tree(first, batch.tree.deepest), _tree(second, batch.tree.deepest)
    return replace(batch, rows=first), replace(batch, rows=second)


def _tree(rows: list[Encoded], deepest: int) -> Batch:
    ordered = sorted(rows, key=lambda row: row.ids)
    sequences = [sequence for row in ordered for sequence in row.sequences]
    ranked = sorted(range(len(sequences)), key=sequences.__getitem__)
    order = sorted(range(len(ranked)), key=ranked.__getitem__)
    return Batch(ordered, tree=grow([sequences[number] for number in ranked], deepest), order=order)
