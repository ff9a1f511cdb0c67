"""What the series model is worth by default: intervals, wild values, a market, sectors of stocks.

    python benchmarks/series_model.py                  # everything; docs/studies.md has the tables
    python benchmarks/series_model.py coverage 200 16  # one part, its first seed, and how many

Parts: coverage (90% intervals of held-out observations), seattle (the same of sales by tract and
month; CAVITY_DATA names their folder), start (the first months of the same), wild (one cell in a
hundred times 20), common (a factor of all series, with and without one in the data), trends
(forecasts of series that trend, with and without differences), stocks
(weekly returns against sectors: a path to pyhuge's stockdata.npz follows). One chain of 250 sweeps
each, but for the last. Seeds from 100 on were used to choose settings, from 200 on to report.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np
from sklearn.metrics import adjusted_rand_score

from cavity import SeriesMixture
from cavity.datasets import make_series

QUICK = {"n_chains": 1, "n_warmup": 150, "n_draws": 100, "progress": False, "n_jobs": 1}


def fit(Y, n_clusters=4, **settings):
    return SeriesMixture(n_clusters, random_state=0, **QUICK | settings).fit(Y)


def held(mean_lower_upper, values):
    """Share of the observed values inside their intervals."""
    lower, upper = (np.asarray(v) for v in mean_lower_upper[1:3])
    known = np.isfinite(values)
    return ((lower < values) & (values < upper))[known].mean()


DATA = {
    "the paper's noise": {},
    "10 times the noise": {"var_y": 10.0},
    "70% missing": {"missing": 0.7},
    "a = 0, as of returns": {"a": 0.0},
    "a = .99, as of prices": {"a": 0.99},
    "loadings of both signs": {"negative": 0.5},
}


def coverage(first=200, n=8, **settings):
    """90% intervals: cells held out within the data, and 12 times beyond it."""
    import pandas as pd

    print(
        f"{'data':26s} trends  within  beyond  step 1  step 12   mean a  "
        f"(seeds {first} to {first + n - 1})"
    )
    for name, options in DATA.items():
        rows = []
        for seed in range(first, first + n):
            Y, truth = make_series(60, 72, 4, random_state=seed, **options)
            rng = np.random.default_rng(seed)
            out = (rng.random(Y.shape) < 0.1) & np.isfinite(Y)
            out[:, 60:] = False
            train = np.where(out, np.nan, Y)[:, :60]
            s = fit(train, **settings)
            i, t = np.nonzero(out)
            inside = s.predict_values(pd.DataFrame({"series": i, "time": t}))
            ahead = s.forecast(12)
            later = Y[:, 60:]
            rows.append([
                held(s.trends_, truth.states[:, :60]),
                held((None, inside["lower"], inside["upper"]), Y[i, t]), held(ahead, later),
                held([b.iloc[:, :1] for b in ahead], later[:, :1]),
                held([b.iloc[:, 11:] for b in ahead], later[:, 11:]),
                s.series_["a"].mean(),
            ])  # fmt: skip
        print(f"{name:26s}", "  ".join(f"{v:6.3f}" for v in np.mean(rows, 0)), flush=True)
        error = np.std(rows, 0, ddof=1) / np.sqrt(n)
        print(f"{'  standard error':26s}", "  ".join(f"{v:6.3f}" for v in error), flush=True)


def declines(seed, n=60, n_times=46):
    """Logarithms of logistic declines, as of fertility: clusters share middle and pace."""
    rng = np.random.default_rng(seed)
    middle, pace = rng.uniform(10, 45, 4), rng.uniform(4, 9, 4)
    z = rng.integers(4, size=n)
    away = np.arange(n_times) - (middle[z] + rng.normal(0, 2, n))[:, None]
    away = away / (pace[z] * np.exp(rng.normal(0, 0.1, n)))[:, None]
    drop = rng.uniform(3, 5, n)[:, None] / (1 + np.exp(-away))
    walk = np.cumsum(rng.normal(0, 0.012, (n, n_times)), axis=1)
    level = np.log(np.clip(rng.normal(6.5, 0.5, n)[:, None] - drop, 1.0, None))
    return level + walk + rng.normal(0, 0.01, (n, n_times)), z


def slopes(seed, n=60, n_times=46):
    """Local linear trends: clusters share a slope that is a slow autoregression."""
    rng = np.random.default_rng(seed)
    z = rng.integers(4, size=n)
    shared = np.zeros((4, n_times))
    shared[:, 0] = rng.normal(0, 0.3, 4)
    for t in range(1, n_times):
        shared[:, t] = 0.9 * shared[:, t - 1] + rng.normal(0, 0.13, 4)
    steps = rng.normal(0, 0.05, (n, 1)) + rng.normal(1, 0.2, n)[:, None] * shared[z]
    steps += rng.normal(0, 0.1, (n, n_times))
    level = 3 + rng.normal(0, 1, n)[:, None] + np.cumsum(steps, axis=1)
    return level + rng.normal(0, 0.1, (n, n_times)), z


def autoregressions(seed, n=60, n_times=46):
    """The model's own series around a level: no trend."""
    Y, truth = make_series(n, n_times, 4, random_state=seed)
    return Y, truth.labels


