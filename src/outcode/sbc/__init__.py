"""SingleBinaryClassifier: all classes in one binary problem. [EPY08]

Every training row x_i makes one copy (i, r) per class, with target +1 if r is its class and -1
otherwise; one support vector machine with a free bias learns all of them. The kernel of two copies
is the sample kernel times the class kernel (Eq. 5-6),

    K((i, r), (j, s)) = K_x(x_i, x_j) K_M(r, s),

so that K = K_x (x) K_M, of which only the two factors are ever held: memory grows with m^2, not
(cm)^2. What is one-vs-all when K_M is diagonal becomes a joint problem when it is not; K_M comes
from a matrix of feature extensions M, one row per class, or is learned (Algorithm 2).
"""

from __future__ import annotations

from outcode.sbc.estimator import Expansion, SingleBinaryClassifier
from outcode.sbc.extensions import (
    CLASS_KERNELS,
    EXTENSIONS,
    gaussian_classes,
    given_classes,
    identity,
    linear_classes,
    single,
    units,
)

__all__ = [
    "CLASS_KERNELS",
    "EXTENSIONS",
    "Expansion",
    "SingleBinaryClassifier",
    "gaussian_classes",
    "given_classes",
    "identity",
    "linear_classes",
    "single",
    "units",
]
