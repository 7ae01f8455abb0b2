"""One cell: encode, fit, predict and measure, whatever happens."""

from __future__ import annotations

import time
import warnings
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from outcode import machines, metrics
from outcode._checks import Array
from outcode.app.study import fitted as told
from outcode.app.study.answered import answered
from outcode.app.study.describe import versions
from outcode.app.study.influence import influences
from outcode.app.study.plan import SCALES, Cell, Rows
from outcode.app.study.warmup import warm_up
from outcode.capabilities import (
    HasCode,
    MadeOfElements,
    PredictsProbabilities,
    TrainsOnBlocks,
    can,
)
from outcode.datasets import TableEncoder
from outcode.results import plain

#: Warnings kept of one cell.
MOST_WARNINGS = 20
#: With more training rows the test error of each gamma is not measured.
MOST_PATH_ROWS = 3000
#: Folds whose held-out rows say which columns matter.
INFLUENCE_FOLDS = 3
#: A probability this little below the largest still counts as the largest.
TIE = 1e-9

#: Rows of each cluster of the trial in :func:`impossible`.
CLUSTER = 6


def run_cell(cell: Cell, rows: Rows) -> dict[str, Any]:
    """Return the record of a cell; an error of any kind becomes a record with its reason."""
    warm_up(cell.estimator, len(cell.train))
    started, begin = datetime.now(UTC), time.perf_counter()
    reset_peak()
    with warnings.catch_warnings(record=True) as caught, threadpool_limits(limits=1):
        warnings.simplefilter("always")
        found = _attempt(cell, rows)
    found["metrics"]["peak_memory"] = peak_memory()
    if said := _said(caught):
        found["details"]["warnings"] = [*found["details"].get("warnings", ()), *said]
    seconds = time.perf_counter() - begin
    return blank(cell) | found | {"started": started.isoformat(), "seconds": seconds}


def blank(cell: Cell, status: str = "ok", reason: str | None = None) -> dict[str, Any]:
    """Return a record with nothing measured."""
    return {
        "key": cell.key,
        "dataset": cell.dataset,
        "method": cell.method,
        "repeat": cell.repeat,
        "fold": cell.fold,
        "seed": cell.seed,
        "status": status,
        "reason": reason,
        "parameters": {},
        "metrics": dict.fromkeys(metrics.METRICS)
        | {"n_train": len(cell.train), "n_test": len(cell.test)},
        "details": {},
        "versions": dict(versions()),
        "started": datetime.now(UTC).isoformat(),
        "seconds": 0.0,
    }


def _attempt(cell: Cell, rows: Rows) -> dict[str, Any]:
    """Return status, reason, parameters, metrics and details."""
    if absent := _absent(cell, rows):
        return _empty(cell, "skipped", absent)
    try:
        return _measure(cell, rows)
    except MemoryError as error:
        return _empty(cell, "memory", f"Memory ran out: {sentence(error)}")
    except Exception as error:
        if reason := impossible(cell.estimator, len(rows.classes)):
            return _empty(cell, "skipped", reason)
        return _empty(cell, "failed", sentence(error))


def _empty(cell: Cell, status: str, reason: str) -> dict[str, Any]:
    record = blank(cell, status, reason)
    return {name: record[name] for name in ("status", "reason", "metrics", "details")}


def _absent(cell: Cell, rows: Rows) -> str | None:
    """Return which classes have no training row, if any."""
    gone = np.flatnonzero(np.bincount(rows.labels[cell.train], minlength=len(rows.classes)) == 0)
    if not len(gone):
        return None
    named = ", ".join(repr(rows.classes[q]) for q in gone[:3]) + (", ..." if len(gone) > 3 else "")
    return f"No training row of this fold is of class {named}."


def impossible(estimator: Any, n_classes: int) -> str | None:
    """Return why a code does not exist for so many classes, or its decoder cannot read it.

    Asked once a fit has failed: if the classifier also refuses well-separated clusters, as many as
    there are classes, the combination is at fault and not the data.
    """
    inner = getattr(estimator, "estimator", estimator)
    if not can(inner, MadeOfElements):
        return None
    labels = np.repeat(np.arange(n_classes), CLUSTER)
    spread = np.random.RandomState(0).uniform(-0.1, 0.1, size=(len(labels), n_classes))
    try:
        told.seeded(inner, 0).fit(np.eye(n_classes)[labels] + spread, labels)
    except Exception as error:
        return sentence(error)
    return None


