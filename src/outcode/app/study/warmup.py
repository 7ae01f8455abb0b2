"""Compiling and loading before the clock starts: each method once in each process, on a toy."""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import Any

import numpy as np

from outcode.app.study.fitted import seeded
from outcode.app.study.plan import describe_estimator
from outcode.capabilities import PredictsProbabilities, can

#: Beyond this many rows kernel matrices are float32, which is compiled apart.
DOUBLE_ROWS = 5000
#: Parameters whose value costs time and compiles nothing.
SHORT = {"n_estimators": 2, "max_iter": 2, "factors": (1.0,), "costs": (1.0,)}
#: Packages whose first fit compiles or loads.
SLOW_STARTERS = "outcode", "sklearn"

_done: set[str] = set()


def warm_up(estimator: Any, n_rows: int) -> None:
    """Fit a method on a toy of four classes, unless this process did already; errors are silent."""
    single = n_rows > DOUBLE_ROWS
    key = f"{single} {describe_estimator(estimator)}"
    if key in _done or not _starts_slowly(estimator):
        return
    _done.add(key)
    labels = np.repeat(np.arange(4), 6)
    rows = np.eye(4)[labels] + np.random.RandomState(0).uniform(-0.1, 0.1, size=(24, 4))
    with suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clf = _shortened(seeded(estimator, 0), single).fit(rows, labels)
        clf.predict(rows)
        if can(clf, PredictsProbabilities):
            clf.predict_proba(rows)


def _starts_slowly(estimator: Any) -> bool:
    inner = getattr(estimator, "estimator", estimator)
    return type(inner).__module__.partition(".")[0] in SLOW_STARTERS


def _shortened(clf: Any, single: bool) -> Any:
    params = clf.get_params(deep=True)
    plain = {name: SHORT[name] for name in params if name in SHORT}
    typed = {n: np.float32 for n, v in params.items() if n.endswith("__dtype") and v is None}
    return clf.set_params(**plain, **(typed if single else {}))
