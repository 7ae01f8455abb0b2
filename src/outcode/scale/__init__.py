"""Machines for many rows: sums over blocks of rows, where blocks come from, and what adds them."""

from __future__ import annotations

from outcode.scale.choice import landmark_search
from outcode.scale.sources import BlockError

__all__ = ["BlockError", "landmark_search"]
