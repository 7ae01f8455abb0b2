"""The single binary problem against LIBSVM on the explicit kernel of all copies, in one run.

    python benchmarks/sbc.py --data FOLDER [--rows 500 1000 2000] [--classes 3 5 10] [--whole]
    python benchmarks/sbc.py --data FOLDER --weights

Every fit runs in a process of its own, so that its peak memory is its own; compiling is done before
the clock starts. The first fit of a process finds its memory untouched, the next two do not: both
are shown, and the processor time of the best one. The explicit form pays for building its kernel,
as its user does. Pendigits, the first classes by label, features standardised, gamma = 1 / d for
rows and classes, C = 10, tol = 1e-3 for both. ``--whole`` adds all 7,494 training rows, which the
explicit form cannot hold. ``--weights`` compares the ways to choose the kernel weights instead:
objective, updates, seconds.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from outcode import datasets
from outcode.classifier import SingleBinaryClassifier

C = 10.0


def rows(folder, m, n_classes):
    """m training rows of the first classes (all for m = 0) and the test rows, standardised."""
    data = datasets.load("pendigits", folder)
    labels = np.unique(data.y, return_inverse=True)[1]
    train = np.flatnonzero((data.split == "train") & (labels < n_classes))
    test = (data.split == "test") & (labels < n_classes)
    if m:
        train = np.random.RandomState(0).permutation(train)[:m]
    mean, scale = data.X[train].mean(axis=0), data.X[train].std(axis=0)
    X = (data.X - mean) / np.where(scale > 0, scale, 1.0)
    return (X[train], labels[train]), (X[test], labels[test])


def fit_ours(X, y, options):
    clf = SingleBinaryClassifier(gamma=1 / X.shape[1], C=C, **options).fit(X, y)
    return clf.dual_coef_, clf.class_kernel_, clf.bias_, clf.gap_


def fit_explicit(X, y, options):
    gamma, n_classes = 1 / X.shape[1], y.max() + 1
    K_M = np.exp(-gamma * 2 * (1 - np.eye(n_classes)))
    targets = np.where(np.arange(n_classes) == y[:, None], 1, -1)
    K = np.kron(rbf_kernel(X, gamma=gamma), K_M)
    svc = SVC(kernel="precomputed", C=C, tol=1e-3, cache_size=2000).fit(K, targets.ravel())
    duals = np.zeros(targets.size)
    duals[svc.support_] = svc.dual_coef_.ravel()
    return duals.reshape(targets.shape), K_M, svc.intercept_[0], np.nan


def memory(what):
    """MiB of this process: VmRSS now, VmHWM at its peak (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(what + ":")[1].split()[0]) / 1024


def child(job):
    """Fit three times: seconds, peak memory beyond the data's, dual objective, test error."""
    fit = fit_ours if job["form"] == "ours" else fit_explicit
    toy = np.random.RandomState(0).randn(60, 3), np.arange(60) % 3
    fit(*toy, {"extension": "identity"})
    train, test = rows(job["data"], job["m"], job["n_classes"])
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    times, spent = [], []
    for repeat in range(3):
        start, cpu = time.perf_counter(), time.process_time()
        duals, K_M, bias, gap = fit(*train, job["options"])
        times.append(time.perf_counter() - start)
        spent.append(time.process_time() - cpu)
        if repeat == 0:
            peak = memory("VmHWM") - before
    gamma = 1 / train[0].shape[1]
    f = rbf_kernel(train[0], gamma=gamma) @ duals @ K_M
    scores = rbf_kernel(test[0], train[0], gamma=gamma) @ duals @ K_M + bias
    found = {
        "first": times[0],
        "best": min(times),
        "cpu": min(spent),
        "peak": peak,
        "dual": float(np.abs(duals).sum() - 0.5 * (duals * f).sum()),
        "error": 100 * float(np.mean(scores.argmax(axis=1) != test[1])),
        "gap": float(gap) if np.isfinite(gap) else None,
        "m": len(train[0]),
    }
    print(json.dumps(found))


