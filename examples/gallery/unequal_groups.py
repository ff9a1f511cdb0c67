"""
A large and a small group
=========================

**Question.** 300 customers of one kind and 30 of another. Is the small group real, and who is in
it?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from cavity import GaussianMixture

rng = np.random.default_rng(7)
shape = np.array([[2.2, 0.6], [0.6, 0.9]])
X = np.vstack([rng.standard_normal((300, 2)) @ shape, rng.normal([4.5, 4.2], 0.5, (30, 2))])
truth = np.repeat([0, 1], [300, 30])

m = GaussianMixture(n_clusters=6, random_state=0, max_sweeps=3_000).fit(X)
print(m.diagnostics().sentences[0])
p = m.posterior_
columns = ["size", "weight", "weight_lower", "weight_upper", "certainty"]
print(p.summary()[columns].round(2).to_string())

# %%
# **Answer.** The probability of two groups, the share of the small one with its interval, and the
# rows at the border.

print(p.n_clusters_posterior().round(2).to_string())
print(f"{len(p.doubtful())} rows in doubt; ARI {adjusted_rand_score(truth, m.labels_):.2f}")

# %%
# **The usual tool.** k-means prefers groups of equal size and splits the large one:

labels = KMeans(2, n_init=10, random_state=0).fit_predict(X)
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
p.plot_clusters(X, ax=axes[0])
axes[0].set_title("cavity", loc="left")
axes[1].scatter(*X.T, c=labels, cmap="tab10", vmin=0, vmax=9, s=10)
axes[1].set_title(f"k-means, ARI {adjusted_rand_score(truth, labels):.2f}")
