"""
How many clusters?
==================

The short answer: choose a generous ``n_clusters`` and read ``n_clusters_posterior()``. This
lesson shows why that works, and when no method can tell.
"""

# %%
# A generous limit usually does no harm
# -------------------------------------
#
# Three groups. We allow 3, 6 and 12 clusters. (The exception: groups that are not elliptical take
# as many clusters as they are given, see :doc:`/groups`.)

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cavity import GaussianMixture

rng = np.random.default_rng(0)
centers = np.array([[0.0, 0.0], [10.0, 0.0], [4.0, 9.0]])
X = np.vstack([c + rng.standard_normal((n, 2)) for c, n in zip(centers, (60, 40, 20), strict=True)])

posteriors = {}
for most in (3, 6, 12):
    m = GaussianMixture(n_clusters=most, random_state=0).fit(X)
    posteriors[f"at most {most}"] = m.posterior_.n_clusters_posterior()
table = pd.DataFrame(posteriors).fillna(0.0)
print(table.round(3).to_string())
table.plot.bar(rot=0, figsize=(6, 3), xlabel="number of clusters", ylabel="probability")
plt.tight_layout()

# %%
# The prior allows 1 to ``n_clusters`` clusters, and doubling their number divides the prior
# probability by four. The data decide the rest. Small groups are not penalized: 20 rows among 120
# are found like the others.
#
# Apart from this limit, the prior does not depend on ``n_clusters``. The odds of three against
# four clusters stay the same, up to sampling error.
#
# The usual methods
# -----------------
#
# The elbow, the silhouette and BIC return one number without uncertainty. Here are the silhouette
# of k-means and the BIC of a Gaussian mixture for data where the answer is unclear: two
# overlapping groups.

from sklearn.cluster import KMeans
from sklearn.metrics import silhouette_score
from sklearn.mixture import GaussianMixture as EM

Y = np.vstack([rng.standard_normal((80, 2)), rng.normal([2.6, 0.0], 1.0, (80, 2))])
ks = range(2, 7)
silhouette = {
    k: silhouette_score(Y, KMeans(k, n_init=10, random_state=0).fit_predict(Y)) for k in ks
}
bic = {k: EM(k, n_init=5, random_state=0).fit(Y).bic(Y) for k in range(1, 7)}
unclear = GaussianMixture(n_clusters=6, random_state=0).fit(Y).posterior_

fig, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
axes[0].plot(list(silhouette), list(silhouette.values()), "o-")
axes[0].set(title="silhouette: maximum", xlabel="clusters")
axes[1].plot(list(bic), list(bic.values()), "o-")
axes[1].set(title="BIC: minimum", xlabel="clusters")
unclear.n_clusters_posterior().plot.bar(
    ax=axes[2], rot=0, title="cavity: probabilities", xlabel="clusters"
)
print("silhouette:", max(silhouette, key=silhouette.get), " BIC:", min(bic, key=bic.get))
print(unclear.n_clusters_posterior().round(2).to_string())

# %%
# The silhouette cannot choose one cluster, BIC gives no uncertainty; the posterior shows how
# undecided the data are. Two clusters at 54% are not an answer: report the other numbers with their
# probabilities too.
#
# ``alternatives`` describes how the answer would differ for every other plausible number. The
# command line and the report print the same.

for other in unclear.alternatives():
    print(other)

# %%
# No groups at all
# ----------------
#
# A good test of any clustering method is a table without clusters:

Z = rng.standard_normal((150, 3))
one = GaussianMixture(n_clusters=6, random_state=0).fit(Z).posterior_.n_clusters_posterior()
k = max(
    range(2, 7),
    key=lambda k: silhouette_score(Z, KMeans(k, n_init=5, random_state=0).fit_predict(Z)),
)
print(
    f"Probability of a single cluster: {one.get(1, 0.0):.2f}. The best silhouette of "
    f"k-means has {k} clusters."
)

# %%
# If you know the number
# ----------------------
#
# Use ``prior="dirichlet", concentration=20`` if none of the ``n_clusters`` groups is empty and
# sizes are similar, and ``prior="fixed"`` for equal or known weights. If you expect many small
# groups and no upper limit, use ``prior="dp"`` or ``"pitman-yor"``. See :doc:`/number-of-clusters`.
#
# Four cautions
# -------------
#
# - If many draws have as many clusters as you allowed, the summary, the report and the command
#   line say so. Allow more, unless you know the number.
# - Curved or hollow groups need several elliptical clusters each. :doc:`/groups` merges clusters
#   that overlap.
# - Outliers that lie close together may form a cluster of their own. Set ``n_clusters`` high
#   enough to hold them.
# - If groups overlap so much that the data cannot tell, the prior decides. Try
#   ``prior=cavity.priors.FiniteMixture(power=0)``, which makes all numbers equally likely. If the
#   number of clusters changes, report both.
