"""Tables with missing values: fits, predictions, values filled in, files and refusals."""

import numpy as np
import pandas as pd
import pytest
from loo_total import total_of
from scipy import stats
from sklearn.metrics import adjusted_rand_score

import cavity
from cavity import GaussianMixture, StudentTMixture
from cavity.datasets import make_student_t
from cavity.estimators.coarse_columns import coarse_columns
from cavity.estimators.dequantize import recording_steps, within_steps
from cavity.estimators.gaps import filled
from cavity.estimators.validation import robust_standardiser
from cavity.predict.densities import predict_rows
from cavity.predict.draws import Rows

pytestmark = pytest.mark.first(7)

# Rows with gaps are few enough to be taken for noise, which has kernels of its own.
SMALL = {
    "noise": False, "n_chains": 2, "n_warmup": 60, "n_draws": 60, "random_state": 0, "n_jobs": 1
}  # fmt: skip


def make_rows(n=60, d=3, share=0.2, seed=0):
    """Two clusters with correlated columns, and the same with gaps."""
    rng = np.random.default_rng(seed)
    root = 0.3 * np.eye(d) + 0.7
    X = rng.standard_normal((n, d)) @ root
    truth = np.arange(n) % 2
    X[truth == 1] += 8.0
    G = X.copy()
    G[rng.random(X.shape) < share] = np.nan
    return X, G, truth


@pytest.fixture(
    scope="module", params=[StudentTMixture, pytest.param(GaussianMixture, marks=pytest.mark.slow)]
)
def fitted(request):
    _, G, _ = make_rows()
    return request.param(2, **SMALL).fit(G)


def test_clusters_are_found_and_answers_are_numbers(fitted):
    _X, G, truth = make_rows()
    assert np.isnan(G).any(axis=1).mean() > 0.3
    assert adjusted_rand_score(truth, fitted.labels_) == 1.0
    assert np.array_equal(fitted.predict(G), fitted.labels_)
    np.testing.assert_allclose(fitted.predict_proba(G).sum(axis=1), 1.0)
    for values in (
        fitted.score_samples(G),
        fitted.tail_probabilities(G),
        fitted.posterior_.log_joint,
        fitted.posterior_.drawn["log_marginal"],
        fitted.predictive_check(G, n_replicates=20),
        fitted.predict_proba(G, as_frame=True),
    ):
        assert np.isfinite(np.asarray(values, dtype=float)).all()
    assert fitted.__sklearn_tags__().input_tags.allow_nan


def test_a_row_without_values_is_no_row_in_particular(fitted):
    nothing = np.full((1, 3), np.nan)
    np.testing.assert_allclose(fitted.predict_proba(nothing)[0], fitted.weights_, atol=0.05)
    assert fitted.score_samples(nothing)[0] == pytest.approx(0.0, abs=1e-9)
    assert fitted.tail_probabilities(nothing)[0] == 1.0
    _X, G, truth = make_rows()
    G[5] = np.nan
    m = type(fitted)(2, **SMALL).fit(G)
    rest = np.arange(len(G)) != 5
    assert adjusted_rand_score(truth[rest], m.labels_[rest]) == 1.0


def measurements(rows):
    """Rows of a table with continuous columns alone."""
    none = np.empty((len(rows), 0))
    return Rows(rows, none.astype(int), none)


