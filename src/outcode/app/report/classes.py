"""Which classes fail, and for what they are taken."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import results
from outcode._checks import Array
from outcode.app.report import drawings
from outcode.app.report.blocks import (
    Block,
    Entry,
    Figure,
    Fold,
    Grid,
    Head,
    Panels,
    Table,
    Text,
    by_dataset,
    more_datasets,
)
from outcode.app.report.comparison import ranking
from outcode.app.report.evidence import Data, Evidence
from outcode.app.report.text import whole_name
from outcode.words import count, listing, percent

#: Classes in the table and in the confusion matrix; pairs named in words; data sets shown.
MOST_LISTED, MOST_PICTURED, MOST_NAMED, MOST_DATASETS = 60, 30, 5, 8


def best_on(evidence: Evidence, dataset: str) -> list[str]:
    """Return the methods that finished on a data set, from the least mean measure up."""
    board = results.leaderboard(evidence.finished(dataset), measure=evidence.measure)
    return [s.method for s in board if s.values[evidence.measure] is not None]


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
    parts = [evidence.details(data.name, method, part) for part in ("labels", "predicted")]
    return results.confusion(parts, len(data.classes)) if all(parts) else None


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Return, for each data set, recalls by class and confusion matrices."""
    shown = [_dataset(evidence, data) for data in evidence.datasets[:MOST_DATASETS]]
    known = [entry for entry in shown if entry]
    return {
        "datasets": known,
        "datasets_left_out": max(0, len(evidence.datasets) - MOST_DATASETS),
        "note": None if known else "No finished run kept its predictions.",
    }


def _dataset(evidence: Evidence, data: Data) -> dict[str, Any] | None:
    found = {m: confusion(evidence, data, m) for m in in_detail(evidence, data.name)}
    counts = {method: matrix for method, matrix in found.items() if matrix is not None}
    if not counts:
        return None
    first = next(iter(counts))
    recalls = {method: results.recall(matrix) for method, matrix in counts.items()}
    order = np.argsort(np.nan_to_num(recalls[first], nan=2.0), kind="stable")[:MOST_LISTED]
    return {
        "dataset": data.name,
        "methods": list(counts),
        "sentences": _sentences(data, first, counts[first]),
        "classes": [_class(data, int(q), counts[first], recalls) for q in order],
        "classes_left_out": len(data.classes) - len(order),
        "matrices": [_matrix(data, method, matrix) for method, matrix in counts.items()],
    }


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
    shares = results.recall(matrix)
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


# --- shown ---


def blocks(data: dict[str, Any]) -> list[Block]:
    """Recalls and confusion matrices, by data set."""
    if data["note"]:
        return [Text((data["note"],))]
    shown = by_dataset([(d["dataset"], _classes(d)) for d in data["datasets"]])
    return shown + more_datasets(data["datasets_left_out"])


def _classes(d: dict[str, Any]) -> list[Block]:
    matrices = [(m["method"], tuple(_shown_matrix(m, d["dataset"]))) for m in d["matrices"]]
    recalls, n = _recalls(d), len(d["classes"])
    shown: Block = recalls if n <= 20 else Fold(f"Recall of {n} classes", (recalls,))
    return [Text(tuple(d["sentences"])), Panels(tuple(matrices)), shown]


def _shown_matrix(m: dict[str, Any], dataset: str) -> list[Block]:
    """Return picture and pairs, side by side while the picture is small."""
    parts: list[Block] = [_confusion(m, dataset), *_pairs(m)]
    return [Grid(tuple(parts))] if len(m["classes"]) <= 12 else parts


def _recalls(d: dict[str, Any]) -> Table:
    first, *others = d["methods"]
    head = (
        Head("class", numeric=False),
        Head("test rows"),
        Head(f"recall, {first}", "share of the class's rows predicted right"),
        *(Head(f"recall, {name}") for name in others),
        Head(
            f"precision, {first}", "share of correct predictions among rows predicted as this class"
        ),
        Head("most often taken for", numeric=False),
    )
    more = d["classes_left_out"]
    rest = f"; {count(more, 'class', 'classes')} with higher recall not listed" if more else ""
    rows = tuple(tuple(_recall_row(c)) for c in d["classes"])
    return Table(f"Classes of {d['dataset']}, lowest recall first{rest}", head, rows, sortable=True)


def _recall_row(c: dict[str, Any]) -> list[Entry]:
    first, *others = c["recall"]
    taken = f"{c['taken_for']} ({c['taken']})" if c["taken_for"] is not None else "–"
    return [
        Entry(c["class"], title=whole_name(c["full"], c["class"])),
        Entry(f"{c['rows']:,}", float(c["rows"])),
        Entry(percent(first, 1), first, bar=first),
        *(Entry(percent(r, 1), r) for r in others),
        Entry(percent(c["precision"], 1), c["precision"]),
        Entry(taken, title=""),
    ]


def _confusion(m: dict[str, Any], dataset: str) -> Figure:
    title = f"Confusion matrix of {m['method']} on {dataset}, {len(m['classes'])} classes"
    more = m["classes_left_out"]
    rest = (
        f" The {len(m['classes'])} classes with most errors; {more} more not drawn." if more else ""
    )
    caption = (
        f"{m['method']}: test rows by true (row) and predicted (column) class, over all folds; \
shaded by share of the row, errors in the second colour.{rest}"
    )
    return Figure(drawings.confusion(m["counts"], m["classes"], title), caption)


def _pairs(m: dict[str, Any]) -> list[Block]:
    if not m["pairs"]:
        return []
    head = (
        Head("classes", numeric=False),
        Head("rows", "test rows of one taken for the other"),
        Head("→", "first taken for second"),
        Head("←", "second taken for first"),
        Head("share", "of the two classes' rows"),
    )
    rows = tuple(
        (
            Entry(f"{p['first']} / {p['second']}"),
            *(Entry(f"{p[k]:,}") for k in ("rows", "first_for_second", "second_for_first")),
            Entry(percent(p["share"], 1)),
        )
        for p in m["pairs"]
    )
    return [Table(f"Pairs that {m['method']} confuses most", head, rows)]
