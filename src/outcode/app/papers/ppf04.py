"""[PPF04] Fig. 2-4: four decoders and the leave-one-out bound against the width of the kernel.

    outcode reproduce PPF04 --data-dir DIR [--store ppf04.db] [--quick]

Gaussian kernel, C = 1 (the inverse of the mean of K(x, x)), three codes: one-vs-all, all pairs, and
a BCH code of about 3 Q columns. The paper prints its results as curves only, so what is set beside
ours are its claims: likelihood decoding is best for most widths, and the bound's smallest value is
close to the smallest test error. Its eleven widths are not printed: ours are factors of two around
1 / the median squared distance. With ``--store`` an interrupted run continues where it stopped.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import MinMaxScaler

from outcode import codes, loo
from outcode._checks import Array
from outcode.app.papers.comparison import Setting, finished, kept, markdown, opened, stratified
from outcode.app.study import Store
from outcode.classifier import OutputCodeClassifier
from outcode.datasets import Dataset, load
from outcode.machines import SVM
from outcode.selection import median_gamma

DECODERS = {
    "Hamming": "hamming",
    "linear": "linear",
    "soft margin": "hinge",
    "likelihood": "likelihood",
}
FACTORS = 2.0 ** np.arange(-5, 6)

#: Fig. 2: fewer than 2,000 rows, twenty folds. Fig. 3 and 4: one split into training and test rows.
SMALL = ("anneal", "ecoli", "glass", "soybean", "yeast")
LARGE = ("segment", "satimage", "pendigits", "optdigits", "letter")  # the quickest first

#: Below this many rows there are twenty folds, whatever split a file names.
FEW = 2000
#: Rows for training and testing in the quick version.
QUICK = (600, 1000)


@dataclass(frozen=True)
class Curves:
    """One panel: errors (n_decoders, n_widths) and the bound under likelihood decoding."""

    data: str
    code: str
    gammas: Array
    errors: Array
    bound: Array


def reproduce(setting: Setting) -> str:
    """Run the experiments and return the page; the quick version has three sets of 600 rows."""
    names = ("pendigits", "satimage", "optdigits") if setting.quick else (*SMALL, *LARGE)
    panels: list[Curves] = []
    with opened(setting) as store, suppress(KeyboardInterrupt):
        for name in names:
            panels += curves(load(name, setting.data_dir), setting, store)
            if setting.verbose:
                print(f"{name} done", file=sys.stderr, flush=True)
    return report(panels, names)


def curves(data: Dataset, setting: Setting, store: Store) -> list[Curves]:
    """Return the three panels of a data set; each fold of each is kept in the store."""
    parts = list(splits(data, setting.quick))
    weights = [len(part[3]) for part in parts]
    panels = []
    for name, code in _codes(len(np.unique(data.y))).items():
        results = [
            kept(
                store,
                f"PPF04 {data.name}, {name}, part {i}, quick {setting.quick}",
                partial(_evaluate, code, *part, n_jobs=setting.n_jobs),
            )
            for i, part in enumerate(parts)
        ]
        errors = np.average([result["errors"] for result in results], axis=0, weights=weights)
        bound = np.mean([result["bound"] for result in results], axis=0)
        panels.append(Curves(data.name, name, FACTORS, errors, bound))
    return panels


def splits(data: Dataset, quick: bool) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Yield X_train, X_test, y_train, y_test, features from 0 to 1 on the training rows."""
    for train, test in _parts(data, quick):
        scaler = MinMaxScaler().fit(data.X[train])
        rows = scaler.transform(data.X[train]), scaler.transform(data.X[test])
        yield (*rows, data.y[train], data.y[test])


def _parts(data: Dataset, quick: bool) -> Iterator[tuple[Array, Array]]:
    everything = np.arange(len(data.y))
    if quick:
        train, test = train_test_split(
            everything,
            train_size=QUICK[0],
            test_size=QUICK[1],
            stratify=data.y,
            random_state=0,
        )
        yield train, test
    elif len(data.y) < FEW:
        yield from stratified(data.y, 20)
    elif data.name == "letter":
        yield everything[:15000], everything[15000:]
    elif data.split is not None:
        yield np.flatnonzero(data.split == "train"), np.flatnonzero(data.split == "test")
    else:  # segment: which 1540 and 770 rows the paper took is not known
        train, test = train_test_split(everything, test_size=1 / 3, stratify=data.y, random_state=0)
        yield train, test


