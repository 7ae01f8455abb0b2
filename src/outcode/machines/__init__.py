"""Machines: a Gram matrix and targets -> a dual solution and margins, all columns at once.

A machine has ``fit(X, targets)`` and ``margins(X)``. A kernel machine also works on a Gram store,
which all its columns share: ``gram(X, targets)``, ``fit_gram(gram, targets)``,
``margins_gram(cross)`` and ``held_out_margins(gram, ...)``. :mod:`outcode.capabilities` writes down
what else a machine can do. Any scikit-learn binary classifier is a machine too, cloned once per
column by :class:`Bank`. To add one, write it in a file of its own in this folder, with its short
name in the file's ``NAMES``: it is found there.
"""

from __future__ import annotations

from typing import Any

from sklearn.base import clone, is_classifier
from sklearn.utils import InputTags, get_tags

from outcode._checks import gathered, lookup
from outcode.machines import crammer_singer, joint, kessler, least_squares, single_binary, svm
from outcode.machines.bank import Bank
from outcode.machines.common import Machine
from outcode.machines.concatenated import Concatenated
from outcode.machines.crammer_singer import CrammerSinger
from outcode.machines.joint import Joint
from outcode.machines.kernel import KernelMachine
from outcode.machines.kessler import Kessler
from outcode.machines.least_squares import LeastSquares
from outcode.machines.nystrom import Nystrom
from outcode.machines.on_landmarks import OnLandmarks
from outcode.machines.per_column import PerColumn
from outcode.machines.single_binary import SingleBinary
from outcode.machines.sparse_linear import SparseLinear
from outcode.machines.svm import SVM
from outcode.machines.weston_watkins import WestonWatkins

__all__ = [
    "MACHINES",
    "SVM",
    "Bank",
    "Concatenated",
    "CrammerSinger",
    "Joint",
    "KernelMachine",
    "Kessler",
    "LeastSquares",
    "Machine",
    "Nystrom",
    "OnLandmarks",
    "PerColumn",
    "SingleBinary",
    "SparseLinear",
    "WestonWatkins",
    "input_tags",
    "resolve",
]

MACHINES: dict[str, type[Machine]] = {
    **svm.NAMES,
    **least_squares.NAMES,
    **joint.NAMES,
    **crammer_singer.NAMES,
    **single_binary.NAMES,
    **kessler.NAMES,
    **gathered(__name__, __path__),
}


def input_tags(machine: Any) -> Any:
    """Return what rows a machine takes (pairwise, sparse, NaN), as scikit-learn's input tags.

    Parameters
    ----------
    machine : str, Machine or estimator object
        Name of a machine, a machine or a scikit-learn classifier.

    Returns
    -------
    sklearn.utils.InputTags
        The input tags.

    Examples
    --------
    >>> input_tags("svm").sparse
    True
    """
    if isinstance(machine, str) and machine in MACHINES:
        machine = MACHINES[machine]()
    return get_tags(machine).input_tags if hasattr(machine, "fit") else InputTags()


def resolve(machine: Any) -> Machine:
    """Return a fresh machine from a name, a machine or a scikit-learn classifier.

    Parameters
    ----------
    machine : str, Machine or estimator object
        Name of a machine, a machine or a scikit-learn classifier.

    Returns
    -------
    Machine
        An unfitted copy; a classifier of scikit-learn comes as a :class:`Bank`.

    Examples
    --------
    >>> resolve("svm")
    SVM()
    """
    if isinstance(machine, str):
        return lookup(MACHINES, machine, "machine")()
    if isinstance(machine, type):
        raise ValueError(f"machine is the class {machine.__name__}: give an object, with ().")
    if hasattr(machine, "margins"):
        return clone(machine)
    if hasattr(machine, "fit") and is_classifier(machine):
        return Bank(clone(machine))
    raise ValueError(
        f"machine must be a name ({', '.join(map(repr, MACHINES))}), a machine with fit() and "
        f"margins(), or a scikit-learn classifier; got {machine!r}."
    )
