"""Where runs are stored: choose a folder for a run, and list the folders that there are."""

import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from comparo.data.run_folder import DATABASE
from comparo.errors import StoreError
from comparo.log.configuration import CONFIGURATION, differences
from comparo.log.files import free
from comparo.log.questions import how_far
from comparo.log.store import LINK, count_judgements, read_configuration, reading

Mode = Literal["wait", "submit", "cancel"]
ROOT = Path("comparo-runs")

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Storage:
    """Where a run is stored, and how.

    Parameters
    ----------
    out : The run folder; None: a folder of comparo-runs named after `name`, or memory where there is no name.
    fresh : Whether an existing folder is renamed first.
    batch : Whether the questions go to the server as a batch: "wait" for it, "submit" it, or "cancel" it; None:
        questions are asked directly.
    link : The folder of another run, to whose scale this one is linked; it is read only.
    notes : Further entries of run.json.
    """

    out: Path | None = None
    name: str | None = None
    fresh: bool = False
    batch: Mode | None = None
    link: Path | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, out: "str | Path | Storage | None") -> "Storage":
        """The storage in the folder `out`, its folders as paths, with a copy of its notes."""
        given = out if isinstance(out, Storage) else cls(None if out is None else Path(out))
        own, link = (None if path is None else Path(path) for path in (given.out, given.link))
        return replace(given, out=own, link=link, notes=dict(given.notes))


IN_MEMORY = Storage()


@dataclass(frozen=True, slots=True)
class Summary:
    """One run in the list of runs."""

    folder: Path
    started: str
    judge: str
    budget: str
    answered: int
    failed: int
    ranked: bool
    batch: str = ""  # how far the server is with a batch that the run waits for
    link: str = ""  # the run to whose scale it is linked


KEPT = (CONFIGURATION, DATABASE)  # a run folder has at least one of them


def choose_folder(
    name: str,
    identity: Mapping[str, Any],
    fresh: bool = False,
    root: Path = ROOT,
    may_differ: Collection[str] = (),
    inside: str = "",
) -> Path:
    """The newest folder of the same run, to continue it; otherwise, or if `fresh`, a new one named after the time.

    Folders that cannot be read are skipped. A run is the same if its identity is, except in what `may_differ`. With
    `inside`, it is the run in this folder of the folder.
    """
    for folder in [] if fresh else sorted(folders(root, inside), reverse=True):
        try:
            configuration = read_configuration(folder / inside)
        except StoreError as error:
            logger.warning("skipped: " + str(error))
            continue
        if not differences(configuration["identity"], identity, may_differ):
            return folder
    return free(root / f"{datetime.now():%Y%m%d-%H%M%S}-{slug(Path(name).stem) or 'items'}")


def slug(name: str) -> str:
    """The name with only letters, digits, dots and hyphens.

    >>> slug("openai/gpt-6 luna")
    'openai-gpt-6-luna'
    """
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")


def folders(root: Path = ROOT, inside: str = "") -> list[Path]:
    """The folders in a folder that are run folders, or have one `inside`, by name."""
    return sorted({folder for folder in root.glob("*") for name in KEPT if (folder / inside / name).is_file()})


def list_runs(root: Path = ROOT) -> list[Summary]:
    """All runs, the oldest first; a folder that cannot be read is listed with its error."""
    return [_summary(folder) for folder in folders(root)]


def _summary(folder: Path) -> Summary:
    try:
        configuration, (answered, failed) = read_configuration(folder), count_judgements(folder)
        batch = waiting_for(folder)
    except StoreError as error:
        return Summary(folder, "", str(error), "", 0, 0, False)
    started = str(configuration.get("started", ""))
    budget = str(configuration.get("budget", ""))
    judge = str(configuration["identity"].get("judge", ""))
    link = str((configuration.get(LINK) or {}).get("run", ""))
    is_ranked = (folder / "ranking.csv").exists()
    return Summary(folder, started, judge, budget, answered, failed, is_ranked, batch, link)


def waiting_for(folder: Path) -> str:
    """The last known state of the open batches of a run: "in progress, 120 of 500 done"; "" where there are none."""
    with reading(folder) as connection:
        rows = connection.execute(
            "SELECT status, sum(lines), sum(done), max(seen) FROM batches WHERE closed IS NULL AND sent IS NOT NULL "
            "GROUP BY status ORDER BY min(number)"
        ).fetchall()
    states = "; ".join(how_far(*state) for *state, _ in rows)
    times = [seen for *_, seen in rows if seen]
    if not times:
        return states
    last = max(times)[:16].replace("T", " ")
    return f"{states} ({last} UTC)"
