"""Times of support vector machines under output codes against scikit-learn's, in one run.

    python benchmarks/speed.py --data FOLDER [--only NAME ...] [--repeat 3] [--large] [--searches]

--large adds 60,000 rows, whose peer takes minutes; --searches the tables of benchmarks/searches.py.

Each row is printed as a line of a table: CPU seconds of all threads and processes (the least of a
few runs, ours and the peer's in turn), their ratio, and both errors on held-out rows. Compilation
is timed in a new process with an empty cache; everything else is compiled before the clock starts.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from functools import partial

import numpy as np
from sklearn.calibration import CalibratedClassifierCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from outcode import OutputCodeClassifier, codes, datasets
from outcode.machines import SVM

#: A peer whose fit takes more seconds than this is fitted once.
SLOW = 5


def cpu():
    """CPU seconds of this process and of the ones it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in used)


def timed(function):
    start = cpu()
    result = function()
    return cpu() - start, result


def clouds(k, rows, seed=0, d=20, curved=False):
    """Rows of k classes around one centre each, or bent into a shell around it."""
    centres = np.random.RandomState(0).randn(k, d)
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(k), rows)
    noise = rng.randn(len(y), d)
    if curved:
        noise *= (1.0 + y[:, None] % 3) * np.sqrt(d) / np.linalg.norm(noise, axis=1)[:, None]
    return centres[y] + noise, y


