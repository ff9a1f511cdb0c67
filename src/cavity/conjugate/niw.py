"""The normal-inverse-Wishart family: mean and covariance of a multivariate normal cluster.

A slot holds NIW(mean, kappa, nu, Psi): mean ~ N(m, Sigma / kappa), Sigma ~ IW(nu, Psi).
Natural parameters, packed in a row: kappa, nu, kappa m, lower triangle of Psi + kappa m m'.
Working parameters keep the inverse Cholesky factor W of Psi (Psi^-1 = W'W) laid out with the
slots last, so that quadratic forms for eight clusters run side by side in vector lanes; models
that do so ask for a multiple of eight slots.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from cavity._numba.arrays import declare
from cavity._numba.jit import jit
from cavity._numba.numerics import digamma
from cavity._numba.slots import take, zero
from cavity.interface import divergence, draw, hold, load, log_partition, prior_density, put_back


class NormalInverseWishart(NamedTuple):
    """One normal-inverse-Wishart distribution per slot."""

    prior: np.ndarray  # (P,)
    natural: np.ndarray  # (slots, P)
    kappa: np.ndarray  # (slots,)
    nu: np.ndarray  # (slots,)
    mean: np.ndarray  # (d, slots)
    whiten: np.ndarray  # (d, d, slots), lower triangular, Psi^-1 = W'W
    half_log_det: np.ndarray  # (slots,), half the log determinant of Psi
    log_ratio: np.ndarray  # (slots,), lnGamma((nu+1)/2) - lnGamma((nu-d+1)/2)
    work: np.ndarray  # (2 + d, d)
    memo: np.ndarray  # (2, slots), the nu that a slot had before, and its log_ratio


declare(
    NormalInverseWishart,
    slots={
        "natural": 0,
        "kappa": 0,
        "nu": 0,
        "mean": 1,
        "whiten": 2,
        "half_log_det": 0,
        "log_ratio": 0,
        "memo": 1,
    },
    constant=("memo",),
)


class GaussianParameters(NamedTuple):
    """One mean and covariance per slot, as drawn by the samplers that condition on them."""

    mean: np.ndarray  # (d, slots)
    whiten: np.ndarray  # (d, d, slots), lower triangular, Sigma^-1 = B'B
    half_log_det: np.ndarray  # (slots,), half the log determinant of Sigma


declare(GaussianParameters, slots={"mean": 1, "whiten": 2, "half_log_det": 0})


@functools.cache
def _places(dim: int) -> tuple[np.ndarray, np.ndarray]:
    """Return indices of a triangle in a flat square matrix, and of the square in a triangle."""
    rows, columns = np.tril_indices(dim)
    square = np.zeros((dim, dim), dtype=np.int64)
    square[rows, columns] = square[columns, rows] = np.arange(rows.size)
    return rows * dim + columns, square


def pack(mean: np.ndarray, kappa: float, nu: float, psi: np.ndarray) -> np.ndarray:
    """Pack the natural parameters of NIW(mean, kappa, nu, psi)."""
    mean = np.asarray(mean, dtype=float)
    d = mean.size
    second = np.asarray(psi, dtype=float) + kappa * (mean[:, None] * mean)
    natural = np.empty(2 + d + d * (d + 1) // 2)
    natural[0] = kappa
    natural[1] = nu
    natural[2 : 2 + d] = kappa * mean
    natural[2 + d :] = second.ravel()[_places(d)[0]]
    return natural


def unpack(natural: np.ndarray, dim: int) -> tuple[np.ndarray, float, float, np.ndarray]:
    """Return (mean, kappa, nu, psi) of packed natural parameters."""
    kappa, nu = float(natural[0]), float(natural[1])
    mean = natural[2 : 2 + dim] / kappa
    second = natural[2 + dim :][_places(dim)[1]]
    return mean, kappa, nu, second - kappa * (mean[:, None] * mean)


def normal_inverse_wishart(
    mean: np.ndarray, kappa: float, nu: float, psi: np.ndarray, n_slots: int
) -> NormalInverseWishart:
    """Return a family with every slot at the prior NIW(mean, kappa, nu, psi)."""
    mean = np.asarray(mean, dtype=float)
    d = mean.size
    prior = pack(mean, kappa, nu, psi)
    root = np.linalg.cholesky(np.asarray(psi, dtype=float))
    whiten = np.tril(np.linalg.solve(root, np.eye(d)))
    log_ratio = math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * (nu - d + 1.0))
    return NormalInverseWishart(
        prior=prior,
        natural=np.tile(prior, (n_slots, 1)),
        kappa=np.full(n_slots, float(kappa)),
        nu=np.full(n_slots, float(nu)),
        mean=np.tile(mean[:, None], (1, n_slots)),
        whiten=np.tile(whiten[:, :, None], (1, 1, n_slots)),
        half_log_det=np.full(n_slots, np.log(np.diag(root)).sum()),
        log_ratio=np.full(n_slots, log_ratio),
        work=np.zeros((2 + d, d)),
        memo=np.full((2, n_slots), np.nan),
    )


def gaussian_parameters(dim: int, n_slots: int) -> GaussianParameters:
    """Storage for one mean and covariance per slot, at the standard normal."""
    whiten = np.zeros((dim, dim, n_slots))
    for j in range(dim):
        whiten[j, j] = 1.0
    return GaussianParameters(np.zeros((dim, n_slots)), whiten, np.zeros(n_slots))


@jit(forceinline=True, internal=True)
def log_gamma_ratio(x, d):
    """Return ``lnGamma(x) - lnGamma(x - d/2)`` for x > d/2, mostly with a single logarithm.

    Whole steps of the argument are factors of a product; an odd d leaves one half step, done
    by the asymptotic series of lnGamma(y + 1/2) - lnGamma(y) after shifting y upwards.
    """
    product = 1.0
    total = 0.0
    y = x
    for _ in range(d // 2):
        y -= 1.0
        product *= y
        if product > 1e200:
            total += math.log(product)
            product = 1.0
    if d % 2 == 1:
        y -= 0.5
        while y < 12.0:
            product *= y / (y + 0.5)
            y += 1.0
        w = 1.0 / (y * y)
        # lnGamma(y + 1/2) - lnGamma(y) at the shifted y; the product undoes the shift.
        product *= math.sqrt(y)
        series = w * (1.0 / 192.0 - w * (1.0 / 640.0 - w * (17.0 / 14336.0 - w * 31.0 / 18432.0)))
        total -= (0.125 - series) / y
    return total + math.log(product)


@load.register(NormalInverseWishart)
def _(q, k):
    return load_niw(
        q.natural, q.kappa, q.nu, q.mean, q.whiten, q.half_log_det, q.log_ratio, q.work, k
    )


@jit(forceinline=True, internal=True)
def load_niw(natural, kappa_of, nu_of, mean, whiten, half_log_det, log_ratio, work, k):
    """Compute working parameters of slot k; return False, without changes, if improper."""
    d = mean.shape[0]
    kappa = natural[k, 0]
    nu = natural[k, 1]
    if not (kappa > 0.0 and nu > d - 1.0):
        return False
    inverse_kappa = 1.0 / kappa
    # Cholesky factor of Psi = second moment - kappa m m', row by row.
    log_det = 1.0
    log_sum = 0.0
    position = 2 + d
    for r in range(d):
        b_r = natural[k, 2 + r]
        for c in range(r):
            s = natural[k, position] - b_r * natural[k, 2 + c] * inverse_kappa
            position += 1
            for j in range(c):
                s -= work[r, j] * work[c, j]
            work[r, c] = s * work[d, c]
        s = natural[k, position] - b_r * b_r * inverse_kappa
        position += 1
        for j in range(r):
            s -= work[r, j] * work[r, j]
        if not s > 0.0:
            return False
        root = math.sqrt(s)
        work[r, r] = root
        work[d, r] = 1.0 / root
        log_det *= root
        if log_det > 1e100 or log_det < 1e-100:
            log_sum += math.log(log_det)
            log_det = 1.0
    log_sum += math.log(log_det)
    if log_sum - log_sum != 0.0:  # infinite or NaN
        return False
    kappa_of[k] = kappa
    nu_of[k] = nu
    half_log_det[k] = log_sum
    log_ratio[k] = log_gamma_ratio(0.5 * (nu + 1.0), d)
    for r in range(d):
        mean[r, k] = natural[k, 2 + r] * inverse_kappa
        # Row r of the inverse factor by forward substitution.
        inverse_root = work[d, r]
        for c in range(r):
            s = 0.0
            for j in range(c, r):
                s -= work[r, j] * whiten[j, c, k]
            whiten[r, c, k] = s * inverse_root
        whiten[r, r, k] = inverse_root
    return True


@hold.register(NormalInverseWishart)
def _(q, k, room):
    # Mean, whitener and two constants are as many numbers as the natural parameters.
    d = q.mean.shape[0]
    for p in range(room.shape[1]):
        room[0, p] = q.natural[k, p]
    room[1, 0] = q.half_log_det[k]
    room[1, 1] = q.log_ratio[k]
    position = 2 + d
    for r in range(d):
        room[1, 2 + r] = q.mean[r, k]
        for c in range(r + 1):
            room[1, position] = q.whiten[r, c, k]
            position += 1


@put_back.register(NormalInverseWishart)
def _(q, k, room):
    d = q.mean.shape[0]
    for p in range(room.shape[1]):
        q.natural[k, p] = room[0, p]
    q.kappa[k] = room[0, 0]
    q.nu[k] = room[0, 1]
    q.half_log_det[k] = room[1, 0]
    q.log_ratio[k] = room[1, 1]
    position = 2 + d
    for r in range(d):
        q.mean[r, k] = room[1, 2 + r]
        for c in range(r + 1):
            q.whiten[r, c, k] = room[1, position]
            position += 1


@jit(forceinline=True, internal=True)
def rank_one(q, k, kappa, nu, shift, scale, weight, y):
    """Move slot k to NIW(m + shift e, kappa, nu, scale (Psi + weight e e')), e = y - m.

    Costs d^2. False, and nothing changed, if the result is not positive definite.
    """
    d = q.mean.shape[0]
    grown = _whitened(q, k, weight, y)
    if not (grown > 0.0 and kappa > 0.0 and nu > d - 1.0 and scale > 0.0):
        return False
    e = q.work[d]
    old_kappa = q.kappa[k]
    natural = q.natural[k]
    position = 2 + d
    for r in range(d):
        m_r = q.mean[r, k]
        new_r = m_r + shift * e[r]
        natural[2 + r] = kappa * new_r
        for c in range(r + 1):
            m_c = q.mean[c, k]
            psi = natural[position] - old_kappa * m_r * m_c
            natural[position] = scale * (psi + weight * e[r] * e[c]) + kappa * new_r * (
                m_c + shift * e[c]
            )
            position += 1
    natural[0] = kappa
    natural[1] = nu
    _move_working(q, k, kappa, nu, shift, scale, weight, grown)
    return True


@jit(forceinline=True, internal=True)
def add_row(q, k, w, count, y):
    """Add a row of scale w that counts as `count` to slot k, or remove it if both are negative.

    As ``rank_one``, with natural parameters by the row's statistics.
    """
    d = q.mean.shape[0]
    kappa = q.kappa[k] + w
    nu = q.nu[k] + count
    weight = w * q.kappa[k] / kappa
    grown = _whitened(q, k, weight, y)
    if not (grown > 0.0 and kappa > 0.0 and nu > d - 1.0):
        return False
    add_statistics(q.natural[k], w, count, y)
    _move_working(q, k, kappa, nu, w / kappa, 1.0, weight, grown)
    return True


@jit(forceinline=True, internal=True)
def add_statistics(natural, w, count, y):
    """Add the sufficient statistics of a row of scale w that counts as `count`."""
    d = y.shape[0]
    natural[0] += w
    natural[1] += count
    position = 2 + d
    for r in range(d):
        weighted = w * y[r]
        natural[2 + r] += weighted
        for c in range(r + 1):
            natural[position + c] += weighted * y[c]
        position += r + 1


@jit(forceinline=True, internal=True)
def _whitened(q, k, weight, y):
    """Write e = y - m and p = W e of slot k to working memory; return 1 + weight p'p."""
    d = q.mean.shape[0]
    e = q.work[d]
    p = q.work[d + 1]
    total = 1.0
    for r in range(d):
        e[r] = y[r] - q.mean[r, k]
    for r in range(d):
        s = 0.0
        for c in range(r + 1):
            s += q.whiten[r, c, k] * e[c]
        p[r] = s
        total += weight * s * s
    return total


@jit(forceinline=True, internal=True)
def _move_working(q, k, kappa, nu, shift, scale, weight, grown):
    """Update working parameters for ``rank_one``, given e and p in working memory.

    The Cholesky factor of I + weight p p' has the closed form behind the loop below; `grown` is
    its determinant.
    """
    d = q.mean.shape[0]
    e = q.work[d]
    p = q.work[d + 1]
    # Rows of the inverse factor; work rows 0..d-1 are free here, row 0 holds the running sum.
    running = q.work[0]
    for c in range(d):
        running[c] = 0.0
    inverse_root_scale = 1.0 / math.sqrt(scale)
    t = 1.0
    for r in range(d):
        t_next = t + weight * p[r] * p[r]
        factor = math.sqrt(t / t_next) * inverse_root_scale
        pull = weight * p[r] / t
        for c in range(r + 1):
            w = q.whiten[r, c, k]
            q.whiten[r, c, k] = factor * (w - pull * running[c])
            running[c] += p[r] * w
        t = t_next
    for r in range(d):
        q.mean[r, k] += shift * e[r]
    # A row that leaves and comes back leaves nu where it was: its two values take turns.
    before, ratio = q.nu[k], q.log_ratio[k]
    if q.memo[0, k] == nu:
        q.log_ratio[k] = q.memo[1, k]
    else:
        q.log_ratio[k] = log_gamma_ratio(0.5 * (nu + 1.0), d)
    q.memo[0, k] = before
    q.memo[1, k] = ratio
    q.kappa[k] = kappa
    q.nu[k] = nu
    # |Psi| changes by scale^d times that; the product of factors near one needs one logarithm.
    growth = grown
    for _ in range(d):
        growth *= scale
    q.half_log_det[k] += 0.5 * math.log(growth)


@jit(forceinline=True, internal=True)
def mahalanobis(q, k, y):
    """Return the squared length of the whitened residual of y in slot k, or in eight slots."""
    total = zero(k)
    for r in range(q.mean.shape[0]):
        row = q.whiten[r]
        s = zero(k)
        for c in range(r + 1):
            s = s + take(k, row[c]) * (y[c] - take(k, q.mean[c]))
        total = total + s * s
    return total


@jit(internal=True)
def log_multigamma(x, d):
    """Logarithm of the multivariate gamma function of dimension d at x."""
    total = 0.25 * d * (d - 1) * math.log(math.pi)
    for j in range(d):
        total += math.lgamma(x - 0.5 * j)
    return total


@log_partition.register(NormalInverseWishart)
def _(q, k):
    d = q.mean.shape[0]
    nu = q.nu[k]
    return (
        log_multigamma(0.5 * nu, d)
        + 0.5 * nu * d * math.log(2.0)
        - nu * q.half_log_det[k]
        + 0.5 * d * math.log(2.0 * math.pi / q.kappa[k])
    )


@jit
def covariances(whiten, counts, out):
    """Sigma of every occupied slot from its whitener B, Sigma^-1 = B'B; NaN where it is empty.

    `out` has the slots first.
    """
    d = whiten.shape[0]
    for k in range(out.shape[0]):
        if counts[k] == 0:
            out[k] = math.nan
            continue
        # The inverse R of B goes below the diagonal, R R' above it and then to both sides. A row
        # of R is done with once the columns of the rows below it are there.
        for r in range(d):
            out[k, r, r] = 1.0 / whiten[r, r, k]
            for c in range(r):
                s = 0.0
                for j in range(c, r):
                    s -= whiten[r, j, k] * out[k, j, c]
                out[k, r, c] = s * out[k, r, r]
        for r in range(d - 1, -1, -1):
            for c in range(r + 1):
                s = 0.0
                for j in range(c + 1):
                    s += out[k, r, j] * out[k, c, j]
                out[k, c, r] = s
        for r in range(d):
            for c in range(r):
                out[k, r, c] = out[k, c, r]


@prior_density.register(NormalInverseWishart)
def _(q, parameters, k):
    # With P = B'B the precision and S = Psi + kappa m m' of the prior:
    # -tr(S P)/2 + (kappa m)' P mu - kappa mu' P mu / 2 - (nu + d + 2) log|Sigma| / 2.
    d = q.mean.shape[0]
    kappa = q.prior[0]
    total = -(q.prior[1] + d + 2.0) * parameters.half_log_det[k]
    for r in range(d):
        own = 0.0
        prior = 0.0
        for c in range(r + 1):
            own += parameters.whiten[r, c, k] * parameters.mean[c, k]
            prior += parameters.whiten[r, c, k] * q.prior[2 + c]
        total += prior * own - 0.5 * kappa * own * own
        # The quadratic form of S in row r of B.
        position = 2 + d
        form = 0.0
        for i in range(r + 1):
            row = parameters.whiten[r, i, k]
            for j in range(i):
                form += 2.0 * row * parameters.whiten[r, j, k] * q.prior[position + j]
            form += row * row * q.prior[position + i]
            position += i + 1
        total -= 0.5 * form
    return total


@divergence.register(NormalInverseWishart)
def _(q, k, r, j):
    # KL of the Sigma marginals (inverse Wishart) plus the expected KL of the means given Sigma.
    d = q.mean.shape[0]
    nu, nu_r = q.nu[k], r.nu[j]
    expected_log_det = d * math.log(2.0) - 2.0 * q.half_log_det[k]  # of Sigma^-1
    for i in range(d):
        expected_log_det += digamma(0.5 * (nu - i))
    # trace(Psi_r Psi_q^-1) = || L_r' W_q' ||^2 with L_r the inverse of r's whitener.
    trace = 0.0
    column = q.work[d]
    for row in range(d):
        # Solve W_r x = W_q' row: accumulates || W_q L_r ||^2 by columns of L_r.
        for i in range(d):
            s = 1.0 if i == row else 0.0
            for c in range(row, i):
                s -= r.whiten[i, c, j] * column[c]
            column[i] = s / r.whiten[i, i, j] if i >= row else 0.0
        for i in range(d):
            s = 0.0
            for c in range(row, i + 1):
                s += q.whiten[i, c, k] * column[c]
            trace += s * s
    distance = 0.0
    for i in range(d):
        s = 0.0
        for c in range(i + 1):
            s += q.whiten[i, c, k] * (q.mean[c, k] - r.mean[c, j])
        distance += s * s
    ratio = r.kappa[j] / q.kappa[k]
    means = 0.5 * (nu * r.kappa[j] * distance + d * (ratio - 1.0 - math.log(ratio)))
    log_z = log_multigamma(0.5 * nu, d) + 0.5 * nu * d * math.log(2.0) - nu * q.half_log_det[k]
    log_z_r = (
        log_multigamma(0.5 * nu_r, d) + 0.5 * nu_r * d * math.log(2.0) - nu_r * r.half_log_det[j]
    )
    scales = 0.5 * (nu - nu_r) * expected_log_det + 0.5 * nu * (trace - d) - log_z + log_z_r
    return means + scales


@draw.register(NormalInverseWishart)
def _(q, k, parameters, rng):
    # Sigma^-1 = W' C'C W with C lower triangular, C'C a standard Wishart (Bartlett, reversed).
    d = q.mean.shape[0]
    c = q.work
    log_det = 0.0
    for r in range(d):
        for j in range(r):
            c[r, j] = rng.standard_normal()
        c[r, r] = math.sqrt(2.0 * rng.standard_gamma(0.5 * (q.nu[k] - (d - 1 - r))))
    for r in range(d):
        for col in range(r + 1):
            s = 0.0
            for j in range(col, r + 1):
                s += c[r, j] * q.whiten[j, col, k]
            parameters.whiten[r, col, k] = s
        log_det -= math.log(parameters.whiten[r, r, k])
    parameters.half_log_det[k] = log_det
    # mean = m + B^-1 x / sqrt(kappa), by forward substitution.
    x = q.work[d]
    scale = 1.0 / math.sqrt(q.kappa[k])
    for r in range(d):
        s = rng.standard_normal() * scale
        for j in range(r):
            s -= parameters.whiten[r, j, k] * x[j]
        x[r] = s / parameters.whiten[r, r, k]
    for r in range(d):
        parameters.mean[r, k] = q.mean[r, k] + x[r]
