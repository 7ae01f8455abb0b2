"""Coverage of prediction sets, cost of decisions and error of answered rows, on real data.

    python benchmarks/decisions.py --data FOLDER yeast satimage pendigits

One-vs-one with the likelihood decoder is trained on a third of the rows (at most 1,500). The other
rows are split at random 1,000 times into calibration and test rows, half each.
"""

from __future__ import annotations

import argparse
import os

import numpy as np

from outcode import OutputCodeClassifier, conformal, datasets, decisions
from outcode.conformal import METHODS
from outcode.machines import SVM

SPLITS, COVERAGE, ERROR = 1000, 0.9, 0.05


def pool(name: str, folder: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return probabilities and classes of the rows not trained on."""
    data = datasets.load(name, data_dir=folder)
    encoder = datasets.TableEncoder()
    order = np.random.default_rng(0).permutation(len(data.y))
    train, rest = order[: min(1500, len(order) // 3)], order[len(order) // 3 :]
    X, y = np.asarray(encoder.fit_transform(data.table)), np.asarray(data.y)
    clf = OutputCodeClassifier("ovo", SVM(C=10), "likelihood").fit(X[train], y[train])
    rest = rest[np.isin(y[rest], clf.classes_)][:6000]
    return clf.predict_proba(X[rest]), np.searchsorted(clf.classes_, y[rest]), clf.classes_


def halves(n: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(seed).permutation(n)
    return order[: n // 2], order[n // 2 :]


def covered(proba: np.ndarray, labels: np.ndarray, method: str, per_class: bool) -> str:
    """Return mean coverage and size over the splits, and the coverage of the worst class."""
    strange, k = METHODS[method][0](proba), proba.shape[1]
    own = strange[np.arange(len(labels)), labels]
    found, sizes = np.zeros((SPLITS, k)), np.zeros(SPLITS)
    count = np.zeros((SPLITS, k))
    for seed in range(SPLITS):
        cal, test = halves(len(labels), seed)
        q = thresholds(own[cal], labels[cal], k, per_class)
        held = own[test] <= q[labels[test]]
        found[seed] = np.bincount(labels[test], weights=held, minlength=k)
        count[seed] = np.bincount(labels[test], minlength=k)
        sizes[seed] = (strange[test] <= q).sum(axis=1).mean()
    total, each = found.sum() / count.sum(), found.sum(axis=0) / np.maximum(1, count.sum(axis=0))
    return f"{100 * total:.1f} / {100 * each.min():.1f} / {sizes.mean():.2f}"


def thresholds(own: np.ndarray, labels: np.ndarray, k: int, per_class: bool) -> np.ndarray:
    if not per_class:
        return np.full(k, conformal.quantile(own, COVERAGE))
    return np.array([conformal.quantile(own[labels == q], COVERAGE) for q in range(k)])


def costs(proba: np.ndarray, labels: np.ndarray) -> str:
    """Return the mean cost of the largest probability and of the least expected cost.

    Costs are drawn at random: 1 to 20 for every kind of error, the same for both decisions.
    """
    k, rows = proba.shape[1], np.arange(len(labels))
    paid = []
    for seed in range(20):
        cost = np.random.default_rng(seed).uniform(1, 20, (k, k)) * (1 - np.eye(k))
        best = decisions.expected_costs(proba, cost).argmin(axis=1)
        said = proba.argmax(axis=1)
        paid.append([cost[labels, said][rows].mean(), cost[labels, best].mean()])
    usual, least = np.mean(paid, axis=0)
    return f"{usual:.3f} / {least:.3f}"


def answered(proba: np.ndarray, labels: np.ndarray) -> str:
    """Return share answered, its error, and how often it is above the one chosen, over splits."""
    said, sure = decisions.decided(proba)
    wrong, rows = said != labels, []
    for seed in range(SPLITS):
        cal, test = halves(len(labels), seed)
        T = decisions.fit_threshold(sure[cal], wrong[cal], ERROR, 0.9)[0]
        above = sure[test] > T
        error = wrong[test][above].mean() if above.any() else 0.0
        rows.append([above.mean(), error, error > ERROR])
    share, error, failed = np.mean(rows, axis=0)
    return f"{100 * share:.1f} / {100 * error:.1f} / {100 * failed:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"))
    parser.add_argument("names", nargs="*", default=["yeast", "satimage", "pendigits"])
    args = parser.parse_args()
    for name in args.names:
        proba, labels, _ = pool(name, args.data)
        error = 100 * (proba.argmax(axis=1) != labels).mean()
        print(f"{name}: {len(labels)} rows not trained on, error {error:.1f}")
        for method in METHODS:
            whole, each = (covered(proba, labels, method, own) for own in (False, True))
            print(f"  {method}: {whole}; per class {each}", flush=True)
        print(f"  cost: {costs(proba, labels)}; abstaining: {answered(proba, labels)}", flush=True)


if __name__ == "__main__":
    main()
