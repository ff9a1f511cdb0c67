"""The one place that knows ArviZ: version 0.23 (InferenceData) and 1.x (xarray DataTree)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior.convergence import scalar_parameters
from cavity.posterior.effective import ess
from cavity.posterior.record import CLUSTER_PRIOR

if TYPE_CHECKING:
    import xarray as xr

    from cavity.posterior.posterior import Posterior


def import_arviz() -> Any:
    """The arviz module, without the notice that 0.23 prints about its successor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


_SMALL = 12


def _axes(p: Posterior, name: str, shape: tuple[int, ...]) -> list[str]:
    """Names of a parameter's axes after chain, draw and cluster."""
    columns, series = len(p.record.columns), p.record.noun == "series"
    each = "series" if series else "observation"
    covariates = p.record.details.get("covariates", ())
    found: list[str] = []
    for axis, size in enumerate(shape):
        # What clusters have, single observations have not; rows as many as columns are columns.
        per_observation = name not in p.cluster_parameters and (series or size != columns)
        if per_observation and size == p.n_observations and each not in found:
            found.append(each)
        elif series and size == p.record.details.get("n_times") and "time" not in found:
            found.append("time")
        elif series and name.startswith("beta") and size in (len(covariates), len(covariates) + 1):
            found.append("coefficient")
        elif columns and size == columns:
            # A covariance has columns twice, which xarray wants to be told apart.
            found.append("column" if "column" not in found else "column_2")
        else:
            found.append(f"{name}_dim_{axis}")
    return found


def _dataset(p: Posterior, variables: dict[str, tuple[tuple[str, ...], np.ndarray]]) -> xr.Dataset:
    """A dataset with the coordinates that its dimensions have."""
    import xarray as xr

    known: dict[str, Any] = {
        "chain": np.arange(p.n_chains),
        "draw": np.arange(p.n_draws),
        "observation": np.arange(p.n_observations) if p.names is None else p.names,
        "column": list(p.record.columns),
        "column_2": list(p.record.columns),
    }
    known["series"] = known["observation"]
    used = {name for dims, _ in variables.values() for name in dims} | {"chain", "draw"}
    sizes = {n: s for dims, v in variables.values() for n, s in zip(dims, v.shape, strict=True)}
    if "cluster" in used:
        known["cluster"] = np.arange(sizes["cluster"])
    if "coefficient" in used:
        names = ["intercept", *p.record.details["covariates"]]
        known["coefficient"] = names[len(names) - sizes["coefficient"] :]
    return xr.Dataset(variables, coords={k: v for k, v in known.items() if k in used})


def _scalars(p: Posterior) -> dict[str, np.ndarray]:
    """Label-free scalars by the names that ArviZ's users would write."""
    found = {"n_clusters": p.n_occupied, "largest_cluster": p.largest_cluster}
    found["size_entropy"] = p.size_entropy
    if p.log_joint is not None:
        found = {"log_joint": p.log_joint, **found}
    return found | scalar_parameters(p)


def _groups(p: Posterior) -> dict[str, xr.Dataset]:
    head = ("chain", "draw")
    small: dict[str, Any] = {name: (head, v) for name, v in _scalars(p).items()}
    clusters: dict[str, Any] = {}
    large: dict[str, Any] = {}
    relabelling = p.relabel()
    for name, values in p.parameters.items():
        if name in p.cluster_parameters:
            flat = relabelling.select(values.reshape(-1, *values.shape[2:]))
            values = flat.reshape(*values.shape[:2], *flat.shape[1:])
            dims = (*head, "cluster", *_axes(p, name, values.shape[3:]))
            clusters[name] = (dims, values)
        else:
            dims = (*head, *_axes(p, name, values.shape[2:]))
        if name in small:
            continue
        # Natural parameters are for computing, not for reading.
        small_enough = values[0, 0].size <= _SMALL and name != CLUSTER_PRIOR
        if small_enough and np.isfinite(values).all():
            small[name] = (dims, values)
        elif name not in clusters:
            large[name] = (dims, values)
    moving = {k: v for k, v in small.items() if (v[1] != v[1][:1, :1]).any()}
    labels = relabelling.labels.reshape(p.labels.shape)
    each = (*head, "series" if p.record.noun == "series" else "observation")
    groups = {
        "posterior": moving,
        "constants": {k: v for k, v in small.items() if k not in moving},
        "cluster_parameters": clusters,
        "parameters": large,
        "partition": {"labels": (each, labels)},
    }
    if p.log_joint is not None:
        groups["sample_stats"] = {"lp": (head, p.log_joint)}
    if p.point_log_lik is not None:
        groups["log_likelihood"] = {"observations": (each, p.point_log_lik)}
    return {k: _dataset(p, v) for k, v in groups.items() if v or k == "posterior"}


def _container(groups: dict[str, xr.Dataset]) -> Any:
    az = import_arviz()
    for dataset in groups.values():
        dataset.attrs = {"inference_library": "cavity"}
    # 0.x has a container of its own; from 1.0 on it is xarray's tree of datasets.
    if int(az.__version__.split(".")[0]) == 0:
        with warnings.catch_warnings():
            # Releases before 0.22 warn of every group that is not of their scheme.
            warnings.filterwarnings("ignore", "(?s).*not defined in the InferenceData scheme")
            return az.InferenceData(**groups)
    import xarray as xr

    return xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})


def to_arviz(p: Posterior) -> Any:
    """The posterior as ArviZ's container; see `Posterior.to_arviz`."""
    return _container(_groups(p))


# Nats by which ties among log densities are broken.
TIE = 1e-10


def loo(p: Posterior, **options: Any) -> Any:
    """PSIS-LOO of the observations; see `Posterior.loo`."""
    if p.point_log_lik is None:
        raise ValueError(
            "this posterior does not hold the log density of each observation in each draw "
            "(point_log_lik); call loo of the fitted estimator with its data, estimator.loo(X), "
            "which computes them"
        )
    if not np.isfinite(p.point_log_lik).all():
        raise ValueError("loo: point_log_lik holds values that are not finite")
    if p.n_chains * p.n_draws < 2:
        raise ValueError("loo needs at least two draws")
    groups = _groups(p)
    needed = {name: groups[name] for name in ("posterior", "log_likelihood")}
    # Of an observation outside every cluster many draws say the same to the last digit, and no
    # tail can be fitted to ties.
    ties = TIE * np.random.default_rng(0).random(p.point_log_lik.shape)
    needed["log_likelihood"] = needed["log_likelihood"] + ties
    # ArviZ would take the relative efficiency of the draws from every posterior variable.
    options.setdefault("reff", _relative_efficiency(p))
    return import_arviz().loo(_container(needed), var_name="observations", **options)


def _relative_efficiency(p: Posterior) -> float:
    """Effective draws per draw, the mean over the label-free quantities that move."""
    found = [
        float(ess(v, "mean"))
        for v in _scalars(p).values()
        if np.ptp(v) > 0 and np.isfinite(v).all()
    ]
    known = [v for v in found if np.isfinite(v)]
    return float(np.mean(known)) / (p.n_chains * p.n_draws) if known else 1.0
