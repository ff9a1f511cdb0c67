"""A cluster's T x T matrix by its generators: factorized in T times the square of its width.

The information of a series about its factor has, below the diagonal, the form
J_st = u_t phi_s ... phi_{t-1} (`cavity.series.cluster_information`), and a coefficient that is
integrated out subtracts l_s l_t. A cluster is therefore

    P = diag + sum over columns j of u_jt (phi_js ... phi_j,t-1) v_js,

one column for each member (v = 1) and each coefficient (phi = 1, u = -v = -l), and so is its
factor: P = L D L' with L_ts = u_t' (phi_s ... phi_{t-1} w_s), by the recursion

    S_t = phi_{t-1} (S_{t-1} + D_{t-1} w_{t-1} w_{t-1}') phi_{t-1}
    D_t = P_tt - u_t' S_t u_t,    w_t = (v_t - S_t u_t) / D_t

(Foreman-Mackey et al. 2017, for Gaussian processes). With few columns this is far less work than
the matrix itself. Columns go eight at a time; those of nobody have u = 0.

Row t of the room of a matrix holds u_t, w_t, phi_t and, in the place after these, P_tt and then
D_t. Row T is that of the vector h, as in a whole matrix; it ends with the number of columns, 0 for
a whole matrix.
"""

from __future__ import annotations

import math

from cavity._numba.jit import jit, wide_vectors
from cavity._numba.simd import WIDTH, load8, repeat8, splat8, store8, sum8

# Information about a factor, in units of its prior's, that differences can bear.
LARGEST = 1e8


@jit
def columns_are_cheaper(width, n_times):
    """Whether so many columns are less work than a matrix of so many times (cycles, measured)."""
    if 3 * width + 1 > n_times:
        return False
    return 0.5 * width * width + 60.0 < n_times * (n_times / 17.0 + width / 14.0)


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
