"""A judge by its name, provider/model, and its options, from this package or another."""

import inspect
import re
from collections.abc import Callable, Iterable
from importlib import import_module
from importlib.metadata import entry_points
from typing import Any

from comparo.judges.protocol import Judge

PROVIDERS = ("local", "hf", "openai", "anthropic", "gemini", "vllm", "simulated", "replay")
RAY = ("replicas", "gpus", "cpus", "address")  # options of every judge with engine=ray
_SEPARATOR = re.compile(r"\s*(?:;|,(?=\s*[\w-]+\s*=))\s*")


def load_judge(name: str, **options: Any) -> Judge:
    """Load a judge by its name.

    Parameters
    ----------
    name
        provider/model, such as local/smollm2, hf/PATH or openai/gpt-6-luna, also with options:
        'openai/gpt-6-luna; effort=low, price=0.15,0.60'.
    options
        Keyword arguments of the provider's function `load`. With engine="ray", also those of `ray_judge`: the judge
        then runs on a Ray cluster, and its method `close` ends it.

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
    name, own = parse_judge(name)
    options |= own
    if options.pop("engine", None) == "ray":
        cluster = {option: options.pop(option) for option in RAY if option in options}
        replicated: Judge = import_module("comparo.judges.ray").ray_judge(name, options, **cluster)
        return replicated
    provider, _, model = name.partition("/")
    accepted = accepted_options(name)
    if unknown := [option for option in options if option not in accepted]:
        raise ValueError(
            f"{provider}/ judges have no option {unknown[0]!r}; they have {', '.join(accepted) or 'no options'}"
        )
    return _provider(name)(model, **options)


def parse_judge(text: str) -> tuple[str, dict[str, Any]]:
    """The name of a judge and the options that are written after it.

    >>> parse_judge("openai/gpt-6-luna; effort=low, price=0.15,0.60")
    ('openai/gpt-6-luna', {'effort': 'low', 'price': '0.15,0.60'})
    """
    name, _, options = text.partition(";")
    return name.strip(), parse_options(_SEPARATOR.split(options.strip())) if options.strip() else {}


def parse_options(texts: Iterable[str]) -> dict[str, Any]:
    """Options written NAME=VALUE.

    >>> parse_options(["base-url=http://localhost", "votes=3"])
    {'base_url': 'http://localhost', 'votes': 3}
    """
    given = {}
    for text in texts:
        option, equals, value = text.partition("=")
        if not equals:
            raise ValueError(f"the judge's option {text!r} is not NAME=VALUE")
        given[option.strip().replace("-", "_")] = _value(value.strip())
    return given


def _value(text: str) -> Any:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


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
