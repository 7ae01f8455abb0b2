"""Decoders: margins and a code -> class scores.

A decoder is a parameter object with ``fit(training)`` and ``scores(margins, X)``, and ``proba``
where it can; larger is better, and a tie goes to the lower class index. Distances d(m_q, f) are
returned as scores -d. To add one, write the class in the file of its family and enter its name in
the table at that file's foot.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.base import clone

from outcode._checks import gathered, lookup
from outcode.decoders import (
    continuous,
    coupling,
    dag,
    distance,
    likelihood,
    loss,
    reliability,
    shared,
    softmax,
)
from outcode.decoders.closeness import Closeness
from outcode.decoders.codewords import LearnedCodewords
from outcode.decoders.common import Decoder, Sides, log_total_exponential, total_loss
from outcode.decoders.continuous import ContinuousCode
from outcode.decoders.coupling import BradleyTerry, PairwiseCoupling
from outcode.decoders.dag import DecisionDAG
from outcode.decoders.distance import AttenuatedEuclidean, Euclidean, Hamming, InverseHamming
from outcode.decoders.likelihood import Likelihood
from outcode.decoders.loss import LossBased, LossWeighted
from outcode.decoders.normalised import Normalised
from outcode.decoders.reliability import DynamicReliability, StaticReliability
from outcode.decoders.shared import SharedSigmoid
from outcode.decoders.softmax import Softmax
from outcode.training import Training

__all__ = [
    "DECODERS",
    "AttenuatedEuclidean",
    "BradleyTerry",
    "Closeness",
    "ContinuousCode",
    "DecisionDAG",
    "Decoder",
    "DynamicReliability",
    "Euclidean",
    "Hamming",
    "InverseHamming",
    "LearnedCodewords",
    "Likelihood",
    "LossBased",
    "LossWeighted",
    "Normalised",
    "PairwiseCoupling",
    "SharedSigmoid",
    "Sides",
    "Softmax",
    "StaticReliability",
    "Training",
    "log_total_exponential",
    "resolve",
    "total_loss",
]

DECODERS: dict[str, Callable[[], Decoder]] = {
    **distance.NAMES,
    **loss.NAMES,
    **likelihood.NAMES,
    **coupling.NAMES,
    **reliability.NAMES,
    **continuous.NAMES,
    **dag.NAMES,
    **softmax.NAMES,
    **shared.NAMES,
    **gathered(__name__, __path__),
}


def resolve(decoder: Any) -> Decoder:
    """Return a fresh decoder from a name or an object.

    Parameters
    ----------
    decoder : str or decoder
        Name of a decoder, or an object with ``fit`` and ``scores``.

    Returns
    -------
    Decoder
        Unfitted; an object that was given is cloned.

    Examples
    --------
    >>> resolve("hamming")
    Hamming()
    """
    if isinstance(decoder, str):
        return lookup(DECODERS, decoder, "decoder")()
    if hasattr(decoder, "scores") and not isinstance(decoder, type):
        return clone(decoder)
    raise ValueError(
        f"decoder must be a name ({', '.join(map(repr, DECODERS))}) or an object with fit() and "
        f"scores(), got {decoder!r}."
    )
