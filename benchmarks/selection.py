"""Kernel widths by the leave-one-out bound against a 5-fold grid of scikit-learn's SVC.

    python benchmarks/selection.py --data DATA [--picture docs/selection.png]
    python benchmarks/selection.py --data DATA --cpu
    python benchmarks/selection.py --data DATA --closer

pendigits, satimage and optdigits with their own training and test rows, features to [0, 1], eleven
widths around 1 / the median squared distance, C = 1. Prints Markdown tables: the test error of the
width the bound picks against the best of the eleven, and time and test error against GridSearchCV.
With --cpu only the latter, on one core and in CPU seconds, which a busy machine does not change.
With --closer: what tolerance and precision do to the bound, and pendigits with all pairs.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
from joblib import cpu_count
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, codes, datasets, selection
from outcode.machines import SVM

NAMES = ("pendigits", "satimage", "optdigits")
FACTORS = 2.0 ** np.arange(-5, 6)


def load(name, folder):
    """Return training and test rows, features to [0, 1] by the training rows."""
    data = datasets.load(name, folder)
    train = data.split == "train"
    scale = MinMaxScaler().fit(data.X[train])
    rows = scale.transform(data.X[train]), scale.transform(data.X[~train])
    return (*rows, data.y[train], data.y[~train])


def timed(fit, clock=time.perf_counter):
    started = clock()
    return fit(), clock() - started


def classifiers(n_classes):
    """The three codes of [PPF04] Fig. 4: one-vs-all, all pairs, dense with 3 Q columns."""
    dense = codes.BCH(n_columns=3 * n_classes)
    return {
        "one-vs-all": OutputCodeClassifier("ova", SVM(), "likelihood", random_state=0),
        "all pairs": OutputCodeClassifier("ovo", SVM(), "likelihood", random_state=0),
        "dense": OutputCodeClassifier(dense, SVM(), "likelihood", random_state=0),
    }


def test_errors(estimator, gammas, X, y, X_test, y_test):
    """Test error of every width, each fitted on its own."""
    errors = []
    for gamma in gammas:
        clf = OutputCodeClassifier(
            estimator.code, SVM(gamma=gamma), estimator.decoder, random_state=0
        )
        errors.append(1.0 - clf.fit(X, y).score(X_test, y_test))
    return np.array(errors)


def curves(name, rows):
    """Bound and test error of every width, for the three codes."""
    X, X_test, y, y_test = rows
    for code, estimator in classifiers(len(np.unique(y))).items():
        search, seconds = timed(lambda e=estimator: selection.LOOBoundSearch(e).fit(X, y))
        errors = test_errors(estimator, search.results_["gamma"], X, y, X_test, y_test)
        yield name, code, search, errors, seconds


def race(name, rows, cpu):
    """Time and test error of four ways to choose the width, on the same grid."""
    clock, jobs = (time.process_time, 1) if cpu else (time.perf_counter, 2)
    X, X_test, y, y_test = rows
    gammas = FACTORS * selection.median_gamma(X)
    one_vs_all = OutputCodeClassifier("ova", SVM(), "linear", n_jobs=jobs)
    pairs = OutputCodeClassifier("ovo", SVM(), "likelihood", n_jobs=jobs, random_state=0)
    ways = {
        "LOOBoundSearch, one-vs-all, linear": selection.LOOBoundSearch(one_vs_all, gammas),
        "LOOBoundSearch, all pairs, likelihood": selection.LOOBoundSearch(pairs, gammas),
        "KernelSearchCV, one-vs-all, linear": selection.KernelSearchCV(one_vs_all, gammas),
        "GridSearchCV(SVC)": GridSearchCV(SVC(), {"gamma": gammas}, cv=5, n_jobs=jobs),
    }
    for way, search in ways.items():
        fitted, seconds = timed(lambda s=search: s.fit(X, y), clock)
        chosen = fitted.best_params_.get("machine__gamma", fitted.best_params_.get("gamma"))
        yield name, way, chosen, seconds, 1.0 - fitted.score(X_test, y_test)


def print_tolerances(name, rows):
    """The bound of every width for several tolerances of the solver."""
    X, _, y, _ = rows
    gammas = FACTORS * selection.median_gamma(X)
    for tol in (1e-4, 1e-3, 1e-2):
        estimator = OutputCodeClassifier("ova", SVM(tol=tol), "linear", n_jobs=1)
        search = selection.LOOBoundSearch(estimator, gammas, refit=False)
        fitted, seconds = timed(lambda s=search: s.fit(X, y), time.process_time)
        bounds = " ".join(f"{100 * bound:.2f}" for bound in fitted.results_["bound"])
        print(f"{name}, tol {tol:g}: {seconds:.2f} CPU s, bounds {bounds}")


def print_closer(rows):
    """pendigits, all pairs, likelihood: rows flagged, wrong in five folds, wrong in the test."""
    X, X_test, y, y_test = rows
    gammas, wrong = np.array([2.0, 4.0, 8.0]) * selection.median_gamma(X), []
    for options in ({}, {"dtype": "float64", "tol": 1e-5}):
        pairs = OutputCodeClassifier("ovo", SVM(**options), "likelihood", random_state=0)
        search = selection.LOOBoundSearch(pairs, gammas, refit=False).fit(X, y)
        print(f"{options}: flagged {(search.results_['bound'] * len(y)).round().astype(int)}")
    pairs = OutputCodeClassifier("ovo", SVM(), "likelihood", random_state=0)
    folds = selection.KernelSearchCV(pairs, gammas, refit=False).fit(X, y)
    held_out = (1.0 - folds.results_["mean_score"]) * len(y)
    print(f"widths {gammas.round(3)}: wrong in five folds {held_out.round().astype(int)}")
    for gamma in gammas:
        clf = OutputCodeClassifier("ovo", SVM(gamma=gamma), "likelihood", random_state=0)
        wrong.append(clf.fit(X, y).predict(X_test) != y_test)
    print(f"wrong in the test {[int(w.sum()) for w in wrong]}, at the second alone ", end="")
    print(f"{np.sum(wrong[1] & ~wrong[2])}, at the third alone {np.sum(wrong[2] & ~wrong[1])}")


def print_curves(records):
    print("| data | code | width picked | its test error | best width | its test error | ratio |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for name, code, search, errors, _ in records:
        gammas, picked, best = search.results_["gamma"], search.best_index_, int(errors.argmin())
        print(
            f"| {name} | {code} | {gammas[picked]:.3g} | {errors[picked]:.2%} | "
            f"{gammas[best]:.3g} | {errors[best]:.2%} | {errors[picked] / errors[best]:.2f} |"
        )


def print_race(records):
    records = list(records)
    slowest = {name: seconds for name, way, _, seconds, _ in records if way.startswith("Grid")}
    print("\n| data | way | width | seconds | times faster | test error |")
    print("|---|---|---:|---:|---:|---:|")
    for name, way, gamma, seconds, error in records:
        faster = slowest[name] / seconds
        print(f"| {name} | {way} | {gamma:.3g} | {seconds:.2f} | {faster:.1f} | {error:.2%} |")


def draw(records, paths):
    """Bound (solid) and test error (dashed) against the width, as [PPF04] Fig. 4."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = sorted({code for _, code, *_ in records}, reverse=True)
    figure, grid = pyplot.subplots(
        len(NAMES), len(panels), figsize=(9, 7.5), sharex="row", layout="constrained", squeeze=False
    )
    for name, code, search, errors, _ in records:
        ax = grid[NAMES.index(name), panels.index(code)]
        gammas, bound = search.results_["gamma"], search.results_["bound"]
        right = ax.twinx()
        (solid,) = ax.plot(gammas, 100 * bound, "o-", color="C0", markersize=3)
        (dashed,) = right.plot(gammas, 100 * errors, "s--", color="C1", markersize=3)
        ax.axvline(gammas[search.best_index_], color="C0", linewidth=0.8, alpha=0.5)
        right.axvline(gammas[errors.argmin()], color="C1", linestyle=":", linewidth=1.2)
        ax.set(xscale="log", title=f"{name}, {code}", ylim=(0, None))
        right.set_ylim(0, None)
        ax.tick_params(axis="y", colors="C0", labelsize=7)
        right.tick_params(axis="y", colors="C1", labelsize=7)
        ax.title.set_fontsize(9)
    for ax in grid[-1]:
        ax.set_xlabel("gamma")
    lines, text = (solid, dashed), ("leave-one-out bound, % (left)", "test error, % (right)")
    figure.legend(lines, text, loc="outside lower center", ncols=2, frameon=False)
    matplotlib.rcParams.update({"svg.hashsalt": "outcode", "svg.fonttype": "none"})
    for path in paths:
        figure.savefig(path, metadata={"Date": None} if path.endswith("svg") else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"), help="data folder")
    parser.add_argument("--picture", nargs="+", default=[], help="files for the curves")
    parser.add_argument("--cpu", action="store_true", help="one core, CPU seconds, no curves")
    parser.add_argument("--closer", action="store_true", help="tolerances, pendigits all pairs")
    parser.add_argument("--names", nargs="+", default=NAMES, choices=NAMES)
    options = parser.parse_args()
    rows = {name: load(name, options.data) for name in options.names}
    warm_up()
    if options.closer:
        for name in options.names:
            print_tolerances(name, rows[name])
        return print_closer(load("pendigits", options.data))
    print(f"{1 if options.cpu else cpu_count()} cores\n")
    if not options.cpu:
        records = [record for name in options.names for record in curves(name, rows[name])]
        print_curves(records)
        if options.picture:
            draw(records, options.picture)
    print_race(r for name in options.names for r in race(name, rows[name], options.cpu))


def warm_up():
    """Compile what is compiled on first use, before the clock runs."""
    rng, y = np.random.RandomState(0), np.arange(900) % 3
    for dtype in ("float32", "float64"):
        machine = SVM(dtype=dtype)
        OutputCodeClassifier("ovo", machine, "likelihood").fit(rng.randn(900, 2) + y[:, None], y)


if __name__ == "__main__":
    main()
