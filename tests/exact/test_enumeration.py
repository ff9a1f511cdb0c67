"""Every exact sampler visits every partition as often as the enumerated posterior says.

Chi-square with Rao and Scott's second-order correction for dependence, at level 1e-4 for each
test and fixed seeds: a false alarm in one of twenty in five hundred changes of the streams.
"""

from __future__ import annotations

import enumeration
import numpy as np
import pytest
import small

from cavity.mcmc.chain import PartitionSampler
from cavity.priors.partition import dirichlet_process

LEVEL = 1e-4
N_SWEEPS = 8000


def test_the_enumeration_itself():
    assert len(enumeration.partitions(6)) == 203
    for prior in small.OPEN:
        total = sum(np.exp(small.log_prior(prior)(z)) for z in enumeration.partitions(6))
        assert total == pytest.approx(1.0, abs=1e-12)
    for prior in ("fixed", "dirichlet", "shaped"):
        total = sum(np.exp(small.log_prior(prior)(z)) for z in enumeration.labellings(6, 3))
        assert total == pytest.approx(1.0, abs=1e-12)


def test_the_student_t_marginals_by_a_finer_grid_and_as_gaussian_ones():
    fine = enumeration.student_t_marginals(small.Y[:, 0], 0.0, 0.2, 3.0, 1.0, small.DF, step=0.06)
    coarse = small.marginals("student-t")
    assert max(abs(fine[mask] - coarse[mask]) for mask in fine) < 1e-10
    gaussian = small.marginals("gaussian")
    limit = enumeration.student_t_marginals(small.Y[:, 0], 0.0, 0.2, 3.0, 1.0, 1e9)
    assert max(abs(limit[mask] - gaussian[mask]) for mask in limit) < 1e-6


# Weights of all priors are ratios of their densities (tests/priors): one suffices here.
@pytest.mark.variants("exact", *(f"*-{prior}" for prior in small.PRIORS if prior != "dp"))
@pytest.mark.parametrize("prior", small.PRIORS)
@pytest.mark.parametrize("name", small.EXACT_SAMPLERS)
def test_frequencies_of_partitions(name, prior):
    rng = np.random.default_rng(sum(map(ord, name + prior)))
    exact = small.exact(small.likelihood_of(name), prior)
    visited = enumeration.visits(small.sampler(name, prior, rng), exact, N_SWEEPS, rng)
    result = enumeration.compare(exact, visited)
    print(f"{name}, {prior}: {result}")
    assert result.n_cells > 10
    assert result.p_value > LEVEL


def test_the_student_t_marginals_in_two_dimensions():
    """By scales as by parameters in one dimension, and by a finer grid in two."""
    few = small.Y[:4]
    by_scales = enumeration.student_t_marginals_by_scales(few, *small.NIW, small.DF, step=0.4)
    by_parameters = small.marginals("student-t")
    assert max(abs(by_scales[mask] - by_parameters[mask]) for mask in by_scales) < 1e-5
    # Three of the plane's, the far one among them, since a fine grid has no room for more.
    three = small.PLANE[[0, 2, 4]]
    coarse, fine = (
        enumeration.student_t_marginals_by_scales(three, *small.PLANE_NIW, small.DF, step=step)
        for step in (0.5, 0.2)
    )
    assert max(abs(coarse[mask] - fine[mask]) for mask in fine) < 5e-5


@pytest.mark.variants("exact", "*-naive", "student-t-blocked")
@pytest.mark.parametrize("name", small.EXACT_SAMPLERS)
def test_two_dimensions(name):
    rng = np.random.default_rng(3)
    exact = small.exact_in_the_plane(small.likelihood_of(name))
    chain = small.sampler(name, "dp", rng, y=small.PLANE, niw=small.PLANE_NIW)
    result = enumeration.compare(exact, enumeration.visits(chain, exact, N_SWEEPS, rng))
    print(f"{name} in two dimensions: {result}")
    assert result.n_cells > 10
    assert result.p_value > LEVEL


def test_two_dimensions_tell_the_tails():
    """Negative control: Gaussian chains fail against the Student-t posterior."""
    rng = np.random.default_rng(4)
    exact = small.exact_in_the_plane("student-t")
    chain = small.sampler("gaussian-collapsed", "dp", rng, y=small.PLANE, niw=small.PLANE_NIW)
    assert enumeration.compare(exact, enumeration.visits(chain, exact, 4000, rng)).p_value < 1e-8


def distribution_of_size(marginals, n, concentration):
    """Exact distribution of the number of clusters under a Dirichlet process, by subsets."""
    full = (1 << n) - 1
    # table[k][S]: sum over partitions of S into k clusters of the product of their weights.
    weight = {
        mask: np.exp(value) * concentration * float(np.prod(range(1, mask.bit_count())))
        for mask, value in marginals.items()
    }
    table = [{0: 1.0}]
    for _ in range(n):
        last, row = table[-1], {}
        for mask, value in last.items():
            rest = full & ~mask
            if not rest:
                continue
            lowest = rest & -rest
            others = rest & ~lowest
            subset = others
            while True:
                block = subset | lowest
                row[mask | block] = row.get(mask | block, 0.0) + value * weight[block]
                if not subset:
                    break
                subset = (subset - 1) & others
        table.append(row)
    p = np.array([row.get(full, 0.0) for row in table])
    return p / p.sum()


@pytest.mark.variants("exact", "student-t-naive", "student-t-blocked")
@pytest.mark.parametrize("name", small.EXACT_SAMPLERS)
def test_room_grows_and_the_number_of_clusters_is_right(name):
    """Ten observations that want more clusters than the eight slots of the start."""
    rng = np.random.default_rng(8)
    n, concentration = 10, 12.0
    y = np.linspace(-6.0, 6.0, n)[:, None]
    if small.likelihood_of(name) == "gaussian":
        marginals = enumeration.gaussian_marginals(y, *small.NIW)
    else:
        marginals = enumeration.student_t_marginals(
            y[:, 0], 0.0, small.NIW.kappa, small.NIW.nu, 1.0, small.DF, step=0.2
        )
    sizes = distribution_of_size(marginals, n, concentration)
    chain = PartitionSampler(
        small.collapse(name, y=y),
        dirichlet_process(small.SLOTS, concentration),
        np.zeros(n, dtype=int),
        rng,
    )
    exact = enumeration.Exact(np.arange(n + 1)[:, None], sizes, labelled=True)
    visited = np.empty(8000, dtype=int)
    for j in range(len(visited)):
        chain.sweep(rng)
        visited[j] = np.unique(chain.labels()).size
    assert chain.n_slots == 16
    assert enumeration.compare(exact, visited[50:]).p_value > LEVEL
