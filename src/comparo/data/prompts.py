"""The question that a judge is asked, and the label words of its answer.

A prompt is a template with two texts and, if there is one, their context. The user's criterion or template determines
the prompt; the texts are data: they are inserted once, in one pass, and cannot add a placeholder or a turn of the chat.
Nor can they end early: they stand between delimiters that none of them holds, unless the prompt is the paper's.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from comparo.data.sanitize import defuse, delimiter_for
from comparo.data.wordings import (
    ANSWERS,
    BRACES,
    DEFAULT_WORDING,
    LABELS,
    LETTERS,
    PAPER_WORDING,
    PLACES,
    TEXTS,
    WORDINGS,
    delimited,
    escape,
    is_attribute,
    listed,
    places_in,
    wording_named,
)
from comparo.errors import Message


class Rest(tuple[Any, ...]):
    """The labels of the items in the second and all further slots of a line-up.

    >>> Question("ana", Rest(["bo", "cy"])).items
    ('ana', 'bo', 'cy')
    """


@dataclass(frozen=True, slots=True)
class Question:
    """Two or more texts to compare: their names, the texts, and the context that all belong to.

    Parameters
    ----------
    first, second : The labels of the items shown first and second; `second` is a `Rest` if there are more than two.
    context : The label of their context, None without one.
    first_text, second_text, context_text : What the judge reads; the context is not shown if it is None.
    other_texts : The texts in the third and all further slots.
    voice : The name of the voice (a judge with a wording) that is asked, None in a run of one voice.

    Examples
    --------
    >>> Question("ana", "bo", first_text="A story.", second_text="Another.").first
    'ana'
    """

    first: Any
    second: Any
    context: Any = None
    first_text: str = ""
    second_text: str = ""
    context_text: str | None = None
    voice: str | None = None
    other_texts: tuple[str, ...] = ()

    @property
    def items(self) -> tuple[Any, ...]:
        """The labels in slot order."""
        return (self.first, *self.second) if isinstance(self.second, Rest) else (self.first, self.second)

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts in slot order."""
        return self.first_text, self.second_text, *self.other_texts

    def with_texts(self, texts: Sequence[str]) -> Self:
        """The question with other texts, in slot order."""
        first, second, *others = texts
        return replace(self, first_text=first, second_text=second, other_texts=tuple(others))


