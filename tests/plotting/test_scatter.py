"""The picture of the data: strips, scatters, pairs and projections."""

from __future__ import annotations

import warnings

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from report_cases import blobs, posterior

from cavity.plotting import frame, legend, scatter, style
from cavity.posterior import Posterior

DOUBTFUL = (3, 4, 10)


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def case(n, k, d, **options):
    X, truth = blobs(n, k, d)
    return X, posterior(truth, doubtful=DOUBTFUL, **options)


def points(ax, gid):
    found = [c for c in ax.collections if c.get_gid() == gid]
    return (
        np.concatenate([np.asarray(c.get_offsets()) for c in found]) if found else np.empty((0, 2))
    )


def test_two_columns_are_a_scatter():
    X, p = case(60, 3, 2)
    table = pd.DataFrame(X, columns=["length", "price in $"])
    ax = p.plot_clusters(table)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("length", r"price in \$")
    labels = p.partition().labels
    for k in range(3):
        np.testing.assert_array_equal(points(ax, f"cluster {k}"), X[labels == k])
    ringed = points(ax, "doubtful")
    assert {tuple(row) for row in ringed} == {tuple(X[i]) for i in DOUBTFUL}
    entries = [t.get_text() for t in ax.get_legend().get_texts()]
    assert entries == ["0  (20)", "1  (20)", "2  (20)", "in doubt (3)"]


def test_uncertainty_is_transparency():
    X, p = case(60, 3, 2)
    ax = p.plot_clusters(X)
    certainty = p.observations()["certainty"].to_numpy()
    labels = p.partition().labels
    for k in range(3):
        collection = next(c for c in ax.collections if c.get_gid() == f"cluster {k}")
        alpha = collection.get_facecolors()[:, 3]
        own = certainty[labels == k]
        np.testing.assert_array_equal(np.argsort(alpha), np.argsort(own))
        assert alpha.min() >= scatter.FAINTEST
    sure = Posterior.from_labels(np.zeros((2, 60), int)).plot_clusters(X)
    assert (sure.collections[0].get_facecolors()[:, 3] == 1).all()


def test_rows_are_found_where_they_are_drawn():
    """The pixel at the place of each row has the color of its cluster."""
    X, truth = blobs(12, 3, 2)
    view = posterior(truth).view()
    figure = style.page_figure(6, 4)
    scatter.draw_plane(view, frame.as_table(X, 12, None), figure.subplots(), project=False)
    figure.canvas.draw()
    pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3] / 255
    rows, places = style.places_of_rows(figure)
    assert sorted(rows) == list(range(12))
    for row, (across, down) in zip(rows, places, strict=True):
        height, width = pixels.shape[:2]
        found = pixels[int(down * height), int(across * width)]
        wanted = mpl.colors.to_rgb(style.cluster_colour(view.labels[row]))
        np.testing.assert_allclose(found, wanted, atol=0.03)


@pytest.mark.parametrize("d", [3, 4])
def test_three_and_four_columns_are_pairs(d):
    X, p = case(40, 2, d)
    grid = p.plot_clusters(X, feature_names=list("abcd")[:d])
    assert grid.shape == (d - 1, d - 1)
    for r in range(d - 1):
        for c in range(d - 1):
            ax = grid[r, c]
            assert ax.axison == (c <= r)
            if c <= r:
                drawn = np.concatenate([points(ax, "cluster 0"), points(ax, "cluster 1")])
                expected = X[:, [c, r + 1]]
                np.testing.assert_array_equal(np.sort(drawn, axis=0), np.sort(expected, axis=0))
    assert [ax.get_xlabel() for ax in grid[-1]] == list("abcd")[: d - 1]
    assert [ax.get_ylabel() for ax in grid[:, 0]] == list("abcd")[1:d]
    assert grid[0, -1].get_legend() is not None
    flat = style.page_figure(5, 5).subplots((d - 1) ** 2)
    assert p.plot_clusters(X, ax=flat).shape == (d - 1, d - 1)
    with pytest.raises(ValueError, match=f"need {(d - 1) ** 2} axes"):
        p.plot_clusters(X, ax=style.page_figure(5, 5).subplots(3, 3)[:2])


