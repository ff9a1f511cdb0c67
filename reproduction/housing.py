"""House prices in Seattle: clustered local trends against two baselines (Table 1, Fig. 5, App. E).

A quick run simulates sales instead of fetching them.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from cavity.hedonic import HedonicIndex
from reproduction.harness import Experiment, Settings, Tables, Unit, Verdict
from reproduction.housing_figures import draw_index, draw_map, draw_nmi
from reproduction.metrics import agreement, recorded_sweeps
from reproduction.runs import cumulative_seconds, warm_up
from reproduction.style import markdown_table

BASELINES: dict[str, dict[str, Any]] = {
    "global": {"local": "none"},
    "global+regression": {"local": "regression", "region_level": False},
    # Beyond the paper: its regressions have no level of their own.
    "global+regression+level": {"local": "regression", "region_level": True},
}
# The last is beyond the paper: EP's idea as a proposal, accepted exactly.
SAMPLERS = ("collapsed", "ep", "corrected")
METRICS = ("rmse", "mean_ape", "median_ape", "p90_ape")
METRIC_NAMES = {
    "rmse": "RMSE",
    "mean_ape": "mean APE",
    "median_ape": "median APE",
    "p90_ape": "90th percentile APE",
    "seconds": "runtime, s",
}
PAPER_TEST = {
    "collapsed": ("125280 (50)", "16.20", "12.07", "34.17", "121.6 (8.1)"),
    "ep": ("125280 (80)", "16.20", "12.07", "34.22", "62.8 (3.7)"),
    "global": ("182150", "24.20", "18.59", "50.48", ""),
    "global+regression": ("180285", "23.55", "18.17", "49.31", ""),
}
N_SHOWN = 4


def units(settings: Settings) -> list[Unit]:
    """Baselines once, each sampler from several starts, and one long exact run for the MAP."""
    size: Unit = {"data": "seattle", "n_clusters": 20, "n_warmup": 300, "n_draws": 700}
    long = 3000
    if settings.quick:
        size = {"data": "simulated", "n_clusters": 3, "n_warmup": 10, "n_draws": 20}
        long = 30
    baselines = [{"method": m, "trial": 0, "data": size["data"]} for m in BASELINES]
    chains = [{"method": m, "trial": t, **size} for t in range(settings.trials) for m in SAMPLERS]
    reference = {"method": "reference", "trial": 0, **size, "n_draws": long}
    return [*baselines, *chains, reference]


def prepare(settings: Settings) -> None:
    """Fetch the sales once, before processes need them."""
    if not settings.quick:
        load_sales("seattle")


@functools.cache
def load_sales(data: str) -> pd.DataFrame:
    """Return sales with the columns of `fetch_seattle_sales`."""
    if data == "simulated":
        return simulate_sales()
    from cavity.datasets import fetch_seattle_sales

    return fetch_seattle_sales()


def simulate_sales(n_sales: int = 1500, n_regions: int = 9, seed: int = 0) -> pd.DataFrame:
    """Return sales of regions whose prices move in three clusters."""
    from cavity.datasets import make_series
    from cavity.hedonic.design import month_labels

    rng = np.random.default_rng(seed)
    _, truth = make_series(n_regions, 24, 3, 0.95, 0.05, 1e-4, random_state=seed, var_x0=0.2)
    region, month = rng.integers(0, n_regions, n_sales), rng.integers(0, 24, n_sales)
    sqft = rng.lognormal(7.4, 0.35, n_sales)
    log_price = 12.5 + 0.7 * np.log(sqft / 1600) + truth.states[region, month]
    return pd.DataFrame(
        {
            "sale_date": month_labels(480 + month).to_timestamp(),
            "price": np.exp(log_price + 0.15 * rng.standard_normal(n_sales)),
            "region": [f"tract {r}" for r in region],
            "bathrooms": rng.choice([1.0, 1.5, 2.0, 2.5, 3.0], n_sales),
            "sqft": sqft,
            "lot_sqft": rng.lognormal(8.4, 0.5, n_sales),
        }
    )


def split(sales: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the training three quarters and the test quarter of every tract; always the same."""
    from sklearn.model_selection import train_test_split

    train, test = train_test_split(
        sales, test_size=0.25, stratify=sales["region"].astype(str), random_state=0
    )
    return train, test


