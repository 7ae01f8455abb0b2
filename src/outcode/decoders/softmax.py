"""Classes by the margins of their own columns, with probabilities by one temperature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from outcode._checks import Array
from outcode.capabilities import available_if
from outcode.decoders.common import Decoder
from outcode.decoders.likelihood import fit_temperature, softmax
from outcode.dichotomies import own_entries
from outcode.formula import floats
from outcode.parallel import single_blas
from outcode.saved import Number, Optional, Part
from outcode.scores import settled
from outcode.training import Training


def _has_folds(decoder: Softmax) -> bool:
    if decoder.folds is None:
        raise AttributeError(
            "folds=None fits no probabilities: give a number of folds before fitting."
        )
    return True


def _has_terms(decoder: Softmax) -> bool:
    return decoder.decoder is None or hasattr(decoder.decoder, "terms")


def _has_slopes(decoder: Softmax) -> bool:
    return decoder.decoder is None or hasattr(decoder.decoder, "slopes")


class Softmax(Decoder):
    """Score a class by its own columns, and turn scores into probabilities by one temperature.

    score_q = sum_s D_qs f_s, with D the code less the commonest entry of each column, halved: with
    one-vs-all (and machines that learn all classes at once) the margin of the class itself, f_q.
    It orders the classes as linear loss-based decoding does. The probabilities are proportional to
    exp(score_q / T) (temperature scaling, Guo et al. 2017), with T fitted on held-out margins.

    Parameters
    ----------
    folds : int or None
        Number of folds for the held-out margins; folds are held out until 2,000 samples have
        held-out margins. With None no probabilities are fitted, and no further machine is trained.
    decoder : Decoder or None
        Another decoder whose scores are used instead; this adds probabilities to it.

    Attributes
    ----------
    temperature_ : float
        T.

    Examples
    --------
    >>> from outcode import OutputCodeClassifier
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    >>> bool((clf.decision_function(X) == clf.margins(X)).all())
    True
    >>> clf.predict_proba(X).shape
    (150, 3)
    """

    saved = {
        **Decoder.saved,
        "temperature_": Optional(Number(low=1e-9)),
        "decoder_": Optional(Part(("decoder",))),
    }

    enough = 2000

    def __init__(self, folds: int | None = 5, decoder: Decoder | None = None) -> None:
        self.folds = folds
        self.decoder = decoder

    @property
    def monotone(self) -> bool:  # type: ignore[override]  # here it depends on the decoder
        """Whether its scores, or those of the other decoder, are a sum of falling losses."""
        return self.decoder is None or self.decoder.monotone

    @property
    def looks_at_rows(self) -> bool:  # type: ignore[override]  # here it depends on the decoder
        """Whether the other decoder does."""
        return self.decoder is not None and self.decoder.looks_at_rows

    def fit(self, training: Training) -> Softmax:
        super().fit(training)
        self.decoder_ = None if self.decoder is None else clone(self.decoder).fit(training)
        if self.folds is not None:
            scores = self.scores(training.crossfit(self.folds), training.X)
            held = training.was_held_out(self.folds)
            args = scores[held], training.labels[held], training.sample_weight[held]
            self.temperature_ = fit_temperature(*args) if held.any() else 1.0
        return self

    def scores(self, margins: Array, X: Any = None) -> Array:
        if self.decoder_ is not None:
            return floats(self.decoder_.scores(margins, X))
        own, margins = own_entries(self.code_) / 2.0, floats(margins)
        if np.array_equal(own, np.eye(len(own))):
            return margins
        with single_blas():
            return settled(margins @ own.T)

    @available_if(_has_terms)
    def terms(self, margins: Array, X: Any = None) -> Array:
        """Return what each column adds to each score."""
        if self.decoder_ is not None:
            return np.asarray(self.decoder_.terms(margins, X))
        return np.asarray(margins, dtype=np.float64)[:, None, :] * own_entries(self.code_) / 2.0

    @available_if(_has_slopes)
    def slopes(self, margins: Array) -> Array:
        """Return the derivatives of the scores by the margins."""
        if self.decoder_ is not None:
            return np.asarray(self.decoder_.slopes(margins))
        return np.tile(own_entries(self.code_) / 2.0, (len(margins), 1, 1))

    def unpack(self, values: dict[str, Any]) -> None:
        super().unpack(values)
        self.decoder_ = values["decoder_"]

    @available_if(_has_folds)
    def proba(self, margins: Array, X: Any = None) -> Array:
        """Return the (n_samples, n_classes) probabilities; the largest is that of ``scores``."""
        return softmax(self.scores(margins, X), self.temperature_)


NAMES: dict[str, Callable[[], Decoder]] = {"softmax": Softmax}
