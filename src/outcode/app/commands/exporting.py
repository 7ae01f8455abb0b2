"""`outcode export`: a saved model as an ONNX model, a Python file or a C header."""

from __future__ import annotations

import os
from typing import Any

from outcode import datasets, export, persistence
from outcode.app.commands.files import warnings_said, writable
from outcode.app.terminal import printable, say
from outcode.words import size


def export_model(model: str, output: str, rows: str | None, **choices: Any) -> int:
    """Write a model for another runtime, after comparing the export with the model."""
    writable(
        output, tuple(export.FORMATS), keep=[model, *([rows] if rows else [])], what="an export"
    )
    fitted = persistence.load(model)
    given = None if rows is None else datasets.read_unlabelled(rows, **choices)
    with warnings_said():
        description, check = export.to_file(fitted, output, given)
    for line in str(description).splitlines():
        say(printable(line, 400))
    say(f"Outputs: {', '.join(description.outputs)}")
    say(str(check), f"Model: {output} ({size(os.path.getsize(output))})")
    return 0
