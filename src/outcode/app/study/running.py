"""Run the cells of a study that have no record yet."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any

from outcode._checks import positive
from outcode.app.study.cell import run_cell
from outcode.app.study.plan import Cell, Rows, Study
from outcode.app.study.pool import Limits, Pool
from outcode.app.study.progress import Outcome, Progress, Tally
from outcode.app.study.store import Store
from outcode.parallel import n_threads
from outcode.progress import progress

OnRecord = Callable[[dict[str, Any], Progress], None]
OnStart = Callable[[Cell], None]


def run(
    study: Study,
    store: Store,
    *,
    n_jobs: int | None = None,
    time_limit: float | None = None,
    cell_timeout: float | None = None,
    memory_limit: float | None = None,
    on_record: OnRecord | None = None,
    on_start: OnStart | None = None,
    wanted: Callable[[Cell], bool] | None = None,
    verbose: int = 0,
) -> Outcome:
    """Run the cells that the store does not have yet, and return the outcome.

    Each cell runs in a worker process, single threaded, and its record is written as soon as it is
    finished. Ctrl-C (or SIGTERM) stops cleanly; what is finished stays, and running again continues
    from there. Cells whose worker died are tried again by the next run, and cells that met a limit
    if that limit is higher now.

    Parameters
    ----------
    study : Study
        The study to run.
    store : Store
        Where the records go.
    n_jobs : int, default=None
        Number of worker processes. None is one per core. 0 runs everything in this process, where
        ``cell_timeout`` and ``memory_limit`` cannot be enforced and are refused.
    time_limit : float, default=None
        Seconds for the whole run. Cells not finished by then are left for the next one.
    cell_timeout : float, default=None
        Seconds for one cell. Its record then says "timeout".
    memory_limit : float, default=None
        Bytes of resident memory of one worker. The record of its cell says "memory".
    on_record : callable, default=None
        Called with each new record and the :class:`Progress`.
    on_start : callable, default=None
        Called with each cell that is started.
    wanted : callable, default=None
        Called with a cell just before it is started. If it returns False, the cell is left for
        another run.
    verbose : int, default=0
        If not 0, show the runs done and the time left: as a bar in a notebook or a terminal.

    Returns
    -------
    Outcome
        How the run ended.

    Examples
    --------
    >>> import numpy as np
    >>> from outcode.app.study import from_arrays
    >>> data = from_arrays("toy", np.arange(40.0)[:, None], np.repeat(["a", "b"], 20))
    >>> with Store(":memory:") as store:
    ...     outcome = run(Study(data, "ova+hinge", folds=2), store, n_jobs=0)
    >>> outcome.counts, outcome.remaining
    ({'ok': 10}, 0)
    """
    _check_limits(n_jobs, time=time_limit, cell=cell_timeout, memory=memory_limit)
    store.describe(store.given or study.meta(), study.keys())
    workers = 1 if n_jobs == 0 else n_threads(n_jobs)
    ledger = _Ledger(study, store, store.retried_keys(cell_timeout, memory_limit), workers)
    with _stopping(time_limit, raises=n_jobs == 0) as stop:
        cells = list(ledger.pending.values())

        def asked(cell: Cell) -> bool:
            starts = (wanted is None or wanted(cell)) and ledger.wanted(cell)
            if starts and on_start is not None:
                on_start(cell)
            return starts

        if n_jobs == 0:
            source = _here(cells, study.rows, stop=stop, wanted=asked)
        else:
            pool = Pool(study.rows, workers, Limits(cell_timeout, memory_limit))
            source = pool.records(cells, stop=stop, wanted=asked)
        shown = progress("runs", len(cells), verbose)
        with closing(source), shown as bar, stop.quietly():
            for record in source:
                ledger.enter(record)
                bar.advance()
                if on_record is not None:
                    on_record(record, ledger.view())
    late = stop.late and bool(ledger.pending)
    return ledger.tally.outcome(interrupted=stop.interrupted, out_of_time=late)


class _Ledger:
    """Which cells are pending, and what the others came to."""

    def __init__(self, study: Study, store: Store, again: set[str], workers: int) -> None:
        cells, finished = study.cells(), store.finished_keys() - again
        self.store, self.again = store, again
        self.pending = {cell.key: cell for cell in cells if cell.key not in finished}
        self.tally = Tally(len(cells), study.measure, workers)
        self.tally.known(store.records([cell.key for cell in cells if cell.key in finished]))

    def wanted(self, cell: Cell) -> bool:
        """Return whether a cell is still to do: another run on the same store may have done it."""
        if cell.key in self.again or not (found := self.store.records([cell.key])):
            return True
        self.tally.known(found)
        del self.pending[cell.key]
        return False

    def enter(self, record: dict[str, Any]) -> None:
        """Write a record."""
        self.store.put(record)
        self.tally.add(record)
        del self.pending[record["key"]]

    def view(self) -> Progress:
        """Return the progress."""
        return self.tally.view([(cell.dataset, cell.method) for cell in self.pending.values()])


def _here(
    cells: Sequence[Cell],
    rows: Mapping[str, Rows],
    *,
    stop: Callable[[], bool],
    wanted: Callable[[Cell], bool],
) -> Generator[dict[str, Any], None, None]:
    """Yield the records of cells run one after the other in this process."""
    for cell in cells:
        if stop():
            return
        if wanted(cell):
            yield run_cell(cell, rows[cell.dataset])


class _Stop:
    """Says whether to stop: someone wants it, or the time is up."""

    def __init__(self, seconds: float | None, raises: bool) -> None:
        self.deadline = None if seconds is None else time.monotonic() + seconds
        self.raises, self.interrupted = raises, False

    def __call__(self) -> bool:
        return self.interrupted or self.late

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def signal(self, number: int, frame: Any) -> None:
        """Take note; in the process of the cells, also leave the cell."""
        first, self.interrupted = not self.interrupted, True
        if self.raises and first:
            raise KeyboardInterrupt

    @contextmanager
    def quietly(self) -> Iterator[None]:
        """Let the interrupt that was taken note of end here."""
        try:
            yield
        except KeyboardInterrupt:
            if not self.interrupted:
                raise


@contextmanager
def _stopping(seconds: float | None, raises: bool) -> Iterator[_Stop]:
    """Catch SIGINT and SIGTERM while a study runs (in the main thread: others get no signals)."""
    stop = _Stop(seconds, raises)
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    caught = signal.SIGINT, signal.SIGTERM
    before = [signal.signal(number, stop.signal) for number in caught]
    try:
        yield stop
    finally:
        for number, handler in zip(caught, before, strict=True):
            signal.signal(number, handler)


def _check_limits(n_jobs: int | None, **limits: float | None) -> None:
    given = {name: positive(v, f"{name} limit") for name, v in limits.items() if v is not None}
    if n_jobs == 0 and given.keys() & {"cell", "memory"}:
        raise ValueError(
            "n_jobs=0 runs cells in this process, where cell_timeout and memory_limit cannot be "
            "enforced: use n_jobs=1."
        )
