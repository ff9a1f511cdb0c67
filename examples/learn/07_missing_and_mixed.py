"""
Missing values and mixed tables
===============================

Real tables have gaps, text, counts and yes/no columns. You need not drop rows, fill holes or make
dummy variables first: all of these throw something away or make something up. This lesson does it
with a table as it is. :doc:`/tables` has every detail.
"""

# %%
# Gaps among measurements
# -----------------------
#
# NaN is a gap. A row is clustered by the values that are there, and values for the gaps come with
# intervals. We take a tenth of the cells out of the iris table, so that we can see how good that
# is.

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from cavity import StudentTMixture, TableMixture

iris = load_iris(as_frame=True)
whole = iris.data
rng = np.random.default_rng(0)
out = rng.random(whole.shape) < 0.1
gappy = whole.mask(out)
print(f"{out.any(axis=1).sum()} of {len(whole)} rows have a gap.")

m = StudentTMixture(n_clusters=3, random_state=0).fit(gappy)
filled = m.impute(gappy, level=0.9)
print(m.diagnostics().sentences[0])

# %%
# Dropping rows with gaps would have left

left = ~out.any(axis=1)
print(
    f"{left.sum()} rows to cluster; here all {len(whole)} have a label, with ARI "
    f"{adjusted_rand_score(iris.target, m.labels_):.2f}."
)

# %%
# What was taken out, and what came back. The bars are 90% intervals, and about nine in ten hold
# the true value:

import matplotlib.pyplot as plt

true = whole.to_numpy()[out]
mean, lower, upper = (np.asarray(part)[out] for part in (filled.mean, filled.lower, filled.upper))
column_means = np.broadcast_to(gappy.mean().to_numpy(), whole.shape)[out]
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.errorbar(true, mean, [mean - lower, upper - mean], fmt="o", ms=3, lw=0.6, alpha=0.7)
ax.plot([0, 8], [0, 8], color="0.5", lw=1)
ax.set(xlabel="what was there", ylabel="what was put there", title="Cells that we had taken out")
print(f"inside their 90% interval: {np.mean((lower <= true) & (true <= upper)):.0%}")
print(
    f"mean absolute error {np.abs(mean - true).mean():.2f} cm; column means would have "
    f"{np.abs(column_means - true).mean():.2f} cm"
)

# %%
# Text, counts and numbers together
# ---------------------------------
#
# A made-up table of shop customers: two kinds of them, of which nobody knows who is who. Text
# columns are categories by themselves; of counts you say so.

n = 240
kind = rng.random(n) < 0.35
customers = pd.DataFrame(
    {
        "age": rng.normal(np.where(kind, 31, 47), 8).round(),
        "spent": rng.lognormal(np.where(kind, 3.1, 3.9), 0.5).round(2),
        "visits": rng.poisson(np.where(kind, 9, 3)),
        "channel": np.where(rng.random(n) < np.where(kind, 0.8, 0.25), "phone", "shop"),
        "payment": rng.choice(["card", "cash", "invoice"], n),
    }
)
customers = customers.mask(rng.random(customers.shape) < 0.1)

t = TableMixture(n_clusters=4, feature_types={"visits": "count"}, random_state=0).fit(customers)
print(t.diagnostics().sentences[0])
print(t.columns_["kind"].to_string())

# %%
# Every cluster in the words of each column, and which columns set it apart:

for k, words in enumerate(t.distinguishing_features()):
    print(f"cluster {k}: {words}")
print(f"ARI with the kinds we made: {adjusted_rand_score(kind, t.labels_):.2f}")

# %%
# ``payment`` was drawn at random: it should set nothing apart, and no column has to be weighted
# by hand for that. Now the usual recipe: fill the gaps by the most frequent value or the mean,
# make dummy variables, scale, k-means.

from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

usual = customers.copy()
for name in usual:
    number = pd.api.types.is_numeric_dtype(usual[name])
    usual[name] = usual[name].fillna(usual[name].mean() if number else usual[name].mode()[0])
dummies = pd.get_dummies(usual, dtype=float)
labels = KMeans(2, n_init=10, random_state=0).fit_predict(StandardScaler().fit_transform(dummies))
print(
    f"the usual recipe, told that there are two kinds: ARI {adjusted_rand_score(kind, labels):.2f}"
)

# %%
# Scaled dummy variables of a column with three meaningless categories weigh as much as three
# measurements.
#
# Gaps are filled with what the rest of the row says, categories with a probability:

new = pd.DataFrame(
    {
        "age": [29.0, 60.0],
        "spent": [np.nan, np.nan],
        "visits": [11, np.nan],
        "channel": [None, None],
        "payment": ["card", "cash"],
    }
)
print(t.category_probabilities(new, "channel").round(2).to_string())
print(t.impute(new).mean[["spent", "visits"]].round(1).to_string())

# %%
# One condition: values must be missing *at random* given what is there. If people hide their
# income *because* it is high, no model of the visible columns knows that. Then missingness is
# information: add a yes/no column for it.
