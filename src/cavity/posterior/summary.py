"""Tables: clusters, observations and the doubtful among them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cavity.posterior.certainty import cluster_similarity

if TYPE_CHECKING:
    import pandas as pd

    from cavity.posterior.posterior import Posterior

_MAX_COMPONENTS = 12


def _row_index(p: Posterior) -> pd.Index:
    import pandas as pd

    if p.names is None:
        return pd.RangeIndex(p.n_observations, name="observation")
    return pd.Index(p.names, name="observation")


def certainty_frame(p: Posterior, c: np.ndarray) -> pd.DataFrame:
    """One row per observation; see `Posterior.certainty`."""
    import pandas as pd

    similar = cluster_similarity(p.flat_labels, c)
    relabelled = p.relabel(c).labels
    probability = np.zeros(len(c))
    alternative = np.zeros(len(c))
    for row in relabelled:
        probability += row == c
        alternative += (row == similar.alternative) & (row >= 0)
    return pd.DataFrame(
        {
            "cluster": c,
            "certainty": similar.own,
            "probability": probability / len(relabelled),
            "alternative": similar.alternative,
            "alternative_similarity": similar.to_alternative,
            "alternative_probability": alternative / len(relabelled),
        },
        index=_row_index(p),
    )


def doubtful_frame(frame: pd.DataFrame, threshold: float) -> pd.DataFrame:
    """The rows of `certainty_frame` that are in doubt, the least certain first."""
    if not 0 <= threshold <= 1:
        raise ValueError(f"threshold must lie in [0, 1]; got {threshold}")
    both = frame["certainty"] + frame["alternative_similarity"]
    relative = (frame["certainty"] / both.where(both > 0)).fillna(0.0)
    doubt = np.minimum(frame["probability"], relative)
    chosen = frame.assign(_doubt=doubt)[doubt < threshold]
    return chosen.sort_values("_doubt", kind="stable").drop(columns="_doubt")


def cluster_frame(p: Posterior, c: np.ndarray, probability: float) -> pd.DataFrame:
    """One row per cluster; see `Posterior.summary`."""
    import pandas as pd

    size = np.bincount(c)
    own = cluster_similarity(p.flat_labels, c).own
    relabelling = p.relabel(c)
    sizes = np.zeros((len(relabelling.labels), len(size)))
    for d, row in enumerate(relabelling.labels):
        sizes[d] = np.bincount(row.astype(np.int64) + 1, minlength=len(size) + 1)[1:]
    tail = 0.5 * (1 - probability)
    lower, upper = np.quantile(sizes, [tail, 1 - tail], axis=0)
    columns: dict[str, np.ndarray] = {
        "size": size,
        "share": size / len(c),
        "certainty": np.bincount(c, weights=own) / size,
        "presence": (relabelling.slots >= 0).mean(axis=0),
        "size_mean": sizes.mean(axis=0),
        "size_lower": lower,
        "size_upper": upper,
    }
    for name in p.cluster_parameters:
        components = int(np.prod(p.parameters[name].shape[3:]))
        if components > _MAX_COMPONENTS:
            continue
        summary = p.parameter_summary(name, c, probability=probability)
        for index in np.ndindex(p.parameters[name].shape[3:]):
            place = f"{name}[{', '.join(map(str, index))}]" if index else name
            for key, suffix in (("mean", ""), ("lower", "_lower"), ("upper", "_upper")):
                columns[place + suffix] = summary[key][(slice(None), *index)]
    return pd.DataFrame(columns, index=pd.RangeIndex(len(size), name="cluster"))
