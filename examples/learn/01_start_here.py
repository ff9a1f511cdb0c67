"""
Start here: from a CSV file to an answer you can defend
========================================================

Five minutes, one plot per step. You have a table, and you think that its rows fall into groups.
At the end you know how many groups there are, which rows are in which group, how certain that
is, and what to report.

You need Python 3.11 or newer and ``pip install cavity``. You do not need to know Bayesian
statistics.
"""

# %%
# Step 1: look at the table
# -------------------------
#
# The table has the length, height and weight of 220 fish. Five rows contain typical errors: a
# misplaced decimal point, two swapped columns. We simulated the data with three species, which are
# not in the file, so we can check the answer at the end.

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

rng = np.random.default_rng(1)
species = rng.choice(["bream", "perch", "smelt"], 220, p=[0.35, 0.5, 0.15])
typical = {"bream": (38.0, 15.0, 6.4), "perch": (29.0, 7.6, 5.9), "smelt": (12.5, 2.2, 2.5)}
rows = []
for name in species:
    length, height, log_weight = typical[name]
    size = rng.standard_t(6)
    rows.append(
        {
            "length": length * np.exp(0.09 * size + 0.02 * rng.standard_normal()),
            "height": height * np.exp(0.09 * size + 0.04 * rng.standard_normal()),
            "weight": np.exp(log_weight + 0.25 * size + 0.1 * rng.standard_normal()),
        }
    )
table = pd.DataFrame(rows).round({"length": 1, "height": 2, "weight": 0})
table.index = pd.Index([f"fish {i}" for i in range(220)], name="fish")
wrong = [20, 77, 101, 150, 180]
table.iloc[[20, 77], 0] *= 10
table.iloc[[101, 150, 180], [0, 1]] = table.iloc[[101, 150, 180], [1, 0]].to_numpy()
table.to_csv("fish.csv")

# %%
# Start here with your own file:

fish = pd.read_csv("fish.csv", index_col="fish")
fish["weight"] = np.log(fish["weight"])  # weights span two orders of magnitude
print(fish.head(3).round(2).to_string())
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.scatter(fish["length"], fish["height"], s=12, color="0.3")
ax.set(xlabel="length, cm", ylabel="height, cm", title="The data")

# %%
# The data need no cleaning. Two fish lie far to the right; leave them in.
#
# Step 2: fit
# -----------
#
# ``n_clusters`` is the largest number of groups you consider possible, not the number you expect:
# groups that the data do not need stay empty. Columns need no scaling. The first fit on a machine
# compiles for a few seconds. A fit takes seconds to minutes and continues until its chains agree.
# ``progress=True`` prints progress in a script. With ``checkpoint="fish.cavity"``, a fit that was
# stopped continues where it left off.

from cavity import GaussianMixture, StudentTMixture

m = StudentTMixture(n_clusters=10, random_state=0).fit(fish)

# %%
# Step 3: check convergence
# -------------------------
#
# The fit ran several *chains*: independent searches from different starting points. If they agree,
# the result does not depend on where they started. Check this before you look at any cluster:

p = m.posterior_
print(p.diagnostics().sentences[0])

# %%
# "Converged" means that the draws can be trusted. It does not mean that the groups are clear.
# Steps 4 and 5 answer that: how many groups, how certain, which rows are in doubt.
#
# In the trace plot, each color is a chain. All colors should cover the same range, without steps
# and without a separate level for one color. If they do not, see
# :doc:`/learn/05_when_chains_disagree`.

p.plot_trace(["log joint", "number of clusters"])

# %%
# Step 4: how many groups?
# ------------------------
#
# Each number of groups has a probability. If the most probable number is the largest that you
# allowed, allow more. See :doc:`/learn/04_how_many_clusters`.

print(p.n_clusters_posterior().round(2).to_string())
p.plot_n_clusters()

# %%
# Step 5: which rows are uncertain?
# ---------------------------------
#
# Colors are clusters. Uncertain points are faint, and a ring marks a row *in doubt*: the
# probability of its cluster is below 0.8.

p.plot_clusters(fish, feature_names=list(fish.columns))

# %%
# The same as a table. The first row reads: this fish is in this cluster with this probability, and
# otherwise most likely in the alternative. (The point estimate considers all rows jointly, so a
# row in doubt need not be in its individually most probable cluster.)

