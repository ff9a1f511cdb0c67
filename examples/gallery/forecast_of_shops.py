"""
Forecast sales of new shops
===========================

**Question.** Monthly sales of 24 shops. Six of them opened a year ago and have little data. What
will they sell in the next six months?
"""

import matplotlib.pyplot as plt
import numpy as np

from cavity import SeriesMixture
from cavity.datasets import make_series

Y, truth = make_series(24, 66, n_clusters=2, a=0.95, var_x=0.05, var_y=0.3, random_state=9)
future = Y[:, 60:].copy()
seen = Y[:, :60].copy()
seen[:6, :48] = np.nan  # the new shops
s = SeriesMixture(n_clusters=4, n_warmup=80, n_draws=200, n_chains=2, random_state=0).fit(seen)
print(s.diagnostics().sentences[0])

# %%
# **Answer.** The forecast of a new shop uses the shops that move with it. The band is a 90%
# interval:

ahead = s.forecast(6)
lower, upper = np.asarray(ahead.lower), np.asarray(ahead.upper)
s.plot_series(0, steps=6)
inside = (lower <= future) & (future <= upper)
print(
    f"inside the 90% band: {inside.mean():.0%} of all months, {inside[:6].mean():.0%} of those of "
    f"new shops"
)

# %%
# **The usual tool.** Repeat the last value, or the mean. Errors for the new shops:

mean = np.asarray(ahead.mean)
for name, guess in {
    "cavity": mean[:6],
    "last value": np.repeat(seen[:6, 59:60], 6, axis=1),
    "own mean": np.repeat(np.nanmean(seen[:6], axis=1, keepdims=True), 6, axis=1),
}.items():
    print(f"{name:12s} root mean squared error {np.sqrt(np.mean((guess - future[:6]) ** 2)):.2f}")
fig, ax = plt.subplots(figsize=(6, 3), layout="constrained")
for i in range(3):
    ax.plot(np.arange(48, 60), seen[i, 48:], color=f"C{i}")
    ax.fill_between(np.arange(60, 66), lower[i], upper[i], color=f"C{i}", alpha=0.25)
    ax.plot(np.arange(60, 66), future[i], "o", ms=3, color=f"C{i}")
ax.set(xlabel="month", title="Three new shops: forecasts from month 60 (bands), true sales (dots)")
