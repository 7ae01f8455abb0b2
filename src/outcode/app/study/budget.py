"""A study that answers in time: rows, folds and methods are chosen to fit, and what is left out
is said.

Rows are chosen from timed fits on a small sample. Then folds are run one after the other, every
method on each; before a fold begins, methods that would not finish it in time are dropped, the
slowest first but never :data:`DEFAULT`, and after :data:`ENOUGH` folds no fold begins that does not
fit as a whole.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from statistics import median
from typing import Any

from outcode.app.study.methods import DEFAULT
from outcode.app.study.plan import Cell, Study
from outcode.app.study.progress import Outcome
from outcode.app.study.running import OnRecord, OnStart, run
from outcode.app.study.store import Store
from outcode.datasets import sampled
from outcode.parallel import n_threads
from outcode.words import count, listing

#: Rows that are never sampled, and rows of the sample that methods are timed on.
FEW_ROWS, PROBE_ROWS = 2500, 500
#: Folds after which the answer rests on enough to stop; methods are dropped to reach them.
ENOUGH = 3
#: Share of the time left that what is planned may take, for estimates are no promises.
SAFE = 0.8
#: Methods kept, however slow.
LEAST_METHODS = 3
#: Share of the time that timing on a sample may take.
PROBE_SHARE = 0.2


class Budget:
    """Which cells still fit into the time.

    Parameters
    ----------
    study : what would be run without a limit
    seconds : until the answer must be there
    workers : processes
    """

    def __init__(self, study: Study, seconds: float, workers: int) -> None:
        self.study, self.workers = study, workers
        self.seconds, self.end = seconds, time.monotonic() + seconds
        self.places = sorted({(cell.repeat, cell.fold) for cell in study.cells()})
        self.spent: dict[str, list[float]] = {}
        self.decided: dict[tuple[int, int], set[str]] = {}
        self.dropped: dict[str, float] = {}

    @property
    def left(self) -> float:
        """Seconds left."""
        return self.end - time.monotonic()

    def note(self, record: dict[str, Any]) -> None:
        """Take in how long a cell took."""
        self.spent.setdefault(record["method"], []).append(record["seconds"])

    def wanted(self, cell: Cell) -> bool:
        """Return whether a cell is to be run; decided for its whole fold when first asked."""
        place = cell.repeat, cell.fold
        if place not in self.decided:
            self.decided[place] = self._methods(place)
        return cell.method in self.decided[place]

    def _methods(self, place: tuple[int, int]) -> set[str]:
        """Return the methods that run on a fold."""
        names = [m.name for m in self.study.methods if m.name not in self.dropped]
        number = self.places.index(place)
        if number == 0:
            return set(names)
        if any(not self.decided.get(earlier) for earlier in self.places[1:number]):
            return set()  # folds are run in order, without gaps
        rounds = max(1, min(ENOUGH, len(self.places)) - number)  # folds until there are enough
        while len(names) > LEAST_METHODS and self._cost(names) * rounds > SAFE * self.left:
            if number >= ENOUGH:
                return set()
            slowest = max((name for name in names if name != DEFAULT), key=self._seconds)
            self.dropped[slowest] = self._seconds(slowest)
            names.remove(slowest)
        fits = number < 2 or self._cost(names) <= SAFE * self.left
        return set(names) if fits else set()

    def _cost(self, names: Sequence[str]) -> float:
        """Return the seconds of one fold; it takes at least as long as its slowest method."""
        each = [self._seconds(name) for name in names]
        return len(self.study.datasets) * max(sum(each) / self.workers, max(each, default=0.0))

    def _seconds(self, name: str) -> float:
        """Return how long a method takes; one that has not finished yet may be the slowest."""
        if name in self.spent:
            return median(self.spent[name])
        return 1.5 * max((median(spent) for spent in self.spent.values()), default=0.0)

    def final(self, finished: Iterable[dict[str, Any]]) -> Study:
        """Return the study of what was run: whole folds of the methods that kept up."""
        done = {(r["method"], r["repeat"], r["fold"], r["dataset"]) for r in finished}
        sets = [data.name for data in self.study.datasets]

        def folds(method: str) -> int:
            has = [all((method, *p, name) in done for name in sets) for p in self.places]
            return next((i for i, whole in enumerate(has) if not whole), len(has))

        reached = {m.name: folds(m.name) for m in self.study.methods}
        kept = {name for name, n in reached.items() if n and name not in self.dropped}
        kept = kept or {name for name, n in reached.items() if n}
        if not kept:
            return self.study
        most = max(reached[name] for name in kept)
        first = max(1, min(most, ENOUGH))
        kept = {name for name in kept if reached[name] >= first}
        methods = tuple(m for m in self.study.methods if m.name in kept)
        return replace(self.study, methods=methods, first=min(reached[n] for n in kept),
                       baselines=False)  # fmt: skip


def run_in_time(
    study: Study,
    store: Store,
    seconds: float,
    *,
    n_jobs: int | None = None,
    on_record: OnRecord | None = None,
    describe: Callable[[Study], dict[str, Any]] = Study.meta,
    **limits: Any,
) -> tuple[Study, Outcome]:
    """Run as much of a study as fits into the time; return this part and its outcome.

    Parameters
    ----------
    study : Study
        The study to run.
    store : Store
        Where the records go.
    seconds : float
        Time for the whole run.
    n_jobs : int, default=None
        Number of worker processes, as in :func:`run`.
    on_record : callable, default=None
        Called with each new record and the :class:`Progress`.
    describe : callable, default=Study.meta
        Makes the meta dict of the study that was run, which the store keeps.
    **limits : dict
        Other options of :func:`run`: ``cell_timeout``, ``memory_limit`` and ``on_start``.

    Returns
    -------
    study : Study
        The study that was run.
    outcome : Outcome
        How the run ended.

    Examples
    --------
    >>> import numpy as np
    >>> from outcode.app.study import from_arrays
    >>> data = from_arrays("toy", np.arange(40.0)[:, None], np.repeat(["a", "b"], 20))
    >>> study = Study(data, "ova+hinge", folds=2, baselines=False)
    >>> with Store(":memory:") as store:
    ...     done, outcome = run_in_time(study, store, 60, n_jobs=0)
    >>> len(done.methods), outcome.counts
    (1, {'ok': 2})
    """
    workers = 1 if n_jobs == 0 else n_threads(n_jobs)
    budget = Budget(study, seconds, workers)

    def noted(record: dict[str, Any], view: Any) -> None:
        budget.note(record)
        if on_record is not None:
            on_record(record, view)

    for record in store.records(study.keys()):
        budget.note(record)
    outcome = run(
        study, store, n_jobs=n_jobs, time_limit=seconds, on_record=noted, wanted=budget.wanted,
        **limits,
    )  # fmt: skip
    if outcome.interrupted:
        return study, outcome
    small = all(len(data.y) <= FEW_ROWS for data in study.datasets)
    limited = any(limits.get(name) for name in ("cell_timeout", "memory_limit"))
    if (
        small
        and not limited
        and not any(record["status"] == "ok" for record in store.records(study.keys()))
    ):
        run(_least(study), store, n_jobs=0, on_record=noted)  # late, but an answer
    final = budget.final(store.records(study.keys()))
    store.describe(describe(final), final.keys())
    counts: dict[str, int] = {}
    for record in store.records(final.keys()):
        counts[record["status"]] = counts.get(record["status"], 0) + 1
    remaining = len(final.keys()) - sum(counts.values())
    return final, replace(outcome, counts=counts, remaining=remaining, out_of_time=remaining > 0)


def _least(study: Study) -> Study:
    """Return the study of one method on one fold, one of ours that searches little."""
    first = min(study.methods, key=lambda method: (method.baseline, method.name == DEFAULT))
    return replace(study, methods=(first,), first=1, baselines=False)


#: Seconds in which the times of methods are taken, though reading has used them up.
SHORTEST = 1.0


def left_out(whole: Study, final: Study, rows: dict[str, int]) -> list[str]:
    """Return what a study with a time limit did not do, in words.

    Parameters
    ----------
    whole : Study
        The study asked for.
    final : Study
        The study that was run.
    rows : dict of str to int
        Number of rows of each data set.

    Returns
    -------
    list of str
        One phrase for each thing left out.

    Examples
    --------
    >>> import numpy as np
    >>> from outcode.app.study import from_arrays
    >>> data = from_arrays("toy", np.arange(40.0)[:, None], np.repeat(["a", "b"], 20))
    >>> whole = Study(data, "ova+hinge", folds=5, baselines=False)
    >>> left_out(whole, replace(whole, first=2), {"toy": 40})
    ['2 folds of 5 were run']
    """
    told = [
        f"{len(data.y):,} of {rows[data.name]:,} rows of {data.name} were used"
        for data in final.datasets
        if len(data.y) < rows.get(data.name, 0)
    ]
    done, asked = len(final.places), whole.folds * whole.repeats if whole.splits == "folds" else 1
    if done < asked:
        told.append(f"{count(done, 'fold')} of {asked} {'was' if done == 1 else 'were'} run")
    gone = [m.name for m in whole.methods if m.name not in {k.name for k in final.methods}]
    if gone:
        told.append(f"{listing(gone, 12)} {'was' if len(gone) == 1 else 'were'} left out")
    return told


def affordable(
    study: Study, seconds: float, *, n_jobs: int | None = None, on_start: OnStart | None = None
) -> Study:
    """Return the study with as many rows as the time allows, estimated on a small sample.

    A method's time is taken to grow with the power ``Method.growth`` of its rows; the slowest fifth
    of the methods does not decide: they may be dropped.

    Parameters
    ----------
    study : Study
        The study asked for.
    seconds : float
        Time for the whole run.
    n_jobs : int, default=None
        Number of worker processes, as in :func:`run`.
    on_start : callable, default=None
        Called with each cell that is started.

    Returns
    -------
    Study
        The study on a sample of the rows, or the study itself if its data sets are small.

    Examples
    --------
    >>> import numpy as np
    >>> from outcode.app.study import from_arrays
    >>> data = from_arrays("toy", np.arange(40.0)[:, None], np.repeat(["a", "b"], 20))
    >>> study = Study(data, "ova+hinge")
    >>> affordable(study, 60) is study
    True
    """
    if all(len(data.y) <= FEW_ROWS for data in study.datasets):
        return study
    begin, seconds = time.monotonic(), max(seconds, SHORTEST)
    small = tuple(
        replace(sampled(data, PROBE_ROWS, study.seed), rest=None) for data in study.datasets
    )
    probe = replace(study, datasets=small, folds=2, repeats=1, first=1, baselines=False)
    with Store(":memory:") as store:
        limit = PROBE_SHARE * seconds
        run(probe, store, n_jobs=n_jobs, time_limit=limit, on_start=on_start)
        records = store.records(probe.keys())
    left = SAFE * (seconds - (time.monotonic() - begin))
    workers = 1 if n_jobs == 0 else n_threads(n_jobs)
    spent = {(r["dataset"], r["method"]): r["seconds"] for r in records if r["status"] == "ok"}
    chosen = []
    for data, less in zip(study.datasets, small, strict=True):
        times = [(spent.get((data.name, m.name), limit), m.growth) for m in study.methods]
        share = left * workers / len(study.datasets) / ENOUGH
        rows = _most_rows(times, len(less.y) / 2, len(data.y) * (1 - 1 / study.folds), share)
        chosen.append(
            sampled(data, max(PROBE_ROWS, round(rows / (1 - 1 / study.folds))), study.seed)
        )
    return replace(study, datasets=tuple(chosen), baselines=False)


def _most_rows(times: Sequence[tuple[float, float]], at: float, most: float, share: float) -> float:
    """Return the most training rows for which one fold of all but the slowest fits a share.

    ``times`` are seconds of each method on ``at`` rows, and how they grow.
    """
    rows = most
    while rows > at:
        grown = sorted(t * (rows / at) ** growth for t, growth in times)
        if sum(grown[: max(1, len(grown) * 4 // 5)]) <= share:
            break
        rows *= 0.85
    return max(rows, at)
