"""What must hold of every fit that is accepted, and of every refusal."""

from __future__ import annotations

import contextlib
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from fuzz_inputs import Case

from cavity import (
    ClusterLimitWarning,
    CoarseColumnsWarning,
    ColumnsNote,
    GaussianMixture,
    NotConvergedWarning,
    SeriesMixture,
    StudentTMixture,
    TableMixture,
    WeightsWarning,
)
from cavity.base import load

ESTIMATORS = {
    "student-t": StudentTMixture,
    "gaussian": GaussianMixture,
    "series": SeriesMixture,
    "table": TableMixture,
}
# Seconds of computing: other processes on the machine do not count.
REFUSED_WITHIN, ANSWERED_WITHIN = 2.0, 10.0
# One case in so many is also saved and loaded, which takes as long as all else.
SAVED_EVERY = 4
# The package's own warnings that have no category of their own, and what ArviZ says of a
# leave-one-out estimate, whose user has to know.
_OURS = (
    ClusterLimitWarning,
    CoarseColumnsWarning,
    ColumnsNote,
    NotConvergedWarning,
    WeightsWarning,
)
_OWN = (
    "series without any observation",
    "Most series trend",
    "Different values for the same series and time",
    "Estimated shape parameter of Pareto distribution",
)


def _total(found: Any) -> float:
    """Sum of leave-one-out, under either of ArviZ's names."""
    return float(found.elpd_loo if hasattr(found, "elpd_loo") else found.elpd)


class Surprise(AssertionError):
    """A property that does not hold."""


def expect(good: Any, what: str) -> None:
    """Raise unless it holds."""
    # Of texts: that there are some, and none is empty; NumPy has known that only since 2.0.
    texts = [good] if isinstance(good, str) else good
    if not (all(texts) if isinstance(texts, list) else np.all(texts)):
        raise Surprise(what)


def finite(values: Any, what: str) -> np.ndarray:
    """Values that must all be numbers."""
    array = np.asarray(values, dtype=float)
    expect(np.isfinite(array), f"{what} is not finite: {array.ravel()[:6]}")
    return array


def check_refusal(error: BaseException) -> None:
    """A refusal is a sentence of the package or of scikit-learn, not an accident in a library."""
    text = str(error)
    own = ValueError | TypeError | FloatingPointError
    expect(isinstance(error, own), f"{type(error).__name__}: {text}")
    expect(not isinstance(error, np.linalg.LinAlgError | UnicodeError), f"{error!r}")
    expect(len(text.split()) >= 5, f"no sentence: {text!r}")
    where = "".join(frame.filename for frame in traceback.extract_tb(error.__traceback__)[-1:])
    expect("/cavity/" in where or "/sklearn/" in where, f"raised in {where}: {error!r}")


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """No warning but the package's own may reach the user."""
    unknown: list[str] = []

    def show(message: Any, category: type[Warning], *where: Any, **others: Any) -> None:
        if issubclass(category, _OURS) or any(v in str(message) for v in _OWN):
            return
        stack = [f for f in traceback.extract_stack() if "/cavity/" in f.filename]
        place = f"{stack[-1].filename}:{stack[-1].lineno}" if stack else str(where[:2])
        unknown.append(f"{category.__name__}: {message} ({place})")

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield
    expect(not unknown, " ".join(unknown[:3]))


def check_case(case: Case) -> str:
    """Fit, ask everything, and return "fitted" or "refused: why"; a `Surprise` if it is neither."""
    model = ESTIMATORS[case.kind](**case.settings)
    began = time.process_time()
    with quietly():
        try:
            model.fit(case.data, **case.names)
        except Exception as error:
            check_refusal(error)
            took = time.process_time() - began
            expect(took < REFUSED_WITHIN, f"refused after {took:.1f} seconds: {error}")
            return f"refused: {error}"
        check_posterior(model)
        if case.kind == "series":
            check_series(model, case)
        elif case.kind == "table":
            check_table(model, case)
        else:
            check_mixture(model, case)
        if case.seed % SAVED_EVERY == 0:
            check_file(model)
    took = time.process_time() - began
    expect(took < ANSWERED_WITHIN, f"took {took:.1f} seconds")
    return "fitted"


# ---------------------------------------------------------------------- answers of all models


