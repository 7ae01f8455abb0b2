"""Data sets: files, named sets, and the encoder that makes numbers of a table.

- :func:`read` a file of rows with classes, :func:`read_unlabelled` one of rows to predict, within
  :class:`Limits`; :func:`load` a set by name.
- :class:`TableEncoder`: a table to numbers, fitted on the training rows.

A :class:`Dataset` is a :class:`Table` with the class of each row, and what a user should know about
it (:class:`Finding`). A fault of the data is a :class:`DataError`.
"""

from outcode.datasets.encoded import EncodedColumn
from outcode.datasets.encoding import TableEncoder
from outcode.datasets.frames import as_table
from outcode.datasets.named import load, names
from outcode.datasets.reading import read, read_unlabelled
from outcode.datasets.sources import Limits
from outcode.datasets.table import DataError, Dataset, Finding, Table
from outcode.datasets.targets import as_labels, sampled

__all__ = [
    "DataError",
    "Dataset",
    "EncodedColumn",
    "Finding",
    "Limits",
    "Table",
    "TableEncoder",
    "as_labels",
    "as_table",
    "load",
    "names",
    "read",
    "read_unlabelled",
    "sampled",
]
