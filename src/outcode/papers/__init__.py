"""The papers' own experiments: ours beside theirs, each run as ``python -m outcode.papers.KEY``."""
