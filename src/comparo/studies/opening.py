"""What a study starts from: items with people's scores, and the recorded judgements of each attribute beside them."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from comparo.data.items import Items
from comparo.data.reading import READ
from comparo.errors import ComparisonsError
from comparo.studies.datasets import READERS, load_dataset
from comparo.studies.recorded import Recorded

ENDINGS = tuple(f"{kind}{packed}" for kind in READ for packed in ("", ".gz"))


@dataclass(frozen=True, eq=False)
class Opened:
    """A set's name, its items, and the recorded judgements by attribute."""

    name: str
    items: Items = field(repr=False)
    recorded: Mapping[str, Recorded]


def open_set(
    name_or_path: str,
    data: str | os.PathLike[str] | None = None,
    judgements: str | os.PathLike[str] | None = None,
    *,
    attributes: Iterable[str] = (),
    items: Items | None = None,
) -> Opened:
    """A data set of the paper by its name, or any file of items with human scores, with its recorded judgements.

    `data` is the folder (or file) in which a set of the paper lies; without it the set is downloaded. `judgements` is a
    file of comparisons, for one attribute, or a folder with NAME.ATTRIBUTE.csv.gz (or another ending that
    `Comparisons.read` knows); by default the folder `judgements` beside the data. Without `attributes` all that were
    judged are studied. `items` are the file's, where they are read already.

    >>> open_set("nothing.jsonl")
    Traceback (most recent call last):
    ValueError: nothing.jsonl is neither a file nor a data set of the paper: summeval, topicalchat, hanna, cmcqrd
    """
    wanted = tuple(attributes)
    name, texts, scored, beside = scored_items(name_or_path, data, attributes=wanted, items=items)
    files = _judged(name, beside if judgements is None else Path(judgements), scored, bool(wanted))
    return Opened(name, texts, {attribute: Recorded.of(path, texts, attribute) for attribute, path in files.items()})


def scored_items(
    name_or_path: str,
    data: str | os.PathLike[str] | None = None,
    *,
    attributes: Iterable[str] = (),
    items: Items | None = None,
) -> tuple[str, Items, tuple[str, ...], Path | None]:
    """A data set's name, its items, the attributes to study, and where judgements may be; see `open_set`."""
    if name_or_path in READERS:
        name, place = name_or_path, None if data is None else Path(data)
        file = None if place is None else _file(place, name)
        found = load_dataset(name) if file is None else load_dataset(name, file)
        texts, scored = replace(found.items, group=found.systems), found.attributes
        folder = None if file is None else file.parent / "judgements"
    else:
        file = Path(name_or_path)
        if not file.exists():
            known = ", ".join(READERS)
            raise ValueError(f"{name_or_path} is neither a file nor a data set of the paper: {known}")
        name, folder = file.name.split(".")[0], file.parent / "judgements"
        texts = Items.of(name_or_path) if items is None else items
        scored = tuple(texts.scores)
        if not scored:
            raise ComparisonsError(f"{file} has no human scores to compare with; name their column with --scores")
    wanted = tuple(attributes)
    if unknown := [attribute for attribute in wanted if attribute not in texts.scores]:
        raise ComparisonsError(f"{name} has no human scores {unknown[0]!r}; it has {', '.join(scored)}")
    return name, texts, wanted or scored, folder


def _file(place: Path, name: str) -> Path:
    """The file of a data set in a folder, or the file itself."""
    if place.is_file():
        return place
    if (file := _named(place, name)) is not None:
        return file
    raise ValueError(f"there is no {name}.jsonl (or .json, .csv, .parquet) in {place}; name its folder with --data")


def _named(place: Path, stem: str) -> Path | None:
    return next((file for ending in ENDINGS if (file := place / f"{stem}{ending}").is_file()), None)


def _judged(name: str, place: Path | None, attributes: tuple[str, ...], named: bool) -> dict[str, Path]:
    """The file of judgements of each attribute; of those that were not named, the ones that have a file."""
    first = attributes[0]
    remedy = (
        "a study draws from judgements recorded before. Make them for each attribute: `comparo select ITEMS --next "
        "CALLS --strategy random --orders both > pairs.csv`, then `comparo judge pairs.csv --items ITEMS --criterion … "
        f"> {name}.{first}.csv`"
    )
    if place is None:
        raise ValueError(f"say where the judgements are with --judgements: {remedy}")
    if place.is_file():
        if len(attributes) > 1:
            raise ValueError(
                f"{place} holds the judgements of one attribute; say which with --attribute: {', '.join(attributes)}"
            )
        return {first: place}
    found = {}
    for attribute in attributes:
        if (file := _named(place, f"{name}.{attribute}")) is not None:
            found[attribute] = file
        elif named:
            raise ValueError(f"there are no judgements {name}.{attribute}.csv (or .csv.gz, …) in {place}; {remedy}")
    if not found:
        raise ValueError(f"there are no judgements such as {name}.{first}.csv (or .csv.gz, …) in {place}; {remedy}")
    return found
