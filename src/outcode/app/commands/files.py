"""The files of a command: read, named for writing, and what was seen in them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from outcode import datasets
from outcode.app.terminal import printable, say

#: How the name of a report may end.
REPORTS = (".html", ".md", ".json", ".csv")


#: The options of reading a file.
READING = (
    *("target", "drop", "keep", "sample", "bins", "encoding", "delimiter", "decimal", "thousands"),
    *("sheet", "data_dir"),
)


def dataset(source: str, **choices: Any) -> datasets.Dataset:
    """Read a file, or a data set by name, and say what was seen."""
    folder, sample = choices.pop("data_dir"), choices.pop("sample", None)
    seed = choices.pop("seed", 0)
    if source == "-" or Path(source).exists() or Path(source).suffix or os.sep in source:
        data = datasets.read(source, **choices)
    else:
        data = datasets.load(source, folder)
    data = data if sample is None else datasets.sampled(data, sample, seed)
    n_classes = len(np.unique(data.y))
    say(f"{printable(data.name)}: {len(data.y):,} rows, {n_classes} classes ({data.source})")
    for line in (*data.about, *(f"{f.code} {f.message}" for f in data.findings)):
        say(f"  {printable(line, 400)}")
    return data


def reading(choices: dict[str, Any]) -> dict[str, Any]:
    found = {key: choices[key] for key in (*READING, "seed") if key in choices}
    return found | {"types": dict(choices["types"])}


def tested_rows(data: datasets.Dataset) -> int:
    """Return how many rows can be held out: those of classes of two rows or more."""
    counts = np.unique(data.y, return_counts=True)[1]
    return int(counts[counts > 1].sum())


def writable(
    path: str, suffixes: Sequence[str] = (), keep: Sequence[str] = (), what: str = "a report"
) -> Path:
    """Return a path that can be written, checked before the work and not after it.

    The files of ``keep`` are read; they are not written over.
    """
    output = Path(path)
    if suffixes and output.suffix.lower() not in suffixes:
        raise ValueError(f"{path}: {what} ends in {', '.join(suffixes)}.")
    if not output.parent.is_dir():
        raise ValueError(f"{path}: the folder {output.parent} does not exist: make it first.")
    if output.exists() and any(Path(k).exists() and output.samefile(k) for k in keep):
        raise ValueError(f"{path} is a file to read, writing would destroy it: name another one.")
    if not os.access(output if output.exists() else output.parent, os.W_OK):
        raise ValueError(f"{path} cannot be written: name another file.")
    return output


@contextmanager
def warnings_said() -> Iterator[None]:
    """Show each warning as one plain line, once."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for text in dict.fromkeys(str(warning.message) for warning in caught):
        say(f"Warning: {printable(text, 400)}")
