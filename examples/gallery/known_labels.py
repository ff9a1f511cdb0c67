"""
A handful of known labels
=========================

**Question.** An expert has identified nine of 150 flowers. How much do nine labels help with the
rest?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.neighbors import KNeighborsClassifier

from cavity import GaussianMixture

X, truth = load_iris(return_X_y=True)
rng = np.random.default_rng(5)
named = np.concatenate([rng.choice(np.flatnonzero(truth == k), 3, replace=False) for k in range(3)])
y = np.full(150, -1)
y[named] = truth[named]

m = GaussianMixture(n_clusters=3, n_warmup=300, n_draws=500, random_state=0).fit(X, known_labels=y)
print(m.diagnostics().sentences[0])

# %%
# **Answer.** Rows with the same label stay together, rows with different labels apart, and the
# others join the cluster that fits. Clusters that contain a labeled row take its name:

names = {m.labels_[i]: truth[i] for i in named}
found = np.array([names.get(k, -1) for k in m.labels_])
rest = y == -1
sure = m.posterior_.observations()["probability"].to_numpy()
print(f"right: {np.mean(found[rest] == truth[rest]):.0%} of the {rest.sum()} others; ")
clear = rest & (sure > 0.8)
print(f"of the {clear.sum()} that are not in doubt {np.mean(found[clear] == truth[clear]):.0%}")
fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
points = ax.scatter(X[:, 2], X[:, 3], c=sure, cmap="viridis", s=18)
ax.plot(X[named, 2], X[named, 3], "r*", ms=11, mfc="none", label="labeled by the expert")
fig.colorbar(points, label="probability of the assigned cluster")
ax.set(xlabel="petal length", ylabel="petal width")
ax.legend()

# %%
# **The usual tool.** A classifier uses only the nine labeled rows and ignores the structure of the
# other 141. The result depends on which nine were labeled, and has no uncertainty:


def nearest(named):
    others = np.setdiff1d(np.arange(150), named)
    knn = KNeighborsClassifier(1).fit(X[named], truth[named])
    return np.mean(knn.predict(X[others]) == truth[others])


choices = [
    np.concatenate([rng.choice(np.flatnonzero(truth == k), 3, replace=False) for k in range(3)])
    for _ in range(200)
]
scores = [nearest(choice) for choice in choices]
print(f"nearest labeled flower: {nearest(named):.0%} right for these nine; ")
print(f"for 200 other choices of nine: {np.min(scores):.0%} to {np.max(scores):.0%}")
