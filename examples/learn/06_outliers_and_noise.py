"""
Outliers and noise
==================

The word outlier has three meanings. *Errors*: rows that belong to no group. *Background*: rows
scattered everywhere, like sky between galaxies. *Heavy tails*: members of a group that are farther
out than a normal distribution allows. This lesson has one example of each.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as EM

from cavity import GaussianMixture, StudentTMixture
from cavity.datasets import add_outliers, make_student_t

# %%
# Errors
# ------
#
# Three groups, and one row in ten is wrong.

clean, truth = make_student_t(240, 3, 2, df=5, separation=9, random_state=5)
X, bad = add_outliers(clean, fraction=0.1, random_state=1)
good = np.flatnonzero(~bad)

fits = {
    "k-means": KMeans(3, n_init=10, random_state=0).fit_predict(X),
    "Gaussian mixture (EM)": EM(3, n_init=10, random_state=0).fit_predict(X),
    "cavity, noise=True": (m := StudentTMixture(6, noise=True, random_state=0).fit(X)).labels_,
}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharex=True, sharey=True)
for ax, (name, labels) in zip(axes, fits.items(), strict=True):
    ax.scatter(*X.T, c=np.where(labels < 0, 7, labels), cmap="tab10", vmin=0, vmax=9, s=9)
    ax.set_title(
        f"{name}\nARI of correct rows {adjusted_rand_score(truth.labels, labels[good]):.2f}",
        fontsize=10,
    )

# %%
# The groups are found without being given their number, and most wrong rows are gray: outside every
# cluster, label -1. ``noise=True`` allows for such rows. The default, ``noise="auto"``, does so
# only if enough rows are much farther from their neighbors than others. Here they are not, and the
# default would assign every row to a cluster.

print(f"Of {(m.labels_ == -1).sum()} noise rows, {bad[m.labels_ == -1].sum()} are wrong.")
print(f"{bad.sum() - bad[m.labels_ == -1].sum()} wrong rows are not found.")

# %%
# Wrong rows that lie inside a group look like correct ones and cannot be found by their position.
#
# With ``noise=False`` every row is assigned to a cluster. Heavy tails still protect the groups: the
# adjusted Rand index of the correct rows is the same. Tail probabilities then find the wrong rows:

t = StudentTMixture(3, noise=False, random_state=0).fit(X)
worst = np.argsort(t.tail_probabilities(X))[: bad.sum()]
print(f"ARI of correct rows: {adjusted_rand_score(truth.labels, t.labels_[good]):.2f}")
print(f"Of the {len(worst)} most extreme rows, {bad[worst].sum()} are wrong.")

# %%
# Background
# ----------
#
# Now a third of the rows are scattered evenly, and none is far from the rest. ``noise=True``
# allows for them. Their label is -1, as in HDBSCAN.

rng = np.random.default_rng(2)
groups, of = make_student_t(160, 3, 2, df=50, separation=12, random_state=8)
low, high = groups.min(axis=0) - 4, groups.max(axis=0) + 4
Y = np.vstack([groups, rng.uniform(low, high, (80, 2))])
which = np.r_[of.labels, np.full(80, -1)]

n = GaussianMixture(6, noise=True, random_state=0).fit(Y)
h = HDBSCAN(min_cluster_size=10, copy=True).fit(Y)
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharex=True, sharey=True)
for ax, (name, labels) in zip(
    axes,
    {"truth": which, "HDBSCAN": h.labels_, "cavity, noise=True": n.labels_}.items(),
    strict=True,
):
    ax.scatter(*Y.T, c=np.where(labels < 0, 7, labels % 7), cmap="tab10", vmin=0, vmax=9, s=9)
    ax.set_title(f"{name}\nARI {adjusted_rand_score(which, labels):.2f}", fontsize=10)

# %%
# In addition to the label, each row has a probability of being noise. Rows at the edge of a group
# are rarely clear:

noise = n.noise_probability_
print(
    f"{(noise > 0.9).sum()} rows are noise with probability above 0.9, "
    f"{((noise > 0.1) & (noise <= 0.9)).sum()} are unclear."
)
fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
points = ax.scatter(*Y.T, c=noise, cmap="magma_r", s=14)
fig.colorbar(points, label="probability of noise")

# %%
# Heavy tails
# -----------
#
# By default, the degrees of freedom are learned. Near 1 or 2, there are extreme outliers; above
# 30, clusters are practically Gaussian.

low, middle, high = np.nanquantile(t.posterior_.parameters["df"], [0.05, 0.5, 0.95])
print(f"df with noise=False: {middle:.1f} (90% interval {low:.1f} to {high:.1f})")

# %%
# Which one?
# ----------
#
# - Some outliers: ``StudentTMixture`` with default settings. Pass ``noise=True`` to label outliers
#   even if they are not far from the rest, and ``noise=False`` if each row must have a cluster.
# - Many rows scattered between the groups: ``noise=True``, with either mixture.
# - Many outliers of the same kind: they may form a cluster; raise ``n_clusters`` to allow for it.
# - Groups of irregular shape without a model: HDBSCAN, or :doc:`/groups`.
