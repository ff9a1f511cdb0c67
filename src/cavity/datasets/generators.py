"""Data simulated from the package's models, with the true parameters.

Each generator returns ``(data, truth)``. The truth is a NamedTuple whose first field is
``labels``; where an array is expected, such as in scikit-learn's metrics, it acts as these.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from cavity.datasets._validate import as_generator, as_vector, draw_labels
from cavity.estimators.validation import check_count, check_number

SEPARATIONS = {"hard": 4.0, "medium": 8.0, "easy": 20.0}
"""Named separations of `make_student_t`: spread of the means in within-cluster scales."""

INITIAL_VARIANCE = 1.0
"""Default variance P0 of the state before the first time point, x_i0 ~ N(0, P0)."""


class StudentTTruth(NamedTuple):
    """True parameters of `make_student_t`.

    Attributes
    ----------
    labels : ndarray of shape (n,)
    means : ndarray of shape (n_clusters, dim)
    scales : ndarray of shape (n_clusters, dim, dim)
        Scale matrices Sigma; the covariance is ``df / (df - 2)`` times these where df > 2.
    df : float
        Degrees of freedom; infinite for Gaussian clusters.
    u : ndarray of shape (n,)
        The precision multiplier of each observation: small for an outlying one.
    """

    labels: np.ndarray
    means: np.ndarray
    scales: np.ndarray
    df: float
    u: np.ndarray

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.labels, dtype=dtype)


class SeriesTruth(NamedTuple):
    """True parameters of `make_series`.

    Attributes
    ----------
    labels : ndarray of shape (n_series,)
    a, loading, var_y : ndarray of shape (n_series,)
    var_x : float
    var_x0 : float
        Variance of the state before the first time point.
    factors : ndarray of shape (n_clusters, n_times)
        eta_kt, shared by the series of a cluster.
    states : ndarray of shape (n_series, n_times)
        x_it, the trend of each series without observation noise.
    common : ndarray of shape (n_series,)
        Loadings of the factor that all series share; zero where there is none.
    common_factor : ndarray of shape (n_times,)
        g_t, likewise.
    """

    labels: np.ndarray
    a: np.ndarray
    loading: np.ndarray
    var_x: float
    var_y: np.ndarray
    var_x0: float
    factors: np.ndarray
    states: np.ndarray
    common: np.ndarray
    common_factor: np.ndarray

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.labels, dtype=dtype)


class ScaleMixtureTruth(NamedTuple):
    """True parameters of `make_scale_mixture`.

    Attributes
    ----------
    labels : ndarray of shape (n,)
    means : ndarray of shape (n_clusters,)
    wide : ndarray of bool, shape (n,)
        Whether the observation came from the wide component.
    r, C, var : float
    """

    labels: np.ndarray
    means: np.ndarray
    wide: np.ndarray
    r: float
    C: float
    var: float

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.labels, dtype=dtype)


def inverse_wishart(
    df: float, dim: int, size: int, rng: np.random.Generator, scale: float = 1.0
) -> np.ndarray:
    """Draw `size` matrices from the inverse Wishart with scale matrix ``scale * I``.

    Examples
    --------
    >>> import numpy as np
    >>> inverse_wishart(6, 2, 3, np.random.default_rng(0)).shape
    (3, 2, 2)
    """
    # Bartlett: A lower triangular with chi's on the diagonal makes A A' a Wishart draw.
    bartlett = np.zeros((size, dim, dim))
    for j in range(dim):
        bartlett[:, j, j] = np.sqrt(rng.chisquare(df - j, size=size))
        bartlett[:, j, :j] = rng.standard_normal((size, j))
    inverse = np.linalg.solve(bartlett, np.broadcast_to(np.eye(dim), bartlett.shape))
    return scale * np.swapaxes(inverse, 1, 2) @ inverse


def make_student_t(
    n: int = 600,
    n_clusters: int = 20,
    dim: int = 2,
    df: float = 5.0,
    separation: float | str = "medium",
    random_state: Any = None,
    *,
    weights: ArrayLike | None = None,
) -> tuple[np.ndarray, StudentTTruth]:
    """Simulate a mixture of Student-t clusters drawn from a normal inverse Wishart.

    Sigma_k is inverse Wishart with ``dim + 4`` degrees of freedom and mean I; given it,
    mu_k ~ N(0, separation^2 Sigma_k); y_i ~ t_df(mu_z, Sigma_z).

    Parameters
    ----------
    n : int
        Number of observations.
    n_clusters, dim : int
        Number of clusters, and of columns.
    df : float
        Degrees of freedom; ``numpy.inf`` gives Gaussian clusters.
    separation : float or {"hard", "medium", "easy"}
        Spread of the means in units of a cluster's own scale: 4 is hard, 8 medium, 20 easy.
        With 20 clusters in the plane and df = 5, somebody who knew every cluster exactly would
        label with a normalized mutual information of about 0.67, 0.85 and 0.97.
    random_state : None, int or Generator
    weights : array of n_clusters, optional
        Draw each label with these weights. By default cluster sizes are as equal as possible.

    Returns
    -------
    X : ndarray of shape (n, dim)
    truth : StudentTTruth
        ``truth.labels``, ``truth.means``, ``truth.scales``, ``truth.df``, ``truth.u``.

    Examples
    --------
    >>> X, truth = make_student_t(100, n_clusters=4, dim=2, df=5, random_state=0)
    >>> X.shape, truth.labels.shape, truth.means.shape
    ((100, 2), (100,), (4, 2))
    """
    n = check_count("n", n, 1)
    n_clusters = check_count("n_clusters", n_clusters, 1)
    dim = check_count("dim", dim, 1)
    df = float("inf") if df == float("inf") else check_number("df", df, 0.0)
    if isinstance(separation, str):
        if separation not in SEPARATIONS:
            raise ValueError(
                f"separation must be a number or one of {sorted(SEPARATIONS)}; got {separation!r}."
            )
        separation = SEPARATIONS[separation]
    separation = check_number("separation", separation, 0.0, strict=False)
    rng = as_generator(random_state)

    # dim + 4 degrees of freedom with scale 3 I: E[Sigma] = I and a finite variance.
    scales = inverse_wishart(dim + 4.0, dim, n_clusters, rng, scale=3.0)
    roots = np.linalg.cholesky(scales)
    means = separation * np.einsum("kij,kj->ki", roots, rng.standard_normal((n_clusters, dim)))
    labels = draw_labels(n, n_clusters, weights, rng)
    u = np.ones(n) if np.isinf(df) else rng.gamma(df / 2, 2 / df, size=n)
    noise = np.einsum("nij,nj->ni", roots[labels], rng.standard_normal((n, dim)))
    X = means[labels] + noise / np.sqrt(u)[:, None]
    return X, StudentTTruth(labels, means, scales, df, u)


def make_series(
    n_series: int = 300,
    n_times: int = 200,
    n_clusters: int = 20,
    a: ArrayLike = 0.95,
    loading: ArrayLike = 1.0,
    var_x: float = 0.01,
    var_y: ArrayLike = 1.0,
    missing: float = 0.0,
    random_state: Any = None,
    *,
    var_x0: float = INITIAL_VARIANCE,
    weights: ArrayLike | None = None,
    negative: float = 0.0,
    common: ArrayLike = 0.0,
) -> tuple[np.ndarray, SeriesTruth]:
    """Simulate time series whose clusters share a latent factor, with noise and missing values.

    ::

        x_i0 ~ N(0, var_x0)
        x_it = a_i x_i,t-1 + loading_i eta_kt + common_i g_t + eps_it,   k = z_i,  t = 1..n_times
        y_it = x_it + nu_it

    with eta_kt ~ N(0, 1), g_t ~ N(0, 1), eps_it ~ N(0, var_x) and nu_it ~ N(0, var_y_i).

    Parameters
    ----------
    n_series, n_times, n_clusters : int
    a, loading, var_y : float or array of n_series
        Autoregression (in (-1, 1)), factor loading and observation variance of each series.
    var_x : float
        Variance of the state's own noise.
    missing : float
        Each cell is unobserved (NaN) with this probability.
    random_state : None, int or Generator
    var_x0 : float
        Variance of x_i0.
    weights : array of n_clusters, optional
        Draw each label with these weights. By default cluster sizes are as equal as possible.
    negative : float
        Each series moves against its cluster's factor, its loading negated, with this probability.
    common : float or array of n_series
        Loadings of a factor that all series share.

    Returns
    -------
    Y : ndarray of shape (n_series, n_times)
        NaN where not observed.
    truth : SeriesTruth

    Examples
    --------
    >>> Y, truth = make_series(30, 50, n_clusters=3, missing=0.2, random_state=0)
    >>> Y.shape, truth.factors.shape, truth.states.shape
    ((30, 50), (3, 50), (30, 50))
    """
    n_series = check_count("n_series", n_series, 1)
    n_times = check_count("n_times", n_times, 1)
    n_clusters = check_count("n_clusters", n_clusters, 1)
    missing = check_number("missing", missing, 0.0, 1.0, strict=False)
    negative = check_number("negative", negative, 0.0, 1.0, strict=False)
    a = as_vector("a", a, n_series, "series")
    if (np.abs(a) >= 1).any():
        bad = int(np.argmax(np.abs(a) >= 1))
        raise ValueError(f"a must lie in (-1, 1); a[{bad}] is {a[bad]!r}.")
    loading = as_vector("loading", loading, n_series, "series")
    common = as_vector("common", common, n_series, "series")
    var_y = as_vector("var_y", var_y, n_series, "series")
    if (var_y < 0).any():
        bad = int(np.argmax(var_y < 0))
        raise ValueError(f"var_y must be zero or positive; var_y[{bad}] is {var_y[bad]!r}.")
    var_x = check_number("var_x", var_x, 0.0, strict=False)
    var_x0 = check_number("var_x0", var_x0, 0.0, strict=False)
    rng = as_generator(random_state)

    labels = draw_labels(n_series, n_clusters, weights, rng)
    factors = rng.standard_normal((n_clusters, n_times))
    if negative > 0:
        loading = np.where(rng.random(n_series) < negative, -loading, loading)
    drive = loading[:, None] * factors[labels]
    drive += np.sqrt(var_x) * rng.standard_normal((n_series, n_times))
    common_factor = rng.standard_normal(n_times) if common.any() else np.zeros(n_times)
    drive += common[:, None] * common_factor
    states = np.empty((n_series, n_times))
    x = np.sqrt(var_x0) * rng.standard_normal(n_series)
    for t in range(n_times):
        x = a * x + drive[:, t]
        states[:, t] = x
    Y = states + np.sqrt(var_y)[:, None] * rng.standard_normal((n_series, n_times))
    Y[rng.random((n_series, n_times)) < missing] = np.nan
    return Y, SeriesTruth(
        labels, a, loading, var_x, var_y, var_x0, factors, states, common, common_factor
    )


def make_scale_mixture(
    n: int = 100,
    r: float = 0.2,
    C: float = 5.0,
    delta: float = 0.5,
    n_clusters: int = 2,
    var: float = 1.0,
    random_state: Any = None,
) -> tuple[np.ndarray, ScaleMixtureTruth]:
    """Simulate one-dimensional clusters, each a narrow and a wide Gaussian with one mean.

    y_i ~ (1 - r) N(phi_k, var) + r N(phi_k, C var), with the cluster means `delta` apart and
    centered at zero.

    Parameters
    ----------
    n : int
        Number of observations.
    r : float
        Probability of the wide component.
    C : float
        Its variance in units of the narrow one's.
    delta : float
        Distance between neighboring cluster means.
    n_clusters : int
    var : float
        Variance of the narrow component.
    random_state : None, int or Generator

    Returns
    -------
    y : ndarray of shape (n,)
    truth : ScaleMixtureTruth

    Examples
    --------
    >>> y, truth = make_scale_mixture(100, r=0.2, C=5, delta=2.0, random_state=0)
    >>> y.shape, truth.means.tolist()
    ((100,), [-1.0, 1.0])
    """
    n = check_count("n", n, 1)
    n_clusters = check_count("n_clusters", n_clusters, 1)
    r = check_number("r", r, 0.0, 1.0, strict=False)
    C = check_number("C", C, 0.0)
    delta = check_number("delta", delta, 0.0, strict=False)
    var = check_number("var", var, 0.0)
    rng = as_generator(random_state)

    means = delta * (np.arange(n_clusters) - (n_clusters - 1) / 2)
    labels = draw_labels(n, n_clusters, None, rng)
    wide = rng.random(n) < r
    sd = np.sqrt(np.where(wide, C * var, var))
    y = means[labels] + sd * rng.standard_normal(n)
    return y, ScaleMixtureTruth(labels, means, wide, r, C, var)
