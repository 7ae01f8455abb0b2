"""Studies: data sets x methods x folds -> records, interrupted and resumed.

- :class:`Study` says what to compare, :class:`Method` and :func:`preset` with what;
- :func:`run` does the cells that have no record yet, in worker processes that can be killed;
- :class:`Store` keeps one record per finished cell; :func:`dry_run` says what a study would take.
"""

from outcode.app.study.budget import FEW_ROWS, affordable, left_out, run_in_time
from outcode.app.study.estimate import Estimate, MethodEstimate, dry_run
from outcode.app.study.fitted import facts, seeded
from outcode.app.study.methods import (
    BASELINES,
    DEFAULT,
    METHODS,
    PRESETS,
    Method,
    baselines,
    methods,
    on_landmarks,
    preset,
)
from outcode.app.study.plan import Cell, Study, deal, from_arrays
from outcode.app.study.progress import Outcome, Progress
from outcode.app.study.running import run
from outcode.app.study.store import Store, StoreError
from outcode.results import Standing

__all__ = [
    "BASELINES",
    "DEFAULT",
    "FEW_ROWS",
    "METHODS",
    "PRESETS",
    "Cell",
    "Estimate",
    "Method",
    "MethodEstimate",
    "Outcome",
    "Progress",
    "Standing",
    "Store",
    "StoreError",
    "Study",
    "affordable",
    "baselines",
    "deal",
    "dry_run",
    "facts",
    "from_arrays",
    "left_out",
    "methods",
    "on_landmarks",
    "preset",
    "run",
    "run_in_time",
    "seeded",
]
