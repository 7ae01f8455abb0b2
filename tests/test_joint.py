"""Joint machines: Eq. 10 as one dense system, Eq. 15 by the SVD of W, and their properties."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from outcode import OutputCodeClassifier, codes, datasets, dichotomies, loo, machines
from outcode.folds import content_folds
from outcode.machines import SVM, Joint, LeastSquares
from outcode.selection import JointSearchCV, KernelSearchCV
from outcode.solvers import jcl

KINDS = ["ova", "ovo", "dense", "sparse"]
KERNELS = {"linear": {"kernel": "linear"}, "rbf": {"kernel": "rbf", "gamma": 0.3}}


def problem(code="ova", n=24, n_classes=4, d=6, seed=0):
    rng = np.random.RandomState(seed)
    labels = np.concatenate([np.repeat(np.arange(n_classes), 2), rng.randint(n_classes, size=n)])
    X = rng.randn(len(labels), d) + labels[:, None]
    matrix = codes.code_matrix(code, n_classes, random_state=seed)
    weight = rng.uniform(0.3, 2.0, len(labels))
    weight[rng.permutation(np.arange(2 * n_classes, len(labels)))[:2]] = 0.0
    return X, dichotomies.targets(labels, matrix), weight


def features(X, kernel):
    """Phi with Phi Phi' = K, and K."""
    if kernel == "linear":
        return X, X @ X.T
    K = np.exp(-0.3 * ((X[:, None] - X) ** 2).sum(axis=2))
    values, vectors = np.linalg.eigh(K)
    return vectors * np.sqrt(np.maximum(values, 0.0)), K


def solve_slowly(K, targets, weight, T):
    """Eq. 10 as printed, with 1 / c_i in Lambda: V of all columns, and b."""
    row, column = np.nonzero((targets != 0) & (weight > 0)[:, None])
    y, L = targets[row, column].astype(float), targets.shape[1]
    N = np.array([weight[row[column == s]].sum() for s in range(L)])
    system = np.zeros((len(row) + L, len(row) + L))
    system[: len(row), : len(row)] = (
        T[np.ix_(column, column)] * np.outer(y, y) * K[np.ix_(row, row)]
        + np.diag(N[column] / weight[row]) / 2
    )
    system[np.arange(len(row)), len(row) + column] = y
    system[len(row) + column, np.arange(len(row))] = y
    side = np.append(np.ones(len(row)), np.zeros(L))
    solution = np.linalg.solve(system, side)
    V = np.zeros(targets.shape)
    V[row, column] = solution[: len(row)] * y
    return V, solution[len(row) :]


def alternate_slowly(Phi, K, targets, weight, lambda1, lambda2, rounds):
    """V, T, b and M after some rounds of Eq. 10 and Eq. 15, and the objective of each round."""
    L = targets.shape[1]
    M, path = np.eye(L) / L, []
    for _ in range(rounds):
        T = M @ np.linalg.inv(lambda1 * M + lambda2 * np.eye(L))
        V, b = solve_slowly(K, targets, weight, T)
        _, sigma, Rt = np.linalg.svd(Phi.T @ V @ T, full_matrices=False)
        M = (Rt.T * sigma) @ Rt / sigma.sum()
        path.append(objective_slowly(Phi, V @ T, b, (targets, weight, lambda1, lambda2)))
    return V, T, b, M, np.array(path)


def objective_slowly(Phi, coef, b, setting):
    """Eq. 4 with the best M: the squared trace norm."""
    targets, weight, lambda1, lambda2 = setting
    error = np.where(targets != 0, targets - Phi @ (Phi.T @ coef) - b, 0.0)
    N = ((targets != 0) * weight[:, None]).sum(axis=0)
    loss = ((weight[:, None] * error**2).sum(axis=0) / N).sum()
    sigma = np.linalg.svd(Phi.T @ coef, compute_uv=False)
    return loss + lambda1 / 2 * (sigma**2).sum() + lambda2 / 2 * sigma.sum() ** 2


