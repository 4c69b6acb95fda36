"""Chooses how a network's weights are multiplied on the CPU: by the tile unit, or in vector registers.

Both compute in float32, and a row's result depends on neither the rows beside it nor the number of threads.
"""

from __future__ import annotations

from types import ModuleType

import numpy as np
from numpy.typing import NDArray

from toolkit.generation import compiled_tile_products, compiled_vector_products
from toolkit.generation.compiled_addresses import call
from toolkit.generation.compiled_math import compiled
from toolkit.generation.compiled_panels import Panels
from toolkit.generation.threads import share_range
from toolkit.tile_unit import use_tile_unit

Floats = NDArray[np.float32]


def can_multiply() -> bool:
    """Whether the processor is one that there are kernels for."""
    return compiled_vector_products.SHAPE is not None


def kind_of_product() -> ModuleType:
    """The module with the kernels to use: see `compiled_panels`."""
    if use_tile_unit() and compiled_tile_products.is_known():
        return compiled_tile_products
    return compiled_vector_products


@compiled()
def _call(address: int, arguments: tuple[int, ...]) -> None:
    call(address, arguments)


def multiply(kind: ModuleType, inputs: Floats, panels: Panels, out: Floats) -> None:
    """out = inputs @ weight.T by one kind of product: inputs (rows, inputs), out (rows, outputs), C-contiguous."""
    rows, n = inputs.shape
    prepared = np.empty(kind.prepared_size(rows, n), np.uint8)
    record = panels.record()
    at, there, result = inputs.ctypes.data, prepared.ctypes.data, out.ctypes.data
    _call(kind.prepare.address, (at, there, n, rows, 0, rows))
    share_range(
        lambda first, last: _call(
            kind.multiply.address, (at, there, rows, record.ctypes.data, first, last, result, 0)
        ),
        len(panels.values),
        rows * panels.values.size,
    )
