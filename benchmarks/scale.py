"""Landmark machines on many rows: time, peak memory and error against the number of landmarks.

python benchmarks/scale.py --rows 1000000 --landmarks 2000 --loss least_squares squared_hinge
python benchmarks/scale.py --curve --rows 100000
python benchmarks/scale.py --peer --exact --drawings --rows 60000 --landmarks 5000
"""

from __future__ import annotations

import argparse
import resource
import time

import numpy as np

from outcode import OutputCodeClassifier
from outcode.machines import SVM, Nystrom


def made(n, n_features=50, n_classes=100, seed=0, noise=0.3):
    """Rows of classes of four clusters each in eight dimensions, bent into ``n_features``."""
    fixed = np.random.RandomState(12345)
    centres = fixed.randn(n_classes, 4, 8) * 1.6
    first, second = fixed.randn(8, 64) / 2.0, fixed.randn(64, n_features) / 8.0
    rng = np.random.RandomState(seed)
    labels = rng.randint(n_classes, size=n)
    latent = centres[labels, rng.randint(4, size=n)] + 0.6 * rng.randn(n, 8)
    X = np.empty((n, n_features))
    for i in range(0, n, 50_000):
        cut = slice(i, i + 50_000)
        X[cut] = np.tanh(latent[cut] @ first) @ second
    X += noise * X[: min(n, 10_000)].std() * rng.randn(n, n_features)
    return X, labels


def clock():
    """Return wall-clock and CPU seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def measure(machine, X, labels, test, code):
    """Train, predict, and print one line."""
    started = clock()
    machine.fit(X, code[labels])
    trained = clock() - started
    rows, truth = test
    error = np.mean(np.argmax(machine.margins(rows), axis=1) != truth)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{machine.loss:14s} {len(machine.features_.landmarks):6d} landmarks  error {error:.4f}  "
        f"{trained[0]:7.1f} s  {trained[1]:7.1f} CPU s  {machine.n_iter_:3d} passes  "
        f"unexplained {machine.residual_:.3f}  peak {peak:.2f} GB",
        flush=True,
    )
    return error


def curve(args, X, labels, test, code):
    """Error against the number of landmarks."""
    for m in (125, 250, 500, 1000, 2000):
        for loss in args.loss:
            machine = Nystrom(m, loss=loss, gamma=args.gamma, C=args.C)
            measure(machine, X, labels, test, code)


def peer(args, X, labels, test, code):
    """scikit-learn's Nystroem and LinearSVC on the same landmarks."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.svm import LinearSVC

    ours = Nystrom(args.landmarks, loss="squared_hinge", gamma=args.gamma, C=args.C)
    measure(ours, X, labels, test, code)
    features, gamma = ours.features_, ours.features_.kernel.gamma
    started = clock()
    basis = Nystroem(kernel="rbf", gamma=gamma, n_components=len(features.landmarks))
    basis.fit(features.landmarks.values + features.origin)
    linear = LinearSVC(C=args.C / 2).fit(basis.transform(X), labels)
    trained = clock() - started
    error = np.mean(linear.predict(basis.transform(test[0])) != test[1])
    print(
        f"Nystroem + LinearSVC  error {error:.4f}  {trained[0]:.1f} s  {trained[1]:.1f} CPU s",
        flush=True,
    )


def exact(args, X, labels, test):
    """The support vector machine on all rows, one-vs-one and one-vs-all."""
    for name in ("ovo", "ova"):
        clf = OutputCodeClassifier(name, SVM(gamma=args.gamma, C=args.C), "hinge")
        started = clock()
        clf.fit(X, labels)
        trained = clock() - started
        error = np.mean(clf.predict(test[0]) != test[1])
        print(
            f"svm, {name}  error {error:.4f}  {trained[0]:.1f} s  {trained[1]:.1f} CPU s",
            flush=True,
        )


def clusters(args):
    """Rows of many clusters, and 20,000 to test on."""
    X, labels = made(args.rows, args.features, args.classes, seed=1)
    return X, labels, made(20_000, args.features, args.classes, seed=2)


def drawings(args):
    """Drawings of the benchmark of speed, and 10,000 to test on."""
    from speed import drawn

    (X, labels), test = drawn(args.rows, 10_000)
    return X, labels, test


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--features", type=int, default=50)
    parser.add_argument("--classes", type=int, default=100)
    parser.add_argument("--landmarks", type=int, default=2000)
    parser.add_argument("--loss", nargs="+", default=["least_squares", "squared_hinge"])
    parser.add_argument("--gamma", default="scale", type=lambda g: g if g.isalpha() else float(g))
    parser.add_argument("--C", type=float, default=10.0)
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("--drawings", action="store_true", help="10 classes of 28 x 28 pixels")
    args = parser.parse_args()
    X, labels, test = drawings(args) if args.drawings else clusters(args)
    code = 2 * np.eye(labels.max() + 1, dtype=np.int8) - 1
    if args.curve or args.peer or args.exact:
        if args.curve or args.peer:
            (curve if args.curve else peer)(args, X, labels, test, code)
        if args.exact:
            exact(args, X, labels, test)
        return
    for loss in args.loss:
        measure(
            Nystrom(args.landmarks, loss=loss, gamma=args.gamma, C=args.C), X, labels, test, code
        )


if __name__ == "__main__":
    main()
