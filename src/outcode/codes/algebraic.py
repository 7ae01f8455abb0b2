"""Codes of coding theory: BCH and Hadamard.

BCH codes need arithmetic in GF(2^m), whose elements are integers with bits as coefficients.
"""

from __future__ import annotations

import numpy as np

from outcode._checks import Array
from outcode.codes.common import Code, all_dense_columns, column_count, distinct_columns
from outcode.dichotomies import row_distances

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


class BCH(Code):
    """Codewords of a primitive narrow-sense BCH code over GF(2^m), as dense columns.

    The code of length N = 2^m - 1 >= n_columns with the largest designed distance that still has
    enough codewords is built; n_classes of its codewords are chosen far apart and ``n_columns``
    of its N positions kept, several times, and the choice with the largest minimum row distance
    wins.

    Parameters
    ----------
    n_columns : int or None, default=None
        Number of columns; None takes 3k, as [PPF04] section V. Up to five classes there are no more
        than 3k different columns at all: those are taken, which is the exhaustive code.
    n_draws : int, default=100
        Number of choices of codewords and positions, fewer for a large code.

    Examples
    --------
    >>> BCH().matrix(6, rng=0).shape
    (6, 18)
    """

    def __init__(self, n_columns: int | None = None, n_draws: int = 100) -> None:
        self.n_columns = n_columns
        self.n_draws = n_draws

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        most = 2 ** (n_classes - 1) - 1
        n_columns = column_count(self.n_columns, 3 * n_classes, n_classes, most)
        if n_columns == most:
            return all_dense_columns(n_classes)
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
    """Rows of a Sylvester-Hadamard matrix, the constant and the repeated columns left out.

    Examples
    --------
    >>> Hadamard().matrix(4)
    array([[ 1,  1,  1],
           [-1,  1, -1],
           [ 1, -1, -1],
           [-1, -1,  1]], dtype=int8)
    """

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        order = 1 << int(np.ceil(np.log2(n_classes)))
        index = np.arange(order)
        parity = np.array([[bin(i & j).count("1") % 2 for j in index] for i in index[:n_classes]])
        return distinct_columns((1 - 2 * parity).astype(np.int8))


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

    Parameters
    ----------
    m : int
        The code has length 2^m - 1.
    dimension : int
        Least dimension of the code: it has at least 2^dimension codewords.

    Returns
    -------
    int
        The polynomial over GF(2), bits as coefficients.

    Examples
    --------
    >>> bin(bch_generator(4, 7))
    '0b111010001'
    """
    generator, length = 1, 2**m - 1
    for _, poly in _minimal_polynomials(m):
        larger = _poly_product(generator, poly)
        if length - (larger.bit_length() - 1) < dimension:
            break
        generator = larger
    return generator


def bch_words(generator: int, m: int, messages: Array) -> Array:
    """Return the codewords of the ``messages`` (rows of bits) as a matrix of +1 and -1.

    Parameters
    ----------
    generator : int
        Generator polynomial, as :func:`bch_generator` returns it.
    m : int
        The code has length 2^m - 1.
    messages : ndarray of shape (n_messages, dimension)
        Bits of the messages, 0 or 1.

    Returns
    -------
    ndarray of shape (n_messages, 2^m - 1)
        The codewords; a bit 0 is +1, a bit 1 is -1.

    Examples
    --------
    >>> bch_words(bch_generator(3, 4), 3, np.array([[1, 0, 0, 0]]))
    array([[-1, -1,  1, -1,  1,  1,  1]], dtype=int8)
    """
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
        code = distinct_columns(words[np.ix_(rows, order)])[:, :n_columns]
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


NAMES: dict[str, type[Code]] = {"bch": BCH, "hadamard": Hadamard}
