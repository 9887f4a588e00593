"""The table of list prices that comparo carries, from the installed package genai-prices.

    pip install --upgrade genai-prices && python -m benchmarks.price_table

Providers are those whose own API the judges can ask. A model is left out if it is deprecated in the source, has no
price for both tokens read and written, or is priced for other things than text. Of prices that changed, the last that
had begun at the date of the table is taken. A price that depends on the time of day is left out.

The package does not say how old its data are. The date of the table is the last day on which it says that it checked a
price, so the prices are at least as new as that.
"""

import json
import re
from datetime import date
from importlib.metadata import version
from pathlib import Path

PROVIDERS = ("openai", "anthropic", "google", "mistral", "deepseek", "x-ai", "groq")
OTHERS = re.compile(
    r"audio|image|realtime|live|tts|transcribe|whisper|embed|moderation|ocr|veo|lyria|voice|gpt-oss|\.ft-|:"
)
NAMES = ("input_mtok", "output_mtok", "cache_read_mtok", "cache_write_mtok")
DATED = re.compile(r"(?:verified|checked)(?: [^.;]{0,80}?)? (\d{4}-\d\d-\d\d)")
PLACE = Path(__file__).parents[1] / "src" / "comparo" / "judges" / "prices.json"


def table(today: date) -> dict:
    """The prices in the form of prices.json."""
    from genai_prices.data import providers

    last, told = _checked(providers, today), {}
    for provider in (provider for provider in providers if provider.id in PROVIDERS):
        found = {model.id: _price(model, last) for model in provider.models if _is_asked(model)}
        told[provider.id] = {
            "address": provider.api_pattern,
            "source": provider.pricing_urls[0],
            "models": dict(sorted((name, price) for name, price in found.items() if price)),
        }
    return {
        "source": f"genai-prices {version('genai-prices')}, MIT licence, https://github.com/pydantic/genai-prices",
        "date": last.isoformat(),
        "unit": "USD per million tokens read, written, read from the server's cache, written to it",
        "providers": told,
    }


def _is_asked(model) -> bool:
    return not model.deprecated and not OTHERS.search(model.id)


def _checked(providers, today: date) -> date:
    """The last day on which the source says that it checked a price."""
    models = [model for provider in providers for model in provider.models]
    comments = " ".join(each.price_comments or "" for each in (*providers, *models))
    return max(day for day in map(date.fromisoformat, DATED.findall(comments)) if day <= today)


def _price(model, last: date) -> list:
    prices = model.prices
    if isinstance(prices, list):
        begun = [part for part in prices if getattr(part.constraint, "start_date", date.min) <= last]
        if any(part.constraint is not None and not hasattr(part.constraint, "start_date") for part in prices):
            return []  # a price by the time of day
        prices = begun[-1].prices
    amounts = [getattr(prices, name) for name in NAMES]
    values = [None if amount is None else float(getattr(amount, "base", amount)) for amount in amounts]
    if values[0] is None or values[1] is None:
        return []
    while values[-1] is None:
        values.pop()
    return values


def written(found: dict) -> str:
    """The table as JSON, one model a line."""
    text = json.dumps(found, indent=1, ensure_ascii=False)
    return re.sub(r"\[\s+([^\]]*?)\s+\]", lambda match: "[" + re.sub(r"\s+", " ", match[1]) + "]", text) + "\n"


if __name__ == "__main__":
    made = table(date.today())
    PLACE.write_text(written(made), encoding="utf-8")
    print(made["date"], {name: len(provider["models"]) for name, provider in made["providers"].items()})
