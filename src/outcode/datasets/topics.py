"""Free text and names as a few numbers: hashed n-grams, TF-IDF, truncated SVD.

The n-grams of a text are counted in ``BUCKETS`` places by a hash, weighted by

    tf-idf(t, d) = (1 + ln count(t, d)) * (1 + ln((1 + n) / (1 + df(t)))),

each row divided by its length, and projected on the leading right singular vectors of the training
rows (latent semantic analysis, Deerwester et al. 1990). Nothing looks at the classes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse as sp

from outcode._checks import Array
from outcode.datasets.cells import objects
from outcode.parallel import single_blas

BUCKETS = 2**13
LONGEST = 10_000  # characters of a text that are looked at


def counted(cells: Array) -> Any:
    """Return the n-gram counts of each cell, CSR (n_rows, BUCKETS); a missing cell has none.

    Counted are words, pairs of words, and pieces of 3 and 4 letters: these find a word in its
    other forms, and in spite of a slip.
    """
    from sklearn.feature_extraction.text import HashingVectorizer

    words = objects(cell or "" for cell in cells.tolist())
    values, places = np.unique(words, return_inverse=True)
    texts = [value[:LONGEST] for value in values.tolist()]
    options = {"n_features": BUCKETS, "norm": None, "alternate_sign": False}
    whole = HashingVectorizer(ngram_range=(1, 2), token_pattern=r"(?u)\b\w+\b", **options)
    pieces = HashingVectorizer(analyzer="char_wb", ngram_range=(3, 4), **options)
    return sp.csr_matrix(whole.transform(texts) + pieces.transform(texts))[places]


def weights(counts: Any) -> Array:
    """Return the inverse document frequencies, float32 (BUCKETS,)."""
    from sklearn.feature_extraction.text import TfidfTransformer

    return np.asarray(TfidfTransformer().fit(counts).idf_, dtype=np.float32)


def weighted(counts: Any, idf: Array) -> Any:
    """Return the rows of tf-idf, each of length 1."""
    from sklearn.feature_extraction.text import TfidfTransformer

    transformer = TfidfTransformer(sublinear_tf=True)
    transformer.idf_ = idf.astype(np.float64)
    return transformer.transform(counts)


def projection(rows: Any, n_topics: int, spread: float) -> Array:
    """Return the leading directions, float32 (n_topics or fewer, BUCKETS).

    They are divided by one number, so that the projected training rows have the total variance
    ``spread``: a text counts as much as so many standardised numbers.
    """
    from sklearn.utils.extmath import randomized_svd

    rank = min(n_topics, rows.shape[0] - 1)
    if rank < 1 or rows.nnz == 0:
        return np.empty((0, BUCKETS), dtype=np.float32)
    with single_blas():
        found = randomized_svd(rows, rank, n_iter=4, random_state=0)[2]
    variance = float(np.var(rows @ found.T, axis=0).sum())
    if variance <= 1e-12:
        return np.empty((0, BUCKETS), dtype=np.float32)
    return np.asarray(found * np.sqrt(spread / variance), dtype=np.float32)
