"""Loaders: the papers' data sets from a folder of gzip CSV files with a ``datasets.json``.

The folder is given as ``data_dir`` or by the environment variable ``OUTCODE_DATA``.
"""

from __future__ import annotations

import csv
import gzip
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from outcode._checks import Array, lookup


@dataclass(frozen=True)
class Dataset:
    """Rows ready for a machine: nominal columns one-hot, missing numbers the column's median.

    ``split`` holds "train" or "test" per row where the original files define it, else None.
    """

    name: str
    X: Array
    y: Array
    split: Array | None
    feature_names: tuple[str, ...]


def load(name: str, data_dir: str | os.PathLike[str] | None = None) -> Dataset:
    """Read one data set by name."""
    folder = _folder(data_dir)
    known: dict[str, Any] = json.loads((folder / "datasets.json").read_text())["datasets"]
    about = lookup(known, name, "data set")
    with gzip.open(folder / about["file"], "rt", newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    table = dict(zip(rows[0], zip(*rows[1:], strict=True), strict=True))
    y = np.array(table.pop("class"))
    split = table.pop("split", None)
    parts, names = [], []
    for column, cells in table.items():
        values, labels = _encode(column, cells, column in about["nominal_columns"])
        parts.append(values)
        names += labels
    parted = None if split is None else np.array(split)
    return Dataset(name, np.hstack(parts), y, parted, tuple(names))


def _folder(data_dir: str | os.PathLike[str] | None) -> Path:
    given = data_dir if data_dir is not None else os.environ.get("OUTCODE_DATA")
    if given is None:
        raise ValueError(
            "No data folder: pass data_dir, or set the environment variable OUTCODE_DATA."
        )
    folder = Path(given)
    if not (folder / "datasets.json").is_file():
        raise FileNotFoundError(f"{folder} holds no datasets.json: it is not a data folder.")
    return folder


def _encode(name: str, cells: tuple[str, ...], nominal: bool) -> tuple[Array, list[str]]:
    """Return a column as numbers; an empty nominal cell is a value of its own."""
    if nominal:
        values = sorted(set(cells))
        matrix = np.array(cells)[:, None] == np.array(values)
        return matrix.astype(np.float64), [f"{name}={value or 'missing'}" for value in values]
    numbers = np.array([float(cell) if cell else np.nan for cell in cells])
    numbers[np.isnan(numbers)] = np.nanmedian(numbers)
    return numbers[:, None], [name]
