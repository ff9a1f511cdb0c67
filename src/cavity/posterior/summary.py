"""Tables: clusters, observations and the doubtful among them. All are read from a `View`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.posterior.diagnostics import at_the_limit
from cavity.posterior.groups import differ
from cavity.posterior.view import View
from cavity.utils.text import count, enumerate_words

if TYPE_CHECKING:
    import pandas as pd

_MAX_COMPONENTS = 12
_NUMBERS_LISTED = 4


def _row_index(view: View) -> pd.Index:
    import pandas as pd

    names = view.posterior.names
    if names is None:
        return pd.RangeIndex(view.n, name=view.noun)
    return pd.Index(names, name=view.noun)


def allocation_table(view: View) -> pd.DataFrame:
    """One row per observation; see `Posterior.observations`."""
    import pandas as pd

    # Noise is -1, as among the labels; where there is no other cluster nothing is said.
    other = view.alternative.astype(np.int64)
    if view.noise is not None:
        other = np.where(other == view.noise, -1, other)
    columns = {
        "cluster": view.looks,
        "probability": view.probability,
        "certainty": view.certainty,
        "alternative": pd.arrays.IntegerArray(other, view.alternative < 0),
        "alternative_probability": view.alternative_probability,
        "p_unmatched": view.unmatched,
    }
    return pd.DataFrame(columns, index=_row_index(view))


def doubtful_table(view: View) -> pd.DataFrame:
    """The rows of `allocation_table` that are in doubt, the least probable first."""
    return allocation_table(view).iloc[view.in_doubt]


def observation_table(view: View, *, tail: Any = None) -> pd.DataFrame:
    """Everything on each observation, a row each: what a file of labels should hold.

    Parameters
    ----------
    view : View
    tail : array, shape (n,), optional
        Tail probability of each observation in its own cluster, if the model has one.

    Returns
    -------
    DataFrame
        ``cluster``, ``probability``, ``certainty``, ``alternative``, ``alternative_probability``,
        ``p_unmatched``, ``doubtful``, ``tail_probability`` where given, ``group`` (-1 for noise)
        and ``group_probability`` where clusters overlap, and ``p_0`` to ``p_{K-1}``
        (``p_noise`` for noise), the probabilities of all clusters, one with ``p_unmatched``.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> p = Posterior.from_labels([[0, 0, 1], [0, 0, 1], [0, 1, 1]])
    >>> observation_table(p.view())[["cluster", "doubtful", "p_0", "p_1"]].round(2)
                 cluster  doubtful   p_0   p_1
    observation
    0                  0     False  1.00  0.00
    1                  0      True  0.67  0.33
    2                  1     False  0.00  1.00
    """
    import pandas as pd

    table = allocation_table(view)
    table["doubtful"] = view.probability < view.threshold
    if tail is not None:
        if np.shape(tail) != (view.n,):
            raise ValueError(f"tail has shape {np.shape(tail)} for {view.n} observations")
        table["tail_probability"] = np.asarray(tail, float)
    if differ(view):
        groups = view.posterior.groups().view()
        table["group"], table["group_probability"] = groups.looks, groups.probability
    probabilities = view.relabelling.probabilities
    names = [f"p_{view.cluster_name(k)}" for k in range(view.n_clusters)]
    return pd.concat([table, pd.DataFrame(probabilities, table.index, names)], axis=1)


def unusual(tail: Any) -> np.ndarray:
    """Positions of the observations that lie unusually far out, the furthest first.

    Parameters
    ----------
    tail : array, shape (n,)
        Probability that a draw from an observation's cluster lies at least as far out as it does;
        NaN where it is not known, which is never unusual.

    Returns
    -------
    array of int
        Those with a probability below 1 / n: under the model about one in a data set.

    Examples
    --------
    >>> unusual([0.5, 0.01, 0.9, 0.001]).tolist()
    [3, 1]
    """
    tail = np.asarray(tail, float)
    chosen = np.flatnonzero(tail < 1.0 / len(tail))
    return chosen[np.argsort(tail[chosen], kind="stable")]


def alone_words(view: View, names: Sequence[str]) -> str:
    """Describe observations that are clusters of their own; empty if there are none.

    Parameters
    ----------
    view : View
    names : sequence of str
        Of those in `alone(view)` to list.
    """
    number = len(alone(view))
    if not number:
        return ""
    more = number - len(names)
    told = [*names, f"{more:,} more"] if more else list(names)
    one = number == 1
    return (
        f"{enumerate_words(told)} {'is a cluster' if one else 'are clusters'} of "
        f"{'its' if one else 'their'} own, with nothing like {'it' if one else 'them'}: "
        "check for measurement errors."
    )


def alone(view: View) -> np.ndarray:
    """Positions of the observations that are the only one of their cluster.

    Noise is no cluster, and where each is on its own none stands out.
    """
    single = (view.sizes == 1) & (view.n_clusters < view.n)
    if view.noise is not None:
        single[view.noise] = False
    return np.flatnonzero(single[view.labels])


def limit_words(view: View) -> str:
    """Describe how many draws have the largest number of clusters allowed; empty if few.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> from cavity.posterior.record import RunRecord
    >>> draws = [[0, 0, 1, 1]] * 3 + [[0, 0, 1, 2]]
    >>> p = Posterior(np.array([draws]), record=RunRecord("a mixture", max_clusters=3))
    >>> limit_words(p.view())
    '25% of the draws have 3 clusters, the most that n_clusters allows: allow more, unless you \
know the number.'
    """
    most, share = at_the_limit(view.posterior)
    if not share:
        return ""
    text = (
        f"{_percent(share)} of the draws have {count(most, 'cluster')}, the most that n_clusters "
        "allows"
    )
    if not differ(view):
        return text + ": allow more, unless you know the number."
    groups = count(view.posterior.groups().view().n_proper, "group")
    return (
        f"{text}, but the clusters overlap: they are pieces of {groups} of another shape, and "
        "allowing more would give more pieces. Read the groups."
    )


# From so many in doubt on a clustering is called weak.
_WEAK = 0.25


def firmness_words(view: View) -> str:
    """What to say where draws that can be relied on leave much open; empty otherwise.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> firmness_words(Posterior.from_labels([[0, 0, 1, 1], [0, 0, 1, 2]]).view())
    'The draws can be trusted; it is the clustering that is weak: 1 of 4 observations is in \
doubt, and the number of clusters is between 2 and 3 with probability 95%.'
    >>> firmness_words(Posterior.from_labels([[0, 0, 1, 1]]).view())
    ''
    """
    n = len(view.in_doubt)
    if n < _WEAK * view.n:
        return ""
    text = (
        "The draws can be trusted; it is the clustering that is weak: "
        f"{n:,} of {count(view.n, view.noun)} {'is' if n == 1 else 'are'} in doubt"
    )
    low, high = view.number_interval
    if low < high:
        text += f", and the number of clusters is between {low} and {high} with probability 95%"
    return text + "."


def number_words(view: View) -> str:
    """Return probabilities of the number of clusters in words, the most probable first.

    Examples
    --------
    >>> from cavity.posterior import Posterior
    >>> two, three = [0, 0, 1, 1], [0, 0, 1, 2]
    >>> number_words(Posterior.from_labels([two] * 29 + [three]).view())
    '2 clusters: 97%, 3: 3%'
    >>> number_words(Posterior.from_labels([three]).view())
    '3 clusters: 100%'
    """
    likely = view.number.sort_values(ascending=False, kind="stable")
    worth_it = (likely >= 0.005) | (likely.index == likely.index[0])
    listed = likely[worth_it].head(_NUMBERS_LISTED)
    parts = [f"{k}: {_percent(share)}" for k, share in listed.items()]
    parts[0] = f"{count(int(listed.index[0]), 'cluster')}: {_percent(listed.iloc[0])}"
    rest = 1.0 - float(listed.sum())
    if rest >= 0.005:
        parts.append(f"other numbers: {_percent(rest)}")
    return ", ".join(parts)


def _percent(share: float) -> str:
    if 0.995 <= share < 1.0 - 1e-12:
        return "over 99%"
    return "under 1%" if share < 0.005 else f"{share:.0%}"


def cluster_table(view: View, level: float = 0.95) -> pd.DataFrame:
    """One row per cluster; see `Posterior.summary`."""
    import pandas as pd

    from cavity.posterior.relabel import check_level

    tail = 0.5 * (1 - check_level(level))
    present = view.relabelling.slots >= 0
    drawn = view.relabelling.sizes
    mean, lower, upper = (np.full(view.n_clusters, np.nan) for _ in range(3))
    for k in range(view.n_clusters):
        own = drawn[present[:, k], k]
        if len(own):
            mean[k] = own.mean()
            lower[k], upper[k] = np.quantile(own, [tail, 1 - tail])
    columns: dict[str, np.ndarray] = {
        "size": view.sizes,
        "share": view.sizes / view.n,
        "certainty": view.cluster_certainty,
        "presence": present.mean(axis=0),
        "size_mean": mean,
        "size_lower": lower,
        "size_upper": upper,
        "size_in_interval": (lower <= view.sizes) & (view.sizes <= upper),
    }
    p = view.posterior
    for name in p.tabled_parameters:
        shape = p.parameters[name].shape[3:]
        if int(np.prod(shape)) > _MAX_COMPONENTS:
            continue
        summary = p.parameter_summary(name, view.labels, level=level)
        parts = p.record.components.get(name)
        for index in np.ndindex(shape):
            named = index if parts is None else tuple(parts[j] for j in index)
            place = f"{name}[{', '.join(map(str, named))}]" if index else name
            for key, suffix in (("mean", ""), ("lower", "_lower"), ("upper", "_upper")):
                columns[place + suffix] = summary[key][(slice(None), *index)]
    names: pd.Index = pd.RangeIndex(view.n_clusters, name="cluster")
    if view.noise is not None:
        shown = [k if k != view.noise else "noise" for k in range(view.n_clusters)]
        names = pd.Index(shown, name="cluster")
    return pd.DataFrame(columns, index=names)
