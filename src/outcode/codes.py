"""Codes: n_classes (and, if a code wants it, the data) -> a matrix of +1, -1 and 0.

Rows are codewords, columns are two-class problems. A code is a small parameter object with one
verb, :meth:`Code.matrix`; a code that does not look at the data defines :meth:`Code.draw` instead.
To add one, write the class here and enter its name at the foot.
"""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from outcode._checks import Array, lookup
from outcode.dichotomies import row_distances, separation, validate

#: Beyond this many classes an exhaustive code has more columns than anyone can train.
EXHAUSTIVE_LIMIT = 15


class Code(BaseEstimator):
    """A way to write ``n_classes`` classes as codewords."""

    def matrix(
        self,
        n_classes: int,
        X: Any = None,
        labels: Array | None = None,
        machine: Any = None,
        rng: np.random.RandomState | None = None,
    ) -> Array:
        """Return the (n_classes, n_dichotomies) int8 code."""
        return self.draw(n_classes, check_random_state(rng))

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        """Return the code, for those that do not look at the data."""
        raise NotImplementedError(f"{type(self).__name__} must define draw() or matrix()")


class OneVsAll(Code):
    """One column per class: this class against all others.

    >>> OneVsAll().matrix(3)
    array([[ 1, -1, -1],
           [-1,  1, -1],
           [-1, -1,  1]], dtype=int8)
    """

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        if n_classes == 2:
            return _two_classes()
        return (2 * np.eye(n_classes) - 1).astype(np.int8)


class OneVsOne(Code):
    """One column per pair of classes; the other classes are not used by it.

    >>> OneVsOne().matrix(3)
    array([[ 1,  1,  0],
           [-1,  0,  1],
           [ 0, -1, -1]], dtype=int8)
    """

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        if n_classes == 2:
            return _two_classes()
        first, second = np.triu_indices(n_classes, 1)
        code = np.zeros((n_classes, len(first)), dtype=np.int8)
        code[first, np.arange(len(first))] = 1
        code[second, np.arange(len(first))] = -1
        return code


class Exhaustive(Code):
    """Every way to split the classes in two: 2^(k-1) - 1 columns (Dietterich & Bakiri 1995)."""

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        if n_classes > EXHAUSTIVE_LIMIT:
            raise ValueError(
                f"An exhaustive code for {n_classes} classes has 2^{n_classes - 1} - 1 = "
                f"{2 ** (n_classes - 1) - 1:,} columns; it is offered up to {EXHAUSTIVE_LIMIT} "
                f"classes. Use 'dense' or 'bch' instead."
            )
        return _all_dense_columns(n_classes)


class DenseRandom(Code):
    """Random +1/-1 columns; of many draws the one with the largest minimum row distance.

    ``n_columns=None`` takes ceil(10 log2 k) columns (Allwein, Schapire & Singer 2000), or all
    2^(k-1) - 1 there are.
    """

    def __init__(self, n_columns: int | None = None, n_draws: int = 1000) -> None:
        self.n_columns = n_columns
        self.n_draws = n_draws

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        most = 2 ** (n_classes - 1) - 1
        n_columns = _n_columns(self.n_columns, 10 * np.log2(n_classes), n_classes, most)
        pool = _all_dense_columns(n_classes) if n_classes <= 12 else None
        return _best_draw(_draw_dense, n_classes, n_columns, pool, self.n_draws, rng)


class SparseRandom(Code):
    """Random columns, each entry 0 with probability 1/2 and +1 or -1 with probability 1/4.

    ``n_columns=None`` takes ceil(15 log2 k) columns (Allwein, Schapire & Singer 2000), or all
    (3^k - 2^(k+1) + 1) / 2 there are. Of many draws the one with the largest minimum row
    distance, every pair of rows separated.
    """

    def __init__(self, n_columns: int | None = None, n_draws: int = 1000) -> None:
        self.n_columns = n_columns
        self.n_draws = n_draws

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        most = (3**n_classes - 2 ** (n_classes + 1) + 1) // 2
        n_columns = _n_columns(self.n_columns, 15 * np.log2(n_classes), n_classes, most)
        pool = _all_ternary_columns(n_classes) if n_classes <= 7 else None
        return _best_draw(_draw_sparse, n_classes, n_columns, pool, self.n_draws, rng)


