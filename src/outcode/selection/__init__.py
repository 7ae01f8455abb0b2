"""Choosing kernel parameters: by the leave-one-out bound, by folds, by doubling.

Three scikit-learn search estimators over the kernel's ``gamma`` and the machines' ``C``, for an
:class:`outcode.OutputCodeClassifier` on kernel machines, and one over ``lambda1`` and ``lambda2``
of joint machines. No kernel value is computed twice.
"""

from outcode.kernels import median_gamma
from outcode.selection.columns import ColumnSearch
from outcode.selection.joint import JointSearchCV, bandwidth_gammas
from outcode.selection.relevance import RelevanceSearch
from outcode.selection.searches import GreedySearch, KernelSearchCV, LOOBoundSearch
from outcode.selection.smooth import SmoothBound, smooth_bound
from outcode.selection.tuned import OutputCodeClassifierCV

__all__ = [
    "ColumnSearch",
    "GreedySearch",
    "JointSearchCV",
    "KernelSearchCV",
    "LOOBoundSearch",
    "OutputCodeClassifierCV",
    "RelevanceSearch",
    "SmoothBound",
    "bandwidth_gammas",
    "median_gamma",
    "smooth_bound",
]
