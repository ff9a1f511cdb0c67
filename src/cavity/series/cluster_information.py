"""Exact information of a cluster about its factor, states integrated out: the T x T form.

Given its parameters, the likelihood of series i as a function of eta is the Gaussian factor
``exp(-eta' J eta / 2 + h' eta + c)``, with h = loading * r and J = loading^2 Cov(r), where r is the
disturbance smoother's vector at eta = 0 and c the log likelihood there. In the notation of the
filter at eta = 0, with phi_t = a (1 - gain_t) and N_t the information recursion,

    J_st = loading^2 N_t phi_s phi_{s+1} ... phi_{t-1}        for s <= t

Nothing cancels in this product form. It holds for tiny var_x, where Q - QBH^{-1}B'Q loses its
digits. A cluster is P = I + sum of J, h = sum of h: its evidence, the exact score of a series and
exact draws of eta all come from one Cholesky factor of P, whatever the cluster's size.

Members are added one at a time, or eight at a time: as columns of a semiseparable matrix, or to a
dense one. To a dense matrix four rows are added at once, in which the products of a column are
those up to the first row times a number: only multiplications and additions of eight remain.

With few members the matrix is held by the generators of its columns. A coefficient that is
integrated out subtracts l_s l_t, and a cluster is

    P = diag + sum over columns j of u_jt (phi_js ... phi_j,t-1) v_js,

one column for each member (v = 1) and each coefficient (phi = 1, u = -v = -l). Its factor has the
same form: P = L D L' with L_ts = u_t' (phi_s ... phi_{t-1} w_s), by the recursion

    S_t = phi_{t-1} (S_{t-1} + D_{t-1} w_{t-1} w_{t-1}') phi_{t-1}
    D_t = P_tt - u_t' S_t u_t,    w_t = (v_t - S_t u_t) / D_t

(Foreman-Mackey et al. 2017, for Gaussian processes). The work is T times the square of the number
of columns. Columns go eight at a time; unused ones have u = 0. Row t of such a matrix holds u_t,
w_t, phi_t and, in the place after these, P_tt and then D_t. Row T is that of the vector h, as in a
dense matrix; it ends with the number of columns, which is 0 for a dense matrix.
"""

from __future__ import annotations

import math

import numpy as np

from cavity._numba.jit import jit, wide_vectors
from cavity._numba.linalg import cholesky_in_place
from cavity._numba.simd import (
    WIDTH,
    load8,
    max8,
    repeat8,
    select,
    splat8,
    store8,
    sum8,
    whole_vectors,
)
from cavity.series.batched_filter import BATCH_DIAGONAL, BATCH_PHI, BATCH_SLOPE
from cavity.series.kalman import (
    dynamics,
    filter_forward,
    observation_constant,
    prepare,
    smooth_back,
)
from cavity.series.state_space import DIAGONAL, FACTOR_MEAN, FACTOR_VARIANCE, PHI, SLOPE

_NEGLIGIBLE = 1e-30  # products below this are dropped: they would only turn denormal
# Information about a factor, in units of its prior's, that differences can bear.
LARGEST = 1e8


@jit
def describe(m, row, i):
    """Filter series i at eta = 0 and keep what determines (J, h); returns c.

    Leaves in the scratch rows: PHI phi_t, DIAGONAL that of J, SLOPE h.
    """
    return describe_against(m, row, i, 0.0)


@jit
def describe_against(m, row, i, variance):
    """Describe series i given independent eta_t ~ N(0, variance): J and h are of a deviation.

    With positive variance v the posterior of eta has covariance v I - v^2 J and mean v h.
    """
    prepare(m, row, i)
    return describe_prepared(row, dynamics(m, i), variance) + observation_constant(m, i)


@jit
def describe_prepared(row, dyn, variance):
    """Describe a series whose scratch rows are prepared, without ``observation_constant``."""
    n_times = row.shape[1]
    row[FACTOR_MEAN, :] = 0.0
    row[FACTOR_VARIANCE, :] = variance
    mean = row[FACTOR_MEAN].reshape(n_times, 1)
    total = filter_forward(row, dyn, mean, row[FACTOR_VARIANCE].reshape(n_times, 1), 0)
    smooth_back(row, dyn)
    return total