def price_metrics(predicted: np.ndarray, price: np.ndarray) -> dict[str, float]:
    """Return the paper's four measures of error.

    Examples
    --------
    >>> price_metrics(np.array([110.0, 90.0]), np.array([100.0, 100.0]))["rmse"]
    10.0
    """
    ape = 100 * np.abs(predicted - price) / price
    return {
        "rmse": float(np.sqrt(np.mean((predicted - price) ** 2))),
        "mean_ape": float(ape.mean()),
        "median_ape": float(np.median(ape)),
        "p90_ape": float(np.quantile(ape, 0.9)),
    }


def log_score(model: HedonicIndex, sales: pd.DataFrame) -> float:
    """Return the mean log density of log prices under the normal predictive distribution."""
    low, high = np.log(model.predict_interval(sales, 0.6826894921370859)).T
    mean, sd = (low + high) / 2, (high - low) / 2
    z = (np.log(sales["price"].to_numpy(dtype=float)) - mean) / sd
    return float(np.mean(-0.5 * z**2 - np.log(sd) - 0.5 * np.log(2 * np.pi)))


def _clustered(unit: Unit, collapse: str, **changes: Any) -> HedonicIndex:
    settings = {
        "n_clusters": unit["n_clusters"],
        "n_warmup": unit["n_warmup"],
        "n_draws": unit["n_draws"],
        **changes,
    }
    return HedonicIndex(
        "clusters",
        collapse=collapse,
        region_level=False,
        n_chains=1,
        random_state=unit["trial"],
        progress=False,
        # The paper's model: Gaussian noise, and no common factor beside the global trend.
        series_options={
            "options": {"keep_warmup": True},
            "n_jobs": 1,
            "df": None,
            "common_factor": False,
        },
        **settings,
    )


def run(unit: Unit) -> Tables:
    """Fit one method and measure it on the training and the test sales."""
    train, test = split(load_sales(unit["data"]))
    key = {"method": unit["method"], "trial": unit["trial"]}
    if unit["method"] in BASELINES:
        model = HedonicIndex(**BASELINES[unit["method"]], random_state=0, progress=False)
        return {"metrics": _measure(model.fit(train, train["price"]), train, test, key, np.nan)}
    collapse = "collapsed" if unit["method"] == "reference" else unit["method"]
    sample = simulate_sales(200)
    warm_up(
        collapse,
        lambda: _clustered(unit, collapse, n_warmup=0, n_draws=2).fit(sample, sample["price"]),
    )
    model = _clustered(unit, collapse).fit(train, train["price"])
    mixture: Any = model.local_.mixture
    posterior = mixture.posterior_
    if unit["method"] == "reference":
        best = int(np.argmax(np.asarray(posterior.log_joint)[0]))
        labels = np.asarray(posterior.labels)[0, best]
        return {"reference": pd.DataFrame({"region": model.regions_, "label": labels})}
    labels = np.concatenate([posterior.labels_warmup[0], posterior.labels[0]])
    sweeps = recorded_sweeps(len(labels))
    chain = pd.DataFrame(
        {
            "sweep": sweeps,
            "seconds": cumulative_seconds(posterior)[sweeps - 1],
            "labels": [" ".join(map(str, row)) for row in labels[sweeps - 1]],
        }
    )
    seconds = float(np.asarray(posterior.sweep_seconds)[0].sum())
    tables = {
        "metrics": _measure(model, train, test, key, seconds),
        "chains": chain.assign(sampler=unit["method"], trial=unit["trial"]),
    }
    if unit["method"] == "ep" and unit["trial"] == 0:
        tables |= _pictures(model, load_sales(unit["data"]))
    return tables


