"""Several criteria in one call to a server: a reply has a line per criterion, or an object with a key per criterion.

    coherence: A
    fluency: B

p of a criterion is read from the log-probabilities where its line names a label, given the lines before it, so an
answer may depend on those above it (docs/criteria.md has by how much). Where verdicts are sampled, each of them is a
verdict on every criterion.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

import comparo.judges.openai.verdicts as verdicts
from comparo.data.criteria_prompt import CriteriaPrompt, reply_tokens
from comparo.data.prompts import Prompt
from comparo.judges.openai.caller import Caller, Case
from comparo.judges.openai.settings import Settings
from comparo.judges.protocol import Judgement
from comparo.judges.several import mean_of, shared_call

Found = dict[str, tuple[float, float, float] | None]


class CriteriaCaller(Caller):
    """Sends questions about several criteria to a server and reads its answers."""

    def __init__(self, judge: Settings, prompt: Prompt) -> None:
        assert isinstance(prompt, CriteriaPrompt)
        super().__init__(judge, prompt)
        self.criteria = prompt
        self.max_tokens = max(self.max_tokens, reply_tokens(prompt))

    def _told(self, case: Case, judgement: Judgement) -> Judgement:
        """The call as it is stored: an answer for each criterion, or why there is none."""
        missing = judgement.error or f"the reply {self._short(case.reply)} has no verdict on it"
        return shared_call(judgement, {name: case.each.get(name) or missing for name in self.criteria.parts})

    def _probability(self, case: Case, positions: verdicts.Positions) -> tuple[float, float] | None:
        mean = self._mean(case, read_lines(positions, self.criteria))
        return None if mean is None else mean[:2]

    def _verdict(self, case: Case, replies: list[str]) -> tuple[float, float, float] | None:
        return self._mean(case, read_votes(replies, self.criteria, self.graded))

    def _mean(self, case: Case, found: Found) -> tuple[float, float, float] | None:
        """Keep what was found for each criterion; return the mean of p, mass and weight, None where nothing was."""
        case.each.update({name: told for name, told in found.items() if told is not None})
        return mean_of(found)


def read_lines(positions: verdicts.Positions, prompt: CriteriaPrompt) -> Found:
    """p and mass of each criterion from the log-probabilities of a reply; a ValueError where no line names one."""
    own = part_positions(positions, prompt.parts)
    if positions and not own:
        raise ValueError(f"no line begins with {' or '.join(f'{name}:' for name in prompt.parts)}")
    found = {name: verdicts.read_logprobs(own[name], part) for name, part in prompt.each if name in own}
    return {name: None if told is None else (*told, 1.0) for name, told in found.items()}


def read_votes(replies: Iterable[str], prompt: CriteriaPrompt, graded: bool) -> Found:
    """p, mass and weight of each criterion from sampled replies, each a verdict on every criterion."""
    read = verdicts.read_grade if graded else verdicts.read_verdict
    said = [part_words(reply, prompt.parts) for reply in replies]
    return {
        name: verdicts.soften([read(words.get(name, ""), part) for words in said], graded) for name, part in prompt.each
    }


def part_positions(positions: verdicts.Positions, names: Iterable[str]) -> dict[str, verdicts.Positions]:
    """The tokens of a reply that follow the name of each criterion, up to the next name.

    >>> reply = [(token, []) for token in ("co", "herence", ":", " A", "\\n", "fluency", ": B")]
    >>> {name: [token for token, _ in own] for name, own in part_positions(reply, ["coherence", "fluency"]).items()}
    {'coherence': [' A', '\\n'], 'fluency': [': B']}
    """
    ends = [*accumulate(len(token) for token, _ in positions)]
    found = {}
    for name, (begin, end) in _spans("".join(token for token, _ in positions), names).items():
        inside = [number for number, stop in enumerate(ends) if begin < stop and stop - len(positions[number][0]) < end]
        found[name] = [positions[number] for number in inside]
    return found


def part_words(reply: str, names: Iterable[str]) -> dict[str, str]:
    """What a reply says of each criterion, in an object or in lines.

    >>> part_words('{"wit": "Text A", "length": "Text B"}', ["wit", "length"])
    {'wit': 'Text A', 'length': 'Text B'}
    >>> part_words("**wit**: A\\n- length: Text B", ["wit", "length"])
    {'wit': 'A\\n-', 'length': 'Text B'}
    """
    said = verdicts.final_words(reply) if len(reply) <= verdicts.LONGEST else ""
    if said.startswith("{"):
        return {name: verdicts.json_value(said, name) for name in names}
    return {name: said[begin:end].strip() for name, (begin, end) in _spans(said, names).items()}


def _spans(text: str, names: Iterable[str]) -> dict[str, tuple[int, int]]:
    """Where the words about each criterion that is named begin and end; each at its first mention."""
    mentions: list[tuple[int, int, Any]] = []
    for name in names:
        match = re.search(rf"(?i)(?<![\w-]){re.escape(name)}[\s*_`\"']*[:=]", text)
        if match:
            mentions.append((match.start(), match.end(), name))
    mentions.sort()
    stops = [begin for begin, _, _ in mentions[1:]] + [len(text)] * bool(mentions)
    return {name: (end, stop) for (_, end, name), stop in zip(mentions, stops, strict=True)}
