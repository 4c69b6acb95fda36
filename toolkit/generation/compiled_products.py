"""Matrix products of a network's weights, compiled: for models on the CPU.

The weights are put in order once, in panels that the processor reads from end to end; a BLAS does that anew in every
product, which costs more than the arithmetic where a batch has few rows. Each number is one sum in the order of the
inputs, so that a row's result does not depend on the rows beside it, nor on the number of threads, whatever that is.

The innermost loop is written in LLVM's own language, since no compiler makes it of a plain one: a tile of rows times
outputs that stays in the processor's vector registers.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from toolkit.generation.compiled_math import compiled
from toolkit.generation.threads import n_threads, run_together

Floats = NDArray[np.float32]

SIZE = 4  # bytes of a float32
MOST_ROWS = 9  # of a tile
MIN_WORK = 1 << 19  # multiplications from which a thread of its own pays


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


class Panels(NamedTuple):
    """A weight in order for `multiply`."""

    values: Floats  # (n_panels, inputs, WIDTH), zeros past the last output
    outputs: int


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

    @intrinsic
    def tile(typing: Any, inputs: Any, stride: Any, panel: Any, outputs: Any, out_stride: Any, n: Any) -> Any:
        return types.void(*[types.intp] * 6), generate

    return tile


_1, _2, _3, _4, _5, _6, _7, _8, _9 = (_tile(rows) for rows in range(1, MOST_ROWS + 1))
_ROWS = _TILE.rows


@compiled()
def _rows_by_panel(
    inputs: int, stride: int, panel: int, outputs: int, out_stride: int, rows: int, n: int
) -> None:
    """All rows by one panel, in tiles of about one height; arguments as of `_tile`."""
    row, tiles = 0, (rows + _ROWS - 1) // _ROWS
    while row < rows:
        height = (rows - row + tiles - 1) // tiles
        x, out = inputs + row * stride * SIZE, outputs + row * out_stride * SIZE
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
        row += height
        tiles -= 1


@compiled()
def _multiply(inputs: Floats, panels: Floats, first: int, last: int, out: Floats) -> None:
    """out[:, ...] of panels first to last; inputs (rows, n), out (rows, outputs), both in one piece."""
    rows, n = inputs.shape
    edge = np.empty((rows, WIDTH), np.float32)
    for p in range(first, last):
        panel = panels.ctypes.data + p * n * WIDTH * SIZE
        start = p * WIDTH
        if start + WIDTH <= out.shape[1]:
            _rows_by_panel(
                inputs.ctypes.data, n, panel, out.ctypes.data + start * SIZE, out.shape[1], rows, n
            )
        else:
            _rows_by_panel(inputs.ctypes.data, n, panel, edge.ctypes.data, WIDTH, rows, n)
            out[:, start:] = edge[:, : out.shape[1] - start]


@compiled()
def _pack(weight: Floats, first: int, last: int, values: Floats) -> None:
    for p in range(first, last):
        for j in range(min(WIDTH, weight.shape[0] - p * WIDTH)):
            for i in range(weight.shape[1]):
                values[p, i, j] = weight[p * WIDTH + j, i]


def pack(weight: Floats) -> Panels:
    """Put a weight (outputs, inputs) in order."""
    outputs, inputs = weight.shape
    values = np.zeros((-(-outputs // WIDTH), inputs, WIDTH), np.float32)
    given = np.ascontiguousarray(weight)
    _over_panels(lambda first, last: _pack(given, first, last, values), len(values), weight.size)
    return Panels(values, outputs)


def multiply(inputs: Floats, panels: Panels, out: Floats) -> None:
    """out = inputs @ weight.T: inputs (rows, inputs) and out (rows, outputs), both C-contiguous."""
    _over_panels(
        lambda first, last: _multiply(inputs, panels.values, first, last, out),
        len(panels.values),
        inputs.shape[0] * panels.values.size,
    )


def _over_panels(kernel: Callable[[int, int], None], n_panels: int, work: int) -> None:
    n = max(1, min(n_threads(), n_panels, work // MIN_WORK))
    edges = [n_panels * i // n for i in range(n + 1)]
    run_together([functools.partial(kernel, first, last) for first, last in itertools.pairwise(edges)])
