"""How good are the probabilities? Log loss, calibration error and error on the papers' data.

    python benchmarks/calibration.py --data ../shared/data

Every row uses the Gaussian kernel with C = 10 and gamma = 1 / (d var X), on features scaled to
[0, 1]. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, datasets
from outcode.decoders import BradleyTerry, Likelihood, PairwiseCoupling
from outcode.machines import SVM

NAMES = ["pendigits", "satimage", "optdigits", "segment", "vowel", "yeast", "glass"]
OWN_SPLIT = ["pendigits", "satimage", "optdigits"]
C = 10.0

METHODS = {
    "Likelihood, ovo": ("ovo", Likelihood, {}),
    "Coupling (Wu-Lin-Weng), ovo": ("ovo", PairwiseCoupling, {}),
    "Coupling (Hastie-Tibshirani), ovo": (
        "ovo",
        PairwiseCoupling,
        {"method": "hastie-tibshirani"},
    ),
    "Likelihood, ova": ("ova", Likelihood, {}),
    "Bradley-Terry, ova": ("ova", BradleyTerry, {}),
    "Likelihood, dense": ("dense", Likelihood, {}),
    "Bradley-Terry, dense": ("dense", BradleyTerry, {}),
}


def split(name: str, folder: str, own: bool) -> tuple[np.ndarray, ...]:
    """Return X_train, X_test, y_train, y_test: the file's own split, or 2/3 to 1/3, stratified."""
    data = datasets.load(name, folder)
    if not own:
        parts = train_test_split(data.X, data.y, test_size=1 / 3, stratify=data.y, random_state=0)
    else:
        train = data.split == "train"
        parts = [data.X[train], data.X[~train], data.y[train], data.y[~train]]
    scaler = MinMaxScaler().fit(parts[0])
    return scaler.transform(parts[0]), scaler.transform(parts[1]), parts[2], parts[3]


def log_loss(proba: np.ndarray, labels: np.ndarray) -> float:
    chosen = proba[np.arange(len(labels)), labels]
    return float(-np.log(np.maximum(chosen, 1e-15)).mean())


def expected_calibration_error(proba: np.ndarray, labels: np.ndarray, bins: int = 15) -> float:
    """Return the mean gap between confidence and accuracy of the top label, over equal bins."""
    confidence, right = proba.max(axis=1), proba.argmax(axis=1) == labels
    number = np.minimum((confidence * bins).astype(int), bins - 1)
    gap = np.bincount(number, confidence - right, minlength=bins)
    return float(np.abs(gap).sum() / len(labels))


def measures(proba: np.ndarray, labels: np.ndarray) -> tuple[float, float, float]:
    error = float(np.mean(proba.argmax(axis=1) != labels))
    return log_loss(proba, labels), expected_calibration_error(proba, labels), error


def results(name: str, folder: str, own: bool) -> Iterator[tuple[str, tuple[float, float, float]]]:
    X, X_test, y, y_test = split(name, folder, own)
    gamma = 1.0 / (X.shape[1] * X.var())
    classes, labels = np.unique(y_test, return_inverse=True)
    reference = CalibratedClassifierCV(SVC(C=C, gamma=gamma), ensemble=False).fit(X, y)
    assert np.array_equal(reference.classes_, classes)
    yield "CalibratedClassifierCV(SVC)", measures(reference.predict_proba(X_test), labels)
    machines: dict[str, OutputCodeClassifier] = {}
    for label, (code, decoder, parameters) in METHODS.items():
        if code not in machines:
            clf = OutputCodeClassifier(code, SVM(gamma=gamma, C=C), random_state=0)
            machines[code] = clf.fit(X, y)
        for temperature in (False, True):
            clf = machines[code].with_decoder(decoder(**parameters, temperature=temperature), X)
            proba = clf.predict_proba(X_test)
            yield label + (", temperature" if temperature else ""), measures(proba, labels)


def table(rows: dict[str, list[tuple[float, float, float]]], names: list[str]) -> str:
    """Return the Markdown table; each cell is log loss / ECE in % / error in %."""
    lines = ["| | " + " | ".join(names) + " | mean |", "|---" * (len(names) + 2) + "|"]
    for label, cells in rows.items():
        all_cells = [*cells, tuple(np.mean(cells, axis=0))]
        text = [f"{a:.3f} / {100 * b:.1f} / {100 * c:.1f}" for a, b, c in all_cells]
        lines.append(f"| {label} | " + " | ".join(text) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"), help="data folder")
    parser.add_argument("--own", default=",".join(OWN_SPLIT), help="sets whose own split is used")
    parser.add_argument("names", nargs="*", default=NAMES, help="data sets")
    arguments = parser.parse_args()
    rows: dict[str, list[tuple[float, float, float]]] = {}
    for name in arguments.names:
        for label, values in results(name, arguments.data, name in arguments.own.split(",")):
            rows.setdefault(label, []).append(values)
    print(table(rows, list(arguments.names)))


if __name__ == "__main__":
    main()
