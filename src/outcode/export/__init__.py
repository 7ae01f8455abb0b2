"""Fitted models for other runtimes: ONNX, one Python file with NumPy alone, a C header.

All of them are written from one description, the model's own code recorded on symbolic rows
(:mod:`outcode.formula`): the encoder, the pooled support rows, one product, the decoder. What is
exported is computed first and compared with the model. Everything is computed in float64.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from outcode._checks import lookup
from outcode.export import c, checking, onnx, python
from outcode.export.checking import Check
from outcode.export.description import Description, describe
from outcode.saved import ModelError

__all__ = ["Check", "Description", "describe", "to_c", "to_file", "to_onnx", "to_python"]


def to_onnx(clf: Any, X: Any = None) -> Any:
    """Return a fitted model as an onnx.ModelProto, compared with the model in onnxruntime.

    Its input ``X`` is float64, (n_rows, n_columns); its outputs are ``label``, ``scores`` and,
    where the decoder has them, ``probabilities``. The operators are those of ONNX's own domain.

    Parameters
    ----------
    clf : estimator
        Fitted classifier, search, or pipeline of encoders and one of these.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to compare on, as ``predict`` takes them. None takes rows like the support rows.

    Returns
    -------
    onnx.ModelProto
        The model.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = to_onnx(OutputCodeClassifier("ovo", "svm", "likelihood").fit(X, y), X)
    >>> [output.name for output in model.graph.output]
    ['label', 'scores', 'probabilities']
    """
    return _onnx(clf, describe(clf), X)[0]


def to_python(clf: Any, X: Any = None) -> str:
    """Return a fitted model as the source of a Python file that needs only NumPy.

    Its formulas are computed and compared with the model first. It has ``predict``, ``scores`` and,
    where the decoder has them, ``predict_proba``.

    Parameters
    ----------
    clf : estimator
        Fitted classifier, search, or pipeline of encoders and one of these.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to compare on, as ``predict`` takes them. None takes rows like the support rows.

    Returns
    -------
    str
        The source of the file.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    >>> space = {}
    >>> exec(to_python(clf), space)
    >>> bool((space["predict"](X) == clf.predict(X)).all())
    True
    """
    return _python(clf, describe(clf), X)[0]


def to_c(clf: Any, X: Any = None) -> str:
    """Return a fitted model as a C header, which computes one row at a time.

    Its formulas are computed and compared with the model first; nothing is compiled.

    Parameters
    ----------
    clf : estimator
        Fitted classifier, search, or pipeline of encoders and one of these.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to compare on, as ``predict`` takes them. None takes rows like the support rows.

    Returns
    -------
    str
        The text of the header.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> header = to_c(OutputCodeClassifier("ovo", "svm", "hinge").fit(X, y))
    >>> "static int outcode_predict(const double *x" in header
    True
    """
    return _c(clf, describe(clf), X)[0]


def to_file(clf: Any, path: str | os.PathLike[str], X: Any = None) -> tuple[Description, Check]:
    """Write a fitted model to a .onnx, .py or .h file; an incomplete file is never left.

    Parameters
    ----------
    clf : estimator
        Fitted classifier, search, or pipeline of encoders and one of these.
    path : str or path-like
        The file to write. The end of its name is the format.
    X : array-like of shape (n_samples, n_features), default=None
        Rows to compare on, as ``predict`` takes them. None takes rows like the support rows.

    Returns
    -------
    description : Description
        What the file takes and gives.
    check : Check
        How it compares with the model.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.datasets import load_iris
    >>> from outcode import OutputCodeClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = OutputCodeClassifier("ova", "ls", "softmax").fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     description, check = to_file(clf, folder + "/iris.py", X)
    >>> len(description.columns), check.rows
    (4, 150)
    """
    target = Path(path)
    write = lookup(FORMATS, target.suffix.lower(), "kind of export")
    description = describe(clf)
    made, check = write(clf, description, X)
    raw = made.encode() if isinstance(made, str) else made.SerializeToString()
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        beside.write_bytes(raw)
        os.replace(beside, target)
    except OSError as fault:
        raise ModelError(f"Cannot write {str(path)!r}: {fault.strerror}.") from None
    finally:
        with suppress(FileNotFoundError):
            beside.unlink()
    return description, check


def _onnx(clf: Any, description: Description, X: Any) -> tuple[Any, Check]:
    made = onnx.model(description)
    return made, checking.compare(clf, description, onnx.runner(made), X)


def _python(clf: Any, description: Description, X: Any) -> tuple[str, Check]:
    return python.source(description), checking.compare(clf, description, description.run, X)


def _c(clf: Any, description: Description, X: Any) -> tuple[str, Check]:
    return c.source(description), checking.compare(clf, description, description.run, X)


FORMATS: dict[str, Callable[[Any, Description, Any], tuple[Any, Check]]] = {
    ".onnx": _onnx,
    ".py": _python,
    ".h": _c,
}
