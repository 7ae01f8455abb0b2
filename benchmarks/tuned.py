"""OutputCodeClassifierCV against what a user would write instead, nested: error, log loss, cost.

    python benchmarks/tuned.py --data DATA --store tuned.jsonl [--sets iris glass] [--methods ...]

Every set of DATA, at most 1,500 rows each (drawn evenly over the classes), four stratified outer
folds. Nominal columns one-hot, numeric columns to mean 0 and deviation 1, fitted on the training
rows of the fold. All choices (grid, temperature, calibration) are made inside the training rows.
One core; CPU seconds of fitting and choosing, all methods in turn on every fold, after everything
is compiled. Every finished cell is written to the store and not run again; at the end, or with
--report, the Markdown tables of what is there are printed.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from itertools import islice

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.svm import SVC

from outcode import datasets, kernels, metrics, statistics

CAP, FOLDS, SEED = 1500, 4, 0
GAMMAS, CS = 2.0 ** np.arange(-5, 6), 10.0 ** np.arange(-1, 4)
OURS, GRID, CALIBRATED = (
    "OutputCodeClassifierCV",
    "GridSearchCV(SVC)",
    "CalibratedClassifierCV(SVC)",
)


def grid(X):
    """SVC with 11 widths around 1 / (d var X) and 5 values of C, by 5 folds."""
    gammas = GAMMAS * kernels.gamma_value("scale", X)
    return GridSearchCV(SVC(), {"gamma": gammas, "C": CS}, cv=5)


def calibrated(X, y, chosen):
    """The grid's choice, with sigmoids fitted by 5 folds (fewer if a class has fewer rows)."""
    cv = min(5, int(np.unique(y, return_counts=True)[1].min()))
    return CalibratedClassifierCV(SVC(**chosen), cv=cv).fit(X, y)


def tuned(X, y):
    from outcode import OutputCodeClassifierCV

    return OutputCodeClassifierCV(random_state=SEED, n_jobs=1).fit(X, y)


def compiled():
    """Train every machine on few and many rows and columns, so that all is compiled."""
    from outcode import OutputCodeClassifier, OutputCodeClassifierCV, machines

    rng = np.random.default_rng(0)
    for n, classes in ((60, 2), (60, 3), (600, 10)):
        y = np.arange(n) % classes
        X = 2.0 * rng.normal(size=(classes, 3))[y] + rng.normal(size=(n, 3))
        for tried in (("ls", "svm", "spoc"), "svm", "spoc"):
            OutputCodeClassifierCV(tried, n_jobs=1).fit(X, y)
        OutputCodeClassifierCV("svm", codes="ovo", n_jobs=1).fit(X, y)
    noise = rng.normal(size=(1200, 3)), np.arange(1200) % 3
    OutputCodeClassifier("ova", machines.SVM(C=100.0), "hinge", n_jobs=1).fit(*noise)


METHODS = {
    OURS: tuned,
    GRID: lambda X, y: grid(X).fit(X, y),
    CALIBRATED: calibrated,
    "RandomForest(500)": lambda X, y: RandomForestClassifier(500, random_state=SEED).fit(X, y),
    "HistGradientBoosting": lambda X, y: HistGradientBoostingClassifier(random_state=SEED).fit(
        X, y
    ),
}


def rows(name, folder, cap):
    """Return the table and the labels of a set, at most ``cap`` rows."""
    data = datasets.load(name, folder)
    labels = np.unique(data.y, return_inverse=True)[1]
    if len(labels) <= cap:
        return data.table, labels
    kept, _ = train_test_split(
        np.arange(len(labels)), train_size=cap, stratify=labels, random_state=SEED
    )
    return data.table.take(np.sort(kept)), labels[np.sort(kept)]


def listed(folder):
    with open(os.path.join(folder, "datasets.json"), encoding="utf-8") as file:
        return sorted(json.load(file)["datasets"])


def cells(name, folder, cap):
    """Yield the outer folds: number, training and test rows as numbers, labels."""
    table, labels = rows(name, folder, cap)
    split = StratifiedKFold(FOLDS, shuffle=True, random_state=SEED)
    for number, (train, test) in enumerate(split.split(labels, labels)):
        encoder = datasets.TableEncoder().fit(table.take(train))
        X, X_test = (encoder.transform(table.take(part)) for part in (train, test))
        yield number, X, labels[train], X_test, labels[test]


def measure(method, X, y, X_test, y_test, searched):
    """Return what is kept of one cell, or the reason why there is nothing.

    ``searched`` is the grid's cell: calibration goes on from its choice, and bears its cost.
    """
    extra = (searched["chosen"],) if method == CALIBRATED else ()
    started = time.process_time()
    try:
        model = METHODS[method](X, y, *extra)
    except ValueError as error:
        return {"reason": str(error)[:200]}
    seconds = time.process_time() - started + (searched["cpu"] if extra else 0.0)
    n_classes = 1 + max(y.max(), y_test.max())
    record = {"cpu": seconds, "wrong": (model.predict(X_test) != y_test).astype(int).tolist()}
    if hasattr(model, "predict_proba"):
        proba = np.zeros((len(y_test), n_classes))
        proba[:, model.classes_] = model.predict_proba(X_test)
        known = np.isin(y_test, model.classes_)  # a class without a training row has no chance
        record["log_loss"] = metrics.log_loss(y_test[known], proba[known])
    if method == GRID:
        record["chosen"] = model.best_params_
    return record


