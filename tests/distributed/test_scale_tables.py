"""Tables in shards: measurements, categories and counts, some of them missing.

Levels as in test_scale_exact.py and test_geweke_tables.py.
"""

from __future__ import annotations

import enumeration
import numpy as np
import pandas as pd
import pytest
import small
import table_cases
import test_geweke_tables as joint
from scale_cases import partition_prior
from scipy import stats

from cavity import TableMixture
from cavity.distributed.clusters import RATES, SHARES, ComponentPriors, Conjugate, Location, moments
from cavity.distributed.df_grid import DFSettings
from cavity.distributed.executor import ThreadExecutor
from cavity.distributed.mixture_weights import is_counted
from cavity.distributed.parts import ShardUpdate
from cavity.distributed.passes import make_shard
from cavity.distributed.pilot import PilotSample
from cavity.distributed.sampler import ShardedMixture, ShardedSampler
from cavity.distributed.sources import ArraySource
from cavity.distributed.split_merge import SplitMerge
from cavity.distributed.tables import table_source
from cavity.likelihoods.category_shares import ShareHyperpriors
from cavity.likelihoods.count_rates import RateHyperpriors
from cavity.priors.partition import dirichlet_process

LEVEL = 1e-4
START = (0, 2, 5)
THREE = ("student-t", "categorical", "poisson")
TWO = ("categorical", "poisson")


def numbers(y, codes, counts):
    return np.hstack([y, codes, np.where(np.isnan(counts), -1.0, counts)])


def chain(
    rows, component_priors, prior, rng, *, df=np.inf, n_shards=1, seen=None, updates=(), moves=True
):
    """A chain that begins with everything in one cluster."""
    shape = component_priors.shape
    names = tuple(f"x{j}" for j in range(shape.n_columns))
    executor = ThreadExecutor(ArraySource(rows, names, False, shape), n_shards=n_shards, block=2)
    still = np.zeros(shape.d)
    executor.load(make_shard, still, np.ones(shape.d), still, np.arange(len(rows)), shape)
    pilot = PilotSample(rows if seen is None else rows[seen], len(rows), shape)
    n_slots = prior.free.size if prior.is_open else prior.weights.size
    everything = PilotSample(rows, len(rows), shape)
    start = everything.begun(np.zeros(len(rows), dtype=int), n_slots, np.ones(len(rows)))
    return ShardedSampler(
        executor,
        pilot,
        start,
        ShardedMixture(component_priors, prior, DFSettings(df), updates),
        rng,
        moves=moves,
    )


def unlabelled(exact):
    """The same over partitions: these priors are symmetric, and chains seldom swap two labels."""
    rows = np.array([enumeration.canonical(z) for z in exact.states])
    states, back = np.unique(rows, axis=0, return_inverse=True)
    return enumeration.Exact(states, np.bincount(np.ravel(back), exact.probability), False)


def p_value(names, prior, n_sweeps, seed, **options):
    rng = np.random.default_rng(seed)
    measured = names[0] in ("gaussian", "student-t")
    component_priors = ComponentPriors(
        small.NIW if measured else None, table_cases.CONCENTRATION, START, table_cases.GAMMA
    )
    y = table_cases.Y if measured else np.empty((small.N, 0))
    rows = numbers(y, table_cases.CODES, table_cases.COUNTS)
    df = small.DF if names[0] == "student-t" else np.inf
    sampler = chain(rows, component_priors, partition_prior(prior), rng, df=df, **options)
    exact = unlabelled(table_cases.exact(names, prior))
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, n_sweeps, rng))
    print(f"{names}, {prior}, {options}: {result}, {sampler.events()}")
    assert result.n_cells > 5
    return result.p_value


@pytest.mark.variants("exact", "names0-dp-options0")
@pytest.mark.parametrize(
    ("names", "prior", "options"),
    [
        (TWO, "dp", {"n_shards": 2}),
        pytest.param(
            THREE, "dp", {"n_shards": 3, "seen": np.array([0, 3, 5])}, marks=pytest.mark.exact
        ),
    ],
)
def test_frequencies_of_partitions(names, prior, options):
    assert p_value(names, prior, 1200, 3, **options) > LEVEL


@pytest.mark.exact
@pytest.mark.parametrize(
    ("names", "prior", "options"),
    [
        (THREE, "finite", {"n_shards": 2}),
        (THREE, "dp", {"n_shards": 1}),
        (("gaussian", *TWO), "dirichlet", {"n_shards": 3}),
        (("gaussian", *TWO), "dp", {"n_shards": 3, "seen": np.array([0, 3, 5])}),
        (TWO, "finite", {"n_shards": 3}),
    ],
)
def test_frequencies_of_partitions_at_length(names, prior, options):
    """With splits and merges: these labels hardly move one by one, given parameters."""
    assert p_value(names, prior, 5_000, 5, **options) > LEVEL


