"""The voices of a run: each judge with each wording of the question, by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from comparo.data.prompts import Prompt
from comparo.judges import Judge


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

    A voice is named after its judge; where there are several prompts, after the wording too. Voices whose names would
    be the same are numbered.

    >>> from comparo.data.prompts import criterion_prompt
    >>> from comparo.judges import load_judge
    >>> judges = load_judge("simulated/soft"), load_judge("simulated/soft", seed=1), load_judge("simulated/hard")
    >>> [voice.name for voice in voices_of(judges, [criterion_prompt("better")])]
    ['simulated/soft 1', 'simulated/soft 2', 'simulated/hard']
    >>> prompts = [criterion_prompt("better", wording=wording) for wording in ("paper", "compare")]
    >>> [voice.name for voice in voices_of(judges[2:], prompts)]
    ['simulated/hard · paper', 'simulated/hard · compare']
    >>> [voice.name for voice in voices_of(judges[:1], prompts[:1])]
    [None]
    """
    return named_voices(list(product(judges, prompts)))


def named_voices(asked: Sequence[tuple[Judge, Prompt]]) -> tuple[Voice, ...]:
    """Judges, each with the prompt that it is asked, named as `voices_of` does."""
    if len(asked) == 1:
        return (Voice(None, *asked[0]),)
    is_worded = any(prompt != asked[0][1] for _, prompt in asked)
    names = [judge.name + (f" · {prompt.wording}" if is_worded else "") for judge, prompt in asked]
    counts, seen = Counter(names), Counter[str]()
    voices = []
    for name, (judge, prompt) in zip(names, asked, strict=True):
        seen[name] += 1
        voices.append(Voice(f"{name} {seen[name]}" if counts[name] > 1 else name, judge, prompt))
    return tuple(voices)
