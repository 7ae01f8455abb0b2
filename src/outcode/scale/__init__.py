"""Machines for many rows: sums over blocks of rows, where blocks come from, and what adds them."""
