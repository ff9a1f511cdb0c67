"""One chain of the series model, on the framework's sweep."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from cavity.collapse.ep import EPCollapse
from cavity.collapse.naive import naive_state
from cavity.core.arrays import flatten, grown, rebuilt
from cavity.core.compile import compiled
from cavity.core.lanes import whole_vectors
from cavity.models.factor_series import FactorPaths, factor_family, factor_paths
from cavity.models.series import exact
from cavity.models.series.draws import Moving, SeriesPriors
from cavity.models.series.refresh import total_log_likelihood
from cavity.models.series.state import FactorSeries, own_copy
from cavity.models.series.update import SeriesUpdate
from cavity.priors.partition import Dirichlet, FixedWeights, PartitionPrior, is_open, renew
from cavity.sampling.sampler import PartitionSampler, prior_of_partition, slots_for

COLLAPSES = ("ep", "collapsed", "naive")
DRAWS = ("auto", "joint", "alternate")

# Longest series whose factors are drawn jointly by default: docs/series.md has the figures.
LONGEST_JOINT = 500


class Settings(NamedTuple):
    """How a chain runs, beside data, priors and starting values."""

    collapse: str = "ep"
    draw: str = "auto"
    route: str = "auto"
    moving: Moving = Moving(True, True, True, True, True)
    concentration_prior: tuple[float, float] | None = None
    keep_trends: bool = False
    ep: Mapping[str, Any] = {}


def draws_jointly(draw: str, n_times: int, collapse: str) -> bool:
    """Whether factors and states are drawn as one block."""
    if collapse == "collapsed":
        # The scan integrates both out: only a joint draw leaves the posterior invariant.
        return True
    return draw == "joint" or (draw == "auto" and n_times <= LONGEST_JOINT)


class _Collapse:
    """What the naive and the exact collapse of series share."""

    state: Any
    parameters: FactorPaths
    update: SeriesUpdate

    def events(self) -> dict[str, float]:
        """No approximation, no events."""
        return {}

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that changes, for a checkpoint."""
        return flatten(self.state, "state.")