def information_matrix(n_times: int, *slots: int) -> np.ndarray:
    """Room for P and h of one cluster (or several): (T + 2) rows, of whole vectors.

    The last row has room for the h of one member whose sign is open.
    """
    return np.zeros((*slots, n_times + 2, whole_vectors(n_times + 2)))


@jit
def add_information(row, target, source, sign, products):
    """Write source + sign * (J, h) of the described series into the lower triangle of target.

    Both come from ``information_matrix``: rows 0..T-1 hold the matrix, row T the vector h. They
    may be the same array. `row` holds the scratch rows that ``describe`` filled; `products` is
    scratch as long as a row of the matrix. Eight columns go at a time, so what lies above the
    diagonal is not meaningful.
    """
    wide_vectors()
    phi = row[PHI]
    diagonal = row[DIAGONAL]
    h = row[SLOPE]
    n_times = phi.shape[0]
    stride = target.shape[1]
    new = target.reshape(target.size)
    old = source.reshape(source.size)
    for s in range(stride):
        products[s] = 0.0
    first = 0
    for t in range(n_times):
        factor = phi[t - 1] if t > 0 else 0.0
        while first < t and abs(products[first] * factor) < _NEGLIGIBLE:
            products[first] = 0.0
            first += 1
        start = first // WIDTH
        stop = t // WIDTH + 1
        scale = splat8(factor)
        for block in range(start, stop):
            store8(products, block * WIDTH, scale * load8(products, block * WIDTH))
        products[t] = 1.0
        level = splat8(sign * diagonal[t])
        at = t * stride
        for block in range(start):
            store8(new, at + block * WIDTH, load8(old, at + block * WIDTH))
        for block in range(start, stop):
            more = level * load8(products, block * WIDTH)
            store8(new, at + block * WIDTH, load8(old, at + block * WIDTH) + more)
    at = n_times * stride
    for t in range(n_times):
        new[at + t] = old[at + t] + sign * h[t]


@jit
def factorize(matrix):
    """Cholesky factor L of P in place, and L^{-1} h in row T; returns two log evidences.

    The first is ``h' P^{-1} h / 2 - log|P| / 2``, the second the same with h - 2 g instead of h,
    where g is the last row: with the loading of one member, of which g is the h, turned around.
    NaN if P is not positive definite. The vectors ride along as two more rows of the matrix;
    since P >= I, corners h'h + g'g + 1 keep it definite.
    """
    n_times = matrix.shape[0] - 2
    own = matrix[n_times]
    other = matrix[n_times + 1]
    square = 1.0
    for t in range(n_times):
        square += own[t] * own[t] + other[t] * other[t]
    own[n_times] = square
    other[n_times] = 0.0
    other[n_times + 1] = square
    if not cholesky_in_place(matrix):
        return math.nan, math.nan
    quad = 0.0
    mirrored = 0.0
    log_det = 0.0
    product = 1.0
    for t in range(n_times):
        quad += own[t] * own[t]
        turned = own[t] - 2.0 * other[t]
        mirrored += turned * turned
        product *= matrix[t, t]
        if product > 1e200:
            log_det += math.log(product)
            product = 1.0
    log_det += math.log(product)
    return 0.5 * quad - log_det, 0.5 * mirrored - log_det


@jit
def draw_factor(matrix, eta, rng):
    """Draw eta ~ N(P^{-1} h, P^{-1}) from a factorized matrix, dense or semiseparable.

    The last two rows of `matrix` are used up.
    """
    if columns_of(matrix):
        draw_semiseparable(matrix, eta, rng)
        return
    n_times = matrix.shape[0] - 2
    rest = matrix[n_times]
    for t in range(n_times):
        rest[t] += rng.standard_normal()
    for t in range(n_times - 1, -1, -1):
        row = matrix[t]
        value = rest[t] / row[t]
        eta[t] = value
        for s in range(t):
            rest[s] -= row[s] * value


@jit
def start_information(target):
    """Set a cluster to the prior: P = I, h = 0."""
    size, stride = target.shape
    for t in range(size):
        for s in range(stride):
            target[t, s] = 0.0
        target[t, t] = 1.0


_ROWS = 4


