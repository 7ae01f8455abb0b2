"""Classifiers made of a code, a machine and a decoder, and the short ways to two of them.

What is learned, and how, is in :mod:`outcode.training`: here rows and labels are validated, become
a problem, and the rule trained on all of it predicts.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from outcode import codes, decoders, growing, machines, streaming
from outcode._checks import Array, lookup, row_weights, unchanged_on_failure
from outcode.capabilities import TrainsOnGram, Updates, available_if, can, require
from outcode.machines.crammer_singer import CrammerSingerParameters
from outcode.machines.single_binary import SingleBinaryParameters
from outcode.posing import pose
from outcode.prediction import ByRule
from outcode.training import read, train

#: Rows beyond which exact kernel machines take hours.
EXACT_ROWS = 50_000


def _updates(clf: Classifier) -> bool:
    rule = getattr(clf, "rule_", None)
    machine = machines.resolve(clf.elements()[1]) if rule is None else rule.machine
    try:
        require(machine, Updates, "Learning and forgetting rows")
    except ValueError as missing:
        raise AttributeError(str(missing)) from None
    return True


def _warn_of_many_rows(machine: Any, n_rows: int) -> None:
    if n_rows > EXACT_ROWS and can(machine, TrainsOnGram):
        warnings.warn(
            f"{n_rows:,} rows: time and memory of {type(machine).__name__} grow faster than their "
            f"number, and training may take hours. machine='nystrom' (outcode.machines.Nystrom) "
            f"takes time in proportion to it, and little memory.",
            stacklevel=4,
        )


class Classifier(ByRule):
    """A classifier made of a code, a machine and a decoder.

    A subclass says in :meth:`elements` what they are, and in ``prefix`` what the parameters of the
    machine begin with among its own.
    """

    room = "model"
    prefix: ClassVar[str] = ""

    def fit(
        self, X: Any, y: Any = None, sample_weight: Any = None, *, checkpoint: Any = None
    ) -> Any:
        """Train the machine on every column of the code, then the decoder.

        Rows that do not fit in memory are given in blocks: a path, folder, pattern or list of CSV
        and Parquet files with ``y`` the name of the column of labels; Dask collections; a list of
        blocks ``(X, y)``, or a function that returns an iterator over them. The machine must be
        one that trains on blocks ("nystrom"). ``checkpoint`` is a folder in which the work on
        files is kept, so that training continues where it was interrupted.
        """
        with unchanged_on_failure(self):
            if streaming.in_blocks(X):
                return self._fit_blocks(X, y, sample_weight, checkpoint)
            return self._fit_rows(X, y, sample_weight)

    def _fit_rows(self, X: Any, y: Any, sample_weight: Any) -> Any:
        code, machine, decoder = self.elements()
        machine, decoder = machines.resolve(machine), decoders.resolve(decoder)
        X, y = self._validated(machine, X, y)
        _warn_of_many_rows(machine, len(y))
        weight, rng = row_weights(sample_weight, len(y)), check_random_state(self.random_state)
        problem = pose(code, machine, X, y, weight, rng, n_jobs=self.n_jobs)
        self.classes_, self._rows = problem.classes, X
        self.rule_ = train(problem, machine, decoder, n_jobs=self.n_jobs, verbose=self.verbose)
        return self

    def _fit_blocks(self, X: Any, y: Any, sample_weight: Any, checkpoint: Any) -> Any:
        if sample_weight is not None:
            raise ValueError("Weights of rows in blocks belong to the blocks: (X, y, weight).")
        code, machine, decoder = self.elements()
        machine, decoder = machines.resolve(machine), decoders.resolve(decoder)
        found = streaming.given(X, y)
        engine = streaming.engine(X, self.n_jobs, checkpoint, self.verbose)
        rng = check_random_state(self.random_state)
        rule = streaming.train_blocks(code, machine, decoder, found.source, engine, rng)
        self.classes_, self.rule_ = rule.problem.classes, rule
        self.n_features_in_ = machine.n_features
        if found.names is not None:
            self.feature_names_in_ = found.names
        return self

    @available_if(_updates)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        """Learn more rows without the ones before; the first call is a fit, with every class."""
        if hasattr(self, "rule_"):
            return self._update(X, y, sample_weight, add=True)
        missing = np.setdiff1d(y if classes is None else classes, y)
        if len(missing):
            raise ValueError(
                f"The first rows need every class, but {missing.tolist()[0]!r} is missing."
            )
        return self.fit(X, y, sample_weight)

    @available_if(_updates)
    def forget(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Forget rows that were learned, as if they had never been there; the landmarks stay."""
        check_is_fitted(self, "rule_")
        return self._update(X, y, sample_weight, add=False)

    def _update(self, X: Any, y: Any, sample_weight: Any, *, add: bool) -> Any:
        rows, y = self.validated(X), np.asarray(y)
        known = np.isin(y, self.classes_)
        if not known.all():
            raise ValueError(
                f"Class {y[~known].tolist()[0]!r} was not in the first training: fit again with "
                f"all rows."
            )
        targets = self.code_[np.searchsorted(self.classes_, y)]
        self.machine_.update_rows(rows, targets, sample_weight, add=add)
        return self

    def add_class(self, X_new: Any, y_new: Any, X: Any = None, sample_weight: Any = None) -> Any:
        """Add new classes; columns of the code that do not use them are not changed.

        One-vs-one gets a column for every pair with a new class, and equals training anew (with a
        gamma that is a number: "scale" stays that of the first rows). Learned codes and matrices
        keep their columns, which do not use the new classes, and get the columns of these pairs; a
        decoder that leaves out entries 0 suits them ("likelihood", "shared", "llw"). The columns of
        other codes see every class (one-vs-all, random codes), and those of other machines than
        "svm" and "ls" depend on each other: these are trained anew. The decoder is fitted again.

        Parameters
        ----------
        X_new, y_new : rows of classes that are not known yet, and their labels
        X : the training rows so far, in their order; not needed in the process that fitted them
        sample_weight : weights of the new rows

        Examples
        --------
        >>> from outcode import OutputCodeClassifier
        >>> from sklearn.datasets import load_iris
        >>> X, y = load_iris(return_X_y=True)
        >>> clf = OutputCodeClassifier("ovo").fit(X[y < 2], y[y < 2])
        >>> clf.add_class(X[y == 2], y[y == 2]).classes_.tolist()
        [0, 1, 2]
        """
        check_is_fitted(self, "rule_")
        with unchanged_on_failure(self):
            old = growing.training_rows(self, X)
            new, y_new = self.validated(X_new), np.asarray(y_new)
            if y_new.shape != (new.shape[0],):
                raise ValueError(
                    f"X_new has {new.shape[0]} rows, but y_new has shape {y_new.shape}."
                )
            self.rule_, self._rows = growing.grown(self, old, new, y_new, sample_weight)
            self.classes_ = self.rule_.problem.classes
        return self

    def __getstate__(self) -> Any:
        return {name: value for name, value in super().__getstate__().items() if name != "_rows"}

    def with_decoder(self, decoder: Any, X: Any = None) -> OutputCodeClassifier:
        """Return the same machine under another decoder, without training it again.

        ``X`` are the training rows, for decoders that ask for them or for held-out margins.
        """
        check_is_fitted(self, "rule_")
        threads: dict[str, Any] = {"n_jobs": self.n_jobs, "verbose": self.verbose}
        code, machine, _ = self.elements()
        seed = {"random_state": self.random_state}
        other = OutputCodeClassifier(code, machine, decoder, **threads, **seed)
        for name, value in vars(self).items():
            if name.endswith("_"):
                setattr(other, name, value)
        problem = self.posed(X)
        other.rule_ = read(problem, self.machine_, decoders.resolve(decoder), **threads)
        return other


