"""Where EP must be exact, and how far it is from exact elsewhere."""

from __future__ import annotations

import enumeration
import numpy as np
import pytest
import small
from builders import scale_mixture_collapse

from cavity._numba.jit import compiled
from cavity.interface import evidences
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.standard import WholeClusterMoves

LEVEL = 1e-4


def scores_of(model, q, i, out):
    evidences(model, q, i, out)


def scored(state, i):
    out = np.empty(state.scores.size)
    compiled(scores_of, state)(state.model, state.family, i, out)
    return out


def started(name, z, **options):
    counts = np.bincount(z, minlength=small.SLOTS).astype(float)
    collapse = small.collapse(name, **options).collapse
    collapse.start(np.asarray(z, dtype=np.int32), counts, np.random.default_rng(0))
    return collapse


@pytest.mark.parametrize("z", [[0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]])
def test_many_degrees_of_freedom_make_ep_the_gaussian_collapse(z):
    """Natural parameters and scores agree to the order of one over df."""
    gaussian = started("gaussian-collapsed", z)
    ep = started("student-t-ep", z, df=1e8)
    np.testing.assert_allclose(
        ep.state.family.natural, gaussian.state.family.natural, rtol=1e-5, atol=1e-5
    )
    for i in range(small.N):
        np.testing.assert_allclose(scored(ep.state, i), scored(gaussian.state, i), atol=1e-5)


def test_the_chain_at_many_degrees_of_freedom_follows_the_gaussian_posterior():
    rng = np.random.default_rng(2)
    exact = small.exact("gaussian", "dp")
    chain = small.sampler("student-t-ep", "dp", rng, df=1e4)
    assert enumeration.compare(exact, enumeration.visits(chain, exact, 4000, rng)).p_value > LEVEL


SCALE_Y = np.array([-1.9, -1.2, -0.9, 0.4, 1.0, 4.0])


def scale_mixture(r, inflation, rng, kind="ep", **options):
    """A chain over the contaminated Gaussian's partitions, and the exact posterior."""
    collapse = scale_mixture_collapse(
        SCALE_Y,
        (0.0, 4.0),
        small.SLOTS,
        kind,
        variance=0.5,
        contamination=r,
        inflation=inflation,
        options=options,
    )
    exact = enumeration.posterior(
        enumeration.partitions(small.N),
        enumeration.scale_mixture_marginals(SCALE_Y, 0.0, 4.0, 0.5, r, inflation),
        small.log_prior("dp"),
        labelled=False,
    )
    prior = small.partition_prior("dp")
    return PartitionSampler(collapse, prior, np.zeros(small.N, dtype=int), rng), exact


@pytest.mark.exact
def test_the_scale_mixture_without_contamination_is_exact():
    rng = np.random.default_rng(3)
    chain, exact = scale_mixture(0.0, 10.0, rng)
    visited = enumeration.visits(chain, exact, 8000, rng)
    assert enumeration.compare(exact, visited).p_value > LEVEL


@pytest.mark.variants("exact", "0.2-5.0")
@pytest.mark.parametrize(("r", "inflation"), [(0.2, 5.0), (0.5, 10.0)])
def test_the_naive_scale_mixture_follows_the_exact_posterior(r, inflation):
    rng = np.random.default_rng(6)
    chain, exact = scale_mixture(r, inflation, rng, "naive")
    result = enumeration.compare(exact, enumeration.visits(chain, exact, 10_000, rng))
    print(f"naive scale mixture r={r}, C={inflation}: {result}")
    assert result.p_value > LEVEL


def distance(exact, make, n_sweeps=25_000):
    """``enumeration.distance`` of a sampler from exact, by two chains."""
    chains = []
    for seed in (5, 6):
        rng = np.random.default_rng(seed)
        chains.append(enumeration.visits(make(rng), exact, n_sweeps, rng))
    return enumeration.distance(exact, *chains)


@pytest.mark.exact
@pytest.mark.parametrize(("r", "inflation", "bound"), [(0.2, 5.0, 0.06), (0.5, 10.0, 0.06)])
def test_distance_of_the_scale_mixture_from_exact(r, inflation, bound, record_property):
    exact = scale_mixture(r, inflation, np.random.default_rng(4))[1]
    found = distance(exact, lambda rng: scale_mixture(r, inflation, rng, staleness_every=0)[0])
    record_property("distance", found)
    print(f"scale mixture r={r}, C={inflation}: {found:.4f}")
    assert found < bound