def _codes(n_classes: int) -> dict[str, Any]:
    return {
        "one-vs-all": "ova",
        "all pairs": "ovo",
        "dense": codes.BCH(n_columns=3 * n_classes),
    }


def _evaluate(
    code: Any, X: Array, X_test: Array, y: Array, y_test: Array, n_jobs: int | None
) -> dict[str, Any]:
    """Return test errors (n_decoders, n_widths) and bounds (n_widths,); one training a width."""
    errors = np.empty((len(DECODERS), len(FACTORS)))
    bound = np.empty(len(FACTORS))
    for j, gamma in enumerate(FACTORS * median_gamma(X)):
        clf = OutputCodeClassifier(code, SVM(gamma=gamma), random_state=0, n_jobs=n_jobs)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="The smallest class", category=UserWarning)
            rules = [clf.fit(X, y).with_decoder(decoder, X) for decoder in DECODERS.values()]
        errors[:, j] = [np.mean(rule.predict(X_test) != y_test) for rule in rules]
        bound[j] = loo.bound(rules[-1]).error
    return {"errors": errors.tolist(), "bound": bound.tolist()}


NOTES = """\
Test errors in percent; gamma in units of 1 / the median squared distance of the training rows. The
bound is Corollary 4.1 under likelihood decoding, in percent of the training rows: it ranks widths,
its level is no estimate of the error."""


def report(panels: Sequence[Curves], names: Sequence[str]) -> str:
    """Return the whole page; of the data sets ``names`` some may be missing."""
    done = finished([panel.data for panel in panels], names)
    if not panels:
        return "\n\n".join(done)
    parts = ["## The claims", claims(panels), *done, NOTES]
    for panel in panels:
        parts += [f"### {panel.data}, {panel.code}", _table(panel)]
    return "\n\n".join(parts)


def claims(panels: Sequence[Curves]) -> str:
    """Return what the paper says of its curves beside what ours show."""
    cells = sum(panel.errors.shape[1] for panel in panels)
    best = sum(int(np.sum(p.errors[-1] <= p.errors.min(axis=0) + 1e-12)) for p in panels)
    apart = [abs(int(p.bound.argmin()) - int(p.errors[-1].argmin())) for p in panels]
    lost = [100 * (p.errors[-1, p.bound.argmin()] - p.errors[-1].min()) for p in panels]
    near = f"in {sum(a <= 1 for a in apart)} of {len(panels)} panels at most one step of 2 apart"
    rows = [
        [
            "likelihood decoding is best for all codes and most widths",
            f"best or tied in {best} of {cells} cells",
        ],
        [
            "the smallest bound is very close to the smallest test error",
            f"{near}; it costs {np.mean(lost):.2f} points on average, {max(lost):.2f} at most",
        ],
        [
            "a slight bias towards smaller variance (larger gamma)",
            f"larger in {_larger(panels)} panels, smaller in {_larger(panels, -1)}",
        ],
        ["Hamming is poor with one-vs-all, good with pairs", _hamming(panels)],
    ]
    return markdown(["the paper says", "here"], rows)


def _larger(panels: Sequence[Curves], sign: int = 1) -> int:
    return sum(sign * int(p.bound.argmin()) > sign * int(p.errors[-1].argmin()) for p in panels)


def _hamming(panels: Sequence[Curves]) -> str:
    """Return by how much Hamming's best width is worse than the best decoder's, for each code."""
    parts = []
    for code in dict.fromkeys(panel.code for panel in panels):
        gaps = [p.errors[0].min() - p.errors.min() for p in panels if p.code == code]
        parts.append(f"{code} {100 * np.mean(gaps):+.2f}")
    return "points above the best decoder: " + ", ".join(parts)


def _table(panel: Curves) -> str:
    rows = [
        [f"{gamma:g}", *(f"{100 * e:.2f}" for e in errors), f"{100 * bound:.1f}"]
        for gamma, errors, bound in zip(panel.gammas, panel.errors.T, panel.bound, strict=True)
    ]
    return markdown(["gamma", *DECODERS, "bound"], rows)
