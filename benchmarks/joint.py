"""Joint machines against the direct dense solution of Eq. 10 [LZCX16], in one run.

    python benchmarks/joint.py --data FOLDER [--rows 0] [--rounds 3]
    python benchmarks/joint.py --data FOLDER --growth
    python benchmarks/joint.py --data FOLDER --zeros

Every fit runs in a process of its own, so that its peak memory is its own. Both alternate the same
number of rounds from M = I / L on vowel, one-vs-all, features standardised, one BLAS thread; the
direct form builds the system of all columns' rows, as printed, and solves it each round. Then the
paper's 7 x 7 grid with 5 folds on vehicle, one-vs-all. ``--growth`` prints how a fit grows with the
rows (pendigits) and with the columns instead; ``--zeros`` what codes with zeros cost with the
Gaussian kernel, by the splitting and by the paper's alternation (Eq. 10 and 15, at most so many
rounds), and the whole grid on glass and vehicle, one-vs-one.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.preprocessing import StandardScaler

from outcode import OutputCodeClassifier, codes, datasets, dichotomies
from outcode.machines import Joint
from outcode.parallel import single_blas
from outcode.selection import JointSearchCV

LAMBDA1, LAMBDA2 = 1e-4, 1e-3


def rows(folder, name, n, code="ova"):
    """n rows (all for n = 0), standardised, and the targets of a code."""
    data = datasets.load(name, folder)
    keep = np.random.RandomState(0).permutation(len(data.y))[: n or None]
    X = StandardScaler().fit_transform(data.X[keep])
    labels = np.unique(data.y[keep], return_inverse=True)[1]
    matrix = codes.code_matrix(code, labels.max() + 1, random_state=0)
    return X, dichotomies.targets(labels, matrix)


def kernel_matrix(X, kernel):
    return X @ X.T if kernel == "linear" else rbf_kernel(X, gamma=1 / X.shape[1])


def fit_ours(X, targets, job):
    machine = Joint(LAMBDA1, LAMBDA2, kernel=job["kernel"], gamma=1 / X.shape[1],
                    solver="alternation", max_iter=job["rounds"], tol=1e-300)  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        machine.fit(X, targets)
    return machine.training_margins_


def fit_direct(X, targets, job):
    """Eq. 10 of a code without zeros: alpha of all columns, one below the other, and the biases."""
    K, (n, L) = kernel_matrix(X, job["kernel"]), targets.shape
    y, M = targets.T.ravel().astype(float), np.eye(L) / L
    border = np.kron(np.eye(L), np.ones((n, 1))) * y[:, None]
    for _ in range(job["rounds"]):
        T = M @ np.linalg.inv(LAMBDA1 * M + LAMBDA2 * np.eye(L))
        system = np.zeros((n * L + L, n * L + L))
        for a in range(L):
            for b in range(L):
                block = system[a * n : (a + 1) * n, b * n : (b + 1) * n]
                np.multiply(K, T[a, b], out=block)
                block *= targets[:, a, None]
                block *= targets[:, b]
        system.flat[: n * L * (n * L + L + 1) : n * L + L + 1] += n / 2
        system[: n * L, n * L :], system[n * L :, : n * L] = border, border.T
        solution = np.linalg.solve(system, np.append(np.ones(n * L), np.zeros(L)))
        V = (solution[: n * L] * y).reshape(L, n).T
        values, vectors = np.linalg.eigh(T @ V.T @ K @ V @ T)
        M = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        M /= np.trace(M)
    return K @ V @ T + solution[n * L :]


def memory(what):
    """MiB of this process: VmRSS now, VmHWM at its peak (Linux)."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(what + ":")[1].split()[0]) / 1024


