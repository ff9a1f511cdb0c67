"""
Which rows of the laboratory's table are spoiled?
=================================================

**Question.** 178 wines with 13 measurements each. Some rows went wrong: a slipped decimal point,
exchanged columns. Which ones should the laboratory check?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cavity import StudentTMixture
from cavity.datasets import load_wine_with_bad_rows

table, truth = load_wine_with_bad_rows(random_state=0)
spoiled = truth.spoiled
m = StudentTMixture(n_clusters=4, n_warmup=200, n_draws=300, random_state=0).fit(table)

# %%
# **Answer.** How often would a member of its nearest cluster lie this far out? Rows below one in
# a hundred, worst first:

tail = pd.Series(m.tail_probabilities(table), index=table.index)
print(tail.nsmallest(8).map("{:.6f}".format).to_string())
order = np.argsort(tail.to_numpy())
found = np.cumsum(spoiled[order])

# %%
# **The usual tool.** Values more than three standard deviations from the column's mean. But the
# spoiled values make the standard deviations large, and a wine may be odd for its cultivar
# without being odd for the whole table.

z = ((table - table.mean()) / table.std()).abs().max(axis=1).to_numpy()
by_z = np.cumsum(spoiled[np.argsort(-z)])
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.plot(np.arange(1, 41), found[:40], label="by tail probability")
ax.plot(np.arange(1, 41), by_z[:40], label="by the largest z-score")
ax.axhline(spoiled.sum(), color="0.7", lw=1)
ax.set(xlabel="rows checked, worst first", ylabel="spoiled rows found")
ax.legend()
first = int(spoiled.sum())
print(
    f"Among the first {first} rows to check: {found[first - 1]} spoiled ones by tails, "
    f"{by_z[first - 1]} by z-scores."
)
