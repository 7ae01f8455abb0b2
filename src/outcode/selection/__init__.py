"""Choosing kernel parameters: by the leave-one-out bound, by folds, by doubling.

Three scikit-learn search estimators over the kernel's ``gamma`` and the machines' ``C``, for an
:class:`outcode.OutputCodeClassifier` on kernel machines. No kernel value is computed twice.
"""

from outcode.selection.searches import GreedySearch, KernelSearchCV, LOOBoundSearch
from outcode.selection.trainings import median_gamma

__all__ = ["GreedySearch", "KernelSearchCV", "LOOBoundSearch", "median_gamma"]
