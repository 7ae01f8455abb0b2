"""Kernel widths by leave-one-out bounds against a 5-fold grid of scikit-learn's SVC.

    python benchmarks/selection.py --data DATA [--picture docs/selection.png]
    python benchmarks/selection.py --data DATA --race
    python benchmarks/selection.py --data DATA --cpu
    python benchmarks/selection.py --data DATA --closer
    python benchmarks/selection.py --data DATA --small

pendigits, satimage and optdigits with their own training and test rows, features to [0, 1], eleven
widths around 1 / the median squared distance, C = 1. Prints Markdown tables: the test errors of the
widths picked by the bound, by the sharp bound and by the estimate against the best of the eleven,
how far each is from the leave-one-out error, and time and test error against GridSearchCV.
With --race only the last; with --cpu on one core and in CPU seconds, which a busy machine does not
change.
With --closer: what tolerance and precision do to the bound, and pendigits with all pairs.
With --small: widths, and widths with C, on ten small sets, random splits.
"""

from __future__ import annotations

import argparse
import os
import time

import numpy as np
from joblib import cpu_count
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, codes, datasets, loo, selection
from outcode.machines import SVM

NAMES = ("pendigits", "satimage", "optdigits")
SMALL = ["glass", "vehicle", "ecoli", "vowel", "dermatology", "balance", "cmc", "car"]
SMALL += ["new-thyroid", "segment"]
FACTORS = 2.0 ** np.arange(-5, 6)
CRITERIA = {"bound": "the bound", "sharp": "the sharp bound", "estimate": "the estimate"}


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


def fitted_widths(estimator, gammas, X, y):
    """The classifier fitted with each width on its own."""
    for gamma in gammas:
        machine = SVM(gamma=gamma)
        yield OutputCodeClassifier(estimator.code, machine, estimator.decoder, random_state=0).fit(
            X, y
        )


def curves(name, rows):
    """What the leave-one-out searches see and pick, and the test error of every width."""
    X, X_test, y, y_test = rows
    gammas = FACTORS * selection.median_gamma(X)
    for code, estimator in classifiers(len(np.unique(y))).items():
        picked = {
            by: selection.LOOBoundSearch(estimator, gammas, by=by, refit=False)
            .fit(X, y)
            .best_index_
            for by in CRITERIA
        }
        seen, errors = [], []
        for clf in fitted_widths(estimator, gammas, X, y):
            ways = loo.bound(clf), loo.sharp_bound(clf, X), loo.estimate(clf, X)
            seen.append([way.error for way in ways])
            errors.append(1.0 - clf.score(X_test, y_test))
        table = dict(zip(CRITERIA, np.array(seen).T, strict=True))
        yield name, code, gammas, picked, table, np.array(errors)


def print_levels(name, rows):
    """How far bounds and estimate are from the leave-one-out error, near the best width."""
    X, _, y, _ = rows
    gamma = 4.0 * selection.median_gamma(X)
    for code, estimator in classifiers(len(np.unique(y))).items():
        fit, seconds = timed(lambda e=estimator: list(fitted_widths(e, [gamma], X, y)))
        clf, found = fit[0], [loo.bound(fit[0])]
        sharp, sharp_seconds = timed(lambda c=clf: loo.sharp_bound(c, X))
        guess, guess_seconds = timed(lambda c=clf: loo.estimate(c, X))
        exact, exact_seconds = timed(lambda c=clf: loo.exact(c, X, y))
        cells = " | ".join(str(int(way.flags.sum())) for way in (*found, sharp, guess, exact))
        differ = int((guess.flags != exact.flags).sum())
        times = f"{seconds:.2f} | {sharp_seconds:.2f} | {guess_seconds:.2f} | {exact_seconds:.1f}"
        print(f"| {name} | {code} | {len(y)} | {cells} | {differ} | {times} |", flush=True)


