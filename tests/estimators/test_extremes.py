"""Settings and data at the ends of what can be: refused by name, or answered in numbers.

Each was found by random inputs (``tests/fuzz``).
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cavity import GaussianMixture, SeriesMixture, StudentTMixture
from cavity.posterior import Posterior
from cavity.priors import SeriesPrior
from cavity.series.parameters import LEAST_VARIANCE, MOST_VARIANCE, inverse_gamma, log_mass

SHORT = {"n_chains": 2, "n_warmup": 5, "n_draws": 10, "random_state": 0, "progress": False}


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return np.vstack([rng.standard_normal((8, 2)), rng.standard_normal((8, 2)) + 9.0])


@pytest.fixture
def Y():
    return np.random.default_rng(1).standard_normal((5, 8)).cumsum(axis=1)


# ------------------------------------------------------------------ names


def test_names_of_rows_that_no_file_keeps(X):
    names = [f"row {i}" for i in range(16)]
    for name in ("a\0b", "a\ud800b"):
        table = pd.DataFrame(X, index=pd.Index([*names[:15], name], dtype=object))
        for verb in ("fit", "check"):
            with pytest.raises(ValueError, match=r"the name of row 15, .* no file of results can"):
                getattr(GaussianMixture(2, **SHORT), verb)(table)


def test_names_of_series_that_no_file_keeps(Y):
    table = pd.DataFrame(Y, index=["a", "b", "c\0", "d", "e"])
    for verb in ("fit", "check"):
        with pytest.raises(ValueError, match="the name of series 2, "):
            getattr(SeriesMixture(2, **SHORT), verb)(table)


def test_other_odd_names_are_saved(X, tmp_path):
    names = ["", " ", "\n", "ü", "\x01", *(str(i) for i in range(11))]
    m = GaussianMixture(2, **SHORT).fit(pd.DataFrame(X, index=names))
    again = GaussianMixture.load(m.save(tmp_path / "run.nc"))
    assert list(again.posterior_.names) == names


# ------------------------------------------------------------------ mixtures


@pytest.mark.parametrize(("unit", "verb"), [(1e150, "Divide"), (1e-150, "Multiply")])
def test_columns_whose_covariances_are_no_numbers(X, unit, verb):
    with pytest.raises(ValueError, match=f"Column 0 reaches .* beyond floating point. {verb} it"):
        StudentTMixture(2, **SHORT).fit(X * [unit, 1.0])


def test_rows_too_much_alike_for_k_means_are_no_warning():
    X = np.r_[1.0, 1.0 + 1e-15, 1.0 - 1e-15, 1e20, 2e20, 3e20][:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="Not shown")
        StudentTMixture(4, prior="dp", concentration="learn", **SHORT).fit(X)


@pytest.mark.parametrize("kind", [StudentTMixture, GaussianMixture])
def test_new_rows_beyond_all_numbers(kind, X):
    m = kind(2, **SHORT).fit(X * 1e-100)
    far = np.array([[1e307, 0.0], [-1e307, 1e307]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        probability = m.predict_proba(far)
        tail = m.tail_probabilities(far)
        density = m.score_samples(far)
    np.testing.assert_allclose(probability.sum(axis=1), 1.0)
    assert not np.isnan(density).any()
    np.testing.assert_array_equal(tail < 1e-6, True)


def test_fractions_that_need_too_many_nodes(X):
    with pytest.raises(ValueError, match=r"options\['fraction'\] .* at least 0.01"):
        StudentTMixture(2, collapse="ep", options={"fraction": 1e-3}, **SHORT).fit(X)


# ------------------------------------------------------------------ series


def test_coefficients_held_beyond_the_data(Y):
    for value in (1e80, -1e300):
        with pytest.raises(ValueError, match=r"beta is held at .* standard deviations of these"):
            SeriesMixture(2, hold={"beta": value}, **SHORT).fit(Y)


def test_priors_of_loadings_beyond_the_data(Y):
    for prior in ((0.0, 1e6), (1e5, 1.0)):
        with pytest.raises(ValueError, match=r"priors: the mean and standard deviation of loading"):
            SeriesMixture(2, priors=SeriesPrior(loading=prior), **SHORT).check(Y)


@pytest.mark.parametrize("column", ["value", "u"])
def test_columns_whose_squares_are_no_numbers(Y, column):
    i, t = np.divmod(np.arange(Y.size), Y.shape[1])
    frame = pd.DataFrame({"series": i, "time": t, "value": Y.ravel(), "u": 1.0 * t})
    frame.loc[3, column] = 1e200
    names = {"series": "series", "time": "time", "value": "value", "covariates": ["u"]}
    with pytest.raises(ValueError, match=f"'{column}' reaches 1e.200 in row 3, whose square"):
        SeriesMixture(2, **SHORT).fit(frame, **names)


@pytest.mark.parametrize(
    "collapse", [pytest.param("ep", marks=pytest.mark.slow), "collapsed", "naive"]
)
def test_variances_without_a_prior_to_speak_of(Y, collapse):
    priors = SeriesPrior(var_x=(1e-6, 1e-12), var_y=(1e-6, 1e-12))
    m = SeriesMixture(2, collapse=collapse, priors=priors, **SHORT).fit(Y[:, :1])
    for band in (m.trends_, m.factors_, m.forecast(3)):
        assert np.isfinite([band.mean, band.lower, band.upper]).all()
    assert np.isfinite(m.posterior_.log_joint).all()


def test_draws_of_variances_are_numbers():
    rng = np.random.default_rng(0)
    draws = [inverse_gamma.py_func(rng, 1e-6, 1e-12) for _ in range(100)]
    assert min(draws) >= LEAST_VARIANCE
    assert max(draws) <= MOST_VARIANCE
    # Within the range nothing is changed.
    expected = 2.0 / np.random.default_rng(3).standard_gamma(1.5)
    drawn = inverse_gamma.py_func(np.random.default_rng(3), 1.5, 2.0)
    assert drawn == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("low", "high"), [(-1.0, 1.0), (-3.0, -2.0), (0.5, 4.0)])
def test_the_mass_of_an_interval(low, high):
    from scipy.special import ndtr

    assert log_mass(low, high) == pytest.approx(np.log(ndtr(high) - ndtr(low)), rel=1e-12)


def test_a_prior_far_from_where_it_is_cut(Y):
    # All its mass lies beyond (-1, 1): what is left has a logarithm, if no number.
    assert log_mass(9e3, 9e3 + 1.0) == pytest.approx(-0.5 * 9e3**2, rel=1e-6)
    m = SeriesMixture(2, priors=SeriesPrior(a=(10.0, 1e-3)), **SHORT).fit(Y)
    assert np.isfinite(m.posterior_.log_joint).all()


def test_rows_of_other_libraries_are_predicted(Y):
    m = SeriesMixture(2, **SHORT).fit(Y)
    rows = pd.DataFrame({"series": [0, 1, 4], "time": [0, 7, 9]})
    np.testing.assert_array_equal(
        m.predict_values(pa.Table.from_pandas(rows)), m.predict_values(rows)
    )
    rows["value"] = 0.0
    np.testing.assert_array_equal(
        m.score_samples(pa.Table.from_pandas(rows)), m.score_samples(rows)
    )


# ------------------------------------------------------------------ the run


def test_an_interrupt_of_the_search_keeps_the_draws(X, monkeypatch):
    plain = GaussianMixture(2, **SHORT).fit(X)

    def stopped(*arguments, **options):
        raise KeyboardInterrupt

    monkeypatch.setattr(Posterior, "partition", stopped)
    with pytest.warns(UserWarning, match="search for the point estimate was stopped"):
        m = GaussianMixture(2, **SHORT).fit(X)
    monkeypatch.undo()
    np.testing.assert_array_equal(m.posterior_.labels, plain.posterior_.labels)
    best = plain.posterior_.flat_labels[plain.posterior_.log_joint.argmax()]
    assert len({*zip(m.labels_, best, strict=True)}) == m.n_clusters_ == len(np.unique(best))
    assert m.predict(X).shape == (16,)
    assert m.posterior_.partition().labels.shape == (16,)


@pytest.mark.parametrize("size", [1e250, 1e-250])
def test_diagnostics_of_quantities_of_any_size(size):
    rng = np.random.default_rng(0)
    values = rng.standard_normal((2, 50))
    labels = rng.integers(2, size=(2, 50, 6))
    plain = Posterior(labels, parameters={"v": values}).diagnostics().table.loc["v"]
    scaled = Posterior(labels, parameters={"v": values * size}).diagnostics().table.loc["v"]
    np.testing.assert_allclose(scaled[["mean", "sd"]] / size, plain[["mean", "sd"]], rtol=1e-9)
    columns = ["rhat", "ess_bulk", "ess_tail"]
    np.testing.assert_allclose(scaled[columns], plain[columns], rtol=1e-6)


def test_fewer_rounded_rows_than_kernels_are_compiled_with():
    StudentTMixture(1).check([[1.0, 2.0], [3.0, 1.0], [2.0, 2.0]])


def test_lists_are_tables_without_row_names(X):
    m = GaussianMixture(2, **SHORT).fit(X)
    table = m.predict_proba(X.tolist(), as_frame=True)
    assert table.equals(m.predict_proba(X, as_frame=True))
