"""Matrix products of a network's weights in vector registers, compiled: for models on the CPU.

The weights are put in order once, in panels that the processor reads from end to end; a BLAS does that anew in every
product, which costs more than the arithmetic where a batch has few rows. Each number is one sum in the order of the
inputs, so that a row's result does not depend on the rows beside it, nor on the number of threads, whatever that is.

The innermost loop is written in LLVM's own language, since no compiler makes it of a plain one: a tile of rows times
outputs that stays in the processor's vector registers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import cfunc, types
from numpy.typing import NDArray

from toolkit.generation.compiled_addresses import instruction
from toolkit.generation.compiled_math import compiled
from toolkit.generation.compiled_panels import (
    BIAS,
    INPUTS,
    MULTIPLY,
    OUTPUTS,
    PREPARE,
    VALUES,
    Panels,
    deliver,
    record_at,
    rows_at,
)
from toolkit.generation.threads import share_range
from toolkit.generation.weight_memory import WeightMemory

Floats = NDArray[np.float32]

SIZE = 4  # bytes of a float32
MOST_ROWS = 9  # of a tile


class Shape(NamedTuple):
    """A tile: at most `MOST_ROWS` rows times `vectors` registers of `lanes` numbers."""

    rows: int
    vectors: int
    lanes: int


def tile_shape(features: dict[str, bool], machine: str) -> Shape | None:
    """The tile that fills the vector registers; None where the processor has no fused multiply-add."""
    if features.get("avx512f"):
        return Shape(9, 3, 16)
    if features.get("avx2") and features.get("fma"):
        return Shape(6, 2, 8)
    if machine.startswith(("aarch64", "arm64")):
        return Shape(8, 3, 4)
    return None


def _host_shape() -> Shape | None:
    try:
        features = dict(llvm.get_host_cpu_features())
    except RuntimeError:  # the operating system does not tell
        features = {}
    return tile_shape(features, llvm.get_default_triple())


SHAPE = _host_shape()
_TILE = SHAPE or Shape(1, 1, 4)
WIDTH = _TILE.vectors * _TILE.lanes  # outputs of a panel


def _tile(rows: int) -> Callable[..., None]:
    """A function that multiplies `rows` rows by one panel.

    Its arguments are addresses and numbers: inputs, their stride, the panel, outputs, their stride, and how many
    inputs there are (at least 1). Strides count numbers.
    """
    vectors, lanes = _TILE.vectors, _TILE.lanes
    number, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), lanes)
    place, index = ir.IntType(64), ir.IntType(32)

    def at(builder: Any, base: Any, offset: Any, kind: Any = number) -> Any:
        return builder.bitcast(builder.gep(base, [offset]), kind.as_pointer())

    def load(builder: Any, pointer: Any) -> Any:
        value = builder.load(pointer)
        value.align = SIZE
        return value

    def spread(builder: Any, value: Any) -> Any:
        undefined = ir.Constant(vector, ir.Undefined)
        first = builder.insert_element(undefined, value, ir.Constant(index, 0))
        return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(index, lanes), [0] * lanes))

    def multiply_add(builder: Any) -> Any:
        name = f"llvm.fma.v{lanes}f32"
        known = builder.module.globals.get(name)
        return known or ir.Function(builder.module, ir.FunctionType(vector, [vector] * 3), name)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        inputs, stride, panel, outputs, out_stride, n = arguments
        inputs, panel, outputs = (
            builder.inttoptr(address, number.as_pointer()) for address in (inputs, panel, outputs)
        )
        starts = [at(builder, inputs, builder.mul(stride, place(row))) for row in range(rows)]
        fma, before = multiply_add(builder), builder.block
        loop, end = builder.append_basic_block("loop"), builder.append_basic_block("end")
        builder.branch(loop)
        builder.position_at_end(loop)
        i = builder.phi(place)
        i.add_incoming(place(0), before)
        sums = [[builder.phi(vector) for _ in range(vectors)] for _ in range(rows)]
        weights = [
            load(
                builder,
                at(builder, panel, builder.add(builder.mul(i, place(WIDTH)), place(v * lanes)), vector),
            )
            for v in range(vectors)
        ]
        added = []
        for start, row in zip(starts, sums, strict=True):
            x = spread(builder, load(builder, at(builder, start, i)))
            added.append([builder.call(fma, [x, w, s]) for w, s in zip(weights, row, strict=True)])
        following = builder.add(i, place(1))
        i.add_incoming(following, loop)
        for row, new in zip(sums, added, strict=True):
            for s, value in zip(row, new, strict=True):
                s.add_incoming(ir.Constant(vector, [0.0] * lanes), before)
                s.add_incoming(value, loop)
        builder.cbranch(builder.icmp_signed("<", following, n), loop, end)
        builder.position_at_end(end)
        for place_of_row, new in enumerate(added):
            for v, value in enumerate(new):
                offset = builder.add(builder.mul(out_stride, place(place_of_row)), place(v * lanes))
                stored = builder.store(value, at(builder, outputs, offset, vector))
                stored.align = SIZE
        return context.get_dummy_value()

    @instruction
    def tile(typing: Any, inputs: Any, stride: Any, panel: Any, outputs: Any, out_stride: Any, n: Any) -> Any:
        return types.void(*[types.intp] * 6), generate

    return tile


_1, _2, _3, _4, _5, _6, _7, _8, _9 = (_tile(rows) for rows in range(1, MOST_ROWS + 1))
TILE_ROWS = _TILE.rows


@compiled()
def tile_of(height: int, x: int, stride: int, panel: int, out: int, out_stride: int, n: int) -> None:
    """Multiply 1 to `TILE_ROWS` rows by one panel of n inputs times `WIDTH` outputs.

    x, panel and out are addresses; strides, from row to row of x and out, count numbers.
    """
    if height == 9:
        _9(x, stride, panel, out, out_stride, n)
    elif height == 8:
        _8(x, stride, panel, out, out_stride, n)
    elif height == 7:
        _7(x, stride, panel, out, out_stride, n)
    elif height == 6:
        _6(x, stride, panel, out, out_stride, n)
    elif height == 5:
        _5(x, stride, panel, out, out_stride, n)
    elif height == 4:
        _4(x, stride, panel, out, out_stride, n)
    elif height == 3:
        _3(x, stride, panel, out, out_stride, n)
    elif height == 2:
        _2(x, stride, panel, out, out_stride, n)
    else:
        _1(x, stride, panel, out, out_stride, n)


@cfunc(PREPARE, cache=True)
def prepare(inputs: int, prepared: int, n_inputs: int, rows: int, first: int, last: int) -> None:
    """As `compiled_panels` says: the inputs are read as they are."""


@cfunc(MULTIPLY, cache=True)
def multiply(
    inputs: int, prepared: int, rows: int, record: int, first: int, last: int, out: int, add: int
) -> None:
    """As `compiled_panels` says; the rows in tiles of about one height."""
    told = record_at(record)
    n, outputs = told[INPUTS], told[OUTPUTS]
    target = rows_at(out, rows, outputs)
    found = np.empty((MOST_ROWS, WIDTH), np.float32)
    for p in range(first, last):
        panel, width = told[VALUES] + p * n * WIDTH * SIZE, min(WIDTH, outputs - p * WIDTH)
        row, tiles = 0, (rows + TILE_ROWS - 1) // TILE_ROWS
        while row < rows:
            height = (rows - row + tiles - 1) // tiles
            tile_of(height, inputs + row * n * SIZE, n, panel, found.ctypes.data, WIDTH, n)
            deliver(found, height, width, told[BIAS], target, row, p * WIDTH, add)
            row += height
            tiles -= 1


@compiled()
def _pack(weight: Floats, first: int, last: int, values: Floats) -> None:
    values[first:last] = 0
    for p in range(first, last):
        for j in range(min(WIDTH, weight.shape[0] - p * WIDTH)):
            for i in range(weight.shape[1]):
                values[p, i, j] = weight[p * WIDTH + j, i]


def pack(weight: Floats, memory: WeightMemory) -> Panels:
    """Put a weight (outputs, inputs) in order: (n_panels, inputs, WIDTH)."""
    outputs, inputs = weight.shape
    values = memory.array((-(-outputs // WIDTH), inputs, WIDTH), np.float32)
    given = np.ascontiguousarray(weight)
    share_range(lambda first, last: _pack(given, first, last, values), len(values), weight.size)
    return Panels(values, outputs, inputs)


def prepared_size(rows: int, inputs: int) -> int:
    """Bytes of inputs in the form that the product reads: they are read as they are."""
    return 0