@pytest.mark.exact
def test_a_merge_without_its_volume_is_noticed(monkeypatch):
    """Negative control: two weights in place of one."""
    right = SplitMerge._log_empty

    def without(self, mixture, prior, a, e):
        return 0.0 if is_counted(prior) else right(self, mixture, prior, a, e)

    monkeypatch.setattr(SplitMerge, "_log_empty", without)
    assert p_value(TWO, "finite", 15_000, 5, n_shards=2) < LEVEL


# --------------------------------------------------------------------------- joint distribution


def redrawn(sampler, rng):
    """Data given labels and clusters, and the sums that go with them."""
    z = sampler.labels().astype(int)
    share, rate = sampler.parameters.first.share[:, z].T, sampler.parameters.rest.rate[0, z]
    codes, y = joint.cells(share, rate, rng)
    rows = numbers(np.empty((joint.N, 0)), codes, y)
    at = 0
    for shard in sampler.executor.shards:
        n = shard.layout.n_rows
        own = rows[at : at + n]
        shard.columns.cells[:, :n] = np.where(own[:, :2] < 0, -1, own[:, :2] + START[:2]).T
        shard.columns.counts[:, :n] = own[:, 2:].T
        at += n
    sampler.pilot = PilotSample(rows, joint.N, sampler.pilot.shape)
    sampler._moves.pilot = sampler.pilot
    sampler.statistics[:] = sampler.pilot.begun(z, sampler.n_slots, np.ones(joint.N))
    sampler._fresh = True
    a, b = sampler.family.rest.prior
    concentration = sampler.family.first.prior.copy()
    return z, concentration, a, a / b, share.copy(), rate.copy(), np.ones(3), codes, y


def largest(n_sweeps, seed, spoil=lambda sampler: None):
    rng = np.random.default_rng(seed)
    before = []
    for _ in range(3000):
        drawn = joint.from_priors(rng)
        before.append(joint.functions(*drawn, *joint.cells(drawn[4], drawn[5], rng)))
    before = np.array(before)
    _, concentration, shape, mean, share, rate, _ = joint.from_priors(rng)
    codes, y = joint.cells(share, rate, rng)
    component_priors = ComponentPriors(
        None, concentration, START, (np.array([shape]), np.array([shape / mean]))
    )
    paths = component_priors.paths
    updates = [
        ShardUpdate(ShareHyperpriors(), paths[SHARES], component_priors.columns(SHARES)),
        ShardUpdate(
            RateHyperpriors(joint.CENTRE, False), paths[RATES], component_priors.columns(RATES)
        ),
    ]
    prior = dirichlet_process(joint.N + 1, joint.CONCENTRATION)
    rows = numbers(np.empty((joint.N, 0)), codes, y)
    sampler = chain(rows, component_priors, prior, rng, n_shards=2, updates=updates)
    after = np.empty((n_sweeps, before.shape[1]))
    for row in range(-100, n_sweeps):
        sampler.sweep(rng)
        state = redrawn(sampler, rng)
        spoil(sampler)
        if row >= 0:
            after[row] = joint.functions(*state)
    means = after.reshape(50, -1, after.shape[1]).mean(axis=1)
    variance = means.var(axis=0, ddof=1) / 50 + before.var(axis=0) / len(before)
    scores = (after.mean(axis=0) - before.mean(axis=0)) / np.sqrt(np.maximum(variance, 1e-300))
    scores = stats.norm.isf(np.clip(stats.t.sf(np.abs(scores), 49), 1e-300, 0.5))
    print(scores.round(1), joint.threshold(scores.size))
    return scores.max() / joint.threshold(scores.size)


@pytest.mark.exact
def test_joint_distribution():
    assert largest(5_000, 1) < 1.0


@pytest.mark.exact
def test_sums_that_lack_their_gaps_are_noticed():
    """Negative control: a missing count that is taken for nought."""

    def spoil(sampler):
        sampler.statistics[:, -1] = sampler.statistics[:, 1]

    assert largest(5_000, 2, spoil) > 1.0


# --------------------------------------------------------------------------- parts


def test_a_cluster_of_categories_and_counts_against_scipy():
    rng = np.random.default_rng(0)
    concentration, gamma = np.array([0.6, 1.1, 0.4, 0.7, 1.5]), (np.array([1.3]), np.array([0.5]))
    component_priors = ComponentPriors(None, concentration, START, gamma)
    one = Conjugate(np.concatenate([concentration, [1.3, 0.5]]), component_priors.shape)
    place = one.draw(rng)
    share = np.exp(place.log_share)
    exact = stats.dirichlet.logpdf(share[:2], concentration[:2])
    exact += stats.dirichlet.logpdf(share[2:], concentration[2:])
    exact += stats.gamma.logpdf(np.exp(place.log_rate[0]), 1.3, scale=2.0)
    assert one.log_density(place) == pytest.approx(exact)
    drawn = np.array([np.exp(one.draw(rng).log_share) for _ in range(3000)]).mean(axis=0)
    assert drawn[2:] == pytest.approx(concentration[2:] / concentration[2:].sum(), abs=0.04)
    typical = one.typical
    assert np.exp(typical.log_rate[0]) == pytest.approx(2.6)
    assert moments(typical, 10.0)[2:4] == pytest.approx(10.0 * concentration[:2] / 1.7)
    family, parameters = component_priors.families(3)
    component_priors.set_locations(parameters, [typical] * 3)
    again = component_priors.locations(parameters, 3)[1]
    assert all(np.array_equal(a, b) for a, b in zip(again, typical, strict=True))
    assert isinstance(again, Location)
    assert family.natural.shape == (3, 7)


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=3000)
    frame = pd.DataFrame(
        {
            "colour": np.where(rng.random(3000) < 0.15 + 0.7 * kind, "red", "green"),
            "size": rng.normal(3.0 * kind),
            "visits": rng.poisson(2.0 + 3.0 * kind).astype(float),
            "weight": rng.normal(2.0 * kind),
        }
    )
    frame.loc[5, "colour"] = None
    frame.loc[[6, 2900], "visits"] = np.nan
    return frame, kind


