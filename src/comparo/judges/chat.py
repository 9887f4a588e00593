"""Questions as tokens, labels as tokens, and a digest of the model, for the judges that run a model themselves.

The prompt ends with the beginning of the answer, and the next word is a label.
"""

from __future__ import annotations

import hashlib
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import TemplateError

from comparo.data.criteria_prompt import CriteriaPrompt
from comparo.data.prompts import Prompt, Question
from comparo.judges.labels import (
    Spellings,
    TokenPath,
    common_prefix,
    find_spellings,
    label_probability,
    likeliest_path,
)
from comparo.judges.protocol import Judgement, Several, about

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


# Some templates write today's date, which would change the answers from day to day, or begin with a turn of reasoning.
# 26 Jul 2024 is the date that Llama 3's template writes by default.
TEMPLATE_OPTIONS: dict[str, Any] = {"date_string": "26 Jul 2024", "enable_thinking": False}
BLOCKS, BLOCK = 16, 2**16  # evenly spread blocks of a file, and bytes in each: training changes all weights
ENDINGS = (".gguf", ".safetensors", ".bin", ".pt", ".json", ".jinja", ".model", ".txt")
_MARKUP = re.compile(r"<.+>|\[.+\]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Encoded:
    """A question as token ids, the paths that the model reads `after` them, and the number of characters cut.

    `after` are the longest beginnings of the labels; the model reads the question once with each of them. `known` is
    the length of the prefix that `ids` share with the same question about the first of several criteria.
    """

    question: Question
    ids: list[int]
    cut: int = 0
    after: tuple[TokenPath, ...] = ((),)
    known: int = 0

    @property
    def sequences(self) -> list[list[int]]:
        """The question with each entry of `after`."""
        return [[*self.ids, *path] for path in self.after]

    @property
    def size(self) -> int:
        """The number of tokens in all `sequences`, padded to the longest."""
        return len(self.after) * (len(self.ids) + max(map(len, self.after)))


class PromptTokens(ABC):
    """Writes the questions of a prompt as tokens of one model.

    `window` is how many tokens the model can read; None: no limit. A decoder reads the prompt and the beginning of the
    answer, an `encoder` the prompt alone.
    """

    def __init__(self, window: int | None, *, encoder: bool = False) -> None:
        self.window, self.encoder = window, encoder
        self._spellings: dict[Prompt, Spellings] = {}

    @abstractmethod
    def written(self, text: str, answer: str) -> str:
        """The text as the user's turn, and the beginning of the answer as the model's."""

    @abstractmethod
    def tokens(self, texts: list[str], *, bare: bool = False) -> list[list[int]]:
        """The token ids of texts; `bare`: without the special tokens that begin or end a text."""

    @abstractmethod
    def vocabulary(self) -> Sequence[str | None]:
        """The text of each token, by its id."""

    @abstractmethod
    def decode(self, path: TokenPath) -> str:
        """The text of some tokens."""

    def plain(self, text: str) -> str:
        """The text, changed so that the tokenizer reads its special tokens as plain text."""
        return text

    def encode(self, questions: Sequence[Question], prompt: Prompt) -> list[Encoded | Judgement]:
        """Each question as tokens within the window; a failed judgement if it cannot be encoded or cut.

        With several criteria there is a row per question and criterion.
        """
        if isinstance(prompt, CriteriaPrompt):
            return self._encode_each(questions, prompt)
        after = self.spellings(prompt).paths
        try:
            tokens = self.tokens([self.written(prompt.text(one, self.plain), prompt.answer) for one in questions])
        except Exception as problem:  # of whatever kind: each tokenizer has its own
            if len(questions) == 1:
                reason = f"{type(problem).__name__}: {first_line(problem)}"
                return [Judgement(questions[0], error=f"the prompt cannot be written as tokens: {reason}")]
            return [found for question in questions for found in self.encode([question], prompt)]
        return [self._fit(question, ids, prompt, after) for question, ids in zip(questions, tokens, strict=True)]

    def _encode_each(self, questions: Sequence[Question], prompt: CriteriaPrompt) -> list[Encoded | Judgement]:
        first, *others = (
            self.encode([about(question, name) for question in questions], part) for name, part in prompt.each
        )
        found = list(first)
        for rows in others:
            for row, begun in zip(rows, first, strict=True):
                if isinstance(row, Encoded) and isinstance(begun, Encoded):
                    row = replace(row, known=common_prefix([begun.ids, row.ids]))
                found.append(row)
        return found

    def _fit(
        self, question: Question, ids: list[int], prompt: Prompt, after: tuple[TokenPath, ...]
    ) -> Encoded | Judgement:
        if not ids:
            return Judgement(question, error="the prompt is empty; give a text or a template with words")
        room = None if self.window is None else self.window - (0 if self.encoder else max(map(len, after)))
        if room is None or len(ids) <= room:
            return Encoded(question, ids, 0, after)

        def read(text: str) -> list[int]:
            return self.tokens([self.written(text, prompt.answer)])[0]

        try:
            text, cut = prompt.fit(question, room, lambda text: len(read(text)), self.plain)
        except ValueError as problem:
            return Judgement(question, error=str(problem))
        return Encoded(question, read(text), cut, after)

    def spellings(self, prompt: Prompt) -> Spellings:
        """How the model spells the labels of a prompt after the beginning of the answer."""
        if prompt not in self._spellings:
            whole = tuple(self._continuation(prompt.answer, label.strip()) for label in prompt.labels)
            begun = self.tokens([prompt.answer], bare=True)[0] if self.encoder else []
            self._spellings[prompt] = find_spellings(prompt.labels, whole, self.vocabulary(), begun)
        return self._spellings[prompt]

    def _continuation(self, answer: str, label: str) -> TokenPath:
        """The tokens that a label adds to the beginning of the answer."""
        begun = [answer, answer + label if answer[-1:].isspace() else f"{answer} {label}".strip()]
        texts = begun if self.encoder else [self.written("", text) for text in begun]
        before, whole = self.tokens(texts, bare=self.encoder)
        if common_prefix([before, whole]) < len(before):  # the end of the answer and the label share a token
            return tuple(self.tokens([label], bare=True)[0])
        return tuple(whole[len(before) :])

    def read(
        self,
        likeliest: Mapping[TokenPath, Sequence[tuple[Any, float]]],
        row: Encoded,
        prompt: Prompt,
        reply: TokenPath | None = None,
    ) -> Judgement:
        """The answer to a row, from the log-probabilities of the likeliest tokens after each node of the labels.

        The `reply` is by default the greedy path through these tokens.
        """
        labels = self.spellings(prompt)
        found = label_probability(likeliest, labels, prompt.size)
        if reply is None:
            reply = likeliest_path({node: max(tokens, key=itemgetter(1))[0] for node, tokens in likeliest.items()})
        words = " or ".join(map(repr, prompt.labels))
        p, mass, lineup = found or (math.nan, math.nan, "")
        return Judgement(
            row.question,
            p=p,
            mass=mass,
            reply=self.decode(reply),
            tokens_in=len(row.ids) - row.known + len(labels.begun),
            tokens_out=len(reply),
            cut=row.cut,
            lineup=lineup,
            error=None if found else f"the model's likeliest tokens do not begin {words}; use other labels",
        )


class Chat(PromptTokens):
    """A tokenizer of transformers, and how a prompt is written for its model.

    A decoder reads the prompt as the user's turn of its chat template and the beginning of the answer as its own turn;
    without a template, the two as plain text.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, window: int | None = None, *, encoder: bool = False) -> None:
        super().__init__(window, encoder=encoder)
        self.tokenizer: Any = tokenizer
        self._templated = not encoder and bool(tokenizer.chat_template)
        self._continues = self._templated and self._can_continue()
        self._special = _special_pattern(self.tokenizer)

    def written(self, text: str, answer: str) -> str:
        if self.encoder:
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
        """Whether the template can continue a turn of the assistant, with the right space before its first word."""
        self._continues = True
        try:
            self.written("question", "answer")
        except (TemplateError, ValueError):
            return False
        return True

    def tokens(self, texts: list[str], *, bare: bool = False) -> list[list[int]]:
        # A template writes the token that begins a text itself; a second one would begin a new text.
        read = self.tokenizer(texts, add_special_tokens=not (bare or self._templated), verbose=False)
        tokens: list[list[int]] = read["input_ids"]
        end = self.tokenizer.eos_token_id
        if not (bare or self.encoder or self._templated):
            tokens = [ids[:-1] if ids and ids[-1] == end else ids for ids in tokens]
        return tokens

    def vocabulary(self) -> list[str | None]:
        known: list[str | None] = self.tokenizer.convert_ids_to_tokens(list(range(len(self.tokenizer))))
        return known

    def decode(self, path: TokenPath) -> str:
        return str(self.tokenizer.decode([*path]))

    def plain(self, text: str) -> str:
        """The text with a space after the first character of every special token, which makes it plain text."""
        return self._special.sub(r"\g<0> ", text)


def pulls(
    chat: PromptTokens, questions: Iterable[Question], prompt: Prompt, ahead: int
) -> Iterator[tuple[list[Encoded], list[Judgement]]]:
    """Yield `ahead` questions at a time, as the rows of those that are encoded and the failures of the others."""
    stream = iter(questions)
    while pulled := list(islice(stream, ahead)):
        encoded = chat.encode(pulled, prompt)
        rows = [row for row in encoded if isinstance(row, Encoded)]
        failures = [row for row in encoded if isinstance(row, Judgement)]
        yield rows, failures


def answers_of(
    chat: PromptTokens,
    questions: Iterable[Question],
    prompt: Prompt,
    ahead: int,
    answer: Callable[[list[Encoded], Spellings, Prompt], Iterable[Judgement]],
) -> Iterator[Judgement]:
    """Yield the judgements by `answer` of `ahead` questions at a time, sorted so that common prefixes are adjacent."""

    def each() -> Iterator[Judgement]:
        for rows, failed in pulls(chat, questions, prompt, ahead):
            yield from failed
            yield from answer(sorted(rows, key=lambda row: row.ids), chat.spellings(prompt), prompt)

    return gathered(each(), prompt)


def gathered(answers: Iterable[Judgement], prompt: Prompt) -> Iterator[Judgement]:
    """Join answers about single criteria into one `Several` per question, when its last criterion is answered.

    Answers to a prompt that is no `CriteriaPrompt` are yielded unchanged.
    """
    if not isinstance(prompt, CriteriaPrompt):
        yield from answers
        return
    names = list(prompt.parts)
    open_calls: dict[tuple[Any, Any, Any], dict[str | None, Judgement]] = {}
    for answer in answers:
        key = answer.question.context, answer.question.first, answer.question.second
        call = open_calls.setdefault(key, {})
        call[answer.question.voice] = answer
        if len(call) == len(names):
            del open_calls[key]
            yield Several.of([call[name] for name in names])


def first_line(problem: Exception) -> str:
    """The first line of an error's message, or its type."""
    return str(problem).strip().partition("\n")[0] or type(problem).__name__


def _special_pattern(tokenizer: Any) -> re.Pattern[str]:
    """Matches the first character of every special token."""
    added = tokenizer.added_tokens_decoder.values()
    special = {token.content for token in added if token.special or _MARKUP.fullmatch(token.content)}
    words = [re.escape(token) for token in special | set(tokenizer.all_special_tokens) if len(token) > 1]
    return re.compile(f"(?=(?:{'|'.join(words)})).", re.DOTALL) if words else re.compile(r"(?!)")


def digest_of(model: str | Path) -> str | None:
    """A digest of a model's file, or of the files of its folder; None for a name on the Hub.

    The digest covers names, sizes and evenly spread blocks, because reading all of a large model takes longer than
    loading it. It does not cover the path: a moved model has the same digest.

    >>> digest_of("Qwen/Qwen2.5-7B-Instruct")
    """
    path = Path(model).expanduser()
    if path.is_file():
        files = [path]
    elif path.is_dir():
        files = sorted(file for file in path.iterdir() if file.is_file() and file.suffix.lower() in ENDINGS)
    else:
        return None
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}\n{size}\n".encode())
        with file.open("rb") as stream:
            for number in range(BLOCKS):
                stream.seek(max(0, size - BLOCK) * number // (BLOCKS - 1))
                digest.update(stream.read(BLOCK))
    return digest.hexdigest()[:32]