class OutputCodeClassifier(Classifier):
    """Learn many classes with binary machines.

    Parameters
    ----------
    code : str, Code or (n_classes, n_dichotomies) matrix of +1, -1, 0
        The code: a name such as "ova" (one-vs-rest), "ovo" (one-vs-one), "dense", "sparse", "bch"
        or "decoc", an object of :mod:`outcode.codes`, or a matrix whose rows are in the order of
        the sorted labels.
    machine : str, Machine or scikit-learn classifier
        The learner of the columns: a name such as "svm", "ls", "spoc" or "nystrom", an object of
        :mod:`outcode.machines`, or a scikit-learn classifier, which is cloned for each column.
    decoder : str or Decoder
        The decoder of the margins: a name such as "hinge", "hamming", or with probabilities
        "likelihood", "coupling", "softmax" or "shared"; or an object of :mod:`outcode.decoders`.
    n_jobs : int or None
        Number of threads; None is all cores. The model does not depend on it.
    random_state : int, RandomState or None
        Seed of random codes.
    verbose : int
        If not 0, show the number of finished columns and the time left.

    Attributes
    ----------
    classes_ : the sorted labels
    code_ : (n_classes, n_dichotomies) int8
    machine_, decoder_ : fitted
    rule_ : the machine and the decoder with the problem they were trained on
    labels_ : (n_samples,) class indices of the training rows

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier(code="ovo", decoder="hinge").fit(X, y)
    >>> clf.margins(X).shape, clf.decision_function(X).shape
    ((150, 3), (150, 3))
    """

    prefix = "machine__"

    def __init__(
        self,
        code: Any = "ova",
        machine: Any = "svm",
        decoder: Any = "hinge",
        *,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.code = code
        self.machine = machine
        self.decoder = decoder
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = machines.input_tags(self.machine)
        tags.input_tags.pairwise = inner.pairwise
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags

    def set_params(self, **params: Any) -> OutputCodeClassifier:
        """Set parameters; ``machine__gamma`` works for an element given by its name, too."""
        tables: dict[str, Any] = {
            "code": codes.CODES,
            "machine": machines.MACHINES,
            "decoder": decoders.DECODERS,
        }
        for name, table in tables.items():
            inner = any(given.startswith(name + "__") for given in params)
            if inner and isinstance(getattr(self, name), str) and name not in params:
                setattr(self, name, lookup(table, getattr(self, name), name)())
        return super().set_params(**params)

    def elements(self) -> tuple[Any, Any, Any]:
        return self.code, self.machine, self.decoder


# --- the short ways ---


def _of_machine(name: str) -> Any:
    """Return a property: an attribute of the fitted machine."""
    return property(lambda clf: getattr(clf.machine_, name), doc=f"``machine_.{name}``.")


class _ShortWay(Classifier):
    """A classifier with the parameters of its machine, over a column per class."""

    machine_class: ClassVar[type[machines.KernelMachine]]
    for_probabilities = "give folds=3 before fitting"

    def elements(self) -> tuple[Any, Any, Any]:
        names = self.machine_class().get_params(deep=False)
        machine = self.machine_class(**{name: getattr(self, name) for name in names})
        return _ClassColumns(), machine, decoders.Softmax(getattr(self, "folds", None))


class _ClassColumns(codes.Code):
    """A column per class, two classes included."""

    room = ""

    def draw(self, n_classes: int, rng: np.random.RandomState) -> Array:
        return (2 * np.eye(n_classes) - 1).astype(np.int8)


@dataclass(eq=False, repr=False)
class SPOC(CrammerSingerParameters, _ShortWay):
    """One kernel machine for all classes: multiclass support vectors.

    The method of [CS02], and the short way to ``OutputCodeClassifier("ova", "spoc", "softmax")``:
    it predicts argmax_r M_r.x = argmax_r sum_i tau_ir K(x, x_i) (Eq. 30), with M of
    :class:`outcode.machines.CrammerSinger` (Eq. 31).

    Parameters
    ----------
    kernel : {"rbf", "linear", "poly", "laplacian", ...} or callable, default="rbf"
        Also "exponential", "sigmoid" or "precomputed", as for
        :class:`outcode.machines.CrammerSinger`.
    gamma : float, array-like, "scale" or "auto", default="scale"
        Of the kernel: "scale" is 1 / (d var X), "auto" is 1 / d; an array holds one number per
        feature.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=0.0
        Of the polynomial and the sigmoid kernel.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    max_memory : float or None, default=None
        Bytes the Gram matrix may take; None is half of what is free.
    dtype : dtype or None, default=None
        Type of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond.
    beta : float, default=1.0
        Weight of the norm; a larger one gives a smoother machine.
    bias : {"none", "kernel"}, default="none"
        No bias, as in the paper, or a bias per class: 1 is added to the kernel.
    tol : float, default=1e-3
        Largest violation of the optimality conditions, in units of the required lead 1.
    max_iter : int, default=10_000_000
        Largest number of steps, one sample each.
    folds : int or None, default=5
        Number of folds from which the held-out scores come that the temperature of
        ``predict_proba`` is fitted on; None fits no probabilities, and fitting is faster.
    n_jobs : int or None, default=None
        Number of threads; None is all cores. The model does not depend on it.

    Attributes
    ----------
    classes_ : the sorted labels
    tau_ : (n_samples, n_classes) dual variables, tau_ir <= c_i [r = y_i], rows sum to 0
    support_ : rows with a tau that is not 0, the support patterns
    coef_ : (n_classes, n_features) M, for the linear kernel only
    objective_, dual_objective_, gap_ : primal and dual value, their difference over the primal
    norm2_ : (n_classes,) squared norms of M_r, the bias included
    bias_ : (n_classes,) added to the scores, 0 without a bias
    training_margins_ : (n_samples, n_classes) M_r.x_i
    n_iter_ : steps
    temperature_ : of the probabilities

    Notes
    -----
    The optimal M is unique, tau is not (repeated rows, singular kernels).

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SPOC(kernel="rbf", gamma=0.5, beta=0.1).fit(X, y)
    >>> clf.decision_function(X).shape, round(clf.score(X, y), 2)
    ((150, 3), 0.99)
    """

    folds: int | None = field(default=5, kw_only=True)
    n_jobs: int | None = field(default=None, kw_only=True)

    machine_class = machines.CrammerSinger
    tau_, support_, coef_ = map(_of_machine, ("tau_", "support_", "coef_"))
    objective_, dual_objective_ = map(_of_machine, ("objective_", "dual_objective_"))
    gap_, norm2_, bias_ = map(_of_machine, ("gap_", "norm2_", "bias_"))
    dual_coef_, n_iter_ = map(_of_machine, ("dual_coef_", "n_iter_"))
    training_margins_ = _of_machine("training_margins_")
    temperature_ = property(lambda clf: clf.decoder_.temperature_, doc="Of the probabilities.")


@dataclass(eq=False, repr=False)
class SingleBinaryClassifier(SingleBinaryParameters, _ShortWay):
    """All classes in one binary problem.

    The method of [EPY08], and the short way to ``OutputCodeClassifier("ova", "sbc", "softmax")``.
    The score of class r is h(z_r) of Eq. 9, and the largest wins.

    Parameters
    ----------
    extension : {"kernel", "direct", "identity", "single", "ecoc"} or array-like, default="kernel"
        Those of :class:`outcode.machines.SingleBinary`, or "ecoc": a copy per column of a code,
        marked by its number.
    kernel : {"rbf", "linear", "poly", "laplacian", ...} or callable, default="rbf"
        Also "exponential", "sigmoid" or "precomputed".
    gamma : float, array-like, "scale" or "auto", default="scale"
        Of the kernel: "scale" is 1 / (d var X), "auto" is 1 / d; an array holds one number per
        feature.
    degree : int, default=3
        Of the polynomial kernel.
    coef0 : float, default=0.0
        Of the polynomial and the sigmoid kernel.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes.
    max_memory : float or None, default=None
        Bytes the Gram matrix may take; None is half of what is free.
    dtype : dtype or None, default=None
        Type of the Gram matrix; None is float64 up to 5,000 rows and float32 beyond.
    class_kernel : {"rbf", "linear", "precomputed"}, default="rbf"
        How extensions become K_M: "rbf" (Eq. 5), "linear" (M M') or "precomputed" (they are K_M).
    class_gamma : float or None, default=None
        Gamma of the class kernel; None is that of the sample kernel (1 if it has none).
    C : float, default=1.0
        Upper bound of each alpha (the paper's C / (cm)).
    radius : float or "sqrt", default="sqrt"
        R, largest sum of the kernel weights, or trace of K_M with "direct"; "sqrt" is the root of
        the sum of the row weights.
    weights : {"learned", "prior"} or array-like, default="learned"
        Weights of the basis kernels; "prior" is R times the share of each class.
    update : {"paper", "alternating"}, default="paper"
        Algorithm 2, or updates that go to the minimum over the weights.
    tol : float, default=1e-3
        Largest violation of the optimality conditions.
    kernel_tol : float, default=1e-3
        Largest relative change of the weights with "paper"; with "alternating" and "direct" the
        largest relative gap to the minimum.
    max_iter : int, default=10_000_000
        Largest number of steps of one solve.
    max_updates : int, default=1000
        Largest number of updates of the kernel weights.
    code : str, code or array-like, default="bch"
        The code of "ecoc".
    decoder : {"euclidean", "hamming"} or decoder, default="euclidean"
        The decoder of "ecoc".
    folds : int or None, default=None
        Number of folds whose held-out scores set the temperature of ``predict_proba``; the kernel
        weights are those of all rows. None fits no probabilities.
    n_jobs : int or None, default=None
        Number of threads; None is all cores. The model does not depend on it.
    random_state : int, RandomState or None, default=None
        Seed of the code.
    verbose : int, default=0
        If not 0, show the updates and folds done.

    Attributes
    ----------
    classes_ : the sorted labels
    class_kernel_ : (n_classes, n_classes) K_M; with "ecoc" of the columns of the code
    kernel_weights_ : (n,) mu; 1 for a single extension
    kernel_bound_ : largest K_M(r, r) of any weights with the same sum
    labels_ : (n_samples,) class indices of the training rows
    dual_coef_ : (n_samples, n_classes) y_ir alpha_ir; with "ecoc" one per column of the code
    bias_ : b
    support_ : rows with a copy of alpha > 0
    objective_, gap_ : primal objective of the machine and its relative duality gap
    objective_path_ : g_d (Eq. 2) after each solve
    kernel_gap_ : relative gap of the objective to its minimum over the weights; NaN for one kernel
    n_iter_, n_updates_ : steps, and updates of the weights
    code_ : (n_classes, n_columns) targets of the copies of each class

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = SingleBinaryClassifier("identity", C=10).fit(X, y)
    >>> clf.decision_function(X).shape, clf.class_kernel_.shape
    ((150, 3), (3, 3))
    """

    code: Any = field(default="bch", kw_only=True)
    decoder: Any = field(default="euclidean", kw_only=True)
    folds: int | None = field(default=None, kw_only=True)
    n_jobs: int | None = field(default=None, kw_only=True)
    random_state: Any = field(default=None, kw_only=True)
    verbose: int = field(default=0, kw_only=True)

    machine_class = machines.SingleBinary
    class_kernel_, kernel_weights_ = map(_of_machine, ("class_kernel_", "kernel_weights_"))
    kernel_bound_, kernel_gap_ = map(_of_machine, ("kernel_bound_", "kernel_gap_"))
    objective_, objective_path_ = map(_of_machine, ("objective_", "objective_path_"))
    gap_, n_iter_, n_updates_ = map(_of_machine, ("gap_", "n_iter_", "n_updates_"))
    dual_coef_, support_ = map(_of_machine, ("copy_coef_", "support_"))
    training_margins_ = _of_machine("training_margins_")
    temperature_ = property(lambda clf: clf.decoder_.temperature_, doc="Of the probabilities.")

    @property
    def bias_(self) -> float:
        """b of Eq. 9, the same for all copies."""
        return float(self.machine_.bias_[0])

    def elements(self) -> tuple[Any, Any, Any]:
        code, machine, decoder = super().elements()
        if not (isinstance(self.extension, str) and self.extension == "ecoc"):
            return code, machine, decoder
        return self.code, machine, decoders.Softmax(self.folds, decoders.resolve(self.decoder))
