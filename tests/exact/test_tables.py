"""Parts and products of parts, with gaps, visit partitions as often as enumeration says.

Levels and statistics as in test_enumeration.py.
"""

from __future__ import annotations

from typing import NamedTuple

import enumeration
import numpy as np
import pytest
import small
import table_cases

from cavity._numba.arrays import declare
from cavity.collapse.conjugate import ConjugateCollapse
from cavity.collapse.driver import AssembledModel
from cavity.collapse.problems import GaussianProblem, TableProblem
from cavity.collapse.registry import assemble
from cavity.interface import accumulate, evidence, evidences, observe
from cavity.likelihoods.categorical import Categorical
from cavity.likelihoods.missing import RowTraits
from cavity.mcmc.chain import PartitionSampler
from cavity.moves.anchors import all_anchors
from cavity.moves.standard import StandardMoves
from cavity.priors.cluster import NIWPrior

LEVEL = 1e-4
N_SWEEPS = 6000
THREE = ("student-t", "categorical", "poisson")
# Each takes some seconds to compile; the fast suite has every part and one product of all.
EXACT = [
    (("categorical",), "collapsed", "dp", False),
    (THREE, "collapsed", "dp", True),
    *(
        pytest.param(*case, marks=pytest.mark.exact)
        for case in [
            (("categorical",), "collapsed", "dp", True),
            (("poisson",), "collapsed", "dirichlet", True),
            (("gaussian", "categorical", "poisson"), "collapsed", "dp", False),
            (("gaussian", "categorical", "poisson"), "collapsed", "dp", True),
            (THREE, "collapsed", "dp", False),
            (THREE, "naive", "dirichlet", False),
            (("gaussian", "categorical"), "ep", "dp", False),
        ]
    ),
]


def chain(names, collapse, prior, rng, moves=False, **data):
    parts = table_cases.parts(names, collapse, **data)
    made = [StandardMoves(all_anchors(small.N), 0)] if moves else []
    for move in made:
        move.pace.rate[:] = 4
    z = np.zeros(small.N, dtype=int)
    return PartitionSampler(parts, small.partition_prior(prior), z, rng, moves=made)


def case_name(value):
    return "-".join(value) if isinstance(value, tuple) else str(value)


@pytest.mark.variants("exact", "student-t-categorical-poisson-*")
@pytest.mark.parametrize(("names", "collapse", "prior", "moves"), EXACT, ids=case_name)
def test_frequencies_of_partitions(names, collapse, prior, moves):
    rng = np.random.default_rng(5)
    exact = table_cases.exact(names, prior)
    sampler = chain(names, collapse, prior, rng, moves)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, N_SWEEPS, rng))
    print(f"{names}, {collapse}, {prior}: {result}")
    assert result.n_cells > 10
    assert result.p_value > LEVEL


@pytest.mark.exact
@pytest.mark.parametrize(
    "names",
    [
        ("negative-binomial",),
        pytest.param(("student-t", "categorical", "negative-binomial"), marks=pytest.mark.exact),
    ],
    ids=case_name,
)
def test_overdispersed_counts_by_ep_are_close(names):
    """Total variation below 0.04 beyond the noise of the draws; 0.012 at most was measured."""
    rng = np.random.default_rng(6)
    exact = table_cases.exact(names, "dp")
    sampler = chain(names, "ep", "dp", rng)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 8000, rng))
    print(f"{names}: {result}")
    assert result.total_variation < 0.04 + result.noise


@pytest.mark.exact
def test_poisson_chains_fail_against_overdispersed_counts():
    """Negative control: the comparison tells the two kinds of counts apart."""
    rng = np.random.default_rng(7)
    exact = table_cases.exact(("negative-binomial",), "dp")
    sampler = chain(("poisson",), "collapsed", "dp", rng)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 4000, rng))
    assert result.total_variation > 0.1 + result.noise


