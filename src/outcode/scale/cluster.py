"""Dask: blocks as tasks that can be computed again, sums by the same tree as with threads.

Nothing is scattered: a block is a partition or a part of a file, and the model of a pass is a node
of the graph. A worker that dies costs the blocks it had; the model lives in the client.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeVar

import numpy as np

from outcode._checks import Array
from outcode.parallel import single_blas
from outcode.scale.checkpoints import Checkpoint, NoCheckpoint
from outcode.scale.engine import FAN, Engine, Sums, added, run
from outcode.scale.sources import Block, BlockError, Loader, checked

T = TypeVar("T")
#: How often a task is tried again, and a pass whose blocks killed workers.
RETRIES = 3
#: Seconds without any worker after which a pass gives up.
PATIENCE = 300.0
#: Seconds after which a pass that waits looks whether there are workers.
GLANCE = 5.0
#: Nodes of the tree of sums that are under way at once.
AHEAD = 64


class ClusterError(RuntimeError):
    """The cluster went away in the middle of a pass."""


def is_collection(X: Any) -> bool:
    """Return whether X is a Dask array, frame or series."""
    return hasattr(X, "__dask_graph__") and hasattr(X, "__dask_keys__")


def active_client() -> Any:
    """Return the Dask client in use, None without one."""
    try:
        from distributed import get_client

        return get_client()
    except (ImportError, ValueError):
        return None


# --- partitions as blocks ---


@dataclass(frozen=True)
class Partition:
    """Read a partition: on a worker its data are there already, here they are computed."""

    X: Any
    y: Any
    number: int

    def __call__(self) -> Block:
        X, y = (_computed(part) for part in (self.X, self.y))
        rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
        labels = None if y is None else _labels(y)
        return checked(Block(rows, labels, None, None, "partition", self.number))


def _computed(part: Any) -> Any:
    return part.compute(scheduler="synchronous") if hasattr(part, "__dask_graph__") else part


def _labels(y: Any) -> Array:
    values = np.asarray(y)
    if values.ndim == 2 and values.shape[1] == 1:
        return values[:, 0]
    return values


@dataclass(frozen=True)
class Partitions:
    """A Dask array or frame and its labels, as blocks."""

    parts: tuple[Partition, ...]

    def loaders(self) -> Iterator[Partition]:
        """Return the partitions."""
        return iter(self.parts)


def partitions(X: Any, y: Any = None) -> Partitions:
    """Return the partitions of Dask collections; those of ``y`` must go with those of ``X``."""
    rows = _delayed(X)
    if isinstance(y, str):
        y, rows = X[y], _delayed(X.drop(columns=[y]))
    labels = [None] * len(rows) if y is None else _delayed_like(y, X)
    if len(labels) != len(rows):
        raise BlockError(
            f"X has {len(rows)} partitions and y has {len(labels)}: give them the same partitions, "
            f"for example y.repartition(divisions=X.divisions) or y.rechunk(X.chunks[0])."
        )
    pairs = zip(rows, labels, strict=True)
    return Partitions(tuple(Partition(a, b, i) for i, (a, b) in enumerate(pairs)))


def _delayed(X: Any) -> list[Any]:
    if getattr(X, "ndim", 2) == 2 and hasattr(X, "rechunk"):
        X = X.rechunk({1: -1})
    return list(np.asarray(X.to_delayed(), dtype=object).ravel())


def _delayed_like(y: Any, X: Any) -> list[Any]:
    if not is_collection(y):
        raise BlockError(
            "X is a Dask collection and y is not: give y as a Dask collection with the same "
            "partitions, or the name of a column of X."
        )
    both = hasattr(y, "rechunk") and hasattr(X, "rechunk")
    if both and not np.isnan(sum(X.chunks[0])) and y.chunks[0] != X.chunks[0]:
        y = y.rechunk((X.chunks[0],))
    return _delayed(y)


# --- predictions, Dask in and Dask out ---


def lazily(model: Any, verb: str, X: Any) -> Any:
    """Return the predictions of a Dask collection as one: arrays for arrays, frames for frames.

    The model is one node of the graph, and the kind of the result is known without computing.
    """
    from dask.delayed import delayed

    node = delayed(model, pure=False, traverse=False)
    known = getattr(model, verb)(_one_row(X, model.n_features_in_))
    if hasattr(X, "rechunk"):
        wide = known.ndim == 2
        shape = {"chunks": (X.chunks[0], (known.shape[1],))} if wide else {"drop_axis": 1}
        kind = np.empty((0,) * known.ndim, dtype=known.dtype)
        rows = X.rechunk({1: -1})
        return rows.map_blocks(
            _predict_rows, verb, node, known, dtype=known.dtype, meta=kind, **shape
        )
    from dask.dataframe.dispatch import make_meta

    index = make_meta(X).index[:0]  # type: ignore[no-untyped-call, unused-ignore]  # Dask ships no types
    meta = _as_frame(known[:0], index, model.classes_)
    return X.map_partitions(_predict_frame, verb, node, known, meta=meta)


def _one_row(X: Any, width: int) -> Any:
    if not hasattr(X, "columns"):
        return np.zeros((1, width))
    import pandas as pd

    return pd.DataFrame(np.zeros((1, len(X.columns))), columns=X.columns)


def _predict_rows(rows: Any, verb: str, model: Any, known: Array) -> Array:
    return getattr(model, verb)(rows) if len(rows) else known[:0]


def _predict_frame(frame: Any, verb: str, model: Any, known: Array) -> Any:
    found = _predict_rows(frame, verb, model, known)
    return _as_frame(found, frame.index, model.classes_)


def _as_frame(values: Array, index: Any, classes: Array) -> Any:
    import pandas as pd

    if values.ndim == 1:
        return pd.Series(values, index=index)
    names = classes if values.shape[1] == len(classes) else range(values.shape[1])
    return pd.DataFrame(values, index=index, columns=list(names))


# --- the engine ---


@dataclass
class Cluster(Engine):
    """The workers of a Dask client."""

    client: Any
    checkpoint: Checkpoint = field(default_factory=NoCheckpoint)
    verbose: int = 0

    def sums(
        self, leaf: Callable[[Block], Sums], loaders: Iterable[Loader]
    ) -> Iterator[tuple[int, int, Sums]]:
        """Yield the sums of eight blocks each, the last of fewer."""
        groups = _batches(loaders)
        for group, value in self._results(_group_sum, leaf, groups):
            yield len(group), 1, _writable(value)

    def values(self, leaf: Callable[[Block], T], loaders: Iterable[Loader]) -> Iterator[T]:
        """Yield ``leaf(block)`` of every block, in order."""
        for _, value in self._results(_single, leaf, ([load] for load in loaders)):
            yield value

    def _results(
        self, node: Callable[..., Any], leaf: Any, groups: Iterator[list[Loader]]
    ) -> Iterator[tuple[list[Loader], Any]]:
        """Yield the value of each group of blocks in order, a bounded number under way."""
        from dask.delayed import delayed

        with _explained(self.client):
            model = delayed(leaf, pure=False, traverse=False)
            running = [self._start(node, model, group) for group in islice(groups, AHEAD)]
            try:
                while running:
                    group, future = running.pop(0)
                    value = self._finished(future, node, model, group)
                    running.extend(self._start(node, model, more) for more in islice(groups, 1))
                    yield group, value
            finally:
                for _, future in running:
                    future.release()

    def _start(self, node: Any, model: Any, group: list[Loader]) -> tuple[list[Loader], Any]:
        from dask.delayed import delayed

        parts = [delayed(on_worker, pure=False)(model, load) for load in group]
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sending large graph")
            return group, self.client.compute(
                delayed(node, pure=False)(parts), retries=RETRIES, optimize_graph=False
            )

    def _finished(self, future: Any, node: Any, model: Any, group: list[Loader]) -> Any:
        """Return a result; blocks whose workers died too often are tried again."""
        from distributed import KilledWorker

        for _ in range(RETRIES):
            try:
                return self._awaited(future)
            except KilledWorker:
                future = self._start(node, model, group)[1]
        return self._awaited(future)

    def _awaited(self, future: Any) -> Any:
        """Return a result; an error if there has been no worker for too long.

        A result can be lost with its worker after it is done, and is then computed again: no call
        waits without a limit.
        """
        since = time.monotonic()
        while True:
            done = future.done()
            try:
                return future.result(timeout=PATIENCE if done else GLANCE)
            except TimeoutError:
                if done and future.status == "error":
                    raise  # of the block itself
                if done and future.done():
                    raise ClusterError(_silent("A worker has kept its result to itself")) from None
            if self._workers():
                since = time.monotonic()
            elif time.monotonic() - since > PATIENCE:
                raise ClusterError(_silent("The cluster has had no worker"))

    def _workers(self) -> Any:
        """Return what the scheduler knows of its workers."""
        client = self.client
        try:
            return client.sync(client.scheduler.identity, callback_timeout=PATIENCE)["workers"]
        except TimeoutError:
            raise ClusterError(_silent("The scheduler has not answered")) from None


def _silent(what: str) -> str:
    return (
        f"{what} for {PATIENCE:.0f} seconds: see that scheduler and workers run, and fit again; "
        f"with checkpoint= the finished blocks are kept."
    )


def on_worker(leaf: Callable[[Block], T], load: Loader) -> T:
    """Compute what a pass wants of a block, with one BLAS thread."""
    with single_blas():
        return run(leaf, load)


def _single(values: list[T]) -> T:
    return values[0]


def _group_sum(values: list[Sums]) -> Sums:
    total = tuple(np.array(part) for part in values[0])  # the values may be asked for again
    for value in values[1:]:
        total = added(total, value)
    return total


def _writable(value: Sums) -> Sums:
    return tuple(part if part.flags.writeable else part.copy() for part in value)


def _batches(loaders: Iterable[Loader]) -> Iterator[list[Loader]]:
    waiting = iter(loaders)
    while group := list(islice(waiting, FAN)):
        yield group


@contextmanager
def _explained(client: Any) -> Iterator[None]:
    """Say in plain words that the cluster or its client has gone."""
    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise ClusterError(
            f"Workers died again and again on the same block ({error}): they may be short of "
            f"memory; give smaller blocks or larger workers."
        ) from error
    except Exception as error:
        if not _gone(error, client):
            raise
        raise ClusterError(
            f"The Dask client or its scheduler went away during training "
            f"({type(error).__name__}): connect a client again and fit again; with checkpoint= "
            f"the finished blocks are kept."
        ) from error


def _gone(error: Exception, client: Any) -> bool:
    """Return whether an error is the connection's; a block may raise one of the same kind."""
    from concurrent.futures import CancelledError

    from distributed.comm.core import CommClosedError

    return isinstance(error, CancelledError | CommClosedError) or client.status != "running"
