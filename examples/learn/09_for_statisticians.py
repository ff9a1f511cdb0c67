r"""
For statisticians: the model, the priors, and a proof by enumeration
====================================================================

The model, the priors, and a check of the sampler by enumeration. Symbols follow :doc:`/notation`;
:doc:`/maths` has the formulas of every kernel.

The model
---------

Rows :math:`y_1, \dots, y_N \in \mathbb{R}^d`, labels :math:`z_1, \dots, z_N`. Given its cluster a
row is Student-t, a scale mixture of normals,

.. math::

    y_i \mid z_i = k, u_i \sim N(\mu_k, \Sigma_k / u_i),
    \qquad u_i \sim \mathrm{Gamma}(\tau/2, \tau/2),

with :math:`u_i = 1` for ``GaussianMixture``. The degrees of freedom :math:`\tau` have a gamma
prior. Clusters have a normal inverse Wishart prior, in units in which every column has median 0 and
robust standard deviation 1:

.. math::

    \Sigma_k \sim \mathrm{IW}(\nu, c\,S), \qquad c = \nu - d - 1, \qquad
    \mu_k \mid \Sigma_k \sim N(m, \Sigma_k / \kappa),

so :math:`E[\Sigma_k] = S`. The shared parameters are learned:

.. math::

    S \sim \mathrm{Wishart}(d + 2, M / (d + 2)), \quad
    M = \mathrm{diag}(x_1, \dots, x_d) / 10, \quad \sqrt{x_j} \sim \mathrm{C}^+(0, 1),

.. math::

    p(c) = \frac{10}{(10 + c)^2}, \quad
    \kappa \sim \mathrm{Gamma}(1/2, 5), \quad
    m \sim N(0, I).

The number of clusters :math:`K` has :math:`p(K) \propto K^{-2}` for :math:`1 \le K \le K_{\max}`
(``n_clusters``), weights are Dirichlet(:math:`\alpha, \dots, \alpha`) given :math:`K`, and
:math:`\alpha` is exponential with mean 10. Number and weights are summed out: a partition with
blocks of sizes :math:`n_1, \dots, n_t` has prior probability

.. math::

    p(z) = V(t) \prod_{j=1}^{t} \frac{\Gamma(\alpha + n_j)}{\Gamma(\alpha)}, \qquad
    V(t) = \sum_{K \ge t} p(K) \frac{K!}{(K - t)!} \frac{\Gamma(\alpha K)}{\Gamma(\alpha K + N)}.

The sampler
-----------

Gibbs sampling of :math:`z`, with :math:`\mu_k, \Sigma_k` integrated out, one row at a time:
:math:`\Pr(z_i = k \mid z_{-i}, y) \propto p(z_i = k \mid z_{-i})\, p(y_i \mid y_{j}: z_j = k, j
\ne i)`. For Student-t clusters :math:`u_i` is integrated out of the label's draw by quadrature
and then drawn from its conditional, exactly, by rejection. After each sweep there are
Metropolis-Hastings moves of whole clusters (reshuffle, split and merge, pinch, exchange) with
sequential allocation, and conditional draws of all hyperparameters.

The proof
---------

Six values can be partitioned in 203 ways. We compute the exact posterior of all of them, using only
the package's units, and compare it with the frequencies of the sampler. The package's tests do this
for every sampler, prior and move, with negative controls.
"""

# %%
# All hyperparameters are fixed, so the posterior has a closed form. Two values are close, so values
# count as known up to a small recording step, and their positions within it are drawn only once.

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import gammaln, logsumexp

from cavity import GaussianMixture
from cavity.estimators.dequantize import within_steps
from cavity.priors import ClusterPrior, FiniteMixture

X = np.array([[0.02], [0.31], [0.32], [2.04], [2.57], [4.11]])
KAPPA, NU, SCALE, MOST = 0.2, 4.0, 0.15, 4
m = GaussianMixture(
    n_clusters=MOST,
    prior=FiniteMixture(concentration=1.0),
    cluster_prior=ClusterPrior(KAPPA, NU, SCALE),
    n_warmup=200,
    n_draws=6_000,
    random_state=0,
).fit(X)
y = within_steps(m.posterior_.units.standardise(X))[:, 0]  # the values as the model sees them