def damped_trend(Y, steps):
    """Forecasts by exponential smoothing with a damped trend, one series at a time."""
    import pandas as pd
    from statsmodels.tsa.holtwinters import ExponentialSmoothing

    whole = pd.DataFrame(Y).interpolate(axis=1, limit_direction="both").to_numpy()
    return np.array([
        ExponentialSmoothing(y, trend="add", damped_trend=True).fit().forecast(steps)
        for y in whole
    ])  # fmt: skip


def trends(first=200, n=6, steps=6):
    """Mean absolute error and 90% coverage of the last six times, 12% of the cells missing."""
    import pandas as pd

    print(f"seeds {first} to {first + n - 1}; error, standard error, coverage, ARI")
    for make in (declines, slopes, autoregressions):
        rows = {}
        for seed in range(first, first + n):
            Y, labels = make(seed)
            later = Y[:, -steps:]
            out = np.random.default_rng(seed).random(Y.shape) < 0.12
            train = np.where(out, np.nan, Y)[:, :-steps]
            last = pd.DataFrame(train).ffill(axis=1).iloc[:, -1:].to_numpy()
            for name, mean in (("last value", last), ("damped trend", damped_trend(train, steps))):
                error = np.abs(mean - later).mean()
                rows.setdefault(name, []).append([error, np.nan, np.nan])
            for name, difference in (("default", False), ("difference=True", True)):
                s = fit(train, 6, difference=difference)
                band = s.forecast(steps)
                rows.setdefault(name, []).append([
                    np.abs(band.mean.to_numpy() - later).mean(), held(band, later),
                    adjusted_rand_score(labels, s.labels_),
                ])  # fmt: skip
        for name, found in rows.items():
            error, covered, ari = np.mean(found, axis=0)
            se = np.std(np.array(found)[:, 0], ddof=1) / np.sqrt(n)
            print(f"{make.__name__:16s} {name:16s} {error:.4f} {se:.4f} {covered:.3f} {ari:.2f}",
                  flush=True)  # fmt: skip


def sales_of_seattle():
    """Log prices, month and covariates of every sale."""
    from cavity.datasets import fetch_seattle_sales

    sales = fetch_seattle_sales()
    sales = sales.assign(
        log_price=np.log(sales["price"]), log_sqft=np.log(sales["sqft"]),
        month=sales["sale_date"].dt.to_period("M"), region=sales["region"].astype(str),
    )  # fmt: skip
    return sales[["region", "month", "log_price", "log_sqft", "bathrooms"]]


NAMES = {"series": "region", "time": "month", "value": "log_price"}


def seattle(first=200, n=3, **settings):
    """90% intervals of held-out sales, and of those of the last six months."""
    sales = sales_of_seattle()
    last = sales["month"] > sales["month"].max() - 6
    for seed in range(first, first + n):
        rng = np.random.default_rng(seed)
        out = ~last & (rng.random(len(sales)) < 0.1)
        s = SeriesMixture(10, random_state=seed, **QUICK | settings)
        s.fit(sales[~last & ~out], **NAMES, covariates=["log_sqft", "bathrooms"])
        share = []
        for rows in (sales[out], sales[last]):
            found = s.predict_values(rows)
            share.append(rows["log_price"].between(found["lower"], found["upper"]).mean())
        print(f"seed {seed}: within {share[0]:.3f}, last six months {share[1]:.3f}, "
              f"log score {s.score(sales[out]):.3f}", flush=True)  # fmt: skip


def start(first=200, n=2, **settings):
    """How much the tracts' trends change in their first months, and later."""
    sales = sales_of_seattle()
    for seed in range(first, first + n):
        s = SeriesMixture(10, random_state=seed, **QUICK | settings)
        s.fit(sales, **NAMES, covariates=["log_sqft", "bathrooms"])
        trend = s.trends_.mean.to_numpy()
        steps = np.abs(np.diff(trend, axis=1))
        sd = (s.trends_.upper - s.trends_.lower).to_numpy() / 3.29
        print(f"seed {seed}: mean change of months 1-2, 2-3, 3-4, later "
              f"{steps[:, 0].mean():.4f} {steps[:, 1].mean():.4f} {steps[:, 2].mean():.4f} "
              f"{steps[:, 3:].mean():.4f}; largest in the first three {steps[:, :3].max():.3f}, "
              f"later {steps[:, 3:].max():.3f}; s.d. of the first trend {sd[:, 0].mean():.3f}, "
              f"later {sd[:, 12:-12].mean():.3f}", flush=True)  # fmt: skip


