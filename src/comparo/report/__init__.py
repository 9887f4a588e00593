"""The report: one self-contained page about a run, made from its folder alone."""

import logging
import os
from pathlib import Path

from comparo.ranking.criteria_ranking import CriteriaRanking
from comparo.report.command_pages import RESULT, audit_page, compare_page, write_criteria_report
from comparo.report.page import render, save_page
from comparo.report.record import Record, read_record
from comparo.run.audit_card import FILE

__all__ = ["write_report"]

logger = logging.getLogger(__name__)


def write_report(folder: str | os.PathLike[str], record: Record | None = None) -> Path:
    """Write report.html into a run folder, from what is in the folder alone, and return its path.

    Where nothing can be written to the folder, such as on read-only storage, the page is RUN-report/report.html in the
    working folder.

    Parameters
    ----------
    folder
        A run folder, as `comparo rank` writes it.
    record
        The record of the folder, if it is read already.

    Returns
    -------
    Path
        The path of the page, of about 5 MB at most.

    Raises
    ------
    StoreError
        If the folder holds no run or no answers yet, or the page cannot be written.

    Examples
    --------
    >>> write_report("nowhere")
    Traceback (most recent call last):
    comparo.errors.WrongFolderError: nowhere is not a run folder: it has no judgements.db
    """
    folder = Path(folder)
    place = folder
    if folder.is_dir() and not os.access(folder, os.W_OK):
        place = Path(f"{folder.resolve().name}-report")
        logger.warning("%s cannot be written to; the page is in the working folder: %s", folder, place)
    record = record or read_record(folder, by_criteria=True)
    if isinstance(record.ranking, CriteriaRanking):
        return write_criteria_report(place, record, record.ranking)
    if (folder / FILE).is_file():
        page = audit_page(folder, record)
    else:
        page = compare_page(folder, record) if (folder / RESULT).is_file() else render(record)
    return save_page(place / "report.html", page)
