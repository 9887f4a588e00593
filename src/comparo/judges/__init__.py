"""Judges: from two texts to the probability that the first is better. One file per provider.

A judge is named provider/model, split at the first slash. A provider is a module with a function
`load(model, **options)`; those of other packages are found by the entry point group `comparo.judges`.
"""

import inspect
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from comparo.errors import JudgeError
from comparo.judges.function import FunctionJudge, as_judge
from comparo.judges.protocol import Judge, Judgement, Probe, Writing
from comparo.judges.ray import ray_judge

__all__ = [
    "PROVIDERS",
    "FunctionJudge",
    "Judge",
    "JudgeError",
    "Judgement",
    "Probe",
    "Writing",
    "accepted_options",
    "as_judge",
    "load_judge",
    "ray_judge",
]

PROVIDERS = ("local", "hf", "openai", "anthropic", "gemini", "vllm", "simulated", "replay")


def load_judge(name: str, **options: Any) -> Judge:
    """Load a judge by its name.

    Parameters
    ----------
    name
        provider/model, such as local/smollm2, hf/PATH or openai/gpt-6-luna.
    options
        Keyword arguments of the provider's function `load`.

    Raises
    ------
    ValueError
        The provider or an option is unknown; the message lists the known ones.

    Examples
    --------
    >>> load_judge("simulated/soft", scores={"ana": 1.0, "bo": 0.0}).name
    'simulated/soft'
    >>> load_judge("oracle/delphi")
    Traceback (most recent call last):
    ValueError: there is no judge 'oracle/delphi'; a judge is provider/model, and the providers are local, hf, ...
    """
    provider, _, model = name.partition("/")
    accepted = accepted_options(name)
    if unknown := [option for option in options if option not in accepted]:
        raise ValueError(
            f"{provider}/ judges have no option {unknown[0]!r}; they have {', '.join(accepted) or 'no options'}"
        )
    return _provider(name)(model, **options)


def accepted_options(name: str) -> list[str]:
    """The options that a judge has, by its name.

    >>> accepted_options("simulated/soft")[:3]
    ['scores', 'strength', 'noise']
    """
    return list(inspect.signature(_provider(name)).parameters)[1:]


def _provider(name: str) -> Callable[..., Judge]:
    provider = name.partition("/")[0]
    if provider in PROVIDERS:
        load: Callable[..., Judge] = import_module(f"comparo.judges.{provider}").load
        return load
    for point in entry_points(group="comparo.judges", name=provider):
        found: Callable[..., Judge] = point.load()
        return found
    others = sorted(point.name for point in entry_points(group="comparo.judges"))
    known = ", ".join([*PROVIDERS, *others])
    raise ValueError(f"there is no judge {name!r}; a judge is provider/model, and the providers are {known}")
