"""`outcode fit`: one method on all rows, kept with its preprocessing."""

from __future__ import annotations

import os
from typing import Any

from outcode import datasets, persistence, results
from outcode.app import study
from outcode.app.commands import blocks
from outcode.app.commands.files import dataset, reading, tested_rows, warnings_said, writable
from outcode.app.heartbeat import doing
from outcode.app.terminal import say
from outcode.words import count, percent, size


def fit(
    source: str, output: str, method: str | None, landmarks: int | None = None,
    dask: str | None = None, **choices: Any,
) -> int:  # fmt: skip
    """Fit one method on all rows, as it was compared, and save it with its preprocessing."""
    from sklearn.pipeline import Pipeline

    if blocks.wanted(source, method, landmarks, dask):
        return blocks.fit_blocks(source, output, method, landmarks, dask, **choices)
    if landmarks or dask:
        raise ValueError(f"{source}: --landmarks and --dask are for files and folders.")
    method = method or study.DEFAULT
    (chosen,) = study.methods([method], choices["preset"])
    if chosen.baseline:
        raise ValueError(
            f"{method!r} is scikit-learn's own, which a model file cannot hold: fit a method of "
            f"outcode, or use scikit-learn from Python."
        )
    writable(output, keep=[source])
    doing(f"reading {source}")
    data = dataset(source, **reading(choices))
    (chosen,) = study.methods([method], choices["preset"], len(data.y))
    threads = 1 if choices["n_jobs"] == 0 else choices["n_jobs"]  # none but this one
    estimator = study.seeded(chosen.estimator, choices["seed"], threads)
    scale = None if choices["scale"] == "none" else choices["scale"]
    model = Pipeline(
        [("encoder", datasets.TableEncoder(scale, tails="auto")), ("classifier", estimator)]
    )
    doing(f"training {method} on {len(data.y):,} rows")
    with warnings_said():
        model.fit(data.table, data.y)
    persistence.save(model, output)
    for line in study.facts(model.named_steps["classifier"]):
        say(line)
    choices["folds"] = min(choices["folds"], tested_rows(data))
    if choices["folds"] > 1:
        say(_cross_validated(data, chosen, choices))
    say(f"Model: {output} ({size(os.path.getsize(output))})")
    return 0


def _say_fold(cell: study.Cell) -> None:
    doing(f"cross-validation, fold {cell.fold}")


def _cross_validated(data: datasets.Dataset, method: study.Method, choices: dict[str, Any]) -> str:
    """Return the cross-validated error of a method; folds that `compare` has run are not rerun."""
    settings = {name: choices[name] for name in ("folds", "seed", "scale")}
    plan = study.Study(data, [method], **settings, baselines=False)
    kept = choices["store"] if choices["store"] and os.path.exists(choices["store"]) else None
    with study.Store(kept or ":memory:") as store:
        known = store.records(plan.keys())
        if not known:
            jobs = 0 if len(data.y) <= study.FEW_ROWS else choices["n_jobs"]
            with study.Store(":memory:") as fresh:
                study.run(plan, fresh, n_jobs=jobs, on_start=_say_fold)
                known = fresh.records()
    (standing,) = results.leaderboard(known, [method.name])
    told = f"{standing.finished} of {count(choices['folds'], 'fold')}"
    error = percent(standing.values["error"])
    return f"Cross-validated error: {error} ({told}, each predicted by a model of the others)"
