"""Rows with gaps: partitions and the values that fill gaps, against brute-force integration.

The chi-square tests are at level 1e-4 each, with fixed seeds, as in `test_enumeration`.
"""

from __future__ import annotations

from typing import NamedTuple

import enumeration
import numpy as np
import pytest
import small
import uneven

from cavity.interface import step
from cavity.likelihoods.missing import GapUpdate
from cavity.moves.standard import StandardMoves

pytestmark = pytest.mark.first(8)

LEVEL = 1e-4
N_SWEEPS = 8000
LOG_PRIOR = small.log_prior("dp")


def marginals(name):
    if small.likelihood_of(name) == "gaussian":
        return uneven.gaussian_tables()[0]
    return uneven.marginals_by_draws(small.DF)


@pytest.mark.exact
def test_the_two_ways_to_integrate_agree():
    by_cells = uneven.gaussian_tables()[0]
    by_draws = uneven.marginals_by_draws(None)
    assert max(abs(by_cells[mask] - by_draws[mask]) for mask in by_cells) < 0.03
    # Without gaps the grid is not needed and the closed form is known.
    whole = enumeration.gaussian_marginals(uneven.Y, *uneven.NIW)
    assert uneven.log_niw(uneven.Y, uneven.NIW) == pytest.approx(whole[31], abs=1e-12)
    # One cell: the grid against the closed form of the row without its column.
    one = enumeration.gaussian_marginals(
        uneven.Y[:1, :1],
        uneven.NIW.mean[:1],
        uneven.NIW.kappa,
        uneven.NIW.nu - 1.0,
        uneven.NIW.psi[:1, :1],
    )
    assert by_cells[1] == pytest.approx(one[1], abs=1e-5)


FAST = ("student-t-moves",)
SLOW = (
    "gaussian-naive",
    "gaussian-collapsed",
    "student-t-collapsed",
    "student-t-blocked",
    "student-t-naive",
)


@pytest.mark.parametrize(
    "name", [*FAST, *(pytest.param(name, marks=pytest.mark.exact) for name in SLOW)]
)
def test_frequencies_of_partitions_with_gaps(name):
    rng = np.random.default_rng(11)
    moves = (StandardMoves,) if name.endswith("moves") else ()
    kind = name.replace("moves", "collapsed")
    exact = uneven.exact(marginals(name), LOG_PRIOR)
    chain = uneven.chain(kind, uneven.traits(), small.partition_prior("dp"), rng, moves)
    result = enumeration.compare(exact, enumeration.visits(chain, exact, N_SWEEPS, rng))
    print(f"{name} with gaps: {result}")
    assert result.n_cells > 10
    assert result.p_value > LEVEL
    if moves:
        assert sum(v for k, v in chain.events().items() if k.endswith("accepted")) > 500


@pytest.mark.exact
def test_gaps_do_matter():
    """Negative control: the posterior of the rows as they were before cells were taken out."""
    rng = np.random.default_rng(12)
    exact = small.exact_in_the_plane("gaussian")
    chain = uneven.chain("gaussian-collapsed", uneven.traits(), small.partition_prior("dp"), rng)
    assert enumeration.compare(exact, enumeration.visits(chain, exact, 4000, rng)).p_value < 1e-8


class _Stay(NamedTuple):
    """Draws nothing."""

    nothing: int = 0


@step.register(_Stay)
def _(update, model, family, parameters, prior, z, counts, rng):
    return 0


@pytest.mark.exact
def test_gaps_that_stay_where_they_start_fail(monkeypatch):
    """Negative control: labels are right only if what fills the gaps is drawn along."""
    monkeypatch.setattr(GapUpdate, "kernel", lambda update, chain: _Stay())
    rng = np.random.default_rng(13)
    exact = uneven.exact(marginals("gaussian-naive"), LOG_PRIOR)
    chain = uneven.chain("gaussian-naive", uneven.traits(), small.partition_prior("dp"), rng)
    assert enumeration.compare(exact, enumeration.visits(chain, exact, 8000, rng)).p_value < 1e-6


@pytest.mark.exact
@pytest.mark.parametrize("name", ["gaussian-collapsed", "gaussian-naive"])
def test_values_that_fill_gaps(name):
    """Their means (of a bounded function) against those of brute force, in batches of draws.

    Three cells, five standard errors of 50 batches: a false alarm in 1e5 changes of the streams.
    """
    rng = np.random.default_rng(14)
    table, means = uneven.gaussian_tables()
    exact = uneven.exact(table, LOG_PRIOR)
    wanted = np.zeros(3)
    cells = np.argwhere(uneven.MISSING)
    for z, p in zip(exact.states, exact.probability, strict=True):
        for at, (i, _) in enumerate(cells):
            mask = sum(1 << int(j) for j in np.flatnonzero(z == z[i]))
            wanted[at] += p * means[mask, int(i)]
    chain = uneven.chain(name, uneven.traits(), small.partition_prior("dp"), rng)
    draws = np.empty((10_000, 3))
    for row in draws:
        chain.sweep(rng)
        row[:] = np.tanh(chain.model.y[uneven.MISSING])
    batches = draws.reshape(50, -1, 3).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(50)
    print(f"{name}: {batches.mean(axis=0)} for {wanted} +- {error}")
    assert (error < 0.03).all()
    assert (np.abs(batches.mean(axis=0) - wanted) < 5.0 * error + 1e-4).all()


@pytest.mark.exact
def test_a_column_without_values_changes_nothing():
    """With a prior that has no part in it: the partitions are those of the other column alone."""
    rng = np.random.default_rng(15)
    missing = np.zeros((uneven.N, 2), dtype=bool)
    missing[:, 1] = True
    one = uneven.NIW._replace(
        mean=uneven.NIW.mean[:1], nu=uneven.NIW.nu - 1.0, psi=uneven.NIW.psi[:1, :1]
    )
    exact = uneven.exact(enumeration.gaussian_marginals(uneven.Y[:, :1], *one), LOG_PRIOR)
    rows = uneven.traits(missing)
    chain = uneven.chain("gaussian-collapsed", rows, small.partition_prior("dp"), rng)
    result = enumeration.compare(exact, enumeration.visits(chain, exact, N_SWEEPS, rng))
    assert result.p_value > LEVEL


@pytest.mark.exact
def test_a_row_without_values_follows_the_prior():
    """Its label says nothing and hears nothing but how large the clusters are."""
    rng = np.random.default_rng(16)
    missing = np.zeros((uneven.N, 2), dtype=bool)
    missing[3] = True
    whole = enumeration.gaussian_marginals(uneven.Y, *uneven.NIW)
    table = {mask: whole[mask & ~8] if mask & ~8 else 0.0 for mask in whole}
    exact = uneven.exact(table, LOG_PRIOR)
    for name in ("gaussian-collapsed", "gaussian-naive"):
        rows = uneven.traits(missing)
        chain = uneven.chain(name, rows, small.partition_prior("dp"), rng)
        result = enumeration.compare(exact, enumeration.visits(chain, exact, N_SWEEPS, rng))
        assert result.p_value > LEVEL, name
