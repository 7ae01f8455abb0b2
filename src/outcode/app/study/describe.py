"""What a report says about the data, the machine and the program."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from outcode._version import __version__
from outcode.datasets import TableEncoder

#: Columns whose encoding is kept in words.
MOST_COLUMNS = 200
#: Packages whose version can change a result.
PACKAGES = "numpy", "scipy", "scikit-learn", "numba"


@lru_cache(maxsize=1)
def versions() -> Mapping[str, str]:
    """Return the versions of what computes the results."""
    ours = {"python": platform.python_version(), "outcode": __version__}
    return ours | {name: _version(name) for name in PACKAGES}


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"


def machine() -> dict[str, Any]:
    """Return cores, bytes of memory, Python and platform of this computer."""
    return {
        "cores": os.cpu_count() or 1,
        "memory": _memory(),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }


def _memory() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # not a POSIX system
        return None


def describe_data(data: Any, rows: Any, scale: str | None) -> dict[str, Any]:
    """Return one data set's entry in the meta dict."""
    encoder = TableEncoder(scale=scale, tails="auto").fit(data.table, rows.labels)
    counts = np.bincount(rows.labels, minlength=len(rows.classes))
    return {
        "name": data.name,
        "source": data.source,
        "hash": data.hash,
        "n_rows": len(rows.labels),
        "n_columns": len(data.table.names),
        "n_features": len(encoder.get_feature_names_out()),
        "classes": list(rows.classes),
        "counts": counts.tolist(),
        "about": list(data.about),
        "encoding": [list(pair) for pair in encoder.explain()[:MOST_COLUMNS]],
        "findings": [
            {"code": f.code, "message": f.message, "columns": list(f.columns)}
            for f in data.findings
        ],
        "missing": int(data.table.missing),
    }