columns = ["cluster", "probability", "alternative", "alternative_probability"]
print(f"{len(p.doubtful())} of {len(fish)} fish are in doubt. The least certain:")
print(p.doubtful(threshold=1.0)[columns].head(5).round(2).to_string())

# %%
# Step 6: describe the groups and find suspicious rows
# ----------------------------------------------------
#
# In which columns does each group differ from the whole table, and by how much? The unit is one
# robust standard deviation of the column.
#
# Some rows are far from all others, so the fit included a noise class for rows outside every
# group. They have label -1 and are the last row of the summary.

sizes = p.summary()["size"]
for k, words in enumerate(m.distinguishing_features()):
    print(f"cluster {k}, {sizes[k]} fish: {words}")
print(f"outside every group: {np.sum(m.labels_ == -1)} fish")

# %%
# Check two kinds of rows: those *outside* every group, and those that are *extreme* even for their
# nearest group. ``tail_probabilities`` is how often a member would be at least as extreme. The
# plot marks the rows that contain our errors; you would find them without knowing.

tail = pd.Series(m.tail_probabilities(fish), index=fish.index)
strange = (m.labels_ == -1) | (tail < 1 / len(fish))
suspects = fish[strange].assign(cluster=m.labels_[strange], tail=tail)
print(suspects.round({"length": 1, "height": 1, "weight": 1, "tail": 4}).to_string())
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.scatter(fish["length"], fish["height"], s=8, color="0.7")
ax.scatter(suspects["length"], suspects["height"], s=26, color="C3", label="to check")
ax.plot(*fish.iloc[wrong, :2].to_numpy().T, "ko", ms=11, mfc="none", label="simulated errors")
ax.set(xscale="log", xlabel="length, cm", ylabel="height, cm")
ax.legend()

# %%
# Step 7: would other choices change the answer?
# ----------------------------------------------
#
# An answer you can defend survives other reasonable choices. Change what a critic would ask about,
# and compare. The adjusted Rand index is 1 for identical partitions and 0 for chance agreement.
# ``max_sweeps`` only keeps this page fast; omit it in your analysis.

from sklearn.metrics import adjusted_rand_score

others = {
    "another seed": StudentTMixture(n_clusters=10, random_state=1, max_sweeps=1_800),
    "at most 20 groups": StudentTMixture(n_clusters=20, random_state=0, max_sweeps=1_800),
    "Gaussian clusters": GaussianMixture(n_clusters=10, random_state=0, max_sweeps=1_800),
}
agreement = {
    name: adjusted_rand_score(m.labels_, other.fit(fish).labels_) for name, other in others.items()
}
fig, ax = plt.subplots(figsize=(6, 2), layout="constrained")
ax.barh(list(agreement), list(agreement.values()), color="C0")
ax.set(xlim=(0, 1), xlabel="agreement with the answer above")
print({name: round(float(value), 2) for name, value in agreement.items()})

# %%
# Step 8: report it
# -----------------
#
# One HTML file contains the text, tables and plots: :doc:`/learn/03_reading_the_report` explains
# one.

m.report("fish.html", fish)

# %%
# And a paragraph for your methods section, with all numbers from the fit:

number = p.n_clusters_posterior()
print(
    f"We clustered {len(fish)} rows with a Student-t mixture (cavity, {m.n_chains} chains, "
    f"{p.record.n_sweeps} sweeps each; {p.diagnostics().sentences[0].rstrip('.').lower()}). "
    f"The posterior has {number.idxmax()} clusters with probability {number.max():.2f}; "
    f"{len(p.doubtful())} rows are assigned with probability below 0.8. Settings that "
    f"differ in seed, largest number of clusters and tails agree with this "
    f"partition to an adjusted Rand index of at least {min(agreement.values()):.2f}."
)

# %%
# Was it right? Only now do we look at the species. In your own data they are unknown, and steps 3
# to 7 take their place.

print(pd.crosstab(species, m.labels_, rownames=["species"], colnames=["cluster"]).to_string())

# %%
# The same without Python
# -----------------------
#
# .. code-block:: bash
#
#     cavity fit fish.csv --id-column fish --clusters 10 --out run
#
# writes ``run/report.html``, ``run/labels.csv`` and all draws. ``cavity compare run other`` is
# step 7: it compares two runs and lists the rows that differ. ``cavity fit --help`` lists the
# options.
#
# Next: :doc:`/learn/02_how_it_works` explains the sampler, :doc:`/choosing` helps to find the
# model for your table, and :doc:`/gallery/index` has more examples.
