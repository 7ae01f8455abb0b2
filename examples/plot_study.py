"""
Compare methods with a significance test
========================================

A study runs methods on shared folds of several data sets. The critical-difference diagram shows
average ranks; a bar joins methods whose difference is not significant.
"""

import tempfile
from pathlib import Path

from sklearn.datasets import load_iris, load_wine, make_blobs, make_classification

from outcode import study
from outcode.displays import CriticalDifferenceDisplay

sets = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "blobs": make_blobs(150, centers=5, cluster_std=3.0, random_state=0),
    "clusters": make_classification(150, 10, n_informative=6, n_classes=4, random_state=0),
}
data = [study.from_arrays(name, X, y) for name, (X, y) in sets.items()]
plan = study.Study(data, ["ova+hinge", "ovo+likelihood", "spoc"], folds=3, baselines=False)
with study.Store(Path(tempfile.mkdtemp()) / "study.db") as store:
    study.run(plan, store, n_jobs=0)
    records = store.records()

display = CriticalDifferenceDisplay.from_records(records)
print(display.frame())
display.plot()
