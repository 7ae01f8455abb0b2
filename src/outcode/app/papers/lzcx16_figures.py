"""[LZCX16] Figs. 1-3: correlation of the columns' machines, accuracy of each, and joint errors.

One-vs-all, linear kernel, Hamming decoding, as section 5 has it; five folds, the settings of each
machine by inner folds. Fig. 1 takes SVMs with C = 1 on all of vehicle: the paper does not print C.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from sklearn.preprocessing import StandardScaler

from outcode._checks import Array
from outcode.app.papers.comparison import Setting, beside, kept, markdown, stratified
from outcode.app.study import Store
from outcode.classifier import OutputCodeClassifier
from outcode.datasets import Dataset, load
from outcode.machines import SVM

#: Mean accuracy of the columns in percent that section 5 prints, SVM and JCL.
PRINTED = {"glass": (74.36, 86.28), "zoo": (97.81, 98.58)}

NOTES_1 = """\
Linear correlation of the weight vectors of the columns (all of vehicle, C = 1). The paper shows
colours only; its claim is that the machines, though trained apart, are highly correlated."""

NOTES_2 = """\
Accuracy in percent of the machine of each class on held-out rows, then the mean with the paper's in
brackets."""

NOTES_3 = "Held-out rows by the number of columns that err on them."


def figures(search: Mapping[str, Any], setting: Setting, store: Store) -> str:
    """Return the three figures as tables; ``search`` holds an estimator for SVM and for JCL."""
    parts = ["## Fig. 1", _correlations(load("vehicle", setting.data_dir)), NOTES_1]
    for name in PRINTED:
        data = load(name, setting.data_dir)
        found = {
            machine: kept(
                store,
                f"LZCX16 columns of {name}, {machine}, quick {setting.quick}",
                partial(column_errors, estimator, data),
            )
            for machine, estimator in search.items()
        }
        parts += [f"## Figs. 2 and 3, {name}", _accuracies(name, found), NOTES_2]
        parts += [_together(found), NOTES_3]
    return "\n\n".join(parts)


def column_errors(estimator: Any, data: Dataset) -> dict[str, Any]:
    """Return each column's accuracy on held-out rows, and rows by their number of wrong columns."""
    wrong = np.empty((len(data.y), len(np.unique(data.y))), dtype=bool)
    for train, test in stratified(data.y, 5):
        scaler = StandardScaler().fit(data.X[train])
        clf = estimator.fit(scaler.transform(data.X[train]), data.y[train]).best_estimator_
        signs = clf.code_[np.searchsorted(clf.classes_, data.y[test])]
        wrong[test] = clf.margins(scaler.transform(data.X[test])) * signs <= 0
    accuracy, together = 1.0 - wrong.mean(axis=0), np.bincount(wrong.sum(axis=1))
    return {"accuracy": accuracy.tolist(), "together": together.tolist()}


def _correlations(data: Dataset) -> str:
    X = StandardScaler().fit_transform(data.X)
    clf = OutputCodeClassifier("ova", SVM(kernel="linear"), n_jobs=1).fit(X, data.y)
    correlations = np.corrcoef(_weights(clf, X))
    rows = [
        [str(label), *(f"{value:.2f}" for value in row)]
        for label, row in zip(clf.classes_, correlations, strict=True)
    ]
    return markdown(["", *map(str, clf.classes_)], rows)


def _weights(clf: OutputCodeClassifier, X: Array) -> Array:
    """Return the weight vector of each column, (n_dichotomies, n_features)."""
    return np.asarray(clf.machine_.dual_coef_.T @ X)


def _accuracies(name: str, found: Mapping[str, Any]) -> str:
    rows = []
    for (machine, result), paper in zip(found.items(), PRINTED[name], strict=True):
        shares = [100 * value for value in result["accuracy"]]
        mean = beside(float(np.mean(shares)), paper)
        rows.append([machine, *(f"{share:.2f}" for share in shares), mean])
    width = len(rows[0]) - 2
    return markdown(["", *(f"class {j + 1}" for j in range(width)), "mean"], rows)


def _together(found: Mapping[str, Any]) -> str:
    most = max(len(result["together"]) for result in found.values())
    rows = []
    for machine, result in found.items():
        counts = result["together"] + [0] * (most - len(result["together"]))
        rows.append([machine, *map(str, counts)])
    return markdown(["wrong columns", *map(str, range(most))], rows)
