"""
Clusters behind measurement errors
==================================

**Question.** Stars of three groups were measured with standard errors that differ from star to
star, many of them larger than the groups. How many groups are there, and how wide are they?
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import GaussianMixture

rng = np.random.default_rng(4)
centers = np.array([[0.0, 0.0], [3.0, 0.0], [0.0, 3.0]])
group = rng.integers(3, size=300)
root = np.linalg.cholesky([[0.3, 0.2], [0.2, 0.3]])
true = centers[group] + rng.standard_normal((300, 2)) @ root.T
errors = rng.choice([0.2, 0.6, 1.5], size=true.shape)
X = true + errors * rng.standard_normal(true.shape)

settings = {"n_chains": 2, "n_warmup": 400, "n_draws": 400, "random_state": 0}
m = GaussianMixture(8, **settings).fit(X, errors=errors)

# %%
# **Answer.** Three groups, and their covariances are those of the true values: 0.3 and 0.2.

print(m.n_clusters_, "clusters")
print(m.covariances_.mean(axis=0).round(2))
found = m.impute(X)
inside = ((found.lower <= true) & (true <= found.upper)).mean()
print(f"{inside:.0%} of the true values lie in their 90% intervals")

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), sharex=True, sharey=True, layout="constrained")
for ax, values, title in zip(axes, (X, found.mean), ("measured", "estimated"), strict=True):
    ax.scatter(*values.T, c=m.labels_, s=8, cmap="viridis")
    ax.set(title=title)

# %%
# **The usual tool.** A mixture that takes the measurements as exact finds groups as wide as their
# errors, and adds clusters for the stars that were measured badly:

plain = GaussianMixture(8, **settings).fit(X)
print(plain.n_clusters_, "clusters")
print(np.average(plain.covariances_, axis=0, weights=plain.weights_).round(2))
