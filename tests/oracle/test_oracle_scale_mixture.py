"""The contaminated Gaussian against quadrature over its mean."""

from __future__ import annotations

import numpy as np
import pytest
from entries import _evidence, _project, call
from scipy import special, stats

from cavity.conjugate.diagonal_normal import diagonal_normal
from cavity.likelihoods.scale_mixture import ScaleMixture

CASES = [
    (mean, variance, y, r, inflation)
    for mean, variance in [(0.0, 1.0), (2.0, 25.0), (-1.0, 1e-2)]
    for y in (-8.0, 0.1, 3.0, 40.0)
    for r, inflation in [(0.0, 5.0), (0.2, 2.0), (0.5, 10.0), (0.9, 100.0)]
]
NOISE = 0.7


def tilted(mean, variance, y, r, inflation, fraction):
    """Log integral, mean and variance of N(phi; mean, variance) p(y | phi)^fraction."""
    spread = np.sqrt(variance)
    wide = max(12.0 * spread, abs(y - mean) + 12.0 * np.sqrt(NOISE))
    phi = np.linspace(mean - wide, mean + wide, 60_001)
    with np.errstate(divide="ignore"):
        log_f = np.logaddexp(
            np.log1p(-r) + stats.norm.logpdf(y, phi, np.sqrt(NOISE)),
            np.log(r) + stats.norm.logpdf(y, phi, np.sqrt(inflation * NOISE)),
        )
    log_w = stats.norm.logpdf(phi, mean, spread) + fraction * log_f + np.log(phi[1] - phi[0])
    total = special.logsumexp(log_w)
    w = np.exp(log_w - total)
    centre = w @ phi
    return total, centre, w @ (phi - centre) ** 2


@pytest.mark.parametrize("fraction", [1.0, 0.5])
def test_evidence_and_projection(fraction):
    for mean, variance, y, r, inflation in CASES:
        model = ScaleMixture(np.array([y]), NOISE, r, inflation)
        q = diagonal_normal([mean], [variance], n_slots=1)
        total, centre, spread = tilted(mean, variance, y, r, inflation, fraction)
        if fraction == 1.0:
            assert call(_evidence, model, q, 0, 0) == pytest.approx(total, rel=1e-9, abs=1e-9)
        call(_project, model, q, 0, 0, fraction)
        assert q.mean[0, 0] == pytest.approx(centre, rel=1e-9, abs=1e-9 * np.sqrt(spread))
        assert q.variance[0, 0] == pytest.approx(spread, rel=1e-9)
        np.testing.assert_allclose(
            q.natural[0], [1.0 / spread, centre / spread], rtol=1e-8, atol=1e-8
        )