@pytest.mark.exact
def test_a_product_without_one_of_its_parts_fails():
    rng = np.random.default_rng(8)
    exact = table_cases.exact(("gaussian", "categorical", "poisson"), "dp")
    sampler = chain(("gaussian", "categorical"), "collapsed", "dp", rng)
    result = enumeration.compare(exact, enumeration.visits(sampler, exact, 4000, rng))
    assert result.p_value < 1e-8


class GapsAsCategories(NamedTuple):
    """Categories whose gaps count as members of the first category."""

    cell: np.ndarray


declare(GapsAsCategories, slots={}, constant=("cell",))
for _verb in (evidence, evidences, observe, accumulate):
    _verb.register(GapsAsCategories)(_verb.verb.implementations[Categorical])


def test_gaps_that_count_fail():
    rng = np.random.default_rng(9)
    driver = table_cases.parts(("categorical",), "collapsed").collapse
    cell = np.where(driver.model.cell < 0, [0, 2], driver.model.cell)
    wrong = ConjugateCollapse(GapsAsCategories(cell), driver.family, driver.parameters)
    z = np.zeros(small.N, dtype=int)
    sampler = PartitionSampler(
        AssembledModel(wrong), small.partition_prior("dp"), z, rng, marginal=True
    )
    exact = table_cases.exact(("categorical",), "dp")
    assert enumeration.compare(exact, enumeration.visits(sampler, exact, 4000, rng)).p_value < 1e-8


# --------------------------------------------------------------------------- invariance


def log_evidence(names, z, **data):
    parts = table_cases.parts(names, "collapsed", **data)
    z = np.asarray(z, dtype=np.int32)
    counts = np.bincount(z, minlength=small.SLOTS).astype(float)
    rng = np.random.default_rng(0)
    parts.collapse.start(z, counts, rng)
    return parts.collapse.log_evidence(z, counts)


NAMES = THREE
PARTITION = [0, 1, 0, 1, 2, 2]


def test_the_evidence_of_a_partition():
    got = log_evidence(NAMES, PARTITION)
    exact = sum(
        table_cases.marginals(name)[sum(1 << i for i in range(small.N) if PARTITION[i] == k)]
        for name in ("categorical",)
        for k in range(3)
    )
    # Without any category: gaps add nothing.
    rest = log_evidence(NAMES, PARTITION, codes=np.full_like(table_cases.CODES, -1))
    assert got - rest == pytest.approx(exact, abs=1e-10)


def test_permuting_rows_of_counts_and_categories_changes_nothing(monkeypatch):
    swapped = table_cases.CODES.copy()
    first = swapped[:, 0]
    swapped[:, 0] = np.where(first < 0, first, 1 - first)
    before = log_evidence(NAMES, PARTITION)
    monkeypatch.setattr(table_cases, "CONCENTRATION", table_cases.CONCENTRATION[[1, 0, 2, 3, 4]])
    assert log_evidence(NAMES, PARTITION, codes=swapped) == pytest.approx(before, abs=1e-10)
    monkeypatch.setattr(table_cases, "CONCENTRATION", np.array([0.4, 0.7, 1.5, 0.6, 1.1]))
    monkeypatch.setattr(table_cases, "LEVELS", (3, 2))
    turned = table_cases.CODES[:, ::-1].copy()
    assert log_evidence(NAMES, PARTITION, codes=turned) == pytest.approx(before, abs=1e-10)


def test_permuting_measurements_changes_nothing():
    y = np.random.default_rng(2).standard_normal((small.N, 3))
    root = np.random.default_rng(3).standard_normal((3, 3))
    niw = NIWPrior(np.array([0.3, -0.2, 0.1]), 0.4, 6.0, root @ root.T + np.eye(3))
    missing = np.zeros(y.shape, dtype=bool)
    missing[[0, 4], [1, 2]] = True

    def of(order, of_prior):
        psi = niw.psi[np.ix_(of_prior, of_prior)]
        turned = NIWPrior(niw.mean[of_prior], niw.kappa, niw.nu, psi)
        rows = RowTraits(missing[:, order], np.ones(small.N))
        part = GaussianProblem(np.ascontiguousarray(y[:, order]), turned, rows=rows)
        driver = assemble(TableProblem((part,)), "collapsed", small.SLOTS).collapse
        z = np.asarray(PARTITION, dtype=np.int32)
        counts = np.bincount(z, minlength=small.SLOTS).astype(float)
        driver.start(z, counts, np.random.default_rng(0))
        return driver.log_evidence(z, counts)

    plain, other = [0, 1, 2], [2, 0, 1]
    assert of(other, other) == pytest.approx(of(plain, plain), abs=1e-10)
    assert of(other, plain) != pytest.approx(of(plain, plain), abs=1e-3)