def spoilt(Y, seed):
    """One cell in a hundred times 20."""
    wild = np.random.default_rng(seed + 999).random(Y.shape) < 0.01
    return np.where(wild, 20.0 * Y, Y)


def wild(first=200, n=8):
    """Agreement with the truth (ARI) with and without wild values."""
    print(f"seeds {first} to {first + n - 1}; without wild values, then with; Gaussian, Student-t")
    for name, noise in (("the paper's noise", 1.0), ("10 times the noise", 10.0)):
        rows = []
        for seed in range(first, first + n):
            Y, truth = make_series(60, 60, 4, var_y=noise, random_state=seed)
            rows.append([
                adjusted_rand_score(truth.labels, fit(data, df=df).labels_)
                for data in (Y, spoilt(Y, seed)) for df in (None, "learn")
            ])  # fmt: skip
        print(f"{name:20s}", "  ".join(f"{v:7.3f}" for v in np.mean(rows, 0)), flush=True)


def make_market(seed, n=80, n_times=120, n_sectors=8, a=0.0):
    """Returns of stocks: a market, sectors, heavy tails, scales of their own."""
    rng = np.random.default_rng(seed)
    z = np.arange(n) % n_sectors
    beta, loading = rng.normal(1.0, 0.25, n), 0.6 * rng.normal(1.0, 0.2, n)
    steps = beta[:, None] * rng.standard_normal(n_times)
    steps += loading[:, None] * rng.standard_normal((n_sectors, n_times))[z]
    x = np.zeros((n, n_times))
    for t in range(n_times):
        x[:, t] = a * (x[:, t - 1] if t else 0.0) + steps[:, t]
    noise = 0.7 * rng.standard_t(4, (n, n_times))
    return (x + noise) * np.exp(0.5 * rng.standard_normal((n, 1))), z


def common(first=200, n=6):
    """Agreement with the truth (ARI): without a common factor, with one, by default."""
    cases = {
        "market, 8 sectors": lambda s: (*make_market(s), 8),
        "market, 4 sectors": lambda s: (*make_market(s, n_sectors=4), 4),
        "market, price levels": lambda s: (*make_market(s, a=0.95), 8),
    }
    for name, options in list(DATA.items())[:4]:
        cases[f"none, {name}"] = lambda s, options=options: _plain(s, options)
    print(
        f"{'data':32s} without     with  default (shared in)   (seeds {first} to {first + n - 1})"
    )
    for name, make in cases.items():
        rows = []
        for seed in range(first, first + n):
            Y, z, k = make(seed)
            fits = [fit(Y, k, common_factor=c) for c in (False, True, "auto")]
            rows.append([adjusted_rand_score(z, s.labels_) for s in fits])
            rows[-1].append("common" in fits[2].posterior_.drawn)
        print(f"{name:32s}", "  ".join(f"{v:7.3f}" for v in np.mean(rows, 0)), flush=True)


def _plain(seed, options):
    Y, truth = make_series(60, 60, 4, random_state=seed, **options)
    return Y, truth.labels, 4


def stocks(path):
    """Weekly returns of 452 stocks against their sectors, by default."""
    from sklearn.cluster import KMeans

    with np.load(path) as file:
        prices, sector = file["data"], file["info"][:, 1]
    returns = np.diff(np.log(prices[::5]), axis=0).T
    scaled = (returns - returns.mean(1, keepdims=True)) / returns.std(1, keepdims=True)
    means = [KMeans(10, n_init=5, random_state=s).fit_predict(scaled) for s in range(5)]
    print(
        "k-means of standardised returns", *(f"{adjusted_rand_score(sector, m):.2f}" for m in means)
    )
    for n_clusters in (10, 20):
        for settings in ({}, {"common_factor": False}):
            s = SeriesMixture(n_clusters, n_warmup=150, n_draws=100, n_jobs=1, random_state=1,
                              progress=False, **settings).fit(returns)  # fmt: skip
            each = [adjusted_rand_score(sector, chain[-1]) for chain in s.posterior_.labels]
            found = adjusted_rand_score(sector, s.labels_)
            print(f"n_clusters={n_clusters}, {settings or 'default'}: ARI {found:.2f}, chains "
                  f"{np.round(each, 2)}, {s.n_clusters_} clusters", flush=True)  # fmt: skip


PARTS = {f.__name__: f for f in (coverage, trends, seattle, start, wild, common, stocks)}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    chosen = sys.argv[1:2] or [name for name in PARTS if name != "stocks"]
    given = [int(v) if v.isdigit() else v for v in sys.argv[2:]]
    for name in chosen:
        print(f"\n== {name}: {PARTS[name].__doc__.splitlines()[0]}", flush=True)
        PARTS[name](*given)
