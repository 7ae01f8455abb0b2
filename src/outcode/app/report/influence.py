"""Which columns the chosen method rests on: the error that permuting each of them adds."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode.app.report.blocks import Block, Entry, Head, Table, Text
from outcode.app.report.choice import choice
from outcode.app.report.classes import MOST_DATASETS
from outcode.app.report.evidence import Data, Evidence
from outcode.app.report.text import clean
from outcode.words import count, points

#: Columns shown.
MOST_COLUMNS = 20


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Return the mean added error of each column, over the folds that measured it."""
    method = choice(evidence).method
    parts = (_influence(evidence, data, method) for data in evidence.datasets[:MOST_DATASETS])
    found = [part for part in parts if part["columns"]]
    note = "It was not measured: there is one column, very many, or a sparse table."
    return {"datasets": found, "note": None if found else note}


def _influence(evidence: Evidence, data: Data, method: str) -> dict[str, Any]:
    folds = evidence.details(data.name, method, "influence")
    names = sorted({name for fold in folds for name in fold})
    added = {name: [fold[name] for fold in folds if name in fold] for name in names}
    rows = [
        {"column": clean(name, 60), "added": float(np.mean(v)), "least": min(v), "most": max(v)}
        for name, v in added.items()
    ]
    rows.sort(key=lambda row: (-row["added"], row["column"]))
    kept = rows[:MOST_COLUMNS]
    return {
        "dataset": data.name,
        "method": method,
        "folds": len(folds),
        "columns": kept,
        "columns_left_out": len(rows) - len(kept),
    }


def blocks(data: dict[str, Any]) -> list[Block]:
    """A table for each data set, the columns that matter most first."""
    if data["note"]:
        return [Text((data["note"],), "muted")]
    told = Text(
        (
            "The values of one column are shuffled among held-out rows (permutation importance); "
            "the table shows by how many percentage points the error increases. If two columns "
            "have the same information, both values can be near 0.",
        )
    )
    return [told, *(_table(part) for part in data["datasets"])]


def _table(part: dict[str, Any]) -> Table:
    head = (
        Head("column", numeric=False),
        Head("added error", "mean over the folds, in points"),
        Head("least to most", "over the folds, in points", numeric=False),
    )
    largest = max((row["added"] for row in part["columns"]), default=0.0) or 1.0
    rows = tuple(
        (
            Entry(row["column"]),
            Entry(points(row["added"]), row["added"], bar=max(0.0, row["added"] / largest)),
            Entry(f"{points(row['least'])} to {points(row['most'])}"),
        )
        for row in part["columns"]
    )
    more = part["columns_left_out"]
    rest = f"; {count(more, 'column')} of less influence not listed" if more > 0 else ""
    folds = count(part["folds"], "fold")
    caption = f"{part['method']} on {part['dataset']}, held-out rows of {folds}{rest}"
    return Table(caption, head, rows, sortable=True)
