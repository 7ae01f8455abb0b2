"""`outcode code` and `outcode doctor`: code matrices, and what is installed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np

from outcode import codes, datasets, decoders, dichotomies, machines
from outcode._checks import Array
from outcode._version import __version__
from outcode.app import study, terminal
from outcode.app.commands.files import dataset, reading
from outcode.words import size

#: What `doctor` lists.
PACKAGES = (
    *("numpy", "scipy", "scikit-learn", "numba", "joblib", "threadpoolctl"),
    *("click", "rich", "pandas", "matplotlib", "Jinja2", "safetensors", "psutil", "pyarrow"),
    *("python-calamine", "charset-normalizer"),
)


def code(code: str | None, classes: int | None, data: str | None, seed: int, **choices: Any) -> int:
    """Show a code and its diagnosis, or list what methods are made of."""
    if code is None:
        print(terminal.columns_left(_parts()))
        return 0
    matrix, names = _code(code, classes, data, seed, choices)
    print(terminal.code_picture(matrix, names))
    print()
    print(dichotomies.diagnose(matrix, names))
    return 0


def doctor() -> int:
    """Say what this machine has."""
    print(terminal.columns_left(_facts_of_the_machine()))
    return 0


def _code(
    name: str, classes: int | None, data: str | None, seed: int, choices: dict[str, Any]
) -> tuple[Array, list[str]]:
    """Return a code matrix and the names of its rows."""
    if Path(name).suffix or Path(name).is_file():
        matrix = _matrix(Path(name))
        return matrix, [str(q) for q in range(len(matrix))]
    if data is not None:
        rows = dataset(data, **reading(choices))
        names, labels = np.unique(rows.y, return_inverse=True)
        X = datasets.TableEncoder().fit(rows.table).transform(rows.table)
        matrix = codes.code_matrix(name, len(names), X, labels, "svm", random_state=seed)
        return matrix, [str(label) for label in names]
    if classes is None:
        raise click.UsageError(
            "Give the number of classes of the code: --classes 5, or --data FILE."
        )
    return codes.code_matrix(name, classes, random_state=seed), [str(q) for q in range(classes)]


def _matrix(path: Path) -> Array:
    """Read a csv of +1, -1 and 0."""
    try:
        with open(path, encoding="utf-8") as file:
            lines = [line for line in file if line.strip()]
        return dichotomies.as_code(np.loadtxt(lines, delimiter=",", ndmin=2) if lines else [])
    except ValueError as error:
        raise datasets.DataError(
            f"{path} is not a code: {error} A code file has one line per class with a number +1, "
            f"-1 or 0 per column, with commas between them."
        ) from None


def _parts() -> Iterator[tuple[str, str]]:
    """Yield what the name of a method may be made of."""
    yield "method", "code+decoder, code+decoder+machine, or one of " + ", ".join(study.METHODS)
    for part, table in (
        ("codes", codes.CODES),
        ("decoders", decoders.DECODERS),
        ("machines", machines.MACHINES),
    ):
        yield part, ", ".join(table)


def _facts_of_the_machine() -> Iterator[tuple[str, str]]:
    import psutil
    from threadpoolctl import threadpool_info

    yield "outcode", __version__
    yield "python", f"{platform.python_version()} on {platform.platform()}"
    yield "cores", str(os.cpu_count())
    memory = psutil.virtual_memory()
    yield "memory", f"{size(memory.available)} free of {size(memory.total)}"
    for package in PACKAGES:
        yield package, _version(package)
    for pool in threadpool_info():
        yield f"{pool['user_api']} threads", f"{pool['num_threads']} ({pool['internal_api']})"
    yield "compiled code", _compiled()
    yield "data folder", os.environ.get("OUTCODE_DATA", "none (OUTCODE_DATA is not set)")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def _compiled() -> str:
    """Say where numba keeps the compiled loops, and whether it can."""
    import outcode

    folder = Path(os.environ.get("NUMBA_CACHE_DIR") or Path(outcode.__file__).parent)
    count = len(list(folder.rglob("*.nbc")))
    kept = (
        f"{count} functions kept"
        if count
        else "nothing yet; the first fit takes longer because it compiles"
    )
    return kept if os.access(folder, os.W_OK) else f"{kept}; the folder cannot be written"
