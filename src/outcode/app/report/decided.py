"""Beyond the label: prediction sets, abstaining, and the cost of errors."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import decisions, results
from outcode.app.report import drawings
from outcode.app.report.blocks import (
    Block,
    Entry,
    Figure,
    Head,
    Table,
    Text,
    by_dataset,
    more_datasets,
)  # fmt: skip
from outcode.app.report.classes import MOST_DATASETS, best_on, confusion
from outcode.app.report.evidence import Data, Evidence
from outcode.words import listing, number, percent

#: Methods in the table, curves in the drawing, and shares of answered rows in the table.
MOST_METHODS, MOST_CURVES = 12, 3
ANSWERED = {"90": 18, "75": 15, "50": 10}


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Return coverage and size of sets, error of the surest rows, and costs, by data set."""
    cost = evidence.meta.get("cost")
    shown = [_dataset(evidence, data, cost) for data in evidence.datasets[:MOST_DATASETS]]
    known = [entry for entry in shown if entry["methods"]]
    return {
        "datasets": known,
        "datasets_left_out": max(0, len(evidence.datasets) - MOST_DATASETS),
        "note": None if known else "No method gave probabilities or prediction sets.",
    }


def _dataset(evidence: Evidence, data: Data, cost: Any) -> dict[str, Any]:
    matrix = _costs(cost, len(data.classes))
    found = [_method(evidence, data, m, matrix) for m in best_on(evidence, data.name)]
    methods = [m for m in found if m["sets"] or m["risk"] or m["cost"] is not None][:MOST_METHODS]
    return {
        "dataset": data.name,
        "methods": methods,
        "costs": None if matrix is None else cost if isinstance(cost, str) else "matrix",
        "classes": [str(c) for c in data.classes],
    }


def _costs(cost: Any, n_classes: int) -> Any:
    """Return the cost matrix of a data set, None where it has none of its size."""
    if cost is None or (not isinstance(cost, str) and len(cost) != n_classes):
        return None
    return decisions.cost_matrix(cost, n_classes)


def _method(evidence: Evidence, data: Data, method: str, matrix: Any) -> dict[str, Any]:
    sets = evidence.details(data.name, method, "sets")
    risk = evidence.details(data.name, method, "risk")
    errors = evidence.table("error", data.name)[:, evidence.names.index(method)]
    counts = None if matrix is None else confusion(evidence, data, method)
    rows = 0 if counts is None else int(np.sum(counts))
    return {
        "method": method,
        "error": results.summarised("error", errors),
        "sets": _pooled(sets, ("coverage", "size", "single")) if sets else None,
        "asked": sets[0]["asked"] if sets else None,
        "risk": _pooled(risk, ("error",))["error"] if risk else None,
        "cost": float((np.asarray(counts) * matrix).sum() / rows) if rows else None,
    }


def _pooled(parts: list[dict[str, Any]], names: tuple[str, ...]) -> dict[str, Any]:
    """Return means over folds, by rows."""
    rows = np.array([part["rows"] for part in parts], dtype=float)
    share = rows / rows.sum()
    return {n: (share @ np.array([part[n] for part in parts], dtype=float)).tolist() for n in names}


# --- shown ---


def blocks(data: dict[str, Any]) -> list[Block]:
    """A table of sets, abstaining and costs, and the risk-coverage curve, by data set."""
    if data["note"]:
        return [Text((data["note"],))]
    shown = by_dataset([(d["dataset"], _shown(d)) for d in data["datasets"]])
    return shown + more_datasets(data["datasets_left_out"])


def _shown(d: dict[str, Any]) -> list[Block]:
    curves = [m for m in d["methods"] if m["risk"]][:MOST_CURVES]
    asked = next((m["asked"] for m in d["methods"] if m["asked"]), None)
    notes = []
    if asked:
        notes.append(
            f"A prediction set contains the classes that a row may belong to; "
            f"{percent(asked, 0)} of the sets should hold the true class. Smaller sets are better."
        )
    if curves:
        notes.append(
            "Abstaining: only the rows with the largest lead of the first class over the second "
            "are answered. The error among them falls as fewer rows are answered."
        )
    if d["costs"]:
        what = f"by distance ({d['costs']})" if d["costs"] != "matrix" else "by the matrix given"
        notes.append(f"Cost: mean cost of an answer {what}, classes in the order "
                     f"{listing(d['classes'], 8)}.")  # fmt: skip
    drawn: list[Block] = []
    if curves:
        names = listing([m["method"] for m in curves], MOST_CURVES)
        title = f"Error against the share of answered rows: {names}"
        picture = drawings.risk_coverage(curves, title)
        drawn.append(Figure(picture, "Error among the answered rows, by their share"))
    return [Text(tuple(notes)), _table(d), *drawn]


def _table(d: dict[str, Any]) -> Table:
    heads, some = [Head("method", numeric=False), Head("error", "of all test rows")], d["methods"]
    if d["costs"]:
        heads.append(Head("cost", "mean cost of an answer"))
    heads += [
        Head(f"error, {s}%", f"among the {s}% of the rows with the highest confidence")
        for s in ANSWERED
    ]
    heads += [Head("coverage", "share of sets that hold the true class"),
              Head("classes", "mean number of classes in a set"),
              Head("single", "share of sets with one class")]  # fmt: skip
    rows = tuple(tuple(_entries(m, bool(d["costs"]))) for m in some)
    return Table("Errors, costs and prediction sets on test rows", tuple(heads), rows, True)


def _entries(m: dict[str, Any], costs: bool) -> list[Entry]:
    sets, risk = m["sets"] or {}, m["risk"] or []
    found = [Entry(m["method"]), _share(m["error"])]
    found += [Entry(number(m["cost"]), m["cost"])] if costs else []
    found += [_share(risk[at - 1] if risk else None) for at in ANSWERED.values()]
    size = sets.get("size")
    shown = Entry("–" if size is None else f"{size:.2f}", size)
    return [*found, _share(sets.get("coverage")), shown, _share(sets.get("single"))]


def _share(value: float | None) -> Entry:
    return Entry("–" if value is None else percent(value), value)
