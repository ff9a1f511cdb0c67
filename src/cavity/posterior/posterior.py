"""Draws of partitions and what they say: the object every fit ends in."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior import plots
from cavity.posterior.draws import as_labels, size_summaries
from cavity.posterior.estimate import Partition, find_partition, usual_clusters
from cavity.posterior.groups import CUT, Merges, grouped
from cavity.posterior.losses import DEFAULT, Loss, as_loss
from cavity.posterior.record import LEVEL, ROWS_BEHIND_WEIGHTS, RunRecord
from cavity.posterior.relabel import given_matched
from cavity.posterior.units import Converted, Units
from cavity.posterior.view import THRESHOLD, View
from cavity.utils.text import count

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.comparison import Comparison
    from cavity.posterior.diagnostics import Diagnostics
    from cavity.posterior.estimate import Alternative
    from cavity.posterior.regression import Regression
    from cavity.posterior.relabel import Relabelling


def _numeric(value: Any, name: str, head: tuple[int, ...]) -> Any:
    """Return `value` as a numeric array whose shape starts with `head`; None stays None."""
    if value is None:
        return None
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise TypeError(f"{name} must be numeric, got {array.dtype}")
    if array.shape[: len(head)] != head:
        raise ValueError(f"{name} must start with shape {head} as the labels do; got {array.shape}")
    return array


def _check_cut(overlap: float) -> float:
    if not (isinstance(overlap, int | float | np.number) and 0.0 < overlap <= 1.0):
        raise ValueError(f"overlap must be above 0 and at most 1; got {overlap!r}")
    return float(overlap)


class Posterior:
    """Draws of partitions, with whatever else was drawn, and the answers they give.

    Parameters
    ----------
    labels : array of int, shape (chain, draw, n)
        Cluster of each observation in each kept draw. The values are slots: they need not be
        contiguous, and `parameters` with a cluster axis are indexed by them.
    log_joint : array, shape (chain, draw), optional
    sweep_seconds : array, shape (chain, sweep), optional
        Wall time of every sweep, warm-up included.
    labels_warmup : array of int, shape (chain, warm-up sweep, n), optional
    parameters : mapping of str to array, optional
        Each of shape (chain, draw, ...), or (chain, draw, cluster, ...) for the names in
        `cluster_parameters`, NaN where a cluster is empty.
    cluster_parameters : sequence of str
        The names in `parameters` that have a cluster axis.
    events : mapping of str to array of shape (chain,), optional
        Counters of the sampler, such as ``invalid_cavities``.
    point_log_lik : array, shape (chain, draw, n), optional
        Log density of each observation given the draw's parameters, its label integrated out.
    names : sequence, optional
        Names of the observations.
    record : RunRecord, optional
        How the run was made.
    units : ColumnUnits or SeriesUnits, optional
        What the units of `parameters` are in the data's, where the two differ.
    summaries : mapping of str to array, optional
        Whatever else the estimator needs to answer later: running moments, data.

    Attributes
    ----------
    drawn : dict of str to array
        Parameters as they were drawn, in the model's units.
    parameters : mapping of str to array
        The same in the data's units, converted when asked for.

    Examples
    --------
    >>> import numpy as np
    >>> p = Posterior.from_labels([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, 1]])
    >>> p.partition().labels
    array([0, 0, 1, 1])
    >>> p.similarity()[0].round(2).tolist()
    [1.0, 1.0, 0.33000001311302185, 0.0]
    """

    def __init__(
        self,
        labels: Any,
        *,
        log_joint: Any = None,
        sweep_seconds: Any = None,
        labels_warmup: Any = None,
        parameters: Mapping[str, Any] | None = None,
        cluster_parameters: Iterable[str] = (),
        events: Mapping[str, Any] | None = None,
        point_log_lik: Any = None,
        names: Sequence[Any] | np.ndarray | None = None,
        record: RunRecord | None = None,
        units: Units | None = None,
        summaries: Mapping[str, Any] | None = None,
    ) -> None:
        self.labels = as_labels(labels, ndim=(3,))
        chains, draws, n = self.labels.shape
        head = (chains, draws)
        self.log_joint: np.ndarray | None = _numeric(log_joint, "log_joint", head)
        if self.log_joint is not None and self.log_joint.shape != head:
            raise ValueError(f"log_joint must have shape {head}; got {self.log_joint.shape}")
        self.sweep_seconds: np.ndarray | None = _numeric(sweep_seconds, "sweep_seconds", (chains,))
        self.labels_warmup = None
        if labels_warmup is not None and np.size(labels_warmup):
            self.labels_warmup = as_labels(labels_warmup, ndim=(3,), what="labels_warmup")
            if self.labels_warmup.shape[::2] != (chains, n):
                raise ValueError(
                    f"labels_warmup must have shape ({chains}, warm-up sweep, {n}); "
                    f"got {self.labels_warmup.shape}"
                )
        self.drawn: dict[str, np.ndarray] = {
            str(name): _numeric(value, f"parameters[{name!r}]", head)
            for name, value in (parameters or {}).items()
        }
        self.units = units
        self.parameters: Mapping[str, np.ndarray] = Converted(self.drawn, units)
        self.cluster_parameters = tuple(cluster_parameters)
        self._check_cluster_parameters()
        self.events: dict[str, np.ndarray] = {
            str(name): _numeric(value, f"events[{name!r}]", (chains,))
            for name, value in (events or {}).items()
        }
        self.point_log_lik: np.ndarray | None = _numeric(
            point_log_lik, "point_log_lik", (chains, draws, n)
        )
        self.names = self._check_names(names, n)
        self.record = RunRecord("") if record is None else record
        self.summaries = {str(k): np.asarray(v) for k, v in (summaries or {}).items()}
        self._partitions: dict[tuple, Partition] = {}
        self._alternatives: dict[tuple[bytes, float], list[Alternative]] = {}
        self._views: dict[bytes, View] = {}
        self._groups: dict[float, Posterior] = {}

    def _check_cluster_parameters(self) -> None:
        top = int(self.labels.max())
        for name in self.cluster_parameters:
            if name not in self.drawn:
                raise ValueError(f"cluster_parameters names {name!r}, which parameters has not")
            shape = self.drawn[name].shape
            if len(shape) < 3 or shape[2] <= top:
                raise ValueError(
                    f"parameters[{name!r}] has shape {shape}; its third axis must be the cluster "
                    f"slot and reach the largest label, {top}"
                )

    @staticmethod
    def _check_names(names: Any, n: int) -> np.ndarray | None:
        if names is None:
            return None
        array = np.asarray(names)
        if array.ndim != 1:
            # Rows named by tuples (a pandas MultiIndex) become text.
            array = np.array([str(name) for name in names])
        if array.dtype.kind not in "iu":
            array = np.array([str(name) for name in array.tolist()])
        if len(array) != n:
            raise ValueError(f"names has {len(array)} entries for {n} observations")
        return array

    @property
    def n_chains(self) -> int:
        """Number of chains."""
        return self.labels.shape[0]

    @property
    def n_draws(self) -> int:
        """Number of kept draws of each chain."""
        return self.labels.shape[1]

    @property
    def n_observations(self) -> int:
        """Number of observations."""
        return self.labels.shape[2]

    @property
    def noun(self) -> str:
        """What one observation is called: "row", "series", or "observation" if it is not known."""
        return self.record.noun if self.record.model else "observation"

    @property
    def level(self) -> str:
        """What its labels number: ``"cluster"``, or ``"group"`` in what `groups` returns."""
        return str(self.record.details.get(LEVEL, "cluster"))

    @property
    def flat_labels(self) -> np.ndarray:
        """Labels of all chains' draws, one after the other: (chain * draw, n)."""
        return self.labels.reshape(-1, self.n_observations)

    @cached_property
    def _sizes(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        head = self.labels.shape[:2]
        n_clusters, largest, entropy = size_summaries(self.flat_labels)
        return n_clusters.reshape(head), largest.reshape(head), entropy.reshape(head)

    @property
    def n_occupied(self) -> np.ndarray:
        """Number of occupied clusters in each draw, (chain, draw)."""
        return self._sizes[0]

    @property
    def largest_cluster(self) -> np.ndarray:
        """Size of the largest cluster in each draw, (chain, draw)."""
        return self._sizes[1]

    @property
    def size_entropy(self) -> np.ndarray:
        """Entropy of the cluster sizes in each draw (nats), (chain, draw)."""
        return self._sizes[2]

    @classmethod
    def from_labels(cls, draws: Any, **other: Any) -> Posterior:
        """Take the draws of any sampler.

        Parameters
        ----------
        draws : array of int, shape (draw, n) or (chain, draw, n)
            Labels; each draw may use names of its own.
        **other
            Anything the constructor takes.

        Examples
        --------
        >>> Posterior.from_labels([[3, 3, 9], [1, 1, 1]]).n_draws
        2
        """
        labels = as_labels(draws, ndim=(2, 3), what="draws")
        return cls(labels[None] if labels.ndim == 2 else labels, **other)

    def __repr__(self) -> str:
        return (
            f"<Posterior: {count(self.n_chains, 'chain')} of {count(self.n_draws, 'draw')}, "
            f"{count(self.n_observations, self.noun)}>"
        )

    def _repr_html_(self) -> str:
        from cavity.posterior.notebook import posterior_html

        return posterior_html(self)

    def n_clusters_posterior(self) -> pd.Series:
        """Posterior probability of each number of occupied clusters, noise not counted.

        Examples
        --------
        >>> Posterior.from_labels([[0, 0], [0, 1], [1, 0], [0, 1]]).n_clusters_posterior().to_dict()
        {1: 0.25, 2: 0.75}
        """
        import pandas as pd

        values, counts = np.unique(self.n_proper, return_counts=True)
        index = pd.Index(values, name="n_clusters")
        return pd.Series(counts / counts.sum(), index=index, name="probability")

    @cached_property
    def n_proper(self) -> np.ndarray:
        """Number of occupied clusters in each draw, noise not counted, shape (chain, draw)."""
        if not self.record.noise:
            return self.n_occupied
        return self.n_occupied - (self.labels == 0).any(axis=2)

    @cached_property
    def chain_agreement(self) -> np.ndarray:
        """Adjusted Rand index between the answers that each chain alone gives, (chain, chain)."""
        from cavity.posterior.diagnostics import answers_of_chains

        return answers_of_chains(self)

    def alternatives(self, partition: Any = None, *, least: float = 0.1) -> list[Alternative]:
        """Describe the clustering for other numbers of clusters than the estimate's.

        For each other number that enough draws have: the estimate among those draws, and how it
        differs, in words.

        Parameters
        ----------
        partition : Partition or labels, optional
            What they are compared with; the point estimate by default.
        least : float
            Numbers less probable than this are omitted, and at most two are returned.

        Returns
        -------
        list of Alternative
            Each with ``n_clusters``, ``probability``, ``partition`` and ``difference``.

        Examples
        --------
        >>> two, three = [0, 0, 0, 1, 1, 1, 1], [0, 0, 0, 1, 1, 2, 2]
        >>> p = Posterior.from_labels([three] * 3 + [two])
        >>> print(*p.alternatives())
        With 2 clusters (25%): clusters 1 and 2 merge.
        """
        from cavity.posterior.estimate import find_alternatives

        view = self.view(partition)
        key = (view.labels.tobytes(), least)
        if key not in self._alternatives:
            self._alternatives[key] = find_alternatives(view, least)
        return self._alternatives[key]

    def similarity(
        self,
        rows: Any = None,
        *,
        sparse: bool = False,
        threshold: float = 0.05,
        max_bytes: int | None = None,
    ) -> Any:
        """Posterior probability that two observations share a cluster.

        Parameters
        ----------
        rows : array of int or mask, optional
            Only these rows: the answer has shape (len(rows), n).
        sparse : bool
            Return a SciPy CSR matrix of the entries that reach `threshold`, computed by blocks.
        threshold : float
            Smallest similarity kept in the sparse form.
        max_bytes : int, optional
            Most memory a dense answer may take; 70% of what is free by default.

        Returns
        -------
        array of float32 or scipy.sparse.csr_matrix

        Raises
        ------
        MemoryError
            If a dense answer does not fit; the message says what does.
        """
        from cavity.posterior.similarity import similarity

        return similarity(
            self.flat_labels, rows=rows, sparse=sparse, threshold=threshold, max_bytes=max_bytes
        )

    @property
    def loss(self) -> Loss:
        """The loss that the estimate minimizes unless another is asked for: that of the fit."""
        return as_loss(self.record.settings.get("loss", DEFAULT))

    def partition(self, loss: str | Loss | None = None, **options: Any) -> Partition:
        """The partition that minimizes posterior expected loss, searched over all partitions.

        Parameters
        ----------
        loss : {"vi", "binder", "omari"} or Loss, optional
            Variation of information, Binder's loss, one minus the adjusted Rand index, or a
            `cavity.posterior.Loss` with unequal costs; by default that of the fit.
        **options
            `random_state`, `n_restarts`, `max_clusters`: see
            `cavity.posterior.estimate.find_partition`. Unless `max_clusters` says otherwise
            the estimate has no more clusters than the draws have at the median: without that
            limit, a loss that counts pairs leaves rows that could be anywhere alone in clusters
            that no draw has.

        Returns
        -------
        Partition
        """
        chosen = self.loss if loss is None else as_loss(loss)
        options.setdefault("max_clusters", usual_clusters(self.n_occupied))
        key = (chosen, *sorted(options.items()))
        if key not in self._partitions:
            self._partitions[key] = find_partition(self.flat_labels, chosen, **options)
        return self._partitions[key]

    @cached_property
    def _merges(self) -> Merges:
        return Merges(self)

    def groups(self, overlap: float = CUT) -> Posterior:
        """Merge clusters that overlap, within each draw: the posterior over groups.

        Several clusters may describe one group that is skewed or curved. Groups have any shape;
        what separates two of them is a gap.

        Parameters
        ----------
        overlap : float
            Clusters that overlap at least so much are one group, and so are clusters linked by a
            chain of such pairs. The overlap of two clusters is the density of rows halfway
            between their centers relative to the density at the sparser center: 0 if there is a
            gap, 1 if there is no dip. See the page on groups.

        Returns
        -------
        Posterior
            Over groups, in at most 300 of the draws, with every method. Parameters of clusters
            stay behind.

        Examples
        --------
        >>> near = np.array([[[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]]])
        >>> known = {"overlap": near, "overlap_draws": [0]}
        >>> p = Posterior.from_labels([[0, 0, 1, 1, 2]], summaries=known)
        >>> p.groups().partition().labels
        array([0, 0, 0, 0, 1])
        """
        cut = _check_cut(overlap)
        if cut not in self._groups:
            self._groups[cut] = grouped(self, self._merges, cut)
        return self._groups[cut]

    def group_tree(
        self, partition: Any = None, *, overlap: float = CUT, level: float = 0.95
    ) -> pd.DataFrame:
        """Return the merges of clusters into groups, the closest pair first.

        Parameters
        ----------
        partition : Partition or labels, optional
            The point estimate by default.
        overlap : float
            Cut for the probability.
        level : float
            Probability of the intervals.

        Returns
        -------
        DataFrame
            One row per merge: the clusters ``left`` and ``right``, the ``overlap`` at which they
            join (mean over the draws that have both) with ``lower`` and ``upper``, and the
            ``probability`` that they are in one group.

        Examples
        --------
        >>> near = np.array([[[1.0, 0.9, 0.0], [0.9, 1.0, 0.0], [0.0, 0.0, 1.0]]])
        >>> known = {"overlap": near, "overlap_draws": [0]}
        >>> p = Posterior.from_labels([[0, 0, 1, 1, 2]], summaries=known)
        >>> p.group_tree()[["left", "right", "overlap", "probability"]]
             left right  overlap  probability
        0    (0,)  (1,)      0.9          1.0
        1  (0, 1)  (2,)      0.0          0.0
        """
        from cavity.posterior.relabel import check_level

        return self._merges.tree(partition, _check_cut(overlap), check_level(level))

    plot_group_tree = plots.plot_group_tree
    plot_similarity = plots.plot_similarity
    plot_dendrogram = plots.plot_dendrogram
    plot_trace = plots.plot_trace
    plot_n_clusters = plots.plot_n_clusters
    plot_certainty = plots.plot_certainty
    plot_clusters = plots.plot_clusters

    @property
    def has_partition(self) -> bool:
        """Whether the default estimate was searched for already, so that `partition` is quick."""
        return (self.loss, ("max_clusters", usual_clusters(self.n_occupied))) in self._partitions

    def _estimate(self, partition: Partition | Any | None) -> np.ndarray:
        """Labels of the partition asked about; the estimate by default."""
        if partition is None:
            return self.partition().labels
        labels = as_labels(np.asarray(partition), ndim=(1,), what="partition")
        if len(labels) != self.n_observations:
            raise ValueError(
                f"partition has {len(labels)} observations, the draws have {self.n_observations}"
            )
        if isinstance(partition, Partition):
            return labels.astype(np.int64)
        return np.unique(labels, return_inverse=True)[1].reshape(-1)

    def view(self, partition: Any = None, threshold: float = THRESHOLD) -> View:
        """What the draws say of a partition (the point estimate by default), computed once.

        Tables, pictures and reports read from it; see `cavity.posterior.view.View`.

        Parameters
        ----------
        partition : Partition or labels, optional
        threshold : float
            Which observations are in doubt: see `doubtful`.
        """
        c = self._estimate(partition)
        key = c.tobytes()
        view = self._views.pop(key, None) or View.of(self, c)
        # The two latest are kept: the matched draws of each are as large as the draws.
        self._views = {**dict(list(self._views.items())[-1:]), key: view}
        return view if threshold == view.threshold else replace(view, threshold=threshold)

    def relabel(self, partition: Any = None) -> Relabelling:
        """Match every draw's clusters to those of a partition (the point estimate by default).

        Returns
        -------
        Relabelling
            ``labels`` (chain * draw, n) in the partition's names, -1 where a draw's cluster
            matches none; ``slots`` the draw's own label of each cluster; ``targets`` the cluster
            of each of the draw's own labels.
        """
        return self.view(partition).relabelling

    def allocation_probabilities(self, partition: Any = None) -> np.ndarray:
        """Probability of each observation in each cluster of a partition, (n, K).

        From relabelled draws, given that the observation is in one of these clusters: rows sum to
        one, as those of an estimator's ``predict_proba``. `observations` has the share of draws in
        which its cluster matches none, ``p_unmatched``.
        """
        return given_matched(self.view(partition).relabelling.probabilities)

    def parameter_summary(
        self, name: str, partition: Any = None, *, level: float = 0.95
    ) -> dict[str, np.ndarray]:
        """Posterior mean, sd and interval of a cluster parameter, per cluster of a partition.

        Parameters
        ----------
        name : str
            One of `cluster_parameters`.
        partition : Partition or labels, optional
            The point estimate by default.
        level : float
            Probability of the interval.

        Returns
        -------
        dict
            ``mean``, ``sd``, ``lower``, ``upper``, each of shape (cluster, ...), over the draws
            in which the cluster has a match.
        """
        from cavity.posterior.relabel import population_weights, relabelled_parameter

        if name not in self.cluster_parameters:
            known = ", ".join(self.cluster_parameters) or "none were kept"
            raise KeyError(f"{name!r} is not a cluster parameter; there are: {known}")
        values = self.parameters[name]
        flat = values.reshape(-1, *values.shape[2:])
        found = relabelled_parameter(flat, self.relabel(partition), level)
        n_rows = self.record.details.get(ROWS_BEHIND_WEIGHTS)
        if name != "weight" or n_rows is None:
            return found
        # What is kept is expected given the sizes; how far off the sizes may be comes on top.
        drawn = relabelled_parameter(
            population_weights(flat, n_rows), self.relabel(partition), level
        )
        return drawn | {"mean": found["mean"]}

    @property
    def tabled_parameters(self) -> tuple[str, ...]:
        """Cluster parameters whose means are worth a table.

        Those of factors of series are not: a factor and its loadings may both change sign from
        draw to draw, so that its mean is zero at every time. ``factors_`` has them with
        their signs aligned.
        """
        curves = self.record.details.get("curves", ())
        return tuple(name for name in self.cluster_parameters if name not in curves)

    def observations(self, partition: Any = None) -> pd.DataFrame:
        """Cluster of each observation, its probability and the best alternative.

        Returns
        -------
        DataFrame
            One row per observation: ``cluster`` (-1 for noise); its ``probability``, the share of
            draws that put the observation in the draw's cluster matched to it; ``certainty``, the
            probability of sharing a cluster with a member of its own cluster chosen at random (of
            being alone, for a cluster of one); ``alternative``, the other cluster that most draws
            put it in (-1 for noise, NA for none), with ``alternative_probability``; and
            ``p_unmatched``, the share of draws that put it in a cluster that matches none.

        Examples
        --------
        >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1]])
        >>> p.observations()["certainty"].round(2).tolist()
        [0.83, 0.83, 0.67, 1.0, 1.0]
        """
        from cavity.posterior.summary import allocation_table

        return allocation_table(self.view(partition))

    def doubtful(self, threshold: float = THRESHOLD, partition: Any = None) -> pd.DataFrame:
        """Observations whose place is in doubt, the least probable first, with the alternatives.

        An observation is in doubt if the probability of its own cluster, over matched draws, is
        below the threshold.

        Parameters
        ----------
        threshold : float
        partition : Partition or labels, optional
            The point estimate by default.

        Returns
        -------
        DataFrame
            Rows of `observations`.

        Examples
        --------
        >>> p = Posterior.from_labels([[0, 0, 0, 1, 1], [0, 0, 1, 1, 1], [0, 0, 0, 1, 1]])
        >>> p.doubtful().index.tolist()
        [2]
        """
        from cavity.posterior.summary import doubtful_table

        return doubtful_table(self.view(partition, threshold))

    def summary(self, partition: Any = None, *, level: float = 0.95) -> pd.DataFrame:
        """One row per cluster of a partition (the point estimate by default).

        Parameters
        ----------
        partition : Partition or labels, optional
        level : float
            Probability of the intervals.

        Returns
        -------
        DataFrame
            ``size``, ``share``; ``certainty``, the mean over members; ``presence``, the share of
            draws with a matching cluster; over those draws the posterior mean and interval of the
            match's size, and whether the interval holds the estimate's own size
            (``size_in_interval``); and mean and interval of each cluster parameter of up to 12
            components (larger ones: `parameter_summary`).
        """
        from cavity.posterior.summary import cluster_table

        return cluster_table(self.view(partition), level)

    def agreement(self, labels: Any, partition: Any = None) -> pd.Series:
        """Agreement of a partition (the point estimate by default) with given labels.

        Returns
        -------
        Series
            ``nmi`` and ``ari`` by scikit-learn, ``vi`` in nats; and ``expected_ari``,
            ``expected_vi``, the averages over draws.

        Examples
        --------
        >>> p = Posterior.from_labels([[0, 0, 1, 1], [0, 0, 1, 1]])
        >>> float(p.agreement(["a", "a", "b", "b"])["ari"])
        1.0
        """
        from cavity.posterior.comparison import agreement

        return agreement(self, labels, self._estimate(partition))

    def regress(self, covariates: Any, partition: Any = None, **options: Any) -> Regression:
        """Regress cluster membership on covariates that were not used for clustering.

        A multinomial logistic regression in which membership stays latent, so that uncertain rows
        do not pull its slopes towards zero. Intervals are those of a Bayesian bootstrap.

        Parameters
        ----------
        covariates : DataFrame or array, shape (n, q)
            Numbers, or categories as text, booleans or pandas categoricals. Rows with a missing
            value are left out, and counted.
        partition : Partition or labels, optional
            Clusters to compare; the point estimate by default.
        **options
            `reference` (0), the cluster that log odds compare with; `level` (0.9) of the
            intervals; `n_draws` (400); `random_state` (0).

        Returns
        -------
        Regression
            ``table``, ``differences``, ``draws`` and ``plot()``; print it.

        Examples
        --------
        >>> import numpy as np
        >>> age = np.arange(40.0)
        >>> p = Posterior.from_labels([(age + shift > 20).astype(int) for shift in (0, 1, 2)])
        >>> bool(p.regress(age).table.loc[("1", "covariates"), "p_positive"] > 0.9)
        True
        """
        from cavity.posterior.regression import regress

        return regress(self, covariates, partition, **options)

    def outcome(self, y: Any, partition: Any = None, **options: Any) -> Regression:
        """Compare an outcome that was not used for clustering between clusters.

        Means of numbers, shares of categories, corrected for uncertain membership without any
        assumption on their distribution. Intervals are those of a Bayesian bootstrap.

        Parameters
        ----------
        y : Series or array, shape (n,)
            Numbers, or categories. Rows without a value are left out, and counted.
        partition : Partition or labels, optional
            Clusters to compare; the point estimate by default.
        **options
            `level` (0.9) of the intervals; `n_draws` (1000); `random_state` (0).

        Returns
        -------
        Regression
            ``table``, ``differences``, ``draws`` and ``plot()``; print it.

        Examples
        --------
        >>> p = Posterior.from_labels([[0] * 5 + [1] * 5] * 2)
        >>> p.outcome([1.0] * 5 + [3.0] * 5).table["mean"].round(1).tolist()
        [1.0, 3.0]
        """
        from cavity.posterior.regression import outcome

        return outcome(self, y, partition, **options)

    def compare(self, other: Posterior) -> Comparison:
        """Compare with another fit of the same observations."""
        from cavity.posterior.comparison import compare

        return compare(self, other)

    def diagnostics(
        self,
        *,
        n_pairs: int = 100,
        n_rows: int = 200,
        precision: str | None = None,
        random_state: int = 0,
    ) -> Diagnostics:
        """Whether the draws can be trusted, on quantities that relabelling cannot change.

        Parameters
        ----------
        n_pairs : int
            Pairs of observations, fixed and random, whose co-clustering is checked.
        n_rows : int
            Observations, fixed and random, on which the chains' similarities are compared.
        precision : {"draft", "report"}, optional
            Precision to compare with; by default that of the run. A report needs R-hat of at most
            1.01 and 400 effective draws (100 per chain if that is more), a draft 1.05 and 100 (25).
        random_state : int
            Seed of the fixed random sets.

        Returns
        -------
        Diagnostics
            ``converged``, ``verdict`` in plain words, ``table``, ``events`` and more; print it.
        """
        from cavity.posterior.convergence import PRECISIONS
        from cavity.posterior.diagnostics import diagnose

        wanted = self.record.precision if precision is None else precision
        if wanted not in PRECISIONS:
            raise ValueError(f"precision must be 'draft' or 'report', not {wanted!r}.")
        return diagnose(self, n_pairs, n_rows, PRECISIONS[wanted], random_state)

    def loo(self, **options: Any) -> Any:
        """PSIS-LOO of the observations through ArviZ, from `point_log_lik`.

        Few posteriors hold these log densities, which are as large as the labels times eight: an
        estimator computes them when asked, with ``estimator.loo(X)``.

        Parameters
        ----------
        **options
            Of ArviZ's ``loo``.
        """
        from cavity.posterior.arviz import loo

        return loo(self, **options)

    def to_arviz(self) -> Any:
        """The draws for ArviZ: InferenceData with ArviZ 0.x, xarray DataTree with 1.x.

        Labels and cluster parameters are relabelled to the estimate, so that a cluster means
        the same in every draw.

        Returns
        -------
        InferenceData or DataTree
            Groups: ``posterior``, what can be summarised and traced as it is, namely scalars that
            do not depend on labels and parameters of up to 12 numbers that are there in every
            draw; ``constants``, those of them that never change, for which ArviZ has no answer;
            ``cluster_parameters``, all of them, NaN where a draw has no such cluster;
            ``parameters``, what is large; ``partition``, the labels (-1: in a cluster that
            matches none); ``sample_stats`` and ``log_likelihood``. Dimensions are ``cluster``,
            ``column`` and ``observation``, for series ``series`` and ``time``, with names where
            they are known.
        """
        from cavity.posterior.arviz import to_arviz

        return to_arviz(self)

    def save(self, path: str | Path) -> Path:
        """Write everything to one NetCDF4 file, all or nothing; see `load`."""
        from cavity.posterior.storage import save

        return save(self, path)

    @classmethod
    def load(cls, path: str | Path) -> Posterior:
        """Read a file written by `save`; one that is not ours or is damaged is refused."""
        from cavity.posterior.storage import load

        return load(path)
