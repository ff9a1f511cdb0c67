"""Tables of mixed columns with missing values: a real one, and simulated ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cavity.datasets._validate import as_generator
from cavity.estimators.validation import check_count

if TYPE_CHECKING:
    import pandas as pd


def load_iris_with_gaps(
    missing: float = 0.1, unnamed: float = 0.5, random_state: Any = 0
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Load scikit-learn's iris flowers with their species and missing values.

    Parameters
    ----------
    missing : float
        Share of the measurements that are taken out at random.
    unnamed : float
        The same of the names of the species.
    random_state : None, int or Generator

    Returns
    -------
    table : DataFrame of 150 rows and 5 columns
        Four measurements and the species, with missing values.
    whole : DataFrame
        The same without missing values.

    Examples
    --------
    >>> table, whole = load_iris_with_gaps()
    >>> table.isna().sum().tolist()
    [15, 12, 19, 14, 75]
    """
    import pandas as pd
    from sklearn.datasets import load_iris

    for name, share in (("missing", missing), ("unnamed", unnamed)):
        if not 0.0 <= share < 1.0:
            raise ValueError(f"{name} must be a share from 0 to below 1; got {share}.")
    rng = as_generator(random_state)
    bunch = load_iris(as_frame=True)
    whole = bunch.data.rename(columns=lambda name: name.removesuffix(" (cm)").replace(" ", "_"))
    whole["species"] = np.array(bunch.target_names, dtype=object)[bunch.target]
    whole.index = pd.Index([f"iris {i + 1}" for i in range(len(whole))], name="flower")
    out = np.zeros(whole.shape, dtype=bool)
    cells = rng.choice(4 * len(whole), size=round(missing * 4 * len(whole)), replace=False)
    out[cells % len(whole), cells // len(whole)] = True
    out[rng.choice(len(whole), size=round(unnamed * len(whole)), replace=False), 4] = True
    return whole.mask(out), whole


def make_table(
    n: int = 300,
    n_clusters: int = 3,
    *,
    n_continuous: int = 3,
    n_categorical: int = 3,
    n_counts: int = 1,
    separation: float = 2.0,
    purity: float = 0.7,
    missing: float = 0.0,
    random_state: Any = None,
) -> tuple[pd.DataFrame, np.ndarray]:
    """Generate a table of mixed columns from known clusters.

    Parameters
    ----------
    n, n_clusters : int
    n_continuous, n_categorical, n_counts : int
        Columns of each kind: normal with a covariance of each cluster's own, three categories,
        Poisson.
    separation : float
        Standard deviation of the clusters' means, in units of their members'.
    purity : float
        Share of a cluster's favorite category.
    missing : float
        Share of cells taken out at random.
    random_state : None, int or Generator

    Returns
    -------
    table : DataFrame
    labels : array of int

    Examples
    --------
    >>> table, labels = make_table(50, 2, missing=0.1, random_state=0)
    >>> table.shape, len(set(labels.tolist()))
    ((50, 7), 2)
    """
    import pandas as pd

    n, n_clusters = check_count("n", n, 1), check_count("n_clusters", n_clusters, 1)
    rng = as_generator(random_state)
    labels = rng.permutation(np.arange(n) % n_clusters)
    out: dict[str, Any] = {}
    if n_continuous:
        means = separation * rng.standard_normal((n_clusters, n_continuous))
        mixing = np.eye(n_continuous) + 0.4 * rng.standard_normal(
            (n_clusters, n_continuous, n_continuous)
        )
        noise = rng.standard_normal((n, n_continuous))
        values = means[labels] + np.einsum("nij,nj->ni", mixing[labels], noise)
        out |= {f"size_{j}": values[:, j] for j in range(n_continuous)}
    for j in range(n_categorical):
        favourite = rng.integers(0, 3, n_clusters)[labels]
        other = (favourite + rng.integers(1, 3, n)) % 3
        code = np.where(rng.random(n) < purity, favourite, other)
        out[f"kind_{j}"] = np.array(["a", "b", "c"], dtype=object)[code]
    for j in range(n_counts):
        rate = np.exp(rng.normal(1.0, 0.7, n_clusters))
        out[f"count_{j}"] = rng.poisson(rate[labels]).astype(float)
    table = pd.DataFrame(out)
    if missing:
        table = table.mask(pd.DataFrame(rng.random(table.shape) < missing, columns=table.columns))
    return table, labels