def test_densities_of_what_is_there(fitted):
    """Against SciPy, draw by draw: marginal densities of the columns that are there."""
    _, G, _ = make_rows()
    rows = fitted._units.standardise(G[np.isnan(G).any(axis=1)][:6])
    packed = fitted._predictor.pack(np.arange(5))
    found = predict_rows(packed, measurements(rows), fitted.n_clusters_)[0]
    for s in range(5):
        for i, row in enumerate(rows):
            there = ~np.isnan(row)
            total = 0.0
            for k in range(packed.start[s], packed.start[s + 1]):
                inverse = np.linalg.inv(packed.whiten[k])
                shape = (inverse @ inverse.T)[np.ix_(there, there)]
                centre = packed.mean[k, there]
                if not there.any():
                    density = 1.0
                elif np.isfinite(packed.alpha[k]):
                    t = stats.multivariate_t(centre, shape, 2.0 * packed.alpha[k])
                    density = t.pdf(row[there])
                else:
                    density = stats.multivariate_normal(centre, shape).pdf(row[there])
                total += np.exp(packed.log_weight[k]) * density
            assert found[s, i] == pytest.approx(np.log(total), abs=1e-9)


def test_values_filled_in(fitted):
    X, G, _truth = make_rows()
    out = fitted.impute(G)
    gap = np.isnan(G)
    for part in (out.mean, out.lower, out.upper):
        assert np.isfinite(part).all()
        np.testing.assert_array_equal(part[~gap], G[~gap])
    assert (out.lower[gap] < out.mean[gap]).all()
    assert (out.mean[gap] < out.upper[gap]).all()
    # By the columns that are there, not by the middle of the column.
    error = np.sqrt(np.mean((out.mean - X)[gap] ** 2))
    assert error < 0.25 * np.sqrt(np.mean((np.nanmean(G, axis=0) - X)[gap] ** 2))
    narrow = fitted.impute(G, level=0.5)
    assert (narrow.upper - narrow.lower)[gap].mean() < 0.6 * (out.upper - out.lower)[gap].mean()
    # New rows, in a table: one at a time as together.
    table = pd.DataFrame(G[:4] + 0.01, columns=list("abc"), index=list("wxyz"))
    new = fitted.impute(table.to_numpy())
    assert new.mean.shape == (4, 3)
    np.testing.assert_allclose(fitted.impute(table.to_numpy()[1:2]).mean[0], new.mean[1])