def _measure(
    model: HedonicIndex, train: pd.DataFrame, test: pd.DataFrame, key: Unit, seconds: float
) -> pd.DataFrame:
    rows = []
    for name, sales in (("train", train), ("test", test)):
        price = sales["price"].to_numpy(dtype=float)
        interval = model.predict_interval(sales, 0.9)
        covered = np.mean((interval[:, 0] <= price) & (price <= interval[:, 1]))
        rows.append(
            {
                **key,
                "sales": name,
                **price_metrics(model.predict(sales), price),
                "log_score": log_score(model, sales),
                "covered": float(covered),
                "seconds": seconds,
            }
        )
    return pd.DataFrame(rows)


def _pictures(model: HedonicIndex, sales: pd.DataFrame) -> Tables:
    """Tables behind the figures: indices of a few tracts, their raw medians, the clusters."""
    region = sales["region"].astype(str)
    counts = region.value_counts()
    # From the tract with the most sales to the one with the fewest.
    shown = [counts.index[i] for i in np.linspace(0, len(counts) - 1, N_SHOWN).astype(int)]
    indices = []
    for name in shown:
        house = sales.loc[region == name, list(model.features)].median().to_dict()
        indices.append(model.price_index([name], house=house))
    index = pd.concat(indices)
    part = sales[region.isin(shown)]
    raw = part.groupby([region[part.index], part["sale_date"].dt.strftime("%Y-%m")])["price"]
    medians = raw.agg(["median", "size"]).reset_index()
    medians.columns = pd.Index(["region", "month", "median", "n_sales"])
    mixture: Any = model.local_.mixture
    certainty = mixture.posterior_.observations()
    clusters = pd.DataFrame(
        {
            "region": model.regions_,
            "cluster": np.asarray(mixture.labels_),
            "certainty": certainty["certainty"].to_numpy(),
        }
    )
    return {"index": index.assign(month=index["month"].astype(str)), "medians": medians,
            "clusters": clusters}  # fmt: skip


def nmi_traces(tables: Tables) -> pd.DataFrame:
    """Return the agreement of every recorded sweep with the exact sampler's MAP."""
    reference = tables["reference"]["label"].to_numpy()
    chains = tables["chains"]
    labels = np.array([[int(v) for v in row.split()] for row in chains["labels"]])
    nmi, ari = agreement(reference, labels)
    return chains.drop(columns="labels").assign(nmi=nmi, ari=ari)


def judge(tables: Tables, settings: Settings) -> list[Verdict]:
    """Hold the paper's statements against the test sales and the clock."""
    metrics = tables["metrics"]
    test = metrics[metrics["sales"] == "test"]
    mean, sd = _by_method(test)
    verdicts = []
    for name in METRICS:
        allowed = max(sd["collapsed"][name], sd["ep"][name])
        difference = mean["ep"][name] - mean["collapsed"][name]
        verdicts.append(
            Verdict(
                f"{METRIC_NAMES[name]} of ep within one s.d. of collapsed (test)",
                f"{_with_sd(mean, sd, 'ep', name)} against {_with_sd(mean, sd, 'collapsed', name)}",
                bool(abs(difference) <= allowed),
            )
        )
    for name in METRICS:
        for baseline in BASELINES:
            best = max(mean[s][name] for s in SAMPLERS)
            gain = 1 - best / mean[baseline][name]
            beyond = "; beyond the paper" if baseline not in PAPER_TEST else ""
            verdicts.append(
                Verdict(
                    f"{METRIC_NAMES[name]} of all samplers far below {baseline} "
                    f"(a tenth; test{beyond})",
                    f"{_number(best)} against {_number(mean[baseline][name])}: "
                    f"{100 * gain:.1f} % less",
                    bool(gain > 0.1),
                )
            )
    ratio = mean["collapsed"]["seconds"] / mean["ep"]["seconds"]
    verdicts.append(
        Verdict(
            "ep faster than collapsed",
            f"{_with_sd(mean, sd, 'ep', 'seconds')} s against "
            f"{_with_sd(mean, sd, 'collapsed', 'seconds')} s: {ratio:.1f} times",
            bool(ratio > 1),
        )
    )
    return verdicts


