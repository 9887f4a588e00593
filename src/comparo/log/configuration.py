"""The configuration of a run: in its database and in run.json, how two of them differ, and what its entries cost."""

import json
import sqlite3
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from typing import Any

from comparo.data.run_folder import checksum, clean
from comparo.errors import Message, StoreError
from comparo.judges import Judgement

CONFIGURATION = "run.json"
PROBES = "probes"  # entry of run.json: the findings of probes of the judges (`Probe`)
CHECKSUM = "checksum"  # in the configuration in the database only, of all other entries
EXCERPT, AROUND = 80, 30  # characters of a setting that differs, and how many of them before the difference


def write_configuration(connection: sqlite3.Connection, configuration: Mapping[str, Any]) -> None:
    """Write the configuration of a run into its database, with its checksum."""
    sealed = {**configuration, CHECKSUM: checksum(as_written(configuration))}
    connection.execute("INSERT OR REPLACE INTO run VALUES (1, ?)", (as_written(sealed),))


def stored_configuration(connection: sqlite3.Connection) -> dict[str, Any] | None:
    """The configuration in the database; None where there is none, or a damaged one: then run.json has it."""
    row = connection.execute("SELECT CAST(configuration AS BLOB) FROM run").fetchone()
    with suppress(TypeError, ValueError):
        found = _parsed(row[0])
        # A row of an older version has no checksum.
        return found if found.pop(CHECKSUM, None) in (None, checksum(as_written(found))) else None
    return None


def written_configuration(folder: Path) -> dict[str, Any]:
    """The configuration in run.json; a StoreError where there is none."""
    path = folder / CONFIGURATION
    try:
        return _parsed(path.read_bytes())
    except (OSError, ValueError) as error:
        problem = f"{path} cannot be read ({error}), so nothing says what the judgements beside it are of; "
        raise StoreError(problem + Message("put it back, or choose another {out}")) from error


def _parsed(text: bytes) -> dict[str, Any]:
    configuration = json.loads(text)
    if not isinstance(configuration, dict) or not isinstance(configuration.get("identity"), dict):
        raise ValueError("it is not the configuration of a run")
    return configuration


def as_written(configuration: Mapping[str, Any]) -> str:
    """The text of run.json."""
    return clean(json.dumps(configuration, ensure_ascii=False, indent=2, default=str) + "\n")


def differences(before: Mapping[str, Any], now: Mapping[str, Any], may_differ: Collection[str] = ()) -> list[str]:
    """Describe every difference between two identities, except in what `may_differ`; nested settings are named.

    >>> differences({"judge": "a", "seed": 0}, {"judge": "b", "seed": 0})
    ["judge was 'a' and is 'b'"]
    >>> differences({"prompt": "x" * 200 + " coherent"}, {"prompt": "x" * 200 + " fluent"})
    ["prompt was …x...x coherent' and is …x...x fluent'"]
    """
    found: list[str] = []
    for name in (name for name in dict.fromkeys([*before, *now]) if name not in may_differ):
        old, new = before.get(name), now.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            found += [f"{name}: {difference}" for difference in differences(old, new)]
        elif old != new:
            was, now_is = _excerpts(repr(old), repr(new))
            found.append(f"{name} was {was} and is {now_is}")
    return found


def _excerpts(old: str, new: str) -> tuple[str, str]:
    """Two texts; long ones are shortened to an excerpt around their first difference."""
    if max(len(old), len(new)) <= EXCERPT:
        return old, new
    same = len([*takewhile(lambda pair: pair[0] == pair[1], zip(old, new, strict=False))])
    begin = max(0, same - AROUND)
    end = begin + EXCERPT
    left = "…" if begin else ""
    was, now = (left + text[begin:end] + ("…" if end < len(text) else "") for text in (old, new))
    return was, now


def paid_and_spent(
    judgements: Iterable[Judgement], configuration: Mapping[str, Any] | None = None
) -> tuple[float, float]:
    """The dollars that judgements and probes of a run count within a budget, and the dollars spent on them.

    Cached answers count with their original cost, so that a run is the same with and without a cache.

    >>> from comparo.data.prompts import Question
    >>> asked, kept = (Judgement(Question("ana", "bo"), p=0.7, cost=0.5, cached=cached) for cached in (False, True))
    >>> paid_and_spent([asked, kept], {"probes": [{"calls": 1, "cost": 0.25}, {"calls": 0, "cost": 0.25}]})
    (1.5, 0.75)
    """
    known = [judgement for judgement in judgements if judgement.cost > 0]
    probes = (configuration or {}).get(PROBES) or ()
    costs = [(one.get("cost") or 0.0, one.get("calls")) for one in probes]
    paid = sum(one.cost for one in known) + sum(cost for cost, _ in costs)
    spent = sum(one.spent for one in known) + sum(cost for cost, calls in costs if calls)
    return paid, spent
