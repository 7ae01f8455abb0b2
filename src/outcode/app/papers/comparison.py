"""What the papers' modules share: how a run is set up, and tables of two columns of numbers."""

from __future__ import annotations

import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from outcode._checks import Array
from outcode.app.study import Progress, Store, Study, run


@dataclass(frozen=True)
class Setting:
    """The settings of a repeated experiment.

    Parameters
    ----------
    data_dir : str, default=None
        Folder of the data sets. None takes that of the environment variable OUTCODE_DATA.
    quick : bool, default=False
        Whether to run a small version.
    store : str, default=None
        File of finished cells, so that an interrupted run continues. None keeps nothing.
    n_jobs : int, default=None
        Number of worker processes. None is all cores.
    verbose : int, default=0
        Whether to print what has been done.
    """

    data_dir: str | None = None
    quick: bool = False
    store: str | None = None
    n_jobs: int | None = None
    verbose: int = 0


@dataclass(frozen=True)
class Figure:
    """One number of a paper beside ours; None where there is none."""

    row: str
    column: str
    paper: float | None
    ours: float | None


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table.

    >>> print(markdown(["a", "b"], [["1", "2"]]))
    | a | b |
    | --- | --- |
    | 1 | 2 |
    """
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def side_by_side(figures: Sequence[Figure]) -> str:
    """Return a Markdown table: ours, the paper's in brackets, the difference after it.

    The last row holds the means over the rows where both are known.

    >>> print(side_by_side([Figure("iris", "SVM", 4.0, 4.5), Figure("wine", "SVM", None, 1.0)]))
    | data | SVM |
    | --- | --- |
    | iris | 4.50 (4.00) +0.50 |
    | wine | 1.00 (-) |
    | mean of 1 | 4.50 (4.00) +0.50 |
    """
    cells = {(figure.row, figure.column): figure for figure in figures}
    rows = list(dict.fromkeys(figure.row for figure in figures))
    columns = list(dict.fromkeys(figure.column for figure in figures))
    lines = [[row, *(_cell(cells.get((row, column))) for column in columns)] for row in rows]
    printed = {figure.column for figure in figures if figure.paper is not None}
    complete = [r for r in rows if all(_known(cells.get((r, c)), c in printed) for c in columns)]
    if complete:
        means = [_mean([cells[row, column] for row in complete]) for column in columns]
        lines.append([f"mean of {len(complete)}", *(_cell(mean) for mean in means)])
    return markdown(["data", *columns], lines)


def _known(figure: Figure | None, printed: bool) -> bool:
    """Return whether ours is known, and the paper's where it prints this column."""
    return figure is not None and figure.ours is not None and (figure.paper is not None) == printed


def _mean(figures: Sequence[Figure]) -> Figure:
    paper, ours = _average([f.paper for f in figures]), _average([f.ours for f in figures])
    return Figure("mean", figures[0].column, paper, ours)


def _average(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if len(known) == len(values) else None


def _cell(figure: Figure | None) -> str:
    return "" if figure is None else beside(figure.ours, figure.paper)


def beside(ours: float | None, paper: float | None, digits: int = 2) -> str:
    """Return ours, the paper's in brackets, and the difference.

    >>> beside(4.5, 4.0)
    '4.50 (4.00) +0.50'
    """
    if ours is None and paper is None:
        return ""
    shown = ["-" if value is None else f"{value:.{digits}f}" for value in (ours, paper)]
    if ours is None or paper is None:
        return f"{shown[0]} ({shown[1]})"
    return f"{shown[0]} ({shown[1]}) {ours - paper:+.{digits}f}"


def finished(done: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return a paragraph on the data sets that are not finished; none if all are.

    >>> finished(["iris"], ["iris", "wine"])
    ['1 of 2 data sets is finished; not yet: wine.']
    """
    known = set(done)
    missing = [name for name in names if name not in known]
    if not missing:
        return []
    count = len(names) - len(missing)
    verb = "is" if count == 1 else "are"
    return [f"{count} of {len(names)} data sets {verb} finished; not yet: {', '.join(missing)}."]


def run_studies(studies: Iterable[Study], setting: Setting) -> tuple[list[dict[str, Any]], bool]:
    """Run studies one after the other, or go on with them.

    Returns their records, and whether none was interrupted. A study for each data set: a run cut
    short has whole rows of a table, and no others.
    """
    records: list[dict[str, Any]] = []
    said = _line if setting.verbose else None
    with opened(setting) as store:
        for study in studies:
            outcome = run(study, store, n_jobs=setting.n_jobs, on_record=said)
            if outcome.interrupted:
                return records, False
            records += store.records(study.keys())
    return records, True


@contextmanager
def opened(setting: Setting) -> Iterator[Store]:
    """Open the store of finished runs, or one that is deleted at the end."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Store(setting.store or Path(folder) / "cells.db") as store,
    ):
        yield store


def kept(store: Store, key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the result stored under a key, computing and storing it if there is none.

    >>> with Store(":memory:") as store:
    ...     [kept(store, "a", lambda: {"value": value})["value"] for value in (1, 2)]
    [1, 1]
    """
    found = store.records([key])
    if not found:
        store.put({"key": key, "status": "ok", "result": compute()})
        found = store.records([key])
    result: dict[str, Any] = found[0]["result"]
    return result


def stratified(y: Array, folds: int) -> list[tuple[Array, Array]]:
    """Return stratified folds (train, test), some without a class that has fewer rows."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The least populated class", category=UserWarning)
        return list(StratifiedKFold(folds, shuffle=True, random_state=0).split(y, y))


def _line(record: Mapping[str, Any], view: Progress) -> None:
    error = record["metrics"].get("error")
    result = record["status"] if error is None else f"error {100 * error:.2f} %"
    place = f"{record['dataset']}, {record['method']}, fold {record['fold']}"
    print(f"[{view.done}/{view.total}] {place}: {result}", file=sys.stderr, flush=True)


def fold_errors(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Array]]:
    """Return the errors of the folds by data set and method; a method with a gap is left out."""
    listed = list(records)
    found: dict[str, dict[str, dict[tuple[int, int], float | None]]] = {}
    for record in listed:
        cell = found.setdefault(record["dataset"], {}).setdefault(record["method"], {})
        error = record["metrics"].get("error") if record["status"] == "ok" else None
        cell[record["repeat"], record["fold"]] = error
    return {
        data: {
            method: np.array([folds[place] for place in sorted(folds)])
            for method, folds in methods.items()
            if None not in folds.values() and len(folds) == max(map(len, methods.values()))
        }
        for data, methods in found.items()
    }


def mean_errors(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the mean errors by data set and method; a method with a gap is left out."""
    return {
        data: {method: float(np.mean(errors)) for method, errors in methods.items()}
        for data, methods in fold_errors(records).items()
    }