def _measure(cell: Cell, rows: Rows) -> dict[str, Any]:
    labels = rows.labels
    encoder = TableEncoder(scale=SCALES[cell.scale], tails="auto")
    taught = rows.table.take(cell.train)
    X_train = encoder.fit(taught, labels[cell.train]).transform(taught)
    X_test = encoder.transform(rows.table.take(cell.test))
    clf = told.seeded(cell.estimator, cell_seed(cell))
    begin = time.perf_counter()
    _fit(clf, X_train, cell, rows, encoder)
    between = time.perf_counter()
    predicted = np.asarray(clf.predict(X_test))
    end = time.perf_counter()
    proba, details = _probabilities(clf, X_test, labels[cell.test], predicted)
    measured = metrics.measured(labels[cell.test], predicted, proba) | {
        "fit_seconds": between - begin,
        "predict_seconds": end - between,
        "support_vectors": told.support_vectors(clf),
        "n_train": _rows_seen(clf, cell),
    }
    details |= _details(cell, clf, X_test, labels[cell.test], predicted)
    details |= answered(clf, X_test, labels[cell.test], proba)
    if cell.repeat == 0 and cell.fold < INFLUENCE_FOLDS:
        details["influence"] = influences(clf, encoder, X_test, labels[cell.test], cell.seed)
    first = cell.fold == cell.repeat == 0 and len(cell.train) <= MOST_PATH_ROWS
    if first and details.get("path", {}).get("by") == "bound":  # what the bound ranks
        taught, asked = (X_train, labels[cell.train]), (X_test, labels[cell.test])
        details["path"]["error"] = told.path_errors(clf, details["path"]["gamma"], taught, asked)
    return {
        "parameters": told.parameters(clf),
        "metrics": blank(cell)["metrics"] | measured,
        "details": details,
    }


def _fit(clf: Any, X: Any, cell: Cell, rows: Rows, encoder: TableEncoder) -> None:
    """Train on the rows of the fold, and on those beside the sample where the machine can."""
    labels = rows.labels[cell.train]
    inner = machines.resolve(clf.elements()[1]) if can(clf, MadeOfElements) else None
    if rows.rest is None or not can(inner, TrainsOnBlocks):
        clf.fit(X, labels)
    else:
        clf.fit(rows.rest.beside(X, labels, encoder, rows.classes))


def _rows_seen(clf: Any, cell: Cell) -> int:
    return int(getattr(getattr(clf, "machine_", None), "n_rows_", len(cell.train)))


def cell_seed(cell: Cell) -> int:
    """Return the seed of the method's own randomness: another in each fold, the same for all."""
    return int(np.random.RandomState([cell.seed, cell.repeat, cell.fold]).randint(2**31 - 1))


def _probabilities(
    clf: Any, X: Any, labels: Array, predicted: Array
) -> tuple[Array | None, dict[str, Any]]:
    """Return the probabilities, where there are some and they agree with predict, and a diagram."""
    if not can(clf, PredictsProbabilities):
        return None, {}
    proba = np.asarray(clf.predict_proba(X))
    against = int(np.sum(proba[np.arange(len(proba)), predicted] < proba.max(axis=1) - TIE))
    if against:
        return None, {
            "warnings": [
                f"The probabilities contradict the predictions on {against} of {len(proba)} rows: "
                f"they are left out."
            ]
        }
    diagram = metrics.reliability(labels, proba)
    bins = {name: getattr(diagram, name) for name in ("count", "confidence", "accuracy")}
    return proba, {"reliability": {name: _without_nan(values) for name, values in bins.items()}}


def _details(cell: Cell, clf: Any, X: Any, labels: Array, predicted: Array) -> dict[str, Any]:
    found: dict[str, Any] = {
        "labels": labels.tolist(),
        "predicted": predicted.tolist(),
        "rows": cell.test.tolist(),
        **told.columns(clf, X, labels),
    }
    if (path := told.width_path(clf)) is not None:
        found["path"] = path
    if cell.fold == cell.repeat == 0 and can(told.chosen(clf), HasCode):
        found["code"] = np.asarray(told.chosen(clf).code_).tolist()
    return found


def _without_nan(values: Array) -> list[Any]:
    return [plain(value) for value in values.tolist()]


def _said(caught: list[warnings.WarningMessage]) -> list[str]:
    """Return the warnings of a cell, each once."""
    return list(dict.fromkeys(" ".join(str(w.message).split()) for w in caught))[:MOST_WARNINGS]


def sentence(error: BaseException, most: int = 300) -> str:
    """Return an error as one line.

    >>> sentence(KeyError("a"))
    "KeyError: 'a'"
    """
    text = " ".join(str(error).split()) or "no message"
    named = text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"
    return named if len(named) <= most else named[: most - 1] + "…"


# --- the most memory a process had, since last asked to forget it ---

PROC = Path("/proc/self")


def reset_peak() -> None:
    """Forget the largest memory so far, where the system can (Linux)."""
    with suppress(OSError):
        (PROC / "clear_refs").write_text("5")


def peak_memory() -> int | None:
    """Return the largest resident memory of this process in bytes since :func:`reset_peak`."""
    with suppress(OSError, ValueError):
        for line in (PROC / "status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return 1024 * int(line.split()[1])
    return None
