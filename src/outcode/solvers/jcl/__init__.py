"""The solvers of joint least-squares machines ([LZCX16] section 3.3).

Problem (Eq. 4), with c_i the weight of row i and N_l = sum of c_i over the rows of column l:

    min over W, b, M   sum_l 1/N_l sum_i c_i (t_il - w_l.x_i - b_l)^2
                       + lambda1/2 tr(W W') + lambda2/2 tr(W M^-1 W'),   M >= 0, tr M = 1

M may be singular, so only T = M (lambda1 M + lambda2 I)^-1 = R diag(theta) R' is ever used. The
optimality conditions of W, b (Eq. 7-10) are W = Phi' V T with V_il = 2 c_i / N_l (t_il - f_il) and
columns of V that sum to 0. Of M they give Eq. 15, M = (W'W)^1/2 / tr (W'W)^1/2, from the singular
values of W, which is always explicit here, so that no digits are lost.

Coordinates: the rows of positive weight, centred (the free biases absorb any shift) and multiplied
by d_i = sqrt(c_i), are Q diag(sqrt s) B' (:class:`Spectrum`), from one eigendecomposition of the
n x n Gram or one SVD of n x p rows. W is r x L in the basis B, r <= min(n - 1, p).

Two ways to the optimum:

- :func:`split` (:mod:`.splitting`) minimises Eq. 4 with M taken out, which is convex. The loss
  parts by columns and the penalty by singular values, so each is met on its own, in closed form;
- :func:`alternate` (:mod:`.alternation`) is the paper's: W, b for M (Eq. 10), M for W (Eq. 15). It
  couples all columns in every round and can stall above the optimum.

Both end with W, b of Eq. 10 for the last M. That system comes in four forms, by which rows the
columns use (:mod:`.systems`, :mod:`.problems`): closed, primal, dual, and conjugate gradients.

Input: a problem of :func:`problem_of`, lambda1, lambda2. Output: a :class:`Solution`.
Stopping: relative duality gap <= tol. Minimising over M leaves the convex problem
loss + lambda1/2 |W|_F^2 + lambda2/2 |W|_*^2 (squared trace norm), whose dual is evaluated at V
(:func:`lower_bound`): the gap bounds how far W is from the one optimum.
"""

from __future__ import annotations

from outcode.solvers.jcl.alternation import alternate
from outcode.solvers.jcl.certificates import Solution, conjugate, lower_bound
from outcode.solvers.jcl.problems import ConjugateGradients, Problem, problem_of
from outcode.solvers.jcl.spectrum import Relation, Spectrum
from outcode.solvers.jcl.splitting import split
from outcode.solvers.jcl.systems import SharedRows, SmallDual, SmallPrimal

__all__ = [
    "SOLVERS",
    "ConjugateGradients",
    "Problem",
    "Relation",
    "SharedRows",
    "SmallDual",
    "SmallPrimal",
    "Solution",
    "Spectrum",
    "alternate",
    "conjugate",
    "lower_bound",
    "problem_of",
    "split",
]

SOLVERS = {"splitting": split, "alternation": alternate}
