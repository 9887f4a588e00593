"""How a run was made: its question, its settings in words, and a command that repeats it."""

import math
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from comparo.data.prompts import PAPER, Prompt, criterion_prompt, paper_prompt
from comparo.data.wordings import DEFAULT_WORDING, WORDINGS
from comparo.judges import Judgement
from comparo.judges.prices import Price
from comparo.ranking.ranking import Whose
from comparo.run.budget import PROBES, dollars, paid
from comparo.run.probing import PRICES, tokens_sentence

METHODS = {
    "win-ratio": "share of wins",
    "avg-prob": "mean probability of winning",
    "bt": "Bradley–Terry model of wins and losses",
    "poe-bt": "Bradley–Terry model of the judge's probabilities",
    "poe-g": "Gaussian model of the judge's probabilities",
    "poe-g-hard": "Gaussian model of wins and losses",
    "mixed": "model of the judge's answers with variances estimated from them",
    "panel": "consensus of several judges, each weighed by what it agrees on with the others",
    "davidson": "Bradley–Terry model of wins, losses and ties",
    "bt-sigma": "Bradley–Terry model with a discrimination for each judge",
}
CHOSEN = ("budget", "until", "goal", "strategy", "orders", "method", "bias", "estimate", "seed")


def score_meaning(method: str, whose: Whose = "judge") -> str:
    """What a score of a method says, in a sentence for someone who knows none of the methods."""
    if method in ("win-ratio", "avg-prob"):
        counted = "share of its comparisons that it won" if method == "win-ratio" else METHODS[method]
        return f"The score of a text is its {counted}."
    if method.startswith("poe-g"):
        apart = "by 0.1, the model expects the better one to win with probability 0.60"
    else:
        apart = "by 1, the model expects the better one to win with probability 0.73; by 2, 0.88"
    if whose == "people":
        return f"They are what people would say, in the scale of their votes. Of two texts whose scores differ {apart}."
    if whose == "consensus":
        return f"They are what people would say, as far as one judge can tell. Where the judge's own differ {apart}."
    return f"Of two texts whose scores differ {apart}."


def prompt_of(configuration: Mapping[str, Any]) -> Prompt:
    """The prompt that a configuration holds."""
    stored = configuration["identity"]["prompt"]
    first, second = stored["labels"]
    return Prompt(stored["template"], (first, second), stored["answer"], configuration.get("wording"))


def question(prompt: Prompt) -> str:
    """What the judge is asked, without the two labels; the last line of a prompt that is no built-in wording.

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
    first, second = (f"{prompt.answer} {label}".strip() for label in prompt.labels)
    last, ending = _plain(lines[-1]), f", {first} or {second}?"
    return last.removesuffix(ending) + "?" if last.endswith(ending) else last


def settings(
    configuration: Mapping[str, Any], judgements: Sequence[Judgement], validity: float | None = None, votes: int = 0
) -> list[tuple[str, str]]:
    """The settings, cost and time of a run, as names and values; `validity` is that of a consensus.

    With `votes` of people the scores are theirs.
    """
    identity = configuration["identity"]
    has_tokens = any(judgement.tokens_in or judgement.tokens_out for judgement in judgements)
    costs = [judgement.cost for judgement in judgements if not math.isnan(judgement.cost)]
    prices = {name: Price(**price) for name, price in (configuration.get(PRICES) or {}).items()}
    seconds = [judgement.seconds for judgement in judgements if not math.isnan(judgement.seconds)]
    took = f"{sum(seconds) / len(seconds):.2f} s per call, {len(seconds):,} calls" if sum(seconds) else "unknown"
    whose = "the judge's own" if validity is None else f"consensus, validity {validity:.2f}"
    found = {
        "wording": configuration.get("wording"),
        "judge": identity["judge"],
        **{f"judge: {name}": value for name, value in identity["settings"].items()},
        **{
            f"{voice}: {name}": value
            for voice, asked in identity.get("voices", {}).items()
            for name, value in asked["settings"].items()
        },
        **{name: _setting(configuration, name) for name in (*CHOSEN, "started")},
        "scores": f"people's, {votes:,} votes" if votes else whose,
        "cost": dollars(paid(judgements, configuration)) if costs else "unknown",
        **{f"price of {name}": price.sentence() for name, price in prices.items()},
        "tokens": tokens_sentence(judgements) if has_tokens else "unknown",
        "probed": "; ".join(f"{one['sentence']} ({one['at'][:10]})" for one in configuration.get(PROBES) or ()) or None,
        "time": took,
        **{f"version: {name}": value for name, value in configuration.get("versions", {}).items()},
        "SHA-256 of the items": identity.get("items"),
    }
    return [(name, str(value)) for name, value in found.items() if value is not None]


def command(configuration: Mapping[str, Any]) -> str:
    """A shell command that repeats the run: the original one if it was stored, else made from the configuration."""
    if "command" in configuration:
        return str(configuration["command"])
    prompt = prompt_of(configuration)
    words = ["comparo", "rank", "ITEMS"]
    flags = _prompt_flags(prompt)
    before = "" if flags else f"printf %s {shlex.quote(prompt.template)} > prompt.txt\n"
    words += flags or ["--prompt", "prompt.txt", "--labels", ",".join(prompt.labels), "--answer", prompt.answer]
    voices = configuration["identity"].get("voices")
    if voices is not None:
        for judge in dict.fromkeys(voice["judge"] for voice in voices.values()):
            words += ["--judge", judge]
        if "--wording" not in words and ", " in str(configuration.get("wording")):
            for wording in configuration["wording"].split(", "):
                words += ["--wording", wording]
    for name in ("judge", *CHOSEN, "validity"):
        if (value := _setting(configuration, name)) is not None and (name != "judge" or voices is None):
            words += [f"--{name}", str(value)]
    return before + shlex.join(words)


def _prompt_flags(prompt: Prompt) -> list[str]:
    """The flags that give exactly this prompt; none where it needs a template."""
    for name in PAPER:
        if paper_prompt(name) == prompt:
            return ["--prompt", name]
    for name, wording in WORDINGS.items():
        if found := wording.read(prompt.template):
            kind, heading, does = map(_plain, found)
            criterion = does.removeprefix("is ")
            if criterion.strip(" ?.,") and criterion_prompt(criterion, kind, heading, name) == prompt:
                flags = ["--criterion", criterion, "--kind", kind, *(["--heading", heading] if heading else [])]
                return flags if name == DEFAULT_WORDING else [*flags, "--wording", name]
    return []


def _setting(configuration: Mapping[str, Any], name: str) -> Any:
    return configuration.get(name, configuration["identity"].get(name))


def _plain(template: str) -> str:
    return template.replace("{{", "{").replace("}}", "}")
