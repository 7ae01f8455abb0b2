"""Estimators in threads and processes: the same bits, no growth of memory."""

from __future__ import annotations

import gc
import hashlib
import multiprocessing
import subprocess
import sys
import tempfile
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import psutil
from sklearn.base import clone
from threadpoolctl import threadpool_limits

from outcode import OutputCodeClassifier, OutputCodeClassifierCV
from outcode.codes import CODES
from outcode.decoders import DECODERS
from outcode.machines import MACHINES

FREE = [name for name in CODES if name not in ("bch", "exhaustive")]


def data(number: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a small problem of three to six classes."""
    rng = np.random.default_rng(number)
    k = int(rng.integers(3, 7))
    y = np.arange(int(rng.integers(8 * k, 120))) % k
    return rng.normal(size=(len(y), 4)) + 1.5 * rng.normal(size=(k, 4))[y], y


def drawn(number: int) -> OutputCodeClassifier:
    """Return a classifier made of a code, a machine and a decoder drawn at random."""
    rng = np.random.default_rng([number, 1])
    code, machine, decoder = (str(rng.choice(list(names))) for names in (FREE, MACHINES, DECODERS))
    return OutputCodeClassifier(code, machine, decoder, random_state=number)


def seal(clf, X) -> str:
    """Return a hash of the bits of what a classifier says."""
    said = [np.ascontiguousarray(clf.decision_function(X)), clf.predict(X)]
    if hasattr(clf, "predict_proba"):
        said.append(np.ascontiguousarray(clf.predict_proba(X)))
    return hashlib.sha256(b"".join(part.tobytes() for part in said)).hexdigest()


def fitted_seal(clf, X, y) -> str:
    """Fit, and return the hash, or the reason why not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return seal(clf.fit(X, y), X)
        except ValueError as refused:
            return f"refused: {refused}"


def same_bits(number: int, _: Path) -> list[str]:
    """Fit with one and two threads, other BLAS threads, and in eight threads at once."""
    (X, y), clf = data(number), drawn(number)
    first = fitted_seal(clf, X, y)
    faults = []
    if fitted_seal(clone(clf).set_params(n_jobs=2), X, y) != first:
        faults.append(f"{clf!r}: other bits with two threads")
    with threadpool_limits(1):
        if fitted_seal(clone(clf), X, y) != first:
            faults.append(f"{clf!r}: other bits with one BLAS thread")
    if number % 20 == 0:
        with ThreadPoolExecutor(8) as pool:
            seals = set(pool.map(lambda _: fitted_seal(clone(clf), X, y), range(8)))
        faults += [] if seals == {first} else [f"{clf!r}: other bits in eight threads"]
    return faults


def alone_and_together(number: int, _: Path) -> list[str]:
    """Predict each row alone and in a batch: the same class."""
    (X, y), clf = data(number), drawn(number)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            clf.fit(X, y)
        except ValueError:
            return []
        together = clf.predict(X)
        alone = np.concatenate([clf.predict(row[None]) for row in X[:20]])
    wrong = int(np.sum(alone != together[:20]))
    return [f"{clf!r}: {wrong} of 20 rows have another class alone"] if wrong else []


def in_another_process(how: str, number: int, _: Path) -> list[str]:
    """Fit in a process that was forked or spawned: the same bits."""
    (X, y), clf = data(number), OutputCodeClassifier("ovo", "svm", "likelihood", random_state=0)
    here = fitted_seal(clf, X, y)
    with multiprocessing.get_context(how).Pool(1) as pool:
        there = pool.apply_async(fitted_seal, (clone(clf), X, y)).get(timeout=60)
    return [] if here == there else [f"other bits after {how}"]


def no_growth(number: int, _: Path) -> list[str]:
    """Fit a thousand times: the memory in use stays where it is."""
    (X, y), clf = data(number), OutputCodeClassifier(decoder="likelihood", n_jobs=2)
    process, used = psutil.Process(), []
    for i in range(1000):
        clone(clf).fit(X, y).predict(X)
        if i in (199, 999):
            gc.collect()
            used.append(process.memory_info().rss)
    grown = (used[1] - used[0]) / 2**20
    return [f"{grown:.0f} MB more after 800 fits"] if grown > 20 else []


def without_a_network(_number: int, _: Path) -> list[str]:
    """Import, fit, predict and save where no socket can be opened."""
    code = """
import socket
def forbidden(*_args, **_kwargs):
    raise RuntimeError("a socket was opened")
socket.socket.connect = forbidden
socket.create_connection = forbidden
socket.getaddrinfo = forbidden
from sklearn.datasets import load_iris
import outcode
X, y = load_iris(return_X_y=True)
outcode.save(outcode.OutputCodeClassifierCV(random_state=0).fit(X, y), "m.oc")
outcode.load("m.oc").predict_proba(X)
"""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False
        )
    return [] if done.returncode == 0 else [done.stderr[-200:]]


def tuned_bits(number: int, _: Path) -> list[str]:
    """Tune with one and two threads: the same bits."""
    X, y = data(number)
    seals = {
        fitted_seal(OutputCodeClassifierCV(random_state=number, n_jobs=jobs), X, y)
        for jobs in (1, 2)
    }
    return [] if len(seals) == 1 else ["other bits with two threads"]


def parts() -> dict:
    """Return the name of each part and its case, how many in a whole run, and how many a record."""
    return {
        "same bits": (same_bits, 3000, 10),
        "same bits, tuned": (tuned_bits, 100, 1),
        "alone and in a batch": (alone_and_together, 3000, 10),
        "after fork": (partial(in_another_process, "fork"), 10, 1),
        "after spawn": (partial(in_another_process, "spawn"), 10, 1),
        "a thousand fits": (no_growth, 1, 1),
        "no network": (without_a_network, 1, 1),
    }
