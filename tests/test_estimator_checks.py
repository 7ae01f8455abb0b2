"""scikit-learn's own checks: every one passes, with an empty list of expected failures."""

from __future__ import annotations

import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import parametrize_with_checks

from outcode import SPOC, OutputCodeClassifier, OutputCodeClassifierCV, SingleBinaryClassifier
from outcode.machines import SVM, CrammerSinger, Joint, LeastSquares, SingleBinary
from outcode.selection import GreedySearch, KernelSearchCV, LOOBoundSearch

# weight-equivalence compares two solutions, so they must be converged, with the same gamma
TIGHT = SVM(gamma=0.5, tol=1e-10)
SPOC_TIGHT = CrammerSinger(gamma=0.5, tol=1e-10, bias="kernel")
SBC_TIGHT = SingleBinary("identity", gamma=0.5, tol=1e-10)

ESTIMATORS = [
    OutputCodeClassifier(machine=TIGHT),
    OutputCodeClassifier(code="ovo", machine=SVM(kernel="linear", tol=1e-8), decoder="llw"),
    OutputCodeClassifier(code="dense", machine=TIGHT, decoder="exponential", random_state=0),
    OutputCodeClassifier(machine=SVM(gamma=0.5, tol=1e-8, bias="free"), decoder="linear"),
    OutputCodeClassifier(machine=LogisticRegression(tol=1e-8, max_iter=10_000)),
    OutputCodeClassifier(machine=SVM(kernel="precomputed", tol=1e-8)),
    # decoders with probabilities
    OutputCodeClassifier(machine=TIGHT, decoder="likelihood"),
    OutputCodeClassifier(code="ovo", machine=TIGHT, decoder="coupling"),
    OutputCodeClassifier(machine=LeastSquares(gamma=0.5), decoder="softmax"),
    OutputCodeClassifier(code="ovo", machine=LeastSquares(gamma=0.5), decoder="bradley-terry"),
    # machines that learn all columns together
    OutputCodeClassifier(machine=SPOC_TIGHT, decoder="likelihood"),
    OutputCodeClassifier(machine=SBC_TIGHT, decoder="softmax"),
    OutputCodeClassifier(machine=Joint(gamma=0.5), decoder="llw"),
    OutputCodeClassifier("ovo", machine=Joint(kernel="linear"), decoder="hamming"),
    # with no bias and a narrow or linear kernel a class weight cannot win rows far from every
    # support pattern: those have one
    SPOC(tol=1e-10),
    SPOC("linear", tol=1e-10, bias="kernel", folds=None),
    SPOC("precomputed", tol=1e-8, bias="kernel", folds=None),
    SingleBinaryClassifier("identity", class_gamma=0.5, tol=1e-10, folds=2),
    SingleBinaryClassifier(class_gamma=0.5, tol=1e-8),
    SingleBinaryClassifier("identity", "poly", degree=1, coef0=1.0, class_gamma=0.5, tol=1e-10),
    SingleBinaryClassifier("ecoc", class_gamma=0.5, tol=1e-8, decoder="hamming", random_state=0),
    # searches
    LOOBoundSearch(OutputCodeClassifier(machine=TIGHT, decoder="linear"), gammas=[0.1, 1.0]),
    KernelSearchCV(OutputCodeClassifier(machine=TIGHT), gammas=[0.1, 1.0], cv=2),
    KernelSearchCV(OutputCodeClassifier(machine=SPOC_TIGHT, decoder="softmax"), [0.5], cv=2),
    GreedySearch(OutputCodeClassifier(machine=LeastSquares()), cv=2, patience=1),
    OutputCodeClassifierCV(random_state=0),
]


# scikit-learn lowers max_iter in some checks, and the early stop is then rightly warned of
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.DataConversionWarning")
@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_check(estimator, check):  # the check is the assertion: it raises
    assert check(estimator) is None
