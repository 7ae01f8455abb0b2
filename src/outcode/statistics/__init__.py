"""Which methods differ, in what direction and by how much: ranks, tests, critical differences.

Over many data sets, from one error per data set and method:

- :func:`average_ranks`, :func:`friedman` (with Iman and Davenport's F), :func:`nemenyi`;
- :func:`wilcoxon` between pairs, with Holm's correction (:func:`holm`);
- :func:`bayesian_signed_rank`, which can also say that two methods are practically equal.

On one data set: :func:`corrected_t` from the errors of its folds, :func:`mcnemar` from the rows of
one test set. :func:`win_tie_loss` counts the paired t tests of many data sets.

Tables are (n_datasets, n_methods), lower is better unless said otherwise, NaN is a missing cell: a
data set with a missing cell is left out, for all methods, and the result says so (``left_out`` and
the sentence). Values that differ by less than 1e-12 of the largest are equal. Every result is a
frozen dataclass of numbers with ``sentence``, its meaning in plain words.
"""

from outcode.statistics.folds import (
    CorrectedT,
    CorrectedTPair,
    WinTieLoss,
    WinTieLossPair,
    corrected_t,
    win_tie_loss,
)
from outcode.statistics.pairs import Pair, holm
from outcode.statistics.ranks import (
    AverageRanks,
    Friedman,
    Nemenyi,
    average_ranks,
    friedman,
    nemenyi,
)
from outcode.statistics.rows import McNemar, McNemarPair, mcnemar
from outcode.statistics.signed_ranks import (
    BayesianPair,
    BayesianSignedRank,
    Wilcoxon,
    WilcoxonPair,
    bayesian_signed_rank,
    wilcoxon,
)

__all__ = [
    "AverageRanks",
    "BayesianPair",
    "BayesianSignedRank",
    "CorrectedT",
    "CorrectedTPair",
    "Friedman",
    "McNemar",
    "McNemarPair",
    "Nemenyi",
    "Pair",
    "Wilcoxon",
    "WilcoxonPair",
    "WinTieLoss",
    "WinTieLossPair",
    "average_ranks",
    "bayesian_signed_rank",
    "corrected_t",
    "friedman",
    "holm",
    "mcnemar",
    "nemenyi",
    "wilcoxon",
    "win_tie_loss",
]
