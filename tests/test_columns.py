"""A column of the ranking is added in one place, and found in every output."""

import csv
import io
import json
from dataclasses import fields

import numpy as np

from comparo import fit
from comparo.ranking.columns import COLUMNS, Column
from inside import Fitted, fitted_record, render

ROWS = [("ana", "bo", 0.8), ("bo", "cy", 0.7), ("cy", "ana", 0.1), ("di", "bo", 0.6)]


def test_a_new_column_is_in_every_output(monkeypatch):
    def letters(ranking):
        return np.array([len(item) for item in ranking.items])

    more = [*COLUMNS, Column("letters", letters, "letters of the name")]
    monkeypatch.setattr("comparo.ranking.columns.COLUMNS", more)
    ranking = fit(ROWS)
    expected = [len(item) for item in ranking]
    assert ranking.to_columns()["letters"].tolist() == expected
    assert [int(row["letters"]) for row in csv.DictReader(io.StringIO(ranking.to_csv()))] == expected
    assert [row["letters"] for row in json.loads(ranking.to_json())["ranking"]] == expected
    assert [line.split()[-1] for line in str(ranking).splitlines()] == ["letters", *map(str, expected)]
    page = render(fitted_record(ranking, Fitted(None), "votes.csv", "comparo fit votes.csv"))
    assert '"letters":"letters of' in page
    assert f'"letters":{json.dumps(expected, separators=(",", ":"))}' in page


def test_a_column_is_there_where_the_ranking_has_it():
    lengths = {"length": {"ana": "a", "bo": "bbb", "cy": "cc", "di": "dddddd"}}
    plain, controlled = fit(ROWS, "mixed"), fit(ROWS, "mixed", control=lengths)
    more = [name for name in controlled.to_columns() if name not in plain.to_columns()]
    assert more == ["equal_length_score", "equal_length_std", "equal_length_rank"]


def test_a_ranking_has_few_members():
    ranking = type(fit(ROWS))
    names = {name for name in (*dir(ranking), *(one.name for one in fields(ranking))) if not name.startswith("_")}
    assert len(names) <= 30
