"""Kernel machines with a kernel, a width and a C of their own in each column. [PPF04] K^s, G^s"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

from outcode import gram as grams
from outcode._checks import Array
from outcode.machines.common import Machine, as_targets
from outcode.machines.svm import SVM
from outcode.saved import Parts, wholes

#: What a column may have of its own.
OWN = ("kernel", "gamma", "degree", "coef0", "C")
#: What is stacked from the machines when it is first asked for after a fit.
STACKED = (
    *("dual_coef_", "training_margins_", "gram_diagonal_", "loo_margins_", "bias_"),
    *("norm2_", "objective_", "gap_", "n_iter_"),
)


@dataclass(frozen=True)
class Stores:
    """The Gram stores of the machines, one for each kernel among them: some are the same."""

    parts: Sequence[grams.Gram]

    def __len__(self) -> int:
        return len(self.parts[0])


def _stacked(name: str, what: str) -> Any:
    """Return an attribute that is put together from the machines, and kept."""
    kept: Any = cached_property(lambda self: self.stacked(name))
    kept.__doc__ = what
    return kept


class PerColumn(Machine):
    """Machines with separate parameters for each column ([PPF04] Theorem 4.1: K^s, G^s).

    Column s is f_s(x) = sum_i alpha_i^s m_{y_i s} K^s(x_i, x) with its own kernel K^s, width and
    C. Columns with the same parameters are one machine, columns with the same kernel share one Gram
    matrix; prediction is one product for each set of parameters. The leave-one-out bounds take
    G^s_ii = K^s(x_i, x_i), and the searches for one gamma do not apply: :class:`ColumnSearch` of
    :mod:`outcode.selection` chooses the parameters of each column.

    Parameters
    ----------
    machine : Machine or None, default=None
        An SVM or LeastSquares machine that has what the columns have in common; None is ``SVM()``.
    settings : sequence of dict or None, default=None
        For each column those of kernel, gamma, degree, coef0 and C that differ from the machine's;
        None leaves all columns as the machine is.

    Attributes
    ----------
    machines_ : fitted, one for each set of parameters
    which_ : (n_dichotomies,) the machine of each column
    dual_coef_, training_margins_ : (n_samples, n_dichotomies)
    gram_diagonal_ : (n_samples, n_dichotomies) K^s(x_i, x_i)
    bias_, norm2_, objective_, gap_, n_iter_, C : (n_dichotomies,)

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier, loo
    >>> X, y = load_iris(return_X_y=True)
    >>> own = [{"gamma": 0.1}, {"gamma": 1.0, "C": 10.0}, {"kernel": "linear"}]
    >>> clf = OutputCodeClassifier("ova", PerColumn(SVM(), own), "linear").fit(X, y)
    >>> bool(loo.bound(clf).error >= loo.exact(clf, X, y).error)
    True
    """

    saved = {
        "which_": wholes("n_dichotomies"),
        "machines_": Parts("machine", own=("n_dichotomies", "n_rows", "n_sets")),
    }
    left_out = ("training_margins_", "gram_diagonal_", "loo_margins_")

    def __init__(
        self, machine: Any = None, settings: Sequence[Mapping[str, Any]] | None = None
    ) -> None:
        self.machine = machine
        self.settings = settings

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags = get_tags(self._inner()).input_tags
        return tags

    def weigh(self, y: Array, sample_weight: Array) -> Array:
        return np.asarray(self._inner().weigh(y, sample_weight))

    # --- training ---

    def fit(
        self,
        X: Any,
        targets: Array,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> PerColumn:
        stores = self.gram(X, targets, sample_weight, n_jobs=n_jobs)
        return self.fit_gram(stores, targets, sample_weight, n_jobs=n_jobs, verbose=verbose)

    def gram(
        self, X: Any, targets: Any, sample_weight: Any = None, *, n_jobs: int | None = None
    ) -> Stores:
        """Return the Gram stores of the training rows, one for each kernel."""
        targets, made = np.asarray(targets), {}
        which, machines = self._plan(targets.shape[1])
        kernels = [_key(one.get_params(), but="C") for one in machines]
        for key, machine in zip(kernels, machines, strict=True):
            if key not in made:
                columns = np.flatnonzero([kernels[k] == key for k in which])
                args = X, targets[:, columns], sample_weight
                made[key] = machine.gram(*args, n_jobs=n_jobs)
        return Stores([made[key] for key in kernels])

    def fit_gram(
        self,
        gram: Any,
        targets: Any,
        sample_weight: Any = None,
        *,
        n_jobs: int | None = None,
        verbose: int = 0,
        start: Any = None,
    ) -> PerColumn:
        """Train all columns on the stores of :meth:`gram`."""
        targets = as_targets(targets, len(gram))
        self.which_, self.machines_ = self._plan(targets.shape[1])
        for name in STACKED:
            self.__dict__.pop(name, None)  # those of an earlier fit
        begin = getattr(start, "machines_", [None] * len(self.machines_))
        for k, store in enumerate(gram.parts):
            options: dict[str, Any] = {"n_jobs": n_jobs, "verbose": verbose, "start": begin[k]}
            args = store, targets[:, self.which_ == k], sample_weight
            self.machines_[k].fit_gram(*args, **options)
        return self

    def held_out_margins(
        self, gram: Any, targets: Any, fold: Array, sample_weight: Any = None, **threads: Any
    ) -> Array:
        """Return margins of each row under machines trained without its fold (-1: none)."""
        check_is_fitted(self, "machines_")
        targets, out = np.asarray(targets), np.empty(np.shape(targets))
        for k, store in enumerate(gram.parts):
            args = store, targets[:, self.which_ == k], fold, sample_weight
            out[:, self.which_ == k] = self.machines_[k].held_out_margins(*args, **threads)
        return out

    # --- new rows ---

    def margins(self, X: Any) -> Array:
        check_is_fitted(self, "machines_")
        return self._columns([machine.margins(X) for machine in self.machines_])

    def formula(self, x: Any) -> Any:
        """Return the margins of symbolic rows."""
        check_is_fitted(self, "machines_")
        order = np.argsort(np.argsort(self.which_, kind="stable"))
        return np.hstack([machine.formula(x) for machine in self.machines_]).take(order)

    def known_rows(self) -> Array:
        """Return rows as the machines take them."""
        return np.concatenate([machine.known_rows() for machine in self.machines_])

    def gradients(self, X: Any) -> Array:
        """Return the derivatives of the margins by the features, (n, n_dichotomies, n_features)."""
        check_is_fitted(self, "machines_")
        parts = [machine.gradients(X).swapaxes(1, 2) for machine in self.machines_]
        return self._columns(parts).swapaxes(1, 2)

    # --- leaving a row out ---

    def removals(
        self, gram: Any, targets: Array, rows: Array, sample_weight: Any = None, **threads: Any
    ) -> Array:
        """Bound and estimate how far margins fall without a row, as :meth:`SVM.removals`."""
        pairs = enumerate(zip(self.machines_, gram.parts, strict=True))
        args = rows, sample_weight
        return self._columns(
            [m.removals(g, targets[:, self.which_ == k], *args, **threads) for k, (m, g) in pairs]
        )

    def expanded(self, gram: Any, rows: Array) -> tuple[Array, Array]:
        """Return margins of some training rows by their sums, and the sums of absolute values."""
        pairs = zip(self.machines_, gram.parts, strict=True)
        sums, sizes = zip(*(machine.expanded(g, rows) for machine, g in pairs), strict=True)
        return self._columns(sums), self._columns(sizes)

    # --- what the machines know, column by column ---

    dual_coef_ = _stacked("dual_coef_", "(n_samples, n_dichotomies) alpha times target.")
    training_margins_ = _stacked("training_margins_", "Margins on the training rows.")
    loo_margins_ = _stacked("loo_margins_", "Margins of rows left out, where these are known.")
    bias_ = _stacked("bias_", "(n_dichotomies,)")
    norm2_ = _stacked("norm2_", "(n_dichotomies,) squared norms of w.")
    objective_ = _stacked("objective_", "(n_dichotomies,) primal objectives.")
    gap_ = _stacked("gap_", "(n_dichotomies,) relative duality gaps.")
    n_iter_ = _stacked("n_iter_", "(n_dichotomies,) steps.")

    @cached_property
    def gram_diagonal_(self) -> Array:
        """(n_samples, n_dichotomies) G^s_ii = K^s(x_i, x_i)."""
        diagonals = [machine.gram_diagonal_ for machine in self._fitted()]
        return np.stack(diagonals, axis=1)[:, self.which_]

    @property
    def support_(self) -> Array:
        """Rows that are a support vector of some column."""
        return np.unique(np.concatenate([machine.support_ for machine in self._fitted()]))

    @property
    def n_train_(self) -> int:
        """The number of training rows."""
        return int(self._fitted()[0].n_train_)

    @property
    def kernel_(self) -> Any:
        """The kernel of the first machine: all are of rows, or all are given."""
        return self._fitted()[0].kernel_

    @property
    def C(self) -> Array:  # noqa: N802  the papers' name
        """(n_dichotomies,) the C of each column."""
        return np.array([machine.C for machine in self._fitted()])[self.which_]

    @property
    def bias(self) -> str:
        """Where the bias is, the same for all columns."""
        return str(self._inner().bias)

    def stacked(self, name: str) -> Array:
        """Return an attribute of the machines, its last axis in the order of the columns."""
        return self._columns([np.asarray(getattr(machine, name)) for machine in self._fitted()])

    def _fitted(self) -> list[Any]:
        if "machines_" not in vars(self):
            raise AttributeError("This machine is not trained.")
        found: list[Any] = self.machines_
        return found

    def _columns(self, parts: Sequence[Array]) -> Array:
        """Return arrays of the machines side by side, in the order of the columns."""
        order = np.argsort(self.which_, kind="stable")
        return np.ascontiguousarray(np.concatenate(parts, axis=-1)[..., np.argsort(order)])

    def _inner(self) -> Any:
        return SVM() if self.machine is None else clone(self.machine)

    def _plan(self, n_columns: int) -> tuple[Array, list[Any]]:
        """Return the number of each column's machine, and the machines, not trained."""
        settings = [{}] * n_columns if self.settings is None else list(self.settings)
        if len(settings) != n_columns:
            raise ValueError(
                f"settings has {len(settings)} entries, but the code has {n_columns} columns: give "
                f"one dict for each column."
            )
        keys: dict[Any, int] = {}
        for setting in settings:
            if unknown := sorted(set(setting) - set(OWN)):
                raise ValueError(
                    f"A column cannot have a {unknown[0]!r} of its own, only {', '.join(OWN)}: "
                    f"give it to the machine that all columns share."
                )
            keys.setdefault(_key(setting), len(keys))
        which = np.array([keys[_key(setting)] for setting in settings], dtype=np.int64)
        first = [settings[int(np.argmax(which == k))] for k in range(len(keys))]
        return which, [self._inner().set_params(**setting) for setting in first]

    # --- files ---

    def unpack(self, values: dict[str, Any]) -> None:
        super().unpack(values)
        counts = np.bincount(self.which_, minlength=len(self.machines_))
        if [len(machine.bias_) for machine in self.machines_] != counts.tolist():
            raise ValueError("the machines have other columns than the code")


def _key(setting: Mapping[str, Any], but: str = "") -> Any:
    """Return settings as something that can be compared, one left out."""
    items = ((name, value) for name, value in setting.items() if name != but)
    return tuple(sorted((name, _plain(value)) for name, value in items))


def _plain(value: Any) -> Any:
    return repr(np.asarray(value).tolist()) if np.ndim(value) else repr(value)
