"""Cholesky factorization inside kernels."""

from __future__ import annotations

import math

from cavity._numba.jit import jit, private

_DOUBLE = ord("d")
_UPPER = ord("U")  # LAPACK counts columns first: its upper triangle is our lower one


def _by_lapack(matrix):
    """Replace the lower triangle of the leading square of `matrix` by its Cholesky factor.

    The rows may be longer than the matrix is high. Returns False if it is not positive definite.
    """
    return _potrf(_DOUBLE, _UPPER, matrix.shape[0], matrix.ctypes, matrix.shape[1]) == 0


def _by_rows(matrix):
    """Factorize as LAPACK does, where Numba's way to it is not known."""
    for i in range(matrix.shape[0]):
        for j in range(i + 1):
            rest = matrix[i, j]
            for k in range(j):
                rest -= matrix[i, k] * matrix[j, k]
            if j < i:
                matrix[i, j] = rest / matrix[j, j]
            elif rest > 0.0:
                matrix[i, i] = math.sqrt(rest)
            else:
                return False
    return True


if private is None:
    cholesky_in_place = jit(internal=True)(_by_rows)
else:
    _potrf = private.potrf
    cholesky_in_place = jit(internal=True)(_by_lapack)