class BCH(Code):
    """Codewords of a primitive narrow-sense BCH code over GF(2^m), as dense columns.

    The code of length N = 2^m - 1 >= n_columns with the largest designed distance that still has
    enough codewords is built; n_classes of its codewords are chosen far apart and ``n_columns``
    of its N positions kept, several times, and the choice with the largest minimum row distance
    wins. ``n_columns=None`` takes 3k, as [PPF04] section V. Up to five classes there are
    no more than 3k different columns at all: those are taken.
    """

    def __init__(self, n_columns: int | None = None, n_draws: int = 100) -> None:
        self.n_columns = n_columns
        self.n_draws = n_draws

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        most = 2 ** (n_classes - 1) - 1
        n_columns = _n_columns(self.n_columns, 3 * n_classes, n_classes, most)
        if n_columns == most:
            return _all_dense_columns(n_classes)
        shortest = max(3, int(np.ceil(np.log2(n_columns + 1))))
        for m in range(shortest, shortest + 3):  # few classes repeat columns: then a longer code
            dimension = int(np.ceil(np.log2(n_classes))) + 2
            words = _some_words(bch_generator(m, dimension), m, rng)
            code = _best_subcode(words, n_classes, n_columns, self.n_draws, rng)
            if code is not None:
                return code
        raise ValueError(
            f"No BCH subcode with {n_columns} different columns found for {n_classes} classes: "
            f"ask for fewer columns, or use 'dense'."
        )


class Hadamard(Code):
    """Rows of a Sylvester-Hadamard matrix, the constant and the repeated columns left out."""

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        order = 1 << int(np.ceil(np.log2(n_classes)))
        index = np.arange(order)
        parity = np.array([[bin(i & j).count("1") % 2 for j in index] for i in index[:n_classes]])
        return _distinct_columns((1 - 2 * parity).astype(np.int8))


class Ordinal(Code):
    """For ordered classes: column j asks whether the class lies above j (Frank & Hall 2001).

    >>> Ordinal().matrix(3)
    array([[-1, -1],
           [ 1, -1],
           [ 1,  1]], dtype=int8)
    """

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        above = np.arange(n_classes)[:, None] > np.arange(n_classes - 1)
        return np.where(above, 1, -1).astype(np.int8)


def code_matrix(
    code: Any,
    n_classes: int,
    X: Any = None,
    y: Any = None,
    machine: Any = None,
    random_state: Any = None,
) -> Array:
    """Return the checked matrix of a code given by name, by object or as a matrix.

    >>> code_matrix("ova", 3).shape
    (3, 3)
    """
    names: Any = None
    labels = None
    if y is not None:
        names, labels = np.unique(y, return_inverse=True)
    return resolve(code, n_classes, names, X, labels, machine, check_random_state(random_state))


def resolve(
    code: Any,
    n_classes: int,
    class_names: Any = None,
    X: Any = None,
    labels: Array | None = None,
    machine: Any = None,
    rng: np.random.RandomState | None = None,
) -> Array:
    """Return the checked matrix of ``code`` for classes already numbered 0..n_classes-1."""
    if isinstance(code, str):
        code = lookup(CODES, code, "code")()
    if hasattr(code, "matrix"):
        code = code.matrix(n_classes, X=X, labels=labels, machine=machine, rng=rng)
    matrix = validate(code, class_names if np.shape(code)[:1] == (n_classes,) else None)
    if len(matrix) != n_classes:
        raise ValueError(
            f"The code has {len(matrix)} rows, but the data has {n_classes} classes: "
            f"give one row per class, in the order of the sorted labels."
        )
    return matrix


def _two_classes() -> Array:
    return np.array([[-1], [1]], dtype=np.int8)


def _n_columns(asked: int | None, usual: float, n_classes: int, most: int) -> int:
    """Return how many columns to draw, or an error if the classes do not allow as many."""
    if asked is None:
        return int(min(np.ceil(usual), most))
    least = int(np.ceil(np.log2(n_classes)))
    if not least <= asked <= most:
        raise ValueError(
            f"{n_classes} classes allow between {least} and {most} different columns, "
            f"got n_columns={asked}."
        )
    return int(asked)


def _all_dense_columns(n_classes: int) -> Array:
    """Every +1/-1 column once, up to sign: the first class is always +1."""
    count = np.arange(2 ** (n_classes - 1) - 1)
    bits = (count[None, :] >> np.arange(n_classes - 2, -1, -1)[:, None]) & 1
    first = np.ones((1, len(count)), dtype=np.int8)
    return np.vstack([first, 2 * bits - 1]).astype(np.int8)


