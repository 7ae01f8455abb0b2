"""Which classes fail, and for what they are taken."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import metrics
from outcode._checks import Array
from outcode.app.report.comparison import ranking
from outcode.app.report.evidence import Data, Evidence, detail
from outcode.app.report.text import count, listing, percent

#: Classes in the table and in the confusion matrix; pairs named in words; data sets shown.
MOST_LISTED, MOST_PICTURED, MOST_NAMED, MOST_DATASETS = 60, 30, 5, 8


def best_on(evidence: Evidence, dataset: str) -> list[str]:
    """Return the methods that finished on a data set, from the least mean measure up."""
    table = evidence.table(evidence.measure, dataset)
    means = {
        name: float(np.nanmean(column))
        for name, column in zip(evidence.names, table.T, strict=True)
        if not np.isnan(column).all()
    }
    return sorted(means, key=lambda name: means[name])


def in_detail(evidence: Evidence, dataset: str) -> list[str]:
    """Return the methods shown in detail: the best, the baselines, then the next; fewer the more
    data sets there are."""
    ranked = best_on(evidence, dataset)
    if len(evidence.datasets) == 1:
        order = [row["method"] for row in ranking(evidence)]
        ranked = order + [name for name in ranked if name not in order]
    first = [name for i, name in enumerate(ranked) if i == 0 or name in evidence.baselines]
    most = 5 if len(evidence.datasets) == 1 else 2 if len(evidence.datasets) <= 4 else 1
    return [*first, *(name for name in ranked if name not in first)][:most]


def confusion(evidence: Evidence, data: Data, method: str) -> Array | None:
    """Return the counts over all test rows: (n_classes, n_classes), true by predicted."""
    k = len(data.classes)
    total = np.zeros((k, k), dtype=np.int64)
    for cell in evidence.finished(data.name, method):
        true, predicted = detail(cell, "labels"), detail(cell, "predicted")
        if true is not None and predicted is not None:
            total += metrics.confusion(np.array(true, int), np.array(predicted, int), k)
    return total if total.any() else None


def per_class(evidence: Evidence) -> dict[str, Any]:
    """Return, for each data set, recalls by class and confusion matrices."""
    shown = [_dataset(evidence, data) for data in evidence.datasets[:MOST_DATASETS]]
    known = [entry for entry in shown if entry]
    return {
        "datasets": known,
        "datasets_left_out": max(0, len(evidence.datasets) - MOST_DATASETS),
        "note": None if known else "No finished cell kept its predictions.",
    }


def _dataset(evidence: Evidence, data: Data) -> dict[str, Any] | None:
    found = {m: confusion(evidence, data, m) for m in in_detail(evidence, data.name)}
    counts = {method: matrix for method, matrix in found.items() if matrix is not None}
    if not counts:
        return None
    first = next(iter(counts))
    recalls = {method: recall(matrix) for method, matrix in counts.items()}
    order = np.argsort(np.nan_to_num(recalls[first], nan=2.0), kind="stable")[:MOST_LISTED]
    return {
        "dataset": data.name,
        "methods": list(counts),
        "sentences": _sentences(data, first, counts[first]),
        "classes": [_class(data, int(q), counts[first], recalls) for q in order],
        "classes_left_out": len(data.classes) - len(order),
        "matrices": [_matrix(data, method, matrix) for method, matrix in counts.items()],
    }


def recall(matrix: Array) -> Array:
    """Return the share of each class's rows that is predicted right, NaN without rows."""
    rows = matrix.sum(axis=1)
    return np.where(rows > 0, np.diag(matrix) / np.maximum(rows, 1), np.nan)


def _class(data: Data, q: int, matrix: Array, recalls: dict[str, Array]) -> dict[str, Any]:
    wrong = matrix[q].copy()
    wrong[q] = 0
    taken = int(wrong.argmax())
    column = int(matrix[:, q].sum())
    return {
        "class": data.classes[q],
        "full": data.full_classes[q],
        "rows": int(matrix[q].sum()),
        "recall": [None if np.isnan(r[q]) else float(r[q]) for r in recalls.values()],
        "precision": float(matrix[q, q] / column) if column else None,
        "taken_for": data.classes[taken] if wrong[taken] else None,
        "taken": int(wrong[taken]),
    }


def _matrix(data: Data, method: str, matrix: Array) -> dict[str, Any]:
    """Return the confusions of the classes with most wrong rows, in their own order."""
    wrong = matrix.sum(axis=1) + matrix.sum(axis=0) - 2 * np.diag(matrix)
    kept = np.sort(np.argsort(-wrong, kind="stable")[:MOST_PICTURED])
    return {
        "method": method,
        "classes": [data.classes[q] for q in kept],
        "counts": matrix[np.ix_(kept, kept)].tolist(),
        "classes_left_out": len(matrix) - len(kept),
        "pairs": confused_pairs(data, matrix),
    }


def confused_pairs(data: Data, matrix: Array) -> list[dict[str, Any]]:
    """Return the pairs of classes most often confused, both directions counted together."""
    both = np.triu(matrix + matrix.T, 1)
    order = np.argsort(-both, axis=None, kind="stable")[:MOST_NAMED]
    places = [np.unravel_index(place, both.shape) for place in order]
    return [
        {
            "first": data.classes[a],
            "second": data.classes[b],
            "rows": int(both[a, b]),
            "first_for_second": int(matrix[a, b]),
            "second_for_first": int(matrix[b, a]),
            "share": float(both[a, b] / (matrix[a].sum() + matrix[b].sum())),
        }
        for a, b in places
        if both[a, b] > 0
    ]


def _sentences(data: Data, method: str, matrix: Array) -> list[str]:
    if not (matrix.sum() - np.trace(matrix)):
        return [f"{method} predicts every test row of {data.name} right."]
    return [worst_classes(data, method, matrix), " ".join(_pair_sentences(data, matrix))]


def worst_classes(data: Data, method: str, matrix: Array) -> str:
    """Return which classes a method finds least often, in words."""
    shares = recall(matrix)
    mean = float(np.nanmean(shares))
    order = np.argsort(np.nan_to_num(shares, nan=2.0), kind="stable")[:3]
    weak = [q for q in order if shares[q] < mean]
    if not weak:
        return f"All classes have the same recall under {method}, {percent(mean)}."
    named = [f"{data.classes[q]} (recall {percent(float(shares[q]))})" for q in weak]
    lost = int((shares == 0).sum())
    never = f" {count(lost, 'class is', 'classes are')} never predicted right." if lost else ""
    return (
        f"{method} misses {'this class' if len(weak) == 1 else 'these classes'} most: "
        f"{listing(named)}; the mean recall of the {len(shares)} classes is {percent(mean)}.{never}"
    )


def _pair_sentences(data: Data, matrix: Array) -> list[str]:
    pairs = confused_pairs(data, matrix)[:3]
    wrong = int(matrix.sum() - np.trace(matrix))
    told = [
        f"Classes {p['first']} and {p['second']} are confused in {count(p['rows'], 'row')} "
        f"({percent(p['rows'] / wrong)} of all errors): {count(p['first_for_second'], 'row')} of "
        f"{p['first']} taken for {p['second']}, {p['second_for_first']:,} the other way."
        for p in pairs
    ]
    return told
