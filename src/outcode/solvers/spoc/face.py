"""Conjugate gradients on the variables between their bounds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from outcode._checks import Array

#: Conjugate gradients of one call.
FACE_STEPS = 50

Product = Callable[[Array], Array]


def descend_face(product: Product, G: Array, eta: Array, beta: float, tol: float) -> None:
    """Lower the dual on the face of the variables that are positive, by conjugate gradients.

    With the zeros of eta held, the problem is quadratic with only sum_r eta_ir fixed; the reduced
    problems alone approach its optimum slowly when the kernel is badly conditioned. A variable
    that reaches 0 leaves the face, and the directions start again (Moré & Toraldo 1991).

    ``product`` maps (n_classes, n) arrays p to p K; ``G`` and ``eta`` are changed in place. Stops
    after ``FACE_STEPS``, or when G varies by at most ``tol`` within the positive eta of a sample.
    """
    residual = _on_face(G, eta)
    direction = residual
    for _ in range(FACE_STEPS):
        if np.abs(residual).max() <= tol:
            return
        change = product(direction)
        slope, curvature = (float((direction * a).sum()) for a in (residual, change / beta))
        falling = direction < 0
        room = np.divide(eta, -direction, out=np.full(eta.shape, np.inf), where=falling)
        step = min(float(room.min()), slope / curvature if curvature > 0 else np.inf)
        if not (np.isfinite(step) and slope > 0):
            return
        eta += step * direction
        eta[room <= step * (1.0 + 1e-12)] = 0.0
        G -= (step / beta * change).astype(G.dtype)
        before, residual = residual, _on_face(G, eta)
        keep = 0.0 if step == room.min() else float((residual**2).sum() / (before**2).sum())
        direction = residual + keep * direction


def _on_face(G: Array, eta: Array) -> Array:
    """Return G less its mean over the positive eta of each sample, 0 where eta is 0."""
    free = eta > 0
    mean = (G * free).sum(axis=0, dtype=np.float64) / np.maximum(1, np.count_nonzero(free, axis=0))
    return np.where(free, G - mean, 0.0)
