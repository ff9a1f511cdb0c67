"""
Outliers and noise
==================

Three different things are called outliers. *Heavy tails*: members of a group that are further out
than a normal curve allows. *Mistakes*: rows that belong to nothing. *Background*: rows scattered
everywhere, such as sky between galaxies. This lesson has one of each, and what to use.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as EM

from cavity import GaussianMixture, StudentTMixture
from cavity.datasets import add_outliers, make_student_t

# %%
# Mistakes
# --------
#
# Three groups, and one row in ten is nonsense.

clean, truth = make_student_t(240, 3, 2, df=5, separation=9, random_state=5)
X, bad = add_outliers(clean, fraction=0.1, random_state=1)
good = np.flatnonzero(~bad)

fits = {
    "k-means": KMeans(3, n_init=10, random_state=0).fit_predict(X),
    "Gaussian mixture (EM)": EM(3, n_init=10, random_state=0).fit_predict(X),
    "cavity, Student-t": (m := StudentTMixture(3, random_state=0).fit(X)).labels_,
}
fig, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained", sharex=True, sharey=True)
for ax, (name, labels) in zip(axes, fits.items(), strict=True):
    ax.scatter(*X.T, c=np.where(labels < 0, 7, labels), cmap="tab10", vmin=0, vmax=9, s=9)
    ax.set_title(
        f"{name}\nARI of good rows {adjusted_rand_score(truth.labels, labels[good]):.2f}",
        fontsize=10,
    )

# %%
# The groups stay where they are, and the bad rows are grey: outside every cluster, label -1.
# Nobody asked for that. Some rows lie much further from their neighbours than the others do, and
# then ``fit`` makes a place for rows that belong to nothing. Each row has a probability of it:

print(f"Of {(m.labels_ == -1).sum()} rows outside, {bad[m.labels_ == -1].sum()} are bad.")
print(f"{bad.sum() - bad[m.labels_ == -1].sum()} bad rows are not found.")

# %%
# Bad rows that fall inside a group look like good ones, and nothing can find them by their place
# alone.
#
# With ``noise=False`` every row is given to a cluster, the one whose tail reaches it. Heavy tails
# still keep the groups where they are. Then find the bad rows by how far out they are:

t = StudentTMixture(3, noise=False, random_state=0).fit(X)
worst = np.argsort(t.tail_probabilities(X))[: bad.sum()]
print(f"Of the {len(worst)} rows that lie furthest out, {bad[worst].sum()} are bad.")

# %%
# Background
# ----------
#
# Now a third of the rows are scattered evenly, and none lies far from the rest. ``noise=True`` says
# that there may be such rows. Their label is -1, as in HDBSCAN.

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
# What you get beyond the labels is the probability of each row to be noise. Rows at the edge of a
# group are rarely clearly one or the other:

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
# By default the heaviness of the tails is learned. Read it off: near 1 or 2, gross outliers;
# above 30, as good as Gaussian.

low, middle, high = np.nanquantile(t.posterior_.parameters["df"], [0.05, 0.5, 0.95])
print(f"every row in a cluster: df {middle:.1f} (90% interval {low:.1f} to {high:.1f})")

# %%
# Which one?
# ----------
#
# - Some wild rows: ``StudentTMixture``, as it comes. ``noise=False`` if each must have a cluster.
# - A third of the rows everywhere, none of them far out: ``noise=True``, with either mixture.
# - Many rows that are wild in the same way: they are a cluster. Leave room for it by a larger
#   ``n_clusters``.
# - Groups of odd shapes, and no model for them: HDBSCAN is made for that.