def probabilities(table: Any, what: str) -> None:
    """Rows that sum to one."""
    array = finite(table, what)
    expect((array >= -1e-12) & (array <= 1.0 + 1e-9), f"{what} leaves [0, 1]")
    expect(
        not array.shape[1] or np.abs(array.sum(axis=1) - 1.0) < 1e-6, f"{what} does not sum to one"
    )


def check_posterior(model: Any) -> None:
    """What any posterior answers."""
    p = model.posterior_
    inside = model.labels_ if not p.record.noise else model.labels_[model.labels_ >= 0]
    expect(model.labels_.shape == (p.n_observations,), "labels_ has another shape")
    expect(np.array_equal(np.unique(inside), np.arange(model.n_clusters_)), "labels_ out of range")
    finite(p.log_joint, "log_joint")
    similarity = finite(p.similarity(), "similarity")
    expect((similarity >= 0) & (similarity <= 1.0 + 1e-6), "similarity leaves [0, 1]")
    # Where there is no other cluster, none is named.
    finite(p.observations().drop(columns="alternative").select_dtypes("number"), "certainty")
    summary = p.summary()
    # A cluster of the estimate that no draw has is told by its presence; it has no sizes.
    # Noise, which may be among the clusters here, has no parameters.
    noise = summary["weight"].isna() & (summary["presence"] > 0) if p.record.noise else None
    expect(noise is None or noise.sum() <= 1, "more than one cluster without a weight")
    clusters = summary if noise is None else summary[~noise]
    finite(clusters[clusters["presence"] > 0].select_dtypes("number"), "summary")
    finite(model.partition_.expected_loss, "expected loss")
    finite(p.partition("binder").expected_loss, "expected Binder loss")
    finite(p.n_clusters_posterior(), "n_clusters_posterior")
    allocation = finite(p.allocation_probabilities(), "allocation probabilities")
    expect((allocation >= 0) & (allocation <= 1.0 + 1e-9), "allocation leaves [0, 1]")
    model.partition_.credible_ball()
    expect(str(model.diagnostics()), "no diagnostics")
    expect("not finite" not in model.diagnostics().verdict, model.diagnostics().verdict)
    p.to_arviz()
    for name in p.parameters:
        values = np.asarray(p.parameters[name], dtype=float)
        if name in p.cluster_parameters:  # NaN where a slot is empty, never infinite
            expect(~np.isinf(values), f"draws of {name} are infinite")
            flat = values.reshape(-1, *values.shape[2:])
            for s, z in enumerate(p.flat_labels):
                own = np.unique(z)
                own = own[own > 0] if p.record.noise else own  # noise has the first slot
                finite(flat[s, own], f"draws of {name}")
        else:
            finite(values, f"draws of {name}")


def check_file(model: Any) -> None:
    """What is loaded answers as what was saved."""
    with tempfile.TemporaryDirectory() as folder:
        path = model.save(Path(folder) / "run.nc")
        other = load(path)
    expect(np.array_equal(other.labels_, model.labels_), "labels differ after load")
    expect(
        np.array_equal(other.posterior_.log_joint, model.posterior_.log_joint),
        "log_joint differs after load",
    )


# ---------------------------------------------------------------------- mixtures


def check_mixture(model: Any, case: Case) -> None:
    """Parameters of the clusters, and rows old and new."""
    weights = finite(model.weights_, "weights_")
    sums = abs(weights.sum() - 1.0) < 1e-9 or not model.n_clusters_
    expect(sums, "weights_ do not sum to one")
    finite(model.means_, "means_")
    finite(model.cluster_centers_, "cluster_centers_")
    finite(model.covariances_, "covariances_")
    if hasattr(model, "df_"):
        finite(model.df_, "df_")
    _check_rows(model, case.data, "the data")
    finite(model.score_samples(case.data), "score_samples of the data")
    _check_rows(model, _dressed(model, case.new), "new rows")
    X, labels = model.sample(7, random_state=0)
    finite(X, "sample")
    expect((labels >= -1) & (labels < model.n_clusters_), "labels of sample")
    finite(model.predictive_check(case.data, 20), "predictive_check")
    expect(model.distinguishing_features(), "distinguishing")
    if model.posterior_.n_chains * model.posterior_.n_draws > 1:
        finite(_total(model.loo(case.data)), "loo")


