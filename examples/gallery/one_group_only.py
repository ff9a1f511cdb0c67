"""
Are there groups at all?
========================

**Question.** Someone asks for "patient types" in a table of 300 patients and three blood values.
Are there any?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import StandardScaler

from cavity import StudentTMixture

# Simulated blood values without groups: positive, skewed and correlated.
rng = np.random.default_rng(2)
root = np.linalg.cholesky([[1.0, 0.6, 0.3], [0.6, 1.0, 0.4], [0.3, 0.4, 1.0]])
logs = rng.standard_normal((300, 3)) @ root.T / np.sqrt(rng.gamma(4, 1 / 4, (300, 1)))
values = np.exp(0.6 * logs)

m = StudentTMixture(n_clusters=6, n_warmup=200, n_draws=400, random_state=0).fit(np.log(values))
print(m.diagnostics().sentences[0])
one = m.posterior_.n_clusters_posterior()
print(one.round(2).to_string())

# %%
# The run is short, so the chains are not shown to have converged, and the probabilities are rough;
# leave out ``n_warmup`` and ``n_draws`` in your analysis.
#
# **Answer.** Read the probability of a single cluster: patients differ by degrees, not by type. We
# took logarithms first, as usual for positive, skewed values. Without them, the model describes
# the skew by several nested clusters. This is a reasonable description of the density, but no
# evidence of types: look at *where* clusters lie before you name them.

raw = StudentTMixture(n_clusters=6, n_warmup=200, n_draws=400, random_state=0).fit(values)
print(raw.posterior_.n_clusters_posterior().round(2).to_string())
fig, axes = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
m.posterior_.plot_clusters(np.log(values), ax=axes[0])
axes[0].set_title("logarithms", loc="left")
axes[1].scatter(*values[:, :2].T, c=raw.labels_ % 10, cmap="tab10", vmin=0, vmax=9, s=9)
axes[1].set(title="as measured", xlabel="first value", ylabel="second value")

# %%
# **The usual tool.** k-means returns as many types as you ask for, and the silhouette is not
# defined for a single cluster, so its best number is always above one:

scaled = StandardScaler().fit_transform(np.log(values))
score = {
    k: silhouette_score(scaled, KMeans(k, n_init=5, random_state=0).fit_predict(scaled))
    for k in range(2, 7)
}
best = max(score, key=score.get)
print(f'k-means with the silhouette reports {best} "types".')
