"""The leaderboard: every metric of every method, with intervals, failures and their reasons."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import results
from outcode.app.report import drawings
from outcode.app.report.blocks import Block, Entry, Figure, Fold, Head, Panels, Table, Text
from outcode.app.report.choice import choice
from outcode.app.report.comparison import ranking
from outcode.app.report.evidence import Evidence, Method
from outcode.app.report.text import cut
from outcode.metrics import METRICS, Metric
from outcode.statistics import mean_interval
from outcode.words import WRITERS, count, percent, points

#: So many data sets get a table of their own.
MOST_DATASETS = 12


def numbers(evidence: Evidence) -> dict[str, Any]:
    """Return one table per data set, and with several one over all of them, best method first."""
    tables = [_table(evidence, data.name) for data in evidence.datasets[:MOST_DATASETS]]
    if len(evidence.datasets) > 1:
        tables.insert(0, _table(evidence, None))
    tables += [_table(part, data.name) for part in evidence.variants for data in part.datasets]
    return {
        "measure": evidence.measure,
        "metrics": [
            {"key": m.key, "label": m.label, "meaning": m.meaning} for m in METRICS.values()
        ],
        "tables": tables,
        "datasets_left_out": max(0, len(evidence.datasets) - MOST_DATASETS),
    }


def _table(evidence: Evidence, dataset: str | None) -> dict[str, Any]:
    ranks = {} if dataset else {r["method"]: r["rank"] for r in ranking(evidence)}
    merit = {name: i for i, name in enumerate(choice(evidence).order)} if dataset else {}
    rows = [
        _row(evidence, method, dataset) | {"rank": ranks.get(method.name)}
        for method in evidence.methods
    ]
    one = len(evidence.datasets) == 1
    rows.sort(key=lambda row: _standing(row, evidence.measure, merit if one else {}))
    best = {key: _best(rows, metric) for key, metric in METRICS.items()}
    return {"dataset": dataset, "rows": rows, "best": best}


def _standing(row: dict[str, Any], measure: str, merit: dict[str, int]) -> tuple[float, ...]:
    """Return what sorts the rows: by merit where it is known, by rank, then by the measure."""
    mean, last = row[measure]["mean"], float("inf")
    rank = last if row["rank"] is None else row["rank"]
    return merit.get(row["method"], last), rank, results.loss_key(mean, measure)


def _row(evidence: Evidence, method: Method, dataset: str | None) -> dict[str, Any]:
    standing = results.standing(method.name, evidence.of(dataset, method.name))
    whys = [reason.partition(": ")[2] for reason in standing.reasons]
    return {
        "method": method.name,
        "full": method.full,
        "title": method.title,
        "baseline": method.baseline,
        "cells": standing.cells,
        "finished": standing.finished,
        "unfinished": dict(standing.unfinished),
        "reasons": [cut(why, 160) for why in whys if why != "None"][:3],
        **{key: _value(evidence, method.name, dataset, key) for key in METRICS},
    }


def _value(evidence: Evidence, method: str, dataset: str | None, key: str) -> dict[str, Any]:
    """Return the mean over folds, then over data sets; an interval within one data set only."""
    names = [dataset] if dataset else [data.name for data in evidence.datasets]
    folds = [[results.metric_of(c, key) for c in evidence.of(name, method)] for name in names]
    means = [mean for values in folds if (mean := results.summarised(key, values)) is not None]
    known = [value for value in folds[0] if not np.isnan(value)] if dataset else []
    uncertain = METRICS[key].function is not None and dataset is not None
    ends = mean_interval(known, evidence.ratio(dataset)) if uncertain and dataset else None
    return {
        "mean": results.plain(float(np.mean(means))) if means else None,
        "interval": None if ends is None else list(ends),
    }


def _best(rows: list[dict[str, Any]], metric: Metric) -> float | None:
    means = [row[metric.key]["mean"] for row in rows if row[metric.key]["mean"] is not None]
    return metric.best(means) if len(means) > 1 else None


# --- shown ---


def blocks(data: dict[str, Any]) -> list[Block]:
    """One sortable table, or a panel for each."""
    tables = [(t["dataset"] or "all data sets", tuple(_board(t, data))) for t in data["tables"]]
    notes = []
    if any(row["unfinished"] for table in data["tables"] for row in table["rows"]):
        notes.append(
            "A method with unfinished runs has means over the folds it finished; ranking and "
            "tests use only folds that all compared methods finished."
        )
    if data["datasets_left_out"]:
        notes.append(
            f"{count(data['datasets_left_out'], 'more data set')} in the first table only."
        )
    shown: list[Block] = list(tables[0][1]) if len(tables) == 1 else [Panels(tuple(tables))]
    return [*shown, Text((" ".join([BOARD_NOTE, *notes]),), "muted")]


BOARD_NOTE = (
    "Means over the folds (medians of times), with 95% intervals corrected for the overlap of "
    "training rows. The best value of each column is marked. A dash means that the method does not "
    "have this value."
)


def _board(table: dict[str, Any], data: dict[str, Any]) -> list[Block]:
    """Return the picture of the measure, a table of what methods are worth, one of their costs."""
    known = [
        metric
        for key, metric in METRICS.items()
        if any(row[key]["mean"] is not None for row in table["rows"])
    ]
    worth = [m for m in known if m.function is not None or m.brief]
    where = table["dataset"] or "all data sets"
    blocks: list[Block] = [_metric_table(f"Methods on {where}, best first", table, worth)]
    drawn = [row for row in table["rows"] if row[data["measure"]]["mean"] is not None][:25]
    if table["dataset"] is not None and len(drawn) > 1:
        blocks.insert(0, _intervals(drawn, data["measure"], table["dataset"]))
    costs = [m for m in known if m.function is None]
    return [
        *blocks,
        Fold("Time and memory", (_metric_table(f"Time and memory on {where}", table, costs),)),
    ]


def _metric_table(caption: str, table: dict[str, Any], shown: list[Metric]) -> Table:
    ranked = any(row["rank"] is not None for row in table["rows"])
    head = [Head("method", numeric=False), *([Head("average rank")] if ranked else [])]
    head += [Head(m.label, m.meaning) for m in shown]
    rows = tuple(tuple(_board_row(row, table, shown, ranked)) for row in table["rows"])
    return Table(caption, tuple(head), rows, sortable=True)


def _intervals(rows: list[dict[str, Any]], measure: str, dataset: str) -> Figure:
    metric = METRICS[measure]
    plain = [_drawn(row, metric) for row in rows]
    told = ", ".join(f"{r['method']} {metric.written(r['mean'])}" for r in plain)
    title = f"{metric.label} of each method: {told}"
    svg = drawings.intervals(plain, metric.written, title)
    return Figure(
        svg,
        f"{metric.label.capitalize()} on {dataset} with 95% intervals; baselines hollow.",
    )


def _drawn(row: dict[str, Any], metric: Metric) -> dict[str, Any]:
    mean, ends = row[metric.key]["mean"], row[metric.key]["interval"]
    shown = {"mean": mean, "interval": [metric.possible(end) for end in ends] if ends else None}
    return {"method": row["method"], "baseline": row["baseline"], **shown}


def _board_row(
    row: dict[str, Any], table: dict[str, Any], shown: list[Metric], ranked: bool
) -> list[Entry]:
    role = ["baseline"] if row["baseline"] else []
    note = " · ".join([*role, *_unfinished(row)])
    about = [text for text in (row["full"], row["title"]) if text and text != row["method"]]
    title = " · ".join([*about, *row["reasons"]])
    entries = [Entry(row["method"], note=note, title=title)]
    if ranked:
        rank = row["rank"]
        entries.append(Entry("–" if rank is None else f"{rank:.2f}", rank))
    entries += [_metric(row[m.key], m, table["best"][m.key]) for m in shown]
    return entries


def _metric(found: dict[str, Any], metric: Metric, best: float | None) -> Entry:
    write = WRITERS[metric.kind]
    mean, ends = found["mean"], found["interval"]
    note = _span(metric, ends) if ends else ""
    tone = "best" if mean is not None and mean == best else "" if mean is not None else "muted"
    return Entry(write(mean), mean, note=note, tone=tone)


def _span(metric: Metric, ends: list[float]) -> str:
    low, high = (metric.possible(end) for end in ends)
    if metric.kind == "percent":
        return f"{points(low, 1)} – {percent(high, 1)}"
    return f"{low:.3f} – {high:.3f}"


def _unfinished(row: dict[str, Any]) -> list[str]:
    """Return how many cells have no result and why, in words; nothing when all have one."""
    if not row["unfinished"]:
        return []
    states = ", ".join(f"{n} {status}" for status, n in row["unfinished"].items())
    return [f"{row['finished']} of {count(row['cells'], 'run')}: {states}"]
