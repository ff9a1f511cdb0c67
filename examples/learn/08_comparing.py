"""
k-means, EM, HDBSCAN, mclust, PyMC and cavity on the same data
==============================================================

Five data sets, six methods, the same pictures. Each wins somewhere.
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
# - *round*: four clean, round groups. Anything works here.
# - *stretched*: long and thin groups of different sizes.
# - *wild*: four groups, and one row in ten is nonsense.
# - *moons*: two half circles, which are no ellipses.
# - *wine*: 178 real wines of three cultivars, 13 columns.

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
# k-means and the Gaussian mixture are *told the true number of groups* and get scaled columns.
# HDBSCAN gets its usual setting. cavity is told "at most eight" and nothing else;
# its chains are short here, and were not asked whether they agree.
#
# mclust (R) is told "at most eight" too, and chooses number and shape of the groups by BIC. PyMC is
# told the true number: a Gaussian mixture whose labels are summed out, four chains. Neither is
# needed to build this page: ``benchmarks/elsewhere.py`` ran both on the data above, and what they
# found is read from a file.

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
# Adjusted Rand index, 1 is perfect (grey points are called noise), and processor
# seconds (of mclust and PyMC on another day, on a like machine):

print(scores.round(2).to_string())
print(pd.Series(seconds).unstack()[methods].loc[list(data)].round(2).to_string())

# %%
# What we lose
# ------------
#
# - **Time.** The others answer in a blink. Drawing partitions takes seconds, and minutes for
#   thousands of rows in many columns.
# - **Shapes.** HDBSCAN follows any shape. On the moons cavity needs several ellipses for each,
#   and reports so many clusters.
# - **Few rows, many columns.** On the wines mclust is ahead: it settles on a simple shape of the
#   groups, and EM and k-means were told that there are three. cavity, told "at most eight", finds
#   more. Tell it what you know; how it then does is printed below.
# - **Clean, round, known number.** k-means is as good, and simpler to explain. Use it.
#

told = StudentTMixture(3, random_state=0).fit(wine.data)
print(f"wine, told that there are three: {adjusted_rand_score(wine.target, told.labels_):.2f}")

# %%
# What we gain
# ------------
#
# Nobody told cavity the number. It says how sure each row is, whether chains agree, and which
# rows to check. And wild rows do not decide the answer. That comes from the model, and is worth
# most where data are dirty, groups overlap, or somebody will ask "how do you know?".
#
# mclust (R)
# ----------
#
# Gaussian mixtures by EM in fourteen shapes of covariance, the best by BIC. One answer, very
# quickly, for numbers without gaps; a noise component if you start it with a guess of the noise.
# The choice of shape is something we do not have: we learn how alike the clusters' shapes are
# instead. On clean data it is hard to beat. Uncertainty is given the one model and the one
# estimate: ``1 - max(z)`` is not the probability that a row belongs elsewhere in *another good
# partition*. Which shape it chose:

for what, found in elsewhere["mclust"].items():
    print(f"{what}: {found['note']}")

# %%
# PyMC and Stan
# -------------
#
# General tools: write any model, have it sampled. Labels have to be summed out, since their
# gradient samplers cannot draw them; the number of groups is fixed; the names of clusters switch
# between chains, so that usual summaries of them mean nothing until you relabel; and chains stay
# in one mode. It can be done, and if your model is much richer than clusters it should. We drew the
# labels from its draws, and let ``cavity.Posterior.from_labels`` find the estimate and say whether
# the chains agree (:doc:`/gallery/other_samplers` does it for any sampler):

for what, found in elsewhere["pymc"].items():
    print(f"{what}: {found['note']}")