@jit(internal=True)
def add_slopes(room, h):
    """Add the described series' h to their cluster's."""
    wide_vectors()
    flat = room.paths.reshape(room.paths.size)
    n_times = h.shape[0]
    for t in range(n_times):
        h[t] += sum8(load8(flat, WIDTH * (BATCH_SLOPE * n_times + t)))


@jit(internal=True)
def slope_of(room, lane, out):
    """The h of one of the described series."""
    n_times = out.shape[0]
    for t in range(n_times):
        out[t] = room.paths[BATCH_SLOPE, WIDTH * t + lane]


@jit(internal=True)
def put_columns(room, matrix, start, n_members, p):
    """Store the eight series as columns of a semiseparable matrix.

    Returns the largest sum of u at a time. `n_members` is the number of columns of all members, `p`
    that of coefficients.
    """
    wide_vectors()
    n_times = matrix.shape[0] - 2
    width = n_members * (1 + p)
    stride = matrix.shape[1]
    size = WIDTH * n_times
    flat = room.paths.reshape(room.paths.size)
    wide = room.lines.reshape(room.lines.size)
    target = matrix.reshape(matrix.size)
    most = 0.0
    for t in range(n_times):
        at = WIDTH * t
        u = load8(flat, BATCH_DIAGONAL * size + at)
        row = t * stride
        store8(target, row + start, u)
        store8(target, row + 2 * width + start, load8(flat, BATCH_PHI * size + at))
        known = sum8(u)
        most = max(most, known)
        taken = splat8(0.0)
        for j in range(p):
            line = load8(wide, j * size + at)
            column = row + n_members + p * start + j * WIDTH
            store8(target, column, splat8(0.0) - line)
            store8(target, column + 2 * width, splat8(1.0))
            taken = taken + line * line
        matrix[t, 3 * width] += known - sum8(taken)
    return most


@jit(internal=True)
def add_to_matrix(room, matrix, p):
    """Add the eight series to the lower triangle of a whole matrix.

    Eight columns go at a time, so what lies above the diagonal is not meaningful.
    """
    wide_vectors()
    n_times = matrix.shape[0] - 2
    stride = matrix.shape[1]
    size = WIDTH * n_times
    flat = room.paths.reshape(room.paths.size)
    target = matrix.reshape(matrix.size)
    columns = room.columns.reshape(room.columns.size)
    length = room.columns.shape[1]
    for lane in range(WIDTH):
        for t in range(length):
            room.columns[lane, t] = 0.0
        for j in range(p):
            for t in range(n_times):
                room.columns[WIDTH * (1 + j) + lane, t] = room.lines[j, WIDTH * t + lane]
    n_columns = WIDTH * (1 + p)
    share = room.small.reshape(room.small.size)
    first = 0
    for top in range(0, n_times, _ROWS):
        n_rows = min(_ROWS, n_times - top)
        _shares(room, flat, size, top, n_rows)
        at0 = top * stride
        at1 = min(top + 1, n_times + 1) * stride
        at2 = min(top + 2, n_times + 1) * stride
        at3 = min(top + 3, n_times + 1) * stride
        for s in range(0, top + n_rows, WIDTH):
            row0 = load8(target, at0 + s)
            row1 = load8(target, at1 + s)
            row2 = load8(target, at2 + s)
            row3 = load8(target, at3 + s)
            if s >= first:
                for lane in range(WIDTH):
                    product = load8(columns, lane * length + s)
                    row0 = row0 + repeat8(share, lane) * product
                    row1 = row1 + repeat8(share, WIDTH + lane) * product
                    row2 = row2 + repeat8(share, 2 * WIDTH + lane) * product
                    row3 = row3 + repeat8(share, 3 * WIDTH + lane) * product
            for k in range(WIDTH, n_columns):
                line = load8(columns, k * length + s)
                at = k * length + top
                row0 = row0 - repeat8(columns, at) * line
                row1 = row1 - repeat8(columns, at + 1) * line
                row2 = row2 - repeat8(columns, at + 2) * line
                row3 = row3 - repeat8(columns, at + 3) * line
            store8(target, at0 + s, row0)
            store8(target, at1 + s, row1)
            store8(target, at2 + s, row2)
            store8(target, at3 + s, row3)
        first = _finish_rows(room, matrix, flat, size, top, n_rows, first)


