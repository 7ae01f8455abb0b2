"""Which methods differ, in what direction and by how much: ranks, tests, critical differences.

Over many data sets, from one error per data set and method:

- :func:`average_ranks`, :func:`friedman` (with Iman and Davenport's F), :func:`nemenyi`;
- :func:`wilcoxon` between pairs, with Holm's correction (:func:`holm`);
- :func:`bayesian_signed_rank`, which can also say that two methods are practically equal.

On one data set: :func:`corrected_t` and :func:`bayesian_corrected_t` from the errors of its folds,
:func:`mean_interval` for one method's, :func:`mcnemar` from the rows of one test set.
:func:`win_tie_loss` counts the paired t tests of many data sets. :func:`calibration` tests whether
probabilities hold. :func:`against_best` corrects for the choice of the best from the same table.

:data:`TESTS` are the tests a report runs; each file enters its own at its foot.

Tables are (n_datasets, n_methods), lower is better unless said otherwise, NaN is a missing cell: a
data set with a missing cell is left out, for all methods, and the result says so (``left_out`` and
the sentence). Values that differ by less than 1e-12 of the largest are equal. Every result is a
frozen dataclass of numbers with ``sentence``, its meaning in plain words.
"""

from outcode.statistics import folds, ranks, rows, signed_ranks
from outcode.statistics.best import against_best
from outcode.statistics.calibration import Calibration, calibration
from outcode.statistics.folds import (
    CorrectedT,
    CorrectedTPair,
    WinTieLoss,
    WinTieLossPair,
    bayesian_corrected_t,
    corrected_t,
    mean_interval,
    win_tie_loss,
)
from outcode.statistics.pairs import BayesianPair, BayesianPairs, Comparison, Pair, holm, with_best
from outcode.statistics.ranks import (
    AverageRanks,
    Friedman,
    Nemenyi,
    average_ranks,
    friedman,
    mean_ranks,
    nemenyi,
)
from outcode.statistics.rows import McNemar, McNemarPair, beats_rate, mcnemar
from outcode.statistics.signed_ranks import (
    Wilcoxon,
    WilcoxonPair,
    bayesian_signed_rank,
    wilcoxon,
)
from outcode.statistics.table import complete

#: Every test that a report runs, the deciding one of each unit first.
TESTS = (*folds.TESTS, *ranks.TESTS, *signed_ranks.TESTS, *rows.TESTS)

__all__ = [
    "TESTS",
    "AverageRanks",
    "BayesianPair",
    "BayesianPairs",
    "Calibration",
    "Comparison",
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
    "against_best",
    "average_ranks",
    "bayesian_corrected_t",
    "bayesian_signed_rank",
    "beats_rate",
    "calibration",
    "complete",
    "corrected_t",
    "friedman",
    "holm",
    "mcnemar",
    "mean_interval",
    "mean_ranks",
    "nemenyi",
    "wilcoxon",
    "win_tie_loss",
    "with_best",
]
