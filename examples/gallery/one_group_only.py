"""
Are there groups at all?
========================

**Question.** 442 diabetes patients: body mass index, blood pressure and two blood values.
Somebody has asked for "patient types". Are there any?
"""

import matplotlib.pyplot as plt
from sklearn.cluster import KMeans
from sklearn.datasets import load_diabetes
from sklearn.metrics import silhouette_score
from sklearn.preprocessing import StandardScaler

from cavity import StudentTMixture

X = load_diabetes(as_frame=True, scaled=False).data[["bmi", "bp", "s5", "s6"]]
m = StudentTMixture(n_clusters=5, n_warmup=200, n_draws=400, random_state=0).fit(X)
p = m.posterior_
print(p.n_clusters_posterior().round(2).to_string())

# %%
# **Answer.** Read the probability of one cluster. Where it is large, patients differ by degrees,
# not by type.

p.plot_n_clusters()

# %%
# **The usual tool.** k-means makes as many types as you ask for, and the silhouette, which cannot
# say "one", always finds a best number above one:

scaled = StandardScaler().fit_transform(X)
score = {
    k: silhouette_score(scaled, KMeans(k, n_init=5, random_state=0).fit_predict(scaled))
    for k in range(2, 7)
}
best = max(score, key=score.get)
fig, ax = plt.subplots(figsize=(5, 3.4), layout="constrained")
ax.scatter(
    X["bmi"],
    X["bp"],
    c=KMeans(best, n_init=5, random_state=0).fit_predict(scaled),
    cmap="tab10",
    vmin=0,
    vmax=9,
    s=9,
)
ax.set(xlabel="body mass index", ylabel="blood pressure", title=f'{best} "types" by k-means')
