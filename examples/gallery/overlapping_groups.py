"""
How wrong could this clustering be?
===================================

**Question.** Three groups overlap, so some labels will be wrong. How many, and which?
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
# **Answer.** The probability of each row's cluster gives the expected number of errors, and the
# *credible ball* contains the plausible partitions:

expected = float((1 - p.observations()["probability"]).sum())
ball = m.partition_.credible_ball(0.9)
print(
    f"{m.n_clusters_} clusters; in a typical draw about {expected:.0f} of {len(X)} "
    f"rows are in another cluster."
)
print(f"90% of all draws lie within {ball.radius:.2f} of the estimate (variation of information).")
print(f"ARI with the truth: {adjusted_rand_score(truth, m.labels_):.2f}")
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
p.plot_clusters(X, ax=axes[0])
p.plot_similarity(ax=axes[1])

# %%
# **The usual tool.** EM's responsibilities are probabilities too, but given *one* estimate of
# means and covariances. Their uncertainty is ignored, so the responsibilities are overconfident:

em = EM(3, n_init=10, random_state=0).fit(X)
responsibility = em.predict_proba(X).max(axis=1)
print(f"EM expects {np.sum(1 - responsibility):.0f} errors; ")
print(
    f"rows with a probability above 0.95: {np.mean(responsibility > 0.95):.0%}, cavity: "
    f"{np.mean(p.observations()['probability'] > 0.95):.0%}"
)
