"""What elements can do, written down: small protocols, and the one way to ask for them.

Machines, decoders and classifiers are asked what they can do, never what they are. ``can`` says
whether an element has a capability, ``require`` raises an error that names what is missing.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MethodType
from typing import Any, Protocol, TypeVar

from sklearn.utils.validation import check_is_fitted

from outcode._checks import Array

P = TypeVar("P", bound=type)

#: What each capability is in words, and what to do without it.
WORDS: dict[type, tuple[str, str]] = {}


def capability(what: str, remedy: str) -> Callable[[P], P]:
    """Make a protocol a capability: ``what`` an element then does, and a ``remedy`` without it."""

    def named(protocol: P) -> P:
        WORDS[protocol] = what, remedy
        return protocol

    return named


# --- machines ---


@capability("trains on a kernel matrix that all columns share", "use machine='svm' or 'ls'")
class TrainsOnGram(Protocol):
    """All columns are trained on one Gram store."""

    def gram(self, X: Any, targets: Any, sample_weight: Any = None) -> Any: ...

    def fit_gram(self, gram: Any, targets: Any, sample_weight: Any = None) -> Any: ...


@capability(
    "has one kernel for all columns",
    "use such a machine, or selection.ColumnSearch, which chooses a kernel for each column",
)
class HasKernel(Protocol):
    """One kernel for all columns, whose width a search may change."""

    kernel: Any


@capability("trains for several values of C and several folds at once", "use machine='svm'")
class SolvesPaths(Protocol):
    """All values of C and all weightings of the rows are solved together on one Gram store."""

    def fit_path(self, gram: Any, targets: Any, weights: Array, values: Any) -> Any: ...


@capability("trains on blocks of rows", "use machine='nystrom'")
class TrainsOnBlocks(Protocol):
    """Trains by passes over blocks of rows that need not fit in memory."""

    def task(
        self, engine: Any, source: Any, code: Any, labels: Any, lengths: Any, scale: float
    ) -> Any: ...

    def fit_task(self, task: Any) -> Any: ...

    def held_out_sample(self, task: Any, rows: Array) -> Array: ...


@capability(
    "learns and forgets rows without the others", "use machines.Nystrom(loss='least_squares')"
)
class Updates(Protocol):
    """Adds rows to what was learned, or subtracts them."""

    def update_rows(self, X: Any, targets: Any, sample_weight: Any = None, *, add: bool) -> Any: ...


@capability("trains its columns apart", "use machine='svm' or 'ls'")
class Grows(Protocol):
    """Some columns are kept while others are trained on more rows."""

    def store(self, X: Any, targets: Any, n_jobs: int | None = None) -> Any: ...

    def grown(
        self, gram: Any, targets: Any, kept: Any, sample_weight: Any, margins: Any
    ) -> Any: ...


@capability("gives margins of held-out rows", "define held_out_margins()")
class HoldsOut(Protocol):
    """Margins of each row under machines trained without its fold."""

    def held_out_margins(self, source: Any, targets: Any, fold: Array) -> Array: ...


@capability(
    "has the dual solution of a kernel machine", "use machine='svm', or loo.exact, which retrains"
)
class HasDuals(Protocol):
    """A dual solution of each column, whose margins fall by at most alpha_i G_ii without row i.

    ``gram_diagonal_`` is (n_samples,), or (n_samples, n_dichotomies) where columns have kernels of
    their own.
    """

    dual_coef_: Array
    training_margins_: Array
    gram_diagonal_: Array
    bias: str
    C: float


@capability("has an objective for each column", "use machine='svm' or 'ls', or another decoder")
class HasObjective(Protocol):
    """Columns with an objective each, which tells how far a machine can be trusted."""

    objective_: Array
    C: float
    norm2_: Array


@capability("has a norm for each column", "use machine='svm' or 'ls', or another decoder")
class HasNorms(Protocol):
    """Columns with a weight vector each, and their margins on the training rows."""

    norm2_: Array
    dual_coef_: Array
    training_margins_: Array
    C: float


@capability(
    "can be followed when a row is left out", "use machine='svm', or loo.exact, which retrains"
)
class LeavesOut(Protocol):
    """Bounds and estimates how far margins fall when a row is left out."""

    def removals(self, gram: Any, targets: Any, rows: Any) -> Array: ...

    def expanded(self, gram: Any, rows: Any) -> tuple[Array, Array]: ...


@capability("knows its leave-one-out margins in closed form", "use machine='ls'")
class KnowsLeftOut(Protocol):
    """Margins of each row under machines trained without it."""

    loo_margins_: Array


@capability("learns a relation between its columns", "use machine='jcl'")
class HasRelation(Protocol):
    """A relation matrix of the columns."""

    relation_: Array


@capability("has weight vectors to compare", "use a kernel machine")
class HasWeightProducts(Protocol):
    """Inner products of the weight vectors of its columns."""

    def weight_products(self) -> Array: ...


@capability(
    "decomposes its kernel matrix once for all its hyper-parameters",
    "use machine='jcl', or selection.KernelSearchCV",
)
class Factorises(Protocol):
    """One decomposition serves every value of the hyper-parameters."""

    def factorise(self, gram: Any, targets: Any, sample_weight: Any = None) -> Any: ...

    def fit_factorised(self, problem: Any, gram: Any, targets: Any) -> Any: ...


@capability("has support rows that add up to its margins", "use a kernel machine")
class HasPulls(Protocol):
    """What each support row adds to the margins of a new row."""

    def pulls(self, X: Any) -> tuple[Array, Array]: ...


@capability("knows the derivatives of its margins", "use a kernel machine")
class HasGradients(Protocol):
    """Derivatives of the margins by the features."""

    def gradients(self, X: Any) -> Array: ...


@capability(
    "knows its derivative", "use a named kernel: 'rbf', 'linear', 'poly', 'laplacian' or 'sigmoid'"
)
class HasGradient(Protocol):
    """A kernel with derivatives by its first row."""

    def gradient(self, a: Any, B: Any, coef: Array) -> Array: ...


@capability("knows its derivatives by the gamma of each feature", "use kernel='rbf'")
class HasGammaGradient(Protocol):
    """A kernel with derivatives by the gamma of each feature."""

    def gamma_gradient(self, X: Array, weighted: Array) -> Array: ...


@capability(
    "is a formula of the features",
    "use a kernel machine ('svm', 'ls', 'spoc', 'ww', 'nystrom', ...) with a named kernel",
)
class HasFormula(Protocol):
    """A machine whose margins, or an encoder whose features, are a formula of its input."""

    def formula(self, x: Any) -> Any: ...


@capability("is a fitted classifier of this library", "use an OutputCodeClassifier, SPOC, ...")
class HasRule(Protocol):
    """A classifier that was trained: a machine and a decoder."""

    rule_: Any


# --- codes, decoders and classifiers ---


@capability("weighs the columns of its code", "use code='ecocone'")
class WeighsColumns(Protocol):
    """A code that is learned with a weight for each of its columns."""

    def weighted_matrix(self, n_classes: int, **data: Any) -> tuple[Array, Array]: ...


@capability(
    "scores a class by a sum over columns",
    "use 'hinge', 'linear', 'logistic', 'squared', 'hamming', 'likelihood', 'softmax', 'llw', "
    "'srm', 'drm', 'shared' or 'continuous'",
)
class HasTerms(Protocol):
    """A decoder whose scores are sums over columns."""

    def terms(self, margins: Array, X: Any = None) -> Array: ...


@capability(
    "knows the derivatives of its scores",
    "use 'hinge', 'linear', 'logistic', 'squared', 'likelihood', 'softmax', 'llw' or 'continuous'",
)
class HasSlopes(Protocol):
    """A decoder with derivatives of its scores by the margins."""

    def slopes(self, margins: Array) -> Array: ...


@capability("gives probabilities", "use one that does, such as 'softmax' or 'likelihood'")
class HasProbabilities(Protocol):
    """A decoder with probabilities, whose largest is the winner of its scores."""

    def proba(self, margins: Array, X: Any = None) -> Array: ...


@capability("predicts probabilities", "use one that does")
class PredictsProbabilities(Protocol):
    """A classifier, of this library or any other, with probabilities."""

    def predict_proba(self, X: Any) -> Array: ...


@capability(
    "has a code", "give a fitted OutputCodeClassifier, or a search or pipeline that holds one"
)
class HasCode(Protocol):
    """A fitted classifier with a code and the margins of its columns."""

    code_: Array

    def margins(self, X: Any) -> Array: ...


@capability("has support vectors", "use a support vector machine")
class HasSupport(Protocol):
    """A fitted machine, of this library or any other, with support vectors."""

    support_: Array


@capability("has steps", "use a scikit-learn Pipeline")
class HasSteps(Protocol):
    """A pipeline."""

    steps: list[tuple[str, Any]]


@capability("is made of a code, a machine and a decoder", "use an OutputCodeClassifier")
class MadeOfElements(Protocol):
    """A classifier made of a code, a machine and a decoder."""

    prefix: str

    def elements(self) -> tuple[Any, Any, Any]: ...


@capability("has the parameters kernel, gamma and C", "use a kernel classifier")
class HasWidthAndCost(Protocol):
    """Any classifier with a kernel, its gamma and a cost of errors."""

    kernel: Any
    gamma: Any
    C: Any


# --- asking ---


def can(element: Any, protocol: type) -> bool:
    """Return whether an element has everything that a capability asks for."""
    return all(hasattr(element, name) for name in members(protocol))


def require(element: Any, protocol: type, for_whom: str) -> None:
    """Raise an error that names what is missing if an element lacks a capability."""
    missing = [name for name in members(protocol) if not hasattr(element, name)]
    if missing:
        what, remedy = WORDS[protocol]
        owner = type(getattr(element, "estimator", element)).__name__
        raise ValueError(
            f"{for_whom} needs something that {what}, but {owner} has no "
            f"{', '.join(missing)}: {remedy}."
        )


def rule_of(clf: Any, for_whom: str) -> Any:
    """Return the rule of a fitted classifier, or an error if it is not fitted or has none."""
    if not can(clf, HasRule):
        check_is_fitted(clf)
    require(clf, HasRule, for_whom)
    return clf.rule_


def members(protocol: type) -> list[str]:
    """Return the names that a capability asks for."""
    own = {**vars(protocol).get("__annotations__", {}), **vars(protocol)}
    return [name for name in own if not name.startswith("_")]


# --- methods that some elements have ---


class _Available:
    """A method that an object has if a check says so."""

    def __init__(self, method: Callable[..., Any], check: Callable[[Any], bool]) -> None:
        self.method, self.check = method, check
        self.__doc__ = method.__doc__

    def __get__(self, element: Any, owner: type) -> Any:
        if element is None:
            return self.method
        if not self.check(element):
            raise AttributeError(f"This {owner.__name__} has no {self.method.__name__}().")
        return MethodType(self.method, element)


def available_if(check: Callable[[Any], bool]) -> Callable[[Callable[..., Any]], Any]:
    """Make a method one that an object has only if ``check(object)`` is true.

    As scikit-learn's, but an AttributeError that the check raises is what the user reads: it may
    say what to do instead.
    """
    return lambda method: _Available(method, check)
