"""The files that `comparo fit` reads and writes: answers, texts and their groups, anchors, families, class lists."""

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from comparo.analysis.judge_biases import families_of
from comparo.cli.flags import names_in
from comparo.data.columns import as_number, shown
from comparo.data.comparisons import Comparisons
from comparo.data.covariates import Numbers, columns_in, control_numbers
from comparo.data.criteria_prompt import shares_in
from comparo.data.documents import workbook
from comparo.data.formats import csv_text, read_columns
from comparo.data.grammar import read_settings
from comparo.data.items import Items
from comparo.data.layouts import ROLES
from comparo.data.run_folder import database_of
from comparo.data.sheets import join, read_parts, read_several
from comparo.data.wordings import few
from comparo.log.store import read_configuration, stored_items
from comparo.ranking.ranking import Ranking
from comparo.ranking.scale import Scaled
from comparo.run.fit_policy import Fitting

LISTS = (".csv", ".xlsx")  # endings of a class list


def joined_files(files: list[Path], other: Path) -> tuple[Comparisons, Comparisons, Comparisons]:
    """The comparisons of this run, of the other and of both, with the same labels.

    If the judges differ, runs without a column judge get one.
    """
    judges = [only_voice([path]) for path in (*files, other)]
    is_named = any(names != judges[0] for names in judges)
    here, there = (read_parts(paths, is_named=is_named) for paths in (files, [other]))
    if here.keys() & there.keys():
        raise ValueError(f"--link {other} is the run itself; name another run, with some of the same texts")
    both = join(here | there, is_once=False)
    is_here = np.arange(len(both)) < sum(len(part["p"]) for part in here.values())
    return both.take(is_here).trimmed(), both.take(~is_here).trimmed(), both


def families_in(given: list[str], data: Comparisons) -> dict[Any, str]:
    """The family of each judge and system: by parts of names, and by files with columns name and family."""
    names = data.items.tolist()
    if data.judges is not None:
        names += data.judges.tolist()
    patterns: dict[str, list[str]] = {}
    for text in given:
        if "=" in text:
            patterns |= {name: names_in([said]) for name, said in read_settings(text)}
    if empty := [name for name, parts in patterns.items() if not (name and parts)]:
        raise ValueError(f"--family {empty[0]}= names no systems; give parts of their names, as OpenAI=gpt-3,gpt-4")
    found = families_of(names, patterns)
    for path in given:
        if "=" in path:
            continue
        columns = read_columns(path, wanted=["name", "family"]).columns
        if missing := [name for name in ("name", "family") if name not in columns]:
            raise ValueError(f"--family {path} has no column {missing[0]!r}; it needs name and family")
        listed = {str(name): str(of) for name, of in zip(columns["name"], columns["family"], strict=True)}
        found |= {name: listed[str(name)] for name in names if str(name) in listed}
    return found


def read_anchors(path: Path, ranking: Ranking) -> dict[Any, float]:
    """The known scores in a file, keyed by the labels of the ranking."""
    table = read_columns(path, wanted=["id", "context_id", "score", "anchor"], labels=["id", "context_id"])
    columns = table.columns
    name = "anchor" if "anchor" in columns else "score"
    if missing := [role for role in ("id", name) if role not in columns]:
        raise ValueError(f"--anchors {path} has no column {missing[0]!r}; it needs id, and score or anchor")
    contexts = columns.get("context_id") if ranking.context is not None else None
    known: dict[Any, list[Any]] = {}
    for context, item in ranking.solution.labels:
        key = str(item) if contexts is None else (str(context), str(item))
        known.setdefault(key, []).append(item if ranking.context is None else (context, item))
    found: dict[Any, float] = {}
    for row, (item, value) in enumerate(zip(columns["id"], columns[name], strict=True)):
        score = as_number(value)
        if math.isnan(score):
            continue
        key = str(item) if contexts is None else (str(contexts[row]), str(item))
        if math.isinf(score):
            raise table.error([row], name, f"{shown(value)} is not a number; correct it, or leave it empty")
        if len(known.get(key, ())) != 1:
            problem = (
                "is in several contexts; add a column context_id" if key in known else "is not compared; correct it"
            )
            raise table.error([row], "id", f"{shown(item)} {problem}, or drop the row")
        if known[key][0] in found:
            raise table.error([row], "id", f"{shown(item)} stands there before; give each anchor one score")
        found[known[key][0]] = score
    return found


def stored_anchors(files: list[Path]) -> dict[str, float]:
    """The known scores stored in run folders, keyed by the text's label as a string."""
    folders = filter(None, (folder_of([path]) for path in files))
    return {str(key): value for folder in folders for key, value in stored_items(folder).anchors.items()}


def own_groups(files: list[Path]) -> dict[Any, Any] | None:
    """The groups of the texts of a run folder; None where there are none."""
    folder = folder_of(files)
    texts = None if folder is None else stored_items(folder)
    return None if texts is None or Fitting(texts).group is None else groups_of(texts)


def folder_of(files: list[Path]) -> Path | None:
    """The run folder, if `files` is one run folder."""
    database = database_of(files[0]) if len(files) == 1 else None
    return None if database is None else database.parent


