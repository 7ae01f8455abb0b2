"""Kernel values against the landmarks: the features of a landmark machine."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from outcode import kernels
from outcode._checks import Array

#: Kernel values computed at a time.
TILE_VALUES = 2**21
#: Share of the mean of K(z, z) added to the diagonal of K(Z, Z): below it float32 is noise.
JITTER = {np.dtype(np.float64): 1e-12, np.dtype(np.float32): 1e-6}


@dataclass(frozen=True)
class Features:
    """phi(x) = [K(x, z_1), ..., K(x, z_m), 1], the 1 only where there is a bias.

    The norm of w = sum_j a_j phi(z_j) is a' R a, with R = K(Z, Z) and a 1 for the bias.
    """

    kernel: kernels.Kernel
    landmarks: kernels.Rows
    origin: Array | None
    dtype: Any
    bias: bool = True

    def __len__(self) -> int:
        return len(self.landmarks) + self.bias

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what is computed when it is asked for."""
        kept = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain = kernels.Rows(self.landmarks.values, self.landmarks.norms)
        return {**kept, "landmarks": plain}

    def tiles(self, X: Any, phi: Array | None = None) -> Iterator[tuple[slice, Array]]:
        """Yield the features of some rows at a time, from ``phi`` where they are known."""
        m = len(self.landmarks)
        if not X.shape[0]:
            return
        cuts = gen_batches(X.shape[0], max(64, min(4096, TILE_VALUES // m)))
        if phi is not None and phi.dtype == self.dtype:
            yield from ((cut, phi[cut]) for cut in cuts)
            return
        for cut in cuts:
            rows = self.kernel.prepare(X[cut], self.origin)
            phi = np.empty((len(rows), len(self)), dtype=self.dtype)
            self.kernel.fill(rows, self.landmarks, phi[:, :m])
            phi[:, m:] = 1
            yield cut, phi

    @cached_property
    def regulariser(self) -> Array:
        """R in float64, its diagonal raised by a hair so that it can be factorised."""
        m = len(self.landmarks)
        R = np.zeros((len(self), len(self)))
        R[:m, :m] = self.kernel.block(self.landmarks, self.landmarks)
        R[:m, :m] = (R[:m, :m] + R[:m, :m].T) / 2
        np.fill_diagonal(R[:m, :m], self.kernel.diagonal(self.landmarks))
        R.flat[:: len(R) + 1] += JITTER[np.dtype(self.dtype)] * max(R.diagonal()[:m].mean(), 1e-300)
        if self.bias:
            R[m, m] = 1.0
        return R

    def whole(self, X: Any) -> Array:
        """Return the features of all rows given."""
        tiles = [phi for _, phi in self.tiles(X)]
        return np.concatenate(tiles) if tiles else np.empty((0, len(self)), dtype=self.dtype)

    def margins(self, X: Any, coef: Array) -> Array:
        """Return phi(x) . a of every row and column."""
        out = np.empty((X.shape[0], coef.shape[1]))
        weights = coef.astype(self.dtype, copy=False)
        for cut, phi in self.tiles(X):
            out[cut] = phi @ weights
        return out