class NaiveSeries(_Collapse):
    """Assignments given drawn factors, the states integrated out."""

    def __init__(self, model: FactorSeries, paths: FactorPaths, update: SeriesUpdate) -> None:
        self.state = naive_state(model, paths, model.lanes.shape[1])
        self.update = update

    @property
    def parameters(self) -> FactorPaths:  # type: ignore[override]
        """The factors."""
        return self.state.parameters

    def start(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Draw factors from the prior, then given the initial assignments."""
        self.parameters.value[:] = rng.standard_normal(self.parameters.value.shape)
        self.refresh(z, counts, rng)

    def refresh(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Draw everything but the assignments."""
        self.update.draw(self.state.model, self.parameters, z, counts, rng)

    def grow(self, n_slots: int, rng: np.random.Generator) -> None:
        """Make room for more clusters, with factors drawn from the prior."""
        old = self.state.scores.size
        self.state = grown(self.state, n_slots)
        value = self.parameters.value
        value[:, old:] = rng.standard_normal((len(value), n_slots - old))
        self.update.renew(self.state.model, old, rng)

    def restore(self, arrays: Mapping[str, np.ndarray], n_slots: int) -> None:
        """Continue from ``arrays``."""
        if n_slots != self.state.scores.size:
            self.state = grown(self.state, n_slots)
        self.state = rebuilt(self.state, arrays, "state.")


class ExactCollapse(_Collapse):
    """Assignments with factors and states integrated out exactly."""

    def __init__(
        self, model: FactorSeries, paths: FactorPaths, update: SeriesUpdate, route: str
    ) -> None:
        self.route = route
        self.state = exact.exact_state(model, model.lanes.shape[1], route)
        self.parameters = paths
        self.update = update

    def start(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Draw factors given the initial assignments, and gather the clusters."""
        self.refresh(z, counts, rng)

    def refresh(self, z: np.ndarray, counts: np.ndarray, rng: np.random.Generator) -> None:
        """Draw everything but the assignments, then bring the clusters up to date."""
        self.update.draw(self.state.model, self.parameters, z, counts, rng)
        exact.rebuild(self.state, z)

    def _resize(self, n_slots: int) -> None:
        model = grown(self.state.model, n_slots)
        self.state = exact.exact_state(model, n_slots, self.route)
        self.parameters = grown(self.parameters, n_slots)

    def grow(self, n_slots: int, rng: np.random.Generator) -> None:
        """Make room for more clusters."""
        home = self.state.home
        self._resize(n_slots)
        exact.rebuild(self.state, home)
        self.update.renew(self.state.model, 0, rng)

    def arrays(self) -> dict[str, np.ndarray]:
        """Everything that changes, for a checkpoint."""
        return {**super().arrays(), **flatten(self.parameters, "parameters.")}

    def restore(self, arrays: Mapping[str, np.ndarray], n_slots: int) -> None:
        """Continue from ``arrays``."""
        if n_slots != self.state.scores.size:
            self._resize(n_slots)
        self.state = rebuilt(self.state, arrays, "state.")
        # The scratch model must see the parameters that were just replaced.
        self.state = self.state._replace(
            other=self.state.model._replace(row=np.zeros_like(self.state.model.row))
        )
        self.parameters = rebuilt(self.parameters, arrays, "parameters.")


class SeriesSampler(PartitionSampler):
    """A chain over assignments, factors and parameters of the series model.

    Parameters
    ----------
    model : FactorSeries
        Data and starting values. The parameters are copied, the data are shared.
    labels : array of int
        Starting assignments.
    prior : partition prior
    priors : SeriesPriors
    hyper : (2, p) array
        Starting hyper-means and hyper-variances of the regression coefficients.
    settings : Settings
    rng : numpy.random.Generator
        Used for the start only.
    """

    def __init__(
        self,
        model: FactorSeries,
        labels: np.ndarray,
        prior: PartitionPrior,
        priors: SeriesPriors,
        hyper: np.ndarray,
        settings: Settings,
        rng: np.random.Generator,
    ) -> None:
        n, n_times = model.y.shape
        n_slots = slots_of(prior, int(np.max(labels, initial=-1)) + 1)
        self.settings = settings
        self.n_allowed = n_slots if is_open(prior) else int(prior[0].size)
        own = own_copy(model, n_slots)
        paths = factor_paths(n_times, n_slots)
        joint = draws_jointly(settings.draw, n_times, settings.collapse)
        self.update = SeriesUpdate(
            own,
            priors,
            hyper,
            settings.moving,
            joint=joint,
            approximate=settings.collapse == "ep",
            keep_trends=settings.keep_trends,
        )
        collapse: Any
        if settings.collapse == "ep":
            # Sites in single precision: half the memory; the clusters' sums stay double.
            collapse = EPCollapse(
                own, factor_family(n_times, n_slots), paths, n=n, update=self.update,
                site_type=np.float32, **settings.ep,
            )  # fmt: skip
        elif settings.collapse == "collapsed":
            collapse = ExactCollapse(own, paths, self.update, settings.route)
        else:
            collapse = NaiveSeries(own, paths, self.update)
        super().__init__(
            collapse,
            padded_prior(prior, n_slots),
            np.asarray(labels),
            rng,
            concentration_prior=settings.concentration_prior,
            cluster_parameters=("factor",),
        )

    @property
    def model(self) -> FactorSeries:
        """Data and current parameters."""
        return self.collapse.state.model

    @property
    def factors(self) -> np.ndarray:
        """Current factor of every slot, shape (T, slots)."""
        return self.collapse.parameters.value

    def log_likelihood(self) -> float:
        """Log density of the data given assignments, factors and parameters."""
        return float(total_log_likelihood(self.model, self.z, self.collapse.parameters))

    def log_joint(self) -> float:
        """Log density of data, assignments, factors of occupied clusters and parameters.

        The same function of the state for every collapse, so that chains can be compared.
        """
        occupied = self.factors[:, np.flatnonzero(self.counts)]
        total = self.log_likelihood()
        total -= 0.5 * float((occupied**2).sum()) + 0.5 * occupied.size * math.log(2 * math.pi)
        total += float(compiled(prior_of_partition, self.prior)(self.prior, self.counts))
        return total + self.update.log_prior(self.model)

    def record(self) -> dict[str, np.ndarray]:
        """Parameters of one kept draw, in the model's units."""
        factor = np.where(self.counts > 0, self.factors, np.nan).T.astype(np.float32)
        n_used = self.n_slots if is_open(self.prior) else self.n_allowed
        out = self.update.record(self.model)
        out["factor"] = factor[:n_used]
        out["log_likelihood"] = np.array(self.log_likelihood())
        return out | super().record()

    def keep(self) -> None:
        """Add this draw to the running summary of the trends."""
        self.update.keep(self.model, self.collapse.parameters, self.z)

    def state(self) -> dict[str, np.ndarray]:
        """Everything needed to continue bit for bit."""
        return super().state() | {f"update.{k}": v for k, v in self.update.arrays().items()}

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """Continue from a state that ``state`` gave."""
        super().restore(state)
        prefix = "update."
        own = {k[len(prefix) :]: v for k, v in state.items() if k.startswith(prefix)}
        self.update.restore(own, self.model)


def slots_of(prior: PartitionPrior, n_used: int) -> int:
    """Slots for a chain, in whole vectors: all clusters, or some to spare under an open prior."""
    if is_open(prior):
        return whole_vectors(slots_for(max(n_used, 1), True))
    return whole_vectors(max(prior[0].size, n_used))


def padded_prior(prior: PartitionPrior, n_slots: int) -> PartitionPrior:
    """A chain's own copy of a prior, with weight zero for slots that only fill vectors."""
    if isinstance(prior, FixedWeights):
        return FixedWeights(np.pad(prior.weights, (0, n_slots - prior.weights.size)))
    if isinstance(prior, Dirichlet):
        shape = np.pad(prior.shape, (0, n_slots - prior.shape.size))
        return Dirichlet(shape, prior.concentration.copy())
    own = prior._replace(concentration=prior.concentration.copy())
    return renew(own, np.zeros(n_slots, dtype=np.int64))