PLANE = {"y": small.PLANE, "niw": small.PLANE_NIW}


@pytest.mark.exact
@pytest.mark.parametrize(
    ("prior", "options", "bound"),
    [
        ("dp", {}, 0.05),
        pytest.param("dirichlet", {}, 0.06, marks=pytest.mark.exact),
        pytest.param("dp", {"refresh_every": 4}, 0.05, marks=pytest.mark.exact),
        pytest.param("dp", {"pass_every": 1, "max_passes": 5}, 0.05, marks=pytest.mark.exact),
        pytest.param("dp", {"fraction": 0.5}, 0.09, marks=pytest.mark.exact),
        pytest.param("dp", {"damping": 0.8}, 0.11, marks=pytest.mark.exact),
        pytest.param("dp", {"moves": [WholeClusterMoves]}, 0.065, marks=pytest.mark.exact),
        pytest.param("dirichlet", {"moves": [WholeClusterMoves]}, 0.065, marks=pytest.mark.exact),
        ("dp", PLANE, 0.03),
        pytest.param("dp", {**PLANE, "moves": [WholeClusterMoves]}, 0.03, marks=pytest.mark.exact),
    ],
    ids=[
        "dp",
        "dirichlet",
        "every-fourth",
        "full-passes",
        "power",
        "damped",
        "moves",
        "moves-dirichlet",
        "plane",
        "moves-plane",
    ],
)
def test_distance_of_student_t_ep_from_exact(prior, options, bound, record_property):
    """EP is no exact sampler: its bounds are measurements with room.

    With 40,000 sweeps a chain they were, in this order, .036, .046, .035, .035, .074, .087, .050,
    .050, .019, .014, and differed by .004 between halves of the runs; an exact sampler had .008
    and .006. Moves are tried twelve times a sweep here, which no fit does.
    """
    plane = "y" in options
    exact = small.exact_in_the_plane("student-t") if plane else small.exact("student-t", prior)
    found = distance(
        exact,
        lambda rng: small.sampler("student-t-ep", prior, rng, staleness_every=0, **options),
    )
    record_property("distance", found)
    print(f"Student-t EP, {prior}, {options.keys()}: {found:.4f}")
    assert found < bound


@pytest.mark.variants("exact", "plane")
@pytest.mark.parametrize("plane", [False, True], ids=["line", "plane"])
def test_an_exact_sampler_is_at_no_distance(plane):
    """What the distances above would be by noise alone."""
    exact = small.exact_in_the_plane("student-t") if plane else small.exact("student-t", "dp")
    options = PLANE if plane else {}
    found = distance(exact, lambda rng: small.sampler("student-t-collapsed", "dp", rng, **options))
    print(f"exact sampler: {found:.4f}")
    assert found < 0.02


@pytest.mark.parametrize("z", [[0, 0, 0, 1, 1, 2], [0, 0, 0, 0, 0, 0], [0, 1, 2, 3, 4, 5]])
def test_log_joint_against_the_enumerated_one(z):
    """Exact for the Gaussian collapse; close for EP, and exact in the Gaussian limit."""
    z = np.array(z)

    def enumerated(likelihood):
        masks = [sum(1 << int(i) for i in np.flatnonzero(z == k)) for k in np.unique(z)]
        marginals = small.marginals(likelihood)
        return small.log_prior("dp")(z) + sum(marginals[mask] for mask in masks)

    def log_joint(name, **options):
        prior = small.partition_prior("dp")
        collapse = small.collapse(name, **options)
        chain = PartitionSampler(collapse, prior, z, np.random.default_rng(0), marginal=True)
        # The factor (2 pi)^(-d/2) of each observation is not the family's.
        base = -0.5 * z.size * np.log(2.0 * np.pi) if name.startswith("gaussian") else 0.0
        return chain.log_joint() + base

    assert log_joint("gaussian-collapsed") == pytest.approx(enumerated("gaussian"), abs=1e-9)
    assert log_joint("student-t-ep", df=1e8) == pytest.approx(enumerated("gaussian"), abs=1e-5)
    error = log_joint("student-t-ep") - enumerated("student-t")
    print(f"EP's log evidence of {z.tolist()} errs by {error:.3f}")
    assert abs(error) < (1e-6 if len(np.unique(z)) == len(z) else 0.3)
