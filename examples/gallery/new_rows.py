"""
A new row that belongs to nothing
=================================

**Question.** A model has learned two cultivars of wine. Tomorrow a third one arrives. Will
anybody notice?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.cluster import KMeans
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from cavity import StudentTMixture

X, cultivar = load_wine(return_X_y=True, as_frame=True)
X = X[["alcohol", "flavanoids", "color_intensity", "hue", "proline"]]
known, new = X[cultivar < 2], X[cultivar == 2]
m = StudentTMixture(n_clusters=4, n_warmup=200, n_draws=400, random_state=0).fit(known)
print(m.diagnostics().sentences[0])

# %%
# **Answer.** ``tail_probabilities`` has the last word on new rows: how often would a member of
# the nearest cluster lie this far out?

old_tail, new_tail = m.tail_probabilities(known), m.tail_probabilities(new)
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
bins = np.linspace(0, 1, 21)
ax.hist(old_tail, bins, alpha=0.6, label="cultivars of the fit", density=True)
ax.hist(new_tail, bins, alpha=0.6, label="the new cultivar", density=True)
ax.set(xlabel="tail probability")
ax.legend()
print(
    f"below 0.05: {np.mean(old_tail < 0.05):.0%} of the old, {np.mean(new_tail < 0.05):.0%} "
    f"of the new"
)
print(m.predict_proba(new.head(3), as_frame=True).round(2).to_string())

# %%
# **The usual tool.** k-means puts every wine of the new cultivar into one of its two clusters,
# and says nothing more:

scaler = StandardScaler().fit(known)
k = KMeans(2, n_init=10, random_state=0).fit(scaler.transform(known))
print(
    f"k-means: {np.bincount(k.predict(scaler.transform(new))).tolist()} of {len(new)} new "
    f"wines in its clusters, none left over"
)
