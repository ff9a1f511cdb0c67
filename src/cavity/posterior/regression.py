"""Covariates that predict cluster membership, and outcomes that differ between clusters.

Clusters are uncertain, and a regression on each row's most probable cluster, or on labels drawn
from the posterior, ignores that: its slopes are too small, since rows in the wrong cluster follow
somebody else's line. Here membership stays latent. With p_ik the posterior probability of row i in
cluster k and p_k the average of these, p_ik / p_k is what the row's own measurements say about
its cluster, whatever the covariates x_i. The likelihood of the covariates' coefficients b is then

    prod_i sum_k softmax_k(b'x_i) p_ik / p_k,

and an outcome's means m_k solve  sum_i p_ik y_i = sum_i p_ik sum_l p_il m_l  (which makes no
assumption on its distribution). Uncertainty is that of the Bayesian bootstrap: each draw weights
the rows by a Dirichlet distribution (Rubin 1981) and solves again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from cavity.posterior.posterior import Posterior

# Standard deviation of the prior of a slope, per standard deviation of its covariate: wide enough
# not to matter, and finite where a covariate separates clusters perfectly.
SLOPE_SD = 5.0
# Rows that a cluster must be likely to have.
LEAST_ROWS = 2.0
INTERCEPT = "intercept"


@dataclass(frozen=True)
class Regression:
    """Draws of the coefficients, or means, of every cluster.

    Attributes
    ----------
    names : list of str
        Clusters, one per row of each draw.
    terms : list of str
        Covariates with the intercept first, or levels of the outcome.
    draws : array, shape (draw, cluster, term)
    level : float
        Probability of the intervals.
    reference : str or None
        Cluster that log odds compare with; None for an outcome.
    n_rows, n_left_out : int
        Rows used, and rows without a value in some column.
    outcome : str or None
        Name of the outcome; None for covariates.
    """

    names: list[str]
    terms: list[str]
    draws: np.ndarray
    level: float
    reference: str | None
    n_rows: int
    n_left_out: int
    outcome: str | None = None

    @property
    def title(self) -> str:
        """Heading of its section in a report."""
        return "Covariates" if self.outcome is None else f"Outcome: {self.outcome}"

    @property
    def head(self) -> str:
        """Caption of the table: quantity, interval and number of rows."""
        if self.reference is None:
            head = f"{'Mean' if len(self.terms) == 1 else 'Shares'} of {self.outcome} by cluster"
        else:
            head = f"Log odds of each cluster against cluster {self.reference}"
        head += f", {self.level:.0%} intervals, {self.n_rows} rows"
        if self.n_left_out:
            head += f" ({self.n_left_out} left out: a value is missing)"
        return head

    @cached_property
    def table(self) -> pd.DataFrame:
        """One row per cluster and term: mean, sd, interval and the probability of being positive.

        Coefficients are log odds against the reference cluster; ``odds_ratio`` is the exponential
        of their mean.
        """
        import pandas as pd

        tail = 0.5 * (1.0 - self.level)
        low, high = np.quantile(self.draws, [tail, 1.0 - tail], axis=0)
        mean = self.draws.mean(axis=0)
        columns = {
            "mean": mean,
            "sd": self.draws.std(axis=0, ddof=1),
            "lower": low,
            "upper": high,
        }
        if self.reference is not None:
            with np.errstate(over="ignore"):
                columns["odds_ratio"] = np.exp(mean)
            columns["p_positive"] = (self.draws > 0.0).mean(axis=0)
        index = pd.MultiIndex.from_product([self.names, self.terms], names=["cluster", "term"])
        table = pd.DataFrame({name: v.ravel() for name, v in columns.items()}, index=index)
        return table if len(self.terms) > 1 else table.droplevel("term")

    @cached_property
    def differences(self) -> pd.DataFrame:
        """Every two clusters: mean difference, interval and the probability of being positive."""
        import pandas as pd

        tail = 0.5 * (1.0 - self.level)
        rows = []
        for a in range(len(self.names)):
            for b in range(a + 1, len(self.names)):
                for t, term in enumerate(self.terms):
                    apart = self.draws[:, a, t] - self.draws[:, b, t]
                    low, high = np.quantile(apart, [tail, 1.0 - tail])
                    rows.append(
                        (self.names[a], self.names[b], term, apart.mean(), low, high,
                         (apart > 0.0).mean())
                    )  # fmt: skip
        columns = ["cluster", "other", "term", "difference", "lower", "upper", "p_positive"]
        return pd.DataFrame(rows, columns=columns)

    def __str__(self) -> str:
        """Return the table, with what it compares and how many rows it rests on."""
        return f"{self.head}\n{self.table.round(3).to_string()}"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"<p>{escape(self.head)}</p>{self.table.round(3).to_html()}"

    def plot(self, *, ax: Any = None) -> Axes:
        """Draw a forest plot: mean and interval of every cluster and term.

        Parameters
        ----------
        ax : matplotlib axes, optional
        """
        from cavity.plotting.forest import draw_forest

        return draw_forest(self, ax)


# --------------------------------------------------------------------------- inputs


def membership(p: Posterior, partition: Any = None) -> tuple[np.ndarray, list[str]]:
    """Return the probability of each row in each cluster, (n, K), noise left out, and names."""
    view = p.view(partition)
    kept = [k for k in range(view.n_clusters) if k != view.noise]
    found: np.ndarray = view.relabelling.probabilities[:, kept]
    names = [view.cluster_name(k) for k in kept]
    rows = found.sum(axis=0)
    if len(kept) < 2:
        raise ValueError("There is one cluster: nothing distinguishes its rows from others.")
    if rows.min() < LEAST_ROWS:
        k = int(rows.argmin())
        raise ValueError(
            f"Cluster {names[k]} has {rows[k]:.1f} rows on average, too few for a regression. Pass "
            "a partition without it, such as partition(max_clusters=...)."
        )
    return found, names


def _as_frame(values: Any, n: int, what: str) -> pd.DataFrame:
    import pandas as pd

    if isinstance(values, pd.Series):
        values = values.to_frame(str(values.name or what))
    if not isinstance(values, pd.DataFrame):
        array = np.asarray(values)
        array = array[:, None] if array.ndim == 1 else array
        names = [what] if array.shape[1] == 1 else [f"x{j}" for j in range(array.shape[1])]
        values = pd.DataFrame(array, columns=names)
    if len(values) != n:
        raise ValueError(f"{what} has {len(values)} rows, but the fit had {n}.")
    return values.reset_index(drop=True).infer_objects()


def _is_number(column: pd.Series) -> bool:
    import pandas as pd

    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _finite(column: pd.Series) -> np.ndarray:
    values = column.to_numpy(dtype=float, na_value=np.nan)
    if np.isinf(values).any():
        row = int(np.isinf(values).argmax())
        raise ValueError(f"Column {column.name!r} is infinite in row {row}. Correct the value.")
    return values


def design_matrix(covariates: pd.DataFrame) -> tuple[np.ndarray, list[str], np.ndarray]:
    """Return covariates as numbers with an intercept, their names, and which rows are complete.

    Text, booleans and pandas categories become indicators of all levels but the first.

    Examples
    --------
    >>> import pandas as pd
    >>> design_matrix(pd.DataFrame({"age": [30.0, 40.0, 35.0], "sex": ["f", "m", "m"]}))[1]
    ['intercept', 'age', 'sex=m']
    """
    n = len(covariates)
    columns, names = [np.ones(n)], [INTERCEPT]
    complete = np.ones(n, dtype=bool)
    for name, column in covariates.items():
        there = column.notna().to_numpy()
        if _is_number(column):
            columns.append(_finite(column))
            names.append(str(name))
        else:
            levels = column.astype("category").cat
            for code, level in list(enumerate(levels.categories))[1:]:
                columns.append((levels.codes == code).to_numpy().astype(float))
                names.append(f"{name}={level}")
        complete &= there
    X = np.column_stack(columns)
    for j, name in enumerate(names[1:], start=1):
        if complete.sum() > 1 and np.ptp(X[complete, j]) == 0.0:
            raise ValueError(f"Covariate {name!r} has one value in all rows. Leave it out.")
    rank = np.linalg.matrix_rank(_standardized(X[complete])[0])
    if rank < X.shape[1]:
        raise ValueError(
            f"The covariates {', '.join(names[1:])} are linearly dependent. Leave one out."
        )
    return X, names, complete


def _standardized(X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return covariates with mean zero and sd one, the intercept as it is, and both."""
    center, scale = X.mean(axis=0), X.std(axis=0)
    center[0], scale[0] = 0.0, 1.0
    return (X - center) / np.where(scale > 0.0, scale, 1.0), center, scale


