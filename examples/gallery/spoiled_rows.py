"""
Which rows contain values from another row?
===========================================

**Question.** 178 wines with 13 measurements each. In ten rows, half of the values belong to
another wine, because bottles were swapped between two instruments. Which rows should be checked?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_wine

from cavity import StudentTMixture

bunch = load_wine(as_frame=True)
table, cultivar = bunch.data.copy(), bunch.target.to_numpy()
rng = np.random.default_rng(0)
mixed = rng.choice(len(table), 10, replace=False)
for i in mixed:
    other = rng.choice(np.flatnonzero(cultivar != cultivar[i]))
    table.iloc[i, 6:] = bunch.data.iloc[other, 6:]
spoiled = np.isin(np.arange(len(table)), mixed)
m = StudentTMixture(n_clusters=3, n_warmup=200, n_draws=300, random_state=0).fit(table)
print(m.diagnostics().sentences[0])

# %%
# The run is short, so the chains are not shown to have converged. This is enough to rank the rows,
# but no basis for probabilities; leave out ``n_warmup`` and ``n_draws`` in your analysis.
#
# **Answer.** How often would a member of its nearest cluster lie this far out? The table lists the
# most extreme rows and shows whether they contain values from another row:

tail = pd.Series(m.tail_probabilities(table), index=table.index)
worst = tail.nsmallest(12)
print(pd.DataFrame({"tail": worst.map("{:.6f}".format), "mixed": spoiled[worst.index]}).to_string())
order = np.argsort(tail.to_numpy())
found = np.cumsum(spoiled[order])

# %%
# **The usual tool.** Values more than three standard deviations from the column's mean. But every
# single value in these rows is ordinary; only their combination is not. (For slipped decimal
# points, z-scores work well.)

z = ((table - table.mean()) / table.std()).abs().max(axis=1).to_numpy()
by_z = np.cumsum(spoiled[np.argsort(-z)])
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(np.arange(1, 41), found[:40], label="by tail probability")
ax.plot(np.arange(1, 41), by_z[:40], label="by the largest z-score")
ax.axhline(spoiled.sum(), color="0.7", lw=1)
ax.set(xlabel="rows checked, worst first", ylabel="mixed-up rows found")
ax.legend()
first = int(spoiled.sum())
print(
    f"Of the {first} mixed-up rows, {found[first - 1]} are among the first {first} rows by tail "
    f"probability, and {by_z[first - 1]} by z-scores."
)

# %%
# This is better than z-scores, but poor: most of the mixed-up rows are not among the first ten.
