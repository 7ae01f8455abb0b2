"""The search of OutputCodeClassifierCV: what is tried, in which order, and when it stops."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from outcode import kernels
from outcode._checks import Array, lookup, positive
from outcode.folds import content_folds
from outcode.gram import given
from outcode.machines import SVM, CrammerSinger, LeastSquares, Nystrom
from outcode.parallel import thread_map
from outcode.progress import progress
from outcode.selection.costs import LEAST_SQUARES_ROWS, Costs
from outcode.selection.landscape import RIDGES, Landscape, Trial, hopeless, preferred, sample

#: Beyond MAP_SPLIT distinct rows the map is made on MAP_ROWS of them; its best settings are then
#: tried on all rows, at most FULL_ROWS.
MAP_SPLIT, MAP_ROWS, FULL_ROWS = 400, 300, 3000
#: Codes of more columns are tried at the best width of the first code only, or not at all.
MANY_COLUMNS, MOST_COLUMNS = 30, 1000
#: The width tried first for every kernel, and those beside it: powers of 4.
MIDDLE, BESIDE = -1.0, (-2.0, 0.0)
#: How many of the map's best settings, of different kernels and codes, are tried on all rows.
NEAR = 3
#: Folds of the held-out margins of machines that iterate, and the C tried where they are alone.
FOLDS, TENS = 5, 10.0 ** np.array([0.0, -1.0, 1.0])
#: Their largest C: beyond it they take long and change little. Steps of SPOC per row in a trial.
LARGEST_C, STEPS = {"svm": 1e4, "spoc": 1e2}, 100
#: Ridge values tried around the best, and of a mixture of kernels.
AROUND, MIXED = 10.0 ** np.array([-0.5, 0.5]), 10.0 ** np.array([-0.4])
#: Trials that are still to come when it is decided how many rows there is time for.
TO_COME = 8
MACHINES: dict[str, Any] = {"ls": LeastSquares, "svm": SVM, "spoc": CrammerSinger}


@dataclass(frozen=True)
class Final:
    """What is trained on all rows: the best trial, or its least squares on landmarks."""

    trial: Trial
    n_landmarks: int | None = None

    def machine(self, scale: Array | None) -> Any:
        """Return the machine; ``scale`` are the factors of the features, if there are any."""
        best = self.trial
        gamma = _gamma(best, scale)
        setting: dict[str, Any] = {"kernel": best.kernel, "gamma": gamma}
        if self.n_landmarks is not None:
            setting |= {"n_landmarks": self.n_landmarks, "loss": "least_squares"}
            return Nystrom(C=best.C, **setting)
        return _machine(best.machine, best.C, **setting)


def _gamma(best: Trial, scale: Array | None) -> Any:
    """Return gamma, one for each feature where they have factors."""
    if scale is None:
        return "scale" if best.gamma is None else best.gamma
    return (best.gamma or 1.0) * scale ** (1.0 / kernels.named(best.kernel).stretch)


class Search:
    """One search over the settings of an OutputCodeClassifierCV."""

    def __init__(self, owner: Any, land: Landscape, rng: Any, started: float) -> None:
        self.owner, self.whole, self.rng = owner, land, rng
        self.scoring = owner.scoring
        self.kernels = listed(owner.kernels)
        self.machines = listed(owner.machines)
        for machine in self.machines:
            lookup(MACHINES, machine, "machine")
        limit = owner.time_limit
        self.deadline = np.inf if limit is None else started + positive(limit, "time_limit")
        self.tried: list[Trial] = []
        self.powers: dict[Any, float] = {}
        if "precomputed" in self.kernels and len(self.kernels) > 1:
            raise ValueError(
                "A precomputed kernel matrix is the only kernel: kernels='precomputed'."
            )

    def run(self) -> Trial:
        """Return the best trial."""
        small = self._sampled(MAP_ROWS, "map") if len(self.whole) > MAP_SPLIT else self.whole
        with progress("stages", 4, self.owner.verbose) as report:
            self._map(small)
            report.advance()
            size = self._rows_in_time(small)
            large = self._sampled(size, "full") if size < len(self.whole) else self.whole
            trials = self._near(small, small if size == len(small) else large)
            report.advance()
            trials = self._mixed(large, trials)
            report.advance()
            trials = self._iterated(small, large, trials)
            report.advance()
        return self._decoded(large, preferred(trials, self.scoring))

    def final(self, best: Trial) -> Final:
        """Return what to train on all rows, in the time that is left."""
        n = len(self.whole)
        if best.machine != "ls" or self.owner._pairwise or not _shifts(best.kernel):
            return Final(best)
        costs, left = self._costs, self.deadline - time.monotonic()
        if n <= LEAST_SQUARES_ROWS and costs.trial(n) <= left:
            return Final(best)
        landmarks = costs.most_landmarks(n, left)
        return Final(best, landmarks) if landmarks < n else Final(best)

    @property
    def _maps_only(self) -> bool:
        """Whether least squares only maps: not wanted, or too many rows to train it."""
        n, unlimited = len(self.whole), np.isinf(self.deadline)
        many = n > LEAST_SQUARES_ROWS and unlimited and "svm" in self.machines
        return "ls" not in self.machines or many

    # --- time ---

    @property
    def _late(self) -> bool:
        return time.monotonic() > self.deadline

    @property
    def _costs(self) -> Costs:
        return Costs.of(self.tried, next(iter(self.whole.codes.values())).shape[1])

    def _affords(self, land: Landscape, trials: float = 1.0) -> bool:
        """Whether so many trials on these rows, and the final training, will end in time."""
        if np.isinf(self.deadline):
            return True
        costs = self._costs
        needed = trials * costs.trial(len(land)) + costs.training(len(self.whole))
        return bool(time.monotonic() + needed < self.deadline)

    def _rows_in_time(self, small: Landscape) -> int:
        """Return how many rows the best settings are tried on, in the time that is left."""
        most = max(min(len(self.whole), FULL_ROWS), len(small))
        if np.isinf(self.deadline):
            return most
        costs = self._costs
        left = self.deadline - time.monotonic() - costs.training(len(self.whole))
        return costs.rows(len(small), most, TO_COME, left)

    def _sampled(self, size: int, stage: str) -> Landscape:
        rows = sample(self.whole.labels, size, self.rng)
        return self.whole.part(rows, stage, self.owner._pairwise)

    def _add(self, found: Iterable[Trial]) -> list[Trial]:
        new = list(found)
        self.tried.extend(new)
        return new

    # --- the map ---

    def _map(self, land: Landscape) -> None:
        """Try every kernel at three widths, with features weighted and plain; go on at the ends.

        Widths are powers of 4 around 1 / the median distance. Ridge values are bracketed at the
        middle one; the best ridge value grows with gamma, so that three values do beside it. Other
        widths are tried with the best code of the middle one, the other codes at the best width.
        """
        names = list(land.codes)
        often = [n for n in names if n == names[0] or land.codes[n].shape[1] <= MANY_COLUMNS]
        self._each(self.kernels, lambda kernel: self._middle(land, kernel, often))
        if not self.tried:
            raise ValueError(
                "No kernel matrix is positive definite, whatever the ridge value: use kernels that "
                "are, or a precomputed matrix with a larger diagonal."
            )
        moving = [k for k in self.kernels if _has_width(k)]
        self._each(moving, lambda kernel: self._steps(land, kernel, BESIDE))
        land = self._as_they_are(land, moving)
        alive = [k for k in self.kernels if not self._hopeless(land, kernel=k)]
        ends = [k for k in moving if k in alive and self._best(k) != MIDDLE]
        self._each(ends, lambda kernel: self._beyond(land, kernel))
        self._each(alive, lambda kernel: self._other_codes(land, kernel, names))

    def _each(self, names: Sequence[Any], work: Callable[[Any], list[Trial]]) -> None:
        """Add the trials of every kernel, made by threads, unless it is too late."""
        if not (self.tried and self._late):
            for found in thread_map(work, names, self.owner.n_jobs):
                self._add(found)

    def _middle(self, land: Landscape, kernel: Any, names: Sequence[Any]) -> list[Trial]:
        """Return trials at the middle width: ridge values far apart, then those beside the best.

        Further codes are tried with the best ridge value of the first and the two beside it.
        """
        gamma = self._gamma(land, kernel, MIDDLE)
        gram = land.gram(kernel, gamma)
        found = land.trials(kernel, gamma, names[0], RIDGES[1::2], gram)
        if not found:
            return land.trials(kernel, gamma, names[0], RIDGES[-1:], gram)
        beside = self._beside(found, 0)
        new = beside[~np.isin(beside, [trial.ridge for trial in found])]
        found += land.trials(kernel, gamma, names[0], new, gram)
        beside = self._beside(found, 0)
        for code in names[1:]:
            found += land.trials(kernel, gamma, code, beside, gram)
        return found

    def _gamma(self, land: Landscape, kernel: Any, power: float) -> float | None:
        """Return gamma of a width: a power of 4, divided by the median distance."""
        gamma = 4.0**power / land.median(kernel) if _has_width(kernel) else None
        self.powers[id(kernel), gamma] = power
        return gamma

    def _steps(self, land: Landscape, kernel: Any, powers: Sequence[float]) -> list[Trial]:
        """Return trials at other widths with the best code of a kernel yet."""
        found: list[Trial] = []
        code = preferred(self._of(kernel), self.scoring).code
        own = [trial for trial in self._of(kernel) if trial.code is code]
        for power in powers:
            if not self._late:
                gamma = self._gamma(land, kernel, power)
                ridges = self._beside(own, int(np.sign(power - MIDDLE)))
                found += land.trials(kernel, gamma, code, ridges)
        return found

    def _beside(self, trials: Sequence[Trial], step: int) -> Array:
        """Return the best ridge value and two more: the next smaller, larger, or one of each."""
        best = preferred(trials, self.scoring).ridge
        place = int(np.abs(np.log(RIDGES / best)).argmin()) + step - 1
        first = min(max(place, 0), len(RIDGES) - 3)
        return np.asarray(RIDGES[first : first + 3])

    def _other_codes(self, land: Landscape, kernel: Any, names: Sequence[Any]) -> list[Trial]:
        """Return trials at the best width of a kernel with the codes not tried there."""
        best = preferred(self._of(kernel), self.scoring)
        there = [t.code for t in self._of(kernel) if t.gamma == best.gamma]
        left = [n for n in names if n not in there and not self._hopeless(land, code=n)]
        gram = land.gram(kernel, best.gamma) if left else None
        ridges = self._beside([best], 0)
        return [t for n in left for t in land.trials(kernel, best.gamma, n, ridges, gram)]

    def _as_they_are(self, land: Landscape, moving: Sequence[Any]) -> Landscape:
        """Try plain features where weighted ones are best; if they win, for every kernel.

        Return the rows as they are best seen.
        """
        best = preferred(self.tried, self.scoring)
        if best.features == "plain" or self._late:
            return land
        self._add(self._plainly(land, best.kernel, [best.code]))
        if preferred(self.tried, self.scoring).features == "weighted":
            return land
        rest = [kernel for kernel in moving if kernel is not best.kernel]
        self._each(rest, lambda kernel: self._plainly(land, kernel, [best.code]))
        return land.plain

    def _plainly(self, land: Landscape, kernel: Any, codes: Sequence[Any]) -> list[Trial]:
        """Return trials with plain features at the best width and ridge value of a kernel."""
        best = preferred(self._of(kernel), self.scoring)
        power = self._best(kernel)
        gamma = self._gamma(land.plain, kernel, power)
        factors = np.array([AROUND[0] ** 2, 1.0, AROUND[1] ** 2])
        return [
            trial
            for code in codes
            for trial in land.plain.trials(kernel, gamma, code, best.ridge * factors)
        ]

    def _of(self, kernel: Any) -> list[Trial]:
        return [trial for trial in self.tried if trial.kernel is kernel]

    def _hopeless(self, land: Landscape, **only: Any) -> bool:
        """Whether the best trial of a kernel or of a code cannot win any more."""
        best = preferred(self.tried, self.scoring)
        own = [t for t in self.tried if all(getattr(t, k) is v for k, v in only.items())]
        return bool(own) and hopeless(preferred(own, "neg_log_loss"), best, land.scored)

    def _best(self, kernel: Any) -> float:
        """Return the power of the best width of a kernel."""
        return self.powers[id(kernel), preferred(self._of(kernel), self.scoring).gamma]

    def _beyond(self, land: Landscape, kernel: Any) -> list[Trial]:
        """Return trials one step beyond the best width of a kernel, the first or the last."""
        best = self._best(kernel)
        return self._steps(land, kernel, [best + float(np.sign(best - MIDDLE))])

    # --- near the optimum, on all rows ---

    def _near(self, small: Landscape, large: Landscape) -> list[Trial]:
        """Return the trials to choose from: the best of the map on all rows, and around it."""
        if small is large or len(small) == len(large):
            trials = list(self.tried)
            if self._affords(small):
                trials += self._again(small, preferred(trials, self.scoring), AROUND)
            return trials
        leaders, trials = self._leaders(self.tried), []
        for trial in leaders[:NEAR]:
            if self._affords(large) and not hopeless(trial, leaders[0], small.scored, 1.0):
                trials += self._again(large, trial, np.ones(1))
        if not trials:
            return list(self.tried)
        if self._affords(large):
            trials += self._again(large, preferred(trials, self.scoring), AROUND[:1])
        return trials + self._narrower(large, preferred(trials, self.scoring))

    def _narrower(self, land: Landscape, best: Trial) -> list[Trial]:
        """Return trials with narrower kernels while they win: more rows tell finer detail."""
        found: list[Trial] = []
        while best.gamma is not None and len(found) < 3 and self._affords(land):
            wider = replace(best, gamma=4.0 * best.gamma)
            new = self._again(land, wider, np.ones(1))
            found += new
            if not new or new[0].loss >= best.loss:
                break
            best = new[0]
        return found

    def _again(self, land: Landscape, trial: Trial, factors: Array) -> list[Trial]:
        """Try the setting of a trial on other rows, its ridge value times ``factors``."""
        land, ridges = land.like(trial), trial.ridge * factors
        return self._add(land.trials(trial.kernel, trial.gamma, trial.code, ridges))

    def _leaders(self, trials: Sequence[Trial]) -> list[Trial]:
        """Return the best trial of every kernel and code, the best first."""
        groups: dict[Any, list[Trial]] = {}
        for trial in trials:
            groups.setdefault((id(trial.kernel), str(trial.code)), []).append(trial)
        # kernels that agree on these rows (all features 0 or 1) count once
        unlike = {preferred(group, self.scoring).loss: group for group in groups.values()}
        left = [preferred(group, self.scoring) for group in unlike.values()]
        order = []
        while left:
            order.append(preferred(left, self.scoring))
            left = [trial for trial in left if trial is not order[-1]]
        return order

    def _mixed(self, land: Landscape, trials: list[Trial]) -> list[Trial]:
        """Try a weighted mean of the kernels, each at its best width."""
        best = preferred(trials, self.scoring)
        names = [kernel for kernel in self.kernels if _has_width(kernel)]
        if len(names) < 2 or best.gamma is None or not self._affords(land):
            return trials
        alike = [t for t in self.tried if t.code == best.code and t.features == best.features]
        own = [[t for t in alike if t.kernel is kernel] for kernel in names]
        members = [preferred(group, self.scoring) for group in own if group]
        if len(members) < 2:
            return trials
        weight = np.array([member.ridge**-0.5 for member in members])
        share = (weight / weight.sum()).tolist()
        terms = [(w, t.kernel, float(t.gamma or 1.0)) for w, t in zip(share, members, strict=True)]
        mixture = str(kernels.Mixture(terms=tuple(terms)))
        ridge = np.exp(np.mean([np.log(member.ridge) for member in members]))
        mixed = replace(best, kernel=mixture, gamma=None, ridge=float(ridge))
        return trials + self._again(land, mixed, MIXED)

    # --- machines that iterate ---

    def _iterated(self, small: Landscape, large: Landscape, trials: list[Trial]) -> list[Trial]:
        """Try support vector machines where least squares is best, with the same C."""
        if self._maps_only:
            return self._alone(small, large, preferred(trials, self.scoring))
        for machine in ("svm", "spoc"):
            best = preferred(trials, self.scoring)
            if machine in self.machines and self._worth_trying(machine, small, large, best):
                trials = trials + self._add([self._folded(large, machine, best, best.C)])
        return trials

    def _alone(self, small: Landscape, large: Landscape, best: Trial) -> list[Trial]:
        """Return the trials to choose from where least squares only maps.

        SPOC is tried where it is the only other machine.
        """
        machine = "svm" if "svm" in self.machines or best.code != "ova" else "spoc"
        tens = (best.C * TENS).tolist()
        found = self._add(self._folded(small, machine, best, C) for C in tens)
        if small is not large and self._affords(large, FOLDS):
            top = preferred(found, self.scoring)
            found = self._add([self._folded(large, top.machine, best, top.C)])
        return found

    def _worth_trying(self, machine: str, small: Landscape, large: Landscape, best: Trial) -> bool:
        """Whether a machine may win on all rows: it does not lose on the rows of the map.

        SPOC learns the classes of one-vs-all, and is left out where support vector machines lose.
        """
        if len(self.whole) > LEAST_SQUARES_ROWS or not self._affords(large, FOLDS):
            return False
        if machine == "spoc" and not self._spoc_may_win(large, best):
            return False
        if len(small) == len(large):
            return True
        there = self._add([self._folded(small, machine, best, best.C)])[0]
        same = [t for t in self.tried if t.n_rows == len(small) and t.machine == "ls"]
        return there.loss <= preferred(same, self.scoring).loss

    def _spoc_may_win(self, land: Landscape, best: Trial) -> bool:
        if best.code != "ova" or land.codes["ova"].shape[1] < 3:
            return False
        rivals = [t for t in self.tried if t.machine == "svm"]
        if not rivals:
            return True
        same = [t for t in self.tried if t.machine == "ls" and t.n_rows == rivals[-1].n_rows]
        return rivals[-1].loss <= preferred(same, self.scoring).loss

    def _folded(self, land: Landscape, machine: str, best: Trial, C: float) -> Trial:
        started = time.perf_counter()
        land, matrix = land.like(best), land.codes[best.code]
        trial = replace(best, machine=machine, C=min(C, LARGEST_C[machine]))
        margins = self._fold_margins(land, trial)
        setting = {n: getattr(trial, n) for n in ("machine", "kernel", "gamma", "code", "C")}
        found = land.judged(margins[None], matrix, seconds=0.0, **setting)[0]
        return replace(found, seconds=time.perf_counter() - started)

    def _fold_margins(self, land: Landscape, trial: Trial) -> Array:
        """Return the margins of every row under machines trained without its fold.

        A column of which the sample has one sign only has that sign everywhere.
        """
        targets = land.codes[trial.code][land.labels]
        seen = targets[land.weight > 0]
        both = (seen > 0).any(axis=0) & (seen < 0).any(axis=0)
        margins = np.tile(np.sign(seen.sum(axis=0)).astype(np.float64), (len(land), 1))
        margins[:, both] = self._trained_margins(land, trial, targets[:, both])
        return margins

    def _trained_margins(self, land: Landscape, trial: Trial, targets: Array) -> Array:
        jobs, store = self.owner.n_jobs, given(land.gram(trial.kernel, trial.gamma))
        fold = content_folds(land.X, land.labels, FOLDS, land.weight, pairwise=self.owner._pairwise)
        machine = _machine(trial.machine, trial.C, kernel="precomputed", tol=1e-3)
        if trial.machine == "spoc":
            machine.set_params(tol=1e-2, max_iter=STEPS * len(land))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it is a trial
            machine.fit_gram(store, targets, land.weight, n_jobs=jobs)
            if fold.max() < 0:  # every class has a single row
                return np.asarray(machine.training_margins_)
            return np.asarray(
                machine.held_out_margins(store, targets, fold, land.weight, n_jobs=jobs)
            )

    def _decoded(self, land: Landscape, best: Trial) -> Trial:
        """Return the best trial under the best of the decoders, on the same held-out margins."""
        names = listed(self.owner.decoders)
        if names == [best.decoder]:
            return best
        land = land.like(best)
        if best.machine != "ls":
            margins = self._fold_margins(land, best)
        else:
            gram = land.gram(best.kernel, best.gamma)
            margins = land.margins(gram, best.code, np.array([1.0 / best.C]))[0]
        return preferred(self._add(land.decoded(best, margins, names)), self.scoring)


def _machine(name: str, C: float, **setting: Any) -> Any:
    """Return a machine by its name; SPOC's beta is 1 / C."""
    if name == "spoc":
        return CrammerSinger(beta=1.0 / C, bias="kernel", **setting)
    return MACHINES[name](C=C, **setting)


def _has_width(kernel: Any) -> bool:
    return kernels.named(kernel).of_distance


def _shifts(kernel: Any) -> bool:
    """Whether landmarks can stand for the rows: a kernel of a distance, or a sum of them."""
    return kernels.named(kernel).of_distance or kernels.named(kernel).mixes


def listed(given: Any) -> list[Any]:
    """Return one or several names as a list."""
    return [given] if isinstance(given, str) or not isinstance(given, (list, tuple)) else [*given]
