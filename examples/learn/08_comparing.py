"""
k-means, EM, HDBSCAN, mclust, PyMC and cavity on the same data
==============================================================

Five data sets, six methods, the same plots. No method wins everywhere.
"""

import json
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.datasets import load_wine, make_moons
from sklearn.decomposition import PCA
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as EM
from sklearn.preprocessing import StandardScaler

from cavity import StudentTMixture
from cavity.datasets import add_outliers, make_student_t

# %%
# The data
# --------
#
# - *round*: four clean, round groups. Every method works here.
# - *stretched*: long, thin groups of different sizes.
# - *wild*: four groups, and one row in ten is an outlier.
# - *moons*: two half circles, which are not elliptical.
# - *wine*: 178 wines of three cultivars, 13 columns.

rng = np.random.default_rng(1)
round_ = np.vstack([rng.normal(c, 0.6, (50, 2)) for c in ([0, 0], [4, 0], [0, 4], [4, 4])])
thin = np.array([[3.0, 0.0], [0.0, 0.25]])
turn = np.array([[0.7, 0.7], [-0.7, 0.7]])
stretched = np.vstack(
    [
        rng.standard_normal((110, 2)) @ thin @ turn,
        rng.standard_normal((45, 2)) @ thin @ turn + [0.0, 3.0],
        rng.standard_normal((25, 2)) * 0.4 + [4.0, 4.0],
    ]
)
clean, made = make_student_t(220, 4, 2, df=4, separation=10, random_state=3)
wild, bad = add_outliers(clean, fraction=0.1, random_state=0)
moons, half = make_moons(200, noise=0.08, random_state=0)
wine = load_wine()

data = {
    "round": (round_, np.repeat(np.arange(4), 50)),
    "stretched": (stretched, np.repeat(np.arange(3), [110, 45, 25])),
    "wild": (wild, np.r_[made.labels, np.full(bad.sum(), -1)]),
    "moons": (moons, half),
    "wine": (wine.data, wine.target),
}

# %%
# The methods
# -----------
#
# k-means and the Gaussian mixture get the *true number of groups* and scaled columns. HDBSCAN has
# a typical setting. cavity may use up to eight clusters; its chains are short here and were not
# checked for convergence.
#
# mclust (R) may use up to eight clusters too, and chooses their number and shape by BIC. PyMC gets
# the true number: a Gaussian mixture with labels summed out, four chains.
# ``benchmarks/elsewhere.py`` ran both on the same data; their results are read from a file.

elsewhere = json.loads(Path("elsewhere.json").read_text())
for tool, found in elsewhere.items():
    print(tool, next(iter(found.values()))["version"])


def run(name, what, X, k):
    if name.lower() in elsewhere:
        found = elsewhere[name.lower()][what]
        return np.array([int(label) for label in found["labels"]]), found["seconds"]
    scaled = StandardScaler().fit_transform(X)
    start = time.process_time()
    if name == "k-means":
        labels = KMeans(k, n_init=10, random_state=0).fit_predict(scaled)
    elif name == "EM":
        labels = EM(k, n_init=5, random_state=0, reg_covar=1e-4).fit_predict(scaled)
    elif name == "HDBSCAN":
        labels = HDBSCAN(min_cluster_size=10, copy=True).fit_predict(scaled)
    else:
        labels = StudentTMixture(8, n_warmup=300, n_draws=400, random_state=0).fit(X).labels_
    return labels, time.process_time() - start


methods = ["k-means", "EM", "HDBSCAN", "mclust", "PyMC", "cavity"]
scores, seconds = pd.DataFrame(index=list(data), columns=methods, dtype=float), {}
fig, axes = plt.subplots(5, 6, figsize=(12, 9.5), layout="constrained")
for row, (what, (X, y)) in zip(axes, data.items(), strict=True):
    judged = y >= 0  # rows of nonsense have no right answer
    shown = X if X.shape[1] == 2 else PCA(2).fit_transform(StandardScaler().fit_transform(X))
    for ax, name in zip(row, methods, strict=True):
        labels, seconds[what, name] = run(name, what, X, len(set(y[judged])))
        scores.loc[what, name] = adjusted_rand_score(y[judged], labels[judged])
        ax.scatter(
            *shown.T, c=np.where(labels < 0, 7, labels % 7), cmap="tab10", vmin=0, vmax=9, s=6
        )
        ax.set(xticks=[], yticks=[])
        ax.set_title(f"{what}: {name} {scores.loc[what, name]:.2f}", fontsize=9)

# %%
# Adjusted Rand index (1 is perfect; gray points are noise), and processor seconds (mclust and PyMC
# were run on another day on a similar machine):

print(scores.round(2).to_string())
print(pd.Series(seconds).unstack()[methods].loc[list(data)].round(2).to_string())

# %%
# Drawbacks of cavity
# -------------------
#
# - **Time.** k-means, EM and HDBSCAN take a fraction of a second. Drawing partitions takes seconds,
#   and minutes for thousands of rows in many columns.
# - **Shapes.** HDBSCAN finds any shape. On the moons, cavity needs several ellipses for each moon;
#   its :doc:`groups </groups>` merge them.
# - **Few rows, many columns.** On wine, mclust is better: it selects a simple shape for the
#   groups. EM and k-means were given the number of groups. cavity, with at most eight, finds more.
#   The result with the number given is printed below.
# - **Clean, round, known number.** k-means is as good and simpler to explain. Use it.

given = StudentTMixture(3, random_state=0).fit(wine.data)
print(f"wine, 3 clusters given: {adjusted_rand_score(wine.target, given.labels_):.2f}")

# %%
# Advantages of cavity
# --------------------
#
# cavity was not given the number of groups. It reports how certain each row is, whether chains
# agree, and which rows to check, and outliers do not determine the answer. This is worth most if
# data are dirty, groups overlap, or someone will ask "how do you know?".
#
# mclust (R)
# ----------
#
# Gaussian mixtures by EM with fourteen forms of covariance, the best chosen by BIC. It is very
# fast, needs complete numbers, and has a noise component if you provide an initial guess. It can
# choose the form of the covariance; cavity learns how similar the clusters' covariances are
# instead. On clean data it is hard to beat. Its uncertainty is conditional on one model and one
# estimate: ``1 - max(z)`` is not the probability that a row belongs elsewhere in *another good
# partition*. The forms it chose:

for what, found in elsewhere["mclust"].items():
    print(f"{what}: {found['note']}")

# %%
# PyMC and Stan
# -------------
#
# General tools that sample any model. Labels must be summed out, since gradient-based samplers
# cannot draw them; the number of groups is fixed; cluster labels switch between chains, so
# summaries need relabeling; and chains stay in one mode. Use them if your model is much richer
# than a clustering. We drew labels from PyMC's draws and used ``cavity.Posterior.from_labels`` for
# the estimate and the convergence checks (:doc:`/gallery/other_samplers` shows this for any
# sampler):

for what, found in elsewhere["pymc"].items():
    print(f"{what}: {found['note']}")
