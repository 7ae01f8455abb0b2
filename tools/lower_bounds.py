"""Print the oldest supported version of every run-time dependency, as pip constraints."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("app", "dask")
INPUTS = ("polars",)  # not required, but accepted as input


def lower_bounds(project: dict) -> list[str]:
    """Return `name==bound` for each dependency of the project and of its run-time extras."""
    extras = project["optional-dependencies"]
    needed = [*project["dependencies"], *(line for name in EXTRAS for line in extras[name])]
    needed += [line for line in extras["test"] if line.startswith(INPUTS)]
    return sorted({re.sub(r"^([\w.-]+)>=([\w.]+).*$", r"\1==\2", line) for line in needed})


if __name__ == "__main__":
    text = (Path(__file__).parents[1] / "pyproject.toml").read_text(encoding="utf-8")
    print("\n".join(lower_bounds(tomllib.loads(text)["project"])))
