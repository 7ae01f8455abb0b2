"""`outcode fit` on many rows: folders, patterns and large files, read block by block."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from outcode import codes, datasets, decoders, persistence
from outcode._checks import lookup
from outcode.app.commands.files import READING, warnings_said, writable
from outcode.app.heartbeat import doing
from outcode.app.terminal import printable, say
from outcode.classifier import OutputCodeClassifier
from outcode.datasets import blocks
from outcode.machines import Nystrom
from outcode.scale.tables import Stored, Tables
from outcode.words import count, percent, size

#: Bytes of a file beyond which it is read in blocks; Parquet unpacks to several times its size.
LARGE = 2**28
#: Landmarks where none are asked for, and classes beyond which one column each is too many.
LANDMARKS, MANY_CLASSES = 1000, 200
#: Options of a single file that have no meaning for many.
ALONE = ("sample", "bins", "sheet", "data_dir", "decimal", "thousands")


def wanted(source: str, method: str | None, landmarks: int | None, dask: str | None) -> bool:
    """Return whether a source is to be read in blocks; an exact method on them is an error."""
    there = Path(source).exists() or blocks.in_blocks(source, LARGE)
    on_landmarks = method is None or method.endswith("+nystrom") or landmarks is not None
    if there and (landmarks is not None or dask is not None):
        return True
    large = source != "-" and blocks.in_blocks(source, LARGE)
    if large and not on_landmarks and not Path(source).is_file():
        raise ValueError(
            f"{source} is read block by block, and {method!r} needs all rows in memory: leave the "
            f"method out, or give --landmarks."
        )
    return large and on_landmarks


def classifier(
    method: str | None, n_landmarks: int | None, n_classes: int, choices: dict[str, Any]
) -> OutputCodeClassifier:
    """Return the classifier on landmarks that a method's name stands for."""
    usual = "ova+likelihood" if n_classes <= MANY_CLASSES else "similar+likelihood"
    parts = (method or usual).split("+")
    if len(parts) not in (2, 3) or parts[2:] not in ([], ["nystrom"]):
        raise ValueError(
            f"{method!r} does not train on landmarks: name a code and a decoder, such as "
            f"'ova+likelihood' or 'dense+hinge'."
        )
    lookup(codes.CODES, parts[0], "code")
    lookup(decoders.DECODERS, parts[1], "decoder")
    seed = choices["seed"]
    machine = Nystrom(n_landmarks or LANDMARKS, gamma="loo", C="cv", random_state=seed)
    threads = 1 if choices["n_jobs"] == 0 else choices["n_jobs"]
    return OutputCodeClassifier(parts[0], machine, parts[1], n_jobs=threads, random_state=seed)


def fit_blocks(
    source: str, output: str, method: str | None, landmarks: int | None, dask: str | None,
    **choices: Any,
) -> int:  # fmt: skip
    """Fit a machine on landmarks to all rows of some files, a block at a time, and save it."""
    from sklearn.pipeline import Pipeline

    _refuse(choices)
    writable(output)
    source = os.path.abspath(source) if dask else source
    doing("reading a sample of the rows")
    parts, sample = opened(source, choices)
    scale = None if choices["scale"] == "none" else choices["scale"]
    encoder = datasets.TableEncoder(scale, tails="auto")
    encoder.fit(sample.data.table, sample.data.y)
    clf = classifier(method, landmarks, len(np.unique(sample.data.y)), choices)
    work = Path(f"{output}.work")
    rows = Tables(parts, sample.names, sample.target, encoder, spread=dask is not None)
    say(f"Work is kept in {work}; if this stops, the same command continues from there.")
    doing("training on all rows, block by block")
    with warnings_said(), _connected(dask):
        clf.fit(rows if dask else Stored(rows, work / "rows"), checkpoint=work)
    persistence.save(Pipeline([("encoder", encoder), ("classifier", clf)]), output)
    shutil.rmtree(work, ignore_errors=True)
    say(*_told(clf), f"Model: {output} ({size(os.path.getsize(output))})")
    return 0


def opened(source: str, choices: dict[str, Any]) -> tuple[list[blocks.TablePart], blocks.Sample]:
    """Return the blocks of a source and a sample of their rows, and say what was seen."""
    options = {name: choices[name] for name in READING if name not in (*ALONE, "target")}
    parts = blocks.parts(source, **options, types=dict(choices["types"]))
    files = len({part.cut.path for part in parts})
    sample = blocks.sample(parts, choices["target"], source, choices["seed"])
    say(
        f"{printable(source, 200)}: {count(len(parts), 'block')} in {count(files, 'file')}, "
        f"read one after the other. In a sample of {len(sample.data.y):,} rows:"
    )
    for line in (*sample.data.about, *(f"{f.code} {f.message}" for f in sample.data.findings)):
        say(f"  {printable(line, 400)}")
    return parts, sample


def _refuse(choices: dict[str, Any]) -> None:
    for name in ALONE:
        if choices.get(name) is not None and name != "data_dir":
            raise ValueError(
                f"--{name} is for a single file in memory; it cannot be used with files that are "
                f"read block by block."
            )


@contextmanager
def _connected(address: str | None) -> Iterator[None]:
    """Be the client of a scheduler, if there is one."""
    if address is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError:
        raise ImportError('Dask is not installed: pip install "outcode[dask]".') from None
    try:
        client = Client(address, timeout="10s")  # type: ignore[no-untyped-call, unused-ignore]
    except (OSError, ValueError, TimeoutError) as error:
        raise ValueError(f"--dask {address}: there is no scheduler ({error}).") from None
    with client:
        say(f"Dask: {count(len(client.scheduler_info()['workers']), 'worker')} at {address}.")
        yield


def _told(clf: OutputCodeClassifier) -> Iterator[str]:
    machine = clf.machine_
    yield (
        f"{machine.n_rows_:,} rows, {count(len(clf.classes_), 'class', 'classes')}, "
        f"{count(len(machine.features_.landmarks), 'landmark')}, "
        f"gamma = {getattr(machine.features_.kernel, 'gamma', 1.0):.4g}, C = {machine.C_:g}"
    )
    yield f"Kernel left unexplained by the landmarks: {percent(machine.residual_)}"
    for margins, part in clf.rule_.held_out.values():
        out = part >= 0
        wrong = clf.decoder_.best(margins[out]) != clf.labels_[out]
        yield f"Error on {out.sum():,} rows held out of training: {percent(wrong.mean())}"
