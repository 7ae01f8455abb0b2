"""Labels and a code make two-class problems; the code doctor says what a code is worth.

``code`` is (n_classes, n_dichotomies) int8 with entries +1, -1 and 0 (class not used by that
column). Two rows are *separated* when some column gives them opposite signs: only then can the
machines tell the two classes apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from outcode import notebooks
from outcode._checks import Array
from outcode.parallel import single_blas

#: A code of more columns than this is multiplied as a sparse matrix.
MANY_COLUMNS = 1000


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong or weak about a code.

    Parameters
    ----------
    code : str
        Code of the finding, a key of :data:`FINDINGS`.
    message : str
        The finding in plain words.
    fatal : bool
        Whether the code cannot be used.
    """

    code: str
    message: str
    fatal: bool

    def __str__(self) -> str:
        return f"{self.code} {self.message}"


#: What each finding means, and whether a classifier refuses such a code.
FINDINGS = {
    "OC001": ("two classes share a codeword", True),
    "OC002": ("no column separates two classes", True),
    "OC003": ("a column has only one sign", True),
    "OC004": ("two columns are the same problem", False),
    "OC005": ("two columns are the same problem with the signs swapped", False),
    "OC006": ("a column is very unbalanced", False),
    "OC007": ("no column error can be corrected", False),
}


@dataclass(frozen=True)
class Diagnosis:
    """What :func:`diagnose` measured on a code.

    The distance of two rows is the Hamming distance with a zero counted as 1/2 (Allwein et al.
    2000).

    Parameters
    ----------
    n_classes : int
        Number of classes.
    n_dichotomies : int
        Number of columns.
    min_distance : float
        Smallest distance of two rows.
    mean_distance : float
        Mean distance of two rows.
    separated_pairs : int
        Number of pairs of classes that at least one column separates.
    pairs : int
        Number of pairs of classes.
    balance : ndarray of shape (n_dichotomies,)
        Share of a column's smaller side among the classes it uses.
    correction : int
        Number of wrong columns that are corrected for certain (:func:`correction`).
    repeated_columns : int
        Number of columns that repeat another.
    complementary_columns : int
        Number of columns that are the negative of another.
    findings : tuple of Finding
        What is wrong or weak about the code.
    """

    n_classes: int
    n_dichotomies: int
    min_distance: float
    mean_distance: float
    separated_pairs: int
    pairs: int
    balance: Array
    correction: int
    repeated_columns: int
    complementary_columns: int
    findings: tuple[Finding, ...]

    def __str__(self) -> str:
        head = (
            f"{self.n_classes} classes x {self.n_dichotomies} columns; row distance "
            f"min {self.min_distance:g}, mean {self.mean_distance:.2f}; corrects "
            f"{self.correction} wrong columns; "
            f"{self.separated_pairs} of {self.pairs} pairs separated"
        )
        return "\n".join([head, *map(str, self.findings)])

    def _repr_html_(self) -> str:
        facts = {
            "code": f"{self.n_classes} classes x {self.n_dichotomies} columns",
            "row distance": f"min {self.min_distance:g}, mean {self.mean_distance:.2f}",
            "wrong columns corrected": self.correction,
            "pairs separated": f"{self.separated_pairs} of {self.pairs}",
        }
        rows = [(f.code, f.message, "unusable" if f.fatal else "weak") for f in self.findings]
        findings = [notebooks.table(("finding", "meaning", "effect"), rows)] if rows else []
        return notebooks.card("Diagnosis of a code", facts, *findings)


def targets(labels: Array, code: Array) -> Array:
    """Return ``code[labels]``: the sign of every row in every column, 0 where it is not used.

    Parameters
    ----------
    labels : ndarray of int of shape (n_samples,)
        Index of the class of each row.
    code : ndarray of shape (n_classes, n_dichotomies)
        Code matrix of +1, -1 and 0.

    Returns
    -------
    ndarray of shape (n_samples, n_dichotomies)
        The signs.

    Examples
    --------
    >>> targets(np.array([0, 2]), np.array([[1, -1], [-1, 1], [0, 1]], dtype=np.int8))
    array([[ 1, -1],
           [ 0,  1]], dtype=int8)
    """
    return np.asarray(code, dtype=np.int8)[labels]


