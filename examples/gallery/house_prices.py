"""
A house price index for every region
====================================

**Question.** Single house sales in nine regions, some with few sales. How did prices move in
each region?
"""

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from cavity.datasets import make_series
from cavity.hedonic import HedonicIndex

rng = np.random.default_rng(3)
_, truth = make_series(9, 36, 3, a=0.95, loading=0.08, var_x=1e-4, random_state=3, var_x0=0.1)
share = np.r_[np.full(6, 0.15), np.full(3, 0.1 / 3)]
region, month = rng.choice(9, 3000, p=share / share.sum()), rng.integers(0, 36, 3000)
sqft = rng.lognormal(7.4, 0.35, 3000)
log_price = 12.5 + 0.7 * np.log(sqft / 1600) + truth.states[region, month]
sales = pd.DataFrame(
    {
        "sale_date": pd.Timestamp("2010-01-01") + pd.to_timedelta(30.4 * month, "D"),
        "region": [f"tract {r}" for r in region],
        "sqft": sqft,
        "price": np.exp(log_price + 0.15 * rng.standard_normal(3000)),
    }
)
model = HedonicIndex(features=["sqft"], n_clusters=3, n_warmup=80, n_draws=200, random_state=0)
model.fit(sales, sales["price"])
print(model.diagnostics().sentences[0])

# %%
# **Answer.** An index with an interval, for a region with many sales and one with few:

model.plot_index(["tract 0", "tract 8"])
print(model.region_clusters().round(2).to_string())

# %%
# **The usual tool.** The median price per month. It depends on *which* houses were sold, and with
# few sales it is mostly noise:

fig, ax = plt.subplots(figsize=(7, 3), layout="constrained")
for name, color in (("tract 0", "C0"), ("tract 8", "C1")):
    one = sales[sales["region"] == name]
    median = one.groupby(one["sale_date"].dt.to_period("M"))["price"].median()
    ax.plot(
        median.index.to_timestamp(),
        median / median.iloc[0] * 100,
        color=color,
        label=f"{name}, {len(one)} sales",
    )
ax.set(ylabel="median price, first month 100")
ax.legend()
