"""
Start here: from a CSV file to a first clustering
=================================================

About five minutes, eight steps. You have a table, and you think that its rows fall into groups.
At the end you know how many groups there are, which rows are in which group, how certain that
is, and what to report.

You need Python 3.11 or newer and ``pip install cavity``. You do not need to know Bayesian
statistics.
"""

# %%
# Step 1: look at the table
# -------------------------
#
# The table has the length, height and weight of 220 fish. Five rows contain typical errors: two
# misplaced decimal points and three pairs of swapped values. We simulated the data with three
# species, which are not in the file, so we can check the answer at the end.

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
# Two fish lie far to the right. Do not delete anything yet: step 6 finds suspicious rows and cells.
# Correct them, or set the wrong cells to NaN, and fit again.
#
# Step 2: fit
# -----------
#
# ``n_clusters`` is the largest number of groups you consider possible, not the number you expect:
# groups that the data do not need stay empty. Columns need no scaling. The first fit on a
# machine also compiles its code, which takes 5 to 25 seconds. A fit takes seconds to minutes and
# continues until its chains agree or ``max_sweeps`` is reached.
# ``progress=True`` prints progress in a script. With ``checkpoint="fish.cavity"``, a fit that was
# stopped continues where it left off.

from cavity import GaussianMixture, StudentTMixture

m = StudentTMixture(n_clusters=10, random_state=0).fit(fish)

# %%
# Step 3: check convergence
# -------------------------
#
# The fit ran several *chains*: independent searches from different starting points. If they agree,
# the starting point did not matter. Check this before you look at any cluster:

p = m.posterior_
print(p.diagnostics().sentences[0])

# %%
# "Converged" means that no sign of disagreement was found; it does not mean that the clusters are
# the kinds you asked about. Steps 4 to 6 show how many groups there are, how certain they are, and
# in which columns they differ.
#
# In the trace plot, each color is a chain. The colors should overlap. Steps are fine if every color
# takes them; a color that stays on a level of its own is not. In that case, see
# :doc:`/learn/05_when_chains_disagree`.

p.plot_trace(["log joint", "number of clusters"])

# %%
# Step 4: how many groups?
# ------------------------
#
# Each number of groups has a probability. If at least 10% of the draws have the largest number that
# you allowed, ``fit`` warns: allow more. ``alternatives`` describes how the clustering would change
# with another number of groups. See :doc:`/learn/04_how_many_clusters`.

print(p.n_clusters_posterior().round(2).to_string())
for other in p.alternatives(least=0.05):
    print(other)
p.plot_n_clusters()

# %%
# Step 5: which rows are uncertain?
# ---------------------------------
#
# Colors are clusters. Uncertain points are faint, and a ring marks a row *in doubt*: the
# probability of its cluster is below 0.8.

p.plot_clusters(fish, feature_names=list(fish.columns))

# %%
# As a table: fish 156 is in cluster 1 with probability 0.88; otherwise it is most likely noise
# (-1). (Labels are chosen for all rows together, so an uncertain row's label need not be its own
# most probable cluster.)

columns = ["cluster", "probability", "alternative", "alternative_probability"]
print(f"{len(p.doubtful())} of {len(fish)} fish are in doubt. The least certain:")
print(p.doubtful(threshold=1.0)[columns].head(5).round(2).to_string())

# %%
# Step 6: describe the groups and find suspicious rows
# ----------------------------------------------------
#
# In which columns does each group differ from the whole table, and by how much? Differences are
# from the median of all rows, in robust standard deviations.
#
# Some rows are far from all others, so the fit included a noise class for rows outside every
# group. These rows have the label -1 and are summarized in the last line.

sizes = p.summary()["size"]
for k, words in enumerate(m.distinguishing_features()):
    print(f"cluster {k}, {sizes[k]} fish: {words}")
print(f"outside every group: {np.sum(m.labels_ == -1)} fish")

# %%
# Check two kinds of rows: those *outside* every group, and those that are *extreme* even for their
# nearest group. ``tail_probabilities`` gives the probability that a true member of the cluster
# lies at least as far out. Circles mark the errors we planted; all five are among the rows to
# check.

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
# ``suspicious_cells`` lists single cells that do not fit the rest of their row. Correct them if you
# can. A cell set to NaN because it looked wrong is not missing at random: blank only values that
# you can show to be errors.

print(m.suspicious_cells(fish).round(4).to_string())

# %%
# Step 7: would other choices change the answer?
# ----------------------------------------------
#
# An answer you can defend survives other reasonable choices. Vary the choices a critic would
# question, and compare. The adjusted Rand index is 1 for identical partitions and 0 for chance
# agreement. We set ``max_sweeps`` only to keep this page fast; omit it in your analysis.

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

from cavity import __version__

number, limits = p.n_clusters_posterior(), p.diagnostics().precision
print(
    f"We clustered {len(fish)} rows with a Bayesian mixture of Student-t distributions (cavity "
    f"{__version__}, at most 10 clusters, default priors) and {m.n_chains} chains of "
    f"{p.record.n_sweeps:,} sweeps. Criteria of convergence: R-hat of at most {limits.rhat_max} "
    f"and an effective sample size of at least {limits.ess_min} for every monitored quantity, and "
    f"R-hat of at most {limits.pair_rhat_max} for 95% of the checked pairs of rows. "
    f"{p.diagnostics().sentences[0]} The posterior has {number.idxmax()} clusters with "
    f"probability {number.max():.2f}; {len(p.doubtful())} rows are assigned with probability "
    f"below 0.8. Refits with another seed, a higher limit and Gaussian clusters gave nearly the "
    f"same partition (adjusted Rand index at least {min(agreement.values()):.2f})."
)

# %%
# Was it right? Only now do we look at the species. You will not have such labels; steps 3 to 7 are
# what you rely on.

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
