"""Landmark machines: kernel machines whose cost is linear in the number of rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state, gen_batches
from sklearn.utils.validation import check_is_fitted

from outcode import kernels
from outcode._checks import Array, lookup, positive, row_weights
from outcode.capabilities import available_if
from outcode.machines.common import Machine, as_rows, as_targets, check_signs
from outcode.saved import KernelKind, Number, Optional, RowsKind, Word, reals
from outcode.scale import choice, descent, landmarks, losses, newton, ridge, statistics
from outcode.scale.engine import Engine, Threads
from outcode.scale.features import Features
from outcode.scale.objective import Kept, Objective, Solution
from outcode.scale.scoring import Score, folded
from outcode.scale.sources import Arrays, Regrouped, Source, Thinned
from outcode.scale.survey import Pick, Without, by_block, joined
from outcode.scores import settled

#: Up to this many rows kernel blocks are float64, beyond it float32, unless the user says.
DOUBLE_LIMIT = 5000

#: Rows for each landmark whose sums guide the descent of an iterative loss, and the fewest of all.
GUIDES, LEAST_GUIDES = 2.5, 10_000

#: New rows that are predicted at a time.
PREDICTED_ROWS = 4096

#: Newton steps begin where the decrease still to be had is this share of the objective.
NEWTON_FROM = 1e-3

LOSSES: dict[str, losses.Loss | None] = {
    "squared_hinge": losses.SQUARED_HINGE,
    "logistic": losses.LOGISTIC,
    "least_squares": None,
}


@dataclass(frozen=True)
class Task:
    """What is to be learned: blocks whose rows are in groups, and the target of each group.

    ``signs`` (n_groups, n_dichotomies) are +1, -1 and 0; ``labels`` (n_samples,) are the groups in
    the order of the blocks, -1 for rows of weight 0; ``lengths`` are the rows of each block, and
    ``scale`` is the gamma called "scale".
    """

    engine: Engine
    source: Source
    signs: Array
    labels: Array
    lengths: Array
    scale: float


def _learns_from_sums(machine: Nystrom) -> bool:
    if LOSSES.get(machine.loss) is not None:
        raise AttributeError(
            f"loss={machine.loss!r} needs all rows at once: rows are added and forgotten with "
            f"loss='least_squares'."
        )
    return True


class Nystrom(Machine):
    """Kernel machines on landmarks: every column a function of the same m chosen rows.

    Column s is f_s(x) = sum_j a_js K(x, z_j) + b_s over landmarks z_1..z_m and minimises

        1/2 (a_s' K(Z, Z) a_s + b_s^2) + sum_i C_i l(t_is f_s(x_i)),

    with C_i = C times the weight of row i, and l(z) = max(0, 1 - z)^2 / 2 ("squared_hinge"),
    log(1 + exp(-z)) ("logistic") or (1 - z)^2 / 2 ("least_squares"). With every row a landmark,
    least squares equals :class:`LeastSquares`. Rows are visited in blocks: memory does not grow
    with their number, time grows in proportion.

    Parameters
    ----------
    n_landmarks : int, default=1000
        Number of rows that become landmarks; with more, training takes longer and the error is
        lower.
    kernel : str or callable, default="rbf"
        One of "rbf", "linear", "poly", "laplacian", "exponential", "sigmoid" or a function.
    gamma : float, array-like or {"scale", "auto", "loo"}, default="scale"
        A positive number, a number >= 0 for each feature, "scale" (1 / (d var X)), "auto" (1 / d)
        or "loo": the width with the smallest leave-one-out error of the landmark model on a sample
        of the rows.
    degree : int, default=3
        Degree of the polynomial kernel.
    coef0 : float, default=0.0
        Constant of the polynomial and the sigmoid kernel.
    C : float or "cv", default=1.0
        Weight of the losses; "cv" is the power of ten with the smallest error on held-out rows of a
        sample.
    loss : {"squared_hinge", "logistic", "least_squares"}, default="squared_hinge"
        The loss l.
    bias : {"kernel", "none"}, default="kernel"
        With "kernel" 1 is added to the kernel.
    tol : float, default=3e-3
        Training with an iterative loss stops when the estimated remaining decrease is below this
        share of the objective.
    max_passes : int, default=100
        Passes over the data of an iterative loss.
    certified : bool, default=False
        Continue by Newton steps until the relative duality gap is below ``tol``.
    class_weight : dict, "balanced" or None, default=None
        Weights of the *user's* classes.
    max_memory : float, default=2**31
        Bytes of kernel values that are kept between passes. Other blocks are computed again; if
        less than half of them fit, all are.
    dtype : dtype or None, default=None
        Type of the kernel blocks; None is float64 up to 5,000 rows and float32 beyond.
    random_state : int, RandomState instance or None, default=0
        Seed of the choice of landmarks.

    Attributes
    ----------
    features_ : landmarks and kernel
    support_ : (n_landmarks,) positions of the landmarks among the training rows
    coef_ : (n_landmarks + bias, n_dichotomies) a, and b in the last row
    signs_ : (n_groups, n_dichotomies) the target of each group of rows, one group per class
    statistics_ : sums over rows, which can be added and subtracted
    (:class:`outcode.scale.statistics.Statistics`); with an iterative loss those of a sample of
    rows, for the metric of L-BFGS
    C_ : the C trained with
    residual_ : share of the kernel's trace that the landmarks leave unexplained
    objective_, norm2_, gap_ : (n_dichotomies,) objective, squared norm of w, relative duality gap
    n_iter_, n_rows_ : passes over the data, and rows trained on

    Examples
    --------
    >>> machine = Nystrom(kernel="linear", C=10).fit([[0.0], [1.0]], [[-1], [1]])
    >>> np.sign(machine.margins([[-1.0], [3.0]])).ravel().astype(int).tolist()
    [-1, 1]
    """

    def __init__(
        self,
        n_landmarks: int = 1000,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        *,
        degree: int = 3,
        coef0: float = 0.0,
        C: float | str = 1.0,
        loss: str = "squared_hinge",
        bias: str = "kernel",
        tol: float = 3e-3,
        max_passes: int = 100,
        certified: bool = False,
        class_weight: Any = None,
        max_memory: float = 2**31,
        dtype: Any = None,
        random_state: Any = 0,
    ) -> None:
        self.n_landmarks = n_landmarks
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.C = C
        self.loss = loss
        self.bias = bias
        self.tol = tol
        self.max_passes = max_passes
        self.certified = certified
        self.class_weight = class_weight
        self.max_memory = max_memory
        self.dtype = dtype
        self.random_state = random_state

    saved = {
        "kernel_": KernelKind(),
        "dtype_": Word(("float32", "float64")),
        "landmarks_": RowsKind("n_landmarks", "n_features"),
        "origin_": Optional(reals("n_features")),
        "coef_": reals("n_coef", "n_dichotomies"),
        "residual_": Number(low=0.0),
    }
    left_out = ("statistics_", "signs_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    # --- training ---

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Nystrom:
        """Train on arrays in memory."""
        task = self._arrays(X, targets, sample_weight, n_jobs, verbose)
        self._rows = as_rows(X)
        return self.fit_task(task)

    def _arrays(
        self, X: Any, targets: Array, sample_weight: Any, n_jobs: int | None, verbose: int = 0
    ) -> Task:
        X = as_rows(X)
        targets = as_targets(targets, X.shape[0])
        weight = row_weights(sample_weight, X.shape[0])
        check_signs(targets, weight)
        signs, group = _groups(targets)
        source = Arrays(X, None, group, None if np.all(weight == 1.0) else weight)
        lengths = np.array([load.rows.stop - load.rows.start for load in source.loaders()])
        scale = kernels.gamma_value("scale", X, weight)
        counted = np.where(weight > 0, group, -1)
        engine = Threads(n_jobs, verbose=verbose)
        return Task(engine, source, signs, counted, lengths, scale)

    def task(
        self,
        engine: Engine,
        source: Source,
        code: Array,
        labels: Array,
        lengths: Array,
        scale: float,
    ) -> Task:
        """Return what is to be learned from blocks whose groups are the rows of a code."""
        return Task(engine, source, code, labels, lengths, scale)

    def fit_task(self, task: Task) -> Nystrom:
        """Choose landmarks, sum the statistics, and solve for every column."""
        lookup(LOSSES, self.loss, "loss")
        lookup({"kernel": 1, "none": 0}, self.bias, "bias")
        self.signs_, self.n_rows_ = task.signs, int(task.lengths.sum())
        self.features_, self.residual_ = self._features(task)
        landmarks.warn_residual(self.residual_, len(self.features_.landmarks))
        self.statistics_ = self._collect(task)
        return self._solve(task)

    def _features(self, task: Task) -> tuple[Features, float]:
        """Return landmarks chosen among candidates of every class, and what they leave."""
        rng = check_random_state(self.random_state)
        m = int(positive(self.n_landmarks, "n_landmarks"))
        counted = np.flatnonzero(task.labels >= 0)
        at = counted[landmarks.candidates(task.labels[counted], m, rng)]
        X = joined(task.engine.each(Pick(by_block(task.lengths, at)), task.source)).X
        kernel = self._kernel(X, task.labels[at], task.scale, m)
        self.C_ = self._cost(X, task.labels[at], task.signs, kernel)
        origin = kernel.origin(X)
        rows = kernel.prepare(X, origin)
        chosen = landmarks.pivots(kernel, rows, m, rng)
        small = task.lengths.sum() <= DOUBLE_LIMIT
        dtype = np.dtype(self.dtype or (np.float64 if small else np.float32))
        self.support_ = at[chosen.rows]
        kept = Features(kernel, rows[chosen.rows], origin, dtype, self.bias == "kernel")
        return kept, chosen.residual

    def _kernel(self, X: Any, labels: Array, scale: float, m: int) -> kernels.Kernel:
        if self.kernel == "precomputed":
            raise ValueError(
                "Landmarks are rows, so the kernel cannot be precomputed: give the rows and a "
                "kernel's name or function."
            )

        def of(gamma: Any) -> kernels.Kernel:
            return kernels.resolve(
                self.kernel, X, gamma=gamma, degree=self.degree, coef0=self.coef0
            )

        if np.ndim(self.gamma):
            return of(self.gamma)
        if self.gamma == "loo":
            sample = choice.Sample(*choice.subsample(X, labels, 0), of)
            values = choice.VALUES_OF_C if self.C == "cv" else [positive(self.C, "C")]
            return of(sample.best_gamma(scale, m, values))
        return of(scale if self.gamma == "scale" else self.gamma)

    def _cost(self, X: Any, labels: Array, signs: Array, kernel: kernels.Kernel) -> float:
        """Return C; by the error on held-out rows, margins decoded by their sum, if asked to."""
        if self.C != "cv":
            return positive(self.C, "C")
        rows, own = choice.subsample(X, labels, 0, choice.COST_ROWS)
        out = choice.held_out(own)

        def error(C: float) -> float:
            trial = Nystrom(**{**self.get_params(deep=False), "C": C, "certified": False})
            if not np.ndim(self.gamma):
                trial.set_params(gamma=getattr(kernel, "gamma", 1.0))
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                margins = trial.fit(rows[~out], signs[own[~out]]).margins(rows[out])
            return float(np.mean(np.argmax(margins @ signs.T, axis=1) != own[out]))

        return choice.smallest(error)

    def _collect(self, task: Task) -> statistics.Statistics:
        """Sum what the loss needs: some rows in one matrix where it only guides the descent."""
        if LOSSES[self.loss] is None:
            kind, source = statistics.kinds(task.signs), task.source
        else:
            kind = np.zeros(len(task.signs), dtype=np.intp)
            enough = max(GUIDES * len(self.features_), LEAST_GUIDES)
            every = int(task.lengths.sum() // enough)
            source = task.source if every < 2 else Thinned(task.source, every)
        return statistics.collect(task.engine, source, self.features_, kind)

    def _solve(self, task: Task) -> Nystrom:
        found = self._trained(task, self.statistics_)
        self.coef_, self.objective_, self.norm2_ = found.coef, found.objective, found.norm2
        self.gap_, self.n_iter_ = found.gap, found.passes
        _warn_unconverged(found)
        return self

    def _trained(
        self, task: Task, sums: statistics.Statistics, start: Array | None = None
    ) -> Solution:
        """Return the columns of a task trained, from its statistics and by passes if need be."""
        C, loss = self.C_, LOSSES[self.loss]
        if loss is None:
            return ridge.solved(self.features_, sums, task.signs, C)
        metric = ridge.guide(self.features_, sums.whole(), C * loss.usual)
        if start is None:
            start = metric.solve(C * loss.usual * (sums.moments.T @ task.signs.astype(float)))
        problem = Objective(task.engine, self._kept(task), self.features_, loss, task.signs, C)
        tol, passes = positive(self.tol, "tol"), int(self.max_passes)
        first = max(tol, NEWTON_FROM) if self.certified else tol
        found = descent.descend(problem, metric, start, tol=first, max_passes=passes)
        if self.certified:
            return newton.refine(problem, found, tol=tol, max_passes=passes)
        return found

    def _kept(self, task: Task) -> Source:
        """Return blocks that keep their features between passes, as many as memory allows."""
        values = np.cumsum(task.lengths) * len(self.features_)
        fits = values * np.dtype(self.features_.dtype).itemsize <= float(self.max_memory)
        if not task.engine.shares_memory or 2 * fits.sum() < len(fits):
            return task.source
        return Kept(task.source, self.features_, int(fits.sum()))

    # --- margins ---

    def margins(self, X: Any) -> Array:
        """Return phi(x) . a + b of every row and column, blocks of rows by threads."""
        check_is_fitted(self, "coef_")
        X = as_rows(X)
        score = Score(self.features_, self.coef_[None])
        parts = Threads().each(score, Arrays(X, group=np.zeros(X.shape[0], dtype=np.intp)))
        return settled(np.concatenate(list(parts)))

    def blocks(self, n_rows: int) -> list[slice]:
        """Cut new rows, so that the scores of many rows and classes are never there at once."""
        return list(gen_batches(n_rows, PREDICTED_ROWS))

    def formula(self, x: Any) -> Any:
        """Return the margins of symbolic rows, in float64."""
        check_is_fitted(self, "coef_")
        known, m = self.features_, len(self.features_.landmarks)
        cross = known.kernel.values(known.kernel.prepare(x, known.origin), known.landmarks)
        return settled(cross @ self.coef_[:m] + self.coef_[m:].sum(axis=0))

    def known_rows(self) -> Array:
        """Return the landmarks as rows."""
        known = self.features_
        return known.kernel.unprepared(known.landmarks, known.origin)

    @property
    def training_margins_(self) -> Array:
        """The margins on the training rows, while the machine still has them."""
        if not hasattr(self, "_rows"):
            raise AttributeError(
                "The training rows are not in memory: ask for margins(X) with the rows."
            )
        return self.margins(self._rows)

    @property
    def n_features(self) -> int:
        """Number of columns of the rows."""
        return int(self.features_.landmarks.values.shape[1])

    def packed(self) -> Mapping[str, Any]:
        """Return what prediction needs."""
        if not hasattr(self, "features_"):
            return {}
        features = self.features_
        return {
            **vars(self),
            "kernel_": features.kernel,
            "dtype_": np.dtype(features.dtype).name,
            "landmarks_": features.landmarks,
            "origin_": features.origin,
        }

    def unpack(self, values: dict[str, Any]) -> None:
        """Take the values read."""
        names = ("kernel_", "landmarks_", "origin_", "dtype_")
        kernel, rows, origin, dtype = (values.pop(name) for name in names)
        bias = len(values["coef_"]) - len(rows)
        if bias not in (0, 1):
            raise ValueError("there are not as many coefficients as landmarks")
        self.features_ = Features(kernel, rows, origin, np.dtype(dtype), bool(bias))
        super().unpack(values)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in super().__getstate__().items() if name != "_rows"}

    def held_out_margins(
        self,
        X: Any,
        targets: Array,
        fold: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> Array:
        """Return margins of each row under machines trained without its fold (-1: none).

        The landmarks stay. Least squares subtracts the fold's statistics; the other losses train
        all columns of all folds together, from the solution on all rows.
        """
        task = self._arrays(X, targets, sample_weight, n_jobs, verbose)
        group = np.maximum(task.labels, 0)  # where the weight is 0 any group will do
        every = folded(task.signs, group, np.asarray(fold))
        source = Regrouped(task.source, every.group, task.lengths)
        part = replace(task, source=source, signs=every.signs, labels=every.group)
        start = np.tile(self.coef_, every.n_folds)
        found = self._trained(part, self._collect(part), start)
        coefs = np.concatenate([every.apart(found.coef), self.coef_[None]])
        score = Score(self.features_, coefs, every.model)
        return np.concatenate(list(task.engine.each(score, source)))

    # --- other rows ---

    def held_out_sample(self, task: Task, rows: Array) -> Array:
        """Return margins of some rows under machines trained without any of them.

        ``rows`` are sorted positions in the order of the blocks. Least squares subtracts their
        statistics; the other losses go on from the solution on all rows, without these.
        """
        wanted = by_block(task.lengths, rows)
        sample = joined(task.engine.each(Pick(wanted), task.source))
        if LOSSES[self.loss] is None:
            own = Arrays(sample.X, None, sample.group, sample.weight)
            less = statistics.collect(task.engine, own, self.features_, self.statistics_.kind)
            found = self._trained(task, self.statistics_ - less)
        else:
            rest = replace(task, source=Without(task.source, wanted))
            found = self._trained(rest, self.statistics_, self.coef_)
        return self.features_.margins(sample.X, found.coef)

    @available_if(_learns_from_sums)
    def update_rows(
        self, X: Any, targets: Array, sample_weight: Any = None, *, add: bool
    ) -> Nystrom:
        """Learn more rows (``add``), or forget rows learned before, and solve again.

        The landmarks stay. Only least squares learns from statistics alone.
        """
        check_is_fitted(self, "coef_")
        X = as_rows(X)
        weight = row_weights(sample_weight, X.shape[0])
        group = _matching(as_targets(targets, X.shape[0]), self.signs_)
        source = Arrays(X, None, group, None if np.all(weight == 1.0) else weight)
        sums = statistics.collect(Threads(), source, self.features_, self.statistics_.kind)
        self.statistics_ = self.statistics_ + sums if add else self.statistics_ - sums
        if hasattr(self, "_rows"):
            del self._rows
        nothing = np.zeros(0, dtype=np.intp)
        return self._solve(Task(Threads(), source, self.signs_, nothing, nothing, 1.0))


def _matching(targets: Array, signs: Array) -> Array:
    """Return which row of ``signs`` each row of the targets is, or an error if it is none."""
    kinds, which = _groups(targets)
    same = (kinds[:, None, :] == signs[None, :, :]).all(axis=2)
    if not same.any(axis=1).all():
        raise ValueError("These rows have a class that was not in the training set.")
    return same.argmax(axis=1)[which]


def _groups(targets: Array) -> tuple[Array, Array]:
    """Return the distinct rows of the targets, and which of them each row has."""
    bits = np.packbits(np.hstack([targets > 0, targets < 0]), axis=1)
    keys = np.ascontiguousarray(bits).view(np.dtype((np.void, bits.shape[1]))).ravel()
    _, first, group = np.unique(keys, return_index=True, return_inverse=True)
    return targets[first], group.ravel()


def _warn_unconverged(found: Solution) -> None:
    if not found.converged.all():
        warnings.warn(
            f"{int((~found.converged).sum())} of {len(found.converged)} columns stopped after "
            f"{found.passes} passes, with a relative duality gap of {found.gap.max():.2g}: raise "
            f"max_passes or tol, or use a smaller C.",
            ConvergenceWarning,
            stacklevel=4,
        )


NAMES: dict[str, type[Machine]] = {"nystrom": Nystrom}
