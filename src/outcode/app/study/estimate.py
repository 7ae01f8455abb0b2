"""What a study would take: cells, time and memory, from fits on small samples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from outcode._checks import Array
from outcode.app.study.cell import run_cell
from outcode.app.study.plan import Cell, Rows, Study
from outcode.parallel import n_threads
from outcode.words import duration, size

#: Rows of the larger of the two samples a method is timed on; the smaller has half.
SAMPLE = 400
#: Training time is taken to grow with a power of the rows between these.
POWERS = 1.0, 3.0
#: Gram-sized matrices a search holds at once: distances, kernel values, scratch.
MATRICES = 3
#: Memory of a worker before any data: the interpreter and its libraries.
EMPTY_WORKER = 300 * 2**20


@dataclass(frozen=True)
class MethodEstimate:
    """The estimate of one method on one data set.

    Parameters
    ----------
    dataset : str
        Name of the data set.
    method : str
        Name of the method.
    cells : int
        Number of cells.
    seconds : float
        Time of one cell.
    memory : int
        Memory of its worker process, in bytes.
    reason : str, default=None
        Why it will give no result, as far as the sample shows. None if it will.
    """

    dataset: str
    method: str
    cells: int
    seconds: float
    memory: int
    reason: str | None = None


@dataclass(frozen=True)
class Estimate:
    """The estimated cells, time and memory of a study.

    Parameters
    ----------
    cells : int
        Number of cells.
    seconds : float
        Time of the whole run.
    memory : int
        Largest memory of all worker processes together, in bytes.
    workers : int
        Number of worker processes.
    methods : tuple of MethodEstimate
        The estimate of each method on each data set.
    """

    cells: int
    seconds: float
    memory: int
    workers: int
    methods: tuple[MethodEstimate, ...]

    def __str__(self) -> str:
        lines = [
            f"{self.cells} runs, {self.workers} at a time: about {duration(self.seconds)} and "
            f"{size(self.memory)}. An estimate from fits on at most {SAMPLE} rows; it can be "
            f"wrong by a factor of two or three.",
            f"{'data set':20} {'method':20} {'runs':>5} {'one run':>10} {'memory':>10}",
        ]
        lines += [
            f"{m.dataset[:20]:20} {m.method[:20]:20} {m.cells:5} {duration(m.seconds):>10} "
            f"{size(m.memory):>10}" + (f"  {m.reason}" if m.reason else "")
            for m in self.methods
        ]
        return "\n".join(lines)


def dry_run(study: Study, *, n_jobs: int | None = None) -> Estimate:
    """Estimate the cells, time and memory of a study, without running it.

    Each method is fitted on two small samples of each data set; its time is taken to grow with the
    power of the number of rows that these two show, between 1 and 3. Memory is a model: the
    interpreter, the encoded rows, and three matrices of training rows x training rows.

    Parameters
    ----------
    study : Study
        The study to estimate.
    n_jobs : int, default=None
        Number of worker processes, as in :func:`run`.

    Returns
    -------
    Estimate
        Time and memory, in total and for each method.

    Examples
    --------
    >>> import numpy as np
    >>> from outcode.app.study import from_arrays
    >>> data = from_arrays("toy", np.arange(40.0)[:, None], np.repeat(["a", "b"], 20))
    >>> dry_run(Study(data, "ova+hinge", folds=2, baselines=False), n_jobs=1).cells
    2
    """
    found = []
    for data in study.datasets:
        mine = [cell for cell in study.cells() if cell.dataset == data.name]
        firsts = {cell.method: cell for cell in reversed(mine)}
        samples = [_sample(study.rows[data.name], n, study.seed) for n in (SAMPLE // 2, SAMPLE)]
        for method in study.methods:
            cells = sum(cell.method == method.name for cell in mine)
            found.append(_estimate(firsts[method.name], cells, study.rows[data.name], samples))
    workers = max(1, min(n_threads(n_jobs) if n_jobs != 0 else 1, len(study.cells())))
    seconds = sum(m.cells * m.seconds for m in found) / workers
    memory = sum(sorted((m.memory for m in found), reverse=True)[:workers])
    return Estimate(len(study.cells()), seconds, memory, workers, tuple(found))


def _estimate(cell: Cell, cells: int, rows: Rows, samples: Sequence[Array]) -> MethodEstimate:
    run_cell(_on(cell, samples[0]), rows)  # the first fit also compiles and loads
    small, large = (run_cell(_on(cell, sample), rows) for sample in samples)
    n = len(cell.train)
    seconds = _grown(small["seconds"], large["seconds"], [len(s) for s in samples], n)
    n_features = len(rows.table.names)
    item = 8 if n <= 5000 else 4  # the Gram matrix is float32 beyond 5,000 rows
    memory = EMPTY_WORKER + 8 * len(rows.labels) * n_features + MATRICES * item * n**2
    return MethodEstimate(cell.dataset, cell.method, cells, seconds, memory, large["reason"])


def _on(cell: Cell, sample: Array) -> Cell:
    """Return the cell with a sample's rows for training and as many for testing."""
    return replace(cell, train=sample, test=sample)


def _grown(small: float, large: float, sizes: Sequence[int], n: int) -> float:
    """Return seconds for n rows by the power law through two samples."""
    if n <= sizes[1] or sizes[0] == sizes[1]:
        return large
    power = np.log(large / small) / np.log(sizes[1] / sizes[0])
    return float(large * (n / sizes[1]) ** np.clip(power, *POWERS))


def _sample(rows: Rows, n: int, seed: int) -> Array:
    """Return about ``n`` rows, at least four of each class as far as it has them."""
    rng, taken = np.random.RandomState(seed), []
    for q in range(len(rows.classes)):
        mine = rng.permutation(np.flatnonzero(rows.labels == q))
        taken.append(mine[: max(4, round(n * len(mine) / len(rows.labels)))])
    return np.sort(np.concatenate(taken))