def test_a_column_without_any_value_changes_nothing(monkeypatch):
    before = log_evidence(NAMES, PARTITION)
    gaps = np.full((small.N, 1), np.nan)
    shape, rate = table_cases.GAMMA
    monkeypatch.setattr(table_cases, "GAMMA", (np.append(shape, 1.0), np.append(rate, 1.0)))
    counts = np.hstack([table_cases.COUNTS, gaps])
    assert log_evidence(NAMES, PARTITION, counts=counts) == pytest.approx(before, abs=1e-10)
    monkeypatch.setattr(table_cases, "CONCENTRATION", np.append(table_cases.CONCENTRATION, [1, 1]))
    monkeypatch.setattr(table_cases, "LEVELS", (2, 3, 2))
    codes = np.hstack([table_cases.CODES, np.full((small.N, 1), -1)])
    both = log_evidence(NAMES, PARTITION, counts=counts, codes=codes)
    assert both == pytest.approx(before, abs=1e-10)


# --------------------------------------------------------------------------- room and survival


def test_chains_share_what_they_do_not_change():
    rows = {"student-t": RowTraits(np.zeros((small.N, 1), dtype=bool), np.arange(1.0, 7.0))}
    problem = table_cases.problem(THREE, rows=rows)
    one, two = (assemble(problem, "collapsed", small.SLOTS).collapse.model for _ in range(2))
    assert np.shares_memory(one.first.y, two.first.y)
    assert np.shares_memory(one.first.kind, two.first.kind)
    assert np.shares_memory(one.first.weight, two.first.weight)
    assert np.shares_memory(one.rest.first.cell, two.rest.first.cell)
    assert np.shares_memory(one.rest.rest.y, two.rest.rest.y)
    # Scales are drawn, and so are values that fill gaps.
    assert not np.shares_memory(one.first.scale, two.first.scale)
    gappy = GaussianProblem(small.Y, small.NIW, rows=RowTraits(small.Y > 2.0, np.ones(small.N)))
    one, two = (assemble(gappy, "collapsed", small.SLOTS).collapse.model for _ in range(2))
    assert not np.shares_memory(one.y, two.y)
    assert np.shares_memory(one.gaps, two.gaps)


@pytest.mark.slow
def test_room_grows_and_a_state_goes_on_where_it_was():
    rng = np.random.default_rng(3)
    sampler = chain(("student-t", "categorical", "poisson"), "collapsed", "dp", rng, learn=True)
    sampler.collapse.grow(16, rng)
    family = sampler.collapse.family
    assert family.natural.shape[0] == 16
    # The parts' natural parameters are columns of the whole's, still.
    assert np.shares_memory(family.first.natural, family.natural)
    assert np.shares_memory(family.rest.rest.prior, family.prior)
    rng = np.random.default_rng(4)
    one = chain(("student-t", "categorical", "poisson"), "collapsed", "dp", rng, learn=True)
    for _ in range(5):
        one.sweep(rng)
    saved, seed = one.state(), rng.bit_generator.state
    for _ in range(5):
        one.sweep(rng)
    other = chain(("student-t", "categorical", "poisson"), "collapsed", "dp", rng, learn=True)
    other.restore(saved)
    rng.bit_generator.state = seed
    for _ in range(5):
        other.sweep(rng)
    for name, value in one.state().items():
        np.testing.assert_array_equal(value, other.state()[name], err_msg=name)