@dataclass(frozen=True, eq=False)
class Coded:
    """The targets ``code[labels]``, made only for those who ask: many columns make them large.

    >>> np.asarray(Coded(np.array([[1, -1], [-1, 1]]), np.array([0, 1, 1]))).tolist()
    [[1, -1], [-1, 1], [-1, 1]]
    """

    code: Array
    labels: Array

    @property
    def shape(self) -> tuple[int, int]:
        """(n_samples, n_columns)"""
        return len(self.labels), self.code.shape[1]

    def __len__(self) -> int:
        return len(self.labels)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        return targets(self.labels, self.code).astype(dtype or np.int8, copy=False)


def distinct(signs: Any) -> tuple[Array, Array]:
    """Return targets as a code and labels: the rows that differ, and which of them each one is."""
    if isinstance(signs, Coded):
        present, label = np.unique(signs.labels, return_inverse=True)
        code = np.asarray(signs.code)
        return code if len(present) == len(code) else code[present], label
    signs, number = np.asarray(signs), dict[bytes, int]()
    rows = (number.setdefault(row.tobytes(), len(number)) for row in signs)
    label = np.fromiter(rows, dtype=np.intp, count=len(signs))
    return signs[np.unique(label, return_index=True)[1]], label


def margin_requirements(labels: Array, k: int) -> Array:
    """Return b_ir = 1 - [r = y_i], (n_classes, n). [CS02] Eq. 11"""
    b = np.ones((k, len(labels)))
    b[labels, np.arange(len(labels))] = 0.0
    return b


def row_distances(code: Array) -> Array:
    """Return the (n_classes, n_classes) Hamming distances of the rows, a zero counting 1/2.

    Parameters
    ----------
    code : ndarray of shape (n_classes, n_dichotomies)
        Code matrix of +1, -1 and 0.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        The distances.

    Examples
    --------
    >>> row_distances(np.array([[1, 1, 0], [-1, 0, 1], [0, -1, -1]])).tolist()
    [[0.0, 2.0, 2.0], [2.0, 0.0, 2.0], [2.0, 2.0, 0.0]]
    """
    distance = (code.shape[1] - _products(code, code)) / 2
    np.fill_diagonal(distance, 0.0)
    return distance


def own_entries(code: Array) -> Array:
    """Return the code less each column's commonest entry, which adds the same to all classes.

    For one-vs-all this is twice the identity.

    >>> own_entries(np.array([[1, -1, -1], [-1, 1, -1], [-1, -1, 1]])).astype(int).tolist()
    [[2, 0, 0], [0, 2, 0], [0, 0, 2]]
    """
    signs = np.array([-1, 0, 1])
    commonest = signs[(code[:, :, None] == signs).sum(axis=0).argmax(axis=1)]
    return (code - commonest).astype(np.float64)


def separation(code: Array) -> Array:
    """Return, for each pair of rows, how many columns give them opposite signs.

    Parameters
    ----------
    code : ndarray of shape (n_classes, n_dichotomies)
        Code matrix of +1, -1 and 0.

    Returns
    -------
    ndarray of shape (n_classes, n_classes)
        The numbers of columns.

    Examples
    --------
    >>> separation(np.array([[1, 1, 0], [-1, 0, 1], [0, -1, -1]])).tolist()
    [[0, 1, 1], [1, 0, 1], [1, 1, 0]]
    """
    opposed = _products(code > 0, code < 0)
    return (opposed + opposed.T).astype(np.int64)


def _products(A: Array, B: Array) -> Array:
    """Return A B', exactly: a code of many columns, all pairs for one, is mostly zeros."""
    if max(A.shape[1], len(B)) > MANY_COLUMNS:
        return np.asarray((_sparse(A) @ _sparse(B).T).toarray())
    with single_blas():
        return np.asarray(A.astype(np.float64) @ B.astype(np.float64).T)


def _sparse(A: Array) -> sparse.csr_array:
    """Return a matrix without its zeros: scipy's own way takes several times as long."""
    place = np.flatnonzero(A)
    ends = np.searchsorted(place, np.arange(len(A) + 1) * A.shape[1])
    values = A.ravel()[place].astype(np.float64)
    return sparse.csr_array((values, place % A.shape[1], ends), shape=A.shape)