def run(names, methods, folder, store, folds, cap):
    done = {(r["set"], r["fold"], r["method"]): r for r in read(store)}
    if OURS in methods:
        compiled()
    for name in names:
        for number, X, y, X_test, y_test in islice(cells(name, folder, cap), folds):
            for method in methods:
                if (name, number, method) in done:
                    continue
                searched = done.get((name, number, GRID))
                record = measure(method, X, y, X_test, y_test, searched)
                record |= {"set": name, "fold": number, "method": method, "rows": len(y)}
                done[name, number, method] = record
                with open(store, "a", encoding="utf-8") as file:
                    file.write(json.dumps(record) + "\n")
        print(name, "done", flush=True)


def read(store):
    if not os.path.exists(store):
        return []
    with open(store, encoding="utf-8") as file:
        return [json.loads(line) for line in file]


# --- the tables ---


def joined(records):
    """Return {set: {method: cells in the order of the folds}}, complete ones only."""
    table = {}
    for record in sorted(records, key=lambda r: r["fold"]):
        if "wrong" in record:
            table.setdefault(record["set"], {}).setdefault(record["method"], []).append(record)
    return {
        name: {m: c for m, c in by.items() if len(c) == FOLDS} for name, by in sorted(table.items())
    }


def wrong(cells):
    return np.concatenate([cell["wrong"] for cell in cells])


def error(cells):
    return 100.0 * wrong(cells).mean()


def loss(cells):
    sizes = [len(cell["wrong"]) for cell in cells]
    return float(np.average([cell["log_loss"] for cell in cells], weights=sizes))


def cpu(cells):
    return sum(cell["cpu"] for cell in cells)


def report(store):
    table = joined(read(store))
    ranked = [m for m in METHODS if m != CALIBRATED]
    sets = [name for name, by in table.items() if all(m in by for m in ranked)]
    if not sets:
        raise SystemExit("No set is finished yet.")
    errors = np.array([[error(table[n][m]) for m in ranked] for n in sets])
    friedman = statistics.friedman(errors, ranked)
    ranks = dict(zip(friedman.ranks.names, friedman.ranks.average, strict=True))
    print("| method | mean error % | average rank | mean log loss | CPU s | CPU, grid = 1 |")
    print("|---|---|---|---|---|---|")
    baseline = sum(cpu(table[n][GRID]) for n in sets)
    for m in METHODS:
        have = [n for n in sets if m in table[n]]
        whole = len(have) == len(sets)
        mean = f"{np.mean([error(table[n][m]) for n in have]):.2f}" if whole else "-"
        rank = f"{ranks[m]:.2f}" if m in ranks else "-"
        losses = [loss(table[n][m]) for n in have] if m != GRID and whole else []
        mean_loss = f"{np.mean(losses):.3f}" if losses else "-"
        spent = sum(cpu(table[n][m]) for n in have)
        ratio = f"1/{baseline / spent:.1f}" if whole else "-"
        print(f"| {m} | {mean} | {rank} | {mean_loss} | {spent:.1f} | {ratio} |")
    print(f"\n{len(sets)} sets. {friedman.sentence}\n")
    per_set(table, sets)
    print()
    seconds(store)


def per_set(table, sets):
    """Print every set, with McNemar's test against the grid over the rows of all folds."""
    print("| set | rows | " + " | ".join(f"{m}" for m in METHODS) + " | p against the grid |")
    print("|---|---|" + "---|" * len(METHODS) + "---|")
    calmer = compared = 0
    for n in sets:
        by = table[n]
        test = statistics.mcnemar(
            np.column_stack([wrong(by[OURS]), wrong(by[GRID])]).astype(float), [OURS, GRID]
        ).pairs[0]
        cell = [
            (f"{error(by[m]):.1f}" + (f" ({loss(by[m]):.3f})" if m != GRID else ""))
            if m in by
            else "-"
            for m in METHODS
        ]
        verdict = f"{test.p_value:.2g}" + ("" if test.p_value >= 0.05 else f" {test.leader}")
        print(f"| {n} | {len(wrong(by[OURS]))} | " + " | ".join(cell) + f" | {verdict} |")
        if CALIBRATED in by:
            compared += 1
            calmer += loss(by[OURS]) < loss(by[CALIBRATED])
    print(f"\nLog loss below {CALIBRATED}: {calmer} of {compared} sets.")


def seconds(store):
    """Print how many times the CPU seconds of ours the grid takes, on the cells that both have."""
    cells = {(r["set"], r["fold"], r["method"]): r["cpu"] for r in read(store) if "cpu" in r}
    spent = {}
    for name, fold, method in cells:
        if method == OURS and (name, fold, GRID) in cells:
            both = np.array([cells[name, fold, m] for m in (OURS, GRID)])
            spent[name] = spent.get(name, 0.0) + both
    if not spent:
        return
    ours, theirs = sum(spent.values())
    times = sorted((both[1] / both[0], name) for name, both in spent.items())
    print(f"{OURS} {ours:.1f} s, {GRID} {theirs:.1f} s: {theirs / ours:.1f}x; of each set:")
    print(", ".join(f"{name} {ratio:.1f}" for ratio, name in times))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", required=True)
    parser.add_argument("--store", default="tuned.jsonl")
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--folds", type=int, default=FOLDS, help="run the first of them only")
    parser.add_argument("--cap", type=int, default=CAP, help="rows of a set at most")
    parser.add_argument("--report", action="store_true")
    parser.add_argument(
        "--cpu", action="store_true", help="CPU seconds by set, of whatever is there"
    )
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    if args.report:
        return report(args.store)
    if args.cpu:
        return seconds(args.store)
    names = args.sets or listed(args.data)
    run(names, args.methods, args.data, args.store, args.folds, args.cap)
    return report(args.store) if args.folds == FOLDS else seconds(args.store)


if __name__ == "__main__":
    main()
