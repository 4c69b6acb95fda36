"""How kernels are compiled by Numba, and their exponential.

Machine code is kept on disk between processes, beside the module or, where that cannot be written, in the user's
cache folder.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import njit

from toolkit.generation.compiled_cache import look_at_all_sources

look_at_all_sources()
# Without NumPy's rule for divisions each would be checked for zero, and no loop of them becomes vector code.
compiled = functools.partial(njit, nogil=True, cache=True, error_model="numpy")
# Sums may be split over vector lanes: another order, but always the same one. Values that are not finite stay so.
REORDERED = {"reassoc", "contract", "nsz"}
IN_ORDER = {"contract"}

LOWEST, _HIGHEST = np.float32(-87.0), np.float32(88.0)  # between, the exponential is a normal float32
_LOG2_E = np.float32(1.4426950408889634)
_LN2_HIGH, _LN2_LOW = (
    np.float32(0.693359375),
    np.float32(-2.12194440e-4),
)  # ln 2, the first part exact times k
_E2, _E3, _E4, _E5, _E6, _E7 = (
    np.float32(value)
    for value in (
        5.0000001201e-1,
        1.6666665459e-1,
        4.1665795894e-2,
        8.3334519073e-3,
        1.3981999507e-3,
        1.9875691500e-4,
    )
)
_HALF, _ONE = np.float32(0.5), np.float32(1.0)
_BIAS, _MANTISSA = np.int32(127), np.int32(23)  # of a float32's exponent


@compiled(fastmath=IN_ORDER)
def exp(x):  # type: ignore[no-untyped-def]
    """exp of a float32, taken as -87 below -87 and as 88 above 88, within 2 units of the last place.

    The polynomial is that of Cephes (Moshier 1989). Comparisons let a not-a-number through.
    """
    if x < LOWEST:
        x = LOWEST
    if x > _HIGHEST:
        x = _HIGHEST
    k = np.floor(x * _LOG2_E + _HALF)
    r = x - k * _LN2_HIGH - k * _LN2_LOW
    polynomial = ((((_E7 * r + _E6) * r + _E5) * r + _E4) * r + _E3) * r + _E2
    power = np.int32((np.int32(k) + _BIAS) << _MANTISSA).view(np.float32)
    return (polynomial * r * r + r + _ONE) * power