def made(k, rows, **options):
    return clouds(k, rows, **options), clouds(k, max(1, rows // 2), seed=1, **options)


def strokes(n, seed=0, k=10, size=28):
    """Drawings in [0, 1] of k curves, each bent at random, as many of every class."""
    shapes = np.random.RandomState(0).randn(k, 2, 2, 3) / np.array([1.0, 1.5, 2.0])
    rng = np.random.RandomState(seed)
    y = np.arange(n) % k
    angle = np.linspace(0, 1.5 * np.pi, 16)[:, None] * np.arange(1, 4)
    waves = np.stack([np.cos(angle), np.sin(angle)])
    bent = shapes[y] + 0.3 * rng.randn(n, 2, 2, 3)
    points = (size - 1) / 2 + size / 6 * np.einsum("nxwh,wth->nxt", bent, waves)
    bumps = np.exp(-((points[..., None] - np.arange(size)) ** 2) / 2.0)
    X = np.minimum(1.0, bumps[:, 0].transpose(0, 2, 1) @ bumps[:, 1]).reshape(n, size**2)
    X[X < 0.1] = 0.0
    return X, y


def drawn(n_train, n_test):
    return strokes(n_train), strokes(n_test, seed=1)


def real(name, folder, n_train=None):
    """Features scaled to [0, 1]; the data set's own split, or the first rows to train on."""
    data = datasets.load(name, folder)
    low, high = data.X.min(axis=0), data.X.max(axis=0)
    X = (data.X - low) / np.where(high > low, high - low, 1.0)
    train = data.split == "train" if n_train is None else np.arange(len(X)) < n_train
    return (X[train], data.y[train]), (X[~train], data.y[~train])


def line(name, ours, peer, errors):
    print(
        f"| {name} | {ours:.3f} | {peer:.3f} | {peer / ours:.1f}x | "
        f"{100 * errors[0]:.2f} % | {100 * errors[1]:.2f} % |",
        flush=True,
    )


def compare(name, data, ours, peer, repeat, methods=("predict",)):
    """Print the fits of both, then the predictions of both, with their errors."""
    train, test = data
    seconds = {method: ([], []) for method in ("fit", *methods)}
    for run in range(repeat):
        for side, clf in enumerate((ours, peer)):
            if side and run and seconds["fit"][1][0] > SLOW:
                continue  # one run of a slow peer is enough
            seconds["fit"][side].append(timed(lambda clf=clf: clf.fit(*train))[0])
            for method in methods:
                predict = partial(getattr(clf, method), test[0])
                seconds[method][side].append(timed(predict)[0])
    errors = [float(np.mean(clf.predict(test[0]) != test[1])) for clf in (ours, peer)]
    for method, both in seconds.items():
        line(f"{name}, {method}", *map(min, both), errors)


def classifier(code, decoder="hamming", **machine):
    return OutputCodeClassifier(code, SVM(**machine), decoder, n_jobs=2, random_state=0)


def rows(folder, large=False):
    """The lines of the table: a name, and a function of the number of runs that prints them."""
    letter, satimage = partial(real, "letter", folder, 16_000), partial(real, "satimage", folder)
    pairs = {
        "100 classes, 1,100 rows, one-vs-one": (
            partial(made, 100, 11),
            classifier("ovo", C=10),
            SVC(C=10),
        ),
        "150 classes, 4,200 rows, one-vs-one": (
            partial(made, 150, 28),
            classifier("ovo", C=10),
            SVC(C=10),
        ),
        "100 classes, coupled probabilities": (
            partial(made, 100, 11),
            classifier("ovo", "coupling", C=10),
            coupled(C=10),
            "predict_proba",
            "predict",
        ),
        "150 classes with likelihood": (
            partial(made, 150, 28),
            classifier("ovo", "likelihood", C=10),
            CalibratedClassifierCV(SVC(C=10), ensemble=False),
            "predict_proba",
        ),
        "letter 16,000 rows, one-vs-all": (
            letter,
            classifier("ova", "hinge", C=10, gamma=16),
            OneVsRestClassifier(SVC(C=10, gamma=16, cache_size=1000)),  # workers' CPU is unseen
        ),
        "letter 16,000 rows, one-vs-one": (
            letter,
            classifier("ovo", C=10, gamma=16),
            SVC(C=10, gamma=16, cache_size=1000),
        ),
        "satimage, one-vs-one": (
            satimage,
            classifier("ovo", C=10, gamma=8),
            SVC(C=10, gamma=8),
        ),
        "satimage, one-vs-one with likelihood": (
            satimage,
            classifier("ovo", "likelihood", C=10, gamma=8),
            CalibratedClassifierCV(SVC(C=10, gamma=8), ensemble=False),
        ),
        "drawings 20,000 rows x 784, one-vs-one": (
            partial(drawn, 20_000, 10_000),
            classifier("ovo", C=10),
            SVC(C=10),
        ),
    }
    if large:
        data = partial(drawn, 60_000, 2_000)
        pairs["drawings 60,000 rows x 784, one-vs-one"] = data, classifier("ovo", C=10), SVC(C=10)
    table = {name: partial(run_pair, name, *parts) for name, parts in pairs.items()}
    table["random codes"] = random_codes
    table["one row"] = one_row
    table["first fit"] = first_fit
    return table


def run_pair(name, data, ours, peer, *methods, repeat):
    compare(name, data(), ours, peer, repeat, methods or ("predict",))


def coupled(C):
    """SVC with the probabilities of LIBSVM, which are coupled from pairs as well."""
    warnings.filterwarnings("ignore", "The `probability` parameter", FutureWarning)
    return SVC(C=C, probability=True, random_state=0)


def random_codes(repeat):
    for name in ("dense", "sparse"):
        for k in (100, 1000):
            draw = partial(codes.code_matrix, name, k, random_state=0)
            seconds = min(timed(draw)[0] for _ in range(repeat))
            print(f"| code {name!r} of {k:,} classes | {seconds:.3f} | | | | |", flush=True)


def one_row(repeat):
    """Wall-clock milliseconds of one predicted row, the median of 200."""
    (X, y), _ = made(10, 100)
    for name, clf in (
        ("one-vs-all", classifier("ova", "hinge")),
        ("one-vs-one", classifier("ovo")),
    ):
        medians = []
        for model in (clf.fit(X, y), SVC().fit(X, y)):
            times = []
            for i in range(200):
                start = time.perf_counter()
                model.predict(X[i : i + 1])
                times.append(1e3 * (time.perf_counter() - start))
            medians.append(np.median(times))
        print(f"| one row, {name}, ms | {medians[0]:.2f} | {medians[1]:.2f} | | | |", flush=True)


FIRST = """
import time, numpy as np
from outcode import OutputCodeClassifier
from outcode.machines import SVM
y = np.arange({n}) % 3
X = np.random.RandomState(0).randn({n}, 3) + y[:, None]
start = time.process_time()
OutputCodeClassifier({code!r}, SVM(dtype={dtype!r})).fit(X, y).predict(X)
print(time.process_time() - start)
"""


def first_fit(repeat):
    """CPU seconds of the first fit in a new process, with nothing compiled before."""
    for n, code, dtype in ((60, "ovo", None), (60, "ovo", "float32"), (1200, "ova", None)):
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
            script = FIRST.format(n=n, code=code, dtype=dtype)
            command = [sys.executable, "-c", script]
            out = subprocess.run(
                command, env=environment, capture_output=True, text=True, check=True
            )
        name = f"first fit, {n:,} rows, {code}, {dtype or 'float64'}"
        print(f"| {name} | {float(out.stdout):.2f} | | | | |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"))
    parser.add_argument("--only", nargs="*", default=[], help="lines whose name begins so")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--large", action="store_true", help="60,000 rows as well")
    parser.add_argument("--searches", action="store_true", help="benchmarks/searches.py as well")
    options = parser.parse_args()
    touched = np.ones(2**28)  # a virtual machine backs memory when it is first touched
    del touched
    toy = clouds(3, 300)
    for code in ("ova", "ovo"):  # compile before the clock starts
        for dtype in ("float32", "float64"):
            classifier(code, dtype=dtype).fit(*toy).predict(toy[0])
    print("| work | ours, CPU s | peer | ratio | our error | peer's |\n|---|---|---|---|---|---|")
    for name, run in rows(options.data, options.large).items():
        if not options.only or any(name.startswith(start) for start in options.only):
            run(repeat=options.repeat)
    if options.searches:
        script = os.path.join(os.path.dirname(__file__), "searches.py")
        for cv in ("5", "3"):
            command = [sys.executable, script, "--data", options.data, "--cv", cv]
            subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=True)


if __name__ == "__main__":
    main()
