"""Compare a few reductions on one data set, then look at what the best one is made of."""

from __future__ import annotations

import time

from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, diagnose
from outcode.machines import SVM


def main() -> None:
    X, y = load_digits(return_X_y=True)
    X_train, X_test, y_train, y_test = train_test_split(X / 16, y, random_state=0, stratify=y)
    machine = SVM(kernel="rbf", gamma=0.5, C=10)
    OutputCodeClassifier(machine=machine).fit(X_train[:100], y_train[:100])  # compiles, once

    print(f"{len(X_train)} training rows, {len(X_test)} test rows, 10 classes\n")
    print(f"{'code':10} {'columns':>7} {'fit s':>7} {'hamming':>8} {'hinge':>8} {'likelihood':>11}")
    for code in ("ova", "ovo", "dense", "sparse", "bch"):
        start = time.perf_counter()
        clf = OutputCodeClassifier(code, machine, random_state=0).fit(X_train, y_train)
        seconds = time.perf_counter() - start
        # the same machines under three decoders: nothing is trained again
        errors = [
            100 * (1 - clf.with_decoder(decoder, X_train).score(X_test, y_test))
            for decoder in ("hamming", "hinge", "likelihood")
        ]
        cells = " ".join(
            f"{error:{width}.2f}%" for error, width in zip(errors, (7, 7, 10), strict=True)
        )
        print(f"{code:10} {clf.code_.shape[1]:7} {seconds:7.3f} {cells}")
    svc = SVC(gamma=0.5, C=10).fit(X_train, y_train)
    print(f"\nsklearn.svm.SVC  {100 * (1 - svc.score(X_test, y_test)):.2f}%\n")
    print("the BCH code:", diagnose(clf.code_))
    print("largest relative duality gap:", f"{clf.machine_.gap_.max():.1e}")


if __name__ == "__main__":
    main()
