"""Weights in order for products, and what every kind of product does with its results.

A kind of product is a module with `pack`, which puts a weight in order, and two functions for compiled code, each
called by its address:

prepare(inputs, prepared, n_inputs, rows, first, last)
    Bring rows first to last of the inputs, (rows, n_inputs) float32, into the form that the product reads.
multiply(inputs, prepared, rows, record, first, last, out, add)
    Panels first to last of a product: out (rows, outputs), or added to it.

`inputs`, `prepared`, `record` and `out` are addresses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import carray, types
from numpy.typing import NDArray

from toolkit.generation.compiled_addresses import as_pointer
from toolkit.generation.compiled_math import compiled

Floats = NDArray[np.float32]

PREPARE = types.void(*[types.intp] * 6)
MULTIPLY = types.void(*[types.intp] * 8)

# A record: a weight as compiled code is told of it, int64 numbers.
VALUES, N_PANELS, STEPS, PIECES, OUTPUTS, INPUTS, BIAS = range(7)
RECORD_SIZE = 7


class Panels(NamedTuple):
    """A weight (outputs, inputs) in order."""

    values: NDArray[Any]  # (n_panels, steps, ...) of some outputs each, zeros past the last
    outputs: int
    inputs: int
    pieces: int = 1  # numbers that each weight is the sum of

    def record(self, bias: Floats | None = None) -> NDArray[np.int64]:
        """What compiled code is told; valid as long as the panels and the bias, (outputs,), live."""
        address = 0 if bias is None else bias.ctypes.data
        n_panels, steps = self.values.shape[:2]
        told = [self.values.ctypes.data, n_panels, steps, self.pieces, self.outputs, self.inputs, address]
        return np.array(told, np.int64)


@compiled()
def record_at(address: int) -> NDArray[np.int64]:
    """The record at an address."""
    return carray(as_pointer(address), RECORD_SIZE, np.int64)


@compiled()
def rows_at(address: int, rows: int, columns: int) -> Floats:
    """The float32 array (rows, columns) at an address."""
    return carray(as_pointer(address), (rows, columns), np.float32)


@compiled()
def deliver(
    found: Floats, n_rows: int, width: int, bias: int, out: Floats, row: int, column: int, add: int
) -> None:
    """Write a block of results, found[:n_rows, :width], to out[row:, column:], or add it; with the bias, if any."""
    for i in range(n_rows):
        source, target = found[i], out[row + i, column : column + width]
        if bias:
            moved = rows_at(bias, 1, column + width)[0, column:]
            for j in range(width):
                source[j] += moved[j]
        if add:
            for j in range(width):
                target[j] += source[j]
        else:
            for j in range(width):
                target[j] = source[j]