def test_single_axes_get_a_projection():
    X, p = case(40, 2, 3)
    ax = style.page_figure(5, 5).subplots()
    assert p.plot_clusters(X, ax=ax) is ax
    assert ax.get_xlabel().startswith("principal component 1 (")


def test_many_columns_are_projected_with_their_share():
    X, p = case(60, 3, 6)
    ax = p.plot_clusters(X)
    robust = np.clip(frame.standardise(X), -4, 4)
    values = np.linalg.eigvalsh(np.cov(robust.T))[::-1]
    share = values / values.sum()
    assert ax.get_xlabel() == f"principal component 1 ({share[0]:.0%} of variance)"
    assert ax.get_ylabel() == f"principal component 2 ({share[1]:.0%} of variance)"
    scores, _ = frame.principal_plane(X)
    direct = (robust - robust.mean(axis=0)) @ np.linalg.svd(robust - robust.mean(axis=0))[2][:2].T
    inside = (np.abs(frame.standardise(X)) <= 4).all(axis=1)
    np.testing.assert_allclose(np.abs(scores[inside]), np.abs(direct[inside]), atol=1e-9)


def test_one_gross_error_does_not_choose_the_plane():
    X, _ = blobs(100, 3, 6)
    spoiled = X.copy()
    spoiled[0, 2] = 1e9
    good, _ = frame.principal_plane(X)
    other, _ = frame.principal_plane(spoiled)
    for j in range(2):
        assert abs(np.corrcoef(good[1:, j], other[1:, j])[0, 1]) > 0.99
    # Plain principal components are taken over by it.
    centred = (spoiled - spoiled.mean(axis=0)) / spoiled.std(axis=0)
    plain = centred @ np.linalg.svd(centred, full_matrices=False)[2][:2].T
    assert min(abs(np.corrcoef(good[1:, j], plain[1:, j])[0, 1]) for j in range(2)) < 0.99


def test_outliers_stand_at_the_edge_and_are_counted():
    X, p = case(60, 3, 2)
    X[7] = [1e6, X[7, 1]]
    X[8] = [X[8, 0], -1e6]
    ax = p.plot_clusters(X)
    assert ax.get_xlim()[1] < 100
    assert ax.get_ylim()[0] > -100
    assert len(points(ax, "outside")) == 2
    assert len(np.concatenate([points(ax, f"cluster {k}") for k in range(3)])) == 58
    assert "beyond the frame (2)" in [t.get_text() for t in ax.get_legend().get_texts()]


def test_pairs_count_their_outliers_and_say_that_they_are_a_sample(monkeypatch):
    X, p = case(60, 3, 3)
    X[7, 0], X[8, 2] = 1e6, -1e6
    monkeypatch.setattr(scatter, "POINTS_MAX", 50)
    grid = p.plot_clusters(X)
    shown = np.random.default_rng(0).choice(60, 50, replace=False)
    expected = int(np.isin([7, 8], shown).sum())
    assert expected
    texts = [t.get_text() for t in grid[0, -1].get_legend().get_texts()]
    assert f"beyond the frame ({expected})" in texts
    assert any("a random 50 of 60 rows" in t.get_text() for t in grid[0, 0].texts)


def test_one_column_is_a_histogram_over_a_strip():
    X, p = case(60, 3, 1)
    for data in (X, X[:, 0], pd.DataFrame({"length": X[:, 0]})):
        ax = p.plot_clusters(data)
        total = np.max([patch.get_data().values for patch in ax.patches], axis=0)
        assert total.sum() == 60
        assert (
            sum(len(c.get_offsets()) for c in ax.collections if c.get_gid().startswith("cluster"))
            == 60
        )
        assert len(points(ax, "doubtful")) == 3
    assert ax.get_xlabel() == "length"
    X[5] = 1e5
    assert len(points(p.plot_clusters(X), "outside")) == 1


