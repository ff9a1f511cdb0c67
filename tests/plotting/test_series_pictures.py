"""Pictures of series, from plain tables."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

from cavity.plotting import style
from cavity.plotting.series import LINES_MAX, PANELS_MAX, plot_clusters, plot_factors, plot_series
from cavity.plotting.series_picture import SeriesPicture
from cavity.report.series import series_sections


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def band(values, index, columns, width=0.5):
    mean = pd.DataFrame(values, index=index, columns=columns)
    return SimpleNamespace(mean=mean, lower=mean - width, upper=mean + width)


def example(n=9, k=3, steps=0, **other):
    rng = np.random.default_rng(0)
    months = pd.period_range("2019-01", periods=20, freq="M")
    names = [f"shop $ {i}" for i in range(n)]
    labels = np.arange(n) % k
    factors = rng.standard_normal((k, 20)).cumsum(axis=1)
    signs = np.where(np.arange(n) == 3, -1.0, 1.0)
    trends = signs[:, None] * factors[labels] * rng.uniform(1, 5, (n, 1)) + 100
    observed = pd.DataFrame(trends + 0.1, names, months)
    observed.iloc[4, 5:10] = np.nan
    observed.iloc[4, 15] = np.nan
    later = pd.period_range("2020-09", periods=max(steps, 1), freq="M")
    return SeriesPicture(
        band(trends, names, months),
        labels,
        factors=band(factors, range(k), months),
        signs=signs,
        observed=observed,
        forecast=band(np.ones((n, steps)), names, later) if steps else None,
        value_name="sales in $",
        time_name="month",
        **other,
    )


def lines(ax, gid):
    return [line for line in ax.lines if line.get_gid() == gid]


def test_clusters_have_a_panel_each_with_their_series_and_mean():
    picture = example()
    axes = plot_clusters(picture)
    assert [ax.get_title(loc="left") for ax in axes] == [f"cluster {k}: 3 series" for k in range(3)]
    values = picture.trends.mean.to_numpy()
    standard = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    standard[3] *= -1
    for k, ax in enumerate(axes):
        drawn = [line.get_ydata() for line in lines(ax, "series") + lines(ax, "turned")]
        own = standard[picture.labels == k]
        np.testing.assert_allclose(np.sort(drawn, axis=0), np.sort(own, axis=0))
        np.testing.assert_allclose(lines(ax, "mean")[0].get_ydata(), own.mean(0))


def test_turned_series_are_dashed_and_the_legend_says_so():
    axes = plot_clusters(example())
    (turned,) = lines(axes[0], "turned")
    assert turned.get_linestyle() == "--"
    assert {line.get_linestyle() for line in lines(axes[0], "series")} == {"-"}
    texts = [t.get_text() for t in axes[0].get_legend().get_texts()]
    assert texts == ["a series", "one reversed", "mean of the cluster"]
    handles = {h.get_label(): h.get_linestyle() for h in axes[0].get_legend().legend_handles}
    assert handles["one reversed"] == "--"
    plain = plot_clusters(example(), clusters=[1])
    assert len(plain[0].get_legend().get_texts()) == 2


def test_data_units_share_the_axis_and_keep_the_values():
    picture = example()
    axes = plot_clusters(picture, standardised=False)
    assert len({ax.get_ylim() for ax in axes}) == 1
    drawn = [line.get_ydata() for line in lines(axes[1], "series")]
    np.testing.assert_array_equal(drawn, picture.trends.mean.to_numpy()[picture.labels == 1])
    assert not lines(axes[0], "turned")
    assert axes[0].figure.get_supylabel() == r"sales in \$"
    assert axes[0].figure.get_supxlabel() == "month"


def test_what_is_left_out_is_said():
    n = 3 * LINES_MAX
    axes = plot_clusters(example(n, 2))
    assert len(lines(axes[0], "series")) + len(lines(axes[0], "turned")) == LINES_MAX
    assert axes[0].get_title(loc="left") == "cluster 0: 90 series, a random 60 drawn"
    # The mean is that of all members, not of those drawn.
    picture = example(n, 2)
    values = picture.trends.mean.to_numpy() * picture.signs[:, None]
    standard = (values - values.mean(1, keepdims=True)) / values.std(1, keepdims=True)
    np.testing.assert_allclose(
        lines(axes[1], "mean")[0].get_ydata(), standard[picture.labels == 1].mean(0)
    )
    many = example(30, PANELS_MAX + 3)
    for axes in (plot_clusters(many), plot_factors(many)):
        assert len(axes) == PANELS_MAX
        note = axes[0].figure.get_supxlabel()
        assert "Not drawn: 3 smaller clusters with 6 series." in note
    given = style.page_figure(9, 9).subplots(4, 3)
    assert "Not drawn: 3" in plot_clusters(many, ax=given)[-1].get_xlabel()
    assert "Not drawn" not in plot_clusters(many, clusters=[0, 14])[0].figure.get_supxlabel()


def test_given_axes_are_used_and_wrong_ones_refused():
    _, ax = plt.subplots()
    assert plot_clusters(example(), ax=ax, clusters=[1]) == [ax]
    with pytest.raises(ValueError, match="3 clusters need 3 axes; got 1"):
        plot_clusters(example(), ax=ax)
    with pytest.raises(ValueError, match="no cluster 7; there are 0 to 2"):
        plot_clusters(example(), clusters=[7])


def test_one_series_shows_data_trend_gap_and_forecast():
    picture = example(steps=6, level=0.8)
    ax = plot_series(picture, "shop $ 4")
    texts = [t.get_text() for t in ax.get_legend().get_texts()]
    assert texts == ["80% interval", "trend", "data", "no data", "forecast"]
    points = next(line for line in ax.lines if line.get_label() == "data")
    assert len(points.get_xdata()) == 14
    # A gap of five months is shaded, one of a month is not.
    grey = [p for p in ax.patches if p.get_facecolor()[:3] == pytest.approx((0.933,) * 3, abs=0.01)]
    assert len(grey) == 1
    assert ax.get_ylabel() == r"sales in \$"
    assert ax.get_title(loc="left") == r"shop \$ 4, cluster 1"
    ahead = next(line for line in ax.lines if line.get_label() == "forecast")
    assert ahead.get_linestyle() == ":"
    with pytest.raises(ValueError, match="'nobody' was not in the data"):
        plot_series(picture, "nobody")


def test_names_that_are_numbers_are_found_by_their_text():
    picture = example()
    numbered = band(picture.trends.mean.to_numpy(), range(9), picture.trends.mean.columns)
    assert SeriesPicture(numbered, picture.labels).position("7") == 7


def test_factors_are_those_of_their_cluster():
    picture = example()
    axes = plot_factors(picture)
    for k, ax in enumerate(axes):
        drawn = next(line for line in ax.lines if line.get_label() == "mean")
        np.testing.assert_array_equal(drawn.get_ydata(), picture.factors.mean.to_numpy()[k])
    with pytest.raises(ValueError, match="without factors"):
        plot_factors(SeriesPicture(picture.trends, picture.labels))


@pytest.mark.parametrize("part", ["labels", "signs", "observed"])
def test_parts_that_do_not_fit_are_named(part):
    picture = example()
    parts = {"labels": picture.labels, "signs": picture.signs, "observed": picture.observed}
    parts[part] = parts[part][:-1]
    with pytest.raises(ValueError, match=part):
        SeriesPicture(picture.trends, **parts)


def test_report_sections_hold_what_was_asked_for():
    sections = series_sections(example(), typical=["shop $ 0"], doubtful=["shop $ 4", "shop $ 5"])
    titles = [title for title, _, _ in sections]
    assert titles == [
        "Series by cluster",
        f"Series by cluster, as {example().value_name} is measured",
        "Factors",
        "Typical series",
        "Doubtful series, drawn",
        "Doubtful series, drawn",
    ]
    assert sections[-1][1].axes[0].get_title(loc="left").startswith(r"shop \$ 5")
    assert "Dashed" in sections[0][2]
    told = series_sections(example(), preface="Nothing was taken out.")[0][2]
    assert told.startswith("Nothing was taken out. Thin: ")
    upright = dataclasses.replace(example(), signs=np.ones(9))
    assert "Dashed" not in series_sections(upright)[0][2]
    assert plt.get_fignums() == []
