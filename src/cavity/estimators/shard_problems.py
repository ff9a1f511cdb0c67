"""Settings of a problem for the samplers over shards."""

from __future__ import annotations

from typing import Any

import numpy as np

from cavity.collapse.problems import (
    CategoricalProblem,
    CountsProblem,
    StudentTProblem,
    TableProblem,
)
from cavity.distributed.clusters import RATES, SHARES, ComponentPriors
from cavity.distributed.df_grid import DFSettings
from cavity.distributed.parts import ShardUpdate
from cavity.likelihoods.category_shares import ShareHyperpriors
from cavity.likelihoods.count_rates import TYPICAL_SHAPE, RateHyperpriors
from cavity.priors.collapsed_df import with_collapsed_df
from cavity.updates import Update


def component_priors_of(problem: Any) -> ComponentPriors:
    """Return the prior of cluster parameters of a problem."""
    if not isinstance(problem, TableProblem):
        return ComponentPriors(problem.prior)
    out = ComponentPriors()
    for part in problem.parts:
        if isinstance(part, CategoricalProblem):
            start = tuple(int(at) for at in np.cumsum((0, *part.levels)))
            out = out._replace(concentration=np.ones(start[-1]), start=start)
        elif isinstance(part, CountsProblem):
            centre = part.centre
            out = out._replace(gamma=(np.full(centre.size, TYPICAL_SHAPE), TYPICAL_SHAPE / centre))
        else:
            out = out._replace(niw=part.prior)
    return out


def updates_of(problem: Any, component_priors: ComponentPriors) -> tuple[Update, ...]:
    """Return the updates that learn the priors, each for its own part."""
    if not isinstance(problem, TableProblem):
        return with_collapsed_df(tuple(update.fresh() for update in problem.updates))
    found: list[Update] = []
    for (part, path), own in zip(component_priors.paths.items(), problem.parts, strict=True):
        made: tuple[Update, ...]
        if part == SHARES:
            made = (ShareHyperpriors(own.n_held),)
        elif part == RATES:
            made = (RateHyperpriors(own.centre, False, own.n_held),)
        else:
            made = with_collapsed_df(tuple(update.fresh() for update in own.updates))
        found += [ShardUpdate(update, path, component_priors.columns(part)) for update in made]
    return tuple(found)


def df_settings_of(problem: Any) -> DFSettings:
    """Return how a problem treats degrees of freedom."""
    block = problem.parts[0] if isinstance(problem, TableProblem) else problem
    if not isinstance(block, StudentTProblem):
        return DFSettings(np.inf)
    return DFSettings(block.df, block.learn_df, *block.df_prior)
