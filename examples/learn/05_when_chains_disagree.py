"""
When chains disagree
====================

``fit`` issues a ``NotConvergedWarning``, ``m.converged_`` is False, and the first lines of the
report say so. The program has not failed: it has found that the result depends on the starting
point, which a single run of any method would hide. This lesson explains what to do.
"""

# %%
# Too short
# ---------
#
# Usually the chains have not run long enough. We provoke this by running too few sweeps.

from textwrap import fill

from cavity import GaussianMixture
from cavity.datasets import make_student_t

X, truth = make_student_t(200, 6, 2, df=30, separation=5, random_state=1)
short = GaussianMixture(n_clusters=10, n_warmup=2, n_draws=15, random_state=0).fit(X)
for sentence in short.diagnostics().sentences[:5]:  # the first five
    print(fill(f"- {sentence}", 76))
short.posterior_.plot_trace(["log joint", "number of clusters"])

# %%
# R-hat compares the variation between chains with that within them. 1.00 is agreement; above 1.01
# in any quantity, wait. *Effective draws* are the number of independent draws that the correlated
# draws are worth.
#
# **What to do**: wait. With the default ``n_draws="auto"``, chains continue until these checks
# pass. If they reached the limit, continue with ``max_sweeps=60_000`` and the same
# ``checkpoint=``, or with ``cavity fit --out run --resume --max-sweeps 60000``.

longer = GaussianMixture(n_clusters=10, random_state=0, max_sweeps=6_000).fit(X)
print(longer.diagnostics().sentences[0], f"({longer.posterior_.record.n_sweeps} sweeps)")
longer.posterior_.plot_trace(["log joint", "number of clusters"])

# %%
# Two answers
# -----------
#
# Sometimes chains settle in different partitions and stay there. We provoke this by turning off
# moves of whole clusters and starting at random.

stuck = GaussianMixture(
    n_clusters=6,
    options={"moves": False},
    init="random",
    n_warmup=200,
    n_draws=300,
    random_state=3,
).fit(X)
for sentence in stuck.diagnostics().sentences[:4]:
    print(fill(f"- {sentence}", 76))
stuck.posterior_.plot_trace(["log joint"])

# %%
# Each chain has its own level: it has found a different partition. The verdict shows how much they
# differ, compared with the two halves of one chain. If chains have settled, it lists the *modes*
# and the chains in each.
#
# **What to do**, in this order:
#
# 1. Use the defaults: moves, and ``init="dispersed"``. Splits, merges and exchanges take chains
#    out of most local modes.
# 2. Use more chains (``n_chains=8``); chains stuck in negligible modes are then set aside and
#    reported.
# 3. Look at how the modes differ. Often it is one small question: are these two groups one?
# 4. If both partitions are good, *this is the answer*. Report both, with the rows that differ.

default = GaussianMixture(n_clusters=6, random_state=3, max_sweeps=6_000).fit(X)
print(default.diagnostics().sentences[0])

# %%
# The model does not fit
# ----------------------
#
# Chains may also disagree because no partition fits well. Compare the data with data simulated
# from the fit. If they differ, choose another model before you run longer.

print(default.predictive_check(X))

# %%
# The report is due today
# -----------------------
#
# If you cannot wait, one more sentence of the verdict helps: whether *each chain alone* gives the
# same clusters. Chains may agree on the clusters long before they agree on probabilities.

for model in (short, stuck):
    print(fill(f"- {model.diagnostics().meanwhile}", 76))

# %%
# - 0.95 or more between any two chains: the clusters are practically the same. You may show them
#   as *provisional*, without any probabilities.
# - 0.8 to 0.95: the large clusters are the same, and some rows differ. Show only those clusters.
# - Below 0.8: the chains disagree, and you would choose the answer by its seed.
#
# If you need an answer sooner: use fewer columns (leave out those that cannot distinguish groups),
# fit a sample of the rows and assign the others with ``predict``, or allow fewer clusters
# (``n_clusters``), which also changes the answer. State what you did.
#
# Do not choose the run with the nicest plot or a seed that "worked". The chains have shown that
# the answer depends on it.
