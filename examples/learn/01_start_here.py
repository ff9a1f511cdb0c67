"""
Start here: from a CSV file to an answer you can defend
========================================================

Five minutes, one picture per step. You have a table. You believe that its rows fall into groups.
At the end you know how many groups there are, who is in which, how sure that is, and what to
write down.

You need Python 3.11 or newer and ``pip install cavity``. You need to know nothing about Bayesian
statistics.
"""

# %%
# Step 1: look at the table
# -------------------------
#
# A catch of 220 fish: length, height and weight of each, in a CSV file. Five rows are spoiled the
# way such tables are: a decimal point has slipped, two columns were exchanged. We made the file
# ourselves, with three species in it, so that we can check the answer at the end; the species are
# not in the file.

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
spoiled = [20, 77, 101, 150, 180]
table.iloc[[20, 77], 0] *= 10
table.iloc[[101, 150, 180], [0, 1]] = table.iloc[[101, 150, 180], [1, 0]].to_numpy()
table.to_csv("fish.csv")

# %%
# This is where you begin, with your own file in place of ours:

fish = pd.read_csv("fish.csv", index_col="fish")
fish["weight"] = np.log(fish["weight"])  # weights span a factor of hundred
print(fish.head(3).round(2).to_string())
fig, ax = plt.subplots(figsize=(6, 3.6), layout="constrained")
ax.scatter(fish["length"], fish["height"], s=12, color="0.3")
ax.set(xlabel="length, cm", ylabel="height, cm", title="What was measured")

# %%
# You do not have to clean it first. Two fish lie far to the right; leave them in.
#
# Step 2: fit
# -----------
#
# Two lines. ``n_clusters`` is the most groups you could imagine, not the number you expect:
# groups that the data do not need stay empty. Columns need no scaling. The first fit on a machine
# compiles for some seconds; later ones start at once. A fit takes from seconds to some minutes: it
# goes on until its chains agree. In a script nothing is printed meanwhile (``progress=True``
# prints). With ``checkpoint="fish.cavity"`` a fit that was stopped, or came to its limit, goes on
# from where it was.

from cavity import GaussianMixture, StudentTMixture

m = StudentTMixture(n_clusters=10, random_state=0).fit(fish)

# %%
# Step 3: ask whether you may believe it
# --------------------------------------
#
# The fit ran several *chains*: independent searches from different starting points. If they
# agree, what they agree on does not depend on where they began. Ask before you look at any
# cluster:

p = m.posterior_
print(p.diagnostics().sentences[0])

# %%
# "Converged" is about the search: its draws can be trusted. It does not say that the groups are
# firm. That is what steps 4 and 5 are for: how many, how sure, who is in doubt.
#
# The picture of it: each colour is a chain. You want lines that cover the same ground, like
# grass, with no steps and no lane of its own for one colour. If you see lanes, go to
# :doc:`/learn/05_when_chains_disagree`.

p.plot_trace(["log joint", "number of clusters"])

# %%
# Step 4: how many groups?
# ------------------------
#
# Not one number, but a probability for each. If the most probable number is the largest that you
# allowed, allow more. More in :doc:`/learn/04_how_many_clusters`.

print(p.n_clusters_posterior().round(2).to_string())
p.plot_n_clusters()

# %%
# Step 5: who is where, and who is in doubt?
# ------------------------------------------
#
# Colours are clusters. A faint point is an uncertain one, and a ring marks a row *in doubt*: its
# probability of being in its own cluster is below 0.8.

p.plot_clusters(fish, feature_names=list(fish.columns))

# %%
# The same as a table. Read the first line as: this fish is in this cluster with this probability;
# if not, it is most likely in that one. (The answer weighs all rows together, so that a row in
# doubt need not be where it is most probable by itself.)

columns = ["cluster", "probability", "alternative", "alternative_probability"]
print(f"{len(p.doubtful())} of {len(fish)} fish are in doubt. The least certain of all:")
print(p.doubtful(threshold=1.0)[columns].head(5).round(2).to_string())

# %%
# Step 6: what are the groups, and which rows should be checked?
# --------------------------------------------------------------
#
# In which columns does each group differ from the whole table, and by how much? One unit is a
# (robust) standard deviation of the column.
#
# Some rows lay far from all others, so the fit allowed for rows outside every group, and said so.
# They have label -1 and stand last in the summary, as noise.

sizes = p.summary()["size"]
for k, words in enumerate(m.distinguishing_features()):
    print(f"cluster {k}, {sizes[k]} fish: {words}")
print(f"outside every group: {np.sum(m.labels_ == -1)} fish")

# %%
# Rows deserve a look at the source for two reasons. They are *outside* every group: a rare kind, or
# a mistake. Or they lie *far out* even for the group that is nearest: ``tail_probabilities`` says
# how often a member would. We marked the rows that we had spoiled; you would have found them
# without knowing.

tail = pd.Series(m.tail_probabilities(fish), index=fish.index)
strange = (m.labels_ == -1) | (tail < 1 / len(fish))
suspects = fish[strange].assign(cluster=m.labels_[strange], tail=tail)
print(suspects.round({"length": 1, "height": 1, "weight": 1, "tail": 4}).to_string())
fig, ax = plt.subplots(figsize=(6, 3.4), layout="constrained")
ax.scatter(fish["length"], fish["height"], s=8, color="0.7")
ax.scatter(suspects["length"], suspects["height"], s=26, color="C3", label="to be checked")
ax.plot(*fish.iloc[spoiled, :2].to_numpy().T, "ko", ms=11, mfc="none", label="spoiled by us")
ax.set(xscale="log", xlabel="length, cm", ylabel="height, cm")
ax.legend()

# %%
# Step 7: would another choice have changed the answer?
# -----------------------------------------------------
#
# An answer you can defend survives other defensible choices. Change the ones that a critic would
# ask about, and compare. One means "the same partition", nought means "no better than chance"
# (adjusted Rand index). ``max_sweeps`` only keeps this page quick to build: leave it out of yours,
# so that each of them, too, runs until its chains agree.

from sklearn.metrics import adjusted_rand_score

others = {
    "another seed": StudentTMixture(n_clusters=10, random_state=1, max_sweeps=1_800),
    "room for 20 groups": StudentTMixture(n_clusters=20, random_state=0, max_sweeps=1_800),
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
# Step 8: write it down
# ---------------------
#
# One file with the words, the tables and the pictures, that anybody can open:
# :doc:`/learn/03_reading_the_report` goes through one.

m.report("fish.html", fish)

# %%
# And one paragraph for your text, with every number taken from the fit:

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
# Was it right? Only now we look at the species that we had put aside. On your own table you will
# not have them; steps 3 to 7 are what you have instead.

print(pd.crosstab(species, m.labels_, rownames=["species"], colnames=["cluster"]).to_string())

# %%
# The same without Python
# -----------------------
#
# .. code-block:: bash
#
#     cavity fit fish.csv --id-column fish --clusters 10 --out run
#
# leaves ``run/report.html``, ``run/labels.csv`` and all draws. ``cavity compare run other`` is step
# 7: it says how far two runs agree and who is placed differently. Add ``--noise``, ``--types`` and
# others as you need them (``cavity fit --help``).
#
# Where to go next: :doc:`/learn/02_how_it_works` if you want to know what happened,
# :doc:`/choosing` to find the model for your table, :doc:`/gallery/index` for questions like
# yours.