@jit(internal=True)
def _shares(room, flat, size, top, n_rows):
    """Set the multipliers of the products up to row `top` in four rows; 0 beyond the last."""
    for lane in range(WIDTH):
        product = 1.0
        for r in range(_ROWS):
            room.small[r, lane] = 0.0
            if r < n_rows:
                at = WIDTH * (top + r) + lane
                room.small[r, lane] = flat[BATCH_DIAGONAL * size + at] * product
                product *= flat[BATCH_PHI * size + at]
        room.small[_ROWS, lane] = product


@jit(internal=True)
def _finish_rows(room, matrix, flat, size, top, n_rows, first):
    """Add what four rows have among themselves, and bring the products to the row after them.

    Returns the first column, of whole vectors, that any product is left in.
    """
    columns = room.columns.reshape(room.columns.size)
    length = room.columns.shape[1]
    none = splat8(0.0)
    largest = splat8(0.0)
    for lane in range(WIDTH):
        for r in range(n_rows):
            t = top + r
            value = flat[BATCH_DIAGONAL * size + WIDTH * t + lane]
            matrix[t, t] += value
            for s in range(t - 1, top - 1, -1):
                value *= flat[BATCH_PHI * size + WIDTH * s + lane]
                matrix[t, s] += value
        step = splat8(room.small[_ROWS, lane])
        for s in range(first, top, WIDTH):
            product = step * load8(columns, lane * length + s)
            product = select(product * product > splat8(_NEGLIGIBLE * _NEGLIGIBLE), product, none)
            store8(columns, lane * length + s, product)
        product = 1.0
        for r in range(n_rows - 1, -1, -1):
            product *= flat[BATCH_PHI * size + WIDTH * (top + r) + lane]
            room.columns[lane, top + r] = product
        product = load8(columns, lane * length + first)
        largest = largest + product * product
    while first + WIDTH <= top and not max8(largest) > 0.0:
        first += WIDTH
        largest = splat8(0.0)
        for lane in range(WIDTH):
            product = load8(columns, lane * length + first)
            largest = largest + product * product
    return first


# --------------------------------------------------------------------------- by columns


@jit(forceinline=True)
def columns_of(matrix):
    """Number of columns of a matrix that is held by them; 0: it is whole."""
    n_times = matrix.shape[0] - 2
    return int(matrix[n_times, n_times + 1])


@jit(internal=True)
def start_semiseparable(matrix, width):
    """Set a cluster to the prior, with room for so many columns."""
    n_times = matrix.shape[0] - 2
    for t in range(n_times):
        matrix[t, 3 * width] = 1.0
        matrix[n_times, t] = 0.0
    matrix[n_times, n_times + 1] = width


@jit(internal=True)
def factorize_semiseparable(matrix, n_members, square, sums):
    """Factorise in place, and L^{-1} h in row T (L the Cholesky factor); returns log evidence.

    The first `n_members` columns have v = 1. `square` is room for S, `sums` for three vectors.
    NaN if it is not positive definite.
    """
    wide_vectors()
    n_times = matrix.shape[0] - 2
    width = columns_of(matrix)
    stride = matrix.shape[1]
    flat = matrix.reshape(matrix.size)
    S = square.reshape(square.size)
    line = sums.reshape(sums.size)
    size = sums.shape[1]
    h = matrix[n_times]
    for j in range(width * width):
        S[j] = 0.0
    for j in range(width):
        line[j] = 0.0
        line[2 * size + j] = 0.0
    quad = 0.0
    log_det = 0.0
    product = 1.0
    pivot = 0.0
    before = 0.0
    for t in range(n_times):
        at = t * stride
        if t > 0:
            _advance(S, line, size, flat, at, stride, width, pivot, before)
        own = splat8(0.0)
        pull = splat8(0.0)
        for j in range(0, width, WIDTH):
            u = load8(flat, at + j)
            own = own + u * load8(line, j)
            pull = pull + u * load8(line, 2 * size + j)
        pivot = matrix[t, 3 * width] - sum8(own)
        if not pivot > 0.0:
            return math.nan
        inverse = splat8(1.0 / pivot)
        for j in range(0, width, WIDTH):
            v = splat8(1.0) if j < n_members else splat8(0.0) - load8(flat, at + j)
            store8(flat, at + width + j, (v - load8(line, j)) * inverse)
        matrix[t, 3 * width] = pivot
        before = h[t] - sum8(pull)
        quad += before * before / pivot
        h[t] = before / math.sqrt(pivot)
        product *= pivot
        if product > 1e200:
            log_det += math.log(product)
            product = 1.0
    return 0.5 * (quad - log_det - math.log(product))