def correction(code: Array, opposed: Array | None = None) -> int:
    """Return how many wrong columns Hamming decoding corrects for certain.

    Row r is ahead of row s by d + (n_r - n_s) / 2 when its own columns are right, with d columns of
    opposite signs and n_r, n_s columns in use, and the columns r does not use speak for s; each
    wrong column costs up to 2. Without zeros this is floor((d - 1) / 2).

    >>> correction(np.array([[1, 1, 0], [-1, 0, 1], [0, -1, -1]]))
    0
    """
    used = (code != 0).sum(axis=1)
    ahead = (separation(code) if opposed is None else opposed) + (used[:, None] - used) / 2
    np.fill_diagonal(ahead, np.inf)
    return int(max(0, np.ceil(ahead.min() / 2) - 1))


def diagnose(code: Any, class_names: Sequence[object] | None = None) -> Diagnosis:
    """Measure a code and list what is wrong or weak about it.

    Parameters
    ----------
    code : array-like of shape (n_classes, n_dichotomies)
        Entries -1, 0 and +1.
    class_names : sequence or None, default=None
        Names of the classes in the findings; None takes their indices.

    Returns
    -------
    Diagnosis
        Distances, balance of the columns, number of errors corrected, and the findings.

    Examples
    --------
    >>> diagnose([[1, -1], [-1, 1], [-1, -1]]).min_distance
    1.0
    """
    code = as_code(code)
    k, n_columns = code.shape
    names = [str(name) for name in (class_names if class_names is not None else range(k))]
    upper = np.triu_indices(k, 1)
    distance, between = row_distances(code)[upper], separation(code)
    opposed = between[upper]
    sides = np.stack([(code > 0).sum(axis=0), (code < 0).sum(axis=0)])
    balance = sides.min(axis=0) / np.maximum(sides.sum(axis=0), 1)
    repeated, complementary = _twin_columns(code)
    corrected = correction(code, between)
    findings = (
        _row_findings(code, opposed, upper, names)
        + _column_findings(balance, repeated, complementary)
        + ([_finding("OC007", "")] if corrected == 0 else [])
    )
    return Diagnosis(
        n_classes=k,
        n_dichotomies=n_columns,
        min_distance=float(distance.min()),
        mean_distance=float(distance.mean()),
        separated_pairs=int((opposed > 0).sum()),
        pairs=len(opposed),
        balance=balance,
        correction=corrected,
        repeated_columns=len(repeated),
        complementary_columns=len(complementary),
        findings=tuple(findings),
    )


def as_code(code: Any) -> Array:
    """Return a matrix as an int8 code, or an error if it is not one of +1, -1 and 0."""
    matrix = np.asarray(code)
    if matrix.ndim != 2 or matrix.shape[0] < 2 or matrix.shape[1] < 1:
        raise ValueError(
            f"A code is a matrix with a row per class (at least 2) and a column per machine "
            f"(at least 1), got shape {matrix.shape}."
        )
    if matrix.dtype.kind not in "iufb" or not only_signs(matrix):
        row, column = (int(i[0]) for i in np.nonzero(~_is_sign(matrix)))
        raise ValueError(
            f"A code holds only +1, -1 and 0 (class not used), but entry [{row}, {column}] is "
            f"{matrix[row, column]!r}."
        )
    return matrix.astype(np.int8, copy=False)


def validate(code: Any, class_names: Sequence[object] | None = None) -> Array:
    """Return ``code`` as int8 if a classifier can use it, else an error naming the classes.

    Parameters
    ----------
    code : array-like of shape (n_classes, n_dichotomies)
        Matrix to check.
    class_names : sequence or None, default=None
        Names of the classes, for error messages; None numbers them.

    Returns
    -------
    ndarray of shape (n_classes, n_dichotomies)
        The code.

    Raises
    ------
    ValueError
        If an entry is not +1, -1 or 0, or the code cannot be decoded.

    Examples
    --------
    >>> validate([[1, -1], [-1, 1]])
    array([[ 1, -1],
           [-1,  1]], dtype=int8)
    """
    matrix = as_code(code)
    if not _decodable(matrix):
        fatal = [str(one) for one in diagnose(matrix, class_names).findings if one.fatal]
        raise ValueError("This code cannot be decoded:\n" + "\n".join(fatal))
    return matrix


