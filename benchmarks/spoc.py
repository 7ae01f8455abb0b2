"""SPOC against generic QP solvers (Figure 5 of [CS02]), our one-vs-all bank and kernlab.

    python benchmarks/spoc.py --data FOLDER [--only quadrants|kernlab|letter|...] [--skip-slow]

Every peer is timed in the same process, one after the other; what counts are the ratios. The dense
generic solver is SciPy's SLSQP, given one run of at most a minute and then cut off, the modern one
the interior point method Clarabel. kernlab's
``spoc-svc`` (data, and its duals, pass through files) runs when Rscript and kernlab are installed;
otherwise the report says why it does not. Its gap is measured from our dual objective.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import clarabel
import numpy as np
from columns import split
from scipy import sparse
from sklearn.datasets import load_iris
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.utils import gen_batches

from outcode import OutputCodeClassifier
from outcode.app.papers.cs02 import RUNS, SIZES, by_slsqp, by_spoc, dual, quadrants, timed
from outcode.classifier import SPOC
from outcode.machines import SVM

#: data set, beta, gamma; features are scaled to [0, 1]
SETTINGS = (
    ("satimage", 1.0, 8.0),
    ("pendigits", 1.0, 8.0),
    ("letter", 1.0, 8.0),
    ("letter", 0.1, 16.0),
)
#: kernlab's C is 1 / beta: it minimises 1/2 sum_r |M_r|^2 + C sum_i xi_i, C times our objective,
#: and its ``alpha`` is our ``dual_coef_``. It makes no probabilities here, and no fitted values.
KERNLAB = """
suppressMessages(library(kernlab))
train <- as.matrix(read.csv("train.csv", header=FALSE))
test <- as.matrix(read.csv("test.csv", header=FALSE))
d <- ncol(train) - 1
start <- proc.time()[["elapsed"]]
fit <- ksvm(train[, 1:d], factor(train[, d + 1]), type="spoc-svc", kernel="rbfdot",
            kpar=list(sigma={gamma}), C={C}, tol={tol}, scaled=FALSE, fit=FALSE, cache=1000)
spent <- proc.time()[["elapsed"]] - start
found <- predict(fit, test[, 1:d])
write.table(alpha(fit), "alpha.csv", sep=",", row.names=FALSE, col.names=FALSE)
cat(spent, mean(as.character(found) != as.character(test[, d + 1])), "\\n")
"""


# --- Figure 5 ---


def by_clarabel(X, labels):
    P, q, constant, sums = dual(X, labels)
    m, size = len(X), len(q)
    A = sparse.vstack([sparse.csc_matrix(sums), -sparse.identity(size)], format="csc")
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    cones = [clarabel.ZeroConeT(m), clarabel.NonnegativeConeT(size)]
    limits = np.concatenate([np.ones(m), np.zeros(size)])
    solver = clarabel.DefaultSolver(sparse.csc_matrix(np.triu(P)), q, A, limits, cones, settings)
    return -(solver.solve().obj_val + constant)


def figure_5(skip_slow):
    print("\n### Four quadrants, linear kernel, beta = 1: mean of 3 problems, SLSQP on the first\n")
    print("| m | SPOC ms | Clarabel ms | x | SLSQP ms | x | objective: SPOC | Clarabel |")
    print("|---|---|---|---|---|---|---|---|")
    for _ in range(5):
        by_spoc(*quadrants(20, 0))  # compile before the clock
    for m in SIZES:
        problems = [quadrants(m, seed) for seed in range(RUNS)]
        ours = [min(timed(lambda p=p: by_spoc(*p)) for _ in range(3)) for p in problems]
        theirs = [timed(lambda p=p: by_clarabel(*p)) for p in problems]
        (spoc, value), (peer, same) = np.mean(ours, axis=0), np.mean(theirs, axis=0)
        slow = "skipped | "
        if not skip_slow:
            dense, found = timed(lambda p=problems[0]: by_slsqp(*p))
            cut = ">= " if np.isnan(found) else ""
            slow = f"{cut}{1e3 * dense:.0f} | {cut}{dense / spoc:.0f}"
        print(f"| {m} | {1e3 * spoc:.2f} | {1e3 * peer:.1f} | {peer / spoc:.1f} | {slow} | "
              f"{value:.3f} | {same:.3f} |", flush=True)  # fmt: skip


# --- data sets ---


def compare(name, beta, gamma, folder):
    train, test = split(name, folder)
    print(f"\n### {name}: {len(train[0]):,} rows, beta = {beta:g}, gamma = {gamma:g}\n")
    print("| machine | fit s | objective | gap | error % |")
    print("|---|---|---|---|---|")
    machine = SPOC(gamma=gamma, beta=beta, folds=None, n_jobs=2)
    spent = report("SPOC", machine, train, test)
    alone = SPOC(gamma=gamma, beta=beta, folds=None, n_jobs=1)
    single = report("SPOC, one thread", alone, train, test)
    report("SPOC with probabilities", SPOC(gamma=gamma, beta=beta, n_jobs=2), train, test)
    bank = OutputCodeClassifier("ova", SVM(C=1 / beta, gamma=gamma), n_jobs=2)
    ours = report(f"one-vs-all, C = {1 / beta:g}", bank, train, test)
    try:
        theirs, error, duals = kernlab(train, test, beta, gamma)
        value = objective(*train, duals, beta, gamma)
        gap = (value - machine.dual_objective_) / value
        print(f"| kernlab spoc-svc | {theirs:.2f} | {value:.2f} | {gap:.1e} | {100 * error:.2f} |")
        print(f"\nkernlab over SPOC, one thread each: {theirs / single:.1f}")
    except SkippedError as reason:
        print(f"| kernlab spoc-svc | skipped: {reason} | | | |\n")
    print(f"SPOC over one-vs-all: {spent / ours:.2f}", flush=True)


def agree():
    """Print how far kernlab's machine is from ours when both are solved tightly: C is 1 / beta."""
    X, y = load_iris(return_X_y=True)
    print("\n### kernlab's C is 1 / beta: iris, gamma = 0.5, both with tol = 1e-8\n")
    print("| beta | C | objective: SPOC | kernlab | largest difference of scores |")
    print("|---|---|---|---|---|")
    for beta in (0.05, 0.1, 0.5, 2.0, 4.0):
        clf = SPOC(gamma=0.5, beta=beta, tol=1e-8, folds=None).fit(X, y)
        try:
            duals = kernlab((X, y), (X, y), beta, 0.5, tol=1e-8)[2]
        except SkippedError as reason:
            print(f"| {beta:g} | skipped: {reason} | | | |")
            return
        value = objective(X, y, duals, beta, 0.5)
        apart = np.abs(rbf_kernel(X, gamma=0.5) @ duals - clf.decision_function(X)).max()
        print(f"| {beta:g} | {1 / beta:g} | {clf.objective_:.6f} | {value:.6f} | {apart:.1e} |")


