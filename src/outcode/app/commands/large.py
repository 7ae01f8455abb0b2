"""`outcode compare` on large files: a sample for exact methods, all rows for the landmarks."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from outcode import datasets
from outcode._checks import Array
from outcode.app import study
from outcode.app.commands.blocks import opened
from outcode.app.terminal import say
from outcode.datasets import drawing
from outcode.datasets.table import content_hash
from outcode.machines import Nystrom
from outcode.scale.rest import Rest
from outcode.words import duration, size

#: Rows that exact methods are compared on.
SAMPLE_ROWS = 20_000
#: Numbers of landmarks to choose from, and the share of the time that training on them may take.
LANDMARKS, SHARE = (2000, 1000, 500, 250, 100), 0.3
#: Rows and landmarks of the fit that is timed; passes that choosing the width and C are worth.
TIMED_ROWS, TIMED_LANDMARKS, CHOOSING = 4000, 250, 2


@dataclass(frozen=True)
class Large:
    """A data set of a sample with the rest of its rows, and the seconds that reading them took."""

    data: datasets.Dataset
    seconds: float


def dataset(source: str, choices: dict[str, Any]) -> Large:
    """Read a source block by block: a stratified sample, and where the other rows are."""
    begin = time.monotonic()
    parts, seen = opened(source, choices)
    drawn = drawing.drawn(parts, seen, SAMPLE_ROWS, choices["seed"], choices["n_jobs"])
    data, n_rows = drawn.data, drawn.n_rows
    rest = Rest(tuple(parts), seen.names, seen.target, drawn.taken, n_rows - drawn.n_taken)
    told = (
        f"A sample of {len(data.y):,} of {n_rows:,} rows, each class as frequent as in all, for "
        f"methods that need their rows in memory; the method landmarks is trained on all of them."
    )
    say(
        f"{len(data.y):,} of {n_rows:,} rows are a sample for exact methods; the method "
        f"landmarks uses all rows."
    )
    places = "".join(part.cut.place for part in parts).encode()
    own = hashlib.sha256(content_hash(data.table, data.y).encode() + places).hexdigest()
    split = _split(data.y, choices["folds"], choices["seed"])
    data = replace(data, rest=rest, hash=own, split=split, about=(*data.about, told))
    return Large(data, time.monotonic() - begin)


def _split(y: Array, folds: int, seed: int) -> Array:
    """Return "test" for the rows of one fold, each class by its share, "train" for the others."""
    labels = np.unique(y, return_inverse=True)[1]
    return np.where(study.deal(labels, folds, np.random.RandomState(seed)) == 0, "test", "train")


def method(large: Large, scale: str, seconds: float | None) -> study.Method:
    """Return the machine on as many landmarks as the time allows, and say what it will take."""
    data = large.data
    encoder = datasets.TableEncoder(None if scale == "none" else scale, tails="auto")
    X = encoder.fit(data.table, data.y).transform(data.table)
    labels = np.unique(data.y, return_inverse=True)[1]
    unit, n = _timed(X[:TIMED_ROWS], labels[:TIMED_ROWS]), data.rest.n_rows + len(data.y)
    for m in LANDMARKS:
        needed = large.seconds + unit * m * (n + CHOOSING * min(n, SAMPLE_ROWS))
        if (seconds is None and m <= 1000) or (seconds is not None and needed < SHARE * seconds):
            break
    memory = 8 * m * m * 4 + 2**26 * 4 + 8 * X.size
    say(
        f"landmarks: {m:,} of them on {n:,} rows, about {duration(needed)} and {size(memory)} a "
        f"fit (an estimate; it can be wrong by a factor of two or three)."
    )
    return study.on_landmarks(m, len(np.unique(labels)))


def _timed(X: Array, labels: Array) -> float:
    """Return the seconds of one row and one landmark, all passes of a fit together."""
    code = 2 * np.eye(int(labels.max()) + 1, dtype=np.int8)[labels] - 1
    used = np.unique(labels)
    begin = time.perf_counter()
    Nystrom(TIMED_LANDMARKS, C=10.0, dtype="float32").fit(X, code[:, used], n_jobs=1)
    return (time.perf_counter() - begin) / (len(X) * TIMED_LANDMARKS)
