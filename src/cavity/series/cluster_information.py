"""A cluster from its members, eight at a time: columns of a thin matrix, or a whole one.

To a whole matrix four rows are added at a time, in which the products of a column are those up to
the first row times a number, so that nothing but multiplications and additions of eight remain.
"""

from __future__ import annotations

from cavity._numba.jit import jit, wide_vectors
from cavity._numba.simd import WIDTH, load8, max8, repeat8, select, splat8, store8, sum8
from cavity.series.batched_filter import LEVEL8, PHI8, SLOPE8

_NEGLIGIBLE = 1e-30  # products below this are dropped: they would only turn denormal
_ROWS = 4


@jit(internal=True)
def add_slopes(room, h):
    """Add the described series' h to their cluster's."""
    wide_vectors()
    flat = room.paths.reshape(room.paths.size)
    n_times = h.shape[0]
    for t in range(n_times):
        h[t] += sum8(load8(flat, WIDTH * (SLOPE8 * n_times + t)))


@jit(internal=True)
def slope_of(room, lane, out):
    """The h of one of the described series."""
    n_times = out.shape[0]
    for t in range(n_times):
        out[t] = room.paths[SLOPE8, WIDTH * t + lane]


@jit(internal=True)
def put_columns(room, matrix, start, n_members, p):
    """Keep the eight series as columns of a thin matrix; returns the largest sum of u at a time.

    `n_members` is the number of columns of all members, `p` that of coefficients.
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
        u = load8(flat, LEVEL8 * size + at)
        row = t * stride
        store8(target, row + start, u)
        store8(target, row + 2 * width + start, load8(flat, PHI8 * size + at))
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
    """What multiplies the products up to row `top` in each of four rows; 0 beyond the last."""
    for lane in range(WIDTH):
        product = 1.0
        for r in range(_ROWS):
            room.small[r, lane] = 0.0
            if r < n_rows:
                at = WIDTH * (top + r) + lane
                room.small[r, lane] = flat[LEVEL8 * size + at] * product
                product *= flat[PHI8 * size + at]
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
            value = flat[LEVEL8 * size + WIDTH * t + lane]
            matrix[t, t] += value
            for s in range(t - 1, top - 1, -1):
                value *= flat[PHI8 * size + WIDTH * s + lane]
                matrix[t, s] += value
        step = splat8(room.small[_ROWS, lane])
        for s in range(first, top, WIDTH):
            product = step * load8(columns, lane * length + s)
            product = select(product * product > splat8(_NEGLIGIBLE * _NEGLIGIBLE), product, none)
            store8(columns, lane * length + s, product)
        product = 1.0
        for r in range(n_rows - 1, -1, -1):
            product *= flat[PHI8 * size + WIDTH * (top + r) + lane]
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