def _all_ternary_columns(n_classes: int) -> Array:
    """Every +1/-1/0 column with both signs once, up to sign."""
    columns = np.array(list(product((1, 0, -1), repeat=n_classes)), dtype=np.int8).T
    both = (columns > 0).any(axis=0) & (columns < 0).any(axis=0)
    columns = columns[:, both]
    leading = columns[(columns != 0).argmax(axis=0), np.arange(columns.shape[1])]
    return columns[:, leading > 0]


def _draw_dense(n_classes: int, n_columns: int, rng: np.random.RandomState) -> Array:
    return (2 * rng.randint(2, size=(n_classes, n_columns)) - 1).astype(np.int8)


def _draw_sparse(n_classes: int, n_columns: int, rng: np.random.RandomState) -> Array:
    return np.array([0, 0, 1, -1], dtype=np.int8)[rng.randint(4, size=(n_classes, n_columns))]


def _best_draw(
    draw: Any, n_classes: int, n_columns: int, pool: Array | None, n_draws: int, rng: Any
) -> Array:
    """Of many codes drawn, return the one whose closest two rows are farthest apart."""
    best, best_distance = None, -1.0
    upper = np.triu_indices(n_classes, 1)
    # a draw costs k^2 columns operations: fewer draws when there are very many classes
    n_draws = max(20, min(n_draws, int(3e9 / (n_classes**2 * n_columns))))
    for _ in range(n_draws):
        code = _candidate(draw, n_classes, n_columns, pool, rng)
        if code is None or separation(code)[upper].min() == 0:
            continue
        distance = row_distances(code)[upper].min()
        if distance > best_distance:
            best, best_distance = code, distance
        if pool is not None and pool.shape[1] == n_columns:
            break
    if best is None:
        raise ValueError(
            f"None of {n_draws} random codes with {n_columns} columns separates every pair of "
            f"{n_classes} classes: ask for more columns (n_columns) or more draws (n_draws)."
        )
    return best


def _candidate(
    draw: Any, n_classes: int, n_columns: int, pool: Array | None, rng: np.random.RandomState
) -> Array | None:
    """Draw columns with both signs, none twice and none the negative of another."""
    if pool is not None:
        return _pooled(draw, n_classes, n_columns, pool, rng)
    code = _distinct_columns(draw(n_classes, n_columns, rng))
    for _ in range(100):
        missing = n_columns - code.shape[1]
        if missing <= 0:
            return code[:, :n_columns]
        more = draw(n_classes, missing + 2, rng)
        code = _distinct_columns(np.hstack([code, more]))
    return None


def _pooled(
    draw: Any, n_classes: int, n_columns: int, pool: Array, rng: np.random.RandomState
) -> Array:
    """Draw without replacement from all columns, as often as ``draw`` would have met each."""
    used = (pool != 0).sum(axis=0)
    # P(column) under draw: 1/4 for each sign and 1/2 for each zero; flat for a pool without zeros
    weight = 0.5 ** used.astype(float)
    chosen = rng.choice(pool.shape[1], size=n_columns, replace=False, p=weight / weight.sum())
    return pool[:, chosen]


def _distinct_columns(code: Array) -> Array:
    """Drop columns with one sign only, and every repeat or negative of an earlier one."""
    code = code[:, (code > 0).any(axis=0) & (code < 0).any(axis=0)]
    leading = code[(code != 0).argmax(axis=0), np.arange(code.shape[1])]
    _, first = np.unique(code * leading, axis=1, return_index=True)
    return code[:, np.sort(first)]


# --- BCH codes: arithmetic in GF(2^m), elements as integers whose bits are coefficients ---

#: One primitive polynomial of each degree m over GF(2), bits as coefficients.
PRIMITIVE = {
    3: 0b1011,
    4: 0b10011,
    5: 0b100101,
    6: 0b1000011,
    7: 0b10001001,
    8: 0b100011101,
    9: 0b1000010001,
    10: 0b10000001001,
    11: 0b100000000101,
    12: 0b1000001010011,
    13: 0b10000000011011,
    14: 0b100010001000011,
}


def _powers(m: int) -> list[int]:
    """Return alpha^0, alpha^1, ... alpha^(2^m - 2) for a root alpha of the primitive polynomial."""
    if m not in PRIMITIVE:
        raise ValueError(
            f"BCH codes are offered up to length {2 ** max(PRIMITIVE) - 1}: ask for fewer columns."
        )
    powers = [1]
    for _ in range(2**m - 2):
        nxt = powers[-1] << 1
        powers.append(nxt ^ PRIMITIVE[m] if nxt >> m else nxt)
    return powers


