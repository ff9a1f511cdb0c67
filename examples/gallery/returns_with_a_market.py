"""
Sectors behind a market
=======================

**Question.** Returns of 40 stocks all move with the market. Which ones move together *beyond*
it?
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.metrics import adjusted_rand_score

from cavity import SeriesMixture
from cavity.datasets import make_series

Y, truth = make_series(40, 100, n_clusters=5, a=0.0, loading=0.7, common=1.0, random_state=2)
s = SeriesMixture(n_clusters=8, n_warmup=80, n_draws=150, n_chains=2, random_state=0).fit(Y)
print(s.diagnostics().sentences[0])

# %%
# **Answer.** The data show a common factor, so the model includes one, and clusters describe the
# rest.

s.plot_common_factor()
print(f"{s.n_clusters_} clusters; ARI {adjusted_rand_score(truth.labels, s.labels_):.2f}")
print(
    f"the least certain stock is in its cluster with probability "
    f"{s.posterior_.observations()['probability'].min():.2f}"
)

# %%
# **The usual tool.** Hierarchical clustering of correlations. The market makes all stocks
# correlated:

correlation = np.corrcoef(Y)
tree = linkage(squareform(np.sqrt(np.maximum(0.5 * (1 - correlation), 0)), checks=False), "average")
labels = fcluster(tree, 5, "maxclust")
fig, axes = plt.subplots(1, 2, figsize=(9, 3.8), layout="constrained")
order = np.argsort(truth.labels, kind="stable")
axes[0].imshow(correlation[np.ix_(order, order)], vmin=-1, vmax=1, cmap="RdBu_r")
axes[0].set_title(f"correlations, ARI {adjusted_rand_score(truth.labels, labels):.2f}")
axes[1].imshow(s.posterior_.similarity()[np.ix_(order, order)], vmin=0, vmax=1, cmap="Blues")
axes[1].set_title("probability of sharing a cluster")
for ax in axes:
    ax.set(xticks=[], yticks=[])
