"""MLX's arrays as NumPy's, on the CPU without a copy."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray


def to_numpy(array: mx.array) -> NDArray[np.float32]:
    """A float32 view of an evaluated array (a copy for other types: NumPy has no bfloat16)."""
    if array.dtype != mx.float32:
        array = array.astype(mx.float32)
    return np.array(array, copy=False)


def largest(array: mx.array) -> float:
    """The largest absolute value."""
    return float(np.array(mx.abs(array).max().astype(mx.float32)))