def fitted(X, **settings):
    options = {"n_chains": 1, "n_warmup": 30, "n_draws": 30, "random_state": 0, "n_jobs": 1}
    types = {"visits": "count"}
    return TableMixture(3, feature_types=types, **{**options, **settings}).fit(X)


@pytest.mark.exact
def test_files_and_arrays_give_the_clusters_of_a_fit_in_memory(table, tmp_path):
    frame, kind = table
    folder = tmp_path / "rows"
    folder.mkdir()
    frame.iloc[:1300].to_parquet(folder / "a.parquet")
    frame.iloc[1300:].to_parquet(folder / "b.parquet")
    away = fitted(folder)
    assert away.columns_["kind"].tolist() == ["categorical", "continuous", "count", "continuous"]
    assert away.columns_.loc["colour", "categories"] == "green, red"
    for m in (away, fitted(frame, collapse="parallel", n_jobs=2)):
        assert m.n_clusters_ == 2
        assert pd.crosstab(m.labels_, kind).to_numpy().max(axis=1).sum() > 0.95 * len(kind)
    assert away.followed_["colour"].isna().sum() == 1
    again = TableMixture.load(away.save(tmp_path / "m.nc"))
    files = again.predict_to_parquet(folder, tmp_path / "placed", n_draws=200)
    placed = pd.concat([pd.read_parquet(path) for path in files], ignore_index=True)
    expected = away.predict_proba(frame, as_frame=True)
    for name in ("cluster", "probability", "log_density", "p_0", "p_unmatched"):
        assert placed[name].to_numpy() == pytest.approx(expected[name].to_numpy(), abs=1e-6)
    assert away.report(tmp_path / "page.html").stat().st_size > 10_000
    assert len(away.summary()) > 0


def test_what_is_refused(table, tmp_path):
    frame, _ = table
    folder = tmp_path / "rows"
    folder.mkdir()
    gap = frame.iloc[:100].copy()
    gap.loc[7, "size"] = np.nan
    gap.to_parquet(folder / "a.parquet")
    with pytest.raises(ValueError, match=r"Row 7, column 'size' of .*a\.parquet is missing"):
        fitted(folder)
    with pytest.raises(ValueError, match="categories and counts may be missing"):
        fitted(gap, collapse="parallel")
    for settings in ({"noise": True}, {"covariance_type": "diag"}):
        with pytest.raises(ValueError, match="is not supported for sharded data"):
            fitted(folder, **settings)
    with pytest.raises(ValueError, match="collapse='ep' is not supported for sharded data"):
        fitted(folder, collapse="ep")
    other = frame.iloc[:50].assign(colour=1.5)
    other.to_parquet(folder / "b.parquet")
    from cavity.distributed.sources import ShardError, parquet_source

    with pytest.raises(ShardError, match=r"'colour' holds text in .*a\.parquet and numbers"):
        table_source(parquet_source(folder, of_numbers=False))


@pytest.mark.parametrize("n_slots", [3, 9])
def test_what_lies_behind_the_last_slot_is_not_read(n_slots):
    """Kernels take slots by eights, and chains over shards have any number of them."""
    from types import SimpleNamespace

    from cavity.conjugate.dirichlet import dirichlets, shares
    from cavity.distributed.parts import Members
    from cavity.interface import End

    def drawn(slots):
        members = np.zeros((slots, 5))
        members[:n_slots] = np.arange(5 * n_slots).reshape(n_slots, 5)
        chain = SimpleNamespace(
            model=Members(np.ones(slots), members),
            family=dirichlets(np.ones(5), np.array([0, 2, 5]), slots),
            parameters=shares(5, slots),
            prior=End(),
            z=np.zeros(0, dtype=np.int32),
            counts=np.ones(slots, dtype=np.int64),
        )
        update, rng = ShareHyperpriors(), np.random.default_rng(0)
        for _ in range(8):
            update.draw(chain, rng)
        return chain.family.prior, update._room

    own, room = drawn(n_slots)
    assert np.array_equal(own, drawn(16)[0])
    assert not room[0].shape[1] % 8
    assert not np.allclose(own, 1.0)