# --------------------------------------------------------------------------- covariates


def fit_membership(
    information: np.ndarray, X: np.ndarray, weight: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Maximize the weighted likelihood of coefficients, (K - 1, terms), under a weak prior.

    Parameters
    ----------
    information : array, shape (n, K)
        p_ik / p_k, the reference cluster first.
    X : array, shape (n, terms)
        Standardized covariates, the intercept first.
    weight : array, shape (n,)
    start : array, shape (K - 1, terms)
    """
    from scipy.optimize import minimize

    precision = np.full(X.shape[1], SLOPE_SD**-2)
    precision[0] = (4.0 * SLOPE_SD) ** -2

    def loss(flat: np.ndarray) -> tuple[float, np.ndarray]:
        b = flat.reshape(start.shape)
        score = np.column_stack([np.zeros(len(X)), X @ b.T])
        score -= score.max(axis=1, keepdims=True)
        share = np.exp(score)
        share /= share.sum(axis=1, keepdims=True)
        joint = share * information
        total = joint.sum(axis=1)
        value = -weight @ np.log(total) + 0.5 * (precision * b * b).sum()
        away = (joint / total[:, None] - share)[:, 1:] * weight[:, None]
        return float(value), (precision * b - away.T @ X).ravel()

    found: np.ndarray = minimize(loss, start.ravel(), jac=True, method="L-BFGS-B").x
    return found.reshape(start.shape)


def regress(
    p: Posterior,
    covariates: Any,
    partition: Any = None,
    *,
    reference: int = 0,
    level: float = 0.9,
    n_draws: int = 400,
    random_state: Any = 0,
) -> Regression:
    """Regress cluster membership on covariates (multinomial logistic, membership latent)."""
    probability, names = membership(p, partition)
    frame = _as_frame(covariates, len(probability), "covariates")
    _check(level, n_draws)
    if str(reference) not in names:
        raise ValueError(f"reference must be one of the clusters {', '.join(names)}.")
    X, terms, complete = design_matrix(frame)
    complete &= probability.sum(axis=1) > 0.0
    if complete.sum() < 2 * X.shape[1] * (len(names) - 1):
        raise ValueError(
            f"{int(complete.sum())} rows have all covariates, too few for {X.shape[1]} "
            f"coefficients of {len(names) - 1} clusters."
        )
    at = names.index(str(reference))
    order = [at, *(k for k in range(len(names)) if k != at)]
    chance, X = probability[complete][:, order], X[complete]
    mass = chance.sum(axis=1)
    standard, center, scale = _standardized(X)
    rng = np.random.default_rng(random_state)
    start = np.zeros((len(names) - 1, X.shape[1]))
    draws = np.empty((n_draws, *start.shape))
    for draw in range(-1, n_draws):
        # The first fit, with equal weights, is where the others start.
        drawn = np.ones(len(X)) if draw < 0 else rng.standard_exponential(len(X))
        weight = mass * drawn
        share = (drawn @ chance) / weight.sum()
        found = fit_membership(chance / (mass[:, None] * share), standard, weight, start)
        if draw < 0:
            start = found
        else:
            draws[draw] = found / scale
            draws[draw, :, 0] -= draws[draw, :, 1:] @ center[1:]
    others = [names[k] for k in order[1:]]
    left_out = int(len(complete) - complete.sum())
    return Regression(others, terms, draws, level, names[at], int(complete.sum()), left_out)


# --------------------------------------------------------------------------- outcomes


def means_of_clusters(chance: np.ndarray, y: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Solve for the means of an outcome, (K, columns), corrected for uncertain membership.

    Parameters
    ----------
    chance : array, shape (n, K)
        Probability of each row in each cluster.
    y : array, shape (n, columns)
    weight : array, shape (n,)

    Examples
    --------
    >>> chance = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    >>> means_of_clusters(chance, np.array([[0.0], [2.0], [1.0]]), np.ones(3)).ravel().tolist()
    [0.0, 2.0]
    """
    weighted = chance * (weight / chance.sum(axis=1))[:, None]
    found: np.ndarray = np.linalg.solve(weighted.T @ chance, weighted.T @ y)
    return found


def outcome(
    p: Posterior,
    y: Any,
    partition: Any = None,
    *,
    level: float = 0.9,
    n_draws: int = 1000,
    random_state: Any = 0,
) -> Regression:
    """Compare an outcome that was not used for clustering between clusters."""
    probability, names = membership(p, partition)
    column = _as_frame(y, len(probability), "y").iloc[:, 0]
    _check(level, n_draws)
    complete = column.notna().to_numpy() & (probability.sum(axis=1) > 0.0)
    if _is_number(column):
        terms, values = [str(column.name)], _finite(column)[:, None]
    else:
        levels = column.astype("category").cat
        terms = [f"{column.name}={level}" for level in levels.categories]
        values = (levels.codes.to_numpy()[:, None] == np.arange(len(terms))).astype(float)
    chance, values = probability[complete], values[complete]
    overlap = chance.T @ (chance / chance.sum(axis=1, keepdims=True))
    if np.linalg.cond(overlap / np.sqrt(np.outer(np.diag(overlap), np.diag(overlap)))) > 1e4:
        raise ValueError(
            "Two clusters overlap so much that their outcomes cannot be told apart. Pass a "
            "partition with fewer clusters, such as partition(max_clusters=...)."
        )
    rng = np.random.default_rng(random_state)
    draws = np.stack(
        [
            means_of_clusters(chance, values, rng.standard_exponential(len(chance)))
            for _ in range(n_draws)
        ]
    )
    if len(terms) > 1:
        draws = np.clip(draws, 0.0, 1.0)
        draws /= draws.sum(axis=2, keepdims=True)
    left_out = int(len(complete) - complete.sum())
    n_rows, name = int(complete.sum()), str(column.name)
    return Regression(names, terms, draws, level, None, n_rows, left_out, name)


def _check(level: float, n_draws: int) -> None:
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must lie between 0 and 1, not {level!r}.")
    if n_draws < 20:
        raise ValueError(f"n_draws must be at least 20, not {n_draws!r}.")
