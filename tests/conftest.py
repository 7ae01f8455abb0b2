"""Fixtures: the papers' data folder, when it is there."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background by a shell
    signal.signal(signal.SIGINT, signal.default_int_handler)

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


@pytest.fixture(scope="session")
def data_dir() -> Path:
    folder = Path(os.environ.get("OUTCODE_DATA", BESIDE))
    if not (folder / "datasets.json").is_file():
        pytest.skip("the papers' data sets are not here: set OUTCODE_DATA to their folder")
    return folder
