"""Choosing landmarks: a sample that has rows of every class, then randomly pivoted Cholesky."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from outcode import kernels
from outcode._checks import Array

#: Candidates among which landmarks are chosen: ten for each, beyond MANY four, at most MAX.
MAX_CANDIDATES, MANY_CANDIDATES = 50_000, 20_000
#: Pivots drawn at a time.
BATCH = 128
#: What is left of a row's kernel value below this share of the mean one is rounding.
ROUNDING = 1e-5
#: A share of the kernel's trace beyond this that the landmarks do not span is said in a warning.
RESIDUAL_LIMIT = 0.5


def candidates(labels: Array, n_landmarks: int, rng: np.random.RandomState) -> Array:
    """Return sorted rows, classes in proportion but with at least 1/4 of an equal share each."""
    wanted = min(10 * n_landmarks, max(MANY_CANDIDATES, 4 * n_landmarks))
    size = min(len(labels), MAX_CANDIDATES, max(wanted, 1000))
    if size >= len(labels):
        return np.arange(len(labels))
    return stratified(labels, size, rng)


def stratified(labels: Array, size: int, rng: np.random.RandomState) -> Array:
    """Return about ``size`` sorted rows: proportional to the classes, at least a quarter share."""
    counts = np.bincount(labels)
    least = np.minimum(counts, int(np.ceil(size / (4.0 * np.count_nonzero(counts)))))
    share = np.maximum(least, np.floor(size * counts / counts.sum()).astype(int))
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.sort(order[place < np.repeat(share, counts)])


@dataclass(frozen=True)
class Choice:
    """Rows chosen as landmarks, and the share of the kernel's trace that they do not span."""

    rows: Array
    residual: float


def pivots(
    kernel: kernels.Kernel, rows: kernels.Rows, n_landmarks: int, rng: np.random.RandomState
) -> Choice:
    """Choose landmarks by randomly pivoted Cholesky (Chen, Epperly, Tropp & Webber 2025).

    Each pivot is drawn with a probability proportional to what is left of K(x, x) once the
    landmarks so far are projected out. Proposals are drawn a batch at a time and accepted with
    the probability that is left of them, which gives the same distribution with matrix products
    in the place of single rows.
    """
    n, left = len(rows), kernel.diagonal(rows).astype(np.float64)
    if n <= n_landmarks:
        return Choice(np.arange(n), 0.0)
    trace, factor = left.sum(), np.empty((n_landmarks, n), dtype=np.float32)
    chosen: list[int] = []
    floor = ROUNDING * trace / n
    while len(chosen) < n_landmarks and left.max() > floor:
        drawn = _draw(left, min(BATCH, max(8, n_landmarks - len(chosen))), rng)
        known = factor[: len(chosen)]
        block = kernel.block(rows[drawn], rows) - known[:, drawn].T @ known
        left[drawn] = np.minimum(left[drawn], np.maximum(block[np.arange(len(drawn)), drawn], 0.0))
        accepted = _accepted(block[:, drawn], left[drawn], floor, rng)
        kept = np.array(accepted[: n_landmarks - len(chosen)], dtype=np.int64)
        lower = np.linalg.cholesky(block[np.ix_(kept, drawn[kept])])
        rows_of = solve_triangular(lower, block[kept], lower=True, check_finite=False)
        factor[len(chosen) : len(chosen) + len(kept)] = rows_of
        chosen.extend(drawn[kept].tolist())
        left = np.maximum(left - (factor[len(known) : len(chosen)] ** 2).sum(axis=0), 0.0)
        left[chosen] = 0.0
    picked = np.sort(np.array(chosen))
    return Choice(_filled(picked, n, n_landmarks, rng), float(left.sum() / trace))


def _draw(left: Array, size: int, rng: np.random.RandomState) -> Array:
    return rng.choice(len(left), size=size, p=left / left.sum())


def _accepted(square: Array, left: Array, floor: float, rng: np.random.RandomState) -> list[int]:
    """Return the proposals kept, given what is left of the kernel among them.

    A pivot below ``floor`` is rounding of the single-precision factor and is never kept.
    """
    square, kept = square.copy(), []
    for i in range(len(square)):
        pivot = square[i, i]
        if pivot > max(1e-5 * left[i], floor) and rng.random_sample() * left[i] < pivot:
            kept.append(i)
            square -= np.outer(square[:, i], square[i]) / pivot
    return kept


def _filled(picked: Array, n: int, size: int, rng: np.random.RandomState) -> Array:
    """Return the rows picked, and others at random where the kernel had no more to give."""
    if len(picked) == size:
        return picked
    rest = np.setdiff1d(np.arange(n), picked)
    return np.sort(np.concatenate([picked, rng.permutation(rest)[: size - len(picked)]]))


def warn_residual(residual: float, n_landmarks: int) -> None:
    """Say in plain words when there are too few landmarks for the kernel."""
    if residual > RESIDUAL_LIMIT:
        warnings.warn(
            f"{n_landmarks} landmarks leave {residual:.0%} of the kernel unexplained: use more "
            f"landmarks, or a wider kernel (a smaller gamma; gamma='loo' finds one).",
            stacklevel=4,
        )
