"""Threads over columns and blocks, with one BLAS thread each.

BLAS gives other bits for another thread count, and a seed must not: every task runs single
threaded and the pieces are the same for any ``n_jobs``, so the model is too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock, Thread, current_thread, main_thread
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

T = TypeVar("T")
R = TypeVar("R")
#: Factors of a matrix of so many rows take long.
LONG = 1000


def n_threads(n_jobs: int | None) -> int:
    """Return how many threads to use: all cores for None, joblib's reading otherwise."""
    return _cores() if n_jobs is None else int(joblib.effective_n_jobs(n_jobs))


@lru_cache(maxsize=1)
def _cores() -> int:
    return int(joblib.cpu_count())  # reads files of the system: too slow to ask for every row


@lru_cache(maxsize=1)
def _blas() -> list[Any]:
    """Return the BLAS libraries in use; their own functions, for threadpoolctl's cost 0.05 ms."""
    import scipy.linalg  # noqa: F401  SciPy brings a BLAS of its own; it must be loaded to be held

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


_holders: list[list[int]] = []  # the threads of each library before, once for everyone who asked
_lock = Lock()


@contextmanager
def single_blas() -> Iterator[None]:
    """Hold BLAS to one thread, until the last of the threads that asked for it is done."""
    with _lock:
        _holders.append(_holders[0] if _holders else _set_threads([1] * len(_blas())))
    try:
        yield
    finally:
        with _lock:
            before = _holders.pop()
            if not _holders:
                _set_threads(before)


def _set_threads(numbers: list[int]) -> list[int]:
    """Set the number of threads of each library; return what it was."""
    before = [library.get_num_threads() for library in _blas()]
    for library, number, now in zip(_blas(), numbers, before, strict=True):
        if number != now:
            library.set_num_threads(number)
    return before


def thread_map(
    function: Callable[[T], R], items: Iterable[T], n_jobs: int | None = None
) -> list[R]:
    """Return ``[function(item) for item in items]``, computed by threads."""
    work = list(items)
    workers = min(n_threads(n_jobs), len(work))
    with single_blas():
        if workers <= 1:
            return [function(item) for item in work]
        pool, wait = ThreadPoolExecutor(workers), True
        try:
            return [future.result() for future in [pool.submit(function, item) for item in work]]
        except KeyboardInterrupt:  # what runs ends by itself; nobody uses it
            wait = False
            raise
        finally:
            pool.shutdown(wait=wait, cancel_futures=True)


def interruptible(function: Callable[[], R], rows: int) -> R:
    """Return ``function()``, one call of a library on so many rows that Ctrl-C need not wait for.

    It runs in a thread of its own if it takes long, since Ctrl-C reaches the main thread alone.
    """
    if rows < LONG or current_thread() is not main_thread():
        return function()
    found: Future[R] = Future()

    def run() -> None:
        try:
            found.set_result(function())
        except BaseException as error:
            found.set_exception(error)

    Thread(target=run, daemon=True).start()
    return found.result()
