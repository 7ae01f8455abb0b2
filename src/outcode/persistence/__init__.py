"""Models to files and back, without pickle.

A file is a safetensors container: the numbers as tensors, and a JSON document of ours that names
the classes, their parameters and where each tensor belongs. Reading one looks names up in a table
and checks every size, type and value; it imports nothing and runs nothing. What prediction does
not need is left out: the training labels, the Gram matrix, rows that are no support vectors.
"""

from __future__ import annotations

import os
from typing import Any

from outcode._version import __version__
from outcode.persistence import container
from outcode.persistence.container import SCHEMA
from outcode.persistence.models import TREE
from outcode.saved import ModelError, Part, Place

__all__ = ["SCHEMA", "ModelError", "load", "save"]

MODEL = Part(("model",))


def save(estimator: Any, path: str | os.PathLike[str]) -> None:
    """Write a fitted model to one file; an incomplete file is never left.

    Parameters
    ----------
    estimator : estimator
        Fitted OutputCodeClassifier, SPOC or SingleBinaryClassifier, a search (its best estimator is
        written), or a scikit-learn Pipeline of encoders and one of these.
    path : str or path-like
        The file to write; one that is there is replaced.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ovo", decoder="likelihood", random_state=0).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(clf, folder + "/iris.oc")
    ...     again = load(folder + "/iris.oc")
    >>> bool((again.predict_proba(X) == clf.predict_proba(X)).all())
    True
    """
    tensors: dict[str, Any] = {}
    tree = MODEL.write(estimator, Place(tensors, TREE))
    raw = container.to_bytes({"schema": SCHEMA, "outcode": __version__, "model": tree}, tensors)
    MODEL.read(tree, Place(tensors, TREE))  # what cannot be read is not written
    container.write(raw, path)


def load(path: str | os.PathLike[str]) -> Any:
    """Return the model of a file; its predictions are exactly those of the saved model.

    Only :class:`ModelError` is raised, whatever the file holds. Save and load need the extra
    ``outcode[app]``.

    Parameters
    ----------
    path : str or path-like
        The file to read.

    Returns
    -------
    estimator
        The fitted model, of the class that was saved.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save(OutputCodeClassifier().fit(X, y), folder + "/iris.oc")
    ...     load(folder + "/iris.oc").classes_.tolist()
    [0, 1, 2]
    """
    document, tensors = container.read(path)
    try:
        return _model(document, Place(tensors, TREE))
    except ModelError as fault:
        raise ModelError(f"{str(path)!r} is not a valid model file: {fault}") from None


def _model(document: dict[str, Any], place: Place) -> Any:
    place.fields(document, "schema", "outcode", "model", "sha256")
    model = MODEL.read(document["model"], place)
    if place.tensors:
        raise place.fault(f"nothing uses the numbers of {min(place.tensors)[:60]!r}")
    return model
