"""The code: its matrix, how far its rows stand apart, which columns are hard and often wrong."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import dichotomies, results
from outcode._checks import Array
from outcode.app.report import drawings
from outcode.app.report.blocks import (
    Block,
    Entry,
    Figure,
    Finding,
    Findings,
    Grid,
    Head,
    Table,
    Text,
    by_dataset,
    side_by_side,
)
from outcode.app.report.classes import MOST_DATASETS, best_on
from outcode.app.report.evidence import Cell, Data, Evidence
from outcode.results import detail, finite, plain
from outcode.words import count, listing, percent

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


def coded(evidence: Evidence, data: Data, part: str, most: int) -> list[tuple[str, list[Cell]]]:
    """Return the best methods whose cells have a part of the details, with these cells."""
    found = []
    for method in best_on(evidence, data.name):
        cells = [c for c in evidence.finished(data.name, method) if detail(c, part)]
        if cells:
            found.append((method, cells))
    return found[:most]


def few(evidence: Evidence) -> int:
    """Return for how many methods of a data set codes are shown."""
    return 4 if len(evidence.datasets) == 1 else 1


def _codes(evidence: Evidence, data: Data) -> list[dict[str, Any]]:
    return [
        _code(data, method, cells[0])
        for method, cells in coded(evidence, data, "code", few(evidence))
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
        f"corrects any {count(surely, 'wrong dichotomy', 'wrong dichotomies')}"
        if surely
        else "is not guaranteed to correct any wrong dichotomy"
    )
    return [
        f"{method} uses {count(diagnosis.n_dichotomies, 'dichotomy', 'dichotomies')} for "
        f"{count(diagnosis.n_classes, 'class', 'classes')}; rows differ in at least "
        f"{diagnosis.min_distance:g} of them (mean {diagnosis.mean_distance:.3g}, a zero counts "
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
                "problem": results.opposed(code[:, s], data.classes),
            }
            for s in order
            if errors[s] > 0
        ],
    }


def bit_errors(evidence: Evidence) -> dict[str, Any]:
    """Return how many columns were wrong in a test row, over all folds."""
    found = []
    for data in evidence.datasets[:MOST_DATASETS]:
        for method, cells in coded(evidence, data, "bit_errors", few(evidence)):
            total = results.bit_errors([detail(cell, "bit_errors") for cell in cells])
            found.append(_bits(data, method, total, _known_correction(cells)))
    return {"histograms": found, "note": None if found else "No method counted wrong dichotomies."}


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
        "sentence": f"{method} has one or more wrong dichotomies in {percent(some)} of test rows"
        f"{within}.",
    }


# --- shown ---


def code_blocks(data: dict[str, Any]) -> list[Block]:
    """Code matrices with their distances and columns, by data set and method."""
    if data["note"]:
        return [Text((data["note"],))]
    return by_dataset(
        [
            (d["dataset"], by_dataset([(m["method"], _code_shown(m)) for m in d["methods"]]))
            for d in data["datasets"]
        ]
    )


def _code_shown(m: dict[str, Any]) -> list[Block]:
    name = m["method"]
    size_of = f"{m['n_classes']} classes by {m['n_dichotomies']} dichotomies"
    cut = len(m["code"]) < m["n_classes"] or len(m["code"][0]) < m["n_dichotomies"]
    part = f" First {len(m['code'])} classes and {len(m['code'][0])} dichotomies." if cut else ""
    matrix = drawings.code(m["code"], m["classes"], f"Code matrix of {name}, {size_of}")
    rows = drawings.distances(
        m["distances"],
        m["classes"],
        f"Distances of the code's rows, at least {m['min_distance']:g}",
    )
    blocks: list[Block] = [
        Text(tuple(m["sentences"])),
        Grid(
            (
                Figure(
                    matrix,
                    f"{name}: a row per class, a column per dichotomy; first colour +1, "
                    f"second −1, empty: class not used.{part}",
                ),
                Figure(rows, "Distance of each pair of rows; darker is larger."),
            )
        ),
        *_columns_shown(m),
    ]
    if m["findings"]:
        items = tuple(Finding(f["code"], f["message"]) for f in m["findings"])
        blocks.append(Findings("Findings about the code", items))
    return blocks


def _columns_shown(m: dict[str, Any]) -> list[Block]:
    columns = m["columns"]
    if columns is None:
        return []
    more = f" First {len(columns['error'])} dichotomies." if columns["left_out"] else ""
    title = f"Test error of each dichotomy of {m['method']}"
    svg = drawings.bars(columns["error"], title=title, axis="dichotomy")
    head = (
        Head("dichotomy"),
        Head("problem", numeric=False),
        Head("test error"),
        Head("share of +1", "share of its rows on its +1 side"),
    )
    rows = tuple(
        (
            Entry(str(h["column"]), float(h["column"])),
            Entry(h["problem"]),
            Entry(percent(h["error"]), h["error"], bar=h["error"]),
            Entry(percent(h["positives"]), h["positives"]),
        )
        for h in columns["hardest"]
    )
    hard = [Table("The hardest dichotomies", head, rows)] if rows else []
    figure = Figure(svg, f"Test error of each dichotomy in the first fold.{more}")
    return [Grid((figure, *hard)) if hard else figure]


def bit_blocks(data: dict[str, Any]) -> list[Block]:
    """Histograms of wrong columns per row."""
    if data["note"]:
        return [Text((data["note"],))]
    figures: list[Block] = []
    for h in data["histograms"]:
        total = sum(h["counts"]) or 1
        title = f"Wrong dichotomies per test row, {h['method']} on {h['dataset']}"
        svg = drawings.bars(
            [n / total for n in h["counts"][:60]],
            title=title,
            axis="wrong dichotomies in a test row",
            marked=h["correction"],
        )
        figures.append(Figure(svg, f"{h['dataset']}: {h['sentence']}"))
    note = (
        "A dashed line: the number of wrong dichotomies that the code always corrects. One that a \
class does not use cannot be wrong for its rows."
    )
    return [side_by_side(figures, wide=True), Text((note,), "muted")]
