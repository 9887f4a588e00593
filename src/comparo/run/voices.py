"""The voices of a run, each a judge with a wording, and their answers as comparisons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from comparo.data.columns import Table
from comparo.data.comparisons import Comparisons
from comparo.data.criteria_prompt import criteria_prompt, split_weights
from comparo.data.grammar import with_settings
from comparo.data.items import Items
from comparo.data.layouts import fields_from_table
from comparo.data.lineups import lineup_columns
from comparo.data.prompts import Prompt, Question, choose_prompt
from comparo.data.run_folder import in_order, key_of
from comparo.data.sources import text_of
from comparo.data.wordings import AUDITIONED, DEFAULT_WORDING
from comparo.errors import Message, named
from comparo.judges import Judge, Judgement, as_judge, load_judge
from comparo.judges.protocol import Several
from comparo.log.cache import CACHE
from comparo.options import AskOptions, JudgeLike, QuestionOptions, Storage
from comparo.run.cached_judge import remembering


@dataclass(frozen=True)
class Voice:
    """A judge with the prompt that it is asked; the name is None in a run of one voice."""

    name: str | None
    judge: Judge
    prompt: Prompt

    @property
    def identity(self) -> dict[str, Any]:
        """What must stay the same to continue a run: the judge, what changes its answers, and the prompt."""
        return {
            "judge": self.judge.name,
            "settings": dict(self.judge.settings),
            "prompt": dict(self.prompt.identity),
        }


def voices_of(judges: Sequence[Judge], prompts: Sequence[Prompt]) -> tuple[Voice, ...]:
    """Every judge with every prompt, in this order.

    A voice is named after its judge; where there are several prompts, after the wording too, and where they are about
    different numbers of texts, after these. Voices whose names would be the same are numbered.

    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> judges = load_judge("simulated/soft"), load_judge("simulated/soft", seed=1), load_judge("simulated/hard")
    >>> [voice.name for voice in voices_of(judges, [criterion_prompt("better")])]
    ['simulated/soft 1', 'simulated/soft 2', 'simulated/hard']
    >>> prompts = [criterion_prompt("better", wording=wording) for wording in ("paper", "compare")]
    >>> [voice.name for voice in voices_of(judges[2:], prompts)]
    ['simulated/hard · paper', 'simulated/hard · compare']
    >>> [voice.name for voice in voices_of(judges[2:], [prompts[0], prompts[0].resized(4)])]
    ['simulated/hard · pairs', 'simulated/hard · line-ups of 4']
    >>> [voice.name for voice in voices_of(judges[:1], prompts[:1])]
    [None]
    """
    asked = list(product(judges, prompts))
    if len(asked) == 1:
        return (Voice(None, *asked[0]),)
    of_size = {prompt.size: prompt for _, prompt in asked}
    is_worded = any(of_size[prompt.size] != prompt for _, prompt in asked)
    names = []
    for judge, prompt in asked:
        name = judge.name
        if is_worded:
            name += f" · {prompt.wording}"
        if len(of_size) > 1:
            name += " · pairs" if prompt.size == 2 else f" · line-ups of {prompt.size}"
        names.append(name)
    counts, seen = Counter(names), Counter[str]()
    voices = []
    for name, (judge, prompt) in zip(names, asked, strict=True):
        seen[name] += 1
        voices.append(Voice(f"{name} {seen[name]}" if counts[name] > 1 else name, judge, prompt))
    return tuple(voices)


def comparisons(judgements: Iterable[Judgement]) -> Comparisons:
    """Convert the answered judgements to comparisons, in the order of their questions; voices become its judges.

    So a ranking does not depend on the order in which answers arrived, not even by rounding or random draws.
    """
    answered = sorted_answers(judgement for judgement in judgements if not judgement.failed)
    names = ("first", "second", "context", "voice")
    first, second, context, voice = ([getattr(one.question, name) for one in answered] for name in names)
    p, weight = ([getattr(one, name) for one in answered] for name in ("p", "weight"))
    if any(one.lineup for one in answered):
        said = lineup_columns(first, second, p, [one.lineup for one in answered])
        said |= {"weight": weight, "context": context, "judge": voice}
        kept = {name: column for name, column in said.items() if any(value is not None for value in column)}
        return Comparisons(**fields_from_table(Table(kept)))
    weights = np.array(weight) if any(each != 1 for each in weight) else None
    labels = (None if all(label is None for label in column) else column for column in (context, voice))
    return Comparisons.from_columns(first, second, np.array(p), weights, *labels)


def sorted_answers(answers: Iterable[Judgement]) -> list[Judgement]:
    """The answers in the order of their questions."""
    found = list(answers)
    keys = zip(*(key_of(one.question) for one in found), strict=True)
    return [found[row] for row in in_order(*keys)[0].tolist()] if found else []


def with_texts(items: Items, asked: Question) -> Question:
    """A question of a run folder with its texts."""
    return replace(items.question(asked.context, asked.first, asked.second), voice=asked.voice)


def with_voice(answer: Judgement, voice: str | None = None) -> Judgement:
    """The answer with another voice; None in a run of one voice."""
    return replace(answer, question=replace(answer.question, voice=voice))


def stored_voices(identity: Mapping[str, Any], alone: str | None = None) -> dict[str | None, dict[str, Any]]:
    """The identity of each voice of a run by its name, which is `alone` where there is only one."""
    return identity.get("voices") or {alone: {name: identity[name] for name in ("judge", "settings", "prompt")}}


def observed(answers: Sequence[Judgement]) -> list[Any]:
    """The answers of a context as rows for a choice of pairs or line-ups."""
    if not any(one.lineup for one in answers):
        return [(one.question.first, one.question.second, one.p, one.weight) for one in answers]
    ends = [one.question.first for one in answers], [one.question.second for one in answers]
    columns = lineup_columns(*ends, [one.p for one in answers], [one.lineup for one in answers])
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def by_ranking(answers: Sequence[Judgement]) -> list[list[Judgement]]:
    """The answers that are ranked together: one list of all, or with several criteria a list for each.

    >>> from comparo.data.prompts import Question
    >>> len(by_ranking([Judgement(Question("ana", "bo"), p=0.7)]))
    1
    """
    if not any(isinstance(answer, Several) for answer in answers):
        return [list(answers)]
    return [list(map(with_voice, own)) for own in zip(*(answer.each for answer in answers), strict=True)]


def count_cached(judgements: Iterable[Judgement]) -> int:
    """How many of the judgements came from the cache."""
    return sum(judgement.cached for judgement in judgements)


NO_READERS = ("simulated/", "replay/")  # judges that read no prompt


def make_judges(
    judge: JudgeLike | Sequence[JudgeLike], cache: str | Path | None = None, is_stored: bool = False
) -> list[Judge]:
    """The judges that are given by name, as judges or as functions.

    With a `cache`, answers are looked up there first. By default, judges that are given by name have a cache where the
    run `is_stored`.

    >>> [judge.name for judge in make_judges(["simulated/soft; seed=3", "simulated/hard"])]
    ['simulated/soft', 'simulated/hard']
    """
    judges = listed(judge)
    if not judges:
        raise ValueError(Message("there is no judge; name one, such as {judge:'openai/gpt-6-luna'}"))
    made = [load_judge(each) if isinstance(each, str) else as_judge(each) for each in judges]
    if cache is not None or not is_stored:
        return remembering(made, cache)
    rows = zip(judges, made, remembering(made, CACHE), strict=True)
    return [kept if isinstance(each, str) else own for each, own, kept in rows]


def listed(given: Any) -> list[Any]:
    """A list or tuple as a list, any other value as a list of one."""
    return list(given) if isinstance(given, list | tuple) else [given]


def make_prompt(
    items: Items,
    criterion: str | Mapping[str, str] | None,
    prompt: str | Prompt | None,
    judge: str = "",
    *,
    kind: str = "Text",
    context: str | None = None,
    wording: str | None = None,
) -> Prompt:
    """The prompt for some items: a criterion, a template, or the path of one.

    `kind` is what the texts are called, with or without the heading of their context, by default the name of its
    column: "Summary; heading=Article". Several criteria are given by name. A path may be followed by the labels and the
    beginning of the answer: "FILE; labels=A,B, answer=Text". A simulated or recorded judge reads no prompt and needs
    neither criterion nor prompt.
    """
    kind, heading = split_kind(kind, context)
    if criterion is None and prompt is None and judge.startswith(NO_READERS):
        criterion = "better"
    above = heading if any(text is not None for text in items.context_texts) else None
    if isinstance(criterion, Mapping):
        if prompt is not None:
            raise ValueError(Message("several criteria have a prompt of their own; leave {prompt} out"))
        return criteria_prompt(criterion, kind, above, wording or DEFAULT_WORDING)
    labels = answer = None
    if isinstance(prompt, str) and "{" not in prompt:
        prompt, own = with_settings(prompt, "labels", "answer")
        answer = own.get("answer")
        if "labels" in own:
            first, _, second = (word.strip() for word in own["labels"].partition(","))
            if not first or not second or "," in second:
                raise ValueError(Message("labels of {prompt} are two words with a comma, ") + f"not {own['labels']!r}")
            labels = first, second
        if not Path(prompt).exists():
            problem = ": no such file; give one, or a template with {first} and {second}"
            raise ValueError(named("prompt", prompt) + problem)
        prompt = text_of(Path(prompt))
    return choose_prompt(criterion, prompt, kind=kind, heading=above, wording=wording, labels=labels, answer=answer)


def split_kind(kind: str, context: str | None = None) -> tuple[str, str]:
    """What the texts are called, and the heading of their context: by default the name of its column.

    >>> split_kind("Summary; heading=Article"), split_kind("Text", "source_text")
    (('Summary', 'Article'), ('Text', 'Source text'))
    """
    kind, own = with_settings(kind, "heading")
    return kind, own.get("heading") or (context or "context").replace("_", " ").capitalize()


def make_prompts(
    items: Items, asked: QuestionOptions, judge: JudgeLike | Sequence[JudgeLike], context: str | None = None
) -> list[Prompt]:
    """The criterion, or each prompt, in every wording; `context` is the name of the column of contexts.

    The wording "all" is all in `AUDITIONED`. Judges that read no prompts need no criterion.
    """
    criterion = split_weights(asked.criterion)[0] if isinstance(asked.criterion, Mapping) else asked.criterion
    names = [each if isinstance(each, str) else getattr(each, "name", "") for each in listed(judge)]
    reader = next((name for name in names if not name.startswith(NO_READERS)), "".join(names[:1]))
    wordings = listed(asked.wording)
    if len(set(wordings)) < len(wordings):
        twice = named("wording", ", ".join(map(str, wordings)))
        raise ValueError(twice + ": one of them is there twice; give each once")
    if wordings == ["all"]:
        if isinstance(criterion, Mapping):
            raise ValueError(
                Message("{wording:'all'} is not for several criteria in one call; name a wording, ")
                + "or rank by one criterion after another"
            )
        wordings = AUDITIONED if criterion and asked.prompt is None else [None]
    return [
        make_prompt(items, criterion, each, reader, kind=asked.kind, context=context, wording=way)
        for each in listed(asked.prompt)
        for way in wordings
    ]


def make_voices(items: Items, options: AskOptions, sizes: Sequence[int] = ()) -> tuple[Voice, ...]:
    """Every judge with every prompt, for every number of texts in `sizes`."""
    prompts = make_prompts(items, options, options.judge, options.context)
    if sizes:
        prompts = [prompt.resized(size) for prompt in prompts for size in sizes]
    return voices_of(make_judges(options.judge, options.cache, Storage.of(options.out).out is not None), prompts)


def tokens_sentence(judgements: Sequence[Judgement]) -> str:
    """How many tokens were read and written, and which of them have a price of their own or are not in the reply.

    >>> from comparo.data.prompts import Question
    >>> answer = Judgement(Question("ana", "bo"), p=0.7, tokens_in=900, tokens_out=80, tokens_reasoning=64)
    >>> tokens_sentence([answer, answer])
    '1,800 tokens read, 160 written, 128 of them reasoning'
    """
    names = ("tokens_in", "tokens_cached", "tokens_out", "tokens_reasoning")
    read, cached, written, reasoning = (sum(getattr(one, name) for one in judgements) for name in names)
    kept = f", {cached:,} of them from the server's cache" if cached else ""
    thought = f", {reasoning:,} of them reasoning" if reasoning else ""
    return f"{read:,} tokens read{kept}, {written:,} written{thought}"


def model_sentences(judgements: Iterable[Judgement]) -> tuple[str, ...]:
    """A sentence per voice whose answers came from several models, by the server's replies, with their counts.

    >>> from comparo.data.prompts import Question
    >>> names = ("tiny-1", "tiny-1", "tiny-2")
    >>> model_sentences(Judgement(Question("ana", "bo"), p=0.7, model=name) for name in names)[0].partition(";")[0]
    'answers of the judge are by several models: tiny-1 gave 2 of them, tiny-2 gave 1 of them'
    """
    counts: dict[str | None, Counter[str]] = {}
    for one in judgements:
        if one.model and not one.failed:
            counts.setdefault(one.question.voice, Counter())[one.model] += 1
    found = []
    for voice, names in counts.items():
        gave = [f"{name} gave {count:,} of them" for name, count in names.items()]
        if len(gave) > 1:
            remedy = Message("if they should be from one, name its version and run again with {fresh:True}")
            found.append(f"answers of {voice or 'the judge'} are by several models: {', '.join(gave)}; " + remedy)
    return tuple(found)
