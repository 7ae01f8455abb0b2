"""The code: its matrix, how far its rows stand apart, which columns are hard and often wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import dichotomies
from outcode._checks import Array
from outcode.app.report.classes import MOST_DATASETS, best_on
from outcode.app.report.evidence import Cell, Data, Evidence, detail, finite, metric_of, plain
from outcode.app.report.text import count, listing, percent

#: Rows and columns of a code drawn; findings and hard columns listed.
MOST_ROWS, MOST_COLUMNS, MOST_FINDINGS, MOST_HARD = 40, 80, 8, 5


def code_matrices(evidence: Evidence) -> dict[str, Any]:
    """Return for each data set the codes of the best methods that have one."""
    found = [
        {"dataset": data.name, "methods": _codes(evidence, data)}
        for data in evidence.datasets[:MOST_DATASETS]
    ]
    known = [entry for entry in found if entry["methods"]]
    return {
        "datasets": known,
        "note": None if known else "No method kept a code matrix: none of them uses one.",
    }


def _coded(evidence: Evidence, data: Data, part: str, most: int) -> list[tuple[str, list[Cell]]]:
    """Return the best methods whose cells have a part of the details, with these cells."""
    found = []
    for method in best_on(evidence, data.name):
        cells = [c for c in evidence.finished(data.name, method) if detail(c, part)]
        if cells:
            found.append((method, cells))
    return found[:most]


def _few(evidence: Evidence) -> int:
    return 4 if len(evidence.datasets) == 1 else 1


def _codes(evidence: Evidence, data: Data) -> list[dict[str, Any]]:
    return [
        _code(data, method, cells[0])
        for method, cells in _coded(evidence, data, "code", _few(evidence))
    ]


def _code(data: Data, method: str, cell: Cell) -> dict[str, Any]:
    code = dichotomies.as_code(detail(cell, "code"))
    diagnosis = dichotomies.diagnose(code, data.classes)
    distance = dichotomies.row_distances(code)
    return {
        "method": method,
        "n_classes": diagnosis.n_classes,
        "n_dichotomies": diagnosis.n_dichotomies,
        "classes": list(data.classes[:MOST_ROWS]),
        "code": code[:MOST_ROWS, :MOST_COLUMNS].tolist(),
        "distances": distance[:MOST_ROWS, :MOST_ROWS].tolist(),
        "min_distance": diagnosis.min_distance,
        "mean_distance": diagnosis.mean_distance,
        "correction": dichotomies.correction(code),
        "sentences": _code_sentences(data, method, diagnosis, code),
        "findings": _code_findings(diagnosis),
        "columns": _columns(data, code, detail(cell, "columns")),
    }


def _code_sentences(
    data: Data, method: str, diagnosis: dichotomies.Diagnosis, code: Array
) -> list[str]:
    distance, surely = dichotomies.row_distances(code), dichotomies.correction(code)
    upper = np.triu_indices(len(distance), 1)
    close = np.flatnonzero(distance[upper] == diagnosis.min_distance)
    pairs = [f"{data.classes[upper[0][i]]}/{data.classes[upper[1][i]]}" for i in close[:3]]
    nearest = (
        "every pair of classes is equally far apart"
        if len(close) == len(upper[0])
        else f"closest {listing([*pairs, *[''] * (len(close) - len(pairs))], 3)}"
    )
    able = (
        f"corrects any {count(surely, 'wrong column')}"
        if surely
        else "corrects no wrong column for certain"
    )
    return [
        f"{method} uses {count(diagnosis.n_dichotomies, 'column')} for "
        f"{count(diagnosis.n_classes, 'class', 'classes')}; rows differ in at least "
        f"{diagnosis.min_distance:g} columns (mean {diagnosis.mean_distance:.3g}, a zero counts "
        f"one half), {nearest}. The code {able}."
    ]


def _code_findings(diagnosis: dichotomies.Diagnosis) -> list[dict[str, str]]:
    found = [{"code": f.code, "message": f.message} for f in diagnosis.findings]
    if len(found) > MOST_FINDINGS:
        more = len(found) - MOST_FINDINGS
        return [*found[:MOST_FINDINGS], {"code": "…", "message": f"{more} more findings"}]
    return found


def _columns(data: Data, code: Array, columns: Any) -> dict[str, Any] | None:
    """Return the test error of every column, and the hardest in words."""
    errors = [finite(v) for v in (columns or {}).get("error") or []]
    if len(errors) != code.shape[1]:
        return None
    order = np.argsort(-np.nan_to_num(errors), kind="stable")[:MOST_HARD]
    positives = [finite(v) for v in columns.get("positives") or []]
    return {
        "error": [plain(v) for v in errors[:MOST_COLUMNS]],
        "left_out": max(0, len(errors) - MOST_COLUMNS),
        "hardest": [
            {
                "column": int(s),
                "error": plain(errors[s]),
                "positives": plain(positives[s]) if s < len(positives) else None,
                "problem": _problem(data, code[:, s]),
            }
            for s in order
            if errors[s] > 0
        ],
    }


def _problem(data: Data, column: Array) -> str:
    sides = [[data.classes[q] for q in np.flatnonzero(column == sign)] for sign in (1, -1)]
    plus, minus = (
        "all others"
        if len(side) > 3 and len(side) == len(column) - len(other)
        else listing(side, 3)
        for side, other in ((sides[0], sides[1]), (sides[1], sides[0]))
    )
    return f"{plus} against {minus}"


def bit_errors(evidence: Evidence) -> dict[str, Any]:
    """Return how many columns were wrong in a test row, over all folds."""
    found = []
    for data in evidence.datasets[:MOST_DATASETS]:
        for method, cells in _coded(evidence, data, "bit_errors", _few(evidence)):
            counts = [np.array(detail(cell, "bit_errors"), dtype=int) for cell in cells]
            total = np.zeros(max(map(len, counts)), dtype=int)
            for part in counts:
                total[: len(part)] += part
            found.append(_bits(data, method, total, _known_correction(cells)))
    return {"histograms": found, "note": None if found else "No method counted wrong columns."}


def _known_correction(cells: list[Cell]) -> int | None:
    codes = [detail(cell, "code") for cell in cells if detail(cell, "code")]
    return dichotomies.correction(dichotomies.as_code(codes[0])) if codes else None


def _bits(data: Data, method: str, total: Array, surely: int | None) -> dict[str, Any]:
    share = total / max(1, total.sum())
    some = 1 - float(share[0])
    within = ""
    if surely:
        beyond = float(share[surely + 1 :].sum())
        within = (
            f"; the code surely corrects {surely} of them, which leaves {percent(beyond)} of "
            "rows that may go wrong"
        )
    return {
        "dataset": data.name,
        "method": method,
        "counts": total.tolist(),
        "correction": surely,
        "sentence": f"{method} has one or more wrong columns in {percent(some)} of test rows"
        f"{within}.",
    }


def bound_paths(evidence: Evidence) -> dict[str, Any]:
    """Return the leave-one-out bound over gamma, by fold, with the test error reached."""
    found = [
        _path(evidence, data, method, cells)
        for data in evidence.datasets[:MOST_DATASETS]
        for method, cells in _coded(evidence, data, "path", _few(evidence))
    ]
    found = [path for path in found if path["folds"]]
    return {
        "paths": found,
        "note": None if found else "No method chose its kernel width by the leave-one-out bound.",
    }


def _path(evidence: Evidence, data: Data, method: str, cells: list[Cell]) -> dict[str, Any]:
    folds = [_fold_path(cell) for cell in cells[:10]]
    folds = [fold for fold in folds if len(fold["gamma"]) > 1]
    chosen = [f["chosen"] for f in folds]
    errors = [metric_of(cell, evidence.measure) for cell in cells]
    return {
        "dataset": data.name,
        "method": method,
        "folds": folds,
        "measure": evidence.measure,
        "error": plain(float(np.nanmean(errors))) if not np.isnan(errors).all() else None,
        "sentence": _path_sentence(method, chosen, folds),
    }


def _fold_path(cell: Cell) -> dict[str, Any]:
    path = detail(cell, "path")
    errors = path.get("error") or [None] * len(path["gamma"])
    points = sorted(
        (finite(g), finite(b), finite(e))
        for g, b, e in zip(path["gamma"], path["bound"], errors, strict=True)
        if finite(g) > 0 and not np.isnan(finite(b))
    )
    return {
        "gamma": [g for g, _, _ in points],
        "bound": [b for _, b, _ in points],
        "error": [plain(e) for _, _, e in points],
        "chosen": min(points, key=lambda point: point[1])[0] if points else None,
    }


def _path_sentence(method: str, chosen: list[float], folds: list[dict[str, Any]]) -> str:
    if not chosen:
        return ""
    low, high = min(chosen), max(chosen)
    span = f"gamma = {low:.3g} in every fold" if low == high else f"gamma {low:.3g} to {high:.3g}"
    ends = sum(c in (f["gamma"][0], f["gamma"][-1]) for c, f in zip(chosen, folds, strict=True))
    edge = (
        f" In {count(ends, 'fold')} the choice lies at the end of the grid: widen it."
        if ends
        else ""
    )
    return f"the bound chose {span} for {method}.{edge}"
