"""
A raw table: numbers, categories, dates, missing values
=======================================================

``TableEncoder`` encodes the columns of a table: months and weekdays of dates as sine and cosine,
categories one-hot; missing values are imputed and marked by an indicator. As the first step of a
pipeline it is fitted on the training rows only, and is saved with the model.
"""

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline

from outcode import OutputCodeClassifierCV
from outcode.datasets import TableEncoder
from outcode.displays import ConfusionDisplay

rng = np.random.RandomState(0)
day = pd.to_datetime("2023-01-01") + pd.to_timedelta(rng.randint(0, 730, 600), unit="D")
warmth = -np.cos(2 * np.pi * (day.day_of_year - 15) / 365) + 0.15 * rng.randn(600)
place = rng.choice(["coast", "mountain", "valley"], 600)
warmth += np.select([place == "mountain", place == "valley"], [-0.8, 0.4], 0.0)
clothes = pd.cut(warmth, [-9, -0.9, 0.1, 0.9, 9], labels=["coat", "sweater", "shirt", "shorts"])
table = pd.DataFrame({"date": day, "place": place, "wind": rng.gamma(2, 5, 600)})
table.loc[::17, "wind"] = np.nan
print(table.head(3))

# %%
X_train, X_test, y_train, y_test = train_test_split(table, np.asarray(clothes, str), random_state=0)
model = make_pipeline(TableEncoder(), OutputCodeClassifierCV(random_state=0)).fit(X_train, y_train)
print("test accuracy", model.score(X_test, y_test))
encoded = model[0].transform(X_test)
ConfusionDisplay.from_estimator(model[-1], encoded, y_test).plot()
