"""Learning the code and its machines in turn: JointCode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.optimize import minimize
from sklearn.utils import check_random_state

from outcode._checks import Array
from outcode.codes.common import (
    Code,
    check_learnable,
    checked_matrix,
    distinct_columns,
    new_columns,
)
from outcode.codes.embedding import STARTS
from outcode.codes.trials import Trial
from outcode.dichotomies import separation
from outcode.parallel import single_blas

#: Rounds of the convex-concave procedure for one set of machines; a smaller share of J is no gain.
CODE_STEPS, CODE_TOL = 100, 1e-4


@dataclass(frozen=True)
class JointLearning:
    """A learned code and the objectives of all steps.

    Parameters
    ----------
    code : ndarray of shape (n_classes, n_dichotomies)
        The code.
    objectives : tuple of float
        Objective of each accepted code, falling strictly.
    relaxed : tuple of tuple of float
        For each set of machines, the objective along the convex-concave steps.
    """

    code: Array
    objectives: tuple[float, ...]
    relaxed: tuple[tuple[float, ...], ...]


class JointCode(Code):
    """A code learned alternately with its machines (JECOC, [ZHL12]).

    According to the published abstract, one objective is minimised alternately over the code and
    the dichotomizers: independent quadratic programs for a fixed code, and a difference of convex
    functions, solved by the convex-concave procedure, for fixed dichotomizers. The rest is our
    interpretation. For
    entries relaxed to M in [-1, 1], minimise ::

        J(M) = 1/(n L) sum_i sum_s [max(0, 1 - M_{y_i s} v_is)^2 - (1 - M_{y_i s}^2)]
               + separation mean_{q < r} max(0, distance - u_qr(M))^2,
        u_qr(M) = |M_q - M_r|^2 / (4 L),

    v_is being the margin of row i in column s, in units of the column's mean absolute margin and
    cut to [-1, 1], under machines that did not see the row (machines that fit every row would keep
    any code as it is). The first sum asks the code to agree with the machines: it is convex in M,
    the squared hinge loss where M = 1 or -1, and 0 where M = 0: a class costs nothing in a column
    that does not use it. The second asks every two codewords to differ in a share ``distance`` of
    the columns: u is convex and enters a convex falling function phi with phi(u) + 2 distance u
    rising for u >= 0, so that the term is (phi(u) + 2 distance u) - 2 distance u, a difference of
    convex functions.

    *Code step.* u is replaced by its tangent at the current M. The surrogate is convex, lies above
    J and touches it at M, so its minimiser over the box (L-BFGS-B) never increases J; repeated
    until J stands still. *Discretisation.* sign(M), but 0 (class not used) where |M| < ``zero``:
    the class lies on both sides of that column. A column left with one sign or equal to another is
    replaced by one of the code before, and columns of the code before are added while two classes
    are not opposed. *Machine step.* The machine is trained again on the code. If J, with its
    margins, is not below the last one, the last code is kept and learning ends; it also ends when
    no column is new, or after ``max_iter`` turns.

    Parameters
    ----------
    start : str, Code or array-like of shape (n_classes, n_dichotomies), default="ovo"
        The code to begin with; the learned code has the same number of columns, rarely a few more.
    separation : float, default=6.0
        Weight of the second term.
    distance : float, default=0.5
        Share of columns two codewords should differ in.
    zero : float, default=0.25
        Relaxed entries below this in size become 0; ``zero=0`` keeps a code without zeros.
    max_iter : int, default=10
        Largest number of times the machine is trained again.
    folds : int, default=3
        Number of folds for margins of unseen rows.
    machine : Machine or None, default=None
        What the code is learned with; None is the machine of the classifier.

    Notes
    -----
    Without a machine linear least squares is trained. A class of one row has no unseen margin: its
    codeword moves only to stay apart from the others.

    Examples
    --------
    Four classes on a line: no linear machine learns the second column, which gives way.

    >>> X, y = np.arange(80.0)[:, None], np.arange(80) // 20
    >>> start = [[1, 1, -1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]
    >>> JointCode(start).matrix(4, X, y, rng=0)[:, 1]
    array([ 1, -1, -1, -1], dtype=int8)
    """

    def __init__(
        self,
        start: Any = "ovo",
        separation: float = 6.0,
        distance: float = 0.5,
        *,
        zero: float = 0.25,
        max_iter: int = 10,
        folds: int = 3,
        machine: Any = None,
    ) -> None:
        self.start = start
        self.separation = separation
        self.distance = distance
        self.zero = zero
        self.max_iter = max_iter
        self.folds = folds
        self.machine = machine

    def matrix(
        self,
        n_classes: int,
        X: Any = None,
        labels: Array | None = None,
        machine: Any = None,
        rng: np.random.RandomState | None = None,
    ) -> Array:
        return self.learn(n_classes, X, labels, machine, rng).code

    def learn(
        self, n_classes: int, X: Any, labels: Any, machine: Any = None, rng: Any = None
    ) -> JointLearning:
        """Return the code with the objectives on the way."""
        self._check()
        X, labels = check_learnable(self, n_classes, X, labels)
        machine, rng = machine if self.machine is None else self.machine, check_random_state(rng)
        data = {"X": X, "labels": labels, "machine": machine, "rng": rng}
        code = checked_matrix(self.start, STARTS, n_classes, **data)
        trial = Trial(machine, X, labels, self.folds)
        problem = self._problem(trial, code)
        objectives, relaxed = [problem.objective(code)], []
        for _ in range(self.max_iter):
            entries, path = problem.solve(code)
            relaxed.append(path)
            new = repaired(discretised(entries, self.zero), code)
            if not new_columns(new, code).shape[1]:
                break
            problem = self._problem(trial, new)
            if not problem.objective(new) < (1 - CODE_TOL) * objectives[-1]:
                break
            code = new
            objectives.append(problem.objective(code))
        return JointLearning(code, tuple(objectives), tuple(relaxed))

    def _check(self) -> None:
        if not self.separation >= 0:
            raise ValueError(f"separation must be at least 0, got {self.separation!r}.")
        for name in ("distance", "zero"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} must lie in [0, 1], got {getattr(self, name)!r}.")

    def _problem(self, trial: Trial, code: Array) -> CodeStep:
        votes = trial.votes(code)
        member = (trial.labels == np.arange(len(code))[:, None]).astype(np.float64)
        with single_blas():
            sums, squares = member @ votes, member @ votes**2
        return CodeStep(sums, squares, member.sum(axis=1), self.separation, self.distance)


@dataclass(frozen=True)
class CodeStep:
    """The objective J of a relaxed code for fixed machines, and its convex-concave procedure.

    Entries and margins lie in [-1, 1], so that no signed margin is beyond 1 and the loss is
    (1 - M v)^2 - (1 - M^2) = M^2 (1 + v^2) - 2 M v: ``sums`` and ``squares`` (n_classes,
    n_columns), the class sums of v and v^2, and ``counts``, the rows of each class, are all that is
    needed of the rows.
    """

    sums: Array
    squares: Array
    counts: Array
    separation: float
    distance: float

    def objective(self, code: Array) -> float:
        """Return J(M)."""
        return self._agreement(code)[0] + self._apart(_codeword_distances(code))

    def surrogate(self, code: Array, around: Array) -> tuple[float, Array]:
        """Return the convex upper bound of J that touches it at ``around``, and its gradient."""
        loss, gradient = self._agreement(code)
        tangent = _tangent_distances(code, around)
        pull = -2 * self._per_pair(code) / code.shape[1] * self._shortfall(tangent)
        slope = pull.sum(axis=1)[:, None] * around - pull @ around
        return loss + self._apart(tangent), gradient + slope

    def solve(self, code: Array) -> tuple[Array, tuple[float, ...]]:
        """Return the relaxed code the procedure ends at, and J at each step, never increasing."""
        entries = code.astype(np.float64)
        path = [self.objective(entries)]
        for _ in range(CODE_STEPS):
            new = self._step(entries)
            value = self.objective(new)
            if not value < path[-1] - CODE_TOL * abs(path[-1]):
                break
            entries = new
            path.append(value)
        return entries, tuple(path)

    def _step(self, around: Array) -> Array:
        def value(flat: Array) -> tuple[float, Array]:
            bound, gradient = self.surrogate(flat.reshape(around.shape), around)
            return bound, gradient.ravel()

        box = [(-1.0, 1.0)] * around.size
        with single_blas():
            found = minimize(value, around.ravel(), jac=True, method="L-BFGS-B", bounds=box)
        return np.asarray(found.x.reshape(around.shape))

    def _agreement(self, code: Array) -> tuple[float, Array]:
        """Return the loss of the machines' margins under the code, and its gradient."""
        size = self.counts.sum() * code.shape[1]
        curvature = self.squares + self.counts[:, None]
        loss = float((code * (code * curvature - 2 * self.sums)).sum()) / size
        return loss, 2 * (code * curvature - self.sums) / size

    def _shortfall(self, apart: Array) -> Array:
        short = np.maximum(0.0, self.distance - apart)
        np.fill_diagonal(short, 0.0)
        return short

    def _apart(self, apart: Array) -> float:
        return self._per_pair(apart) * float((self._shortfall(apart) ** 2).sum())

    def _per_pair(self, rows: Array) -> float:
        """The weight of a pair of classes, which stands twice in a matrix of pairs."""
        return self.separation / (len(rows) * (len(rows) - 1))


def _codeword_distances(code: Array) -> Array:
    """Return u_qr = |M_q - M_r|^2 / (4 L)."""
    return _tangent_distances(code.astype(np.float64), code.astype(np.float64))


def _tangent_distances(code: Array, around: Array) -> Array:
    """Return the tangents of u_qr at ``around``: (2 d.e - e.e) / (4 L), d and e the differences."""
    cross = code @ around.T
    own, base = np.diagonal(cross), around @ around.T
    square = np.diagonal(base)
    products = own[:, None] + own - cross - cross.T
    squares = square[:, None] + square - 2 * base
    return (2 * products - squares) / (4 * code.shape[1])


def discretised(entries: Array, zero: float) -> Array:
    """Return the signs of relaxed entries, 0 where they are smaller than ``zero`` in size."""
    signs = np.where(entries >= 0, 1, -1)
    return np.where(np.abs(entries) < zero, 0, signs).astype(np.int8)


def repaired(code: Array, before: Array) -> Array:
    """Return a code that can be decoded, with columns of the valid code ``before`` where needed."""
    code = distinct_columns(code)
    while True:
        spare = new_columns(before, code)
        lost = separation(code) == 0
        helps = [(separation(column[:, None]) * lost).sum() for column in spare.T]
        if not helps or (max(helps) == 0 and code.shape[1] >= before.shape[1]):
            return code
        code = np.hstack([code, spare[:, [int(np.argmax(helps))]]])


NAMES: dict[str, type[Code]] = {"jecoc": JointCode}
