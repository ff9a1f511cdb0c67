"""Tables with weights, and with rows outside every cluster."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from loo_total import total_of

import cavity
from cavity import TableMixture

RUN = {"n_chains": 2, "n_warmup": 60, "n_draws": 100, "random_state": 0, "n_jobs": 1}
TYPES = {"visits": "count"}
FAR = slice(80, 86)


def mixture(**settings):
    return TableMixture(2, **{"continuous": "gaussian", "feature_types": TYPES, **RUN, **settings})


def make_table():
    """Two clusters apart in every column, six rows that fit neither, and some gaps."""
    rng = np.random.default_rng(5)
    kind = np.repeat([0, 1], 40)
    table = pd.DataFrame(
        {
            "size": 0.4 * rng.standard_normal(80) + 6.0 * kind - 3.0,
            "colour": np.where(rng.random(80) < 0.05 + 0.9 * kind, "red", "green"),
            "visits": rng.poisson(3.0 + 9.0 * kind),
        }
    )
    far = pd.DataFrame(
        {
            "size": [0.0, -9.0, 9.0, 10.0, 0.5, -8.0],
            "colour": ["blue", "red", "green", "blue", "blue", "red"],
            "visits": [60, 25, 1, 48, 33, 55],
        }
    )
    table = pd.concat([table, far], ignore_index=True)
    table.loc[7, "colour"] = None
    table["visits"] = table["visits"].astype("Int64")
    table.loc[50, "visits"] = pd.NA
    return table


@pytest.fixture(scope="module")
def fitted():
    table = make_table()
    table.loc[3, "size"] = np.nan
    return mixture(noise=True).fit(table)


@pytest.mark.slow
def test_rows_that_fit_nowhere_are_noise(fitted):
    assert (fitted.labels_[FAR] == -1).all()
    assert (fitted.labels_[:80] >= 0).all()
    assert fitted.n_clusters_ == 2
    assert (fitted.noise_probability_[FAR] > 0.8).all()
    assert fitted.noise_probability_[:80].max() < 0.5
    assert fitted.weights_.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(np.sort(fitted.means_[:, 0]), [-3.0, 3.0], atol=0.3)
    assert sorted(fitted.summary().reset_index()["cluster"].unique()) == [0, 1]
    assert len(fitted.distinguishing_features()) == 2


@pytest.mark.slow
def test_new_rows_with_noise(fitted):
    table = make_table()
    new = table.iloc[[0, 79, 80, 83]].reset_index(drop=True)
    found = fitted.predict(new)
    assert found.tolist() == [*fitted.labels_[[0, 79]], -1, -1]
    places = fitted.predict_proba(new, as_frame=True)
    assert places["cluster"].tolist() == found.tolist()
    np.testing.assert_allclose(places[["p_0", "p_1", "p_noise", "p_unmatched"]].sum(axis=1), 1.0)
    np.testing.assert_allclose(fitted.predict_proba(new).sum(axis=1), 1.0)
    rows, labels = fitted.sample(500, random_state=0)
    assert 0.01 < (labels == -1).mean() < 0.2
    assert rows[["size", "visits"]].notna().all().all()
    assert rows["visits"].max() <= 72


@pytest.mark.slow
def test_the_density_of_noise_by_hand(fitted):
    """Far from both clusters a row's density is the share of noise over what it is uniform over."""
    row = pd.DataFrame({"size": [0.0], "colour": ["blue"], "visits": [60]})
    share = fitted.posterior_.drawn["noise_weight"].mean()
    size = make_table()["size"].drop(3).to_numpy()
    by_hand = np.log(share / (1.2 * np.ptp(size)) / 3.0 / 73.0)
    assert fitted.predict_proba(row, as_frame=True)["p_noise"][0] > 0.999
    assert fitted.score_samples(row)[0] == pytest.approx(by_hand, abs=0.01)


