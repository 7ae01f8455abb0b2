"""How the kernel width was chosen: the held-out error, or the leave-one-out bound, over gamma."""

from __future__ import annotations

from typing import Any

from outcode import results
from outcode.app.report import drawings
from outcode.app.report.blocks import Block, Figure, Text, side_by_side
from outcode.app.report.classes import MOST_DATASETS
from outcode.app.report.codes import coded, few
from outcode.app.report.evidence import Cell, Data, Evidence
from outcode.results import Path, detail, metric_of, plain
from outcode.words import count


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Return what each gamma came to, by fold, with the test error reached."""
    found = [
        _path(evidence, data, method, cells)
        for data in evidence.datasets[:MOST_DATASETS]
        for method, cells in coded(evidence, data, "path", few(evidence))
    ]
    found = [path for path in found if path["folds"]]
    return {
        "paths": found,
        "note": None if found else "No method chose its kernel width.",
    }


def _path(evidence: Evidence, data: Data, method: str, cells: list[Cell]) -> dict[str, Any]:
    folds = [_fold_path(cell) for cell in cells[:10]]
    folds = [fold for fold in folds if len(fold.gamma) > 1]
    errors = [metric_of(cell, evidence.measure) for cell in cells]
    return {
        "dataset": data.name,
        "method": method,
        "folds": [
            {
                "gamma": fold.gamma.tolist(),
                "bound": fold.bound.tolist(),
                "error": [plain(e) for e in fold.error] if fold.error is not None else [],
                "chosen": float(fold.gamma[fold.chosen]),
            }
            for fold in folds
        ],
        "by": "bound" if detail(cells[0], "path").get("by", "bound") == "bound" else "folds",
        "measure": evidence.measure,
        "error": results.summarised(evidence.measure, errors),
        "sentence": _path_sentence(method, folds, detail(cells[0], "path").get("by", "bound")),
    }


def _fold_path(cell: Cell) -> Path:
    found = detail(cell, "path")
    return results.path("", found["gamma"], found["bound"], found.get("error"))


def _path_sentence(method: str, folds: list[Path], by: str) -> str:
    if not folds:
        return ""
    chosen = [float(fold.gamma[fold.chosen]) for fold in folds]
    low, high = min(chosen), max(chosen)
    span = f"gamma = {low:.3g} in every fold" if low == high else f"gamma {low:.3g} to {high:.3g}"
    ends = sum(fold.at_edge for fold in folds)
    edge = (
        f" In {count(ends, 'fold')} the choice lies at the end of the grid: widen it."
        if ends
        else ""
    )
    what = "the bound" if by == "bound" else "cross-validation"
    return f"{what} chose {span} for {method}.{edge}"


# --- shown ---


def blocks(data: dict[str, Any]) -> list[Block]:
    """The bound over gamma."""
    if data["note"]:
        return [Text((data["note"],))]
    figures: list[Block] = [
        Figure(
            drawings.bound_path(p, f"{CRITERIA[p['by']]} over gamma, {p['method']}"),
            f"{p['dataset']}: {p['sentence']}",
        )
        for p in data["paths"]
    ]
    note = (
        "A line per fold, at the C chosen: the held-out error, or the leave-one-out bound, of each \
kernel width; its dot is the choice. A bound ranks widths, it does not estimate the error."
    )
    return [side_by_side(figures, wide=True), Text((note,), "muted")]


CRITERIA = {"bound": "Leave-one-out bound", "folds": "Held-out error"}
