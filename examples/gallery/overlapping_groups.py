"""
How wrong could this clustering be?
===================================

**Question.** Three groups that overlap. The labels will have mistakes. How many, and where?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture as EM

from cavity import GaussianMixture

rng = np.random.default_rng(3)
truth = np.repeat([0, 1, 2], 60)
X = np.array([[0.0, 0.0], [3.4, 0.3], [1.6, 3.2]])[truth] + rng.standard_normal((180, 2))
m = GaussianMixture(n_clusters=5, n_warmup=400, n_draws=600, random_state=0).fit(X)
print(m.diagnostics().sentences[0])
p = m.posterior_

# %%
# **Answer.** Each row's probability of being in its own cluster says how many mistakes to expect,
# and the *credible ball* which other partitions are as good:

expected = float((1 - p.observations()["probability"]).sum())
ball = m.partition_.credible_ball(0.9)
print(
    f"{m.n_clusters_} clusters; about {expected:.0f} of {len(X)} rows are elsewhere in a "
    f"typical draw."
)
print(f"90% of all draws lie within {ball.radius:.2f} of the estimate (variation of information).")
print(f"ARI with the truth: {adjusted_rand_score(truth, m.labels_):.2f}")
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
p.plot_clusters(X, ax=axes[0])
p.plot_similarity(ax=axes[1])

# %%
# **The usual tool.** EM's responsibilities are probabilities too, but given *one* estimate of the
# means and covariances. That those are uncertain as well is left out, so that they are too sure:

em = EM(3, n_init=10, random_state=0).fit(X)
responsibility = em.predict_proba(X).max(axis=1)
print(f"EM expects {np.sum(1 - responsibility):.0f} mistakes; ")
print(
    f"rows it is sure of (above 0.95): {np.mean(responsibility > 0.95):.0%}, cavity: "
    f"{np.mean(p.observations()['probability'] > 0.95):.0%}"
)
