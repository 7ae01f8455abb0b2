"""Growing class sets: what does not see the new class is kept, the rest equals training anew."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine

from outcode import SPOC, OutputCodeClassifier, codes, load, save
from outcode.machines import SVM, LeastSquares

X, y = load_digits(return_X_y=True)
X, y = X[:400] / 16.0, y[:400]


def split(new):
    return X[y != new], y[y != new], X[y == new], y[y == new]


@pytest.mark.parametrize("new", [0, 4, 9])
@pytest.mark.parametrize("decoder", ["hinge", "likelihood"])
@pytest.mark.parametrize("machine", [SVM(gamma=0.1, tol=1e-6), LeastSquares(gamma=0.1)])
def test_one_vs_one_equals_training_anew(machine, decoder, new):
    old_X, old_y, new_X, new_y = split(new)
    clf = OutputCodeClassifier("ovo", machine, decoder).fit(old_X, old_y)
    before, margins = clf.code_, clf.margins(X)
    clf.add_class(new_X, new_y)
    anew = OutputCodeClassifier("ovo", machine, decoder)
    anew.fit(np.vstack([old_X, new_X]), np.concatenate([old_y, new_y]))
    assert (clf.code_ == anew.code_).all()
    assert clf.classes_.tolist() == anew.classes_.tolist()
    assert np.abs(clf.margins(X) - anew.margins(X)).max() < 1e-4
    assert (clf.predict(X) == anew.predict(X)).all()
    kept = np.flatnonzero(~clf.code_[np.searchsorted(clf.classes_, new)].astype(bool))
    assert kept.shape[0] == before.shape[1]
    assert np.abs(clf.margins(X)[:, kept] - margins).max() < 1e-9  # as they were
    if decoder == "likelihood":
        assert np.abs(clf.predict_proba(X) - anew.predict_proba(X)).max() < 1e-3


def test_kept_columns_have_the_very_same_numbers():
    old_X, old_y, new_X, new_y = split(9)
    clf = OutputCodeClassifier("ovo").fit(old_X, old_y)
    coef, bias, gap = clf.machine_.dual_coef_, clf.machine_.bias_, clf.machine_.gap_
    kept = np.flatnonzero(clf.add_class(new_X, new_y).code_[9] == 0)
    assert (clf.machine_.dual_coef_[: len(old_y), kept] == coef).all()
    assert (clf.machine_.dual_coef_[len(old_y) :, kept] == 0).all()
    assert (clf.machine_.bias_[kept] == bias).all()
    assert (clf.machine_.gap_[kept] == gap).all()


@pytest.mark.parametrize("code", ["decoc", "forest", "matrix"])
def test_learned_codes_and_matrices_keep_their_columns(code):
    old_X, old_y, new_X, new_y = split(3)
    code = codes.code_matrix("dense", 9, random_state=0) if code == "matrix" else code
    clf = OutputCodeClassifier(code, decoder="likelihood", random_state=0).fit(old_X, old_y)
    before, margins = clf.code_, clf.margins(X)
    clf.add_class(new_X, new_y)
    assert (clf.code_[np.arange(10) != 3, : before.shape[1]] == before).all()
    assert not clf.code_[3, : before.shape[1]].any()
    assert np.abs(clf.margins(X)[:, : before.shape[1]] - margins).max() < 1e-9
    assert clf.score(X, y) > 0.97


@pytest.mark.parametrize(("code", "machine"), [("ova", "svm"), ("ova", "ww"), ("dense", "ls")])
def test_codes_whose_columns_see_all_classes_are_trained_anew(code, machine):
    old_X, old_y, new_X, new_y = split(0)
    clf = OutputCodeClassifier(code, machine, "softmax", random_state=0).fit(old_X, old_y)
    clf.add_class(new_X, new_y)
    anew = OutputCodeClassifier(code, machine, "softmax", random_state=0)
    anew.fit(np.vstack([old_X, new_X]), np.concatenate([old_y, new_y]))
    assert np.abs(clf.decision_function(X) - anew.decision_function(X)).max() < 1e-9


def test_several_classes_two_classes_and_text_labels():
    Z, k = load_iris(return_X_y=True)
    names = np.array(["b", "a", "c"])[k]
    clf = (
        OutputCodeClassifier("ovo").fit(Z[k < 2], names[k < 2]).add_class(Z[k == 2], names[k == 2])
    )
    anew = OutputCodeClassifier("ovo", SVM(gamma=clf.machine_.kernel_.gamma)).fit(Z, names)
    assert (clf.predict(Z) == anew.predict(Z)).all()
    few = OutputCodeClassifier("ovo").fit(X[y < 5], y[y < 5]).add_class(X[y >= 5], y[y >= 5])
    assert few.code_.shape == (10, 45)
    assert few.score(X, y) > 0.98
    spoc = SPOC(folds=None).fit(Z[k < 2], k[k < 2]).add_class(Z[k == 2], k[k == 2])
    assert spoc.classes_.tolist() == [0, 1, 2]


def test_grown_classifiers_grow_again_explain_and_are_saved(tmp_path):
    clf = OutputCodeClassifier("ovo", decoder="likelihood").fit(X[y < 8], y[y < 8])
    clf.add_class(X[y == 8], y[y == 8]).add_class(X[y == 9], y[y == 9])
    assert clf.code_.shape == (10, 45)
    why = clf.explain(X[0])
    assert np.abs(why.terms.sum(axis=1) - why.scores).max() < 1e-9
    assert clf.predict_set(X).shape == (400, 10)
    save(clf, tmp_path / "m.oc")
    again = load(tmp_path / "m.oc")
    assert (again.predict_proba(X) == clf.predict_proba(X)).all()
    with pytest.raises(ValueError, match="does not keep the training labels"):
        again.add_class(X[:1], [10])


def test_sparse_rows_and_weights():
    S = sparse.csr_matrix(X)
    old, new = np.flatnonzero(y != 5), np.flatnonzero(y == 5)
    clf = OutputCodeClassifier("ovo", SVM(gamma=0.1, tol=1e-6)).fit(
        S[old], y[old], np.full(len(old), 2.0)
    )
    clf.add_class(S[new], y[new], sample_weight=np.full(len(new), 2.0))
    order = np.concatenate([old, new])
    anew = OutputCodeClassifier("ovo", SVM(gamma=0.1, tol=1e-6)).fit(
        S[order], y[order], np.full(400, 2.0)
    )
    assert np.abs(clf.margins(S) - anew.margins(S)).max() < 1e-4


def test_what_cannot_be_added_says_so():
    Z, k = load_wine(return_X_y=True)
    clf = OutputCodeClassifier("ovo").fit(Z[k < 2], k[k < 2])
    with pytest.raises(ValueError, match="is already a class of the model"):
        clf.add_class(Z[:3], k[:3])
    with pytest.raises(ValueError, match="y_new has shape"):
        clf.add_class(Z[k == 2], k[k == 2][:-1])
    for labels in (["new"] * 3, np.array(["new"] * 3, dtype=object)):
        with pytest.raises(ValueError, match="labels of the same type"):
            clf.add_class(Z[k == 2][:3], labels)
    with pytest.raises(ValueError, match="features"):
        clf.add_class(Z[k == 2][:, :4], k[k == 2])
    with pytest.raises(ValueError, match="NaN"):
        clf.add_class(Z[k == 2] * np.nan, k[k == 2])
    with pytest.raises(Exception, match="not fitted"):
        OutputCodeClassifier().add_class(Z, k)
    other = pickle.loads(pickle.dumps(clf))
    with pytest.raises(ValueError, match="X=X_train"):
        other.add_class(Z[k == 2], k[k == 2])
    with pytest.raises(ValueError, match="in their order"):
        other.add_class(Z[k == 2], k[k == 2], X=Z)
    assert clf.classes_.tolist() == [0, 1]  # nothing changed
    other.add_class(Z[k == 2], k[k == 2], X=Z[k < 2])
    assert (other.predict(Z) == clf.add_class(Z[k == 2], k[k == 2]).predict(Z)).all()
    kernel = OutputCodeClassifier("ovo", SVM("precomputed")).fit(
        (Z @ Z.T)[:59, :59], k[:59] + (np.arange(59) > 30)
    )
    with pytest.raises(ValueError, match="no rows to add to"):
        kernel.add_class(np.ones((3, 59)), [7, 7, 7])
