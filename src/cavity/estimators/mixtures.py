"""Mixture estimators with scikit-learn's interface: `StudentTMixture` and `GaussianMixture`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from cavity.collapse.mixtures import GaussianProblem, StudentTProblem
from cavity.estimators.cluster_prior import ClusterPrior
from cavity.estimators.row_mixture import RowMixture
from cavity.estimators.structures import tails_of
from cavity.likelihoods.missing import RowTraits


@dataclass(repr=False, eq=False, kw_only=True)
class StudentTMixture(RowMixture):
    """Robust clustering: a mixture of multivariate Student-t distributions, by MCMC.

    Heavy-tailed clusters neither chase outliers nor spend clusters on them. The posterior over
    partitions is sampled by collapsed Gibbs, the intractable integral over each cluster's mean
    and covariance done by drawing each row's scale along with its label (or by expectation
    propagation).

    Parameters
    ----------
    n_clusters : int
        The most clusters there may be: a generous number is safe, for those that the data do not
        need stay empty. Under an open prior, where to start.
    df : "learn", "learn-each" or float
        Degrees of freedom: learned for all clusters together, one per cluster, or fixed. Learned
        ones have a Gamma(2, 0.1) prior. The default adapts to how wild the outliers are.
    collapse : {"collapsed", "ep", "blocked", "naive", "parallel"}
        How cluster parameters are dealt with: integrated out, exactly, given the scale variables
        of the other rows, with each row's own drawn along with its label (``"collapsed"``); by
        expectation propagation (``"ep"``), close and not exact; given scale variables that are
        drawn after each sweep (``"blocked"``); or not (``"naive"``). ``"parallel"`` draws all
        labels side by side given drawn parameters, with splits and merges: exact, for 100,000
        rows and more, shared by `n_jobs` threads or a cluster.
    prior : {"finite", "dirichlet", "fixed", "dp", "pitman-yor"} or a prior from `cavity.priors`
        Prior over partitions. Under ``"finite"`` the number of clusters is unknown, up to
        ``n_clusters``: K with probability proportional to 1 / K^2, and how equal their sizes are
        is learned. ``"dirichlet"`` and ``"fixed"`` have ``n_clusters`` of them, some perhaps empty;
        the last two leave the number open.
    concentration : float, "learn" or None
        Dirichlet parameter of each cluster, or mass of a new cluster under the Dirichlet and
        Pitman-Yor processes. By default it is learned under ``"finite"``, one over ``n_clusters``
        under ``"dirichlet"``, so that clusters which the data do not need stay empty, and 1 under
        the others. A learned one has a Gamma(1, 0.1) prior under ``"finite"`` and
        ``"dirichlet"``, and Gamma(1, 1) under the others.
    n_chains : int
        Independent chains.
    n_warmup : int
        Sweeps before the first draw, at the least; half as many of more than 20,000 rows, with
        ``n_draws="auto"``.
    n_draws : "auto" or int
        ``"auto"``: the chains run until they agree and 400 effective draws are there, or to
        `max_sweeps`; the first third of the sweeps is warm-up, draws are thinned so that at most
        2,000 of each chain are kept, and chains that end in a clustering of negligible mass are set
        aside. A number: so many draws of each chain after `n_warmup` sweeps, and nothing adapts.
    thin : int
        Sweeps per draw; with ``n_draws="auto"`` to begin with.
    max_sweeps : int
        The most sweeps of each chain with ``n_draws="auto"``.
    max_seconds : float, optional
        Stop sampling after so many seconds, with the draws there are by then. How many these are
        depends on the machine, so that the same seed need not give the same draws.
    init : {"dispersed", "k-means++", "random"} or array of labels
        Where chains start: from a k-means of their own, at random, or dispersed. Then each chain
        makes 4 to 16 short runs, every second one from a random start, and goes on with one,
        drawn by the mass of the place it came to; of more than 2,000 rows, or with a warm-up below
        120 sweeps, every second chain starts at random and the others from k-means. So chains
        which agree have not merely begun alike.
    n_jobs : int or None
        Threads. The draws do not depend on it.
    random_state : int, Generator or None
        Seed.
    progress : bool or None
        Progress bars: None shows them on a terminal.
    checkpoint : path, optional
        File to continue from if it exists and to write to; see the guide on long runs.
    keep_warmup : bool
        Keep the labels of the first `n_warmup` sweeps.
    moves : bool
        Try to split, merge, exchange and reshuffle whole clusters after each sweep, where the
        collapse allows it: chains leave modes that one label at a time cannot. They are exact
        under ``"collapsed"`` and approximate, by EP's evidence, under ``"ep"``.
    mean_prior_strength : "learn" or float
        How many observations the prior of a cluster's mean is worth (kappa), learned together
        with the centre of the means, or fixed around the middle of the data.
    covariance_prior_df : "learn" or float
        Degrees of freedom of the inverse Wishart prior (nu): the larger, the more alike the
        clusters' covariances. A fixed one must exceed the number of columns plus 1.
    covariance_prior_scale : {"full", "diagonal"} or float
        Mean of the clusters' covariances: learned as a matrix, or as one variance per column;
        or fixed, as a share of each column's robust variance. The guide has the priors.
    covariance : {"full", "diag", "tied", "factor"}
        Form of the clusters' covariances: a matrix each, a variance for every column (columns are
        independent within a cluster), one matrix that all clusters share, or a diagonal and
        `n_factors` factors each, for tables with tens or hundreds of columns. `loo` compares them.
    n_factors : int, optional
        Factors of every cluster with ``covariance="factor"``. By default as many as stand out
        within clusters of k-means, at most ten.
    noise : bool or "auto"
        Whether rows may be outside every cluster, uniform over a box around the data, with a share
        that has a Beta(1, 19) prior. Their label is -1. With ``"auto"`` they may if at least two
        rows, and one in fifty, lie far from all others (the guide has how far); not under
        ``"ep"`` and ``"parallel"``.
    collapse_options : dict, optional
        For ``collapse="ep"``: ``fraction`` and ``damping`` of site updates (power EP; both 1),
        ``pass_every``: full EP passes every so many sweeps (0: none); ``refresh_every``: the site
        of a row that stays in its cluster is computed anew every so many sweeps (by default
        warm-up finds how many, by how stale the sites become).
    loss : {"omari", "vi", "binder"} or Loss
        What ``labels_`` minimises on average over the posterior: one minus the adjusted Rand
        index, variation of information, Binder's loss, or a `cavity.posterior.Loss` with unequal
        costs. It is no part of the draws: ``posterior_.partition(loss)`` gives any other.

    Attributes
    ----------
    labels_ : array of int, shape (n,)
        The partition that minimises the posterior expected loss; -1 for noise.
    noise_probability_ : array, shape (n,)
        Probability of each row that it is noise, if rows may be; those above a half are.
    n_clusters_ : int
        Its number of clusters.
    partition_ : Partition
        The same with its expected loss and ``credible_ball``.
    posterior_ : Posterior
        All draws, with summaries, diagnostics and plots.
    converged_ : bool
        Whether the diagnostics found the chains to agree.
    weights_, means_, covariances_, df_ : arrays, one row per cluster of ``labels_``
        Posterior means of the clusters' weights, locations, scale matrices and degrees of
        freedom, over the draws in which the cluster has a match.
    cluster_centers_ : array of shape ``(n_clusters_, d)``
        ``means_``, under the name that scikit-learn's clusterers give it.

    Examples
    --------
    >>> from cavity import StudentTMixture
    >>> from cavity.datasets import make_student_t
    >>> X, truth = make_student_t(120, 3, 2, df=4, separation=20, random_state=1)
    >>> m = StudentTMixture(3, n_chains=2, n_warmup=50, n_draws=50, random_state=0).fit(X)
    >>> m.n_clusters_
    3
    >>> m.predict_proba(X[:1]).shape
    (1, 3)
    """

    _model: ClassVar[str] = "student-t"

    collapse: str = "collapsed"
    df: float | str = "learn"

    def _problem(
        self, standard: np.ndarray, prior: ClusterPrior, rows: RowTraits | None = None
    ) -> StudentTProblem:
        return StudentTProblem(standard, prior.niw, prior.updates, *self._tails(), rows=rows)

    def _tails(self) -> tuple[float, str | None]:
        return tails_of(self.df)


@dataclass(repr=False, eq=False, kw_only=True)
class GaussianMixture(RowMixture):
    """Bayesian Gaussian mixture by exactly collapsed (or naive) Gibbs sampling.

    Parameters
    ----------
    n_clusters : int
        The most clusters there may be; under an open prior, where to start.
    collapse : {"collapsed", "naive", "parallel"}
        Integrate cluster parameters out, condition on draws of them, or that with all labels
        drawn side by side, with splits and merges.
    prior, concentration, n_chains, n_warmup, n_draws, thin, max_sweeps, max_seconds, init, \
n_jobs, random_state, progress, checkpoint, keep_warmup, moves, mean_prior_strength, \
covariance_prior_df, covariance_prior_scale, covariance, n_factors, noise
        As for `StudentTMixture`.
    collapse_options : dict, optional
        None are known to these collapses.
    loss : {"vi", "binder", "omari"} or Loss
        As for `StudentTMixture`.

    Attributes
    ----------
    labels_, n_clusters_, partition_, posterior_, converged_, weights_, means_, covariances_, \
cluster_centers_
        As for `StudentTMixture`.

    Examples
    --------
    >>> from cavity import GaussianMixture
    >>> from cavity.datasets import make_student_t
    >>> X, truth = make_student_t(120, 3, 2, df=float("inf"), separation=20, random_state=1)
    >>> m = GaussianMixture(3, n_chains=2, n_warmup=50, n_draws=50, random_state=0).fit(X)
    >>> m.n_clusters_
    3
    """

    _model: ClassVar[str] = "gaussian"

    collapse: str = "collapsed"

    def _problem(
        self, standard: np.ndarray, prior: ClusterPrior, rows: RowTraits | None = None
    ) -> GaussianProblem:
        return GaussianProblem(standard, prior.niw, prior.updates, rows)
