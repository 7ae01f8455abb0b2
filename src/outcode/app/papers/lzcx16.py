"""[LZCX16] Tables 2 and 3: machines learned apart (SVM) and together (JCL), for six codes.

    outcode reproduce LZCX16 --data-dir DIR --store lzcx16.db [--quick]

Five folds, linear kernel, loss-weighted decoding (LLW) of signs, features to mean 0 and deviation 1
on the training rows; C of the SVMs from 1e-3 to 1e3 and lambda1, lambda2 of JCL from 1e-8 to 1e-2
by five inner folds. Beside: weights of each class, margins, and what the paper has in a supplement,
Hamming decoding and Gaussian kernels (bandwidths from 1e-3 to 1e3 times the mean distance, by the
same folds). The paper's two image sets (Texture, AD) are not public.
With ``--store`` an interrupted run continues where it stopped; the quick version has three data
sets and three inner folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from outcode import codes
from outcode._checks import Array
from outcode.app.papers.comparison import (
    Figure,
    Setting,
    finished,
    fold_errors,
    markdown,
    opened,
    run_studies,
    side_by_side,
)
from outcode.app.papers.lzcx16_figures import figures
from outcode.app.study import Method, Study
from outcode.classifier import OutputCodeClassifier
from outcode.datasets import load
from outcode.decoders import LossWeighted
from outcode.machines import SVM, Joint
from outcode.selection import JointSearchCV, KernelSearchCV, bandwidth_gammas
from outcode.statistics import win_tie_loss

CS = 10.0 ** np.arange(-3, 4)
LAMBDAS = 10.0 ** np.arange(-8, -1)

#: The codes of Table 2 and of Table 3 by their names in the paper.
CODES = {"OVO": "ovo", "OVA": "ova", "DECOC": "decoc", "Forest": "forest"}
#: What the codes of Table 3 are learned with, so that SVM and JCL have the same matrix.
LEARNER = SVM(kernel="linear")
LEARNED = {
    "ECOCone": codes.NodeEmbedding(machine=LEARNER),
    "JECOC": codes.JointCode(machine=LEARNER),
}
MACHINES = ("SVM", "JCL")

#: Data set -> accuracies in percent: OVO, OVA, DECOC, Forest, each with SVM and JCL.
TABLE_2 = {
    "balance": (87.69, 88.41, 91.67, 88.02, 88.04, 88.04, 87.87, 89.22),
    "cmc": (52.89, 53.43, 48.67, 52.47, 50.24, 50.38, 50.24, 49.83),
    "tae": (54.64, 51.64, 48.00, 54.64, 50.04, 53.26, 50.04, 51.72),
    "wine": (98.82, 99.52, 97.75, 97.76, 98.46, 98.93, 98.93, 99.26),
    "new-thyroid": (91.16, 88.83, 88.37, 89.31, 89.30, 90.70, 88.83, 86.05),
    "vehicle": (78.25, 80.22, 75.37, 78.58, 77.39, 76.98, 77.09, 77.39),
    "dermatology": (96.78, 97.74, 96.09, 98.30, 96.69, 97.50, 95.50, 96.77),
    "glass": (65.22, 67.35, 61.61, 65.74, 63.48, 64.85, 62.50, 64.48),
    "zoo": (92.22, 93.63, 93.22, 94.32, 87.06, 88.51, 93.63, 91.67),
    "ecoli": (87.66, 85.89, 77.64, 85.77, 84.57, 85.98, 84.57, 85.08),
    "vowel": (47.84, 49.49, 42.12, 47.07, 55.25, 56.36, 55.25, 56.34),
}
#: Data set -> accuracies in percent with the codes of ECOC-ONE and JECOC, each with SVM and JCL.
TABLE_3 = {
    "balance": (87.06, 88.74, 87.69, 88.41),
    "cmc": (45.07, 49.67, 52.89, 55.22),
    "tae": (46.62, 47.48, 52.64, 53.44),
    "wine": (96.58, 98.52, 98.22, 99.68),
    "new-thyroid": (86.04, 88.40, 91.16, 93.14),
    "vehicle": (75.38, 75.95, 78.34, 80.45),
    "dermatology": (95.81, 96.19, 95.78, 96.83),
    "glass": (62.74, 65.00, 65.22, 68.75),
    "zoo": (88.21, 87.50, 94.22, 95.83),
    "ecoli": (80.89, 81.93, 87.66, 87.41),
    "vowel": (49.29, 49.91, 64.84, 78.65),
}
#: Data set -> accuracies in percent of ECOC-ONE and JECOC with machines of their own.
OWN = {
    "balance": (89.62, 91.68),
    "cmc": (48.89, 52.27),
    "tae": (40.75, 52.00),
    "wine": (93.75, 96.58),
    "new-thyroid": (92.55, 95.34),
    "vehicle": (65.45, 78.72),
    "dermatology": (64.93, 96.06),
    "glass": (63.15, 64.22),
    "zoo": (78.54, 94.44),
    "ecoli": (65.85, 87.39),
    "vowel": (32.52, 67.98),
}
#: The variances of the accuracies over the folds in percent (of 1), columns as above.
VARIANCES_2 = {
    "balance": (0.03, 0.04, 0.02, 0.04, 0.03, 0.03, 0.29, 0.23),
    "cmc": (0.03, 0.04, 0.05, 0.18, 0.08, 0.07, 0.79, 0.24),
    "tae": (0.41, 0.21, 0.46, 0.47, 0.57, 0.72, 0.57, 0.79),
    "wine": (0.02, 0.01, 0.15, 0.05, 0.02, 0.05, 0.02, 0.02),
    "new-thyroid": (0.06, 0.49, 0.14, 0.07, 0.02, 0.22, 0.04, 0.36),
    "vehicle": (0.08, 0.02, 0.04, 0.01, 0.03, 0.02, 0.03, 0.12),
    "dermatology": (0.04, 0.03, 0.04, 0.01, 0.03, 0.01, 0.03, 0.10),
    "glass": (0.07, 0.40, 0.25, 0.48, 0.48, 0.17, 0.48, 0.14),
    "zoo": (0.72, 0.39, 0.40, 0.49, 1.09, 0.57, 1.09, 1.02),
    "ecoli": (0.16, 0.12, 0.41, 0.14, 0.07, 0.29, 0.07, 0.02),
    "vowel": (0.16, 0.10, 0.64, 0.12, 0.13, 0.06, 0.14, 0.08),
}
#: The same of ECOC-ONE and JECOC with machines of their own, then as in TABLE_3.
VARIANCES_3 = {
    "balance": (0.03, 0.02, 0.02, 0.04, 0.03, 0.05),
    "cmc": (0.05, 0.05, 0.04, 0.09, 0.03, 0.05),
    "tae": (0.98, 0.35, 0.43, 0.23, 0.41, 0.43),
    "wine": (0.10, 0.06, 0.14, 0.03, 0.03, 0.01),
    "new-thyroid": (0.06, 0.09, 0.10, 0.10, 0.06, 0.15),
    "vehicle": (0.11, 0.03, 0.09, 0.01, 0.08, 0.02),
    "dermatology": (2.46, 0.07, 0.05, 0.87, 0.03, 0.03),
    "glass": (1.77, 0.12, 0.47, 0.20, 0.07, 0.23),
    "zoo": (2.92, 0.21, 1.19, 0.32, 0.10, 0.07),
    "ecoli": (2.37, 0.12, 0.56, 1.08, 0.16, 0.02),
    "vowel": (0.52, 0.21, 0.44, 0.40, 0.15, 0.11),
}
#: How often JCL wins, ties and loses there (thirteen sets in Table 2, eleven in Table 3).
PRINTED_COUNTS = {
    ("JCL, OVO", "SVM, OVO"): "8/2/3",
    ("JCL, OVA", "SVM, OVA"): "11/1/1",
    ("JCL, DECOC", "SVM, DECOC"): "8/5/0",
    ("JCL, Forest", "SVM, Forest"): "8/3/2",
    ("JCL, ECOCone", "ECOCone"): "8/2/1",
    ("JCL, ECOCone", "SVM, ECOCone"): "8/3/0",
    ("JCL, JECOC", "JECOC"): "7/2/2",
    ("JCL, JECOC", "SVM, JECOC"): "8/3/0",
}
#: Quick sets first, so that a run cut short has the most rows.
ORDER = (
    *("tae", "wine", "zoo", "new-thyroid", "glass", "ecoli"),
    *("dermatology", "balance", "vehicle", "vowel", "cmc"),
)
QUICK = ORDER[:3]

NOTES = """\
Accuracies in percent over five folds, the paper's in brackets, then the difference. SVM and JCL use
the same code and decoder: loss-weighted decoding of the *signs* of the margins, as Eq. 16 prints
it, each column weighted by its accuracy on all its training rows, as the ECOC library has it that
the paper names. Inner folds choose C, lambda1 and lambda2. Folds are our own."""

NOTES_3 = """\
A learned code is learned once for a training set, with linear SVMs of C = 1, and SVM and JCL get
the same matrix. "ECOCone" and "JECOC" alone are these codes with the SVMs they were learned with,
ECOCone decoded with its own column weights; the paper's versions had machines of their own, so
those two columns compare loosely. The text of the JECOC paper was not at hand: `codes.JointCode`
states how it is read here."""

NOTES_VARIANCES = """\
100 times the variance of the accuracy (between 0 and 1) over the five folds, the paper's in
brackets."""

NOTES_BY_CLASS = """\
Accuracy with a weight for each class and column (the accuracy of the column on that class, as the
paper on loss-weighted decoding has it) minus that with a weight for each column, in points; both
decode signs, each with its own C, lambda1 and lambda2."""

NOTES_MARGINS = """\
Accuracy with the margins themselves and weights of each class, minus that with signs and weights of
each column, in points; each with its own C, lambda1 and lambda2."""

NOTES_HAMMING = """\
Accuracy with Hamming decoding minus that with loss-weighted signs, in points; each with its own C,
lambda1 and lambda2. The paper reports Hamming in a supplement that was not at hand."""

NOTES_RBF = """\
Accuracies in percent with a Gaussian kernel, its bandwidth chosen by the same inner folds from 1e-3
to 1e3 times the mean distance of two training rows (section 4.2); loss-weighted signs as above. The
paper has its numbers in the supplement."""

#: What decodes: signs, as the library the paper names; others to compare.
BY_CLASS, MARGINS, HAMMING = ", by class", ", margins", ", Hamming"
DECODERS: dict[str, Any] = {
    "": LossWeighted(outputs="sign", weights="column"),
    BY_CLASS: LossWeighted(outputs="sign"),
    MARGINS: LossWeighted(),
    HAMMING: "hamming",
}
RBF = ", RBF"


def reproduce(setting: Setting) -> str:
    """Run the study and return the page."""
    names = QUICK if setting.quick else ORDER
    inner = 3 if setting.quick else 5
    studies = (
        Study(load(name, setting.data_dir), listed, folds=5, baselines=False)
        for listed in (methods(inner), gaussian(inner))
        for name in names
    )
    records, ended = run_studies(studies, setting)
    page = report(fold_errors(records), names)
    if not ended:
        return page
    with opened(setting) as store, suppress(KeyboardInterrupt):
        page += "\n\n" + figures(_searches("ova", "hamming", 5), setting, store)
    return page


def methods(inner: int) -> list[Method]:
    """Return every code with SVMs and with JCL, and the learned codes with their own machine."""
    found = []
    for name, code in (CODES | LEARNED).items():
        for suffix, decoder in DECODERS.items():
            searches = _searches(code, decoder, inner)
            found += [
                Method(f"{machine}, {name}{suffix}", searches[machine]) for machine in MACHINES
            ]
    own = {"ECOCone": LossWeighted(weights="code"), "JECOC": DECODERS[""]}
    for name, decoder in own.items():
        alone = OutputCodeClassifier(LEARNED[name], LEARNER, decoder, random_state=0)
        found.append(Method(name, alone))
    return found


def gaussian(inner: int) -> list[Method]:
    """Return every code with SVMs and with JCL of Gaussian kernels, the width searched, too."""
    return [
        Method(f"{machine}, {name}{RBF}", search)
        for name, code in (CODES | LEARNED).items()
        for machine, search in _searches(code, DECODERS[""], inner, "rbf").items()
    ]


def _searches(code: Any, decoder: Any, inner: int, kernel: str = "linear") -> dict[str, Any]:
    """Return the search of SVM and of JCL with a code and a decoder."""
    apart = OutputCodeClassifier(code, SVM(kernel=kernel), decoder, random_state=0)
    together = OutputCodeClassifier(code, Joint(kernel=kernel), decoder, random_state=0)
    gammas = bandwidth_gammas if kernel == "rbf" else None
    found = (
        KernelSearchCV(apart, gammas, CS, cv=inner),
        JointSearchCV(together, LAMBDAS, LAMBDAS, gammas=gammas, cv=inner),
    )
    return dict(zip(MACHINES, found, strict=True))


Errors = Mapping[str, Mapping[str, Array]]


def report(errors: Errors, names: Sequence[str] = ORDER) -> str:
    """Return the page from the errors of the folds, by data set and method; some may be missing."""
    pairs_2 = [f"{machine}, {code}" for code in CODES for machine in MACHINES]
    pairs_3 = [f"{machine}, {code}" for code in LEARNED for machine in MACHINES]
    columns_3 = [*LEARNED, *pairs_3]
    table_3 = {name: OWN[name] + TABLE_3[name] for name in TABLE_3}
    parts = ["## Table 2", _side_by_side(errors, pairs_2, TABLE_2, _accuracy)]
    parts += [*finished(errors, names), NOTES]
    parts += ["## Table 3", _side_by_side(errors, columns_3, table_3, _accuracy), NOTES_3]
    parts += ["## Wins, ties and losses", _counts(errors), "## Variances over the folds"]
    parts += [_side_by_side(errors, pairs_2, VARIANCES_2, _variance)]
    parts += [_side_by_side(errors, columns_3, VARIANCES_3, _variance), NOTES_VARIANCES]
    both = [*pairs_2, *pairs_3]
    parts += ["## Weights of a column or of each class", _gains(errors, both, BY_CLASS)]
    parts += [NOTES_BY_CLASS, "## Signs or margins", _gains(errors, both, MARGINS), NOTES_MARGINS]
    parts += ["## Hamming decoding", _gains(errors, both, HAMMING), NOTES_HAMMING]
    if any(column + RBF in found for found in errors.values() for column in both):
        parts += ["## Gaussian kernels", _alone(errors, both, RBF), NOTES_RBF]
    return "\n\n".join(parts)


def _side_by_side(
    errors: Errors,
    columns: Sequence[str],
    printed: Mapping[str, Sequence[float]],
    number: Callable[[Array | None], float | None],
) -> str:
    figures = [
        Figure(name, column, paper, number(errors[name].get(column)))
        for name in errors
        for column, paper in zip(columns, printed[name], strict=True)
    ]
    return side_by_side(figures)


def _accuracy(errors: Array | None) -> float | None:
    return None if errors is None else 100 * (1 - float(np.mean(errors)))


def _variance(errors: Array | None) -> float | None:
    """Return 100 times the variance of the accuracies, the unit of the paper's brackets."""
    return None if errors is None else 100 * float(np.var(errors, ddof=1))


