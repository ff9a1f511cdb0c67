"""Local house price indices from single sales: a scikit-learn regressor of prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtri
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge
from sklearn.utils.validation import check_is_fitted

from cavity.hedonic.clusters import ClusteredTrends
from cavity.hedonic.design import (
    LogQuartileSplines,
    Rows,
    SeasonalTrend,
    check_prices,
    check_table,
    known_months,
    month_labels,
    month_numbers,
    region_positions,
)
from cavity.hedonic.regression import LocalFit, NoLocal, RegionRegressions
from cavity.mcmc.schedule import AUTO

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from cavity import Posterior
    from cavity.posterior.diagnostics import Diagnostics

LOCAL_MODELS = ("none", "regression", "clusters")


@dataclass(repr=False, eq=False)
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
    collapse : {"ep", "auto", "corrected", "collapsed", "naive"}
        How the clusters' factors are dealt with when labels are drawn, as in `SeriesMixture`.
    n_chains : int
        Chains, for ``local="clusters"``; one otherwise.
    n_warmup : int
        Sweeps to discard, at the least.
    n_draws : "auto" or int
        Draws to keep. ``"auto"``: with clusters as many as it takes, as `SeriesMixture` has it; of
        the regressions, which need no more, 300.
    horizon : int
        Months after the last sale of the fit that may still be asked for. There the global trend
        goes on as a straight line, and clustered trends are forecast.
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
    n_sales_ : ndarray of int
        Sales of each region.
    labels_ : ndarray of int
        Cluster of each region, in the order of `regions_`; with ``local="clusters"`` only.
    posterior_ : Posterior
        Draws of the clusters of the regions; with ``local="clusters"`` only.

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

    local: str = "clusters"
    _: KW_ONLY
    features: Sequence[str] = ("bathrooms", "sqft", "lot_sqft")
    region: str = "region"
    date: str = "sale_date"
    region_level: bool = True
    n_clusters: int = 20
    collapse: str = "ep"
    n_chains: int = 4
    n_warmup: int = 200
    n_draws: int | str = AUTO
    horizon: int = 12
    random_state: Any = None
    progress: bool | None = None
    series_options: Mapping[str, Any] | None = None

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
        if isinstance(self.horizon, bool) or not isinstance(self.horizon, int | np.integer):
            raise ValueError(
                f"horizon must be a number of months, 0 or more; got {self.horizon!r}."
            )
        if self.horizon < 0:
            raise ValueError(f"horizon must be a number of months, 0 or more; got {self.horizon}.")
        table = self._table(X)
        price = check_prices(y, len(table))
        months = month_numbers(table[self.date], self.date)
        self.regions_ = np.unique(table[self.region].astype(str))
        self.first_month_, self.last_month_ = int(months.min()), int(months.max())
        self.months_ = month_labels(np.arange(self.first_month_, self.last_month_ + 1))
        self.trend_ = SeasonalTrend().fit(months)
        self.splines_ = LogQuartileSplines().fit(table[list(self.features)])
        # The slight ridge settles directions that the data leave open, such as a season seen once.
        rows = self._rows(table)
        self.n_sales_ = np.bincount(rows.region, minlength=len(self.regions_))
        self.global_ = Ridge(alpha=1e-6).fit(self._global_design(rows), np.log(price))
        residual = np.log(price) - self._global_part(rows)
        self.global_sd_ = float(residual.std())
        self.typical_house_ = {f: float(np.median(table[f])) for f in self.features}
        self.local_: Any = self._fit_local(rows, residual)
        return self

    @property
    def labels_(self) -> np.ndarray:
        """Cluster of each region in the partition nearest to all draws."""
        return self._clusters("labels_").labels

    @property
    def posterior_(self) -> Posterior:
        """Draws of the clusters of the regions."""
        return self._clusters("posterior_").posterior

    def diagnostics(self, **options: Any) -> Diagnostics:
        """Return convergence diagnostics of the regions' clusters; print them.

        Parameters
        ----------
        **options
            As in `Posterior.diagnostics`.
        """
        return self._clusters("diagnostics()").posterior.diagnostics(**options)

    def region_clusters(self) -> pd.DataFrame:
        """Cluster of each region, how certain that is, and its number of sales.

        Returns
        -------
        table : DataFrame
            region, cluster, certainty (mean probability of sharing a cluster with the others
            there), n_sales.
        """
        import pandas as pd

        clusters = self._clusters("region_clusters()")
        return pd.DataFrame(
            {
                "region": self.regions_,
                "cluster": clusters.labels,
                "certainty": clusters.posterior.observations()["certainty"].to_numpy(),
                "n_sales": self.n_sales_,
            }
        )

    def predict(self, X: pd.DataFrame) -> np.ndarray:
        """Price of each sale: the exponential of the posterior mean of its logarithm.

        Regions without a sale in the fit are refused, and so are dates before its first month or
        more than `horizon` months after its last.
        """
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
        steps: int = 0,
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
        steps : int
            Months to go on beyond the last of the fit, up to `horizon`.

        Returns
        -------
        index : DataFrame
            region, month, price, lower, upper.
        """
        check_is_fitted(self)
        import pandas as pd

        z = _quantile(level)
        if isinstance(regions, str):
            raise TypeError(f"regions must be a list of regions, such as [{regions!r}].")
        names = self.regions_ if regions is None else np.asarray([str(r) for r in regions])
        unknown = sorted(set(names) - set(self.regions_))
        if unknown:
            raise ValueError(
                f"No sales were seen in the region(s) {', '.join(unknown)}; regions_ lists those "
                "of the fit."
            )
        if not 0 <= steps <= self.horizon:
            raise ValueError(
                f"steps must lie between 0 and horizon={self.horizon} months; got {steps!r}."
            )
        values = {**self.typical_house_, **(house or {})}
        extra = sorted(set(values) - set(self.features))
        if extra:
            raise ValueError(f"house has the unknown feature(s) {', '.join(extra)}.")
        months = np.arange(self.first_month_, self.last_month_ + 1 + steps)
        house_splines = self.splines_.transform(pd.DataFrame([values])[list(self.features)])
        n = len(names) * len(months)
        rows = Rows(
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

    def plot_index(self, regions: Sequence[str], *, ax: Any = None, **options: Any) -> Axes:
        """Draw the index of some regions with their intervals; forecasts are dotted.

        Parameters
        ----------
        regions : sequence of str
            Up to eight regions.
        ax : matplotlib axes, optional
        **options
            As in `price_index`.
        """
        from cavity.hedonic.plots import draw_index

        index = self.price_index(regions, **options)
        return draw_index(index, self.months_[-1], ax=ax)

    def plot_clusters(self, *, ax: Any = None) -> list[Axes]:
        """Draw the indices of each cluster's regions, 100 in the first month, and their mean.

        Parameters
        ----------
        ax : axes or list of axes, optional
            One per cluster; the largest twelve are drawn.
        """
        from cavity.hedonic.plots import draw_clusters

        labels = self._clusters("plot_clusters()").labels
        return draw_clusters(self.price_index(), labels, ax=ax)

    def _clusters(self, what: str) -> ClusteredTrends:
        check_is_fitted(self, "local_")
        if not isinstance(self.local_, ClusteredTrends):
            raise AttributeError(
                f"{what} is about clusters of regions, and this model was fitted with "
                f"local={self.local!r}, which has none; use local='clusters'."
            )
        return self.local_

    def _fit_local(self, rows: Rows, residual: np.ndarray) -> LocalFit:
        if self.local == "none":
            return NoLocal(self.global_sd_)
        sampling: dict[str, Any] = {
            "n_warmup": self.n_warmup,
            "n_draws": self.n_draws,
            "random_state": self.random_state,
            "progress": self.progress,
        }
        if self.local == "regression":
            if self.n_draws == AUTO:
                del sampling["n_draws"]
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

    def _global_design(self, rows: Rows, *, season: bool = True) -> np.ndarray:
        return np.hstack([self.trend_.transform(rows.month, season=season), rows.splines])

    def _global_part(self, rows: Rows, *, season: bool = True) -> np.ndarray:
        return self.global_.predict(self._global_design(rows, season=season))

    def _rows(self, table: pd.DataFrame) -> Rows:
        return Rows(
            known_months(table, self.date, self.first_month_, self.last_month_, self.horizon),
            region_positions(table, self.region, self.regions_),
            self.splines_.transform(table[list(self.features)]),
        )

    def _table(self, X: Any) -> pd.DataFrame:
        return check_table(X, self.region, self.date, self.features)


def _quantile(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"level must lie in (0, 1); got {level!r}.")
    return float(ndtri(0.5 + level / 2))