def rounds_of(number, *args, **options):
    """A machine that alternates exactly so often, with Eq. 15 as printed."""
    return Joint(*args, solver="alternation", max_iter=number, tol=1e-300, **options)


def fit_unconverged(machine, *args):
    with pytest.warns(ConvergenceWarning, match="stopped early"):
        return machine.fit(*args)


# --- the direct solution ---


@pytest.mark.parametrize(
    ("rounds", "form"), [(1, "small"), (2, "small"), (4, "small"), (3, "conjugate gradients")]
)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("code", KINDS)
def test_equals_the_dense_system_of_all_columns(code, kernel, rounds, form, monkeypatch):
    if form == "conjugate gradients":
        monkeypatch.setattr(jcl.problems, "SMALL", 0)
    X, targets, weight = problem(code)
    machine = rounds_of(rounds, 1e-2, 3e-2, **KERNELS[kernel])
    fit_unconverged(machine, X, targets, weight)
    Phi, K = features(X, kernel)
    V, T, b, M, path = alternate_slowly(Phi, K, targets, weight, 1e-2, 3e-2, rounds)
    margins = K @ V @ T + b
    np.testing.assert_allclose(machine.training_margins_, margins, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(machine.margins(X), margins, rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(machine.relation_, M, atol=1e-8)
    np.testing.assert_allclose(machine.objective_path_, path, rtol=1e-8)
    if kernel == "rbf":  # the kernel matrix is regular: the expansion is unique
        np.testing.assert_allclose(machine.dual_coef_, V @ T, rtol=1e-7, atol=1e-7)
    assert machine.residual_ < 1e-9
    assert machine.n_iter_ == rounds


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_the_forms_of_the_system_agree(code, kernel):
    X, targets, weight = problem(code)
    spectrum = Joint().factorise(features(X, kernel)[1], targets, weight).spectrum
    half = []
    L = targets.shape[1]
    vectors = np.linalg.qr(np.random.RandomState(0).randn(L, L))[0]
    T = jcl.Relation(vectors, np.linspace(0.0, 20.0, L))
    for form in ("SmallPrimal", "SmallDual", "ConjugateGradients"):
        kind = getattr(jcl, form)
        half.append(kind(spectrum, targets[spectrum.rows]).half_weights(T, None, 1e-300))
    np.testing.assert_allclose(half[0], half[1], atol=1e-10)
    np.testing.assert_allclose(half[0], half[2], atol=1e-9)


@pytest.mark.parametrize("kernel", KERNELS)
def test_smallest_parameters_of_the_grid(kernel):
    X, targets, weight = problem("dense", n=40)
    for lambda1, lambda2 in [(1e-8, 1e-8), (1e-8, 1e-2), (1e-2, 1e-8)]:
        machine = fit_unconverged(
            rounds_of(1, lambda1, lambda2, **KERNELS[kernel]), X, targets, weight
        )
        Phi, K = features(X, kernel)
        V, T, b, _, _ = alternate_slowly(Phi, K, targets, weight, lambda1, lambda2, 1)
        np.testing.assert_allclose(machine.margins(X), K @ V @ T + b, rtol=1e-6, atol=1e-6)
        assert machine.residual_ < 1e-9


# --- certificates ---


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_optimality_conditions_hold_on_the_margins(code, kernel):
    X, targets, weight = problem(code)
    machine = Joint(1e-2, 1e-2, **KERNELS[kernel]).fit(X, targets, weight)
    c = (targets != 0) * weight[:, None]
    V = 2 * c / c.sum(axis=0) * (targets - machine.training_margins_)  # Eq. 9
    np.testing.assert_allclose(V.sum(axis=0), 0.0, atol=1e-12)  # Eq. 8
    T = machine._coupling.matrix()
    W = features(X, kernel)[0].T @ machine.dual_coef_
    np.testing.assert_allclose(W, features(X, kernel)[0].T @ V @ T, atol=1e-9)  # Eq. 7
    np.testing.assert_allclose(machine.norm2_, (W**2).sum(axis=0), rtol=1e-9)
    assert machine.residual_ < 1e-10
    assert machine.gap_ <= machine.tol


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("solver", jcl.SOLVERS)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_objective_never_increases_and_the_relation_is_a_covariance(code, kernel, solver):
    X, targets, weight = problem(code)
    machine = Joint(1e-4, 1e-1, tol=1e-300, max_iter=30, solver=solver, **KERNELS[kernel])
    machine.fit(X, targets, weight)
    path = machine.objective_path_
    assert len(path) > 3
    assert (np.diff(path) <= 0).all()
    assert machine.objective_ == path[-1] < path[0]
    values = np.linalg.eigvalsh(machine.relation_)
    assert values.min() > -1e-14
    np.testing.assert_allclose(values.sum(), 1.0)


@pytest.mark.parametrize("code", ["ova", "ovo", "sparse"])
@pytest.mark.parametrize(("lambda1", "lambda2"), [(1e-1, 1e-1), (1e-3, 3e-1)])
def test_gap_bounds_the_distance_to_the_optimum(code, lambda1, lambda2):
    X, targets, weight = problem(code, d=3)
    X = X - X.mean(axis=0)  # as the machine does: the bias is that of centred rows
    setting = targets, weight, lambda1, lambda2
    machine = Joint(lambda1, lambda2, kernel="linear", tol=1e-3)
    machine.fit(X, targets, weight)
    lowest = machine.objective_  # at most 1e-3 above the optimum, says the certificate
    found = objective_slowly(X, machine.dual_coef_, machine.bias_, setting)
    np.testing.assert_allclose(found, lowest, rtol=1e-10)
    rng = np.random.RandomState(0)
    for size in (1e-1, 1e-2, 1e-3):
        other = machine.dual_coef_ + size * np.abs(machine.dual_coef_).max() * rng.randn(
            *targets.shape
        )
        assert objective_slowly(X, other, machine.bias_, setting) >= (1 - 1e-3) * lowest
    early = fit_unconverged(
        Joint(lambda1, lambda2, kernel="linear", tol=1e-9, max_iter=1), X, targets, weight
    )
    assert early.objective_ > lowest
    assert 1 - lowest / early.objective_ <= early.gap_


def test_fewer_features_than_columns_stall_as_printed_and_not_when_split():
    X, targets, weight = problem("sparse", d=2)
    printed = fit_unconverged(rounds_of(200, 1e-1, 1e-1, kernel="linear"), X, targets, weight)
    split = Joint(1e-1, 1e-1, kernel="linear").fit(X, targets, weight)
    assert np.linalg.matrix_rank(printed.relation_, tol=1e-9) == 2 < targets.shape[1]
    assert printed.gap_ > 0.1
    assert split.gap_ <= split.tol
    assert split.objective_ < printed.objective_


# --- the splitting ---


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("rho", [1e-7, 1e-2, 3.0])
def test_resolvent_is_a_ridge_regression_of_each_column(code, kernel, rho):
    X, targets, weight = problem(code)
    factorised = Joint().factorise(features(X, kernel)[1], targets, weight)
    spectrum = factorised.spectrum
    Q = np.random.RandomState(0).randn(len(spectrum.s), targets.shape[1])
    W, loss = factorised.resolvent(Q, rho)
    rows, expected = spectrum.basis * spectrum.scale.T / spectrum.root[:, None], 0.0
    for s, t in enumerate(targets[spectrum.rows].T):
        c = np.where(t != 0, spectrum.root**2, 0.0)
        centred = rows - c @ rows / c.sum()
        A = 2 / c.sum() * (centred.T * c) @ centred
        g = 2 / c.sum() * centred.T @ (c * t)
        w = np.linalg.solve(A + rho * np.eye(len(A)), g + rho * Q[:, s])
        np.testing.assert_allclose(W[:, s], w, rtol=1e-6, atol=1e-7)
        error = t - c @ t / c.sum() - centred @ w
        expected += c @ error**2 / c.sum()
    np.testing.assert_allclose(loss, expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_ridge_by_the_features_and_by_the_rows(kernel):
    X, targets, weight = problem("sparse")
    factorised = Joint().factorise(features(X, kernel)[1], targets, weight)
    E = factorised.centred(np.random.RandomState(0).randn(*factorised.mask.shape))
    found = []
    for factorised.few_features in (False, True):
        found.append(factorised.ridge(E, np.linspace(0.1, 1.0, targets.shape[1])))
    np.testing.assert_allclose(found[0], found[1], atol=1e-10)


@pytest.mark.parametrize(("lambda1", "lambda2"), [(1e-8, 1e-2), (1e-2, 1e-8), (0.3, 0.2)])
def test_lengths_meet_their_optimality_conditions(lambda1, lambda2):
    g = np.sort(np.random.RandomState(0).rand(9))[::-1]
    sigma = jcl.certificates.lengths(g, lambda1, lambda2)
    slope = g - lambda1 * sigma - lambda2 * sigma.sum()
    assert (sigma >= 0).all()
    np.testing.assert_allclose(slope[sigma > 0], 0.0, atol=1e-9)
    assert (slope <= 1e-9).all()
    reached = g @ sigma - lambda1 / 2 * sigma @ sigma - lambda2 / 2 * sigma.sum() ** 2
    assert jcl.conjugate(g, lambda1, lambda2) == pytest.approx(reached, rel=1e-6)


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("form", [0, 10**6])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # as printed it stalls
def test_the_alternation_comes_no_lower_than_the_splitting(code, form, monkeypatch):
    monkeypatch.setattr(jcl.problems, "SMALL", form)
    X, targets, weight = problem(code)
    one, other = (
        Joint(1e-2, 1e-3, gamma=0.3, solver=solver, tol=1e-5, max_iter=200)
        for solver in ("splitting", "alternation")
    )
    one.fit(X, targets, weight)
    other.fit(X, targets, weight)
    assert one.gap_ <= 1e-5
    assert one.objective_ <= (1 + 1e-5) * other.objective_
    assert (1 - other.gap_) * other.objective_ <= one.objective_  # what its certificate says
    if other.gap_ <= 1e-5:
        np.testing.assert_allclose(one.relation_, other.relation_, atol=5e-3)
        np.testing.assert_allclose(one.training_margins_, other.training_margins_, atol=2e-2)


@pytest.mark.parametrize("code", KINDS)
def test_the_first_iteration_is_the_first_alternation(code):
    X, targets, weight = problem(code)
    factorised = Joint().factorise(features(X, "rbf")[1], targets, weight)
    W, loss = factorised.resolvent(np.zeros((len(factorised.spectrum.s), targets.shape[1])), 0.5)
    even = jcl.Relation.even(targets.shape[1])
    T = even.coupling(0.1, 0.4 / targets.shape[1])
    expected = factorised.half_weights(T, None, 1e-300) @ T.root()
    np.testing.assert_allclose(W, expected, atol=1e-10)
    assert loss == pytest.approx(factorised.evaluate(expected)[0])


@pytest.mark.parametrize("code", KINDS)
def test_the_corners_of_the_grid_converge(code):
    X, targets, weight = problem(code, n=40)
    for lambda1, lambda2 in [(1e-8, 1e-8), (1e-8, 1e-5), (1e-8, 1e-2), (1e-2, 1e-8), (1e-2, 1e-2)]:
        for kernel in KERNELS.values():
            machine = Joint(lambda1, lambda2, **kernel).fit(X, targets, weight)
            assert machine.gap_ <= machine.tol


# --- what it must agree with ---


@pytest.mark.parametrize("code", KINDS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_without_the_relation_it_is_independent_least_squares(code, kernel):
    X, targets, weight = problem(code, d=30)
    machine = Joint(1e-2, 1e-13, **KERNELS[kernel]).fit(X, targets, weight)
    for s in range(targets.shape[1]):
        C = 2 / (1e-2 * weight[targets[:, s] != 0].sum())
        alone = LeastSquares(C=C, bias="free", **KERNELS[kernel])
        alone.fit(X, targets[:, [s]], weight)
        np.testing.assert_allclose(
            machine.margins(X)[:, [s]], alone.margins(X), rtol=1e-8, atol=1e-8
        )


@pytest.mark.parametrize("code", KINDS)
def test_permuting_columns_permutes_the_relation(code):
    X, targets, weight = problem(code)
    order = np.random.RandomState(0).permutation(targets.shape[1])
    one = Joint(1e-3, 1e-2, gamma=0.3).fit(X, targets, weight)
    other = Joint(1e-3, 1e-2, gamma=0.3).fit(X, targets[:, order], weight)
    np.testing.assert_allclose(other.relation_, one.relation_[np.ix_(order, order)], atol=1e-9)
    np.testing.assert_allclose(other.margins(X), one.margins(X)[:, order], atol=1e-9)


@pytest.mark.parametrize("code", ["ova", "ovo"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_weight_two_is_a_repeated_row(code, kernel):
    X, targets, _ = problem(code)
    weight = np.ones(len(X))
    weight[3] = 2.0
    machine = Joint(1e-3, 1e-2, **KERNELS[kernel])
    once = clone(machine).fit(X, targets, weight)
    twice = clone(machine).fit(np.vstack([X, X[3]]), np.vstack([targets, targets[3]]))
    np.testing.assert_allclose(once.margins(X), twice.margins(X), atol=1e-9)
    np.testing.assert_allclose(once.relation_, twice.relation_, atol=1e-9)


@pytest.mark.parametrize("code", ["dense", "sparse"])
def test_weight_zero_is_no_row(code):
    X, targets, weight = problem(code)
    kept = weight > 0
    whole = Joint(1e-3, 1e-2, gamma=0.3).fit(X, targets, weight)
    part = Joint(1e-3, 1e-2, gamma=0.3).fit(X[kept], targets[kept], weight[kept])
    np.testing.assert_allclose(whole.margins(X), part.margins(X), atol=1e-9)
    assert (whole.dual_coef_[~kept] == 0).all()


def test_precomputed_sparse_and_wide_rows_are_the_same_machine():
    X, targets, weight = problem("ovo", d=40)
    wide = Joint(1e-2, 1e-2, kernel="linear").fit(X, targets, weight)
    thin = sparse.csr_matrix(X)
    few = Joint(1e-2, 1e-2, kernel="linear").fit(thin, targets, weight)
    square = Joint(1e-2, 1e-2, kernel="precomputed").fit(X @ X.T, targets, weight)
    np.testing.assert_allclose(few.margins(thin), wide.margins(X), atol=1e-9)
    np.testing.assert_allclose(square.margins(X @ X.T), wide.margins(X), atol=1e-9)
    narrow = X[:, :5]
    rows = Joint(1e-2, 1e-2, kernel="linear").fit(narrow, targets, weight)
    thin = sparse.csr_matrix(narrow)
    few = Joint(1e-2, 1e-2, kernel="linear").fit(thin, targets, weight)
    square = Joint(1e-2, 1e-2, kernel="precomputed").fit(narrow @ narrow.T, targets, weight)
    np.testing.assert_allclose(few.margins(thin), rows.margins(narrow), atol=1e-9)
    np.testing.assert_allclose(square.margins(narrow @ narrow.T), rows.margins(narrow), atol=1e-9)


def test_one_column():
    X, targets, weight = problem("ova", n_classes=2)
    machine = Joint(1e-2, 2e-2, gamma=0.3).fit(X, targets[:, :1], weight)
    alone = LeastSquares(gamma=0.3, C=2 / (3e-2 * weight.sum()), bias="free")  # M = 1
    alone.fit(X, targets[:, :1], weight)
    np.testing.assert_allclose(machine.margins(X), alone.margins(X), atol=1e-9)
    np.testing.assert_array_equal(machine.relation_, [[1.0]])


def test_rows_that_are_all_the_same():
    X, targets, _ = problem("ova")
    for kernel in KERNELS.values():
        machine = Joint(**kernel).fit(np.ones_like(X), targets)
        np.testing.assert_allclose(machine.margins(X[:1] * 0 + 1), [targets.mean(axis=0)])


@pytest.mark.parametrize("code", ["ova", "sparse"])
def test_the_same_model_for_any_number_of_threads(code):
    X, targets, _ = problem(code, n=20)
    one = Joint(1e-3, 1e-3).fit(X, targets, n_jobs=1)
    two = Joint(1e-3, 1e-3).fit(X, targets, n_jobs=2)
    np.testing.assert_array_equal(one.dual_coef_, two.dual_coef_)
    np.testing.assert_array_equal(one.training_margins_, two.training_margins_)


# --- held out, left out ---


@pytest.mark.parametrize("code", ["dense", "ovo"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_held_out_margins_equal_training_without_the_fold(code, kernel):
    X, targets, weight = problem(code)
    machine = Joint(1e-3, 1e-2, **KERNELS[kernel])
    gram = machine.gram(X, targets, weight)
    fold = content_folds(X, np.arange(len(X)) % 2, 3)
    fold[:2] = -1
    out = machine.fit_gram(gram, targets, weight).held_out_margins(gram, targets, fold, weight)
    for f in range(-1, 3):
        kept = (fold != f) | (f < 0)
        again = Joint(1e-3, 1e-2, **KERNELS[kernel]).fit(X[kept], targets[kept], weight[kept])
        np.testing.assert_allclose(out[fold == f], again.margins(X[fold == f]), atol=1e-8)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("code", ["ova", "dense"])
def test_leave_one_out_equals_the_dense_system_with_the_relation_held(code, kernel):
    X, targets, weight = problem(code)
    machine = Joint(1e-2, 3e-2, **KERNELS[kernel])
    store = machine.gram(X, targets, weight)
    factorised = machine.factorise(store, targets, weight)
    machine.fit_factorised(factorised, store, targets)
    out, K = machine.loo_margins(factorised, targets), features(X, kernel)[1]
    T = machine._coupling.matrix()
    for i in range(len(X)):
        V, b = solve_slowly(K, targets, np.where(np.arange(len(X)) == i, 0.0, weight), T)
        np.testing.assert_allclose(out[i], K[i] @ V @ T + b, rtol=1e-8, atol=1e-8)


def test_closed_form_leave_one_out_needs_every_row_in_every_column():
    X, targets, _ = problem("ovo")
    machine = Joint()
    factorised = machine.factorise(machine.gram(X, targets), targets)
    with pytest.raises(ValueError, match="code without zeros"):
        machine.loo_margins(factorised, targets)


# --- errors ---


def test_errors_say_what_to_do():
    X, targets, _ = problem()
    with pytest.raises(ValueError, match="raise max_memory"):
        Joint(max_memory=1000).fit(X, targets)
    with pytest.raises(ValueError, match="not positive definite"):
        Joint(kernel="sigmoid", gamma=5.0, coef0=-2.0).fit(X, targets)
    with pytest.raises(ValueError, match="one sign"):
        Joint().fit(X, np.abs(targets))
    with pytest.raises(ValueError, match="lambda1 must be a positive"):
        Joint(lambda1=0.0).fit(X, targets)
    with pytest.raises(ValueError, match="Did you mean 'splitting'"):
        Joint(solver="spliting").fit(X, targets)
    with pytest.raises(ValueError, match="Unknown kernel"):
        Joint(kernel="rgb").fit(X, targets)


# --- in the classifier ---


@pytest.mark.parametrize("decoder", ["llw", "hamming", "likelihood"])
@pytest.mark.parametrize("code", ["ova", "ovo"])
def test_in_the_classifier(code, decoder):
    X, y = load_iris(return_X_y=True)
    clf = OutputCodeClassifier(code, machine="jcl", decoder=decoder).fit(X, y)
    assert clf.score(X, y) > 0.95
    assert isinstance(machines.resolve("jcl"), Joint)


def test_exact_leave_one_out_trains_again():
    X, y = load_iris(return_X_y=True)
    X, y = X[::5], y[::5]
    clf = OutputCodeClassifier("ova", machine=Joint(gamma=0.5), decoder="linear").fit(X, y)
    found = loo.exact(clf, X, y)
    kept = np.arange(len(X)) != 7
    again = OutputCodeClassifier("ova", machine=Joint(gamma=0.5), decoder="linear")
    again.fit(X[kept], y[kept])
    np.testing.assert_allclose(found.held_out[7], again.margins(X[7:8])[0], atol=1e-8)


# --- the search ---


def blobs(n=90, n_classes=4, seed=0):
    rng = np.random.RandomState(seed)
    labels = np.arange(n) % n_classes
    return rng.randn(n, 3) + 1.2 * labels[:, None], np.array(list("abcd"))[labels]


def folds(seed=1):
    return StratifiedKFold(3, shuffle=True, random_state=seed)


LAMBDAS = [1e-6, 1e-2]


@pytest.mark.parametrize(
    ("code", "kernel", "decoder"),
    [
        ("ova", "rbf", "llw"),
        ("ova", "linear", "hamming"),
        ("ovo", "rbf", "llw"),
        ("ovo", "linear", "likelihood"),
        ("ova", "rbf", "likelihood"),
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_search_equals_grid_search(code, kernel, decoder):
    X, y = blobs()
    clf = OutputCodeClassifier(code, Joint(kernel=kernel), decoder, random_state=0)
    search = JointSearchCV(clf, LAMBDAS, LAMBDAS, cv=folds()).fit(X, y)
    grid = {"machine__lambda1": LAMBDAS, "machine__lambda2": LAMBDAS}
    slow = GridSearchCV(clf, grid, cv=folds()).fit(X, y)
    for name in ("mean", "std"):
        theirs = slow.cv_results_[f"{name}_test_score"]
        np.testing.assert_allclose(search.results_[f"{name}_score"], theirs, atol=1e-12)
    assert search.best_score_ == pytest.approx(slow.best_score_)
    assert set(search.best_params_) == set(slow.best_params_)
    assert search.score(X, y) == search.best_estimator_.score(X, y) > 0.5
    assert search.n_splits_ == 3


@pytest.mark.parametrize("kernel", KERNELS)
def test_search_by_leave_one_out(kernel):
    X, y = blobs(40)
    clf = OutputCodeClassifier("ova", Joint(**KERNELS[kernel]), "linear")
    search = JointSearchCV(clf, [1e-3], [1e-2], cv="loo").fit(X, y)
    fitted = clone(clf).set_params(machine__lambda1=1e-3, machine__lambda2=1e-2).fit(X, y)
    K = features(X, kernel)[1]
    targets = dichotomies.targets(fitted.labels_, fitted.code_)
    T, right = fitted.machine_._coupling.matrix(), []
    for i in range(len(X)):
        kept = (np.arange(len(X)) != i).astype(float)
        V, b = solve_slowly(K, targets, kept, T)
        scores = fitted.decoder_.scores((K[i] @ V @ T + b)[None])
        right.append(scores.argmax() == fitted.labels_[i])
    assert search.best_score_ == pytest.approx(np.mean(right))
    assert search.n_splits_ == 40


def test_search_with_weights_threads_and_pipeline():
    X, y = blobs()
    weight = np.where(y == "a", 2.0, 1.0)
    first, second = (
        JointSearchCV(OutputCodeClassifier("ova", "jcl", "llw", n_jobs=n), LAMBDAS, LAMBDAS).fit(
            X, y, sample_weight=weight
        )
        for n in (1, 2)
    )
    np.testing.assert_array_equal(first.results_["mean_score"], second.results_["mean_score"])
    assert first.best_params_ == second.best_params_
    np.testing.assert_array_equal(first.predict(X), second.predict(X))
    search = JointSearchCV(OutputCodeClassifier("ova", "jcl", "llw"), LAMBDAS, [1e-4], cv=3)
    assert make_pipeline(StandardScaler(), search).fit(X, y).score(X, y) > 0.5
    with pytest.raises(AttributeError, match="refit=True"):
        search.set_params(refit=False).fit(X, y).predict(X)


def test_search_on_a_precomputed_kernel():
    X, y = blobs()
    K = features(X, "rbf")[1]
    given = OutputCodeClassifier("ova", Joint(kernel="precomputed"), "llw")
    own = OutputCodeClassifier("ova", Joint(gamma=0.3), "llw")
    one = JointSearchCV(given, LAMBDAS, LAMBDAS, cv=folds()).fit(K, y)
    other = JointSearchCV(own, LAMBDAS, LAMBDAS, cv=folds()).fit(X, y)
    np.testing.assert_allclose(one.results_["mean_score"], other.results_["mean_score"])


def test_gamma_by_the_kernel_search():
    X, y = blobs()
    clf = OutputCodeClassifier("ova", Joint(1e-3, 1e-3), "llw")
    search = KernelSearchCV(clf, [0.1, 1.0], cv=folds()).fit(X, y)
    slow = GridSearchCV(clf, {"machine__gamma": [0.1, 1.0]}, cv=folds()).fit(X, y)
    theirs = slow.cv_results_["mean_test_score"]
    np.testing.assert_allclose(search.results_["mean_score"], theirs, atol=1e-12)


def test_search_errors_say_what_to_do():
    X, y = blobs()
    with pytest.raises(ValueError, match="machine='jcl'"):
        JointSearchCV(OutputCodeClassifier(machine=SVM())).fit(X, y)
    with pytest.raises(ValueError, match="code without zeros"):
        JointSearchCV(OutputCodeClassifier("ovo", "jcl", "llw"), cv="loo").fit(X, y)
    with pytest.raises(ValueError, match="lambda1s"):
        JointSearchCV(OutputCodeClassifier("ova", "jcl", "llw"), [0.0]).fit(X, y)


def test_search_says_once_that_settings_stopped_early():
    X, y = blobs()
    clf = OutputCodeClassifier("ova", Joint(max_iter=1), "llw")
    search = JointSearchCV(clf, LAMBDAS, LAMBDAS, cv=folds(), refit=False)
    with pytest.warns(ConvergenceWarning, match="of 4 settings stopped early") as said:
        search.fit(X, y)
    assert len(said) == 1
    assert (search.results_["gap"] > 1e-3).any()


@pytest.mark.slow
def test_vehicle_pairs_by_conjugate_gradients(data_dir, monkeypatch):
    monkeypatch.setattr(jcl.problems, "SMALL", 0)
    data = datasets.load("vehicle", data_dir)
    X = StandardScaler().fit_transform(data.X)
    clf = OutputCodeClassifier("ovo", Joint(1e-2, 1e-2), "llw").fit(X, data.y)
    assert clf.machine_.gap_ <= clf.machine_.tol
    assert clf.machine_.residual_ < 1e-5


@pytest.mark.slow
def test_vowel_pairs_converge_in_the_corners(data_dir):
    data = datasets.load("vowel", data_dir)
    X = StandardScaler().fit_transform(data.X)
    for setting in [(1e-8, 1e-8), (1e-8, 1e-2), (1e-4, 1e-4)]:
        clf = OutputCodeClassifier("ovo", Joint(*setting), "llw").fit(X, data.y)
        assert clf.machine_.gap_ <= clf.machine_.tol
        assert clf.machine_.residual_ < 1e-5


@pytest.mark.slow
def test_glass_pairs_on_the_grid_of_the_paper(data_dir):
    data = datasets.load("glass", data_dir)
    X = StandardScaler().fit_transform(data.X)
    search = JointSearchCV(OutputCodeClassifier("ovo", "jcl", "llw"), cv=5).fit(X, data.y)
    assert (search.results_["gap"] <= 1e-3).all()