@dataclass(frozen=True, slots=True)
class Prompt:
    """A template of the question, its label words, and how the answer begins.

    Parameters
    ----------
    template : A text with the placeholders {first}, {second} and optionally {context}; `{{` and `}}` are braces.
        {delimiter} may stand anywhere: hexadecimal digits that none of the texts holds. A line-up of k texts has
        {third}, {fourth} … too.
    labels : The words that name the texts, in slot order.
    answer : How the reply begins; the next word is a label.
    wording : The name of the wording that made it, None for a template of the user's own; what is asked does not depend
        on the name, so prompts that differ in nothing else are equal.

    Raises
    ------
    ValueError
        If a placeholder is unknown, missing or there twice, or if the labels are not different words, one per text.

    Examples
    --------
    >>> prompt = Prompt("A: {first}\\nB: {second}\\nWhich is clearer, Essay A or Essay B?", answer="Essay")
    >>> prompt.text(Question(1, 2, first_text="Cats purr.", second_text="See {first}."))
    'A: Cats purr.\\nB: See {first}.\\nWhich is clearer, Essay A or Essay B?'
    """

    template: str
    labels: tuple[str, ...] = LABELS
    answer: str = ""
    wording: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        places = []
        for match in BRACES.finditer(self.template):
            if match[1] in (*TEXTS, "delimiter"):
                places.append(match[1])
            elif match[0] not in ("{{", "}}"):
                raise ValueError(
                    f"{match[0]!r} in the template is not a placeholder; there are {{first}}, {{second}}, {{context}} "
                    "and {delimiter}, and a brace that is meant as one is written twice"
                )
        wanted = PLACES[: max(2, len(self.labels))]
        for name in TEXTS:
            if places.count(name) != (name in wanted) and (name != "context" or places.count(name) > 1):
                once = " and ".join(f"{{{place}}}" for place in wanted)
                raise ValueError(
                    f"the template has {{{name}}} {places.count(name)} times; it must have {once} once, and "
                    "{context} at most once"
                )
        words = {label.strip().casefold() for label in self.labels}
        if "" in words or len(words) < max(2, len(self.labels)):
            raise ValueError(f"{listed([*map(repr, self.labels)], 'and')} are not labels; give different words")

    @property
    def size(self) -> int:
        """How many texts are compared."""
        return sum(place in PLACES for place in places_in(self.template))

    def resized(self, size: int) -> "Prompt":
        """The prompt of the same criterion and wording about `size` texts, 2 to 8.

        A ValueError where the prompt was not made from a criterion.

        >>> criterion_prompt("funnier", "Joke").resized(3).template.splitlines()[-1]
        'Which Joke is funnier, Joke A, Joke B or Joke C?'
        """
        if size == self.size:
            return self
        form = WORDINGS.get(self.wording or "")
        found = None if form is None else form.read(self.template)
        if form is None or found is None:
            raise ValueError(
                Message("line-ups put a criterion; use {lineup:2} for your own prompt or several criteria")
            )
        kind, heading, does = found
        template = form.template(does, kind, heading, size)
        template = template if self.wording == PAPER_WORDING else delimited(template)
        return Prompt(template, LETTERS[:size], self.answer, self.wording)

    @property
    def without_answers(self) -> "Prompt":
        """The prompt without its sentence on how to answer, for a judge with another answer format.

        >>> criterion_prompt("funnier", "Joke", wording="which").without_answers.template.splitlines()[-1]
        'Which Joke is funnier?'
        """
        form = WORDINGS.get(self.wording or "")
        if form is None or ANSWERS not in form.question or form.read(self.template) is None:
            return self
        return replace(self, template=self.template.rpartition(ANSWERS)[0])

    @property
    def has_context(self) -> bool:
        """Whether the template shows the context."""
        return "context" in places_in(self.template)

    @property
    def instruction(self) -> str:
        """The sentence to add to the prompt of a model whose reply cannot be prefilled.

        >>> criterion_prompt("funnier", kind="Story").instruction
        'Answer only with Story A or Story B.'
        """
        return f"Answer only with {listed([f'{self.answer} {label}'.strip() for label in self.labels])}."

    @property
    def identity(self) -> dict[str, Any]:
        """What must stay the same to continue a run."""
        return {"template": self.template, "labels": list(self.labels), "answer": self.answer}

    def text(self, question: Question, clean: Callable[[str], str] = str) -> str:
        """The prompt for a question, with its texts inserted; control tokens of chat models in them are broken up.

        A lone surrogate becomes a question mark. `clean` is applied to each text.
        """
        given = question.context_text or "", *question.texts
        places = places_in(self.template)
        texts = {name: clean(defuse(text)) for name, text in zip(TEXTS, given, strict=False) if name in places}
        if "delimiter" in places:
            texts["delimiter"] = delimiter_for(list(texts.values()))

        def fill(match: re.Match[str]) -> str:
            return match[0][0] if match[1] is None else texts[match[1]]

        return BRACES.sub(fill, self.template).encode("utf-8", "replace").decode()

    def fit(
        self, question: Question, room: int, measure: Callable[[str], int], clean: Callable[[str], str] = str
    ) -> tuple[str, int]:
        """The prompt cut to `room` tokens, as `measure` counts them, and the number of characters cut.

        The end of the context is cut first, all of it if need be; then all texts lose the same share of their length.
        `clean` is applied to the shortened texts, as by `text`.

        >>> prompt = criterion_prompt("better", context="Article")
        >>> question = Question(1, 2, 0, "aaaa", "bbbb", "A long article.")
        >>> prompt.fit(question, 84, len)
        ('Article: A lon…\\n\\nText A: aaaa\\n\\nText B: bbbb\\n\\nWhich Text is better, Text A or Text B?', 10)
        """
        text = self.text(question, clean)
        if measure(text) <= room:
            return text, 0
        context = (question.context_text or "") if self.has_context else ""
        longest = max(1, *map(len, question.texts))

        def with_context(size: int) -> Question:
            return replace(question, context_text=_cut(context, size))

        def with_share(size: int) -> Question:
            texts = [_cut(text, len(text) * size // longest) for text in question.texts]
            return with_context(0).with_texts(texts)

        for whole, shortened in ((len(context), with_context), (longest, with_share)):
            fitting = _largest(whole, shortened, lambda short: measure(self.text(short, clean)) <= room)
            if fitting is not None:
                given, kept = (context, *question.texts), (fitting.context_text or "", *fitting.texts)
                return self.text(fitting, clean), sum(map(_lost, given, kept))
        raise ValueError(f"a window of {room} tokens does not hold the question itself; use a model with a larger one")


def criterion_prompt(
    criterion: str, kind: str = "Text", context: str | None = None, wording: str = PAPER_WORDING
) -> Prompt:
    """The prompt for a criterion in the user's words, with the kind of the texts and the heading of their context.

    The criterion ends the sentence "Which Summary is …" or, if it begins with a verb, "Which Summary …". `wording` is
    one of `comparo.data.wordings.WORDINGS`. All but the paper's are `delimited`.

    >>> print(criterion_prompt("more coherent", kind="Summary", context="Article").template)
    Article: {context}
    <BLANKLINE>
    Summary A: {first}
    <BLANKLINE>
    Summary B: {second}
    <BLANKLINE>
    Which Summary is more coherent, Summary A or Summary B?
    >>> criterion_prompt("continues the dialogue better", kind="Response").template.splitlines()[-1]
    'Which Response continues the dialogue better, Response A or Response B?'
    >>> criterion_prompt("funnier", kind="Joke", wording="compare").template.splitlines()[-1]
    'Compare Joke A and Joke B: which one is funnier?'
    """
    criterion, kind = criterion.strip().rstrip("?.,"), kind.strip()
    if not criterion:
        raise ValueError('the criterion is empty; say what makes a text better, such as "more coherent"')
    if not kind:
        raise ValueError('the kind is empty; say what the texts are, such as "Summary"')
    form = wording_named(wording)
    if is_attribute(criterion):
        raise ValueError(
            f'the criterion {criterion!r} does not end "Which {kind} is …"; compare: "more coherent", or '
            f'"has the better {criterion}"'
        )
    template = form.template(escape(criterion), escape(kind), escape(context.strip()) if context else "")
    if wording != PAPER_WORDING:
        template = delimited(template)
    return Prompt(template, LABELS, kind if form.is_begun else "", wording)


def choose_prompt(
    criterion: str | None = None,
    prompt: str | Prompt | None = None,
    *,
    kind: str = "Text",
    heading: str | None = None,
    wording: str | None = None,
    labels: tuple[str, str] | None = None,
    answer: str | None = None,
) -> Prompt:
    """The prompt for a criterion, or for a template.

    `heading` is printed above the context, None if there is no context to show; `wording` is the name of the way to put
    the criterion; `labels` and `answer` replace those of the prompt. A template is `delimited` unless the wording is
    the paper's; a `Prompt` is used as it is. A prompt that shows a context where there is none raises a ValueError.

    >>> choose_prompt("funnier").answer
    'Text'
    >>> choose_prompt(prompt="{first} or {second}?", labels=("1", "2")).labels
    ('1', '2')
    """
    if (criterion is None) == (prompt is None):
        raise ValueError('say what makes a text better: a criterion such as "more coherent", or a prompt (not both)')
    if criterion is not None:
        chosen = criterion_prompt(criterion, kind, heading, DEFAULT_WORDING if wording is None else wording)
        if labels is not None:
            raise ValueError("the criterion's prompt says A and B; other labels need a template of your own")
    elif wording not in (None, PAPER_WORDING):
        raise ValueError(f"a wording ({wording}) puts a criterion, and a prompt has its own words; give one of the two")
    elif isinstance(prompt, Prompt):
        chosen = prompt
    else:
        chosen = Prompt(str(prompt))  # which checks the template as it was given
        if wording is None:
            chosen = replace(chosen, template=delimited(chosen.template))
    chosen = replace(chosen, labels=labels or chosen.labels, answer=chosen.answer if answer is None else answer)
    if chosen.has_context and heading is None:
        raise ValueError("the prompt shows a context and the items have none; name its column, or drop {context}")
    return chosen


def _cut(text: str, size: int) -> str:
    return text if size >= len(text) else text[:size].rstrip() + "…" if size else ""


def _lost(text: str, cut: str) -> int:
    """The number of characters of `text` that `_cut` removed."""
    return 0 if cut == text else len(text) - max(len(cut) - 1, 0)


def _largest(high: int, made: Callable[[int], Question], good: Callable[[Question], bool]) -> Question | None:
    """`made` of the largest size in 0…high that is `good`, by doubling and bisection; None if size 0 is not good."""
    if not good(made(0)):
        return None
    low, size = 0, 64
    while size < high and good(made(size)):
        low, size = size, 2 * size
    high = min(high, size)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if good(made(middle)) else (low, middle - 1)
    return made(low)
