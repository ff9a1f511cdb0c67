"""The one place that knows ArviZ: version 0.23 (InferenceData) and 1.x (xarray DataTree)."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import xarray as xr

    from cavity.posterior.posterior import Posterior


def import_arviz() -> Any:
    """The arviz module, without the notice that 0.23 prints about its successor."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        import arviz
    return arviz


def rhat(values: np.ndarray) -> float:
    """Rank-normalised split R-hat of (chain, draw) values; one chain is compared by its halves.

    A constant is 1 if it is the same everywhere and infinite if chains differ.
    """
    values = np.asarray(values, float)
    if values.shape[0] == 1:
        half = values.shape[1] // 2
        values = values[:, : 2 * half].reshape(2, half)
    if values.shape[1] < 4 or not np.isfinite(values).all():
        return float("nan")
    if np.ptp(values) == 0:
        return 1.0
    if not np.ptp(values, axis=1).any():
        return float("inf")
    return float(import_arviz().rhat(values))


def ess(values: np.ndarray, method: str = "bulk") -> float:
    """Bulk or tail effective sample size of (chain, draw) values.

    A constant counts every draw; constants that differ between chains count one draw per chain.
    """
    values = np.asarray(values, float)
    if values.shape[1] < 4 or not np.isfinite(values).all():
        return float("nan")
    if np.ptp(values) == 0:
        return float(values.size)
    if not np.ptp(values, axis=1).any():
        return float(len(values))
    options = {"prob": (0.05, 0.95)} if method == "tail" else {}
    return float(import_arviz().ess(values, method=method, **options))


def _groups(p: Posterior) -> dict[str, xr.Dataset]:
    import xarray as xr

    head = ("chain", "draw")
    coords: dict[str, Any] = {"chain": np.arange(p.n_chains), "draw": np.arange(p.n_draws)}
    observation = np.arange(p.n_observations) if p.names is None else p.names
    relabelling = p.relabel()
    posterior: dict[str, Any] = {
        "n_clusters": (head, p.n_occupied),
        "largest_cluster": (head, p.largest_cluster),
        "size_entropy": (head, p.size_entropy),
        "labels": ((*head, "observation"), relabelling.labels.reshape(p.labels.shape)),
    }
    for name, values in p.parameters.items():
        dims = tuple(f"{name}_dim_{axis}" for axis in range(values.ndim - 2))
        if name in p.cluster_parameters:
            flat = relabelling.select(values.reshape(-1, *values.shape[2:]))
            values = flat.reshape(*values.shape[:2], *flat.shape[1:])
            dims = ("cluster", *dims[1:])
        posterior[name] = ((*head, *dims), values)
    groups = {"posterior": xr.Dataset(posterior, coords={**coords, "observation": observation})}
    if p.log_joint is not None:
        groups["sample_stats"] = xr.Dataset({"lp": (head, p.log_joint)}, coords=coords)
    if p.point_log_lik is not None:
        groups["log_likelihood"] = xr.Dataset(
            {"observations": ((*head, "observation"), p.point_log_lik)},
            coords={**coords, "observation": observation},
        )
    return groups


def _container(groups: dict[str, xr.Dataset]) -> Any:
    az = import_arviz()
    for dataset in groups.values():
        dataset.attrs = {"inference_library": "cavity"}
    # 0.x has a container of its own; from 1.0 on it is xarray's tree of datasets.
    if int(az.__version__.split(".")[0]) == 0:
        return az.InferenceData(**groups)
    import xarray as xr

    return xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})


def to_arviz(p: Posterior) -> Any:
    """The posterior as ArviZ's container; see `Posterior.to_arviz`."""
    return _container(_groups(p))


def loo(p: Posterior, **options: Any) -> Any:
    """PSIS-LOO of the observations; see `Posterior.loo`."""
    if p.point_log_lik is None:
        raise ValueError(
            "loo needs the log density of each observation in each draw (point_log_lik), which "
            "this posterior has not"
        )
    if not np.isfinite(p.point_log_lik).all():
        raise ValueError("loo: point_log_lik holds values that are not finite")
    if p.n_chains * p.n_draws < 2:
        raise ValueError("loo needs at least two draws")
    groups = _groups(p)
    # ArviZ takes the relative efficiency of the draws from every posterior variable; labels and
    # parameters of clusters that come and go would spoil it.
    groups["posterior"] = groups["posterior"][["n_clusters", "largest_cluster", "size_entropy"]]
    return import_arviz().loo(_container(groups), var_name="observations", **options)
