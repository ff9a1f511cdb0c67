"""
Reading the report
==================

``m.report("page.html", X)`` and ``cavity fit`` write one HTML page that works offline, so you
can send it to anyone. This lesson writes one and explains it from top to bottom.
"""

# %%
# Four groups and some outliers:

from textwrap import fill

from cavity import StudentTMixture
from cavity.datasets import add_outliers, make_student_t

X, truth = make_student_t(300, 4, 2, df=4, separation=10, random_state=3)
X, is_outlier = add_outliers(X, fraction=0.08, random_state=0)
m = StudentTMixture(n_clusters=10, random_state=0).fit(X)
m.report("report.html", X)
p = m.posterior_

# %%
# .. only:: html
#
#    `Open the report <report.html>`_ in another tab and read along.
#
# Summary and verdict
# -------------------
#
# The report starts with the number of rows, the number of clusters with its probability, the answer
# for other probable numbers (such as "With 2 clusters (25%): clusters 1 and 2 merge."), and the
# **verdict** on convergence. If it does not say "Converged", read
# :doc:`/learn/05_when_chains_disagree` first. Without convergence, the rest of the report means
# little.

for sentence in p.diagnostics().sentences:
    print(fill(sentence, 76))

# %%
# The table of clusters
# ---------------------
#
# ``size`` is the number of rows in the point estimate, ``share`` the same as a fraction.
# ``weight`` is the estimated share of the group in the population, with an interval. It averages
# over draws, in which the matched cluster may be only a part. ``certainty`` is the average
# probability that a member shares its cluster with the other members: near 1, the cluster is
# clear-cut; around 0.6, it is only tentative. If all members have about the same certainty, such as
# 0.77, the whole cluster sometimes splits. ``presence`` is the share of draws that contain a
# matching cluster; half of a cluster also matches.

columns = ["size", "share", "certainty", "presence", "weight", "weight_lower", "weight_upper"]
print(p.summary()[columns].round(2).to_string())

# %%
# Rows in doubt
# -------------
#
# A row is in doubt if the probability of its own cluster is below 0.8. ``alternative`` is the next
# best cluster. ``p_unmatched`` is the probability that the row is in none of the estimate's
# clusters. Click a column to sort by it.

print(p.doubtful().head(6).round(2).to_string())

# %%
# Plots
# -----
#
# **Rows by cluster.** Uncertain rows are faint, rows in doubt are ringed.

p.plot_clusters(X)

# %%
# **Similarity.** Each row and column of the matrix is a row of your table. Dark cells are pairs
# that share a cluster in most draws. Clean blocks are clear clusters. A pale block between two
# dark ones means that they may be one cluster; pale patches inside a block mean that it may fall
# apart. Stripes are rows that could be in several clusters.

p.plot_similarity()

# %%
# **Certainty by cluster.** Each bar is a row, the most certain first. Look for low plateaus
# and long slopes.

p.plot_certainty()

# %%
# **Number of clusters.** Its posterior distribution.

p.plot_n_clusters()

# %%
# **Traces.** The colors should overlap.

p.plot_trace()

# %%
# Outliers
# --------
#
# Some rows are far from all others, so the fit includes a *noise* class: label -1, summarized in
# the last row of the table of clusters. Each row has a probability of being noise. The report also
# lists rows that are more extreme than one row in a table of this size should be. They may be
# errors, or the most interesting rows. Nothing is removed.

outside = m.labels_ == -1
found, added = is_outlier[outside].sum(), is_outlier.sum()
print(f"{outside.sum()} rows are outside every cluster, {found} of them simulated outliers.")
print(f"{added - found} of the {added} simulated outliers are assigned to a cluster.")

# %%
# Settings
# --------
#
# The report ends with settings, seed, versions and the digest of the data: enough to reproduce the
# draws. The command line writes the same to ``run.json``.
#
# What the report does not contain
# --------------------------------
#
# The report does not explain why the groups exist. A cluster is a region with many rows. Whether
# it is a species, a batch or a broken instrument is for you to find out. Start with the columns
# that distinguish it.

for k, words in enumerate(m.distinguishing_features()):
    print(f"cluster {k}: {words}")
