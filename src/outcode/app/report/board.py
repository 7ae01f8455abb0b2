"""The leaderboard: every metric of every method, with intervals, failures and their reasons."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.app.report.comparison import ranking
from outcode.app.report.evidence import Evidence, Method, interval, plain
from outcode.app.report.text import cut

#: So many data sets get a table of their own.
MOST_DATASETS = 12


@dataclass(frozen=True)
class Metric:
    """A column of the leaderboard; ``kind`` says how its numbers are written."""

    key: str
    label: str
    kind: str
    meaning: str
    uncertain: bool = False


METRICS = (
    Metric("error", "error", "percent", "share of test rows predicted wrong", True),
    Metric(
        "balanced_error", "balanced error", "percent", "one minus the mean recall of classes", True
    ),
    Metric("log_loss", "log loss", "number", "mean of -log probability of the true class", True),
    Metric(
        "brier", "Brier", "number", "squared distance of the probabilities from the truth", True
    ),
    Metric(
        "calibration_error",
        "calibration error",
        "percent",
        "mean gap between stated probability and share right",
        True,
    ),
    Metric("fit_seconds", "fit", "seconds", "time to fit one fold, choice of parameters included"),
    Metric("predict_seconds", "predict", "seconds", "time to predict the test rows of one fold"),
    Metric("support_vectors", "support vectors", "count", "training rows the model keeps"),
    Metric("peak_memory", "memory", "bytes", "largest memory of a fold's process"),
)


def leaderboard(evidence: Evidence) -> dict[str, Any]:
    """Return one table per data set, and with several one over all of them, best method first."""
    tables = [
        _table(evidence, data.name, [data.name]) for data in evidence.datasets[:MOST_DATASETS]
    ]
    if len(evidence.datasets) > 1:
        tables.insert(0, _table(evidence, None, [data.name for data in evidence.datasets]))
    return {
        "measure": evidence.measure,
        "metrics": [{"key": m.key, "label": m.label, "meaning": m.meaning} for m in METRICS],
        "tables": tables,
        "datasets_left_out": max(0, len(evidence.datasets) - MOST_DATASETS),
    }


def _table(evidence: Evidence, dataset: str | None, names: list[str]) -> dict[str, Any]:
    values = {m.key: [evidence.table(m.key, name) for name in names] for m in METRICS}
    ranks = {r["method"]: r["rank"] for r in ranking(evidence)} if not dataset else {}
    ratio = evidence.ratio(names[0])
    rows = [
        _row(evidence, method, dataset)
        | {"rank": ranks.get(method.name)}
        | {m.key: _mean(values[m.key], i, ratio, m.uncertain) for m in METRICS}
        for i, method in enumerate(evidence.methods)
    ]
    measure = evidence.measure if evidence.measure in values else "error"
    rows.sort(key=lambda row: _standing(row, measure))
    return {"dataset": dataset, "rows": rows, "best": {m.key: _best(rows, m.key) for m in METRICS}}


def _standing(row: dict[str, Any], measure: str) -> tuple[bool, float, float]:
    mean = row[measure]["mean"]
    rank = row["rank"] if row["rank"] is not None else float("inf")
    return mean is None, rank, mean if mean is not None else 0.0


def _row(evidence: Evidence, method: Method, dataset: str | None) -> dict[str, Any]:
    cells = evidence.of(dataset, method.name)
    states = Counter(cell["status"] for cell in cells)
    reasons = Counter(cell["reason"] for cell in cells if cell["status"] != "ok" and cell["reason"])
    return {
        "method": method.name,
        "full": method.full,
        "title": method.title,
        "baseline": method.baseline,
        "cells": len(cells),
        "finished": states.pop("ok", 0),
        "unfinished": dict(sorted(states.items())),
        "reasons": [cut(reason, 160) for reason, _ in reasons.most_common(3)],
    }


def _mean(tables: list[Array], column: int, ratio: float, uncertain: bool) -> dict[str, Any]:
    """Return the mean over folds, then over data sets; an interval within one data set only."""
    folds = [table[:, column][~np.isnan(table[:, column])] for table in tables]
    means = [float(values.mean()) for values in folds if len(values)]
    mean = plain(float(np.mean(means))) if means else None
    known = uncertain and len(tables) == 1 and mean is not None
    return {"mean": mean, "interval": interval(folds[0], ratio) if known else None}


def _best(rows: list[dict[str, Any]], key: str) -> float | None:
    means = [row[key]["mean"] for row in rows if row[key]["mean"] is not None]
    return min(means) if len(means) > 1 else None