def _dressed(model: Any, new: np.ndarray) -> Any:
    names = getattr(model, "feature_names_in_", None)
    return new if names is None else pd.DataFrame(new, columns=names)


def _check_rows(model: Any, X: Any, what: str) -> None:
    probabilities(model.predict_proba(X), f"predict_proba of {what}")
    predicted = model.predict(X)
    least = -1 if model.posterior_.record.noise else 0
    expect((predicted >= least) & (predicted < model.n_clusters_), f"predict of {what}")
    expect(~np.isnan(model.score_samples(X)), f"score_samples of {what} is NaN")
    tail = finite(model.tail_probabilities(X), f"tail_probabilities of {what}")
    expect((tail >= 0) & (tail <= 1), f"tail_probabilities of {what}")
    table = model.predict_proba(X, as_frame=True)
    probabilities(table.filter(regex=r"^p_\d|^p_noise$|^p_unmatched$"), f"membership of {what}")


# ---------------------------------------------------------------------- tables


def check_table(model: Any, case: Case) -> None:
    """Clusters in each column's terms, rows old and new, their gaps."""
    if model.n_clusters_:
        expect(abs(finite(model.weights_, "weights_").sum() - 1.0) < 1e-9, "weights_")
    summary = model.summary()
    finite(summary[["estimate", "lower", "upper"]], "summary of a table")
    finite(model.distinguishing_features(as_frame=True)["size"], "what_sets_apart")
    for X, what in ((case.data, "the data"), (case.new, "new rows")):
        table = model.predict_proba(X, as_frame=True)
        probabilities(table.filter(regex=r"^p_\d|^p_noise$|^p_unmatched$"), f"membership of {what}")
        expect(~np.isnan(model.score_samples(X)), f"score_samples of {what} is NaN")
        predicted = model.predict(X)
        expect((predicted >= -1) & (predicted < model.n_clusters_), f"predict of {what}")
        filled = model.impute(X)
        kinds = model.columns_["kind"]
        for column in kinds.index[kinds != "empty"]:
            expect(filled.mean[column].notna(), f"impute leaves gaps in {column!r} of {what}")
    X, labels = model.sample(7, random_state=0)
    expect((labels >= -1) & (labels < model.n_clusters_), "labels of sample")
    expect(X.loc[:, (kinds != "empty").to_numpy()].notna(), "sample has gaps")
    several = model.posterior_.n_chains * model.posterior_.n_draws > 1
    if several and "overdispersed" not in set(kinds):
        finite(_total(model.loo(case.data)), "loo")


# ---------------------------------------------------------------------- series


def check_band(band: Any, what: str) -> None:
    """Finite, and in order."""
    mean, lower, upper = (
        finite(v, f"{what}.{n}") for v, n in zip(band[:3], band._fields[:3], strict=True)
    )
    expect((lower <= mean) & (mean <= upper), f"{what} is out of order")


def check_series(model: Any, case: Case) -> None:
    """Trends, factors, tables, forecasts; new series."""
    check_band(model.trends_, "trends_")
    check_band(model.factors_, "factors_")
    finite(model.series_, "series_")
    check_band(model.forecast(3), "forecast")
    check_band(model.forecast(2, of="trend", level=0.99), "forecast of trends")
    expect(len(model.typical_series(2)) == model.n_clusters_, "typical_series")
    rows = _rows(model, case)
    table = model.predict_values(rows)
    finite(table, "predict")
    expect((table["lower"] <= table["mean"]) & (table["mean"] <= table["upper"]), "predict")
    value = model._data.columns[2]
    finite(model.score_samples(rows.assign(**{value: table["mean"]})), "score_samples")
    if "covariates" in case.names:
        return
    try:
        new = model.predict_proba(case.new, n_draws=5, as_frame=True)
    except (ValueError, TypeError) as error:
        check_refusal(error)
        return
    probabilities(new.filter(regex="^p_"), "membership")


def _rows(model: Any, case: Case) -> pd.DataFrame:
    """Rows within the data and beyond them."""
    data = model._data
    series, time, _ = data.columns
    labels = data.axis.labels(0, data.axis.size + 3)
    rows = pd.DataFrame({series: [data.series[0]] * len(labels), time: labels})
    for name in data.covariate_names:
        rows[name] = float(case.data[name].iloc[0])
    return rows
