"""Expectation propagation over shards: one shard is the collapse, more are close to it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scale_cases import ep_chain

from cavity._numba.arrays import StateError
from cavity._numba.jit import Kernels
from cavity.collapse.mixtures import StudentTProblem
from cavity.collapse.registry import assemble
from cavity.conjugate.niw import normal_inverse_wishart
from cavity.distributed.blocks import SWEEP, stream
from cavity.distributed.ep_sampler import Pace, StaleEPSampler
from cavity.distributed.sites import set_slots
from cavity.mcmc.chain import PartitionSampler
from cavity.priors.cluster import NIWPrior
from cavity.priors.partition import finite

NIW = NIWPrior(np.zeros(2), 0.1, 6.0, 3.0 * np.eye(2))


@pytest.fixture(scope="module")
def y():
    rng = np.random.default_rng(0)
    centres = np.array([[0.0, 0.0], [4.0, 0.0], [0.0, 5.0]])
    return centres[rng.integers(3, size=90)] + rng.standard_t(5, (90, 2))


def test_one_shard_is_the_collapse_draw_for_draw(y):
    rng = np.random.default_rng(1)
    ours = ep_chain(y, NIW, finite(4, len(y)), rng, pace=Pace(every=2), moves=False)
    parts = assemble(StudentTProblem(y, NIW), "ep", 8, {"refresh_every": 2})
    z = np.concatenate(ours.crowd.labels()).astype(np.int32)
    plain = PartitionSampler(parts._replace(updates=()), finite(4, len(y)), z, rng)
    state = parts.collapse.state
    # Sites are made in the order of the rows here, and sums of them are fresh before each sweep.
    state.sites[:] = ours.crowd._own[0].sites
    for at in range(6):
        plain.collapse._rebuild(plain.z, plain.counts)
        plain.order[:] = np.arange(len(y))
        plain._scan(stream(ours.key, 0, at, SWEEP))
        state.pace[0] += 1
        ours.sweep(rng)
        assert np.array_equal(ours.labels(), plain.z)
        assert ours.crowd._own[0].sites == pytest.approx(state.sites, rel=1e-9, abs=1e-12)
    assert ours.events()["updates"] > 90


@pytest.mark.parametrize("n_shards", [2, 3])
def test_shards_one_after_the_other_are_never_stale(y, n_shards):
    rng = np.random.default_rng(1)
    ours = ep_chain(y, NIW, finite(4, len(y)), rng, n_shards=n_shards, pace=Pace(ahead=0))
    for _ in range(5):
        ours.sweep(rng)
    assert ours.events()["staleness_kl"] == pytest.approx(0.0, abs=1e-9)
    assert ours.counts.sum() == len(y)
    assert np.array_equal(np.bincount(ours.labels(), minlength=8), ours.counts)


def test_the_bound_on_staleness_bites(y):
    """Above it shards take turns, ever longer; a bound of none is never met."""
    taken = {}
    for most in (0.0, np.inf):
        rng = np.random.default_rng(1)
        pace = Pace(delay=3, most_stale=most)
        ours = ep_chain(y, NIW, finite(4, len(y)), rng, n_shards=3, pace=pace, moves=False)
        for _ in range(12):
            ours.sweep(rng)
        taken[most] = ours.events()["sweeps_in_turns"]
        if most == 0.0:
            # Some sweep, then one in turns, again, two in turns, again, four.
            assert ours._turns[1] >= 4
            while not ours._turns[0]:
                ours.sweep(rng)
            before = ours._stale[1]
            ours.sweep(rng)
            assert ours._stale[1] == pytest.approx(before, abs=1e-9)
    assert taken == {0.0: pytest.approx(8.0, abs=1.0), np.inf: 0.0}


def test_threads_and_a_checkpoint(y, tmp_path):
    """The same draws with and without threads; sites that are made again from labels."""
    with ThreadPoolExecutor(2) as pool:
        chains = [
            ep_chain(y, NIW, finite(4, len(y)), np.random.default_rng(1), n_shards=3, pool=p,
                     learn="shared")
            for p in (None, pool)
        ]  # fmt: skip
        rngs = [np.random.default_rng(2) for _ in chains]
        for _ in range(8):
            for chain, rng in zip(chains, rngs, strict=True):
                chain.sweep(rng)
        one, two = chains
        assert np.array_equal(one.labels(), two.labels())
        assert one.log_joint() == two.log_joint()
        assert one.events()["staleness_kl"] > 0.0
        assert one.model.alpha[0] != 2.5
        state = two.state()
        other = ep_chain(y, NIW, finite(4, len(y)), np.random.default_rng(5), n_shards=3,
                         learn="shared")  # fmt: skip
        other.restore(state)
        assert np.array_equal(other.labels(), two.labels())
        assert other.model.alpha[0] == two.model.alpha[0]
        other.sweep(rngs[0])
        with pytest.raises(StateError, match="shards"):
            ep_chain(y, NIW, finite(4, len(y)), rngs[0], n_shards=2).restore(state)


def test_what_cannot_be_a_distribution_alone():
    """Sums that were made beside others are taken as far as they go."""
    q = normal_inverse_wishart(*NIW, 8)
    sums = np.zeros((8, q.prior.size))
    sums[3] = -4.0 * q.prior
    assert Kernels().run(set_slots, q, sums) == 1
    assert 0.0 < q.natural[3, 0] < q.prior[0]
    assert np.array_equal(q.natural[2], q.prior)


def similarity(chain, rng, n_sweeps, n_warmup=100):
    total = 0.0
    for at in range(n_sweeps + n_warmup):
        chain.sweep(rng)
        if at >= n_warmup:
            z = chain.labels()
            total = total + (z[:, None] == z)
    return total / n_sweeps


@pytest.mark.slow
def test_co_clustering_over_shards_is_that_of_one(y, monkeypatch):
    """Mean distance of the similarities below .02; sums that go to wrong clusters are noticed."""
    found = {}
    right = StaleEPSampler._tell

    def wrong(self, *arguments):
        told = right(self, *arguments)
        return told._replace(others=np.roll(told.others, 1, axis=0))

    for name, n_shards in (("one", 1), ("three", 3), ("wrong", 3)):
        if name == "wrong":
            monkeypatch.setattr(StaleEPSampler, "_tell", wrong)
        rng = np.random.default_rng(n_shards)
        chain = ep_chain(y, NIW, finite(4, len(y)), rng, n_shards=n_shards)
        found[name] = similarity(chain, rng, 2000)
    distance = {name: np.abs(value - found["one"]).mean() for name, value in found.items()}
    print(distance)
    assert distance["three"] < 0.02
    assert distance["wrong"] > 0.05
