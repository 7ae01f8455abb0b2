"""Cells in worker processes that can be killed: for their time, for their memory, or from outside.

The processes are new interpreters, not forks (threads and compiled code do not survive a fork) and
not children of ``multiprocessing`` (which would import the caller's script once more).
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib import import_module
from typing import Any

from outcode.app.study.cell import blank, sentence
from outcode.app.study.plan import Cell, Rows
from outcode.app.study.worker import START, receive, send
from outcode.words import size

#: How often a cell is tried again whose worker died.
RETRIES = 3
#: Workers that may die one after the other before any is ready.
FALSE_STARTS = 6
#: Seconds between looks at clocks and memory.
TICK = 0.05
#: One thread per worker: the cores are shared by cells, and bits must not depend on threads.
SINGLE = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA", "VECLIB_MAXIMUM")


@dataclass(frozen=True)
class Limits:
    """What one cell may take: seconds, and bytes of its worker's resident memory."""

    seconds: float | None = None
    memory: float | None = None


class Worker:
    """One process and the cell it is at."""

    def __init__(self, events: queue.SimpleQueue[tuple[Worker, Any]]) -> None:
        environment = os.environ | {f"{name}_NUM_THREADS": "1" for name in SINGLE}
        self.process = subprocess.Popen(
            [sys.executable, "-c", START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the parent to handle
        )
        self.cell: Cell | None = None
        self.ready, self.gone = False, False
        self.begun, self.peak = 0.0, 0
        self.known: set[str] = set()
        threading.Thread(target=self._read, args=(events,), daemon=True).start()

    @property
    def idle(self) -> bool:
        return self.ready and self.cell is None

    @property
    def spent(self) -> float:
        return time.monotonic() - self.begun

    def _read(self, events: queue.SimpleQueue[tuple[Worker, Any]]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as stream:
            while (message := receive(stream)) is not None:
                events.put((self, pickle.loads(message)))
        events.put((self, None))

    def give(self, cell: Cell, message: bytes) -> None:
        """Send a cell; if the process is dead its reader will say so."""
        assert self.process.stdin is not None
        self.cell, self.begun, self.peak = cell, time.monotonic(), 0
        self.known.add(cell.dataset)
        try:
            send(self.process.stdin, message)
        except OSError:
            self.process.kill()

    def kill(self) -> None:
        """End the process and wait for it."""
        self.gone = True
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        with suppress(OSError):  # what is left to be written to a dead process
            self.process.stdin.close()


class Pool:
    """Runs cells on worker processes.

    Parameters
    ----------
    rows : the data sets by name; each is sent to a worker once
    n_workers : number of processes
    limits : of one cell
    """

    def __init__(self, rows: Mapping[str, Rows], n_workers: int, limits: Limits) -> None:
        self.rows, self.n_workers, self.limits = rows, n_workers, limits
        self.events: queue.SimpleQueue[tuple[Worker, Any]] = queue.SimpleQueue()
        self.workers: list[Worker] = []
        self.waiting: deque[Cell] = deque()
        self.deaths: Counter[str] = Counter()
        self.false_starts = 0
        self.resident = _resident(needed=limits.memory is not None)

    def records(
        self, cells: Sequence[Cell], *, stop: Callable[[], bool], wanted: Callable[[Cell], bool]
    ) -> Generator[dict[str, Any], None, None]:
        """Yield records as they come, until all are there or ``stop()``.

        ``wanted(cell)`` is asked just before a cell is started.
        """
        self.waiting = deque(cells)
        try:
            while (self.waiting or self._busy()) and not stop():
                yield from self._assign(wanted)
                yield from self._collect()
                yield from self._overdue()
        finally:
            self.close()

    def close(self) -> None:
        """End all processes."""
        for worker in self.workers:
            worker.kill()
        self.workers = []

    def _busy(self) -> list[Worker]:
        return [worker for worker in self.workers if worker.cell is not None]

    def _assign(self, wanted: Callable[[Cell], bool]) -> Iterator[dict[str, Any]]:
        """Give each idle worker a cell; yield the records of cells that cannot be sent."""
        needed = min(self.n_workers, len(self.waiting) + len(self._busy()))
        while len(self.workers) < needed:
            self.workers.append(Worker(self.events))
        for worker in self.workers:
            while worker.idle and self.waiting:
                cell = self.waiting.popleft()
                if not wanted(cell):
                    continue
                try:
                    message = self._message(worker, cell)
                except Exception as error:
                    reason = f"The method cannot be sent to a worker process ({sentence(error)})."
                    yield blank(cell, "failed", reason)
                else:
                    worker.give(cell, message)

    def _message(self, worker: Worker, cell: Cell) -> bytes:
        rows = None if cell.dataset in worker.known else self.rows[cell.dataset]
        return _pickler()((cell, rows))

    def _collect(self) -> Iterator[dict[str, Any]]:
        """Yield what the workers have said."""
        try:
            worker, message = self.events.get(timeout=TICK)
        except queue.Empty:
            return
        if worker.gone:
            return
        if message is None:
            yield from self._died(worker)
        elif worker.cell is None:
            worker.ready, self.false_starts = True, 0
        else:
            cell, worker.cell = worker.cell, None
            yield self._record(cell, worker, message)

    def _record(self, cell: Cell, worker: Worker, message: Any) -> dict[str, Any]:
        if isinstance(message, str):
            return blank(cell, "failed", message)
        if self.limits.seconds is not None and message["seconds"] > self.limits.seconds:
            return self._stopped(worker, cell, *self._late(self.limits.seconds))
        peak = message["metrics"]["peak_memory"]
        message["metrics"]["peak_memory"] = max(peak or 0, worker.peak) or None
        return dict(message)

    def _died(self, worker: Worker) -> Iterator[dict[str, Any]]:
        """Try the cell of a dead worker again, or give it up."""
        worker.kill()
        self.workers.remove(worker)
        cell = worker.cell
        if cell is None:
            self.false_starts += not worker.ready
            if self.false_starts >= FALSE_STARTS:
                raise RuntimeError(
                    f"Worker processes do not start ({_cause(worker)}): their output is above. "
                    f"n_jobs=0 runs the study in this process."
                )
            return
        self.deaths[cell.key] += 1
        if self.deaths[cell.key] <= RETRIES:
            self.waiting.appendleft(cell)
            return
        reason = f"Its process died {RETRIES + 1} times, at last {_cause(worker)}."
        yield self._stopped(worker, cell, "crashed", reason, None)

    def _overdue(self) -> Iterator[dict[str, Any]]:
        """Kill workers that are beyond a limit."""
        for worker in self._busy():
            if (found := self._beyond(worker)) is not None and worker.cell is not None:
                worker.kill()
                self.workers.remove(worker)
                yield self._stopped(worker, worker.cell, *found)

    def _beyond(self, worker: Worker) -> tuple[str, str, float] | None:
        """Return status, reason and limit if a worker's cell is beyond a limit."""
        seconds, memory = self.limits.seconds, self.limits.memory
        worker.peak = max(worker.peak, self.resident(worker.process.pid))
        if seconds is not None and worker.spent > seconds:
            return self._late(seconds)
        if memory is not None and worker.peak > memory:
            found, most = map(size, (worker.peak, memory))
            return "memory", f"Stopped at {found}: the limit is {most}.", memory
        return None

    def _late(self, seconds: float) -> tuple[str, str, float]:
        return "timeout", f"Stopped after {seconds:g} s, the limit of a run.", seconds

    def _stopped(
        self, worker: Worker, cell: Cell, status: str, reason: str, limit: float | None
    ) -> dict[str, Any]:
        record = blank(cell, status, reason) | {"seconds": worker.spent}
        record["metrics"]["peak_memory"] = worker.peak or None
        if limit is not None:
            record["details"]["limit"] = limit
        return record


@lru_cache(maxsize=1)
def _pickler() -> Callable[[Any], bytes]:
    """Return cloudpickle's dumps, which takes a caller's own classes along, or else pickle's."""
    try:
        return import_module("cloudpickle").dumps
    except ImportError:
        return pickle.dumps


def _cause(worker: Worker) -> str:
    """Return how a process ended, in words."""
    code = worker.process.returncode
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = " (from outside, or for lack of memory)" if name == "SIGKILL" else ""
        return f"by signal {name}{hint}"
    return f"with exit code {code}"


def _resident(needed: bool) -> Callable[[int], int]:
    """Return a function from a process to its resident memory in bytes, 0 where nobody knows."""
    try:
        import psutil
    except ImportError as error:
        if needed:
            raise ImportError('memory_limit needs psutil: pip install "outcode[app]".') from error
        return lambda pid: 0

    def resident(pid: int) -> int:
        try:
            return int(psutil.Process(pid).memory_info().rss)
        except psutil.Error:
            return 0

    return resident
