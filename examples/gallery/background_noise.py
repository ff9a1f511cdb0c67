"""
Groups in a noisy sky
=====================

**Question.** Half of the points belong to no group. Which points are in a group, and with what
probability?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import DBSCAN
from sklearn.metrics import adjusted_rand_score

from cavity import GaussianMixture

rng = np.random.default_rng(11)
centers, widths = [[2, 3], [7, 7], [8, 2]], [0.35, 0.8, 0.5]
groups = [rng.normal(c, w, (40, 2)) for c, w in zip(centers, widths, strict=True)]
X = np.vstack([*groups, rng.uniform(0, 10, (120, 2))])
truth = np.r_[np.repeat([0, 1, 2], 40), np.full(120, -1)]

m = GaussianMixture(n_clusters=6, noise=True, n_warmup=300, n_draws=500, random_state=0).fit(X)
print(m.diagnostics().sentences[0])

# %%
# The run is short, so the chains are not shown to have converged, and the probabilities are rough.
#
# **Answer.** Left: the clusters. Right: the probability that each point is noise. It changes
# gradually at the edge of each group.

fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
axes[0].scatter(*X.T, c=np.where(m.labels_ < 0, 7, m.labels_), cmap="tab10", vmin=0, vmax=9, s=12)
points = axes[1].scatter(*X.T, c=m.noise_probability_, cmap="magma_r", s=12)
fig.colorbar(points, label="probability of noise")
print(f"{m.n_clusters_} clusters; ARI {adjusted_rand_score(truth, m.labels_):.2f}")

# %%
# **The usual tool.** DBSCAN has a single density threshold. Groups of different density need
# different thresholds, and the result depends strongly on it. The best one may be as good as the
# answer above, or better, but you only recognize it if you know the truth:

for eps in (0.25, 0.4, 0.6, 0.9):
    labels = DBSCAN(eps=eps, min_samples=6).fit_predict(X)
    print(f"eps {eps}: {labels.max() + 1} clusters, ARI {adjusted_rand_score(truth, labels):.2f}")
