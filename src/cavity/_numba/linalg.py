"""LAPACK inside kernels: the Cholesky factorisation that SciPy's own build of it provides."""

from __future__ import annotations

import numba.np.linalg  # noqa: F401  (makes the LAPACK wrapper below known to the compiler)
from numba.core import types

from cavity._numba.jit import jit

_potrf = types.ExternalFunction(
    "numba_xxpotrf",
    types.intc(types.char, types.char, types.intp, types.CPointer(types.float64), types.intp),
)
_DOUBLE = ord("d")
_UPPER = ord("U")  # LAPACK counts columns first: its upper triangle is our lower one


@jit(internal=True)
def cholesky_in_place(matrix):
    """Replace the lower triangle of the leading square of `matrix` by its Cholesky factor.

    The rows may be longer than the matrix is high. Returns False if it is not positive definite.
    """
    return _potrf(_DOUBLE, _UPPER, matrix.shape[0], matrix.ctypes, matrix.shape[1]) == 0
