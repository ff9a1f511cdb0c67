"""
Detect rows of a new kind
=========================

**Question.** A model was fitted to two cultivars of wine. Would it detect a third one?
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
# **Answer.** ``tail_probabilities`` shows how often a member of the nearest cluster would be at
# least as far out:

old_tail, new_tail = m.tail_probabilities(known), m.tail_probabilities(new)
fig, ax = plt.subplots(figsize=(6, 3.2), layout="constrained")
bins = np.linspace(0, 1, 21)
ax.hist(old_tail, bins, alpha=0.6, label="cultivars of the fit", density=True)
ax.hist(new_tail, bins, alpha=0.6, label="the new cultivar", density=True)
ax.set(xlabel="tail probability")
ax.legend()
print(
    f"tail probability below 0.05: {np.mean(old_tail < 0.05):.0%} of the known cultivars, "
    f"{np.mean(new_tail < 0.05):.0%} of the new one"
)
print(m.predict_proba(new.head(3), as_frame=True).round(2).to_string())

# %%
# **The usual tool.** k-means assigns every wine of the new cultivar to one of its two clusters:

scaler = StandardScaler().fit(known)
k = KMeans(2, n_init=10, random_state=0).fit(scaler.transform(known))
print(
    f"k-means: {np.bincount(k.predict(scaler.transform(new))).tolist()} of {len(new)} new "
    f"wines in its two clusters"
)
