"""Fit, predict and single-row times of output codes against scikit-learn's, in one run.

    python benchmarks/columns.py --data FOLDER [--only letter] [--skip-slow]

Every peer is timed in the same process run after the other; what counts are the ratios. Peers that
train in worker processes (n_jobs=2) pay for starting them once, before the clock starts.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from dataclasses import dataclass

import joblib
import numpy as np
from sklearn.multiclass import OneVsRestClassifier
from sklearn.multiclass import OutputCodeClassifier as SklearnOutputCode
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, codes, datasets
from outcode.machines import SVM


@dataclass(frozen=True)
class Row:
    name: str
    fit: float
    predict: float
    single: float
    error: float


def measure(name, clf, train, test, repeat=1):
    """Best of ``repeat`` fits and predictions, the median of 20 single rows, the test error."""
    fits, predicts = [], []
    for _ in range(repeat):
        start = time.perf_counter()
        clf.fit(*train)
        fits.append(time.perf_counter() - start)
        start = time.perf_counter()
        predicted = clf.predict(test[0])
        predicts.append(time.perf_counter() - start)
    singles = []
    for i in range(20):
        start = time.perf_counter()
        clf.predict(test[0][i : i + 1])
        singles.append(time.perf_counter() - start)
    error = float(np.mean(predicted != test[1]))
    return Row(name, min(fits), min(predicts), float(np.median(singles)), error)


def split(name, folder):
    """Letter: first 15,000 rows train; otherwise the data set's own split. Features to [0, 1]."""
    data = datasets.load(name, folder)
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    X = (data.X - low) / np.where(high > low, high - low, 1.0)
    train = np.arange(len(X)) < 15_000 if name == "letter" else data.split == "train"
    return (X[train], data.y[train]), (X[~train], data.y[~train])


def compare(name, C, gamma, folder, skip_slow):
    train, test = split(name, folder)
    k = len(np.unique(train[1]))
    svc = SVC(C=C, gamma=gamma, cache_size=2000)
    machine = SVM(C=C, gamma=gamma)
    dense = codes.DenseRandom(n_columns=3 * k) if k > 5 else "dense"
    pairs = [
        ("one-vs-all", "ova", OneVsRestClassifier(svc, n_jobs=2)),
        ("one-vs-one", "ovo", svc),
        ("dense, 3k columns", dense, SklearnOutputCode(svc, code_size=3, n_jobs=2, random_state=0)),
    ]
    print(f"\n### {name}: {len(train[0]):,} rows, {k} classes, C = {C:g}, gamma = {gamma:g}\n")
    print("| code | peer | fit s | peer | x | predict s | peer | x | one row ms | peer | x "
          "| error % | peer |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for label, code, peer in pairs:
        decoder = "hamming" if code == "ovo" else "hinge"
        clf = OutputCodeClassifier(code, machine, decoder, n_jobs=2, random_state=0)
        ours = measure(label, clf, train, test, repeat=3)
        if skip_slow and label.startswith("dense"):
            print(f"| {label} | skipped | {ours.fit:.2f} | | | {ours.predict:.3f} | | | "
                  f"{1e3 * ours.single:.2f} | | | {100 * ours.error:.2f} | |")  # fmt: skip
            continue
        theirs = measure(type(peer).__name__, peer, train, test)
        cells = [
            f"{a:.3g} | {b:.3g} | {b / a:.1f}"
            for a, b in [
                (ours.fit, theirs.fit),
                (ours.predict, theirs.predict),
                (1e3 * ours.single, 1e3 * theirs.single),
            ]
        ]
        errors = f"{100 * ours.error:.2f} | {100 * theirs.error:.2f}"
        print(f"| {label} | {theirs.name} | {' | '.join(cells)} | {errors} |", flush=True)


def peak_memory(folder):
    """Peak memory of one one-vs-all fit on letter over the size of its Gram matrix."""
    train, _ = split("letter", folder)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    OutputCodeClassifier("ova", SVM(C=10, gamma=16), n_jobs=2).fit(*train)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    gram = len(train[0]) ** 2 * 4
    print(f"\npeak memory of a one-vs-all fit on letter: {(after - before) / gram:.2f} x the Gram")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"))
    parser.add_argument("--only", help="one data set")
    parser.add_argument("--skip-slow", action="store_true", help="leave out the dense peer")
    options = parser.parse_args()
    toy = np.random.RandomState(0).randn(60, 3), np.arange(60) % 3
    OutputCodeClassifier("ovo", n_jobs=2).fit(*toy).predict(toy[0])  # compile before the clock
    OutputCodeClassifier("ova", SVM(dtype="float32"), n_jobs=2).fit(*toy)
    joblib.Parallel(n_jobs=2)(joblib.delayed(abs)(i) for i in range(4))
    settings = [("letter", 1, 8), ("letter", 10, 16), ("pendigits", 1, 8), ("satimage", 1, 8)]
    if options.only in (None, "letter"):
        peak_memory(options.data)
    for name, C, gamma in settings:
        if options.only in (None, name):
            compare(name, C, gamma, options.data, options.skip_slow)


if __name__ == "__main__":
    main()