Numbers = dict[str, dict[str, float]]


def _by_method(metrics: pd.DataFrame) -> tuple[Numbers, Numbers]:
    """Return means and standard deviations over trials, by method and metric."""
    groups = metrics.drop(columns=["trial", "sales"]).groupby("method")
    mean: Any = groups.mean().to_dict("index")
    sd: Any = groups.std().to_dict("index")
    return mean, sd


def _number(value: float) -> str:
    """Dollars without decimals, percentages with two."""
    return f"{value:.0f}" if value >= 1000 else f"{value:.2f}"


def _with_sd(mean: Numbers, sd: Numbers, method: str, name: str) -> str:
    digits = 0 if name == "rmse" else 2
    value, spread = mean[method][name], sd[method][name]
    if np.isnan(value):
        return ""
    text = f"{value:.{digits}f}"
    return text if np.isnan(spread) else f"{text} ({spread:.{digits}f})"


def report(tables: Tables, settings: Settings, out: Path) -> dict[str, str]:
    """Draw the index, the map and the NMI; print train and test tables."""
    draw_nmi(nmi_traces(tables), SAMPLERS, out)
    draw_index(tables["index"], tables["medians"], out)
    if not settings.quick:
        from cavity.datasets import fetch_seattle_tracts

        draw_map(fetch_seattle_tracts(settings.data_home), tables["clusters"], out)
    sections = {}
    for sales in ("test", "train"):
        part = tables["metrics"][tables["metrics"]["sales"] == sales]
        mean, sd = _by_method(part)
        rows = []
        for name in [*METRICS, "seconds"]:
            row = {"metric": METRIC_NAMES[name]}
            for method in [*SAMPLERS, *BASELINES]:
                row[method] = _with_sd(mean, sd, method, name)
                if sales == "test" and method in PAPER_TEST:
                    row[f"{method}, paper"] = PAPER_TEST[method][[*METRICS, "seconds"].index(name)]
            rows.append(row)
        for name, label in (("log_score", "log score"), ("covered", "90 % interval covers")):
            values = {m: f"{mean[m][name]:.3f}" for m in [*SAMPLERS, *BASELINES]}
            rows.append({"metric": label, **values})
        table = pd.DataFrame(rows).fillna("")
        sections[f"Metrics on the {sales} sales"] = markdown_table(table)
    return sections


DISCUSSION = """\
The sales are public ones (43,160 sales in 115 tracts; the paper's 124,480 are not public), so the
errors are not the paper's and the comparison between methods is what is repeated. ep and collapsed
agree within their spread over starts on every metric, ep in a fraction of the time, and both are
far better than the paper's two baselines. A baseline that the paper does not have, regressions with
a level of each tract, gets most of the way: what sets tracts apart in these years is mainly their
level, and clustered trends add little to the error of a point prediction. What they add is a
local index with an interval, month by month, also where sales are few.

The partition itself is uncertain, and the map says so: two clusters hold most tracts, and the
members of the larger one are together in fewer than four draws of five (hatched). Single draws of
either sampler agree little with the most probable partition of a long exact run (NMI below 0.3),
so the traces show which sampler moves sooner, not which is nearer to a truth."""


EXPERIMENT = Experiment(
    name="housing",
    title="House prices: clustered local trends against regressions",
    paper="Table 1, Fig. 5 and Appendix E",
    trials=10,
    units=units,
    run=run,
    judge=judge,
    report=report,
    prepare=prepare,
    quick_trials=2,
    discussion=DISCUSSION,
)
