"""
Groups of any shape
===================

**Question.** How many groups are there, if they may be rings, crescents or a single shapeless
cloud? The six data sets are those of scikit-learn's comparison of clustering methods.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn import datasets
from sklearn.cluster import HDBSCAN
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.preprocessing import StandardScaler

import cavity

warnings.simplefilter("ignore", cavity.ClusterLimitWarning)
warnings.simplefilter("ignore", cavity.NotConvergedWarning)

n = 500
blobs = datasets.make_blobs(n, random_state=170)
sets = {
    "circles": datasets.make_circles(n, factor=0.5, noise=0.05, random_state=30),
    "moons": datasets.make_moons(n, noise=0.05, random_state=30),
    "varied": datasets.make_blobs(n, cluster_std=[1.0, 2.5, 0.5], random_state=170),
    "anisotropic": (blobs[0] @ [[0.6, -0.6], [-0.4, 0.8]], blobs[1]),
    "blobs": datasets.make_blobs(n, random_state=30),
    "no structure": (np.random.default_rng(30).random((n, 2)), np.zeros(n, int)),
}

# %%
# **Answer.** A mixture covers a ring with several overlapping clusters. Merging clusters that
# overlap, within each draw, gives a second level: ``group_labels_``. All data sets use the same
# settings, and the number of groups is not given. The runs are short; groups converge long before
# clusters.


def best_by_bic(X):
    fits = [GaussianMixture(k, random_state=0).fit(X) for k in range(1, 16)]
    return min(fits, key=lambda fit: fit.bic(X)).predict(X)


answers = {}
for name, (X, _) in sets.items():
    X = StandardScaler().fit_transform(X)
    m = cavity.StudentTMixture(15, n_chains=2, n_warmup=250, n_draws=100, random_state=0).fit(X)
    answers[name] = [
        ("cavity: clusters", m.labels_),
        ("cavity: groups", m.group_labels_),
        ("HDBSCAN", HDBSCAN(min_cluster_size=15, copy=True).fit_predict(X)),
        ("GaussianMixture (BIC)", best_by_bic(X)),
    ]
    sure = m.posterior_.groups().n_clusters_posterior()
    print(f"{name}: {m.n_groups_} groups with probability {sure.get(m.n_groups_, 0.0):.2f}")

# %%
# **The usual tool.** HDBSCAN finds shapes, leaves out rows at the edges (gray) and has no
# probabilities. scikit-learn's ``GaussianMixture``, with the number of components chosen by BIC,
# has no second level. Titles show the number found and the adjusted Rand index.

fig, axes = plt.subplots(len(sets), 4, figsize=(10, 14), layout="constrained")
for row, (name, (X, truth)) in zip(axes, sets.items(), strict=True):
    for ax, (method, labels) in zip(row, answers[name], strict=True):
        ax.scatter(*X[labels < 0].T, c="lightgray", s=5)
        inside = labels >= 0
        ax.scatter(*X[inside].T, c=labels[inside] % 20, cmap="tab20", vmin=0, vmax=19, s=5)
        found = len(set(labels[inside]))
        ax.set_title(f"{method}: {found}, {adjusted_rand_score(truth, labels):.2f}", fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
    row[0].set_ylabel(name)
