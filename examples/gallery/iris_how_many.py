"""
How many species of iris?
=========================

**Question.** 150 flowers, four lengths, three species. How many clusters do the lengths alone
support?
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_iris
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as EM

from cavity import GaussianMixture

iris = load_iris(as_frame=True)
m = GaussianMixture(n_clusters=5, n_warmup=400, n_draws=800, random_state=0).fit(iris.data)
print(m.diagnostics().sentences[0])
p = m.posterior_
print(p.n_clusters_posterior().round(2).to_string())

# %%
# **Answer.** A probability for each number. The point estimate and its uncertain rows:

p.plot_clusters(iris.data, feature_names=list(iris.feature_names))
print(f"{m.n_clusters_} clusters in the estimate, {len(p.doubtful())} flowers in doubt, ")
print(f"ARI with the species {adjusted_rand_score(iris.target, m.labels_):.2f}")

# %%
# **The usual tool.** A Gaussian mixture for each number of components, with BIC to choose:

bic = {k: EM(k, n_init=2, random_state=0).fit(iris.data).bic(iris.data) for k in range(1, 7)}
best = min(bic, key=bic.get)
labels = EM(best, n_init=5, random_state=0).fit_predict(iris.data)
fig, ax = plt.subplots(figsize=(5, 3), layout="constrained")
ax.plot(list(bic), list(bic.values()), "o-")
ax.set(xlabel="components", ylabel="BIC", title=f"BIC selects {best}")
print(
    f"BIC selects {best} components: ARI {adjusted_rand_score(iris.target, labels):.2f}, "
    f"without any uncertainty"
)