def report(label, clf, train, test):
    """Fit twice, print a row, and return the seconds of the faster fit."""
    spent = min(timed(lambda: clf.fit(*train))[0] for _ in range(2))
    error = 100 * np.mean(clf.predict(test[0]) != test[1])
    fitted = getattr(clf, "machine_", clf)
    gap = np.max(fitted.gap_)
    value = f"{fitted.objective_:.2f}" if np.ndim(fitted.objective_) == 0 else ""
    print(f"| {label} | {spent:.2f} | {value} | {gap:.1e} | {error:.2f} |", flush=True)
    return spent


class SkippedError(Exception):
    """A peer cannot run, and why."""


def kernlab(train, test, beta, gamma, tol=1e-3):
    """Return seconds, test error and (n_samples, n_classes) duals of kernlab's ``spoc-svc``."""
    if shutil.which("Rscript") is None:
        raise SkippedError("Rscript is not installed")
    with tempfile.TemporaryDirectory() as folder:
        for name, (X, y) in (("train", train), ("test", test)):
            rows = np.column_stack([X, np.searchsorted(np.unique(train[1]), y)])
            np.savetxt(Path(folder) / f"{name}.csv", rows, delimiter=",", fmt="%.17g")
        command = ["Rscript", "-e", KERNLAB.format(gamma=gamma, C=1 / beta, tol=tol)]
        run = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
        if run.returncode:
            raise SkippedError(" ".join(run.stderr.split()) or "Rscript failed")
        duals = np.loadtxt(Path(folder) / "alpha.csv", delimiter=",")
    spent, error = map(float, run.stdout.split()[-2:])
    return spent, error, duals


def objective(X, y, duals, beta, gamma):
    """Return beta/2 sum_r |M_r|^2 + sum_i xi_i of M_r = sum_i duals_ir x_i (Eq. 31)."""
    blocks = gen_batches(len(X), 1000)
    scores = np.vstack([rbf_kernel(X[rows], X, gamma=gamma) @ duals for rows in blocks])
    own = np.unique(y) == y[:, None]
    slack = (scores + ~own).max(axis=1) - scores[own]
    return 0.5 * beta * np.sum(duals * scores) + slack.sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"))
    parser.add_argument("--only", help="quadrants, kernlab, or one data set")
    parser.add_argument("--skip-slow", action="store_true", help="leave out SLSQP")
    options = parser.parse_args()
    if options.only in (None, "quadrants"):
        figure_5(options.skip_slow)
    if options.only in (None, "kernlab"):
        agree()
    toy = np.random.RandomState(0).randn(60, 3), np.arange(60) % 3
    for dtype in ("float32", "float64"):  # compile before the clock
        SPOC(dtype=dtype).fit(*toy)
        OutputCodeClassifier("ova", SVM(dtype=dtype), n_jobs=2).fit(*toy)
    for name, beta, gamma in SETTINGS:
        if options.only in (None, name):
            compare(name, beta, gamma, options.data)


if __name__ == "__main__":
    main()
