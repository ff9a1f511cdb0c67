"""
Which sensors follow the same cause?
====================================

**Question.** 30 sensors, 60 days, noise, a third of the readings missing, and some sensors
mounted upside down. Which ones follow the same cause?
"""

import pandas as pd
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score
from sklearn.preprocessing import StandardScaler

from cavity import SeriesMixture
from cavity.datasets import make_series

Y, truth = make_series(30, 60, n_clusters=3, missing=0.35, var_y=0.5, negative=0.3, random_state=4)
s = SeriesMixture(n_clusters=6, n_warmup=80, n_draws=150, n_chains=2, random_state=0).fit(Y)
print(s.diagnostics().sentences[0])

# %%
# **Answer.** Each panel is a cluster with the trends of its sensors. Labels have certainties.

s.plot_clusters()
print(s.series_.iloc[:5].round(2).to_string())
print(f"{s.n_clusters_} clusters; ARI {adjusted_rand_score(truth.labels, s.labels_):.2f}")

# %%
# The trend of one sensor across its missing values and twelve days ahead, with 90% intervals:

s.plot_series(7, steps=12)

# %%
# **The usual tool.** Interpolate, scale, and run k-means on the rows. Noise and interpolation are
# clustered along with the signal, and an upside-down sensor looks like a different cause:

filled = pd.DataFrame(Y).interpolate(axis=1, limit_direction="both").to_numpy()
rows = StandardScaler().fit_transform(filled.T).T
labels = KMeans(3, n_init=10, random_state=0).fit_predict(rows)
print(f"k-means, 3 clusters given: ARI {adjusted_rand_score(truth.labels, labels):.2f}")
