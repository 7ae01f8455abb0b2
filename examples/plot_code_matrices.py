"""
Code matrices
=============

A code matrix has one row per class and one column per binary problem. :func:`outcode.diagnose`
reports how far apart the rows are, and how many wrong columns decoding corrects with certainty.
"""

import matplotlib.pyplot as plt

from outcode import codes, diagnose

names = ("ova", "ovo", "exhaustive", "sparse", "bch", "ordinal")
fig, axes = plt.subplots(2, 3, figsize=(9, 5))
for ax, name in zip(axes.flat, names, strict=True):
    matrix = codes.code_matrix(name, 6, random_state=0)
    ax.imshow(matrix, cmap="RdBu_r", vmin=-1.5, vmax=1.5, aspect="auto", interpolation="nearest")
    ax.set(title=f"{name}, {matrix.shape[1]} columns", ylabel="class", xticks=[])
fig.tight_layout()

# %%
# The diagnosis of the BCH code:

print(diagnose(codes.code_matrix("bch", 6, random_state=0)))