def _decodable(code: Array) -> bool:
    """Return whether some column opposes each pair of classes, and every column has both signs."""
    both = (code > 0).any(axis=0) & (code < 0).any(axis=0)
    return bool(both.all() and np.count_nonzero(separation(code) == 0) == len(code))


def _finding(code: str, detail: str) -> Finding:
    text, fatal = FINDINGS[code]
    return Finding(code, text + (f": {detail}" if detail else ""), fatal)


def _row_findings(
    code: Array, opposed: Array, upper: tuple[Array, Array], names: list[str]
) -> list[Finding]:
    found = []
    for a, b in zip(*(index[opposed == 0] for index in upper), strict=True):
        equal = np.array_equal(code[a], code[b])
        found.append(_finding("OC001" if equal else "OC002", f"{names[a]} and {names[b]}"))
    return found


def _column_findings(
    balance: Array, repeated: list[tuple[int, int]], complementary: list[tuple[int, int]]
) -> list[Finding]:
    found = [_finding("OC003", f"column {s}") for s in np.flatnonzero(balance == 0)]
    found += [_finding("OC004", f"columns {a} and {b}") for a, b in repeated]
    found += [_finding("OC005", f"columns {a} and {b}") for a, b in complementary]
    weak = np.flatnonzero((balance > 0) & (balance < 0.1))
    if len(weak):
        found.append(
            _finding("OC006", f"{len(weak)} columns, smallest side {balance[weak].min():.0%}")
        )
    return found


def only_signs(matrix: Array) -> bool:
    """Return whether all entries are +1, -1 or 0.

    >>> only_signs(np.array([[1, -1, 0]])), only_signs(np.array([[0.5]]))
    (True, False)
    """
    if matrix.dtype.kind == "i" and matrix.size:  # without a matrix of answers
        return bool(matrix.min() >= -1 and matrix.max() <= 1)
    return bool(_is_sign(matrix).all())


def _is_sign(matrix: Array) -> Array:
    """Return which entries are +1, -1 or 0."""
    if matrix.dtype.kind not in "iuf":
        return np.isin(matrix, (-1, 0, 1))
    return np.asarray(np.sign(matrix) == matrix)


def _twin_columns(code: Array) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
    """Return the pairs of equal columns and the pairs of negated ones."""
    seen: dict[bytes, int] = {}
    repeated, complementary = [], []
    for s in _suspects(code):
        column = code[:, s]
        if (first := seen.get(column.tobytes())) is not None:
            repeated.append((first, s))
        elif (first := seen.get((-column).tobytes())) is not None:
            complementary.append((first, s))
        seen.setdefault(column.tobytes(), s)
    return repeated, complementary


def _suspects(code: Array) -> list[int]:
    """Return the columns whose random projection, up to sign, another column has as well."""
    weight = np.random.RandomState(0).randint(2**40, size=len(code))
    drawn = _products(weight[None], code.T)  # exact: sums of at most 2^13 weights below 2^40
    _, key, count = np.unique(np.abs(drawn), return_inverse=True, return_counts=True)
    return [int(s) for s in np.flatnonzero(count[key.ravel()] > 1)]


def equal_columns(mask: Array) -> list[Array]:
    """Return the places of equal columns of a boolean matrix, in the order of their first.

    NumPy's ``unique`` compares columns as records of as many fields as there are rows: a hundred
    times slower, and an interrupt inside it is lost.

    Examples
    --------
    >>> mask = np.array([[True, False, True], [False, False, False]])
    >>> [places.tolist() for places in equal_columns(mask)]
    [[0, 2], [1]]
    """
    groups: dict[bytes, list[int]] = {}
    for s, column in enumerate(np.packbits(mask, axis=0).T):
        groups.setdefault(column.tobytes(), []).append(s)
    return [np.array(places) for places in groups.values()]
