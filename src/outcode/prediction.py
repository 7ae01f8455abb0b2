"""Prediction by a rule: what a classifier does once it is trained."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_is_fitted, validate_data

from outcode import conformal, decisions, decoders, machines, notebooks, streaming
from outcode import explain as explanations
from outcode._checks import Array, text_explained
from outcode.capabilities import HasProbabilities, TrainsOnGram, available_if, can
from outcode.posing import source_of
from outcode.saved import (
    MOST_COLUMNS,
    Kind,
    Labels,
    LeftOut,
    Optional,
    Part,
    Saved,
    Strings,
    Whole,
    signs,
)
from outcode.scores import ByScores
from outcode.training import Problem, Rule


def _has_proba(clf: ByRule) -> bool:
    rule = getattr(clf, "rule_", None)
    decoder = decoders.resolve(clf.elements()[2]) if rule is None else rule.decoder
    if not can(decoder, HasProbabilities):
        raise AttributeError(
            f"The decoder {decoder!r} gives scores but no probabilities: {clf.for_probabilities}, "
            f"or on a fitted classifier with_decoder('softmax', X_train)."
        )
    return True


class ByRule(ByScores, Saved, notebooks.InNotebook):
    """A classifier that predicts by the rule it was trained to.

    A subclass says in :meth:`elements` what the rule is made of, and its ``fit`` sets ``classes_``
    and ``rule_``.
    """

    saved: ClassVar[Mapping[str, Kind]] = {
        "n_features_in_": Whole(1, "n_features", MOST_COLUMNS),
        "feature_names_in_": Optional(Strings("n_features")),
        "classes_": Labels("n_classes"),
        "code_": signs("n_classes", "n_dichotomies"),
        "machine_": Part(("machine",)),
        "decoder_": Part(("decoder",)),
        "calibration_": Optional(Part(("calibration",))),
    }
    for_probabilities: ClassVar[str] = "use decoder='softmax' or 'likelihood'"
    n_jobs: int | None = None
    random_state: Any = None
    verbose: int = 0
    rule_: Rule

    def elements(self) -> tuple[Any, Any, Any]:
        """Return the code, the machine and the decoder, by name or as objects."""
        raise NotImplementedError(f"{type(self).__name__} must define elements()")

    @property
    def code_(self) -> Array:
        """The (n_classes, n_dichotomies) code."""
        return self._rule().problem.code

    @property
    def machine_(self) -> Any:
        """The fitted machine."""
        return self._rule().machine

    @property
    def decoder_(self) -> Any:
        """The fitted decoder."""
        return self._rule().decoder

    @property
    def labels_(self) -> Array:
        """The (n_samples,) class indices of the training rows."""
        return self._rule().problem.labels

    @property
    def sample_weight_(self) -> Array:
        """The (n_samples,) weights of the training rows, class weights included."""
        return self._rule().problem.weight

    def margins(self, X: Any) -> Array:
        """Return the (n_samples, n_dichotomies) margins of the machine."""
        if streaming.in_blocks(X):
            return streaming.predicted(self, "margins", X)
        return self._rule().margins(self.validated(X))

    def predict(self, X: Any) -> Array:
        """Return the class with the largest score, the first of equals."""
        if streaming.in_blocks(X):
            return streaming.predicted(self, "predict", X)
        return self._rule().of_rows(self.rule_.predict, self.validated(X))

    @available_if(_has_proba)
    def predict_proba(self, X: Any) -> Array:
        """Return the (n_samples, n_classes) probabilities; their largest is what predict says."""
        if streaming.in_blocks(X):
            return streaming.predicted(self, "predict_proba", X)
        return self._rule().of_rows(self.rule_.proba, self.validated(X))

    def predict_set(
        self,
        X: Any,
        coverage: float = 0.9,
        method: Any = "lac",
        *,
        per_class: bool = False,
        allow_empty: bool = False,
    ) -> Array:
        """Return the classes each row may belong to, (n_samples, n_classes) bool.

        What the coverage rests on is in :mod:`outcode.conformal`.

        Parameters
        ----------
        coverage : share of rows whose set holds their class
        method : "lac", "aps" or "raps" (probabilities), "rank" (any decoder), or a function of the
            (n_samples, n_classes) probabilities or scores
        per_class : the coverage holds among the rows of each class
        allow_empty : leave a set empty; otherwise it holds at least the class predicted
        """
        check_is_fitted(self, "rule_")
        calibration, X = conformal.require_calibration(self), self.validated(X)
        values = self.rule_.of_rows(partial(conformal.class_values, self.rule_), X)
        options: dict[str, Any] = {"per_class": per_class, "allow_empty": allow_empty}
        return calibration.sets(values, coverage, method, **options)

    def explain(self, x: Any) -> explanations.Explanation:
        """Return why one row is given its class: what each column adds to each score."""
        check_is_fitted(self, "rule_")
        return explanations.explain(self, x)

    def with_cost(self, cost: Any) -> decisions.CostSensitive:
        """Return the fitted classifier as one that predicts the class of least expected cost.

        ``cost`` is an (n_classes, n_classes) matrix, cost[true, predicted], or for ordered classes
        "absolute" or "squared". The probabilities stay as they are.
        """
        check_is_fitted(self, "rule_")
        return decisions.fitted(self, cost)

    def posed(self, X: Any) -> Problem:
        """Return the problem the classifier was trained on, with its rows if they are given."""
        problem = self._rule().problem
        if X is None:
            return problem
        pairwise = machines.input_tags(self.machine_).pairwise
        problem = replace(problem, X=self.training_rows(X), pairwise=pairwise)
        return replace(problem, source=source_of(self.machine_, problem, self.n_jobs))

    def training_rows(self, X: Any) -> Any:
        """Return training rows as the machine takes them, or an error if it had more or fewer."""
        rows, n = self.validated(X), len(self.labels_)
        if rows.shape[0] != n:
            raise ValueError(
                f"X has {rows.shape[0]} rows, but the classifier was fitted on {n}: X must be "
                f"the training rows, in their order."
            )
        return rows

    def validated(self, X: Any) -> Any:
        """Return new rows as the machine takes them, or an error if they do not fit."""
        return X if self._as_trained(X) else self._validated(self.machine_, X)

    def _as_trained(self, X: Any) -> bool:
        """Whether X is an array that needs no conversion: scikit-learn's checks cost 0.1 ms."""
        return (
            type(X) is np.ndarray
            and X.dtype == np.float64
            and X.ndim == 2
            and X.shape[0] > 0
            and X.shape[1] == self.n_features_in_
            and not hasattr(self, "feature_names_in_")
            and bool(np.isfinite(X.sum()))
        )

    def _validated(self, machine: Any, X: Any, *y: Any) -> Any:
        """Return rows (and labels when training) as a machine takes them."""
        tags = machines.input_tags(machine)
        if sparse.issparse(X) and not tags.sparse:
            what = "A precomputed kernel matrix" if tags.pairwise else "X, for this machine,"
            raise ValueError(f"{what} cannot be sparse: give X.toarray().")
        rules = {
            "accept_sparse": "csr" if tags.sparse else False,
            "dtype": np.float64 if can(machine, TrainsOnGram) and not tags.pairwise else None,
            "ensure_all_finite": not tags.allow_nan,
        }
        with text_explained(X):
            return validate_data(self, X, *y, reset=bool(y), **rules)

    def packed(self) -> Mapping[str, Any]:
        if not hasattr(self, "rule_"):
            return {}
        own = {name: getattr(self, name) for name in ("code_", "machine_", "decoder_")}
        return {**vars(self), **own, "calibration_": conformal.calibration_of(self.rule_)}

    def unpack(self, values: dict[str, Any]) -> None:
        code, machine, decoder = (values.pop(name) for name in ("code_", "machine_", "decoder_"))
        calibration = values.pop("calibration_")
        super().unpack(values)
        if not np.array_equal(code, decoder.code_):
            raise ValueError("the decoder reads another code")
        labels: Any = LeftOut("labels_")
        weight: Any = LeftOut("sample_weight_")
        problem = Problem(None, code, labels, weight, self.classes_)
        self.rule_ = Rule(problem, machine, decoder, calibration=calibration)

    def _summary(self) -> str | None:
        if not hasattr(self, "rule_"):
            return None
        parts = self.classes_, self.code_, self.machine_, self.decoder_
        return notebooks.classifier(type(self).__name__, *parts)

    def _rule(self) -> Rule:
        check_is_fitted(self, "rule_")
        return self.rule_

    def _scores(self, X: Any) -> Array:
        return self._rule().of_rows(self.rule_.scores, self.validated(X))
