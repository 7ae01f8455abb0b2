"""Training on blocks of rows: files larger than memory, Dask collections, iterables of blocks.

The same flow as :func:`outcode.training.train`, a pass over the blocks at a time: classes and
means, then landmarks, then statistics or gradients. A decoder that asks for held-out margins gets
those of a sample of rows under a machine trained without them.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode import codes
from outcode._checks import Array, require_classes
from outcode.capabilities import TrainsOnBlocks, require
from outcode.parallel import single_blas
from outcode.scale import checkpoints, cluster, files, landmarks, sources
from outcode.scale.engine import Engine, Threads
from outcode.scale.sources import Block, Source
from outcode.scale.survey import EncodedSource, Pick, Survey, by_block, joined, survey
from outcode.training import HeldOut, Problem, Rule, Training

#: Rows that codes are learned and decoders calibrated on.
SAMPLE_ROWS = 20_000


# --- what is given ---


def in_blocks(X: Any) -> bool:
    """Return whether X is in blocks: paths, Dask collections, a list or function of blocks."""
    listed = callable(X) or hasattr(X, "__next__") or _is_list_of_blocks(X)
    return is_path(X) or cluster.is_collection(X) or _is_source(X) or listed


def _is_source(X: Any) -> bool:
    return hasattr(X, "loaders")


def is_path(X: Any) -> bool:
    """Return whether X names a file, a folder or a pattern, or is a list of names."""
    first = X[0] if isinstance(X, list) and X else X
    return isinstance(first, str | os.PathLike)


def _is_list_of_blocks(X: Any) -> bool:
    if not isinstance(X, list) or not X:
        return False
    return np.ndim(X[0][0] if isinstance(X[0], tuple) else _plain(X[0])) == 2


def _plain(rows: Any) -> Any:
    return rows if hasattr(rows, "ndim") else None


@dataclass(frozen=True)
class Given:
    """Where blocks come from, and the names of their columns where they have some."""

    source: Source
    names: Array | None


def given(X: Any, y: Any, names: Array | None = None) -> Given:
    """Return the blocks that X and y describe; without y, rows to predict."""
    if is_path(X):
        known = None if names is None else tuple(names)
        found = files.files(X, y, known)
        return Given(found, np.array(found.names, dtype=object))
    if cluster.is_collection(X):
        columns = [name for name in getattr(X, "columns", ()) if not _is_name(y, name)]
        text = bool(columns) and all(isinstance(name, str) for name in columns)
        return Given(cluster.partitions(X, y), np.array(columns, dtype=object) if text else None)
    if y is not None:
        raise ValueError("Blocks hold their labels, (X, y): leave y out.")
    return Given(X if _is_source(X) else sources.Blocks(X), None)


def _is_name(y: Any, name: Any) -> bool:
    return isinstance(y, str) and y == name


def engine(X: Any, n_jobs: int | None = None, checkpoint: Any = None, verbose: int = 0) -> Engine:
    """Return the active Dask client's workers for Dask collections and files, else threads."""
    kept = checkpoints.NoCheckpoint() if checkpoint is None else checkpoints.Folder(checkpoint)
    spread = cluster.is_collection(X) or is_path(X) or getattr(X, "spread", False)
    client = cluster.active_client() if spread else None
    if client is None:
        return Threads(n_jobs, kept, verbose)
    return cluster.Cluster(client, kept, verbose)


# --- training ---


def train_blocks(
    code: Any,
    machine: Any,
    decoder: Any,
    source: Source,
    engine: Engine,
    rng: np.random.RandomState,
) -> Rule:
    """Train a machine and a decoder, both unfitted, on blocks of labelled rows."""
    require(machine, TrainsOnBlocks, "Training on blocks of rows")
    seen = survey(engine, source)
    require_classes(seen.classes, seen.labels, np.ones(len(seen.labels)))
    encoded = EncodedSource(source, seen.classes, _class_weights(machine, seen))
    at = np.arange(len(seen.labels))
    if len(at) > SAMPLE_ROWS:
        at = landmarks.stratified(seen.labels, SAMPLE_ROWS, rng)
    sample = joined(engine.each(Pick(by_block(seen.lengths, at)), encoded))
    matrix = codes.resolve(
        code, len(seen.classes), seen.classes, sample.X, sample.group, machine, rng
    )
    scale = 1.0 / (seen.means.shape[1] * seen.variance) if seen.variance > 0 else 1.0
    task = machine.task(engine, encoded, matrix, seen.labels, seen.lengths, scale)
    with single_blas():
        machine.fit_task(task)
        return _read(machine, decoder, matrix, seen, sample, _HeldOut(machine, task, at, sample.X))


def _class_weights(machine: Any, seen: Survey) -> Array | None:
    """Return the weight of each class, None where all are 1."""
    first = np.array([np.argmax(seen.labels == q) for q in range(len(seen.classes))])
    weight = machine.weigh(seen.classes[seen.labels], np.ones(len(seen.labels)))[first]
    return None if np.all(weight == 1.0) else weight


@dataclass(frozen=True)
class _HeldOut:
    """Margins of a sample under machines trained without the sample, or without parts of it."""

    machine: Any
    task: Any
    at: Array
    X: Any

    def parts(self) -> Array:
        """Return the part of each row of the sample that is held out at once, -1 for none.

        One part where most rows of every class stay; else three, each class spread over them, and
        never the only row of a class.
        """
        labels = self.task.labels[self.at]
        inside, every = np.bincount(labels), np.bincount(self.task.labels)
        if np.all(2 * inside <= every):
            return np.zeros(len(labels), dtype=np.intp)
        order = np.argsort(labels, kind="stable")
        part = np.empty(len(labels), dtype=np.intp)
        part[order] = np.arange(len(labels)) % 3
        return np.where(every[labels] > 1, part, -1)

    def __call__(self) -> tuple[Array, Array]:
        part, out = self.parts(), self.machine.margins(self.X)
        for p in np.unique(part[part >= 0]):
            out[part == p] = self.machine.held_out_sample(self.task, self.at[part == p])
        return out, part


def _read(
    machine: Any, decoder: Any, code: Array, seen: Survey, sample: Block, hold_out: _HeldOut
) -> Rule:
    """Return the rule: the decoder is fitted on a sample, held out where it asks for that."""
    kept: HeldOut = {}
    assert sample.group is not None
    weight = np.ones(len(sample)) if sample.weight is None else sample.weight

    def held_out(folds: int, enough: float = np.inf) -> Array:
        if folds not in kept:
            kept[folds] = hold_out()
        return kept[folds][0]

    training = Training(code, sample.group, sample.X, _Fitted(machine, sample.X), weight, held_out)
    problem = Problem(None, code, sample.group, weight, seen.classes)
    return Rule(problem, machine, decoder.fit(training), kept)


@dataclass(frozen=True)
class _Fitted:
    """A machine as a decoder sees it: with margins on the sample."""

    machine: Any
    X: Any

    @property
    def training_margins_(self) -> Array:
        return self.machine.margins(self.X)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.machine, name)


# --- predicting ---


def predicted(model: Any, verb: str, X: Any) -> Any:
    """Return ``model.predict`` (or another verb) of rows in blocks: Dask in, Dask out, lazily."""
    if cluster.is_collection(X):
        return cluster.lazily(model, verb, X)
    if is_path(X):
        blocks = given(X, None, getattr(model, "feature_names_in_", None)).source
    else:
        blocks = sources.Blocks(X, labelled=False)
    with warnings.catch_warnings():  # the columns of files were matched by name
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        return np.concatenate([getattr(model, verb)(load().X) for load in blocks.loaders()])