def child(job):
    """Fit once after a toy: CPU seconds, peak memory beyond the data's, margins to compare."""
    fit = fit_ours if job["form"] == "ours" else fit_direct
    toy = np.random.RandomState(0).randn(30, 3), np.where(np.eye(3)[np.arange(30) % 3] > 0, 1, -1)
    fit(*toy, job)
    X, targets = rows(job["data"], job["name"], job["n"], job["code"])
    before = memory("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    with single_blas():
        start = time.process_time()
        margins = fit(X, targets, job)
        seconds = time.process_time() - start
    peak = memory("VmHWM") - before
    print(json.dumps([seconds, peak, len(X), targets.shape[1], margins[:50].tolist()]))


def run(folder, form, n, **options):
    job = {"form": form, "n": n, "data": folder, "name": "vowel", "code": "ova",
           "kernel": "rbf", "rounds": 3, **options}  # fmt: skip
    command = [sys.executable, __file__, "--job", json.dumps(job)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout.strip().splitlines()[-1])


def compare(folder, n, rounds):
    print("| kernel | N | L | rounds | CPU s | direct | x | peak MiB | direct | x | largest "
          "difference of margins |")  # fmt: skip
    print("|" + "---|" * 11)
    for kernel in ("rbf", "linear"):
        ours = run(folder, "ours", n, kernel=kernel, rounds=rounds)
        direct = run(folder, "direct", n, kernel=kernel, rounds=rounds)
        apart = np.abs(np.array(ours[4]) - direct[4]).max()
        print(f"| {kernel} | {ours[2]} | {ours[3]} | {rounds} | {ours[0]:.3f} | {direct[0]:.1f} | "
              f"{direct[0] / max(ours[0], 1e-4):.0f} | {ours[1]:.1f} | {direct[1]:.0f} | "
              f"{direct[1] / max(ours[1], 0.1):.0f} | {apart:.1e} |", flush=True)  # fmt: skip


def grid(folder, settings):
    for name, code, kernel in settings:
        data = datasets.load(name, folder)
        X = StandardScaler().fit_transform(data.X)
        clf = OutputCodeClassifier(code, Joint(kernel=kernel), "llw", n_jobs=1)
        start = time.process_time()
        with single_blas():
            search = JointSearchCV(clf, cv=5).fit(X, data.y)
        seconds = time.process_time() - start
        print(f"{name}, {code}, {kernel}: 7 x 7 grid with 5 folds and the refit in {seconds:.1f} "
              f"CPU s, largest gap {search.results_['gap'].max():.1e}, error "
              f"{100 * (1 - search.best_score_):.1f} %, {search.best_params_}",
              flush=True)  # fmt: skip


def solve(X, targets, setting, solver, max_iter):
    """CPU seconds, iterations and gap of one fit."""
    machine = Joint(*setting, solver=solver, max_iter=max_iter)
    with warnings.catch_warnings(), single_blas():
        warnings.simplefilter("ignore", ConvergenceWarning)
        start = time.process_time()
        machine.fit(X, targets)
    return time.process_time() - start, machine.n_iter_, machine.gap_


def zeros(folder, rounds):
    print("| data | code | N | L | rows of all columns | lambda1 | lambda2 | CPU s | iterations | "
          "gap | alternation CPU s | rounds | gap |")  # fmt: skip
    print("|" + "---|" * 13)
    cases = [("glass", codes.SparseRandom(25), 60), ("glass", "ovo", 171), ("vehicle", "ovo", 0),
             ("vowel", "ovo", 0)]  # fmt: skip
    for name, code, n in cases:
        X, targets = rows(folder, name, n, code)
        for setting in [(1e-8, 1e-8), (1e-8, 1e-5), (1e-8, 1e-2), (1e-4, 1e-4)]:
            found = solve(X, targets, setting, "splitting", 1000)
            paper = solve(X, targets, setting, "alternation", rounds) if name != "vowel" else None
            print(f"| {name} | {code} | {len(X)} | {targets.shape[1]} | {np.count_nonzero(targets)}"
                  f" | {setting[0]:.0e} | {setting[1]:.0e} | {found[0]:.2f} | {found[1]} | "
                  f"{found[2]:.1e} | " + ("{:.2f} | {} | {:.1e} |".format(*paper) if paper
                                          else "- | - | - |"), flush=True)  # fmt: skip
    grid(folder, [("glass", "ovo", "rbf"), ("vehicle", "ovo", "rbf")])


def growth(folder):
    print("| code | kernel | N | L | CPU s | peak MiB |")
    print("|---|---|---|---|---|---|")
    settings = [("ova", "rbf", n) for n in (500, 1000, 2000)]
    settings += [("dense", "rbf", 1000), ("ova", "linear", 2000), ("ova", "linear", 7494)]
    settings += [("ovo", "linear", 2000), ("ovo", "rbf", 300)]
    for code, kernel, n in settings:
        found = run(folder, "ours", n, name="pendigits", code=code, kernel=kernel)
        print(f"| {code} | {kernel} | {found[2]} | {found[3]} | {found[0]:.2f} | {found[1]:.0f} |",
              flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--data", default=os.environ.get("OUTCODE_DATA"))
    parser.add_argument("--rows", type=int, default=0, help="rows of vowel; 0 is all 990")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--growth", action="store_true", help="growth with N and L instead")
    parser.add_argument("--zeros", action="store_true", help="codes with zeros instead")
    parser.add_argument("--job", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.job:
        child(json.loads(options.job))
    elif options.growth:
        growth(options.data)
    elif options.zeros:
        zeros(options.data, 30)
    else:
        compare(options.data, options.rows, options.rounds)
        grid(options.data, [("vehicle", "ova", "linear"), ("vehicle", "ova", "rbf")])


if __name__ == "__main__":
    main()
