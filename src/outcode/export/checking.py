"""Exports are run and compared with the model before they are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.capabilities import HasSteps, PredictsProbabilities, can
from outcode.datasets import Table, TableEncoder
from outcode.export.description import Description
from outcode.saved import ModelError

#: Rows that are compared when none are given, and how many at a time.
ROWS, BLOCK = 1000, 256
#: Largest difference of a probability, and lead below which float32 does not settle the label.
CLOSE, UNSETTLED = 1e-5, 1e-4

#: The (n_samples, n_columns) input -> label, scores and probabilities, as arrays by name.
Run = Callable[[Array], dict[str, Array]]


@dataclass(frozen=True)
class Check:
    """How an export compares with its model.

    Parameters
    ----------
    rows : int
        Number of rows compared.
    difference : float
        Largest difference of a probability, NaN without them.
    unsettled : int
        Number of rows with another label whose two best classes differ by less than the float32
        numbers of the model can tell.
    """

    rows: int
    difference: float
    unsettled: int

    def __str__(self) -> str:
        text = f"Compared on {self.rows:,} rows: the labels are equal"
        if self.unsettled:
            text += f" but for {self.unsettled}, whose classes are tied within float32"
        if not np.isnan(self.difference):
            text += f", the probabilities to {self.difference:.1g}"
        return text + "."


def compare(model: Any, description: Description, run: Run, X: Any = None) -> Check:
    """Return how an export compares with its model, on rows given or drawn; an error if badly."""
    X = drawn(model) if X is None else X
    x, wanted = description.rows(X), len(description.columns)
    if x.ndim != 2 or x.shape[1] != wanted:
        raise ValueError(f"X has shape {x.shape}, but the model takes {wanted} columns.")
    parts = [run(x[i : i + BLOCK]) for i in range(0, max(1, len(x)), BLOCK)]
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    proba = np.asarray(model.predict_proba(X)) if can(model, PredictsProbabilities) else None
    wrong = np.flatnonzero(found["label"].astype(str) != model.predict(X).astype(str))
    settled = _leads(found["scores"][wrong]) > (0.0 if description.exact else UNSETTLED)
    if settled.any():
        row = int(wrong[settled][0])
        raise ModelError(
            f"The export was not written: it gives row {row} the label {found['label'][row]!r}, "
            f"the model {model.predict(X)[row]!r}."
        )
    apart = np.nan
    if proba is not None and "probabilities" in found:
        apart = float(np.abs(found["probabilities"] - proba).max(initial=0.0))
        if apart > (CLOSE if description.exact else 10 * CLOSE):
            raise ModelError(
                f"The export was not written: its probabilities differ by {apart:.2g} from those "
                f"of the model."
            )
    return Check(len(x), apart, len(wrong))


def _leads(scores: Array) -> Array:
    """Return the lead of the largest score over the second, as a share of their size."""
    two = np.partition(scores, -2, axis=1)[:, -2:]
    size = np.abs(two).max(axis=1) + 1e-300
    return np.asarray((two[:, 1] - two[:, 0]) / size)


def drawn(model: Any) -> Any:
    """Return rows like those a model was trained on: its support rows, and rows between them."""
    rng = np.random.default_rng(0)
    first = model.steps[0][1] if can(model, HasSteps) else None
    if isinstance(first, TableEncoder):
        return _table(first, rng)
    clf = getattr(model, "best_estimator_", model)
    if first is not None:
        center, width = getattr(first, "mean_", None), getattr(first, "scale_", None)
        noise = rng.normal(size=(ROWS, first.n_features_in_))
        return noise * (1.0 if width is None else width) + (0.0 if center is None else center)
    return _between(clf.rule_.machine.known_rows(), clf.n_features_in_, rng)


def _between(known: Array, n_features: int, rng: np.random.Generator) -> Array:
    """Return known rows, and others on the lines between two of them."""
    if not len(known):
        return rng.normal(size=(ROWS, n_features))
    own = known[rng.permutation(len(known))[: ROWS // 2]]
    pairs = known[rng.integers(len(known), size=(2, ROWS - len(own)))]
    share = rng.uniform(-0.2, 1.2, size=(len(pairs[0]), 1))
    return np.vstack([own, share * pairs[0] + (1.0 - share) * pairs[1]])


def _table(encoder: TableEncoder, rng: np.random.Generator) -> Table:
    if encoder.sparse_scale_ is not None:
        values = rng.uniform(size=(ROWS, encoder.n_features_in_)) * encoder.sparse_scale_
        names = tuple(encoder.feature_names_in_)
        return Table(names, ("numeric",) * len(names), tuple(values.T))
    columns = encoder.columns_
    cells = tuple(_DRAWN[c.kind](c, rng) for c in columns)
    return Table(tuple(c.name for c in columns), tuple(c.kind for c in columns), cells)


def _numeric(column: Any, rng: np.random.Generator) -> Array:
    if column.knots:
        x = rng.uniform(column.knots[0], column.knots[-1], ROWS)
    else:
        x = rng.normal(size=ROWS) * (column.scale or (1.0,))[0] + (column.shift or (0.0,))[0]
    return np.where(rng.random(ROWS) < 0.05, np.nan, x)


def _nominal(column: Any, rng: np.random.Generator) -> Array:
    words = np.array([None, "another value", *column.values], dtype=object)
    return words[rng.integers(len(words), size=ROWS)]


def _date(column: Any, rng: np.random.Generator) -> Array:
    days = float(column.fill or 0.0) + rng.normal(size=ROWS) * 400
    return np.round(days * 86_400).astype("datetime64[s]")


_DRAWN: dict[str, Callable[[Any, np.random.Generator], Array]] = {
    "numeric": _numeric,
    "nominal": _nominal,
    "date": _date,
    "text": _nominal,
}