@jit(internal=True)
def _advance(S, line, size, flat, at, stride, width, pivot, before):
    """S_t, S_t u_t (first vector) and the state of the solution (third); `at` is row t."""
    last = at - stride
    for j in range(0, width, WIDTH):
        w = load8(flat, last + width + j)
        phi = load8(flat, last + 2 * width + j)
        store8(line, 2 * size + j, phi * (load8(line, 2 * size + j) + w * splat8(before)))
        store8(line, size + j, splat8(pivot) * w * phi)
    for j in range(0, width, WIDTH):
        phi = load8(flat, last + 2 * width + j)
        w = load8(flat, last + width + j) * phi
        total = splat8(0.0)
        for r in range(width):
            old = load8(S, r * width + j)
            new = repeat8(flat, last + 2 * width + r) * phi * old + repeat8(line, size + r) * w
            store8(S, r * width + j, new)
            total = total + repeat8(flat, at + r) * new
        store8(line, j, total)


@jit(internal=True)
def solve_semiseparable(matrix, values):
    """Replace a vector by L^{-1} of it; row T + 1 of `matrix` is used up."""
    wide_vectors()
    width = columns_of(matrix)
    stride = matrix.shape[1]
    flat = matrix.reshape(matrix.size)
    state = (matrix.shape[0] - 1) * stride
    for j in range(width):
        flat[state + j] = 0.0
    before = 0.0
    for t in range(values.shape[0]):
        at = t * stride
        pull = splat8(0.0)
        for j in range(0, width, WIDTH):
            if t > 0:
                w = load8(flat, at - stride + width + j)
                moved = load8(flat, state + j) + w * splat8(before)
                store8(flat, state + j, load8(flat, at - stride + 2 * width + j) * moved)
            pull = pull + load8(flat, at + j) * load8(flat, state + j)
        before = values[t] - sum8(pull)
        values[t] = before / math.sqrt(matrix[t, 3 * width])


@jit(internal=True)
def draw_semiseparable(matrix, eta, rng):
    """Draw eta ~ N(P^{-1} h, P^{-1}); row T of `matrix` is used up, and so is row T + 1."""
    wide_vectors()
    n_times = matrix.shape[0] - 2
    width = columns_of(matrix)
    stride = matrix.shape[1]
    flat = matrix.reshape(matrix.size)
    state = (n_times + 1) * stride
    for j in range(width):
        flat[state + j] = 0.0
    value = 0.0
    for t in range(n_times - 1, -1, -1):
        at = t * stride
        pull = splat8(0.0)
        for j in range(0, width, WIDTH):
            if t < n_times - 1:
                moved = load8(flat, state + j) + load8(flat, at + stride + j) * splat8(value)
                store8(flat, state + j, load8(flat, at + 2 * width + j) * moved)
            pull = pull + load8(flat, at + width + j) * load8(flat, state + j)
        value = (matrix[n_times, t] + rng.standard_normal()) / math.sqrt(matrix[t, 3 * width])
        value -= sum8(pull)
        eta[t] = value


@jit(internal=True)
def expand(matrix, n_members, room):
    """Make it a whole matrix, not factorized, from its columns; `room` is as long as a row."""
    n_times = matrix.shape[0] - 2
    width = columns_of(matrix)
    for t in range(n_times - 1, -1, -1):
        for s in range(t):
            room[s] = 0.0
        for j in range(width):
            value = matrix[t, j]
            for s in range(t - 1, -1, -1):
                value *= matrix[s, 2 * width + j]
                if abs(value) < 1e-300:
                    break
                room[s] += value * (1.0 if j < n_members else -matrix[s, j])
        matrix[t, t] = matrix[t, 3 * width]
        for s in range(t):
            matrix[t, s] = room[s]
    matrix[n_times, n_times + 1] = 0.0
    for s in range(matrix.shape[1]):
        matrix[n_times + 1, s] = 0.0