def _gains(errors: Errors, columns: Sequence[str], other: str) -> str:
    """Return what another decoder in place of signs adds to the accuracy, in points."""
    rows = []
    for name, found in errors.items():
        pairs = [(found.get(column), found.get(column + other)) for column in columns]
        rows.append([name, *(_difference(*pair) for pair in pairs)])
    return markdown(["data", *columns], rows)


def _alone(errors: Errors, columns: Sequence[str], suffix: str) -> str:
    """Return the accuracies of the methods with a suffix, which the paper does not print."""
    rows = [
        [
            name,
            *(
                "" if (a := _accuracy(found.get(c + suffix))) is None else f"{a:.2f}"
                for c in columns
            ),
        ]
        for name, found in errors.items()
    ]
    return markdown(["data", *columns], rows)


def _difference(signs: Array | None, other: Array | None) -> str:
    if signs is None or other is None:
        return ""
    return f"{100 * float(np.mean(signs) - np.mean(other)):+.2f}"


def _counts(errors: Errors) -> str:
    """Return on how many data sets JCL wins, ties and loses, by paired t tests over the folds."""
    rows = []
    for pair, printed in PRINTED_COUNTS.items():
        tables = [np.column_stack([e[m] for m in pair]) for e in errors.values() if _has(e, pair)]
        if len(tables) > 1:
            (counted,) = win_tie_loss(tables, pair).pairs
            rows.append([*pair, f"{counted.wins}/{counted.ties}/{counted.losses}", printed])
    if not rows:
        return "Too few data sets are finished to count wins."
    return markdown(["first", "against", "wins/ties/losses (paired t, 5 %)", "the paper's"], rows)


def _has(errors: Mapping[str, Array], methods: Sequence[str]) -> bool:
    return all(method in errors and len(errors[method]) > 1 for method in methods)
