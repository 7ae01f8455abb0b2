"""Why this class: what each column adds to each score, and what would change the decision.

For a decoder whose scores are sums over columns, score_q = sum_s term_qs, the terms are the
explanation: they add up to the score exactly. Column s speaks for the predicted class w against
class q by term_ws - term_qs.

Flips. Turning the margin of a column around, f_s -> -f_s, changes its terms alone. Against a rival
q each flip is worth a number, so the fewest flips that put q ahead of w are those worth most: the
smallest set over all rivals is exact. It is verified by decoding the flipped margins.

Support rows. K(x, x_i) dual_coef_is is what support row i adds to the margin of column s; its pull
is the sum over columns of (m_ws - m_qs) / 2 times that, q being the second class.

Features. The derivative of a score by a feature is sum_s (d score_q / d f_s) (d f_s / d x_j), the
second factor being the exact derivative of the kernel expansion.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from outcode import results
from outcode._checks import Array
from outcode.capabilities import HasGradients, HasPulls, HasSlopes, HasTerms, can, require, rule_of
from outcode.saved import LeftOut

#: Support rows that are kept, and columns that are named in the text.
PULLING, NAMED = 10, 5


@dataclass(frozen=True)
class Explanation:
    """The explanation of one prediction.

    Parameters
    ----------
    classes : ndarray of shape (n_classes,)
        The labels.
    code : ndarray of shape (n_classes, n_dichotomies)
        The code.
    margins : ndarray of shape (n_dichotomies,)
        Margins of the row.
    terms : ndarray of shape (n_classes, n_dichotomies)
        What each column adds to each score.
    scores : ndarray of shape (n_classes,)
        The scores of the decoder, the sums of the terms.
    accuracy : ndarray of shape (n_dichotomies,)
        Accuracy of each column on its training rows; NaN if not known.
    held_out_accuracy : ndarray of shape (n_dichotomies,)
        Accuracy of each column on held-out rows; NaN if there are none.
    flips : ndarray of int
        A smallest set of columns whose flip changes the decision; empty if none does.
    flipped : label or None
        The class predicted then, None if no flip changes the decision.
    support : ndarray of int
        The most influential support rows; empty for a machine without support rows.
    pull : ndarray of float
        Their influence, positive towards the predicted class.
    """

    classes: Array
    code: Array
    margins: Array
    terms: Array
    scores: Array
    accuracy: Array
    held_out_accuracy: Array
    flips: Array
    flipped: Any
    support: Array
    pull: Array

    @property
    def order(self) -> Array:
        """Class indices by falling score, the first of equals first."""
        return np.argsort(-self.scores, kind="stable")

    @property
    def predicted(self) -> Any:
        """The class with the largest score."""
        return self.classes[self.order[0]]

    @property
    def lead(self) -> Array:
        """What each column adds to the lead of the class predicted over the second."""
        first, second = self.order[:2]
        return np.asarray(self.terms[first] - self.terms[second])

    def frame(self) -> Any:
        """Return a row per column: margin, accuracy, and what it adds to each class."""
        import pandas

        table = {
            "margin": self.margins,
            "accuracy": self.accuracy,
            "held-out accuracy": self.held_out_accuracy,
            "lead": self.lead,
            "flip": np.isin(np.arange(len(self.margins)), self.flips),
        }
        added = {f"for {label}": term for label, term in zip(self.classes, self.terms, strict=True)}
        index = pandas.RangeIndex(len(self.margins), name="column")
        return pandas.DataFrame({**table, **added}, index=index)

    def __str__(self) -> str:
        first, second = (self.classes[q] for q in self.order[:2])
        scores = self.scores[self.order[:2]]
        lines = [
            f"Predicted {first}: score {scores[0]:.4g}, then {second} with {scores[1]:.4g}.",
            f"For {first} against {second}: {self._named(self.lead)}.",
            f"For {second} against {first}: {self._named(-self.lead)}.",
            self._flip_text(),
        ]
        if len(self.support):
            rows = zip(self.support[:NAMED], self.pull[:NAMED], strict=True)
            lines.append(
                "Most influential support vectors: "
                + ", ".join(f"{row} ({pull:+.3g})" for row, pull in rows)
                + "."
            )
        return "\n".join(lines)

    def plot(self, ax: Any = None) -> Any:
        """Draw what each column adds to the lead over the second class; return the axes."""
        from matplotlib import pyplot

        ax = pyplot.subplots(layout="constrained")[1] if ax is None else ax
        order = np.argsort(-np.abs(self.lead), kind="stable")[:20][::-1]
        first, second = (str(self.classes[q]) for q in self.order[:2])
        colours = ["#2b6cb0" if self.lead[s] >= 0 else "#dd6b20" for s in order]
        ax.barh(range(len(order)), self.lead[order], color=colours)
        ax.set_yticks(range(len(order)), [f"column {s}" for s in order])
        ax.axvline(0.0, color="#2d3748", linewidth=1)
        ax.set_xlabel(f"for {first}, against {second}", parse_math=False)
        ax.spines[["top", "right"]].set_visible(False)
        return ax

    def _named(self, lead: Array) -> str:
        """Return the columns that add most, as text."""
        order = np.argsort(-lead, kind="stable")[:NAMED]
        named = [f"column {s} ({lead[s]:+.3g}{self._trust(s)})" for s in order if lead[s] > 0]
        return ", ".join(named) or "no column"

    def _trust(self, s: int) -> str:
        known = self.held_out_accuracy[s], self.accuracy[s]
        kinds = zip(known, ("held out", "in training"), strict=True)
        return next((f", right on {v:.1%} {kind}" for v, kind in kinds if not np.isnan(v)), "")

    def _flip_text(self) -> str:
        if self.flipped is None:
            return "No flip of columns changes the decision."
        some = ", ".join(str(s) for s in self.flips)
        return f"With column {some} flipped, the prediction would be {self.flipped}."


def explain(clf: Any, x: Any) -> Explanation:
    """Explain the prediction of one row.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted, with a decoder whose scores are sums over columns.
    x : array-like of shape (n_features,) or (1, n_features)
        The row.

    Returns
    -------
    Explanation
        What each column adds, the flips that change the decision and the influential support rows.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", "svm", "hinge").fit(X, y)
    >>> why = explain(clf, X[70])
    >>> bool(abs(why.terms.sum(axis=1) - clf.decision_function(X[70:71])[0]).max() < 1e-12)
    True
    """
    rule = rule_of(clf, "An explanation")
    rows = clf.validated(_one_row(x))
    require(rule.decoder, HasTerms, "An explanation")
    margins = rule.margins(rows)
    terms, scores = rule.decoder.terms(margins, rows)[0], rule.scores(margins, rows)[0]
    order = np.argsort(-scores, kind="stable")
    flips, flipped = _smallest_flip(rule, margins, rows, terms, order[0])
    known = _accuracies(rule)
    support, pull = _pulling(rule, rows, order[:2])
    return Explanation(
        clf.classes_, rule.problem.code, margins[0], terms, scores, *known,
        flips, None if flipped is None else clf.classes_[flipped], support, pull,
    )  # fmt: skip


def _one_row(x: Any) -> Any:
    if hasattr(x, "to_frame"):  # a row of a pandas data frame keeps its column names
        return x.to_frame().T
    x = x if hasattr(x, "shape") else np.asarray(x)
    if len(x.shape) == 1:
        return np.asarray(x)[None, :]
    if len(x.shape) != 2 or x.shape[0] != 1:
        raise ValueError(
            f"explain takes one row, got an array of shape {x.shape}: give X[i] or X[i:i+1]."
        )
    return x


def _smallest_flip(
    rule: Any, margins: Array, rows: Any, terms: Array, winner: int
) -> tuple[Array, int | None]:
    """Return a smallest set of columns whose flip changes the decision, and the class then."""
    gain = rule.decoder.terms(-margins, rows)[0] - terms
    best: tuple[Array, int | None] = np.arange(0), None
    for q in np.delete(np.arange(len(terms)), winner):
        worth = gain[q] - gain[winner]
        order = np.argsort(-worth, kind="stable")
        lead = terms[winner].sum() - terms[q].sum() - np.cumsum(worth[order])
        enough = np.flatnonzero(lead <= 1e-12 * np.abs(terms).sum())
        for count in enough[:2] + 1:  # the first may leave a tie that goes to the winner
            if best[1] is not None and count >= len(best[0]):
                break
            found = _decision(rule, margins, rows, order[:count])
            if found != winner:
                best = np.sort(order[:count]), found
                break
    return best


def _decision(rule: Any, margins: Array, rows: Any, columns: Array) -> int:
    flipped = margins.copy()
    flipped[:, columns] *= -1.0
    return int(rule.decoder.best(flipped, rows)[0])


def _accuracies(rule: Any) -> tuple[Array, Array]:
    """Return how often each column is right on training rows and on held-out rows."""
    none, problem = np.full(rule.problem.code.shape[1], np.nan), rule.problem
    if isinstance(problem.labels, LeftOut):
        return none, none
    counted, margins = problem.weight > 0, getattr(rule.machine, "training_margins_", None)
    training = none  # a machine trained block by block keeps no margins
    if margins is not None and len(margins) == len(counted):
        training = column_accuracy(margins[counted], problem.targets[counted])
    if not rule.held_out:
        return training, none
    margins, fold = rule.held_out_margins
    return training, column_accuracy(margins[fold >= 0], problem.targets[fold >= 0])


def column_accuracy(margins: Array, targets: Array) -> Array:
    """Return the share of rows that each column gets right among those it uses; NaN for none.

    Parameters
    ----------
    margins : ndarray of shape (n_samples, n_dichotomies)
        Margins of the machines.
    targets : ndarray of shape (n_samples, n_dichotomies)
        Entries -1, 0 and +1; a row is not used by a column where the entry is 0.

    Returns
    -------
    ndarray of shape (n_dichotomies,)
        The share of each column.

    Examples
    --------
    >>> column_accuracy(np.array([[1.0, 2.0], [-1.0, 3.0]]), np.array([[1, -1], [1, 0]])).tolist()
    [0.5, 0.0]
    """
    wrong = results.wrong_columns(margins, targets)
    return np.asarray(1.0 - results.column_shares(wrong, targets)[0])


def _pulling(rule: Any, rows: Any, pair: Array) -> tuple[Array, Array]:
    """Return the most influential support rows for the first of two classes, or against it."""
    if not can(rule.machine, HasPulls):
        return np.arange(0), np.empty(0)
    support, added = rule.machine.pulls(rows)
    code = rule.problem.code.astype(np.float64)
    pull = added @ ((code[pair[0]] - code[pair[1]]) / 2.0)
    most = np.argsort(-np.abs(pull), kind="stable")[:PULLING]
    return support[most], pull[most]


# --- whole data sets ---


def gradients(clf: Any, X: Any) -> Array:
    """Return the derivatives of the scores by the features, (n_samples, n_classes, n_features).

    Exact where the scores have a derivative: almost everywhere for the hinge loss and the
    Laplacian kernel.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted, with a decoder and a machine that have derivatives.
    X : array-like of shape (n_samples, n_features)
        Rows to take the derivatives at.

    Returns
    -------
    ndarray of shape (n_samples, n_classes, n_features)
        The derivatives.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> gradients(OutputCodeClassifier("ovo", decoder="logistic").fit(X, y), X).shape
    (150, 3, 4)
    """
    rule = rule_of(clf, "A gradient of the scores")
    rows = clf.validated(X)
    require(rule.decoder, HasSlopes, "A gradient of the scores")
    require(rule.machine, HasGradients, "A gradient of the scores")
    slopes = rule.decoder.slopes(rule.margins(rows))
    return np.einsum("iqs,isj->iqj", slopes, rule.machine.gradients(rows))


def feature_influence(clf: Any, X: Any) -> Array:
    """Return the mean absolute derivative of each class score by each feature, over rows.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted, with a decoder and a machine that have derivatives.
    X : array-like of shape (n_samples, n_features)
        Rows to take the mean over.

    Returns
    -------
    ndarray of shape (n_classes, n_features)
        In score per unit of the feature: compare features on one scale.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> feature_influence(OutputCodeClassifier("ovo", decoder="logistic").fit(X, y), X).shape
    (3, 4)
    """
    return np.asarray(np.abs(gradients(clf, X)).mean(axis=0))


def deciding_columns(clf: Any, X: Any) -> Array:
    """Return which columns decide between which classes, (n_classes, n_classes, n_dichotomies).

    Entry (q, r, s): of the rows predicted q with r second, the share in which a change of the sign
    of column s alone makes r the prediction; NaN if there is no such row.

    Parameters
    ----------
    clf : OutputCodeClassifier
        Fitted, with a decoder whose scores are sums over columns.
    X : array-like of shape (n_samples, n_features)
        Rows to take the shares over.

    Returns
    -------
    ndarray of shape (n_classes, n_classes, n_dichotomies)
        The shares.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> deciding_columns(OutputCodeClassifier("ovo", decoder="hamming").fit(X, y), X).shape
    (3, 3, 3)
    """
    rule = rule_of(clf, "An explanation")
    rows = clf.validated(X)
    require(rule.decoder, HasTerms, "An explanation")
    margins = rule.margins(rows)
    terms = rule.decoder.terms(margins, rows)
    gain = rule.decoder.terms(-margins, rows) - terms
    order, k = np.argsort(-rule.scores(margins, rows), axis=1, kind="stable"), terms.shape[1]
    i, first, second = np.arange(len(terms)), order[:, 0], order[:, 1]
    lead = terms[i, first].sum(axis=1) - terms[i, second].sum(axis=1)
    turned = gain[i, second] - gain[i, first] > lead[:, None]
    total, count = np.zeros((k, k, terms.shape[2])), np.zeros((k, k))
    np.add.at(total, (first, second), turned)
    np.add.at(count, (first, second), 1)
    with np.errstate(invalid="ignore"):
        return np.asarray(total / count[..., None])