def _minimal_polynomials(m: int) -> list[tuple[int, int]]:
    """Return (smallest exponent, minimal polynomial) of each cyclotomic coset, in order."""
    powers, size = _powers(m), 2**m - 1
    logs = {value: exponent for exponent, value in enumerate(powers)}
    seen: set[int] = set()
    found = []
    for start in range(1, size):
        if start in seen:
            continue
        coset = [start]
        while (nxt := coset[-1] * 2 % size) != start:
            coset.append(nxt)
        seen.update(coset)
        poly = [1]  # coefficients in GF(2^m), lowest first: the product of (x + alpha^e)
        for exponent in coset:
            shifted = [0, *poly]
            scaled = [powers[(logs[c] + exponent) % size] if c else 0 for c in poly] + [0]
            poly = [a ^ b for a, b in zip(shifted, scaled, strict=True)]
        found.append((start, sum(bit << i for i, bit in enumerate(poly))))
    return found


def _poly_product(a: int, b: int) -> int:
    """Multiply two polynomials over GF(2)."""
    result = 0
    while b:
        if b & 1:
            result ^= a
        a, b = a << 1, b >> 1
    return result


def bch_generator(m: int, dimension: int) -> int:
    """Return the generator polynomial of the BCH code of length 2^m - 1 and least dimension >= it.

    The generator is the product of the minimal polynomials of alpha, alpha^2, ... alpha^(2t),
    with t as large as ``dimension`` allows.
    """
    generator, length = 1, 2**m - 1
    for _, poly in _minimal_polynomials(m):
        larger = _poly_product(generator, poly)
        if length - (larger.bit_length() - 1) < dimension:
            break
        generator = larger
    return generator


def bch_words(generator: int, m: int, messages: Array) -> Array:
    """Return the codewords of the ``messages`` (rows of bits) as a matrix of +1 and -1."""
    length = 2**m - 1
    dimension = length - (generator.bit_length() - 1)
    bits = np.array([generator >> i & 1 for i in range(generator.bit_length())])
    basis = np.zeros((dimension, length), dtype=np.int64)
    for row in range(dimension):
        basis[row, row : row + len(bits)] = bits
    return (1 - 2 * (messages @ basis % 2)).astype(np.int8)


def _some_words(generator: int, m: int, rng: np.random.RandomState) -> Array:
    """Return all codewords, or 4,096 of them when there are more."""
    dimension = 2**m - 1 - (generator.bit_length() - 1)
    if dimension <= 12:
        count = np.arange(2**dimension)
        return bch_words(generator, m, (count[:, None] >> np.arange(dimension)) & 1)
    messages = np.unique(rng.randint(2, size=(4096, dimension)), axis=0)
    return bch_words(generator, m, messages)


def _best_subcode(
    words: Array, n_classes: int, n_columns: int, n_draws: int, rng: np.random.RandomState
) -> Array | None:
    """Keep some positions and some words, several times; return the best code, if any."""
    best, best_distance = None, -1.0
    n_draws = max(5, min(n_draws, int(2e9 / (n_classes * words.size))))
    words = words[words[:, 0] > 0]  # a word and its complement say the same about the columns
    for _ in range(n_draws):
        order = rng.permutation(words.shape[1])
        rows = _spread_rows(words[:, order[:n_columns]], n_classes, rng)
        code = _distinct_columns(words[np.ix_(rows, order)])[:, :n_columns]
        if code.shape[1] < n_columns:
            continue
        distance = row_distances(code)[np.triu_indices(n_classes, 1)].min()
        if distance > best_distance:
            best, best_distance = code, distance
    return best if best_distance > 0 else None


def _spread_rows(words: Array, n_classes: int, rng: np.random.RandomState) -> Array:
    """Choose row numbers one after the other, each as far as possible from those chosen before."""
    signs = words.astype(np.float32)
    chosen = [int(rng.randint(len(words)))]
    nearest = np.full(len(words), np.inf)
    for _ in range(n_classes - 1):
        distance = (words.shape[1] - signs @ signs[chosen[-1]]) / 2
        nearest = np.minimum(nearest, distance)
        farthest = np.flatnonzero(nearest == nearest.max())
        chosen.append(int(farthest[rng.randint(len(farthest))]))
    return np.array(chosen)


CODES: dict[str, type[Code]] = {
    "ova": OneVsAll,
    "ovo": OneVsOne,
    "exhaustive": Exhaustive,
    "dense": DenseRandom,
    "sparse": SparseRandom,
    "bch": BCH,
    "hadamard": Hadamard,
    "ordinal": Ordinal,
}
