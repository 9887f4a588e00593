"""Run folders side by side: where a new one goes, which one a command goes on with, and what there is."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from comparo.errors import StoreError
from comparo.run.database import DATABASE
from comparo.run.disk import explained, lock
from comparo.run.identity import differences
from comparo.run.store import CONFIGURATION, count_judgements, read_configuration

ROOT = Path("comparo-runs")

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Summary:
    """What a list of runs tells of each."""

    folder: Path
    started: str
    judge: str
    budget: str
    answered: int
    failed: int
    ranked: bool


def choose_folder(name: str, identity: Mapping[str, Any], fresh: bool = False, root: Path = ROOT) -> Path:
    """The latest folder of this very run, to go on with; else, or if `fresh`, a new one named after the time.

    A folder that cannot be read is passed over.

    >>> choose_folder("stories.jsonl", {}, root=Path("nowhere")).name[-8:]
    '-stories'
    """
    for folder in [] if fresh else sorted(folders(root), reverse=True):
        try:
            configuration = read_configuration(folder)
        except StoreError as error:
            logger.warning("passed over: %s", error)
            continue
        if not differences(configuration["identity"], identity):
            return folder
    stem = re.sub(r"[^\w.-]+", "-", Path(name).stem).strip("-.") or "items"
    base = root / f"{datetime.now():%Y%m%d-%H%M%S}-{stem}"
    return free(base)


def set_aside(folder: Path) -> None:
    """Give an existing folder another name, so that a new run can take its own; not while a process writes to it."""
    if folder.exists():
        with explained(folder), lock(folder):
            folder.rename(free(folder))


def free(folder: Path) -> Path:
    """The path, with a number behind its name if it is taken.

    >>> free(Path("nowhere")).name
    'nowhere'
    """
    number, chosen = 1, folder
    while chosen.exists():
        number, chosen = number + 1, folder.with_name(f"{folder.name}-{number}")
    return chosen


def folders(root: Path = ROOT) -> list[Path]:
    """The run folders in a folder, by name."""
    return sorted({path.parent for name in (CONFIGURATION, DATABASE) for path in root.glob(f"*/{name}")})


def list_runs(root: Path = ROOT) -> list[Summary]:
    """What there is, the oldest first; a folder that cannot be read is told by its error."""
    return [_summary(folder) for folder in folders(root)]


def _summary(folder: Path) -> Summary:
    try:
        configuration, (answered, failed) = read_configuration(folder), count_judgements(folder)
    except StoreError as error:
        return Summary(folder, "", str(error), "", 0, 0, False)
    started, budget = (str(configuration.get(name, "")) for name in ("started", "budget"))
    judge = str(configuration["identity"].get("judge", ""))
    return Summary(folder, started, judge, budget, answered, failed, (folder / "ranking.csv").exists())
