"""
Missing values and mixed tables
===============================

Real tables have missing values, text, counts and yes/no columns. You need not drop rows (which
loses information) or impute values (which invents it), and you need no dummy variables.
:doc:`/missing-values` and :doc:`/tables` have the details.
"""

# %%
# Missing measurements
# --------------------
#
# NaN is a missing value. Rows are clustered by the values they have, and imputed values have
# intervals. We remove a tenth of the cells of the iris table to see how well this works.

import numpy as np
import pandas as pd
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score

from cavity import StudentTMixture, TableMixture

iris = load_iris(as_frame=True)
whole = iris.data
rng = np.random.default_rng(0)
out = rng.random(whole.shape) < 0.1
incomplete = whole.mask(out)
print(f"{out.any(axis=1).sum()} of {len(whole)} rows are incomplete.")

m = StudentTMixture(n_clusters=3, random_state=0).fit(incomplete)
filled = m.impute(incomplete, level=0.9)
print(m.diagnostics().sentences[0])

# %%
# The warning says that two of the three species overlap (versicolor and virginica), so there are
# two groups with a gap between them, and the data do not settle the number of clusters. We know
# that there are three species and allow no more.
#
# Dropping incomplete rows would leave

left = ~out.any(axis=1)
print(
    f"{left.sum()} rows to cluster; here all {len(whole)} have a label, with ARI "
    f"{adjusted_rand_score(iris.target, m.labels_):.2f}."
)

# %%
# True and imputed values. The bars are 90% intervals, and about nine in ten contain the true
# value:

import matplotlib.pyplot as plt

true = whole.to_numpy()[out]
mean, lower, upper = (np.asarray(part)[out] for part in (filled.mean, filled.lower, filled.upper))
column_means = np.broadcast_to(incomplete.mean().to_numpy(), whole.shape)[out]
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.errorbar(true, mean, [mean - lower, upper - mean], fmt="o", ms=3, lw=0.6, alpha=0.7)
ax.plot([0, 8], [0, 8], color="0.5", lw=1)
ax.set(xlabel="true value", ylabel="imputed value", title="Removed cells")
print(f"inside their 90% interval: {np.mean((lower <= true) & (true <= upper)):.0%}")
print(
    f"mean absolute error {np.abs(mean - true).mean():.2f} cm; column means: "
    f"{np.abs(column_means - true).mean():.2f} cm"
)

# %%
# Text, counts and numbers
# ------------------------
#
# A simulated table of customers with two unknown kinds. Text columns are categories by default;
# counts are declared. Amounts spent are skewed, so the table has their logarithm. With the amounts
# themselves, large ones form a third cluster, ``fit`` warns that the clusters are pieces of one
# group, and the adjusted Rand index with the true kinds falls to 0.54.

n = 240
kind = rng.random(n) < 0.35
customers = pd.DataFrame(
    {
        "age": rng.normal(np.where(kind, 31, 47), 8).round(),
        "log_spent": np.log(rng.lognormal(np.where(kind, 3.1, 3.9), 0.5)).round(2),
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
# The columns that distinguish each cluster:

for k, words in enumerate(t.distinguishing_features()):
    print(f"cluster {k}: {words}")
print(f"ARI with the true kinds: {adjusted_rand_score(kind, t.labels_):.2f}")

# %%
# ``payment`` is random and should not distinguish the clusters; no weighting by hand is needed for
# that. The usual recipe: impute the mean or the most frequent value, make dummy variables, scale,
# run k-means.

from sklearn.cluster import KMeans
from sklearn.preprocessing import StandardScaler

usual = customers.copy()
for name in usual:
    number = pd.api.types.is_numeric_dtype(usual[name])
    usual[name] = usual[name].fillna(usual[name].mean() if number else usual[name].mode()[0])
dummies = pd.get_dummies(usual, dtype=float)
labels = KMeans(2, n_init=10, random_state=0).fit_predict(StandardScaler().fit_transform(dummies))
print(f"the usual recipe, 2 clusters given: ARI {adjusted_rand_score(kind, labels):.2f}")

# %%
# Three scaled dummy variables of a meaningless column have as much weight as three measurements.
#
# Missing values are imputed from the rest of the row, categories with a probability:

new = pd.DataFrame(
    {
        "age": [29.0, 60.0],
        "log_spent": [np.nan, np.nan],
        "visits": [11, np.nan],
        "channel": [None, None],
        "payment": ["card", "cash"],
    }
)
print(t.category_probabilities(new, "channel").round(2).to_string())
imputed = t.impute(new).mean.assign(spent=lambda table: np.exp(table["log_spent"].astype(float)))
print(imputed[["spent", "visits"]].round(1).to_string())

# %%
# Values must be missing *at random* given the observed ones. If people hide their income *because*
# it is high, there is no general remedy. A yes/no column for missingness helps only if missingness
# depends on the value through the cluster.
