"""Data sets by name: from a folder, from scikit-learn, or from OpenML.

The folder is given as ``data_dir`` or by the environment variable ``OUTCODE_DATA``. It holds gzip
CSV files and a ``datasets.json`` that names them and their nominal columns. Empty is missing.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from outcode._checks import Array
from outcode.datasets.cells import objects, text_of
from outcode.datasets.cleaning import Raw, finish
from outcode.datasets.columns import describe
from outcode.datasets.frames import as_table
from outcode.datasets.sources import Limits
from outcode.datasets.table import DataError, Dataset, Table, unknown

BUNDLED = ("breast_cancer", "digits", "iris", "wine")


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Return a data set by name, from the data folder, scikit-learn or OpenML.

    Parameters
    ----------
    name : str
        Name of the data set. One of OpenML may have its version added, as in "credit-g:1".
    data_dir : str or path-like, default=None
        Folder with a ``datasets.json``. None is the folder of ``OUTCODE_DATA``, if set.

    Returns
    -------
    Dataset
        The table and the class of each row.

    Examples
    --------
    >>> iris = load("iris")
    >>> iris.table.n_rows, iris.table.kinds, sorted(set(iris.y.tolist()))
    (150, ('numeric', 'numeric', 'numeric', 'numeric'), ['setosa', 'versicolor', 'virginica'])
    """
    folder = _folder(data_dir)
    if folder is not None and name in _listed(folder):
        return _from_folder(name, folder)
    if name in BUNDLED:
        return _bundled(name)
    return _from_openml(name, names(data_dir))


def names(data_dir: str | os.PathLike[str] | None = None) -> list[str]:
    """Return the names that can be loaded without a network.

    Parameters
    ----------
    data_dir : str or path-like, default=None
        Folder with a ``datasets.json``. None is the folder of ``OUTCODE_DATA``, if set.

    Returns
    -------
    list of str
        The names, sorted.

    Examples
    --------
    >>> "iris" in names()
    True
    """
    folder = _folder(data_dir)
    return sorted({*BUNDLED, *(_listed(folder) if folder is not None else ())})


def _folder(data_dir: str | os.PathLike[str] | None) -> Path | None:
    given = data_dir if data_dir is not None else os.environ.get("OUTCODE_DATA")
    if not given:
        return None
    folder = Path(given)
    if not (folder / "datasets.json").is_file():
        raise DataError(f"{folder} holds no datasets.json: it is not a data folder.")
    return folder


def _listed(folder: Path) -> dict[str, Any]:
    try:
        known: dict[str, Any] = json.loads((folder / "datasets.json").read_text("utf-8"))[
            "datasets"
        ]
    except (ValueError, KeyError, TypeError) as error:
        raise DataError(f"{folder / 'datasets.json'} cannot be read: {error!r}.") from None
    return known


def _from_folder(name: str, folder: Path) -> Dataset:
    entry = _listed(folder)[name]
    path = folder / entry["file"]
    try:
        with gzip.open(path, "rt", newline="", encoding="utf-8") as file:
            rows = list(csv.reader(file))
        cells = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
        y = np.array(cells.pop("class"))
        split = cells.pop("split", None)
        nominal = set(entry["nominal_columns"])
        columns = tuple(_column(cells[name], name in nominal) for name in cells)
    except (OSError, EOFError, ValueError, KeyError, IndexError, csv.Error) as error:
        raise DataError(f"{path} is not as datasets.json describes it: {error!r}.") from None
    kinds = tuple("nominal" if name in nominal else "numeric" for name in cells)
    table = Table(tuple(cells), kinds, columns, source=path.name)
    title = entry.get("title", name)
    data = Dataset(name, table, y, None if split is None else np.array(split), f"{title} ({path})")
    return describe(data)


def _column(cells: tuple[str, ...], nominal: bool) -> Array:
    if nominal:
        return objects(cell or None for cell in cells)
    return np.array([float(cell) if cell else np.nan for cell in cells])


def _bundled(name: str) -> Dataset:
    from sklearn import datasets

    bunch = getattr(datasets, f"load_{name}")()
    columns = tuple(np.asarray(bunch.data, dtype=np.float64).T.copy())
    titles = tuple(str(title) for title in bunch.feature_names)
    table = Table(titles, ("numeric",) * len(titles), columns)
    y = np.asarray(bunch.target_names)[bunch.target].astype(str)
    return describe(Dataset(name, table, y, None, f"scikit-learn's {name}"))


def _from_openml(name: str, known: list[str]) -> Dataset:
    title, _, version = name.partition(":")
    try:
        bunch = _fetch(title, version)
    except ImportError as error:
        raise DataError(
            f"{name!r} from OpenML needs pandas ({error}): pip install pandas."
        ) from None
    except (OSError, ValueError) as error:
        raise DataError(
            f"{unknown(name, tuple(known), 'data set')} Nor could it be downloaded from OpenML "
            f"({type(error).__name__}: {error}): check the name and the network, or give a file, "
            "or a folder of data sets by data_dir or OUTCODE_DATA."
        ) from None
    if bunch.target is None or getattr(bunch.target, "ndim", 1) != 1:
        raise DataError(
            f"OpenML's {name!r} has no single target column: it is not a classification data set."
        )
    labels = objects(map(text_of, bunch.target))
    target = str(getattr(bunch.target, "name", None) or "class")
    data = finish(Raw(name, as_table(bunch.data), labels, target, "empty"), Limits())
    found = bunch.details.get("version", version or "active")
    return replace(data, name=name, source=f"OpenML {title}, version {found}")


def _fetch(title: str, version: str) -> Any:
    from sklearn.datasets import fetch_openml

    number = int(version) if version else "active"
    options: dict[str, Any] = {"as_frame": True, "n_retries": 1, "delay": 0.5, "parser": "auto"}
    with warnings.catch_warnings(action="ignore", category=UserWarning):  # "Retrying..."
        return fetch_openml(title, version=number, **options)
