"""Pictures of series."""

from __future__ import annotations

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

from cavity import SeriesMixture
from cavity.datasets import make_series
from cavity.report.series_plots import report_sections

SHORT = {"n_chains": 2, "n_warmup": 15, "n_draws": 15, "random_state": 0, "progress": False}


@pytest.fixture(scope="module")
def fitted():
    Y, _ = make_series(24, 40, 3, missing=0.2, random_state=2)
    Y[4, 10:20] = np.nan
    months = pd.period_range("2019-01", periods=40, freq="M")
    names = [f"shop $ {i}" for i in range(24)]
    return SeriesMixture(3, **SHORT).fit(pd.DataFrame(Y, index=names, columns=months))


def test_clusters_have_a_panel_each(fitted):
    axes = fitted.plot_clusters()
    assert len(axes) == fitted.n_clusters_
    sizes = np.bincount(fitted.labels_)
    for k, ax in enumerate(axes):
        assert len(ax.lines) == sizes[k] + 1
        assert f"{sizes[k]} series" in ax.get_title(loc="left")
        assert len(ax.collections) == 1


def test_given_axes_are_used(fitted):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert fitted.plot_clusters(ax=ax, clusters=[1]) == [ax]
    with pytest.raises(ValueError, match="as many axes"):
        fitted.plot_clusters(ax=ax)
    plt.close("all")


def test_one_series_shows_data_trend_gap_and_forecast(fitted):
    ax = fitted.plot_series("shop $ 4", steps=6)
    labels = [t.get_text() for t in ax.get_legend().get_texts()]
    assert labels == ["90% interval", "trend", "data", "forecast"]
    points = next(line for line in ax.lines if line.get_label() == "data")
    assert len(points.get_xdata()) == int((fitted._data.count[4] > 0).sum())
    assert any(p.get_facecolor()[:3] == pytest.approx((0.933, 0.933, 0.933), abs=0.01)
               for p in ax.patches)  # fmt: skip
    with pytest.raises(ValueError, match="was not in the data"):
        fitted.plot_series("nobody")


def test_factors(fitted):
    axes = fitted.plot_factors()
    assert len(axes) == fitted.n_clusters_


def test_report_sections(fitted):
    sections = report_sections(fitted)
    titles = [title for title, _, _ in sections]
    assert titles[:2] == ["Series by cluster", "Factors"]
    assert titles.count("Typical series") == fitted.n_clusters_
    for _, figure, caption in sections:
        assert figure.axes
        assert caption
