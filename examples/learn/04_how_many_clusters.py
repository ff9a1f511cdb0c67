"""
How many clusters?
==================

The short answer: give a generous ``n_clusters`` and read ``n_clusters_posterior()``. This lesson
shows why that works, and when no method can answer.
"""

# %%
# A generous number does no harm
# ------------------------------
#
# Three groups. We allow 3, 6 and 12.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cavity import GaussianMixture

rng = np.random.default_rng(0)
centres = np.array([[0.0, 0.0], [10.0, 0.0], [4.0, 9.0]])
X = np.vstack([c + rng.standard_normal((n, 2)) for c, n in zip(centres, (60, 40, 20), strict=True)])

posteriors = {}
for most in (3, 6, 12):
    m = GaussianMixture(n_clusters=most, random_state=0).fit(X)
    posteriors[f"at most {most}"] = m.posterior_.n_clusters_posterior()
table = pd.DataFrame(posteriors).fillna(0.0)
print(table.round(3).to_string())
table.plot.bar(rot=0, figsize=(6, 3), xlabel="number of clusters", ylabel="probability")
plt.tight_layout()

# %%
# The prior says: at least one, at most ``n_clusters``, and twice as many are a quarter as
# likely, be they 2 or 20. From there on the data decide. Small groups are not penalised: 20 rows
# among 120 are found like the others.
#
# Nothing in the prior but that limit depends on ``n_clusters``, so the odds of three against four
# do not shift with the room that you give, beyond the error of a sample.
#
# What the usual way does
# -----------------------
#
# The elbow, the silhouette and the BIC give one number and no doubt. Here are the silhouette of
# k-means and the BIC of a Gaussian mixture, on data where the answer really is unclear: two
# groups that overlap.

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
axes[0].set(title="silhouette: take the top", xlabel="clusters")
axes[1].plot(list(bic), list(bic.values()), "o-")
axes[1].set(title="BIC: take the bottom", xlabel="clusters")
unclear.n_clusters_posterior().plot.bar(
    ax=axes[2], rot=0, title="cavity: probabilities", xlabel="clusters"
)
print("silhouette says", max(silhouette, key=silhouette.get), "- BIC says", min(bic, key=bic.get))
print(unclear.n_clusters_posterior().round(2).to_string())

# %%
# The silhouette cannot say "one" at all: it is not defined there. The BIC says one number. The
# posterior shows how far the data can tell.
#
# And what is the doubt about? ``alternatives`` gives the answer for each other number that is worth
# a thought, and says in words how it differs. The command line and the report print the same.

for other in unclear.alternatives():
    print(other)

# %%
# No groups at all
# ----------------
#
# A good test of any clustering tool is a table without clusters:

Z = rng.standard_normal((150, 3))
one = GaussianMixture(n_clusters=6, random_state=0).fit(Z).posterior_.n_clusters_posterior()
k = max(
    range(2, 7),
    key=lambda k: silhouette_score(Z, KMeans(k, n_init=5, random_state=0).fit_predict(Z)),
)
print(
    f"Probability of a single cluster: {one.get(1, 0.0):.2f}. k-means with silhouette makes "
    f"{k} groups."
)

# %%
# If you know the number
# ----------------------
#
# Say so: ``prior="dirichlet", concentration=20`` makes all ``n_clusters`` groups present and of
# comparable size, ``prior="fixed"`` gives them equal or known weights. If you expect many small
# groups and have no upper limit in mind, ``prior="dp"`` or ``"pitman-yor"``. The :doc:`/guide`
# has the table.
#
# Four cautions
# -------------
#
# - If many draws have as many clusters as you allowed, summary, report and command line say so.
#   Allow more, unless you know the number.
# - Groups with a curved or hollow shape need several elliptical clusters each. The number is then
#   a number of ellipses.
# - Rows that are spoiled in the same way are alike, and are a cluster. Leave room for them.
# - With overlapping groups the prior has a say. Try
#   ``prior=cavity.priors.FiniteMixture(power=0)``, which has all numbers equally likely: if the
#   answer changes, report both.