@pytest.mark.slow
def test_a_table_in_the_noise_alone_has_no_clusters():
    """Two rows that no draw has together in a cluster: tables are empty, and nothing fails."""
    few = make_table().iloc[[80, 81]]
    m = mixture(noise=True, n_warmup=0, n_draws=8, random_state=28).fit(few)
    assert (m.labels_ == -1).all()
    assert m.summary().empty
    assert m.distinguishing_features() == []


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.slow
def test_files_page_gaps_and_leave_one_out_with_noise(fitted, tmp_path):
    table = make_table()
    table.loc[3, "size"] = np.nan
    fitted.save(tmp_path / "run.nc")
    again = cavity.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(again.labels_, fitted.labels_)
    np.testing.assert_allclose(again.score_samples(table), fitted.score_samples(table))
    np.testing.assert_array_equal(again.noise_probability_, fitted.noise_probability_)
    page = fitted.report(tmp_path / "page.html", table).read_text(encoding="utf-8")
    assert "outside every cluster" in page
    assert fitted.impute(table).mean.notna().all().all()
    total = total_of(fitted.loo(table))
    assert np.isfinite(total)


# --------------------------------------------------------------------------- weights


@pytest.mark.slow
def test_weights_move_the_estimates(tmp_path):
    """Means, category shares and rates within what two runs of one fit differ by."""
    table = make_table().iloc[:80]
    weight = np.where(np.arange(80) % 4 == 0, 5.0, 1.0) * np.where(np.arange(80) < 40, 1.0, 2.0)
    tied = mixture(n_draws=300).fit(table, sample_weight=weight)
    rows = np.repeat(np.arange(80), weight.astype(int))
    again = mixture(n_draws=300).fit(table.iloc[rows].reset_index(drop=True))
    order = [np.argsort(m.means_[:, 0]) for m in (tied, again)]
    np.testing.assert_allclose(tied.means_[order[0]], again.means_[order[1]], atol=0.05)
    np.testing.assert_allclose(tied.weights_, 0.5, atol=0.03)
    np.testing.assert_allclose(tied._units.scale, again._units.scale, rtol=0.02)
    for m, at in zip((tied, again), order, strict=True):
        m.told = m.summary()["estimate"].unstack("cluster")[list(at)].to_numpy()
    np.testing.assert_allclose(tied.told, again.told, rtol=0.05, atol=0.03)
    assert np.isfinite(getattr(tied.loo(table), "elpd_loo", 0.0))
    tied.save(tmp_path / "run.nc")
    other = cavity.load(tmp_path / "run.nc")
    np.testing.assert_allclose(other.score_samples(table), tied.score_samples(table))


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ([0.0] + [1.0] * 85, "sample_weight is zero in row 0"),
        ([1.0] * 85 + [-2.0], "sample_weight is -2 in row 85"),
        ([1.0, np.nan] + [1.0] * 84, "sample_weight is nan in row 1"),
        ([1.0] * 85, r"sample_weight.shape == \(85,\), expected \(86,\)"),
        (["a"] * 86, "sample_weight must hold numbers"),
    ],
)
def test_weights_that_are_refused(weight, sentence):
    with pytest.raises(ValueError, match=sentence):
        mixture().check(make_table(), sample_weight=weight)


def test_what_cannot_be_had_together():
    table = make_table()
    two = np.where(np.arange(86) < 43, 2.0, 1.0)
    # Categories and counts may be missing, measurements may not.
    mixture().check(table, sample_weight=two)
    table.loc[3, "size"] = np.nan
    with pytest.raises(ValueError, match=r"Row 3 of X has gaps among its measurements and 1\.33"):
        mixture().check(table, sample_weight=two)
    table = make_table()
    over = {"visits": "overdispersed"}
    with pytest.raises(
        ValueError, match=r"sample_weight is not supported with overdispersed.*'visits"
    ):
        mixture(feature_types=over).check(table, sample_weight=two)
    with pytest.raises(ValueError, match="noise=True is not supported with overdispersed counts"):
        mixture(feature_types=over, noise=True).check(table)
    with pytest.raises(ValueError, match="noise=True is not supported with collapse='ep'"):
        mixture(collapse="ep", noise=True).check(table)
    with pytest.raises(ValueError, match="noise must be True, False or 'auto', not 'yes'"):
        mixture(noise="yes").check(table)
