"""scikit-learn's own checks: every one passes, with an empty list of expected failures."""

from __future__ import annotations

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from outcode import OutputCodeClassifier, OutputCodeClassifierCV
from outcode.machines import SVM

# weight-equivalence compares two solutions, so they must be converged, with the same gamma
TIGHT = SVM(gamma=0.5, tol=1e-8)

ESTIMATORS = [
    OutputCodeClassifier(machine=TIGHT),
    OutputCodeClassifier(code="ovo", machine=SVM(kernel="linear", tol=1e-8), decoder="llw"),
    OutputCodeClassifier(code="dense", machine=TIGHT, decoder="exponential", random_state=0),
    OutputCodeClassifier(machine=SVM(gamma=0.5, tol=1e-8, bias="free"), decoder="linear"),
    OutputCodeClassifier(machine=LogisticRegression(tol=1e-8, max_iter=10_000)),
    OutputCodeClassifier(machine=SVM(kernel="precomputed", tol=1e-8)),
    OutputCodeClassifierCV(random_state=0),
]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):  # the check is the assertion: it raises
    assert check(estimator) is None
