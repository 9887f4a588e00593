"""From a question to the tokens that a model reads, and from its labels to the tokens that it answers with.

Shared by the judges that run a model themselves (hf, vllm) and hold its tokenizer. The reply is begun for the model, so
that its next token is a label.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from comparo.judges.judgement import Judgement
from comparo.judges.labels import spells
from comparo.prompts import Prompt, Question

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Some templates write today's date, which would change the answers from day to day, or open a turn of thinking.
TEMPLATE_OPTIONS: dict[str, Any] = {"date_string": "26 Jul 2024", "enable_thinking": False}
_MARKUP = re.compile(r"<.+>|\[.+\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A question as token ids, and how many of its characters did not fit the window."""

    question: Question
    ids: list[int]
    cut: int = 0


class Chat:
    """A tokenizer, and how a prompt is written for its model.

    A decoder reads the prompt as the user's turn of its chat template and the beginning of the answer as its own turn;
    without a template, the two as plain text. An encoder (`encoder=True`) reads the prompt alone. `window` is how many
    tokens the model can read; None where there is no end to them.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, window: int | None = None, *, encoder: bool = False) -> None:
        self.tokenizer: Any = tokenizer
        self.window = window
        self._encoder = encoder
        self._templated = not encoder and bool(tokenizer.chat_template)
        self._continues = self._templated and self._can_continue()
        self._special = _special_pattern(self.tokenizer)
        self._labels: dict[Prompt, tuple[list[int], ...]] = {}

    def encode(self, questions: Sequence[Question], prompt: Prompt) -> list[Encoded | Judgement]:
        """Every question as tokens within the window; a failed judgement where not even the bare question fits."""
        plain = [self._defuse(question) for question in questions]
        tokens = self._tokens([self._written(prompt.text(question), prompt.answer) for question in plain])
        encoded: list[Encoded | Judgement] = []
        for question, harmless, ids in zip(questions, plain, tokens, strict=True):
            if self.window is None or len(ids) <= self.window:
                encoded.append(Encoded(question, ids))
                continue
            try:
                text, cut = prompt.fit(
                    harmless, self.window, lambda text: len(self._tokens([self._written(text, prompt.answer)])[0])
                )
            except ValueError as problem:
                encoded.append(Judgement(question, error=str(problem)))
            else:
                encoded.append(Encoded(question, self._tokens([self._written(text, prompt.answer)])[0], cut))
        return encoded

    def answer(self, prompt: Prompt) -> list[int]:
        """The beginning of the answer alone: what the decoder of an encoder–decoder model reads."""
        ids: list[int] = self.tokenizer(prompt.answer, add_special_tokens=False)["input_ids"]
        return ids

    def label_ids(self, prompt: Prompt) -> tuple[list[int], ...]:
        """The tokens that spell each label or, where no single one does, the token it begins with.

        A ValueError where two labels have a token in common: the model's next token would not tell them apart.
        """
        if prompt not in self._labels:
            self._labels[prompt] = self._find_labels(prompt)
        return self._labels[prompt]

    def _find_labels(self, prompt: Prompt) -> tuple[list[int], ...]:
        vocabulary = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        found = tuple(
            [number for number, token in enumerate(vocabulary) if token is not None and spells(token, label)]
            or [self._first_token(prompt.answer, label.strip())]
            for label in prompt.labels
        )
        for (first, ids), (second, others) in combinations(zip(prompt.labels, found, strict=True), 2):
            if common := set(ids) & set(others):
                raise ValueError(
                    f"the labels {first!r} and {second!r} begin with the same token "
                    f"{self.tokenizer.decode([min(common)])!r}; use labels that differ from the start, such as A and B"
                )
        return found

    def _first_token(self, answer: str, label: str) -> int:
        if self._encoder:
            begun, whole = (
                self.tokenizer(text, add_special_tokens=False)["input_ids"]
                for text in (answer, f"{answer} {label}".strip())
            )
        else:
            begun, whole = self._tokens([self._written("", text) for text in (answer, f"{answer} {label}".strip())])
        token: int = whole[common_prefix([begun, whole])]
        return token

    def _written(self, text: str, answer: str) -> str:
        if self._encoder:
            return text
        if not self._templated:
            return f"{text}\n\n{answer}"
        messages = [{"role": "user", "content": text}]
        begins = bool(answer) and self._continues
        if begins:
            messages.append({"role": "assistant", "content": answer})
        chat: str = self.tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            continue_final_message=begins,
            add_generation_prompt=not begins,
            **TEMPLATE_OPTIONS,
        )
        return chat if begins else chat + answer

    def _can_continue(self) -> bool:
        """Whether the template writes a turn of the assistant; only then is the space before its first word right."""
        self._continues = True
        try:
            self._written("question", "answer")
        except (TemplateError, ValueError):
            return False
        return True

    def _tokens(self, texts: list[str]) -> list[list[int]]:
        # A template has written the tokens that begin a text, and a second one would be read as a new text.
        tokens: list[list[int]] = self.tokenizer(texts, add_special_tokens=not self._templated, verbose=False)[
            "input_ids"
        ]
        end = self.tokenizer.eos_token_id
        if not self._encoder and not self._templated:
            tokens = [ids[:-1] if ids and ids[-1] == end else ids for ids in tokens]
        return tokens

    def _defuse(self, question: Question) -> Question:
        def plain(text: str) -> str:
            return self._special.sub(r"\g<0> ", text)

        context = question.context_text
        return replace(
            question,
            first_text=plain(question.first_text),
            second_text=plain(question.second_text),
            context_text=None if context is None else plain(context),
        )


def common_prefix(sequences: Iterable[list[int]]) -> int:
    """How many tokens all the sequences begin with alike.

    >>> common_prefix([[1, 2, 3], [1, 2], [1, 2, 4]])
    2
    """
    # Whatever the least and the greatest of them share, those in between share too.
    ordered = sorted(sequences)
    for length, (low, high) in enumerate(zip(ordered[0], ordered[-1], strict=False)):
        if low != high:
            return length
    return min(len(ordered[0]), len(ordered[-1]))


def _special_pattern(tokenizer: Any) -> re.Pattern[str]:
    """Matches the first character of every token that is no text, so that a space after it makes it text again."""
    added = tokenizer.added_tokens_decoder.values()
    special = {token.content for token in added if token.special or _MARKUP.fullmatch(token.content)}
    words = [re.escape(token) for token in special | set(tokenizer.all_special_tokens) if len(token) > 1]
    return re.compile(f"(?=(?:{'|'.join(words)})).", re.DOTALL) if words else re.compile(r"(?!)")