def test_conditional_means_against_the_regression():
    """One Gaussian cluster: the mean of a missing cell is the regression on the others."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((400, 3)) @ np.array(
        [[1.0, 0.5, 0.2], [0.0, 1.0, 0.4], [0.0, 0.0, 1.0]]
    )
    m = GaussianMixture(1, **SMALL).fit(X)
    new = np.array([[1.0, np.nan, -0.5]])
    out = m.impute(new, level=0.8)
    cov, mean = np.cov(X.T), X.mean(axis=0)
    there = [0, 2]
    slope = np.linalg.solve(cov[np.ix_(there, there)], cov[there, 1])
    wanted = mean[1] + slope @ (new[0, there] - mean[there])
    sd = np.sqrt(cov[1, 1] - slope @ cov[there, 1])
    assert out.mean[0, 1] == pytest.approx(wanted, abs=0.05)
    assert out.upper[0, 1] - out.lower[0, 1] == pytest.approx(2 * 1.2816 * sd, rel=0.1)


def test_a_table_stays_a_table():
    _, G, _ = make_rows()
    frame = pd.DataFrame(G, columns=["a", "b", "c"], index=[f"r{i}" for i in range(len(G))])
    m = StudentTMixture(2, **SMALL).fit(frame.astype("Float64"))
    out = m.impute(frame)
    assert list(out.mean.columns) == ["a", "b", "c"]
    assert out.lower.index[3] == "r3"
    masked = np.ma.masked_invalid(G)
    np.testing.assert_array_equal(StudentTMixture(2, **SMALL).fit(masked).labels_, m.labels_)


def test_saved_and_loaded(fitted, tmp_path):
    _, G, _ = make_rows()
    fitted.save(tmp_path / "run.nc")
    again = cavity.load(tmp_path / "run.nc")
    np.testing.assert_array_equal(again.impute(G).mean, fitted.impute(G).mean)
    np.testing.assert_array_equal(again.score_samples(G), fitted.score_samples(G))


def test_a_run_goes_on_with_its_gaps(tmp_path):
    """What fills gaps is part of the state: a resumed run has the draws of an unbroken one."""
    _, G, _ = make_rows()
    whole = StudentTMixture(2, **SMALL).fit(G)
    path = tmp_path / "run.ckpt"
    half = {**SMALL, "n_draws": 30}
    StudentTMixture(2, **half, checkpoint=path).fit(G)
    resumed = StudentTMixture(2, **SMALL, checkpoint=path).fit(G)
    np.testing.assert_array_equal(resumed.posterior_.labels, whole.posterior_.labels)
    np.testing.assert_array_equal(resumed.posterior_.log_joint, whole.posterior_.log_joint)


@pytest.mark.slow
def test_leave_one_out_with_gaps(fitted):
    _, G, _ = make_rows()
    result = fitted.loo(G)
    total = total_of(result)
    assert np.isfinite(total)
    # Rows in the bulk are foretold by the others about as well as by all.
    assert total == pytest.approx(fitted.score_samples(G).sum(), rel=0.2)


def test_what_is_refused(fitted):
    X, G, _ = make_rows()
    bad = G.copy()
    bad[:, 1] = np.nan
    with pytest.raises(ValueError, match="Column 1 has no value in any row"):
        GaussianMixture(2, **SMALL).fit(bad)
    with pytest.raises(ValueError, match="Column 'b' has no value"):
        GaussianMixture(2, **SMALL).check(pd.DataFrame(bad, columns=list("abc")))
    with pytest.raises(ValueError, match="sample_weight is not supported with collapse='ep'"):
        StudentTMixture(2, collapse="ep", **SMALL).check(X, sample_weight=1.0 + np.arange(len(X)))
    with pytest.raises(ValueError, match="level must be a number greater than 0"):
        fitted.impute(G, level=2.0)


def test_gaps_have_no_part_in_units_steps_and_warnings():
    _, G, _ = make_rows()
    one = G[~np.isnan(G[:, 0]), :1]
    centre, scale = robust_standardiser(G, None)
    assert (centre[0], scale[0]) == tuple(v[0] for v in robust_standardiser(one, None))
    assert recording_steps(G)[0] == recording_steps(one)[0]
    assert np.array_equal(np.isnan(within_steps(G)), np.isnan(G))
    few = np.where(np.arange(40)[:, None] % 4 == 3, np.nan, np.arange(40)[:, None] % 2)
    assert [one.words for one in coarse_columns(few, ["a"])] == ["column 'a' has 2 values"]
    start = filled(within_steps(G))
    assert np.isfinite(start).all()


def test_two_in_a_row_are_the_same_for_any_number_of_threads():
    _, G, _ = make_rows()
    one = StudentTMixture(2, **SMALL).fit(G)
    two = StudentTMixture(2, **{**SMALL, "n_jobs": 2}).fit(G)
    np.testing.assert_array_equal(one.posterior_.log_joint, two.posterior_.log_joint)


@pytest.mark.slow
def test_coverage_of_the_intervals():
    """Data of the model, a fifth of the cells taken out: 90 % intervals hold 87 to 93 % of them.

    Some 3,200 cells over 20 seeds, dependent within a data set: the share of a right method has a
    standard error of about .007, so that a false alarm is one in fifty thousand.
    """
    inside, total = 0, 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, _ = make_student_t(200, 3, 4, df=5.0, separation="medium", random_state=seed)
        G = X.copy()
        G[rng.random(X.shape) < 0.2] = np.nan
        G[np.isnan(G).all(axis=1), 0] = 0.0
        gap = np.isnan(G)
        m = StudentTMixture(3, random_state=seed, n_chains=2, n_warmup=300, n_draws=300).fit(G)
        out = m.impute(G)
        inside += int(((X >= out.lower) & (X <= out.upper))[gap].sum())
        total += int(gap.sum())
    print(f"{inside / total:.3f} of {total} cells")
    assert 0.87 < inside / total < 0.93