def small_sets(folder, Cs, splits):
    """Mean test error of each way to choose on each small set, best of the grid first."""
    for name in SMALL:
        data, errors = datasets.load(name, folder), []
        X_all = np.nan_to_num(np.asarray(data.X, dtype=float))
        for seed in range(splits):
            X, X_test, y, y_test = train_test_split(
                X_all, data.y, test_size=1 / 3, stratify=data.y, random_state=seed
            )
            scale = MinMaxScaler().fit(X)
            rows = scale.transform(X), scale.transform(X_test), y, y_test
            errors.append([chosen(rows, Cs, *way) for way in (("ova", "linear"), ("ovo", "hinge"))])
        yield name, np.array(errors).reshape(-1, 5).mean(axis=0)


def chosen(rows, Cs, code, decoder):
    """Test errors of the best setting and of those that four searches choose."""
    X, X_test, y, y_test = rows
    estimator = OutputCodeClassifier(code, SVM(), decoder)
    gammas = FACTORS * selection.median_gamma(X)
    errors = []
    for gamma in gammas:
        for C in Cs:
            clf = OutputCodeClassifier(code, SVM(gamma=gamma, C=C), decoder).fit(X, y)
            errors.append(1.0 - clf.score(X_test, y_test))
    searches = [selection.LOOBoundSearch(estimator, gammas, Cs, by=by) for by in CRITERIA]
    searches.append(selection.KernelSearchCV(estimator, gammas, Cs))
    picked = [search.set_params(refit=False).fit(X, y).best_index_ for search in searches]
    return [min(errors), *(errors[k] for k in picked)]


def print_small(folder, splits):
    for title, Cs in {
        "C = 1": [1.0],
        "C = 10": [10.0],
        "C of 0.1 to 1000": 10.0 ** np.arange(-1, 4),
    }.items():
        ways = " | ".join(CRITERIA.values())
        print(f"\n| {title} | best of all | {ways} | five folds |\n|---|---:|---:|---:|---:|---:|")
        table = []
        for name, errors in small_sets(folder, Cs, splits):
            table.append(errors)
            print(f"| {name} | " + " | ".join(f"{100 * e:.1f}" for e in errors) + " |", flush=True)
        print("| mean | " + " | ".join(f"{100 * e:.2f}" for e in np.mean(table, axis=0)) + " |")