# %%
# The marginal likelihood of a block, in one dimension, and the prior of a partition:


def log_block(values):
    n, mean = len(values), values.mean()
    kappa, nu, psi = KAPPA + n, NU + n, (NU - 2) * SCALE
    after = psi + ((values - mean) ** 2).sum() + KAPPA * n / kappa * mean**2
    return (
        -0.5 * n * np.log(np.pi)
        + 0.5 * np.log(KAPPA / kappa)
        + gammaln(nu / 2)
        - gammaln(NU / 2)
        + 0.5 * NU * np.log(psi)
        - 0.5 * nu * np.log(after)
    )


def log_prior(sizes, n):
    K = np.arange(len(sizes), MOST + 1)
    terms = (
        -2 * np.log(K) + gammaln(K + 1) - gammaln(K - len(sizes) + 1) + gammaln(K) - gammaln(K + n)
    )
    return logsumexp(terms) + gammaln(np.array(sizes) + 1).sum()


def partitions(n):
    """All partitions as labels in order of first appearance."""
    stack = [(0,)]
    while stack:
        z = stack.pop()
        if len(z) == n:
            yield z
        else:
            stack += [(*z, k) for k in range(max(z) + 2)]


every = [z for z in partitions(len(y)) if max(z) < MOST]
log_p = np.array(
    [
        log_prior(np.bincount(z), len(y)) + sum(log_block(y[np.equal(z, k)]) for k in set(z))
        for z in every
    ]
)
exact = np.exp(log_p - logsumexp(log_p))
print(
    f"{len(every)} partitions with at most {MOST} blocks; the most probable has {exact.max():.3f}."
)

# %%
# How often the chains visited each partition:

visited = m.posterior_.labels.reshape(-1, len(y))
count = dict.fromkeys(every, 0)
for z in visited:
    names = {}
    count[tuple(names.setdefault(k, len(names)) for k in z)] += 1
frequency = np.array([count[z] for z in every]) / len(visited)

distance = 0.5 * np.abs(frequency - exact).sum()
rng = np.random.default_rng(0)
independent = [
    0.5 * np.abs(rng.multinomial(len(visited) // 2, exact) / (len(visited) // 2) - exact).sum()
    for _ in range(200)
]
print(f"Total variation between frequencies and posterior: {distance:.4f}.")
print(
    f"Half as many independent draws have {np.mean(independent):.4f} (at most "
    f"{np.max(independent):.4f} in 200 trials)."
)

fig, ax = plt.subplots(figsize=(6, 4), layout="constrained")
ax.loglog(exact, np.maximum(frequency, 0.3 / len(visited)), "o", ms=4, alpha=0.7)
ax.plot([1e-5, 1], [1e-5, 1], color="0.5", lw=1)
ax.set(
    xlabel="exact posterior probability",
    ylabel="share of draws",
    title="Every partition of six values",
    xlim=(1e-5, 1),
    ylim=(1e-5, 1),
)

# %%
# A check that cannot fail shows nothing. As a negative control, compare the same draws with the
# posterior under a slightly wrong prior: a cluster scale of 0.3 instead of 0.15.

SCALE = 0.3
wrong = np.array(
    [
        log_prior(np.bincount(z), len(y)) + sum(log_block(y[np.equal(z, k)]) for k in set(z))
        for z in every
    ]
)
wrong = np.exp(wrong - logsumexp(wrong))
print(f"Against the wrong posterior: {0.5 * np.abs(frequency - wrong).sum():.4f}.")

# %%
# Other checks
# ------------
#
# - *Slow twins*: every kernel against the same formula in NumPy or SciPy, evidence against
#   adaptive quadrature.
# - *Joint distributions* (Geweke): alternating draws of parameters and data must have the prior's
#   moments; simulation-based calibration of whole samplers.
# - *Log joint density*: one function of the state for every sampler, against SciPy.
# - *Kills and restarts*: a chain that was killed and resumed has the same draws, bit for bit.
#
# Known approximations: ``collapse="ep"``; overdispersed counts in tables; the bounds of a mode's
# mass, which ignore the entropy of hyperparameters; under ``"ep"`` and in sharded data, rounded
# values keep one position within their recording step. See :doc:`/samplers` and :doc:`/maths`.
