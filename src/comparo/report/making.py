"""How a run was made: its question, who judged, and its settings in words."""

import math
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import Any

from comparo.data.items import Items
from comparo.data.probes import injection_sentence
from comparo.data.prompts import Prompt
from comparo.data.wordings import WORDINGS
from comparo.judges import Judgement
from comparo.judges.prices import Price
from comparo.log.configuration import PROBES, paid_and_spent
from comparo.log.store import LINK
from comparo.report.embed import label, listed, presentable
from comparo.report.record import Record
from comparo.run.budget import dollars
from comparo.run.task import PRICES
from comparo.run.voices import tokens_sentence

NAME = 300  # characters of a judge's name, and of a setting
SETTINGS = 100  # that are shown at most
CHOSEN = ("budget", "until", "goal", "strategy", "orders", "method", "bias", "estimate", "seed")


def prompt_of(configuration: Mapping[str, Any]) -> Prompt:
    """The prompt that a configuration holds."""
    stored = configuration["identity"]["prompt"]
    return Prompt(stored["template"], tuple(stored["labels"]), stored["answer"], configuration.get("wording"))


def question(prompt: Prompt) -> str:
    """The question of a prompt, without the two labels; the last line if the wording is not built in.

    >>> from comparo.data.prompts import criterion_prompt
    >>> question(criterion_prompt("more coherent", kind="Summary", wording="between"))
    'Which Summary is more coherent?'
    """
    for wording in WORDINGS.values():
        if found := wording.read(prompt.template):
            kind, _, does = map(_plain, found)
            return f"Which {kind} {does}?"
    lines = [line.strip() for line in prompt.template.splitlines() if line.strip()]
    if "{first}" in lines[-1] or "{second}" in lines[-1]:
        return "Which text is better?"
    first, second = (f"{prompt.answer} {label}".strip() for label in prompt.labels[:2])
    last, ending = _plain(lines[-1]), f", {first} or {second}?"
    return last.removesuffix(ending) + "?" if last.endswith(ending) else last


def injection_notes(configuration: Mapping[str, Any], items: Items) -> tuple[str, ...]:
    """A note on texts that may address the judge; none if people were asked, or the prompt is unknown."""
    identity = configuration["identity"]
    if "prompt" not in identity or identity.get("asked") == "people":
        return ()
    sentence = injection_sentence(items, prompt_of(configuration))
    return (sentence,) if sentence else ()


def facts(record: Record) -> list[tuple[str, str]]:
    """Names and values of the first facts about a run: who judged, how often, at which cost, and when."""
    made = len(record.answered)
    counted = f"{made:,}" if record.is_fitted else f"{made:,} of {record.possible:,} possible"
    found = [("Judged by", _judges(record)), (record.words.calls.capitalize(), counted)]
    if not record.is_fitted and not record.is_voted:
        found.append(("Cost", _cost(record)))
    if link := record.configuration.get(LINK):
        found.append(("Linked to", label(PurePath(link["run"]).name, NAME)))
    if started := str(record.configuration.get("started", ""))[:10]:
        found.append(("Date", started))
    return found


def _judges(record: Record) -> str:
    names = [presentable(name) for name in record.judges]
    if record.is_voted:
        voted = {str(one.question.voice) for one in record.answered}
        names = [presentable(name) for name in record.judges if name in voted] or names
        return f"{len(names)} {'person' if len(names) == 1 else 'people'}: {listed(names)}"
    votes = record.ranking.people
    people = "" if votes is None else f", and people by {votes.votes:,} votes"
    return label(listed(names) if len(names) > 1 else names[0], NAME) + people


def _cost(record: Record) -> str:
    if not record.costs:
        return "not known"
    rest = len(record.judgements) - len(record.costs)
    more = f", without {rest:,} calls of unknown price" if rest else ""
    return (dollars(sum(record.costs)) if sum(record.costs) else "none") + more


def settings(
    configuration: Mapping[str, Any], judgements: Sequence[Judgement], whose: str = "the judge's own"
) -> list[tuple[str, str]]:
    """The settings, cost and time of a run as names and values; `whose` are the scores."""
    identity = configuration["identity"]
    asked = [judgement for judgement in judgements if not judgement.cached]
    seconds = [judgement.seconds for judgement in asked if not math.isnan(judgement.seconds)]
    cached, answered = len(judgements) - len(asked), sum(not judgement.failed for judgement in judgements)
    has_tokens = any(judgement.tokens_in or judgement.tokens_out for judgement in asked)
    cost = time = "unknown"
    if any(not math.isnan(judgement.spent) for judgement in judgements):
        _, spent = paid_and_spent(judgements, configuration)
        cost = dollars(spent)
    if sum(seconds):
        time = f"{sum(seconds) / len(seconds):.2f} s per call, {len(seconds):,} calls"
    voices = {"judge": identity, **identity.get("voices", {})}
    own: dict[str, Any] = {}
    for voice, who in voices.items():
        own |= {f"{voice}: {name}": value for name, value in who["settings"].items()}
    prices = {name: Price(**price) for name, price in (configuration.get(PRICES) or {}).items()}
    probes = [f"{one['sentence']} ({one['at'][:10]})" for one in configuration.get(PROBES) or ()]
    found = {
        "wording": configuration.get("wording"),
        "texts in a call": _texts(configuration),
        "judge": identity["judge"],
        **own,
        **{name: _setting(configuration, name) for name in (*CHOSEN, "started")},
        "scores": whose,
        "from the cache": f"{cached:,} of {answered:,} answers" if cached else None,
        "cost": cost,
        **{f"price of {name}": price.sentence() for name, price in prices.items()},
        "tokens": tokens_sentence(asked) if has_tokens or not asked else "unknown",
        "probed": "; ".join(probes) or None,
        "time": time,
        **{f"version: {name}": value for name, value in configuration.get("versions", {}).items()},
        "SHA-256 of the items": identity.get("items"),
    }
    known = [(label(name), label(value, NAME)) for name, value in found.items() if value is not None]
    return known[:SETTINGS]


def _texts(configuration: Mapping[str, Any]) -> str | None:
    """The number of texts per call if it is above two, and the reason if a pilot chose it."""
    size = len(configuration["identity"].get("prompt", {}).get("labels", ()))
    rates = (configuration.get("lineup") or {}).get("rates", {})
    shown = ", ".join(f"{k} texts {value / max(rates.values()):.0%}" for k, value in rates.items())
    why = f", by a pilot of what a token shows of the scores: {shown}" if rates else ""
    return f"{size}{why}" if size > 2 or rates else None


def _setting(configuration: Mapping[str, Any], name: str) -> Any:
    return configuration.get(name, configuration["identity"].get(name))


def _plain(template: str) -> str:
    return template.replace("{{", "{").replace("}}", "}")
