"""What DynamicReliability adds to plain prediction: letter, 26 columns, 4,000 rows to predict.

    python benchmarks/reliability.py --data DIR

Plain prediction and prediction with neighbours alternate in one run; medians are printed, of the
seconds on the clock and of the CPU seconds of all threads, which a busy machine changes less.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from outcode import OutputCodeClassifier, datasets
from outcode.decoders import DynamicReliability
from outcode.machines import SVM


def seconds(function, *args):
    """Seconds on the clock, and CPU seconds."""
    start, used = time.perf_counter(), time.process_time()
    function(*args)
    return time.perf_counter() - start, time.process_time() - used


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
    print(f"fit {seconds(drm.fit, X, y)[0]:.1f} s, {len(drm.machine_.support_)} support rows")
    plain = drm.with_decoder("linear")
    plain.predict(Z), drm.predict(Z)
    times = np.array(
        [(seconds(plain.predict, Z), seconds(drm.predict, Z)) for _ in range(options.repeat)]
    )
    for clock, (base, total) in zip(("clock", "CPU"), np.median(times, axis=0).T, strict=True):
        print(f"{clock}: plain {base:.3f} s, with neighbours {total:.3f} s, ", end="")
        print(f"extra {(total - base) / base:.2f} x plain")


if __name__ == "__main__":
    main()
