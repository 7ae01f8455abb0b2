"""What the probabilities are worth."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.app.report.classes import MOST_DATASETS, best_on
from outcode.app.report.evidence import Cell, Data, Evidence, detail, finite, plain
from outcode.app.report.text import number, percent
from outcode.metrics import Reliability

#: Gaps between stated probability and share right up to which we call probabilities good, fair.
GOOD, FAIR = 0.03, 0.08
#: Diagrams for each data set when there is one, a few, many.
MOST_DIAGRAMS = 6


def pooled(cells: Sequence[Cell]) -> Reliability | None:
    """Return the reliability diagram over all cells; None without probabilities."""
    binned = [_bins(detail(cell, "reliability")) for cell in cells]
    parts = [part for part in binned if part is not None]
    if not parts or len({part.shape for part in parts}) > 1:
        return None
    total = np.sum(parts, axis=0)
    with np.errstate(invalid="ignore"):
        return Reliability(total[0], total[1] / total[0], total[2] / total[0])


def _bins(diagram: Any) -> Array | None:
    """Return (3, n_bins): rows, sum of confidences, rows right."""
    if not diagram or not sum(diagram.get("count") or []):
        return None
    count = np.array(diagram["count"], dtype=np.float64)
    means = [[finite(v) for v in diagram[name]] for name in ("confidence", "accuracy")]
    return np.vstack([count, *(np.nan_to_num(mean) * count for mean in means)])


def chance_gap(diagram: Reliability) -> float:
    """Return the calibration error that perfect probabilities would show on so many rows.

    The share right in a bin of n rows at confidence p varies by sqrt(p (1 - p) / n); the mean
    absolute value of that is sqrt(2 / pi) times it.
    """
    used = diagram.count > 0
    n, p = diagram.count[used], np.clip(diagram.confidence[used], 0, 1)
    gaps = np.sqrt(2 / math.pi * p * (1 - p) / n)
    return float((gaps * n).sum() / n.sum())


def judge(diagram: Reliability, method: str) -> dict[str, Any]:
    """Return the verdict on a method's probabilities, with its numbers and a sentence."""
    used = diagram.count > 0
    n = diagram.count[used]
    stated = float((diagram.confidence[used] * n).sum() / n.sum())
    right = float((diagram.accuracy[used] * n).sum() / n.sum())
    gap, chance = diagram.calibration_error, chance_gap(diagram)
    verdict = _verdict(gap, chance)
    lean = "too sure" if stated > right else "too cautious"
    off = f", {lean} on the whole" if abs(stated - right) > max(0.01, chance) else ""
    return {
        "calibration_error": gap,
        "chance": chance,
        "stated": stated,
        "right": right,
        "verdict": verdict,
        "sentence": f"{method}: {VERDICTS[verdict]}. It states {percent(stated)} on average and is "
        f"right in {percent(right)} of rows; the mean gap is {percent(gap)}{off} "
        f"(perfect probabilities would show about {percent(chance)} on so many rows).",
    }


VERDICTS = {
    "good": "probabilities worth trusting",
    "fair": "probabilities to use with care",
    "poor": "probabilities not to be trusted as they are",
}


def _verdict(gap: float, chance: float) -> str:
    """Return good, fair or poor; a gap that chance alone explains is never poor."""
    by_chance = gap <= 1.5 * chance
    if gap <= GOOD or (by_chance and gap <= FAIR):
        return "good"
    return "fair" if gap <= FAIR or by_chance else "poor"


def probabilities(evidence: Evidence) -> dict[str, Any]:
    """Return for each data set the methods' reliability, the best by log loss first."""
    shown = [_dataset(evidence, data) for data in evidence.datasets[:MOST_DATASETS]]
    known = [entry for entry in shown if entry["methods"]]
    return {
        "datasets": known,
        "datasets_left_out": max(0, len(evidence.datasets) - MOST_DATASETS),
        "note": None if known else "No method gave probabilities.",
    }


def trusted(evidence: Evidence, data: Data) -> list[dict[str, Any]]:
    """Return the judged methods of a data set, the least log loss first."""
    judged = []
    for method in best_on(evidence, data.name):
        cells = evidence.finished(data.name, method)
        diagram = pooled(cells)
        if diagram is not None:
            judged.append(_judged(evidence, data, method, diagram))
    return sorted(judged, key=lambda m: (m["log_loss"] is None, m["log_loss"]))


def _judged(evidence: Evidence, data: Data, method: str, diagram: Reliability) -> dict[str, Any]:
    column = evidence.table("log_loss", data.name)[:, evidence.names.index(method)]
    loss = float(np.nanmean(column)) if not np.isnan(column).all() else math.nan
    guess = _guessing(data)
    entry: dict[str, Any] = {
        "method": method,
        "log_loss": plain(loss),
        "diagram": _diagram(diagram),
    }
    entry |= judge(diagram, method)
    if guess is not None and loss > guess:
        entry["verdict"] = "poor"
        entry["sentence"] += (
            f" Its log loss {number(loss)} is worse than that of the class frequencies alone, "
            f"{number(guess)}."
        )
    return entry


def _guessing(data: Data) -> float | None:
    """Return the log loss of predicting the class frequencies for every row."""
    shares = np.array([n for n in data.counts if n > 0], dtype=np.float64)
    if not len(shares):
        return None
    shares /= shares.sum()
    return float(-(shares * np.log(shares)).sum())


def _diagram(diagram: Reliability) -> dict[str, Any]:
    return {
        "count": [int(n) for n in diagram.count],
        "confidence": [plain(v) for v in diagram.confidence],
        "accuracy": [plain(v) for v in diagram.accuracy],
    }


def _dataset(evidence: Evidence, data: Data) -> dict[str, Any]:
    judged = trusted(evidence, data)
    most = MOST_DIAGRAMS if len(evidence.datasets) == 1 else 2
    without = [m for m in best_on(evidence, data.name) if m not in {j["method"] for j in judged}]
    return {
        "dataset": data.name,
        "guessing": _guessing(data),
        "methods": judged[:most],
        "methods_left_out": max(0, len(judged) - most),
        "without": without,
    }
