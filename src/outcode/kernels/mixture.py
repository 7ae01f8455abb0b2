"""Weighted sums of kernels of distances."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode._checks import Array, positive
from outcode.kernels.common import Kernel, Rows
from outcode.kernels.distances import NAMES, Gaussian


@dataclass(frozen=True)
class Mixture(Kernel):
    """K(x, z) = sum_k w_k exp(-gamma_k d_k(x, z)): a weighted sum of kernels of distances.

    It is named by its own formula, so that a parameter and a model file hold it as text. A gamma
    for each feature multiplies the features of all terms.

    Parameters
    ----------
    gamma, degree, coef0 : number
        Not used.
    scales : tuple of float, default=()
        Factors of the features, applied first; empty where all features have the same gamma.
    terms : tuple of (float, str, float), default=()
        Weight, name and gamma of each kernel.

    Examples
    --------
    >>> both = Mixture.parse("0.5 rbf(1.0) + 0.5 laplacian(1.0)")
    >>> rows = both.prepare(np.array([[0.0, 0.0], [1.0, 1.0]]))
    >>> both.values(rows, rows).round(3).tolist()
    [[1.0, 0.135], [0.135, 1.0]]
    >>> str(both)
    '0.5 rbf(1.0) + 0.5 laplacian(1.0)'
    """

    terms: tuple[tuple[float, str, float], ...] = ()

    has_gamma = False
    stretch = 1.0
    mixes = True

    @classmethod
    def parse(cls, text: str) -> Mixture:
        """Return the mixture of a formula such as "0.3 rbf(0.1) + 0.7 laplacian(2.0)"."""
        terms = []
        for term in text.split("+ "):
            found = re.fullmatch(r"\s*(\S+) (\w+)\((\S+)\)\s*", term)
            kind = NAMES.get(found[2]) if found else None
            if found is None or kind is None or not kind.of_distance:
                raise ValueError(
                    f"{text!r} is not a sum of kernels: write one like '0.3 rbf(0.1) + 0.7 "
                    f"laplacian(2.0)', the weight, the name and gamma of each."
                )
            terms.append((positive(float(found[1]), "weight"), found[2], float(found[3])))
        return cls(terms=tuple(terms))

    def __str__(self) -> str:
        return " + ".join(f"{w!r} {name}({gamma!r})" for w, name, gamma in self.terms)

    def origin(self, X: Any) -> Array | None:
        return Gaussian().origin(X)

    def values(self, A: Rows, B: Rows) -> Array:
        return self.combine(lambda name, gamma: NAMES[name](gamma).values(A, B))

    def combine(self, values: Callable[[str, float], Array]) -> Array:
        """Return the weighted sum of ``values(name, gamma)``."""
        return sum(w * values(name, gamma) for w, name, gamma in self.terms)  # type: ignore[return-value]  # there is a term

    def gradient(self, a: Rows, B: Rows, coef: Array) -> Array:
        """Return the derivatives of sum_i c_is K(a, b_i) by a, (n_sums, n_features)."""
        parts = [w * NAMES[name](g).gradient(a, B, coef) for w, name, g in self.terms]  # type: ignore[attr-defined]  # of_distance
        return np.asarray(sum(parts))

    def diagonal(self, A: Rows) -> Array:
        return np.full(len(A), sum(w for w, _, _ in self.terms))
