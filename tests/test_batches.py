"""A row's class does not depend on the rows predicted with it: every decoder, every code."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.datasets import load_iris

from outcode import SPOC, OutputCodeClassifier, SingleBinaryClassifier, codes, decoders
from outcode.machines import MACHINES

IRIS = load_iris(return_X_y=True)
RNG = np.random.RandomState(0)
FIVE = np.arange(100) % 5
# rows on a grid: many are equal or mirror each other, so scores tie
GRID = np.round(RNG.randn(100, 4) + np.eye(5)[FIVE][:, :4]), FIVE


def assert_alone_as_together(model, rows):
    """Rows alone, in pairs and in odd blocks decode as they do all together."""
    together = model.predict(rows)
    for size in (1, 7):
        blocks = [model.predict(rows[i : i + size]) for i in range(0, len(rows), size)]
        assert np.flatnonzero(np.concatenate(blocks) != together).tolist() == [], size


PAIRS = [
    (code, decoder)
    for code in codes.CODES
    for decoder in decoders.DECODERS
    if code == "ovo" or decoder not in ("coupling", "ddag")  # those read pairs of classes
]


@pytest.mark.parametrize(("code", "decoder"), PAIRS)
def test_a_row_alone_and_in_a_batch(code, decoder):
    model = OutputCodeClassifier(code, decoder=decoder, random_state=0, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows, labels in (IRIS, GRID):
            assert_alone_as_together(model.fit(rows, labels), rows[::3])


@pytest.mark.parametrize(
    "model",
    [
        *(OutputCodeClassifier("ova", machine, random_state=0) for machine in MACHINES),
        SPOC(),
        *(SingleBinaryClassifier(kind, random_state=0) for kind in ("kernel", "single", "ecoc")),
    ],
    ids=repr,
)
def test_every_machine_alone_and_in_a_batch(model):
    rows, labels = GRID
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert_alone_as_together(model.fit(rows, labels), rows)
