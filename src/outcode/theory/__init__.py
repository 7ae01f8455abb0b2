"""Generalisation bounds as numbers: of [CS02] Section 7 for a fitted SPOC, of [EPY08] Section 4.

[CS02]: a matrix M gives a machine w_rs = M_r - M_s for each pair of classes (Eq. 48), and with them
the decision graph of Platt, Cristianini & Shawe-Taylor (2000), whose bounds carry over. They
suppose that every training row is classified correctly; otherwise they say nothing (infinity).

[EPY08]: the single binary problem is a machine with a learned kernel, for which Srebro & Ben-David
(2006) bound the error by the share of small margins; c such errors bound the multiclass error.

All hold with probability at least 1 - delta, and are far above 1 on data of any usual size: what
they are good for is comparing machines.
"""

from outcode.theory.matrix import Bounds, bounds, ddag_bound, enclosing_radius, pair_margins
from outcode.theory.single_binary import (
    MarginBound,
    PacBayesBound,
    consistency_margin,
    kl_inverse,
    learned_kernel_slack,
    normalised_margins,
    pac_bayes_bound,
    pair_leads,
    sbc_bound,
)
from outcode.theory.stability import margin_stability

__all__ = [
    "Bounds",
    "MarginBound",
    "PacBayesBound",
    "bounds",
    "consistency_margin",
    "ddag_bound",
    "enclosing_radius",
    "kl_inverse",
    "learned_kernel_slack",
    "margin_stability",
    "normalised_margins",
    "pac_bayes_bound",
    "pair_leads",
    "pair_margins",
    "sbc_bound",
]
