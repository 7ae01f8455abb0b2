"""How fit time and memory grow with rows and with classes.

    python benchmarks/growth.py [--rows 1000 ... 40000] [--classes 3 ... 1000] [--code ovo]

Every size is fitted in a new process, compiled before the clock starts. Printed are CPU seconds,
the peak of memory above what the process had before, over the size of the Gram matrix, and the
exponents b of a least-squares fit of seconds = a size^b.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys

import numpy as np

FIT = """
import json, resource, sys, time
import numpy as np
from outcode import OutputCodeClassifier
from outcode.machines import SVM
n, k, code = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
rng = np.random.RandomState(0)
y = np.arange(n) % k
X = 2.0 * rng.randn(k, 10)[y] + rng.randn(n, 10)
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
dtype = "float64" if n <= 2000 else "float32"
some = np.arange(n) < min(n, max(1200, 2 * k))
for part in (some, np.arange(n) < max(60, 2 * k)):
    clf = OutputCodeClassifier(code, SVM(C=10, dtype=dtype), "hamming", random_state=0)
    clf.fit(X[part], y[part])
before, start = peak(), time.process_time()
OutputCodeClassifier(code, SVM(C=10), "hamming", n_jobs=2, random_state=0).fit(X, y)
print(json.dumps([time.process_time() - start, peak() - before, n * n * np.dtype(dtype).itemsize]))
"""


def fit(n, k, code):
    command = [sys.executable, "-c", FIT, str(n), str(k), code]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def exponent(sizes, seconds):
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0]) if len(sizes) > 1 else np.nan


def table(title, sizes, measure):
    print(f"\n| {title} | CPU s | peak MB | over the Gram |\n|---|---|---|---|")
    seconds = []
    for size in sizes:
        spent, peak, gram = measure(size)
        seconds.append(spent)
        print(f"| {size:,} | {spent:.3f} | {peak / 2**20:.0f} | {peak / gram:.2f} |", flush=True)
    print(f"\nCPU seconds grow as {title} to the power {exponent(sizes, seconds):.2f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument(
        "--rows", nargs="*", type=int, default=[1000, 2500, 5000, 10000, 20000, 40000]
    )
    parser.add_argument("--classes", nargs="*", type=int, default=[3, 10, 30, 100, 300, 1000])
    parser.add_argument("--code", default="ovo")
    options = parser.parse_args()
    if options.rows:
        table("rows (10 classes)", options.rows, lambda n: fit(n, 10, options.code))
    if options.classes:
        table(
            "classes (3,000 rows)",
            options.classes,
            lambda k: fit(3000, k, options.code),
        )


if __name__ == "__main__":
    main()
