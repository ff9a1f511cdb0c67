"""Structured covariances: every form of covariance against brute-force integration.

The chi-square tests are at level 1e-4 each, with fixed seeds, as in `test_enumeration`.
"""

from __future__ import annotations

import enumeration
import numpy as np
import pytest
import small
import structured

from cavity.moves.standard import StandardMoves

LEVEL = 1e-4
N_SWEEPS = 6000


def run(structure, df, gaps, moves, n_sweeps=N_SWEEPS, seed=1, **more):
    rng = np.random.default_rng(seed)
    exact = structured.exact(structure, df, gaps)
    made = structured.problem(structure, df, structured.MISSING if gaps else None, **more)
    kinds = (StandardMoves,) if moves else ()
    chain = structured.chain(made, small.partition_prior("dp"), rng, kinds)
    return enumeration.compare(exact, enumeration.visits(chain, exact, n_sweeps, rng)), chain


slow = pytest.mark.exact


@pytest.mark.variants("exact", "diag-4.0-True-True")
@pytest.mark.parametrize(
    ("structure", "df", "gaps", "moves"),
    [
        ("diag", small.DF, True, True),
        pytest.param("tied", small.DF, True, True, marks=slow),
        pytest.param("factor", small.DF, True, True, marks=slow),
        pytest.param("diag", None, False, False, marks=slow),
        pytest.param("tied", None, False, True, marks=slow),
        pytest.param("factor", None, False, True, marks=slow),
        pytest.param("diag", small.DF, False, False, marks=slow),
        pytest.param("diag", None, True, False, marks=slow),
        pytest.param("tied", None, True, False, marks=slow),
        pytest.param("tied", small.DF, False, False, marks=slow),
        pytest.param("factor", None, True, False, marks=slow),
        pytest.param("factor", small.DF, False, False, marks=slow),
    ],
)
def test_frequencies_of_partitions(structure, df, gaps, moves):
    result, chain = run(structure, df, gaps, moves)
    print(f"{structure} df={df} gaps={gaps} moves={moves}: {result}")
    assert result.n_cells > 10
    assert result.p_value > LEVEL
    if moves:
        assert sum(v for k, v in chain.events().items() if k.endswith("accepted")) > 200


WEIGHT = np.array([1.0, 2.0, 1.0, 3.0, 1.0])


def weighted(structure, df, moves, seed=4):
    """A chain over rows with weights, each of which the prior counts once."""
    prior = small.partition_prior("dp")
    made = structured.problem(structure, df, weight=WEIGHT)
    kinds = (StandardMoves,) if moves else ()
    rng = np.random.default_rng(seed)
    return structured.chain(made, prior, rng, kinds), rng


@slow
@pytest.mark.parametrize(
    ("structure", "df", "moves"),
    [
        ("tied", None, True),
        ("tied", small.DF, True),
        ("diag", None, False),
        ("diag", small.DF, True),
    ],
)
def test_whole_weights_repeat_the_likelihood_and_not_the_prior(structure, df, moves):
    exact = structured.exact_of_weighted(structure, df, WEIGHT)
    sampler, rng = weighted(structure, df, moves)
    visits = enumeration.visits(sampler, exact, N_SWEEPS, rng)
    result = enumeration.compare(exact, visits)
    print(f"{structure} df={df} weights moves={moves}: {result}")
    assert result.n_cells > 5
    assert result.p_value > LEVEL
    # Negative control: the posterior of rows without weights.
    assert enumeration.compare(structured.exact(structure, df), visits).p_value < 1e-8


@slow
@pytest.mark.parametrize("structure", ["diag", "tied", "factor"])
def test_another_structure_is_found_out(structure):
    """Negative control: the posterior of another form of covariance."""
    rng = np.random.default_rng(3)
    other = {"diag": "factor", "tied": "diag", "factor": "tied"}[structure]
    exact = structured.exact(other, None, False)
    chain = structured.chain(structured.problem(structure), small.partition_prior("dp"), rng)
    assert enumeration.compare(exact, enumeration.visits(chain, exact, 6000, rng)).p_value < 1e-8


@slow
def test_a_covariance_that_stays_is_found_out(monkeypatch):
    """Negative control: a shared covariance that is never drawn anew."""
    monkeypatch.setattr(
        "cavity.likelihoods.shared_covariance.TiedCovarianceUpdate.draw", lambda *given: None
    )
    result, _ = run("tied", None, False, False)
    assert result.p_value < 1e-8
