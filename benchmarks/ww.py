"""Weston & Watkins' machine beside one-vs-all and SPOC: test error, CPU seconds, gap.

    python benchmarks/ww.py --data FOLDER letter satimage vowel

Gaussian kernel, features scaled to [0, 1], at most 5,000 training and 4,000 test rows, one thread.
Each machine is fitted twice and the second time is kept: the first compiles.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np

from outcode import OutputCodeClassifier, datasets
from outcode.machines import SVM, CrammerSinger, WestonWatkins


def rows(name: str, folder: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    data = datasets.load(name, folder)
    X, y = np.asarray(data.X, dtype=float), np.asarray(data.y)
    X = (X - X.min(axis=0)) / np.maximum(np.ptp(X, axis=0), 1e-12)
    order = np.random.RandomState(0).permutation(len(y))
    train = order[: min(5000, 2 * len(y) // 3)]
    test = order[len(train) : len(train) + 4000]
    return X[train], y[train], X[test], y[test]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"))
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("names", nargs="*", default=["letter", "satimage", "vowel"])
    args = parser.parse_args()
    for name in args.names:
        X, y, Z, truth = rows(name, args.data)
        gamma = 4.0 / (X.shape[1] * X.var())
        machines = {
            "one-vs-all": SVM(gamma=gamma, C=args.C),
            "ww": WestonWatkins(gamma=gamma, C=args.C),
            "spoc": CrammerSinger(gamma=gamma, beta=1.0 / args.C),
        }
        for label, machine in machines.items():
            for _ in range(2):
                start = time.process_time()
                clf = OutputCodeClassifier("ova", machine, "linear", n_jobs=1).fit(X, y)
                used = time.process_time() - start
            error, gap = 100 * np.mean(clf.predict(Z) != truth), np.max(clf.machine_.gap_)
            print(
                f"{name} {label}: error {error:.2f} %, {used:.2f} CPU s, gap {gap:.1e}", flush=True
            )


if __name__ == "__main__":
    main()
