"""The version: written here, and read by everything else."""

__version__ = "0.2.0"
