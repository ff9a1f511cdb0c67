"""The parts of a table's model: rows as points, and the names and draws of parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity._numba.arrays import by_slot
from cavity.collapse.parts import part_at, paths_of
from cavity.collapse.tables import TableProblem
from cavity.estimators.description import describe_sizes
from cavity.estimators.gaps import filled
from cavity.estimators.structures import FULL, block_names, describe_block, describe_prior
from cavity.io.columns import CATEGORICAL, CONTINUOUS, COUNT, OVERDISPERSED, Cells, Column
from cavity.likelihoods.predictive import CLUSTER_PRIOR
from cavity.mcmc.chain import PartitionSampler
from cavity.posterior.units import ColumnUnits


def levels_of(columns: list[Column]) -> tuple[int, ...]:
    """Number of categories of each categorical column."""
    return tuple(len(column.categories) for column in columns if column.kind == CATEGORICAL)


def volumes_of(units: ColumnUnits, cells: Cells, weight: np.ndarray | None) -> np.ndarray:
    """What the log density of each row, or of those it stands for, loses to units."""
    return units.log_volumes(cells.continuous) * (1.0 if weight is None else weight)


def components(columns: list[Column]) -> dict[str, list[str]]:
    """Names of the components of the draws' parameters."""
    of = {kind: [c for c in columns if c.kind == kind] for kind in
          (CONTINUOUS, CATEGORICAL, COUNT, OVERDISPERSED)}  # fmt: skip
    out = {
        "mean": [c.name for c in of[CONTINUOUS]],
        "share": [f"{c.name}={name}" for c in of[CATEGORICAL] for name in c.categories],
        "rate": [c.name for c in of[COUNT]],
        "mean_count": [c.name for c in of[OVERDISPERSED]],
    }
    out |= dict.fromkeys(("covariance", "variance", "uniqueness"), out["mean"])
    return {name: names for name, names in out.items() if names}


def features_of(standard: np.ndarray, cells: Cells) -> np.ndarray:
    """Rows as points, for where chains start and who is whose neighbour; gaps in the middle."""
    blocks = [filled(standard) if standard.shape[1] else standard]
    for codes in cells.codes.T:
        # Two rows that differ are as far apart as a standard deviation and a half.
        shares = np.bincount(codes[codes >= 0], minlength=1) / max(int((codes >= 0).sum()), 1)
        block = (codes[:, None] == np.arange(shares.size)).astype(float)
        block[codes < 0] = shares
        blocks.append(block)
    for y in (*cells.counts.T, *cells.overdispersed.T):
        value = np.log1p(y)
        value = (value - np.nanmean(value)) / max(float(np.nanstd(value)), 1e-9)
        blocks.append(np.nan_to_num(value, nan=0.0)[:, None])
    return np.ascontiguousarray(np.hstack(blocks))


class Describer:
    """Gives the cluster parameters of a kept draw, part by part.

    Parameters
    ----------
    problem : TableProblem
    """

    def __init__(self, problem: TableProblem) -> None:
        kinds = [part.model for part in problem.parts]
        self.block = block_names(getattr(problem.parts[0], "structure", FULL))
        self.paths = dict(zip(kinds, paths_of(len(kinds)), strict=True))
        own = [part for part in problem.parts if part.model == "own"]
        self.own = tuple(by_slot(own[0].parameters)) if own else ()

    @property
    def names(self) -> tuple[str, ...]:
        """Of parameters with a cluster axis."""
        out = ["weight"]
        for kind in self.paths:
            out += {
                "own": [*self.own],
                "categorical": ["share"],
                "poisson": ["rate"],
                "negative-binomial": ["mean_count"],
            }.get(kind, [*self.block])
        return tuple(out)

    def __call__(self, sampler: PartitionSampler) -> dict[str, np.ndarray]:
        """Parameters of every slot, and the natural parameters of all parts' priors."""
        out = {
            **describe_sizes(sampler),
            CLUSTER_PRIOR: self._prior(sampler.family),
        }
        for kind, path in self.paths.items():
            parameters = part_at(sampler.parameters, path)
            if kind == "own":
                out |= by_slot(parameters)
            elif kind == "categorical":
                out["share"] = parameters.share.T
            elif kind == "poisson":
                out["rate"] = parameters.rate.T
            elif kind == "negative-binomial":
                out["mean_count"] = parameters.rate.T
            else:
                out |= describe_block(parameters, sampler.counts)
        return out

    def _prior(self, family: Any) -> np.ndarray:
        """What says the priors of all parts, one after another."""
        return np.concatenate([describe_prior(part_at(family, at)) for at in self.paths.values()])
