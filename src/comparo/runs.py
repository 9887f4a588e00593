"""Run folders side by side: where a new one goes, which one a command goes on with, and what there is."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from comparo.store import StoreError, differences, read_configuration, read_judgements

ROOT = Path("comparo-runs")


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

    >>> choose_folder("stories.jsonl", {}, root=Path("nowhere")).name[-8:]
    '-stories'
    """
    if not fresh:
        for folder in sorted(folders(root), reverse=True):
            if not differences(read_configuration(folder)["identity"], identity):
                return folder
    stem = re.sub(r"[^\w.-]+", "-", Path(name).stem).strip("-.") or "items"
    base = root / f"{datetime.now():%Y%m%d-%H%M%S}-{stem}"
    return free(base)


def free(folder: Path) -> Path:
    """The folder's name, with a number behind it if it is taken.

    >>> free(Path("nowhere")).name
    'nowhere'
    """
    number, chosen = 1, folder
    while chosen.exists():
        number, chosen = number + 1, folder.with_name(f"{folder.name}-{number}")
    return chosen


def folders(root: Path = ROOT) -> list[Path]:
    """The run folders in a folder, by name."""
    return sorted(path.parent for path in root.glob("*/run.json"))


def list_runs(root: Path = ROOT) -> list[Summary]:
    """What there is, the oldest first; a folder that cannot be read is told by its error."""
    summaries = []
    for folder in folders(root):
        try:
            configuration, judgements = read_configuration(folder), read_judgements(folder)
        except StoreError as error:
            summaries.append(Summary(folder, "", str(error), "", 0, 0, False))
            continue
        last = {}
        for judgement in judgements:
            question = judgement.question
            last[str((question.context, question.first, question.second))] = judgement.failed
        failed = sum(last.values())
        summaries.append(
            Summary(
                folder,
                str(configuration.get("started", "")),
                str(configuration["identity"].get("judge", "")),
                str(configuration.get("budget", "")),
                len(last) - failed,
                failed,
                (folder / "ranking.csv").exists(),
            )
        )
    return summaries
