"""Simulation-based calibration of `SeriesMixture` at its default priors (Talts et al. 2018).

Data sets are drawn from the priors and the model; the rank of the truth among the draws of a fit is
then uniform, for every statistic. Units are held at those of the model, since the priors are in
them; all else is the public estimator. Labels, signs and data enter the statistics together.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from cavity import SeriesMixture
from cavity.likelihoods.degrees_of_freedom import HIGHEST, LOWEST
from cavity.posterior.units import SeriesUnits
from cavity.priors import SeriesPrior
from cavity.priors.specifications import FiniteMixture
from cavity.series import mixture as estimator
from cavity.series.parameters import RATE, SHAPE

N, T, K = 8, 15, 3
DRAWS, THIN = 99, 6
SETS = 120
FEW = 40  # for the control, which fails by far
BINS = 10
LEVEL = 1e-4  # of each statistic; 15 to 17 of them, at fixed seeds
PRIOR = SeriesPrior()

pytestmark = pytest.mark.slow


def inside(rng, mean, sd):
    """A normal variable between -1 and 1."""
    value = 2.0
    while not -1.0 < value < 1.0:
        value = rng.normal(mean, sd)
    return value


def inverse_gamma(rng, shape, scale, size=None):
    return scale / rng.gamma(shape, size=size)


def twelve_on(x, p, rng):
    """States twelve times later, given those of now and parameters."""
    for _ in range(12):
        eta, g = rng.standard_normal(K), rng.standard_normal()
        x = p["a"] * x + p["loading"] * eta[p["z"]] + p["common"] * g
        x = x + math.sqrt(p["var_x"]) * rng.standard_normal(N)
    return x


def simulate(rng, common):
    """Everything from the default priors, and data."""
    p = PRIOR
    # The number of clusters, larger ones less likely; their weights; their names.
    prior = FiniteMixture()
    chances = np.arange(1.0, K + 1.0) ** -prior.power
    n_clusters = rng.choice(K, p=chances / chances.sum()) + 1
    names = rng.permutation(K)[:n_clusters]
    concentration = rng.gamma(prior.gamma[0], 1.0 / prior.gamma[1])
    weights = rng.dirichlet(np.full(n_clusters, max(concentration, 1e-3)))
    truth = {"z": rng.choice(names, N, p=weights)}
    a_mean, a_var = inside(rng, 0.0, p.a[0]), inverse_gamma(rng, *p.a[1:])
    truth["a"] = np.array([inside(rng, a_mean, math.sqrt(a_var)) for _ in range(N)])
    for name in ("loading", "common"):
        numbers = getattr(p, name)
        mean, var = rng.normal(0.0, numbers[0]), inverse_gamma(rng, *numbers[1:])
        truth[name] = rng.normal(mean, math.sqrt(var), N) if name == "loading" or common else 0.0
    mean, var = rng.normal(0.0, p.intercept[0]), inverse_gamma(rng, *p.intercept[1:])
    level = rng.normal(mean, math.sqrt(var), N)
    truth["var_x"] = inverse_gamma(rng, *p.var_x)
    truth["var_y"] = inverse_gamma(rng, *p.var_y, N)
    truth["df"] = 0.0
    while not LOWEST < truth["df"] < HIGHEST:
        truth["df"] = rng.gamma(SHAPE, 1.0 / RATE)
    eta, truth["g"] = rng.standard_normal((K, T)), rng.standard_normal(T)
    x = math.sqrt(inverse_gamma(rng, *p.var_x0)) * rng.standard_normal(N)
    Y = np.empty((N, T))
    for t in range(T):
        x = truth["a"] * x + truth["loading"] * eta[truth["z"], t] + truth["common"] * truth["g"][t]
        x = x + math.sqrt(truth["var_x"]) * rng.standard_normal(N)
        Y[:, t] = x
    truth["last"] = x
    truth["later"] = twelve_on(x, truth, rng)
    noise = rng.standard_t(truth["df"], (N, T)) * np.sqrt(truth["var_y"])[:, None]
    return Y + level[:, None] + noise, truth


def statistics(z, a, loading, var_x, var_y, df, last, later, Y, common):
    first, second = np.triu_indices(N, 1)
    same = z[first] == z[second]
    sign = np.sign(loading[first] * loading[second])
    alike = np.sign((np.diff(Y)[first] * np.diff(Y)[second]).sum(1))
    found = {
        "pairs together": same.sum(),
        "clusters": len(np.unique(z)),
        "pairs together of opposite signs": (same & (sign < 0)).sum(),
        "negative loadings": (loading < 0).sum(),
        "pairs, signs and data": (same * sign * alike).sum(),
        "pairs and data": (same * alike).sum(),
        "mean a": a.mean(),
        "squared loadings": (loading**2).sum(),
        "var_x": var_x,
        "log var_y": np.log(var_y).sum(),
        "df": df,
        "last states": last.mean(),
        "states twelve steps on": later.mean(),
        "state of one series twelve steps on": later[0],
        "size of the states twelve steps on": (later**2).mean(),
    }
    if np.ndim(common):
        found["squared common loadings"] = (common**2).sum()
        found["common loading against data"] = common[0] * common[1] * alike[0]
    return found


def ranks(n_sets, monkeypatch, *, common=False, signs=True, collapse="auto", seed=0):
    """Uniform variables in (0, 1), if the sampler is right: one per data set and statistic."""

    def held(data, intercept, each=False):
        none = np.zeros(0)
        return SeriesUnits(0.0, np.ones(N), none, none, intercept, 0.0)

    monkeypatch.setattr(estimator, "find_units", held)
    if not signs:
        make = estimator.series_problem

        def without_signs(*given, **more):
            problem = make(*given, **more)
            own = problem.data.own._replace(free_signs=False)
            return type(problem)(**vars(problem) | {"data": problem.data._replace(own=own)})

        monkeypatch.setattr(estimator, "series_problem", without_signs)
    out = []
    for number in range(n_sets):
        rng = np.random.default_rng([seed, number])
        Y, truth = simulate(rng, common)
        s = SeriesMixture(
            K, collapse=collapse, common_factor=common, n_chains=1,
            options={"moves": collapse == "auto"},
            n_warmup=200, n_draws=DRAWS, thin=THIN, random_state=number, progress=False, n_jobs=1,
        ).fit(Y)  # fmt: skip
        p = s.posterior_
        d = {name: p.drawn[name][0] for name in p.drawn}
        d |= {"z": p.labels[0], "common": d.get("common", np.zeros(DRAWS))}
        draws = []
        for k in range(DRAWS):
            one = {name: d[name][k] for name in ("z", "a", "loading", "var_x", "common")}
            later = twelve_on(d["state_last"][k], one, rng)
            draws.append(
                statistics(
                    one["z"], one["a"], one["loading"], one["var_x"], d["var_y"][k], d["df"][k],
                    d["state_last"][k], later, Y, one["common"] if common else 0.0,
                )
            )  # fmt: skip
        true = statistics(
            truth["z"], truth["a"], truth["loading"], truth["var_x"], truth["var_y"], truth["df"],
            truth["last"], truth["later"], Y, truth["common"] if common else 0.0,
        )  # fmt: skip
        place = {}
        for name, value in true.items():
            values = np.array([draw[name] for draw in draws])
            # Ties are broken at random.
            below, equal = (values < value).sum(), (values == value).sum()
            place[name] = (below + rng.integers(0, equal + 1) + rng.random()) / (DRAWS + 1)
        out.append(place)
    return {name: np.array([place[name] for place in out]) for name in out[0]}


def uniformity(found):
    """P-value of each statistic's ranks in ten bins."""
    return {
        name: stats.chisquare(np.bincount((u * BINS).astype(int), minlength=BINS)).pvalue
        for name, u in found.items()
    }


@pytest.mark.parametrize("common", [False, True], ids=["clusters alone", "a common factor"])
@pytest.mark.timeout(3600)
def test_the_default_is_calibrated(monkeypatch, common):
    found = uniformity(ranks(SETS, monkeypatch, common=common))
    print(found)
    assert min(found.values()) > LEVEL, found


@pytest.mark.timeout(3600)
def test_the_exact_collapse_is_calibrated(monkeypatch):
    found = uniformity(ranks(SETS, monkeypatch, collapse="collapsed"))
    print(found)
    assert min(found.values()) > LEVEL, found


@pytest.mark.timeout(3600)
def test_labels_drawn_without_their_signs_are_noticed(monkeypatch):
    found = uniformity(ranks(FEW, monkeypatch, signs=False, collapse="collapsed"))
    print(found)
    assert min(found.values()) < LEVEL, found
