"""Made-up studies in the form that ``outcode.study`` writes: several methods, folds, failures."""

from __future__ import annotations

from typing import Any

import numpy as np

from outcode import metrics
from outcode.codes import code_matrix

METHODS = ("ovo+likelihood", "ova+linear", "dense+llw", "spoc", "svc", "ovr-svc")


def study(
    n_classes: int = 4,
    methods: tuple[str, ...] = METHODS,
    folds: int = 5,
    datasets: tuple[str, ...] = ("vowel",),
    classes: list[str] | None = None,
    n_test: int = 60,
    broken: bool = True,
) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return meta and records; with ``broken`` some cells fail, are skipped or run out of time."""
    names = classes or [f"class {q:03d}" for q in range(n_classes)]
    meta = _meta(names, methods, folds, datasets, n_test)
    records = [
        _record(d, m, fold, names, seed=[i, j, fold], n_test=n_test, skill=0.97 - 0.03 * j)
        for i, d in enumerate(datasets)
        for j, m in enumerate(methods)
        for fold in range(folds)
    ]
    return meta, _break(records, methods) if broken else records


def _meta(names, methods, folds, datasets, n_test):
    counts = [n_test * folds // len(names) + q % 3 for q in range(len(names))]
    return {
        "schema": 1,
        "title": f"outcode compare {datasets[0]}.csv",
        "command": f"outcode compare {datasets[0]}.csv --target species --folds {folds} --seed 0",
        "created": "2026-11-16T04:55:00+00:00",
        "seed": 0,
        "folds": folds,
        "repeats": 1,
        "scale": "standard",
        "measure": "error",
        "machine": {"cores": 2, "memory": 8 * 2**30, "python": "3.11.2", "platform": "Linux"},
        "versions": {"outcode": "0.1.0", "numpy": "2.1.0", "scikit-learn": "1.6.0"},
        "datasets": [
            {
                "name": d,
                "source": f"{d}.csv",
                "hash": "ab" * 32,
                "n_rows": sum(counts),
                "n_columns": 12,
                "n_features": 14,
                "classes": names,
                "counts": counts,
                "about": [
                    "12 columns: 10 numeric, 2 categorical (sex, speaker)",
                    "target: species",
                ],
                "findings": [
                    {"code": "OD003", "message": "column 'id' looks like a row number"},
                    {"code": "OD001", "message": "column 'constant' holds one value only"},
                ],
                "missing": 7,
            }
            for d in datasets
        ],
        "methods": [
            {
                "name": m,
                "title": f"{m} with an RBF kernel",
                "baseline": m in ("svc", "ovr-svc"),
                "estimator": f"Estimator(method={m!r})",
            }
            for m in methods
        ],
    }


def _record(dataset, method, fold, names, *, seed, n_test, skill):
    k = len(names)
    shared = np.random.default_rng([seed[0], seed[2]])  # all methods see the same rows
    labels = shared.integers(k, size=n_test)
    scores = shared.normal(size=(n_test, k))
    scores[np.arange(n_test), labels] += 2.6
    scores[np.arange(n_test), (labels + 1) % k] += 0.9 * (labels % 3 == 0)
    rng = np.random.default_rng(seed)
    scores += 6 * (1 - skill) * rng.normal(size=(n_test, k))
    proba = np.exp((2.4 if method.startswith("ovo") else 1.2) * scores)
    proba /= proba.sum(axis=1, keepdims=True)
    with_proba = method.split()[-1] not in ("spoc", "svc", "ovr-svc")
    return {
        "key": f"{dataset}/{method}/{fold}",
        "dataset": dataset,
        "method": method,
        "repeat": 0,
        "fold": fold,
        "seed": 0,
        "status": "ok",
        "reason": None,
        "parameters": {"gamma": 0.5, "C": 10.0},
        "metrics": _metrics(labels, proba, with_proba, rng, skill),
        "details": _details(labels, proba, method, fold, rng, with_proba),
        "versions": {"outcode": "0.1.0"},
        "started": "2026-11-16T04:55:00+00:00",
        "seconds": 1.0,
    }


def _metrics(labels, proba, with_proba, rng, skill):
    predicted, n = proba.argmax(axis=1), len(labels)
    diagram = metrics.reliability(labels, proba)
    return {
        "error": metrics.error(labels, predicted),
        "balanced_error": metrics.balanced_error(labels, predicted),
        "log_loss": metrics.log_loss(labels, proba) if with_proba else None,
        "brier": metrics.brier(labels, proba) if with_proba else None,
        "calibration_error": diagram.calibration_error if with_proba else None,
        "fit_seconds": float(rng.gamma(4, 0.1 / skill**8)),
        "predict_seconds": float(rng.gamma(4, 0.002)),
        "support_vectors": int(rng.integers(80, 200)),
        "peak_memory": int(rng.integers(150, 400)) * 10**6,
        "n_train": 4 * n,
        "n_test": n,
    }


def _details(labels, proba, method, fold, rng, with_proba):
    predicted, k = proba.argmax(axis=1), proba.shape[1]
    details: dict[str, Any] = {
        "labels": labels.tolist(),
        "predicted": predicted.tolist(),
        "rows": list(range(fold * len(labels), (fold + 1) * len(labels))),
        "warnings": [],
    }
    if with_proba:
        diagram = metrics.reliability(labels, proba)
        details["reliability"] = {
            "count": diagram.count.tolist(),
            "confidence": [None if np.isnan(v) else v for v in diagram.confidence.tolist()],
            "accuracy": [None if np.isnan(v) else v for v in diagram.accuracy.tolist()],
        }
    if "+" in method:
        details |= _code_details(method, k, len(labels), fold, rng)
    if method == "dense+llw":
        details["warnings"] = ["ConvergenceWarning: column 3 stopped with gap 2e-3"]
    return details


def _code_details(method, k, n_test, fold, rng):
    name = method.split()[-1].split("+")[0]
    code = code_matrix("ova" if k > 40 else name, k, random_state=0)
    error = rng.beta(1.5, 30, size=code.shape[1])
    wrong = (rng.random((n_test, code.shape[1])) < error).sum(axis=1)
    gamma = (0.5 * 2.0 ** np.arange(-5, 6)).tolist()
    bound = [float(0.1 + 0.02 * (i - 5.3) ** 2 / 3 + 0.004 * rng.normal()) for i in range(11)]
    found = {
        "columns": {"error": error.tolist(), "positives": rng.random(code.shape[1]).tolist()},
        "bit_errors": np.bincount(wrong).tolist(),
        "path": {"gamma": gamma, "bound": bound},
    }
    return found | ({"code": code.tolist()} if fold == 0 else {})


def _break(records, methods):
    """Make the last cell of each method's tail fail in its own way."""
    ends = {
        methods[2]: ("timeout", "stopped after 60 s: raise --cell-timeout"),
        methods[-3]: ("skipped", "spoc needs a positive beta, and this fold has one class"),
    }
    for method, (status, reason) in ends.items():
        last = [r for r in records if r["method"] == method][-1]
        last.update(status=status, reason=reason, metrics={}, details={})
    return records