def chosen_answers(files: list[Path], voices: list[str] | None, columns: list[str] | None) -> Comparisons:
    """The comparisons of files or run folders, restricted to `voices` if given; `columns` as `--columns` has them."""
    names = dict(each for text in columns or () for each in read_settings(text, *ROLES))
    comparisons = read_several(files, names=names)
    if not voices:
        return comparisons
    judges = [] if comparisons.judges is None else comparisons.judges.tolist()
    by_text = {str(name): name for name in judges}
    known = list(by_text) or only_voice(files)
    if not known:
        raise ValueError(f"{files[0]} has no column judge, so there is no --voice to choose; leave it out")
    if missing := [name for name in voices if name not in known]:
        raise ValueError(f"{files[0]} has no voice {missing[0]!r}; its voices are {few(known, like=missing[0])}")
    if not by_text:
        return comparisons
    return comparisons.by_judges(by_text[name] for name in voices)


def only_voice(files: list[Path]) -> list[str]:
    """The judge of a single run folder, in a list; [] for other files."""
    folder = folder_of(files)
    return [] if folder is None else [str(read_configuration(folder)["identity"]["judge"])]


def texts_of(files: list[Path], items: Path | None, control: Sequence[str], is_grouped: bool) -> Items | None:
    """The items that --control and --groups need, from their file or the run folder."""
    if not (control or is_grouped):
        if items is not None:
            raise ValueError("--items belongs to --control and --groups; add one of them, or leave --items out")
        return None
    if items is not None:
        return Items.of(str(items), numbers=columns_in(control))
    if (folder := folder_of(files)) is None:
        raise ValueError(f"--{'control' if control else 'groups'} needs the texts; name their file by --items")
    return stored_items(folder)


def held_numbers(texts: Items, control: Sequence[str]) -> dict[str, Numbers]:
    """The numbers to control for, by the labels of the comparisons."""
    found = control_numbers(texts, control)
    for name, of_item in found.items():
        found[name] = Numbers(_spelt(texts, of_item))
        found[name].prior = of_item.prior
    return found


def groups_of(texts: Items) -> dict[Any, Any]:
    """The group of each text, by the labels of the comparisons."""
    group = Fitting(texts).group
    if group is None:
        raise ValueError(
            "--groups: no two texts share a group; give them a column group in --items, or the same ids in several "
            "contexts"
        )
    return _spelt(texts, {(context, item): of for context, own in group.items() for item, of in own.items()})


def _spelt(texts: Items, of_item: Mapping[tuple[Any, Any], Any]) -> dict[Any, Any]:
    """The values by (context, id), also with both as strings, and by the id alone if ids are unique."""
    found: dict[Any, Any] = {}
    for (context, item), value in of_item.items():
        spelt = None if context is None else str(context)
        found[spelt, str(item)] = value
    found |= of_item
    if len(set(texts.ids.tolist())) == len(texts):
        for (_, item), value in of_item.items():
            found[item] = found[str(item)] = value
    return found


def criteria_in(files: Sequence[Path]) -> list[str]:
    """The criteria of a run folder with several, [] without one; a ValueError if there are other files beside it."""
    folders = {file: database.parent for file in files if (database := database_of(file))}
    found = {file: list(shares_in(read_configuration(folder))) for file, folder in folders.items()}
    for file, names in found.items():
        if names and len(files) > 1:
            raise ValueError(f"{file} is of several criteria ({', '.join(names)}); fit it by itself")
    return next(filter(None, found.values()), [])


def check_criterion(
    file: Path, names: Sequence[str], criterion: str | None, voices: Sequence[str] | None, single: Sequence[str]
) -> None:
    """Raise a ValueError if flags do not fit a file's criteria; `single` are the given flags about one ranking."""
    if criterion is not None and criterion not in names:
        known = (
            f"its criteria are {few(names, like=criterion)}" if names else "it is not a run folder of several criteria"
        )
        raise ValueError(f"{file} has no criterion {criterion!r}: {known}")
    if names and voices:
        raise ValueError(f"{file} is of several criteria by one judge; choose one by --criterion in place of --voice")
    if names and criterion is None and single:
        raise ValueError(
            f"--{single[0]} is about one ranking, and {file} is of several criteria; choose one by --criterion "
            f"{' or '.join(names)}"
        )


def check_page(path: Path, files: Iterable[Path], has_list: bool) -> None:
    """Raise, before anything is fitted, if no page or class list can be written to `path`."""
    if path.suffix.lower() not in (".html", ".htm", *LISTS):
        raise ValueError(f"--report {path} is a page or a class list: name a file that ends in .html, .csv or .xlsx")
    if path.suffix.lower() in LISTS and not has_list:
        raise ValueError(
            f"--report {path} is a class list, which needs --grades or --anchors; or name a file that ends in .html"
        )
    if path.resolve() in (file.resolve() for file in files):
        raise ValueError(f"--report {path} is a file of comparisons; name another file")
    if not path.parent.is_dir():
        raise ValueError(f"--report: the folder {path.parent} does not exist; create it first")


def class_list(scaled: Scaled, feedback: Mapping[tuple[str, str], str] | None, path: Path) -> str | bytes:
    """The class list in the format of the ending of `path`."""
    columns = scaled.class_list(feedback)
    if path.suffix.lower() == ".csv":
        return csv_text(columns)
    return workbook({name: column.tolist() for name, column in columns.items()}, ["feedback"])
