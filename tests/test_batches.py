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
    for size in (1, 2, 7):
        blocks = [model.predict(rows[i : i + size]) for i in range(0, len(rows), size)]
        assert np.flatnonzero(np.concatenate(blocks) != together).tolist() == [], size


@pytest.mark.parametrize("decoder", decoders.DECODERS)
@pytest.mark.parametrize("code", codes.CODES)
def test_a_row_alone_and_in_a_batch(code, decoder):
    if decoder in ("coupling", "ddag") and code != "ovo":
        return  # they read pairs of classes
    model = OutputCodeClassifier(code, decoder=decoder, random_state=0, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for rows, labels in (IRIS, GRID):
            assert_alone_as_together(model.fit(rows, labels), rows[::2])


@pytest.mark.parametrize(
    "model",
    [
        *(OutputCodeClassifier("ovo", machine, random_state=0) for machine in MACHINES),
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
