"""Local house price indices from single sales: a scikit-learn regressor of prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.utils.validation import check_is_fitted

from cavity.hedonic.clusters import ClusteredTrends
from cavity.hedonic.design import LogQuartileSplines, SeasonalTrend, month_labels, month_numbers
from cavity.hedonic.local import LocalFit, NoLocal, RegionRegressions

if TYPE_CHECKING:
    import pandas as pd

LOCAL_MODELS = ("none", "regression", "clusters")


class _Rows(NamedTuple):
    """Sales in the form the local models take: one entry per sale."""

    month: np.ndarray
    region: np.ndarray
    splines: np.ndarray


class HedonicIndex(RegressorMixin, BaseEstimator):
    """House prices from features, a global trend, and what each region adds to them.

    The logarithm of a price is the sum of a global part (a smooth trend in the month, a season,
    B-splines of the logarithms of the features), fitted once by least squares, and a local part:

    - ``local="none"``: nothing;
    - ``local="regression"``: each region has its own coefficients of the features, tied together
      by a hierarchical prior;
    - ``local="clusters"``: such regressions, and for each region a trend of its own, driven by a
      latent factor that the regions of a cluster share (see `SeriesMixture`).

    Parameters
    ----------
    local : {"clusters", "regression", "none"}
        The local part.
    features : sequence of str
        Columns with positive measurements of the house.
    region, date : str
        Columns with the region and the date of the sale.
    region_level : bool
        Give each region a level of its own among its coefficients.
    n_clusters : int
        Clusters of regions, where there are any.
    collapse : {"ep", "collapsed", "naive"}
        How the clusters' factors are dealt with when labels are drawn.
    n_chains : int
        Chains, for ``local="clusters"``; one otherwise.
    n_warmup, n_draws : int
        Sweeps to discard and to keep.
    random_state : None or int
    progress : bool, optional
    series_options : mapping, optional
        Further arguments of `SeriesMixture`.

    Attributes
    ----------
    regions_ : ndarray of str
        The regions seen in fitting, sorted.
    months_ : PeriodIndex
        From the first to the last month seen in fitting.
    local_ : object
        The fitted local part, with its draws.
    global_sd_ : float
        Standard deviation of the log price about the global part.

    Examples
    --------
    >>> import numpy as np, pandas as pd
    >>> rng = np.random.default_rng(0)
    >>> sales = pd.DataFrame({
    ...     "region": rng.choice(["north", "south"], 400),
    ...     "sale_date": pd.Timestamp("2015-01-01") + pd.to_timedelta(np.arange(400), "D"),
    ...     "sqft": rng.lognormal(7, 0.3, 400),
    ... })
    >>> price = 300 * sales["sqft"] * np.where(sales["region"] == "north", 1.2, 0.9)
    >>> model = HedonicIndex("regression", features=["sqft"], random_state=0).fit(sales, price)
    >>> bool(abs(model.predict(sales) / price - 1).mean() < 0.02)
    True
    >>> model.price_index(["north"]).columns.tolist()
    ['region', 'month', 'price', 'lower', 'upper']
    """

    def __init__(
        self,
        local: str = "clusters",
        *,
        features: Sequence[str] = ("bathrooms", "sqft", "lot_sqft"),
        region: str = "region",
        date: str = "sale_date",
        region_level: bool = True,
        n_clusters: int = 20,
        collapse: str = "ep",
        n_chains: int = 4,
        n_warmup: int = 200,
        n_draws: int = 300,
        random_state: Any = None,
        progress: bool | None = None,
        series_options: Mapping[str, Any] | None = None,
    ) -> None:
        self.local = local
        self.features = features
        self.region = region
        self.date = date
        self.region_level = region_level
        self.n_clusters = n_clusters
        self.collapse = collapse
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.random_state = random_state
        self.progress = progress
        self.series_options = series_options

    def fit(self, X: pd.DataFrame, y: Any) -> HedonicIndex:
        """Fit the global part, then the local one to what it leaves.

        Parameters
        ----------
        X : DataFrame
            One sale a row, with the columns named at construction.
        y : array of float
            Prices.
        """
        if self.local not in LOCAL_MODELS:
            raise ValueError(f"local must be one of {LOCAL_MODELS}; got {self.local!r}.")
        table = self._table(X)
        price = np.asarray(y, dtype=float)
        if price.shape != (len(table),):
            raise ValueError(f"y must have one price per sale: {len(table)}; got {price.shape}.")
        bad = ~(np.isfinite(price) & (price > 0))
        if bad.any():
            row = int(np.argmax(bad))
            raise ValueError(f"Prices must be positive and finite; row {row} is {price[row]}.")
        if not len(table):
            raise ValueError("There are no sales to fit.")
        months = month_numbers(table[self.date], self.date)
        self.regions_ = np.unique(table[self.region].astype(str))
        self.first_month_, self.last_month_ = int(months.min()), int(months.max())
        self.months_ = month_labels(np.arange(self.first_month_, self.last_month_ + 1))
        self.trend_ = SeasonalTrend().fit(months)
        self.splines_ = LogQuartileSplines().fit(table[list(self.features)])
        # The slight ridge settles directions that the data leave open, such as a season seen once.
        rows = self._rows(table)
        self.global_ = Ridge(alpha=1e-6).fit(self._global_design(rows), np.log(price))
        residual = np.log(price) - self._global_part(rows)
        self.global_sd_ = float(residual.std())
        self.typical_house_ = {f: float(np.median(table[f])) for f in self.features}
        self.local_: Any = self._fit_local(rows, residual)
        return self

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Price of each sale: the exponential of the posterior mean of its logarithm."""
        return np.exp(self._log_moments(X)[0])

    def predict_interval(self, X: pd.DataFrame, level: float = 0.9) -> np.ndarray:
        """Interval that holds the price of each sale with the given probability.

        Normal on the scale of logarithms; uncertainty of parameters and noise of sales included.

        Returns
        -------
        interval : ndarray of shape (n, 2)
        """
        z = _quantile(level)
        mean, var = self._log_moments(X)
        return np.exp(np.column_stack([mean - z * np.sqrt(var), mean + z * np.sqrt(var)]))

    def price_index(
        self,
        regions: Sequence[str] | None = None,
        level: float = 0.9,
        *,
        house: Mapping[str, float] | None = None,
        season: bool = False,
    ) -> pd.DataFrame:
        """Price of one and the same house, region by region and month by month.

        Parameters
        ----------
        regions : sequence of str, optional
            All regions by default.
        level : float
            Probability that the interval holds the index (the noise of single sales apart).
        house : mapping, optional
            Feature values; by default the median of each.
        season : bool
            Keep the season in the index.

        Returns
        -------
        index : DataFrame
            region, month, price, lower, upper.
        """
        check_is_fitted(self)
        import pandas as pd

        z = _quantile(level)
        names = self.regions_ if regions is None else np.asarray([str(r) for r in regions])
        unknown = sorted(set(names) - set(self.regions_))
        if unknown:
            raise ValueError(f"No sales were seen in the region(s) {', '.join(unknown)}.")
        values = {**self.typical_house_, **(house or {})}
        extra = sorted(set(values) - set(self.features))
        if extra:
            raise ValueError(f"house has the unknown feature(s) {', '.join(extra)}.")
        months = np.arange(self.first_month_, self.last_month_ + 1)
        house_splines = self.splines_.transform(pd.DataFrame([values])[list(self.features)])
        n = len(names) * len(months)
        rows = _Rows(
            np.tile(months, len(names)),
            np.repeat(np.searchsorted(self.regions_, names), len(months)),
            np.broadcast_to(house_splines, (n, house_splines.shape[1])),
        )
        mean, var = self.local_.effect(rows)
        mean = mean + self._global_part(rows, season=season)
        return pd.DataFrame(
            {
                "region": np.repeat(names, len(months)),
                "month": np.tile(month_labels(months), len(names)),
                "price": np.exp(mean),
                "lower": np.exp(mean - z * np.sqrt(var)),
                "upper": np.exp(mean + z * np.sqrt(var)),
            }
        )

    def _fit_local(self, rows: _Rows, residual: np.ndarray) -> LocalFit:
        if self.local == "none":
            return NoLocal(self.global_sd_)
        sampling = {
            "n_warmup": self.n_warmup,
            "n_draws": self.n_draws,
            "random_state": self.random_state,
            "progress": self.progress,
        }
        if self.local == "regression":
            return RegionRegressions.fit(
                rows, residual, len(self.regions_), region_level=self.region_level, **sampling
            )
        return ClusteredTrends.fit(
            rows,
            residual,
            self.regions_,
            **sampling,
            intercept=self.region_level,
            n_clusters=min(self.n_clusters, len(self.regions_)),
            collapse=self.collapse,
            n_chains=self.n_chains,
            **(self.series_options or {}),
        )

    def _log_moments(self, X: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
        check_is_fitted(self)
        rows = self._rows(self._table(X))
        mean, var = self.local_.effect(rows)
        return mean + self._global_part(rows), var + self.local_.noise(rows)

    def _global_design(self, rows: _Rows, *, season: bool = True) -> np.ndarray:
        return np.hstack([self.trend_.transform(rows.month, season=season), rows.splines])

    def _global_part(self, rows: _Rows, *, season: bool = True) -> np.ndarray:
        return self.global_.predict(self._global_design(rows, season=season))

    def _rows(self, table: pd.DataFrame) -> _Rows:
        names = table[self.region].astype(str).to_numpy()
        position = np.searchsorted(self.regions_, names)
        known = self.regions_[np.minimum(position, len(self.regions_) - 1)] == names
        return _Rows(
            month_numbers(table[self.date], self.date),
            np.where(known, position, -1),
            self.splines_.transform(table[list(self.features)]),
        )

    def _table(self, X: Any) -> pd.DataFrame:
        import pandas as pd

        if not isinstance(X, pd.DataFrame):
            raise TypeError(f"Sales must come as a pandas DataFrame; got {type(X).__name__}.")
        wanted = [self.region, self.date, *self.features]
        missing = [c for c in wanted if c not in X.columns]
        if missing:
            raise ValueError(
                f"The sales lack the column(s) {', '.join(map(repr, missing))}; name yours by the "
                "arguments region, date and features."
            )
        if X[self.region].isna().any():
            row = int(np.argmax(X[self.region].isna().to_numpy()))
            raise ValueError(f"Column {self.region!r} has no value in row {row}.")
        return X


def _quantile(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1); got {level!r}.")
    return float(ndtri(0.5 + level / 2))
