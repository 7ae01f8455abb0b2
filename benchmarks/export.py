"""Labels and probabilities of exports beside those of their models, on data sets of the papers.

python benchmarks/export.py --data ../shared/data vowel vehicle segment yeast glass soybean
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

from outcode import OutputCodeClassifier, OutputCodeClassifierCV, datasets, decoders, export
from outcode.saved import ModelError

#: Rows a classifier is trained on at most; all rows are compared.
ROWS = 1500


def compared(name: str, model: object, X: np.ndarray) -> str:
    """Return how an export compares on every row, or why there is none."""
    try:
        description = export.describe(model)
    except ModelError as why:
        return f"{name:16} no export: {why}"
    made = export.onnx.model(description)
    run = export.onnx.runner(made)
    parts = [run(X[i : i + 256]) for i in range(0, len(X), 256)]
    labels = np.concatenate([part["label"] for part in parts])
    wrong = int((labels.astype(str) != model.predict(X).astype(str)).sum())
    apart = ""
    if description.proba is not None:
        proba = np.concatenate([part["probabilities"] for part in parts])
        apart = f"{np.abs(proba - model.predict_proba(X)).max():.1e}"
    return f"{name:16} {len(X):6} rows {wrong:3} other labels {apart}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", required=True)
    parser.add_argument("names", nargs="+")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.names:
        data = datasets.load(name, given.data)
        X = datasets.TableEncoder().fit_transform(data.table)
        rows = np.random.RandomState(0).permutation(len(X))[:ROWS]
        print(f"{name}: {len(np.unique(data.y))} classes", flush=True)
        base = {c: OutputCodeClassifier(c).fit(X[rows], data.y[rows]) for c in ("ova", "ovo")}
        for decoder in decoders.DECODERS:
            for code, clf in base.items():
                if code == "ova" and decoder in ("coupling", "ddag"):
                    continue
                other = clf.with_decoder(decoder, X[rows])
                print(compared(f"{code}+{decoder}", other, X), flush=True)
        tuned = OutputCodeClassifierCV(random_state=0).fit(X[rows], data.y[rows])
        print(compared("tuned", tuned, X), flush=True)


if __name__ == "__main__":
    main()
