"""What DynamicReliability adds to plain prediction: letter, 26 columns, 4,000 rows to predict.

    python benchmarks/reliability.py --data DIR

Plain prediction and prediction with neighbours alternate in one run; medians are printed.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from outcode import OutputCodeClassifier, datasets
from outcode.decoders import DynamicReliability
from outcode.machines import SVM


def seconds(function, *args):
    start = time.perf_counter()
    function(*args)
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", help="folder of the data sets; else OUTCODE_DATA")
    parser.add_argument("--rows", type=int, default=16_000, help="training rows")
    parser.add_argument("--repeat", type=int, default=7)
    options = parser.parse_args()
    letter = datasets.load("letter", options.data)
    train, test = letter.split == "train", letter.split == "test"
    X, y = letter.X[train][: options.rows] / 15.0, letter.y[train][: options.rows]
    Z = letter.X[test] / 15.0
    machine = SVM(gamma=7.0, C=1.0, bias="free")
    drm = OutputCodeClassifier("ova", machine, DynamicReliability(k=5))
    print(f"fit {seconds(drm.fit, X, y):.1f} s, {len(drm.machine_.support_)} support rows")
    plain = drm.with_decoder("linear")
    plain.predict(Z), drm.predict(Z)
    times = np.array(
        [(seconds(plain.predict, Z), seconds(drm.predict, Z)) for _ in range(options.repeat)]
    )
    base, total = np.median(times, axis=0)
    extra = np.median(times[:, 1] - times[:, 0])
    print(f"plain {base:.3f} s, with neighbours {total:.3f} s, extra {extra / base:.2f} x plain")


if __name__ == "__main__":
    main()
