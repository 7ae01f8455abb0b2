"""Slow and obvious implementations of the same equations, to compare the fast ones with."""

from __future__ import annotations

import clarabel
import numpy as np
from scipy import sparse


def kernel_matrix(name, X, Z, gamma=1.0, degree=3, coef0=0.0):
    """Kernel values by a double loop."""
    out = np.empty((len(X), len(Z)))
    for i, x in enumerate(X):
        for j, z in enumerate(Z):
            dot = float(np.dot(x, z))
            out[i, j] = {
                "linear": lambda dot=dot: dot,
                "poly": lambda dot=dot: (gamma * dot + coef0) ** degree,
                "sigmoid": lambda dot=dot: np.tanh(gamma * dot + coef0),
                "rbf": lambda x=x, z=z: np.exp(-gamma * np.sum((x - z) ** 2)),
                "laplacian": lambda x=x, z=z: np.exp(-gamma * np.sum(np.abs(x - z))),
                "exponential": lambda x=x, z=z: np.exp(-gamma * np.sqrt(np.sum((x - z) ** 2))),
            }[name]()
    return out


def svm_dual(K, y, box, bias):
    """Solve the dual of the support vector machine by a generic interior-point QP.

    Returns alpha and the optimal value of  sum alpha - 1/2 (alpha y)'K(alpha y).
    """
    used = box > 0
    K, y, box = K[np.ix_(used, used)], y[used], box[used]
    if bias == "kernel":
        K = K + 1.0
    n = len(y)
    P = sparse.csc_matrix(np.triu(np.outer(y, y) * K + 1e-13 * np.eye(n)))
    eye = sparse.identity(n, format="csc")
    A = [sparse.csc_matrix(y[None, :])] if bias == "free" else []
    A = sparse.vstack([*A, eye, -eye], format="csc")
    b = np.concatenate([np.zeros(1 if bias == "free" else 0), box, np.zeros(n)])
    cones = [clarabel.ZeroConeT(1)] if bias == "free" else []
    cones.append(clarabel.NonnegativeConeT(2 * n))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.tol_gap_abs = settings.tol_gap_rel = settings.tol_feas = 1e-10
    solution = clarabel.DefaultSolver(P, -np.ones(n), A, b, cones, settings).solve()
    alpha = np.zeros(len(used))
    alpha[used] = solution.x
    return alpha, -solution.obj_val


def loss_value(name, z):
    return {
        "linear": lambda: -z,
        "hinge": lambda: max(0.0, 1.0 - z),
        "exponential": lambda: np.exp(-z),
        "logistic": lambda: np.log1p(np.exp(-z)),
        "squared": lambda: (1.0 - z) ** 2,
        "zero_one": lambda: (1.0 - np.sign(z)) / 2,
    }[name]()


def loss_scores(name, margins, code, weight=None):
    """-sum_s w_qs L(m_qs f_s) by three loops."""
    weight = np.ones(code.shape) if weight is None else weight
    out = np.zeros((len(margins), len(code)))
    for i, f in enumerate(margins):
        for q, m in enumerate(code):
            for s in range(len(m)):
                out[i, q] -= weight[q, s] * loss_value(name, m[s] * f[s])
    return out


def hamming_distance(a, b):
    """Columns in which two codewords differ, a zero on either side counting 1/2."""
    return sum(0.5 if x * y == 0 else float(x != y) for x, y in zip(a, b, strict=True))


def accuracy_weights(margins, labels, code):
    """The weights of loss-weighted decoding by loops over classes, columns and rows."""
    weights = np.zeros(code.shape)
    for q in range(code.shape[0]):
        rows = np.flatnonzero(labels == q)
        for s in range(code.shape[1]):
            if code[q, s] != 0:
                weights[q, s] = np.mean([margins[i, s] * code[q, s] > 0 for i in rows])
        if weights[q].sum() == 0:
            weights[q] = code[q] != 0
        weights[q] /= weights[q].sum()
    return weights


def whole_column_weights(margins, labels, code):
    """The weights of the ECOC library by loops: a column by its accuracy on all its rows."""
    accuracy = np.zeros(code.shape[1])
    for s in range(code.shape[1]):
        used = [i for i in range(len(labels)) if code[labels[i], s] != 0]
        accuracy[s] = np.mean([margins[i, s] * code[labels[i], s] > 0 for i in used])
    weights = np.zeros(code.shape)
    for q in range(code.shape[0]):
        taken = [accuracy[s] if code[q, s] != 0 else 0.0 for s in range(code.shape[1])]
        weights[q] = np.array(taken) / sum(taken)
    return weights


def kernel_matrix_fast(X, gamma):
    """The Gaussian kernel matrix from explicit differences."""
    return np.exp(-gamma * ((X[:, None, :] - X[None, :, :]) ** 2).sum(axis=2))
