"""
Draws of another sampler or a bootstrap
=======================================

**Question.** You have labels from elsewhere: draws of another program, or k-means on resampled
rows. How certain is the partition?
"""

import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from cavity import Posterior

X, cultivar = load_wine(return_X_y=True)
X = StandardScaler().fit_transform(X)
rng = np.random.default_rng(0)
draws = []
for _ in range(200):
    some = rng.integers(0, len(X), len(X))
    draws.append(KMeans(3, n_init=3, random_state=0).fit(X[some]).predict(X))

# %%
# **Answer.** ``Posterior.from_labels`` accepts label draws of any origin, and each draw may number
# its clusters differently. Point estimate, uncertain rows and plots work as for any fit.

p = Posterior.from_labels(np.array(draws))
estimate = p.partition()
print(
    f"{len(set(estimate.labels))} clusters, ARI with the cultivars "
    f"{adjusted_rand_score(cultivar, estimate.labels):.2f}"
)
print(p.doubtful()[["cluster", "probability", "alternative"]].head(5).round(2).to_string())
p.plot_similarity()

# %%
# **What would have gone wrong.** Averaging label numbers, or comparing them draw by draw, is
# meaningless: cluster 0 of one draw is cluster 2 of the next. Only co-clustering can be counted. A
# bootstrap also treats the number of clusters as known.

share = np.mean([np.mean(d == draws[0]) for d in draws[1:]])
print(
    f"Labels compared by number agree in {share:.0%} of rows; pairs of rows agree in "
    f"{np.mean(np.maximum(p.similarity(), 1 - p.similarity())):.0%}."
)
