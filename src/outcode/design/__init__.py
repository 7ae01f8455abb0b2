"""Designing a code for given machines: discrete columns and continuous codes. [CS02]

``H`` (n_samples, n_columns) holds the machines' outputs on the training rows, ``labels`` their
class indices. A code reads the outputs by H(x) = argmax_r h(x) . M_r.

- *discrete*, entries +1 and -1: the error of a code (Eq. 1), the best column for one machine
  (Theorem 1), the best code by enumeration (the problem is NP-complete, Theorem 2);
- *continuous*, real entries: the code of least norm and least multiclass hinge loss (Eq. 15), for
  the norms 1, 2 and infinity, all columns at once or one after the other (Eq. 32); the code of
  least norm that errs on no row (Eq. 13).

The codes "designed" and "designed-tree" of :mod:`outcode.codes` learn machines and columns in turn.
"""

from __future__ import annotations

from outcode.design.continuous import continuous_code
from outcode.design.discrete import (
    EXHAUSTIVE_LIMIT,
    best_code_exhaustive,
    best_column,
    code_error,
)
from outcode.design.incremental import GreedyDesign, greedy_code, incremental_code
from outcode.design.problem import ContinuousDesign, matrix_norm
from outcode.design.separable import separable_code

__all__ = [
    "EXHAUSTIVE_LIMIT",
    "ContinuousDesign",
    "GreedyDesign",
    "best_code_exhaustive",
    "best_column",
    "code_error",
    "continuous_code",
    "greedy_code",
    "incremental_code",
    "matrix_norm",
    "separable_code",
]
