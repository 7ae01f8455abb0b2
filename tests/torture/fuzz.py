"""Damaged files of every format, and model files that are damaged or forged."""

from __future__ import annotations

import random
import resource
import signal
import tempfile
import warnings
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path

import numpy as np

import test_persistence
import test_readers
from outcode import datasets
from test_files import FORMATS, frame

#: No file of a few kilobytes may take more seconds of a processor, or more memory; nor wait longer.
SECONDS, MEGABYTES, WAIT = 5, 512, 120
#: Seconds of this process, which do not pass while others have the processor, and of the wall.
CLOCKS = (
    (signal.ITIMER_PROF, signal.SIGPROF, SECONDS),
    (signal.ITIMER_REAL, signal.SIGALRM, WAIT),
)
DELIMITED = ("csv", "tsv", "arff", "libsvm")
OTHERS = ("json", "jsonl", "parquet", "feather", "csv.gz", "csv.bz2", "csv.xz", "csv.zst", "zip")
WORKBOOKS = ("xlsx", "xls")


class Hang(Exception):  # noqa: N818  # raised by the alarm, and no error of ours
    """A file took too long."""


@contextmanager
def watched(faults: list[str]):
    """Note what takes too long or too much memory, and every error that is not ours."""

    def ring(*_):
        raise Hang

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for clock, alarm, seconds in CLOCKS:
        signal.signal(alarm, ring)
        signal.setitimer(clock, seconds)
    try:
        yield
    except datasets.DataError:
        pass
    except Hang:
        faults.append(f"longer than {SECONDS} s")
    except Exception as error:
        faults.append(f"{type(error).__name__}: {error}"[:200])
    finally:
        for clock, _, _ in CLOCKS:
            signal.setitimer(clock, 0)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    if grown > MEGABYTES:
        faults.append(f"{grown:.0f} MB")


@cache
def sound(suffix: str) -> bytes:
    """Return a file of the format that is read."""
    if f"f.{suffix}" in test_readers.SEEDS:
        return test_readers.SEEDS[f"f.{suffix}"]
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / f"d.{suffix}"
        FORMATS[f"d.{suffix}"](frame(12), out)
        return out.read_bytes()


def damaged_file(suffix: str, number: int, folder: Path) -> list[str]:
    """Read a damaged file: data or our own error, in time and within memory."""
    rng = np.random.default_rng([number, len(suffix)])
    path, faults = folder / f"f.{suffix}", []
    path.write_bytes(test_readers.mutated(sound(suffix), rng))
    with warnings.catch_warnings(), watched(faults):
        warnings.simplefilter("ignore")
        datasets.read(path)
    return faults


@cache
def models() -> list[tuple[bytes, np.ndarray]]:
    """Return model files of several kinds with the scores of some rows."""
    with tempfile.TemporaryDirectory() as folder:
        made = test_persistence.make_small_files(Path(folder))
        return [(path.read_bytes(), scores) for path, scores in made]


def model_file(forge: bool, number: int, folder: Path) -> list[str]:
    """Load a model file that was damaged, or changed with the right checksum: refused or usable."""
    rng = random.Random(number)
    raw, scores = models()[number % len(models())]
    path, faults = folder / "model.oc", []
    path.write_bytes(raw)
    change = test_persistence.forged if forge else test_persistence.blindly_changed
    path.write_bytes(change(path if forge else raw, rng))
    with watched(faults):
        seen = test_persistence.outcome(path, scores)
        if not forge and seen == "other":
            faults.append("a damaged file was read as another model")
    return faults


def parts() -> dict:
    """Return the name of each part and its case, how many in a whole run, and how many a record."""
    found = {f"damaged {s}": (partial(damaged_file, s), 10**6, 500) for s in DELIMITED + OTHERS}
    found |= {f"damaged {s}": (partial(damaged_file, s), 10**4, 10) for s in WORKBOOKS}
    found["damaged models"] = partial(model_file, False), 10**6, 500
    found["forged models"] = partial(model_file, True), 10**6, 200
    return found
