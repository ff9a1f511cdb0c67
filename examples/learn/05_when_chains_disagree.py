"""
When chains disagree
====================

``fit`` warns (``NotConvergedWarning``), ``m.converged_`` is False and the report says it in its
first lines. This is not a failure of the program. It is the one thing that a single run of any
other method would never have told you. Here is what it means and what to do.
"""

# %%
# Too short
# ---------
#
# The usual reason: the chains have not run long enough. We force it, with a handful of sweeps.

from textwrap import fill

from cavity import GaussianMixture
from cavity.datasets import make_student_t

X, truth = make_student_t(200, 6, 2, df=30, separation=5, random_state=1)
short = GaussianMixture(n_clusters=10, n_warmup=2, n_draws=15, random_state=0).fit(X)
for sentence in short.diagnostics().sentences[:5]:  # and more of the kind
    print(fill(f"- {sentence}", 76))
short.posterior_.plot_trace(["log joint", "number of clusters"])

# %%
# R-hat compares the spread between chains with that within them: 1.00 is agreement, and above
# 1.01 something differs. It does not matter in which quantity: one above 1.01 is enough to wait.
# *Effective draws* say how many independent ones your correlated draws are worth.
#
# **Do**: nothing but wait. With the default ``n_draws="auto"`` chains go on by themselves until
# these checks pass. If they came to the limit, go on from where they are: ``max_sweeps=60_000``
# with the same ``checkpoint=``, or ``cavity fit --out run --resume --max-sweeps 60000``.

longer = GaussianMixture(n_clusters=10, random_state=0, max_sweeps=6_000).fit(X)
print(longer.diagnostics().sentences[0], f"({longer.posterior_.record.n_sweeps} sweeps)")
longer.posterior_.plot_trace(["log joint", "number of clusters"])

# %%
# Two answers
# -----------
#
# Sometimes chains come to rest in different places, and stay. We make it happen by taking the
# tools away: no moves of whole clusters, and starts that are all over the place.

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
# Lines in lanes of their own: each chain has found a different partition. The verdict says by how
# much they differ, beside how much the halves of one chain do. Where chains have come to rest it
# names the *modes* too, and says which chains are in which; these still move a little.
#
# **Do**, in this order:
#
# 1. Leave the moves on and ``init="dispersed"``, the defaults. Splits, merges and exchanges
#    take chains out of most traps.
# 2. ``n_chains=8``. If a mode was an accident of one start, the others outvote it. With
#    ``n_draws="auto"`` chains in modes of negligible probability are set aside, and the verdict
#    says so.
# 3. Look at what the modes disagree about. Often it is one small question: are these two groups
#    one?
# 4. If both are good partitions, *that is the answer*. Report both, with the rows that differ.

mended = GaussianMixture(n_clusters=6, random_state=3, max_sweeps=6_000).fit(X)
print(mended.diagnostics().sentences[0])

# %%
# The model does not fit
# ----------------------
#
# Chains may also wander because no partition is good. Ask the fit to imitate your data: if data
# drawn from it look different from yours, choose another model before you look for a better
# chain.

print(mended.predictive_check(X))

# %%
# The report is due today
# -----------------------
#
# You cannot wait, and the verdict still says "Not shown to have converged". One more sentence of it
# is for you: it tells whether *each chain alone* gives the same clusters. Chains may agree on the
# answer long before they agree on its probabilities.

for model in (short, stuck):
    print(fill(f"- {model.diagnostics().meanwhile}", 76))

# %%
# 0.95 and more between any two chains: the clusters are the same for all purposes. You may show
# them as *provisional*. Leave out every probability: who is in doubt, how sure, how many. From 0.8
# to 0.95 the large clusters are the same and some rows change sides: show no more than those
# clusters. Below 0.8: two chains tell different stories, and you would be choosing one by its seed.
#
# What helps within the hour, in this order: fewer clusters at most (``n_clusters``), fewer
# columns (leave out those that cannot tell groups apart), and a sample of the rows; the others
# are then assigned by ``predict``. Say in the report what you did.
#
# What not to do: take the run with the prettiest picture, or fix the seed that "worked". The
# chains told you that the answer depends on it.
