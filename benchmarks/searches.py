"""Searches over gamma and C on small tables against GridSearchCV of scikit-learn's SVC.

    OMP_NUM_THREADS=1 python benchmarks/searches.py --data FOLDER [--cv 5 3] [--only NAME ...]

Eleven widths around 1 / the median squared distance times five values of C, the same folds on both
sides, in CPU seconds of one process. Half of the rows are held out for the errors. Each line of the
table is the sum over all tables; with --tables one line for each. SPOC is run on --spoc tables, by
the first number of folds. Then a first fit is timed in processes of their own: after installation,
when everything is compiled, and from the cache.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, datasets
from outcode.machines import SVM
from outcode.selection import KernelSearchCV, median_gamma

TABLES = ["iris", "wine", "glass", "ecoli", "zoo", "new-thyroid", "tae", "dermatology"]
SPOC = ["car", "cmc", "segment"]
FACTORS = 2.0 ** np.arange(-5, 6)
COSTS = 10.0 ** np.arange(-1, 4)

START = """
import numpy as np
from outcode import SPOC, OutputCodeClassifier
from outcode.machines import SVM
from sklearn.svm import SVC
def rows(n):
    y = np.arange(n) % 3
    return np.random.RandomState(0).randn(n, 5) + y[:, None], y
"""
FIRST = {
    "import alone, 60 rows": "rows(60)",
    "SVC, 60 rows": "SVC().fit(*rows(60))",
    "float64, 60 rows": "OutputCodeClassifier().fit(*rows(60))",
    "float64, 1,200 rows": "OutputCodeClassifier().fit(*rows(1200))",
    "float32, 60 rows": "OutputCodeClassifier(machine=SVM(dtype='float32')).fit(*rows(60))",
    "SPOC, 60 rows": "SPOC().fit(*rows(60))",
}


def load(name, folder):
    """Return two halves of a table, features to [0, 1] by the first."""
    data = datasets.load(name, folder)
    many = np.isin(data.y, [c for c in np.unique(data.y) if np.sum(data.y == c) >= 4])
    X, y = np.asarray(data.X, dtype=float)[many], data.y[many]
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
    scale = MinMaxScaler().fit(X)
    return scale.transform(X), scale.transform(X_test), y, y_test


def searches(kind, y, gammas, cv):
    """Return our search and the peer's, on the same folds."""
    folds = StratifiedKFold(cv, shuffle=True, random_state=0)
    machine = "spoc" if kind == "SPOC" else SVM(bias="free")
    code, decoder = ("ovo", "likelihood") if kind == "one-vs-one, likelihood" else ("ova", "hinge")
    if kind == "SPOC":
        decoder = "linear"
    ours = OutputCodeClassifier(code, machine, decoder, random_state=0, n_jobs=1)
    grid = {"gamma": gammas, "C": COSTS}
    return (
        KernelSearchCV(ours, gammas, COSTS, cv=folds),
        GridSearchCV(SVC(), grid, cv=folds, n_jobs=1),
    )


def timed(search, rows):
    """Return CPU seconds of a fit and its errors on the held-out rows."""
    X, X_test, y, y_test = rows
    started = time.process_time()
    search.fit(X, y)
    return time.process_time() - started, np.sum(search.predict(X_test) != y_test), len(y_test)


def race(kind, names, args, cv):
    """Print the sums of one kind of search over tables."""
    total = np.zeros((2, 3))
    for name in names:
        rows = load(name, args.data)
        pair = searches(kind, rows[2], FACTORS * median_gamma(rows[0]), cv)
        found = np.array([timed(search, rows) for search in pair])
        total += found
        if args.tables:
            line(f"{kind}, {name}", found)
    line(f"{kind}, {len(names)} tables, {cv} folds", total)


def process(code, folder):
    """Return CPU seconds of a process that fits once, with compiled code kept in a folder."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    env = {**os.environ, "NUMBA_CACHE_DIR": folder}
    subprocess.run([sys.executable, "-c", START + code], check=True, env=env)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def line(name, found):
    ours, peer = found
    print(
        f"| {name} | {ours[0]:.2f} | {peer[0]:.2f} | {peer[0] / ours[0]:.1f}x | "
        f"{100 * ours[1] / ours[2]:.2f} % | {100 * peer[1] / peer[2]:.2f} % |",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--cv", type=int, nargs="+", default=[5, 3])
    parser.add_argument("--only", nargs="*", default=TABLES)
    parser.add_argument("--spoc", nargs="*", default=SPOC)
    parser.add_argument("--tables", action="store_true")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    X = np.random.RandomState(0).randn(40, 2)
    for kind in ("one-vs-all", "one-vs-one, likelihood", "SPOC"):  # compiled before the clock
        searches(kind, None, [1.0], 2)[0].fit(X, np.arange(40) % 3)
    print("| search | outcode, CPU s | SVC, CPU s | ratio | error | SVC's |")
    print("|---|---|---|---|---|---|")
    for cv in args.cv:
        race("one-vs-all", args.only, args, cv)
        race("one-vs-one, likelihood", args.only, args, cv)
    if args.spoc:
        race("SPOC", args.spoc, args, args.cv[0])
    print("\n| first fit, CPU s of the process | compiled | from the cache |\n|---|---|---|")
    for name, code in FIRST.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"| {name} | {process(code, folder):.2f} | {process(code, folder):.2f} |")


if __name__ == "__main__":
    main()