def run(folder, form, m, n_classes, options):
    job = {"form": form, "m": m, "n_classes": n_classes, "options": options, "data": folder}
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(folder, sizes, class_counts):
    pairs = ("first fit s", "best of 3 s", "CPU s", "peak MiB")
    heads = [f"{what} | explicit | x" for what in pairs]
    heads += [f"{what} | explicit" for what in ("dual objective", "test error %")]
    print(f"| m | c | {' | '.join(heads)} |")
    print("|" + "---|" * 18)
    for n_classes in class_counts:
        for m in sizes:
            ours = run(folder, "ours", m, n_classes, {"extension": "identity"})
            theirs = run(folder, "explicit", m, n_classes, {})
            cells = [
                f"{ours[key]:{ours_as}} | {theirs[key]:{theirs_as}} | {theirs[key] / ours[key]:.1f}"
                for key, ours_as, theirs_as in (
                    ("first", ".3f", ".2f"),
                    ("best", ".3f", ".2f"),
                    ("cpu", ".3f", ".2f"),
                    ("peak", ".0f", ".0f"),
                )
            ]
            print(f"| {m} | {n_classes} | {' | '.join(cells)} | "
                  f"{ours['dual']:.3f} | {theirs['dual']:.3f} | "
                  f"{ours['error']:.2f} | {theirs['error']:.2f} |", flush=True)  # fmt: skip


def whole(folder):
    print("\n| all training rows, 10 classes | first fit s | CPU s | peak MiB | relative gap | "
          "test error % |")  # fmt: skip
    print("|" + "---|" * 6)
    variants = [
        {"extension": "identity"},
        {"weights": "prior"},
        {"update": "alternating", "kernel_tol": 1e-2},
    ]
    for options in variants:
        fit = run(folder, "ours", 0, 10, options)
        name = ", ".join(f"{key}={value!r}" for key, value in options.items())
        print(f"| {name} | {fit['first']:.2f} | {fit['cpu']:.2f} | {fit['peak']:.0f} | "
              f"{fit['gap']:.1e} | {fit['error']:.2f} |", flush=True)  # fmt: skip
    m = fit["m"]
    print(f"\nThe explicit kernel of {m:,} rows would take {8 * (10 * m) ** 2 / 2**30:.0f} GiB.")


def weights(folder):
    """g_d (Eq. 2) over its lowest, updates, seconds and test error, one stratified split each."""
    ways = {
        "paper": {},
        "alternating": {"update": "alternating"},
        "prior": {"weights": "prior"},
        "identity": {"extension": "identity"},
    }
    print("| set | m | c | " + " | ".join(ways) + " |")
    print("|" + "---|" * (3 + len(ways)))
    for name in ("iris", "wine", "tae", "balance", "new-thyroid", "vehicle", "glass"):
        data = datasets.load(name, folder)
        X, Z, y, z = train_test_split(
            data.X, data.y, test_size=1 / 3, stratify=data.y, random_state=0
        )
        scaler = StandardScaler().fit(X)
        fitted = {}
        for way, options in ways.items():
            start = time.perf_counter()
            clf = SingleBinaryClassifier(C=C, tol=1e-4, **options)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", ConvergenceWarning)
                clf.fit(scaler.transform(X), y)
            seconds = time.perf_counter() - start
            error = 100 * np.mean(clf.predict(scaler.transform(Z)) != z)
            fitted[way] = clf.objective_path_[-1], clf.n_updates_, bool(said), seconds, error
        lowest = fitted["alternating"][0]
        cells = [
            ("" if way == "identity" else f"+{100 * (g / lowest - 1):.1f} % / {updates}"
             f"{'*' if early else ''} / ") + f"{seconds:.2f} s / {error:.1f} %"
            for way, (g, updates, early, seconds, error) in fitted.items()
        ]  # fmt: skip
        print(f"| {name} | {len(y)} | {len(clf.classes_)} | {' | '.join(cells)} |", flush=True)
    print("\n* stopped early, going round in circles: the best weights met")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"))
    parser.add_argument("--rows", type=int, nargs="+", default=[500, 1000, 2000])
    parser.add_argument("--classes", type=int, nargs="+", default=[3, 5, 10])
    parser.add_argument("--whole", action="store_true", help="add all training rows")
    parser.add_argument("--weights", action="store_true", help="compare kernel weights instead")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        child(json.loads(options.job))
        return
    if options.weights:
        weights(options.data)
        return
    compare(options.data, options.rows, options.classes)
    if options.whole:
        whole(options.data)


if __name__ == "__main__":
    main()
