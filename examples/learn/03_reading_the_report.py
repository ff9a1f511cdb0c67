"""
Reading the report
==================

``m.report("page.html", X)`` and ``cavity fit`` write one HTML page. It needs no network and no
program but a browser, so that you can send it to anybody. This lesson makes one and goes through
it from top to bottom.
"""

# %%
# Four groups and some wild rows, as in the README:

from textwrap import fill

from cavity import StudentTMixture
from cavity.datasets import add_outliers, make_student_t

X, truth = make_student_t(300, 4, 2, df=4, separation=10, random_state=3)
X, is_outlier = add_outliers(X, fraction=0.08, random_state=0)
m = StudentTMixture(n_clusters=4, random_state=0).fit(X)
m.report("report.html", X)
p = m.posterior_

# %%
# .. only:: html
#
#    `Open the report that these lines made <report.html>`_ in another tab and read along.
#
# The first sentences
# -------------------
#
# How many rows, how many clusters with which probability, what the answer would be with another
# number ("If there are 3 (22%): 0 and 2 are one"), and the **verdict**: did the chains agree? If it
# does not begin with "Converged", read :doc:`/learn/05_when_chains_disagree` before you read on.
# Nothing below means much without it.

for sentence in p.diagnostics().sentences:
    print(fill(sentence, 76))

# %%
# The table of clusters
# ---------------------
#
# ``size`` is the number of rows in the estimate, ``share`` the same as a part of all. ``weight`` is
# how large the group is in the world, and has an interval, since that is not known from how many of
# its rows you happened to see. ``certainty`` is the mean probability of its members to be in it:
# near 1, the cluster is a fact; at 0.6 it is a suggestion. ``presence`` is the share of draws that
# have such a cluster at all.

columns = ["size", "share", "certainty", "presence", "weight", "weight_lower", "weight_upper"]
print(p.summary()[columns].round(2).to_string())

# %%
# The rows in doubt
# -----------------
#
# A row is in doubt if the probability of its own cluster is below 0.8. ``alternative`` is where
# else it may belong. ``p_unmatched`` is the probability that it is in none of the estimate's
# clusters. Sort the table by any column with a click.

print(p.doubtful().head(6).round(2).to_string())

# %%
# The pictures
# ------------
#
# **Rows by cluster.** Faint means uncertain, a ring means in doubt.

p.plot_clusters(X)

# %%
# **Who is with whom.** Each row and each column is a row of your table; dark means "together in
# most draws". Clean blocks are clear clusters. A block with a pale copy beside it means two
# clusters that might be one. Stripes are rows that could be in several.

p.plot_similarity()

# %%
# **How sure, cluster by cluster.** Each dot is a row. Look for clusters whose dots hang low.

p.plot_certainty()

# %%
# **How many.** The posterior of the number of clusters.

p.plot_n_clusters()

# %%
# **The chains.** All colours over the same ground is what you want.

p.plot_trace()

# %%
# Far out
# -------
#
# Some of our rows lie so far from everything that the fit has a place for rows which belong to
# nothing: *noise*, label -1, the last line of the table of clusters. Each row has a probability to
# be there. The page also lists rows that lie further out than one row in a table of this size
# should. They may be mistakes, or the most interesting rows you have. Nothing is removed.

outside = m.labels_ == -1
found, added = is_outlier[outside].sum(), is_outlier.sum()
print(f"{outside.sum()} rows are outside every cluster; we added {found} of them.")
print(f"Of the {added} rows that we added, {added - found} are taken for members.")

# %%
# At the end
# ----------
#
# Settings, seed, versions and the digest of the data: enough for somebody else to get the same
# draws. The same is in ``run.json`` of the command line.
#
# What the report does *not* say: why the groups are there. A cluster is a region where rows are
# dense. Whether it is a species, a batch or a broken instrument is for you to find out; the
# columns that set it apart are where to begin.

for k, words in enumerate(m.distinguishing_features()):
    print(f"cluster {k}: {words}")