def test_more_clusters_than_colours_have_other_markers_and_a_bounded_legend():
    X, truth = blobs(300, 30, 2)
    ax = posterior(truth, n_draws=5).plot_clusters(X)
    paths = {}
    for collection in ax.collections:
        colour = tuple(collection.get_facecolors()[0][:3])
        paths.setdefault(colour, []).append(collection.get_paths()[0].vertices.tobytes())
    assert all(len(set(shapes)) == len(shapes) for shapes in paths.values())
    entries = [t.get_text() for t in ax.get_legend().get_texts()]
    assert len(entries) == legend.LEGEND_MAX + 1
    assert entries[-1] == "6 more (60)"


def test_huge_data_is_sampled_and_says_so():
    n = scatter.POINTS_MAX + 1_000
    X, truth = blobs(n, 3, 2)
    p = posterior(truth, n_chains=1, n_draws=4, doubtful=np.arange(0, n, 10))
    ax = p.plot_clusters(X)
    drawn = sum(
        len(points(ax, name)) for name in ("cluster 0", "cluster 1", "cluster 2", "outside")
    )
    assert drawn == scatter.POINTS_MAX
    assert len(points(ax, "doubtful")) == scatter.RINGS_MAX
    assert any("a random 20,000 of 21,000" in t.get_text() for t in ax.texts)
    assert any("300 most in doubt" in t.get_text() for t in ax.get_legend().get_texts())


@pytest.mark.variants("slow", "5-*", "1-1e-300")
@pytest.mark.parametrize("scale", [1e300, 1e-300])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_extreme_scales_are_drawn(scale, d):
    X, p = case(30, 2, d)
    X = X / np.abs(X).max() * scale
    figure = style.page_figure(5, 4)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ax = p.plot_clusters(X, ax=figure.subplots())
        figure.canvas.draw()
    assert len(points(ax, "outside")) == 0


@pytest.mark.variants("slow", "4", "6")
@pytest.mark.parametrize("d", [1, 2, 4, 6])
def test_constant_data_and_one_observation_are_drawn(d):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for n in (1, 12):
            p = Posterior.from_labels(np.zeros((2, n), int))
            figure = np.ravel(np.asarray(p.plot_clusters(np.ones((n, d))), object))[0].figure
            figure.canvas.draw()


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_rows_with_gaps_are_drawn_where_they_can_be(d):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, d))
    X[3, 0] = X[7, d - 1] = np.nan
    p = Posterior.from_labels([[0] * 15 + [1] * 15])
    axes = np.ravel(p.plot_clusters(X))
    words = [text.get_text() for ax in axes for text in ax.texts]
    assert any("with missing values" in word for word in words)
    for ax in axes:
        for points in ax.collections:
            assert np.isfinite(np.asarray(points.get_offsets())).all()


@pytest.mark.parametrize(
    ("X", "options", "error", "message"),
    [
        (np.ones((5, 2)), {}, ValueError, "X has 5 rows, the posterior has 6 observations"),
        (np.ones((6, 2, 2)), {}, ValueError, "one row per observation"),
        (np.ones((6, 0)), {}, ValueError, "at least one column"),
        (np.array([["a"] * 2] * 6), {}, TypeError, "X must be numeric"),
        (pd.DataFrame({"a": range(6), "b": list("uvwxyz")}), {}, TypeError, "column 'b'"),
        (np.ones((6, 2)), {"feature_names": ["a"]}, ValueError, "1 names for 2 columns"),
        (np.ones((6, 2)), {"kind": "pie"}, ValueError, "kind must be one of"),
        (np.ones((6, 2)), {"kind": "strip"}, ValueError, "does not suit X with 2"),
        (np.where([False, True], np.nan, np.ones((6, 2))), {}, ValueError, "'column 1' has no"),
        (np.where(np.eye(6, 2) > 0, np.inf, 1.0), {}, ValueError, "is inf"),
    ],
)
def test_bad_data_is_refused_by_name(X, options, error, message):
    p = Posterior.from_labels([[0, 0, 0, 1, 1, 1]])
    with pytest.raises(error, match=message):
        p.plot_clusters(X, **options)
