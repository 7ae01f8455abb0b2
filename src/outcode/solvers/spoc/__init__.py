"""The dual problem of the multiclass kernel machine (SPOC), solved and certified. [CS02]

Primal, over one row M_r per class and one slack per sample, c_i the weight of sample i (Eq. 31):

    minimise  beta/2 sum_r |M_r|^2 + sum_i c_i xi_i   s.t.  M_{y_i}.x_i - M_r.x_i >= b_ir - xi_i

Dual, with eta_i >= 0 and sum_r eta_ir = c_i (Eq. 25), and tau_i = c_i 1_{y_i} - eta_i (Eq. 29):

    maximise  -1/(2 beta) sum_ij K_ij tau_i.tau_j - sum_i tau_i.b_i,   M_r = 1/beta sum_i tau_ir x_i

``G`` (n_classes, n) holds M_r.x_i + b_ir. At the optimum eta_ir > 0 only where G_ir is largest:
the violation of sample i is psi_i = max_r G_ir - min_{r: eta_ir > 0} G_ir, and the duality gap is
sum_ir eta_ir (max_s G_is - G_ir). b_ir = 1 - [r = y_i], except for codes built column by column.

Three levels of work, as for binary machines:

- *one sample* (linear kernel): the reduced problem (Eq. 37, Fig. 3), solved exactly by a projection
  on a simplex;
- *a square*: the samples worth working on, their kernel values gathered, two classes and two
  samples at a time;
- *all samples*: :mod:`outcode.solvers.squares` chooses the squares and decides whether to stop.

For the linear kernel M itself is kept instead of G, and no kernel value is ever computed.

``loops`` holds what is compiled, ``problem`` the variables and the certificate, ``square`` the
solver on a Gram store, ``linear`` the one that keeps M, with the conjugate gradients of ``face``
where it is badly conditioned.
"""

from __future__ import annotations

from outcode.solvers.spoc.linear import solve_linear
from outcode.solvers.spoc.loops import reduced, threshold
from outcode.solvers.spoc.problem import Solution
from outcode.solvers.spoc.square import solve

__all__ = [
    "Solution",
    "reduced",
    "solve",
    "solve_linear",
    "threshold",
]