def race(name, rows, cpu):
    """Time and test error of four ways to choose the width, on the same grid."""
    clock, jobs = (time.process_time, 1) if cpu else (time.perf_counter, 2)
    X, X_test, y, y_test = rows
    gammas = FACTORS * selection.median_gamma(X)
    one_vs_all = OutputCodeClassifier("ova", SVM(), "linear", n_jobs=jobs)
    pairs = OutputCodeClassifier("ovo", SVM(), "likelihood", n_jobs=jobs, random_state=0)
    ways = {
        "LOOBoundSearch, one-vs-all, linear": selection.LOOBoundSearch(one_vs_all, gammas),
        "the same by the estimate": selection.LOOBoundSearch(one_vs_all, gammas, by="estimate"),
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
    ways = " | ".join(f"by {way} | its error | ratio" for way in CRITERIA.values())
    print(f"| data | code | best width | its error | {ways} |")
    print("|---|---|" + "---:|" * 11)
    for name, code, gammas, picked, _, errors in records:
        best = int(errors.argmin())
        cells = " | ".join(
            f"{gammas[k]:.3g} | {errors[k]:.2%} | {errors[k] / errors[best]:.2f}"
            for k in picked.values()
        )
        print(f"| {name} | {code} | {gammas[best]:.3g} | {errors[best]:.2%} | {cells} |")


def print_race(records):
    records = list(records)
    slowest = {name: seconds for name, way, _, seconds, _ in records if way.startswith("Grid")}
    print("\n| data | way | width | seconds | times faster | test error |")
    print("|---|---|---:|---:|---:|---:|")
    for name, way, gamma, seconds, error in records:
        faster = slowest[name] / seconds
        print(f"| {name} | {way} | {gamma:.3g} | {seconds:.2f} | {faster:.1f} | {error:.2%} |")


def draw(records, paths):
    """Bounds (solid), estimate and test error (dashed) against the width, as [PPF04] Fig. 4."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    panels = sorted({code for _, code, *_ in records}, reverse=True)
    names = list(dict.fromkeys(name for name, *_ in records))
    figure, grid = pyplot.subplots(
        len(names), len(panels), figsize=(9, 7.5), sharex="row", layout="constrained", squeeze=False
    )
    for name, code, gammas, picked, seen, errors in records:
        ax = grid[names.index(name), panels.index(code)]
        for k, by in enumerate(CRITERIA):
            ax.plot(gammas, 100 * seen[by], "o-", color=f"C{2 * k}", markersize=3)
            at = gammas[picked[by]], 100 * seen[by][picked[by]]
            ax.plot(*at, "o", color=f"C{2 * k}", markersize=9, fillstyle="none")
        ax.plot(gammas, 100 * errors, "s--", color="C1", markersize=3)
        at = gammas[errors.argmin()], 100 * errors.min()
        ax.plot(*at, "s", color="C1", markersize=9, fillstyle="none")
        ax.set(xscale="log", yscale="log", ylim=(None, 110))
        ax.set_title(f"{name}, {code}", fontsize=9)
        ax.yaxis.set_major_formatter(matplotlib.ticker.FormatStrFormatter("%g"))
        ax.tick_params(labelsize=7)
    for ax in grid[-1]:
        ax.set_xlabel("gamma")
    for ax in grid[:, 0]:
        ax.set_ylabel("% of rows")
    text = "bound", "sharp bound", "estimate", "test error"
    lines = [
        matplotlib.lines.Line2D([], [], color=c, marker=m, linestyle=s, markersize=3)
        for c, m, s in (("C0", "o", "-"), ("C2", "o", "-"), ("C4", "o", "-"), ("C1", "s", "--"))
    ]
    figure.legend(lines, text, loc="outside lower center", ncols=4, frameon=False)
    matplotlib.rcParams.update({"svg.hashsalt": "outcode", "svg.fonttype": "none"})
    for path in paths:
        figure.savefig(path, metadata={"Date": None} if path.endswith("svg") else None)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"), help="data folder")
    parser.add_argument("--picture", nargs="+", default=[], help="files for the curves")
    parser.add_argument("--cpu", action="store_true", help="one core, CPU seconds, no curves")
    parser.add_argument("--race", action="store_true", help="times only, no curves")
    parser.add_argument("--closer", action="store_true", help="tolerances, pendigits all pairs")
    parser.add_argument("--small", action="store_true", help="ten small sets")
    parser.add_argument("--splits", type=int, default=3, help="random splits of each small set")
    parser.add_argument("--names", nargs="+", default=NAMES, choices=NAMES)
    options = parser.parse_args()
    if options.small:
        return print_small(options.data, options.splits)
    rows = {name: load(name, options.data) for name in options.names}
    warm_up()
    if options.closer:
        for name in options.names:
            print_tolerances(name, rows[name])
        return print_closer(load("pendigits", options.data))
    print(f"{1 if options.cpu else cpu_count()} cores\n")
    if not options.cpu and not options.race:
        records = [record for name in options.names for record in curves(name, rows[name])]
        print_curves(records)
        if options.picture:
            draw(records, options.picture)
        print(
            "\n| data | code | rows | bound | sharp bound | estimate | leave-one-out error |",
            end="",
        )
        print(" rows estimated wrongly | fit s | sharp s | estimate s | exact s |")
        print("|---|---|" + "---:|" * 10)
        for name in options.names:
            print_levels(name, rows[name])
    print_race(r for name in options.names for r in race(name, rows[name], options.cpu))


def warm_up():
    """Compile what is compiled on first use, before the clock runs."""
    rng, y = np.random.RandomState(0), np.arange(900) % 3
    for dtype in ("float32", "float64"):
        machine, X = SVM(dtype=dtype), rng.randn(900, 2) + y[:, None]
        loo.estimate(OutputCodeClassifier("ovo", machine, "likelihood").fit(X, y), X)


if __name__ == "__main__":
    main()
