"""Matrix products of a network's weights on the tile unit of an x86 processor (AMX), compiled.

The unit multiplies tiles of bfloat16 numbers exactly and adds them in float32, many times faster than vector
registers do. A float32 number is the sum of three bfloat16 numbers, its pieces: the product of two is then the sum of
nine exact products, of which the six largest are taken. The other three together are at most 2**-23 of the product,
and a tenth of that as a rule, less than a sum in float32 loses. Weights need three pieces only where they have more
than 17 significant bits: those that were stored in bfloat16 have one, those of 4 bits times a half-precision scale
two.

Each number is one sum in the order of the inputs, so that a row's result does not depend on the rows beside it, nor
on the number of threads. Numbers below 1e-38 are taken as 0.

Source: Intel 64 and IA-32 Architectures Optimization Reference Manual, chapter 20, for the unit and the order of the
weights; Henry, Tang and Heinecke 2019, Leveraging the bfloat16 Artificial Intelligence Datatype For Higher-Precision
Computations, for the pieces.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import llvmlite.binding as llvm
import numpy as np
from llvmlite import ir
from numba import carray, cfunc, types
from numpy.typing import NDArray

from toolkit.generation.compiled_addresses import as_pointer, instruction
from toolkit.generation.compiled_math import compiled
from toolkit.generation.compiled_panels import (
    BIAS,
    MULTIPLY,
    OUTPUTS,
    PIECES,
    PREPARE,
    STEPS,
    VALUES,
    Panels,
    deliver,
    record_at,
    rows_at,
)
from toolkit.generation.threads import share_range
from toolkit.generation.weight_memory import WeightMemory

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]  # bfloat16 numbers, the upper halves of float32 numbers

ROWS = 16  # of a tile: of inputs, or of results
DEPTH = 32  # inputs of a tile
TILE = ROWS * DEPTH  # bfloat16 numbers of a tile
TILE_BYTES = 2 * TILE
BLOCK = 2 * ROWS  # rows, and outputs, of a block of four tiles that is summed at once
N_PIECES = 3
LINE = 64  # bytes of a cache line

_LOWER_HALF = np.uint32(0x8000)
_UPPER = np.uint32(0xFFFF0000)
_MAGNITUDE = np.uint32(0x7FFFFFFF)


def is_known() -> bool:
    """Whether the compiler knows the unit of this processor."""
    features = llvm.get_host_cpu_features()
    return bool(features.get("amx-tile") and features.get("amx-bf16"))


def pack(weight: Floats, memory: WeightMemory) -> Panels:
    """Put a weight (outputs, inputs) in order: (n_panels, steps, pieces, 2, 16, 32) of 32 outputs a panel."""
    outputs, inputs = weight.shape
    given = np.ascontiguousarray(weight).view(np.uint32)
    n_pieces = _n_pieces(given)
    values = memory.array((-(-outputs // BLOCK), -(-inputs // DEPTH), n_pieces, 2, ROWS, DEPTH), np.uint16)
    share_range(lambda first, last: _split_weight(given, first, last, values), len(values), weight.size)
    return Panels(values, outputs, inputs, n_pieces)


def prepared_size(rows: int, inputs: int) -> int:
    """Bytes of inputs in the form that the product reads."""
    return -(-rows // BLOCK) * -(-inputs // DEPTH) * N_PIECES * 2 * TILE_BYTES


@compiled()
def _piece(bits: np.uint32, place: int) -> np.uint32:
    """The number's largest piece, to nearest, as bits of a float32; the third is what is left."""
    return np.uint32((np.uint32(bits + _LOWER_HALF) if place < N_PIECES - 1 else bits) & _UPPER)


@compiled()
def _rest(bits: np.uint32, piece: np.uint32) -> np.uint32:
    rest = np.float32(np.uint32(bits).view(np.float32) - np.uint32(piece).view(np.float32))
    return np.float32(rest).view(np.uint32)


@compiled()
def _n_pieces(weight: NDArray[np.uint32]) -> int:
    """How many pieces the numbers of a weight, given as bits, have at most."""
    most = 1
    for row in range(weight.shape[0]):
        second = third = np.uint32(0)
        for i in range(weight.shape[1]):
            rest = _rest(weight[row, i], _piece(weight[row, i], 0))
            second = np.uint32(second | rest)
            third = np.uint32(third | _rest(rest, _piece(rest, 1)))
        if third & _MAGNITUDE:
            return 3
        if second & _MAGNITUDE:
            most = 2
    return most


@compiled()
def _split_part(inputs: NDArray[np.uint32], a: Halves, b: Halves, c: Halves) -> None:
    """Some numbers of one row into their pieces."""
    for i in range(inputs.size):
        one = _piece(inputs[i], 0)
        rest = _rest(inputs[i], one)
        two = _piece(rest, 1)
        a[i] = one >> np.uint32(16)
        b[i] = two >> np.uint32(16)
        c[i] = _rest(rest, two) >> np.uint32(16)


@compiled()
def _split_weight(weight: NDArray[np.uint32], first: int, last: int, values: Halves) -> None:
    """Panels first to last: a tile holds pairs of inputs one below the other, and 16 outputs side by side."""
    outputs, inputs = weight.shape
    pieces = np.zeros((N_PIECES, DEPTH), np.uint16)
    pairs, by_pair = pieces.view(np.uint32), values.view(np.uint32)
    for panel in range(first, last):
        for step in range(values.shape[1]):
            tiles, width = by_pair[panel, step], min(DEPTH, inputs - step * DEPTH)
            tiles[:] = 0
            pieces[:] = 0
            for j in range(min(BLOCK, outputs - panel * BLOCK)):
                row = weight[panel * BLOCK + j, step * DEPTH : step * DEPTH + width]
                _split_part(row, pieces[0], pieces[1], pieces[2])
                for place in range(tiles.shape[0]):
                    for i in range(DEPTH // 2):
                        tiles[place, j // ROWS, i, j % ROWS] = pairs[place, i]


@cfunc(PREPARE, cache=True)
def prepare(inputs: int, prepared: int, n_inputs: int, rows: int, first: int, last: int) -> None:
    """As `compiled_panels` says: tiles of 16 rows and 32 inputs, of each piece; zeros past the last row or input."""
    given = carray(as_pointer(inputs), (rows, n_inputs), np.uint32)
    steps, blocks = (n_inputs + DEPTH - 1) // DEPTH, (rows + BLOCK - 1) // BLOCK
    pieces = carray(as_pointer(prepared), (blocks, steps, N_PIECES, 2, ROWS, DEPTH), np.uint16)
    for row in range(first, last if last < rows else blocks * BLOCK):
        block, half, r = row // BLOCK, row % BLOCK // ROWS, row % ROWS
        for step in range(steps):
            start = step * DEPTH
            a, b, c = (
                pieces[block, step, 0, half, r],
                pieces[block, step, 1, half, r],
                pieces[block, step, 2, half, r],
            )
            width = min(DEPTH, n_inputs - start) if row < rows else 0
            if width == DEPTH:
                _split_part(given[row, start : start + DEPTH], a, b, c)
                continue
            a[:] = 0
            b[:] = 0
            c[:] = 0
            if width:
                _split_part(given[row, start:n_inputs], a, b, c)


# Tile registers: 0 to 3 sums (two of rows times two of outputs), 4 and 5 inputs, 6 and 7 weights.
_SUMS, _INPUTS, _WEIGHTS = ((0, 1), (2, 3)), (4, 5), (6, 7)


def _call(builder: Any, name: str, *arguments: Any) -> None:
    """Call one of LLVM's intrinsics that return nothing."""
    known = builder.module.globals.get(name)
    kind = ir.FunctionType(ir.VoidType(), [argument.type for argument in arguments])
    builder.call(known or ir.Function(builder.module, kind, name), arguments)


def _register(number: int) -> Any:
    return ir.Constant(ir.IntType(8), number)


def _pointer(builder: Any, address: Any, offset: int = 0) -> Any:
    return builder.inttoptr(
        builder.add(address, ir.Constant(address.type, offset)), ir.IntType(8).as_pointer()
    )


def _instructions(generate: Callable[..., None]) -> Any:
    """A function of nothing for compiled code, made of `generate(builder)`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        generate(builder)
        return context.get_dummy_value()

    return instruction(lambda typing: (types.void(), codegen))


def _instructions_at(generate: Callable[..., None]) -> Any:
    """The same of an address: `generate(builder, address)`."""

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        generate(builder, *arguments)
        return context.get_dummy_value()

    return instruction(lambda typing, address: (types.void(types.intp), codegen))


def _load(register: int) -> Any:
    """A function that loads a tile."""

    def generate(builder: Any, address: Any) -> None:
        stride = ir.Constant(address.type, 2 * DEPTH)
        _call(builder, "llvm.x86.tileloadd64", _register(register), _pointer(builder, address), stride)

    return _instructions_at(generate)


def _multiply_tiles(row: int) -> Any:
    """A function that multiplies one of the two tiles of inputs by both tiles of weights, into the sums."""

    def generate(builder: Any) -> None:
        for column in range(2):
            registers = (_SUMS[row][column], _INPUTS[row], _WEIGHTS[column])
            _call(builder, "llvm.x86.tdpbf16ps", *map(_register, registers))

    return _instructions(generate)


def _store(builder: Any, out: Any) -> None:
    """Write the four sums to (32, 32) numbers."""
    stride = ir.Constant(out.type, BLOCK * 4)
    for row in range(2):
        for column in range(2):
            place = _pointer(builder, out, (row * ROWS * BLOCK + column * ROWS) * 4)
            _call(builder, "llvm.x86.tilestored64", _register(_SUMS[row][column]), place, stride)


def _zero(builder: Any) -> None:
    for register in range(4):
        _call(builder, "llvm.x86.tilezero", _register(register))


def _prefetch(builder: Any, address: Any) -> None:
    """Ask for a cache line."""
    to_read, nearest, of_data = (ir.Constant(ir.IntType(32), value) for value in (0, 3, 1))
    _call(builder, "llvm.prefetch.p0", _pointer(builder, address), to_read, nearest, of_data)


_configure = _instructions_at(
    lambda builder, told: _call(builder, "llvm.x86.ldtilecfg", _pointer(builder, told))
)
_release = _instructions(lambda builder: _call(builder, "llvm.x86.tilerelease"))
_zero_sums, _store_sums, _fetch = _instructions(_zero), _instructions_at(_store), _instructions_at(_prefetch)
_load_inputs, _load_more_inputs = (_load(register) for register in _INPUTS)
_load_weights, _load_more_weights = (_load(register) for register in _WEIGHTS)
_multiply_inputs, _multiply_more_inputs = _multiply_tiles(0), _multiply_tiles(1)


@compiled()
def _take(inputs: int, weights: int, two: bool, ahead: int, lines: int) -> int:
    """Multiply a piece of the inputs, of one tile of rows or two, by a piece of the weights, into the sums.

    0 instead of an address stands for the piece that was loaded last. Asks for so many cache lines from `ahead` on,
    and returns the address behind them.
    """
    if inputs:
        _load_inputs(inputs)
        if two:
            _load_more_inputs(inputs + TILE_BYTES)
    if weights:
        _load_weights(weights)
        _load_more_weights(weights + TILE_BYTES)
    _multiply_inputs()
    if two:
        _multiply_more_inputs()
    for line in range(lines):
        _fetch(ahead + LINE * line)
    return ahead + LINE * lines


@compiled()
def _block(inputs: int, weights: int, steps: int, two: bool, pieces: int, ahead: int, lines: int) -> int:
    """Sum one block over all steps; the same pieces for each weight's number of pieces, the smallest products first.

    Asks for so many cache lines with each product of pieces; returns the address behind them.
    """
    piece = 2 * TILE_BYTES
    _zero_sums()
    for _ in range(steps):
        if pieces == 1:
            ahead = _take(inputs + 2 * piece, weights, two, ahead, lines)
            ahead = _take(inputs + piece, 0, two, ahead, lines)
        else:
            if pieces == 2:
                ahead = _take(inputs, weights + piece, two, ahead, lines)
            else:
                ahead = _take(inputs, weights + 2 * piece, two, ahead, lines)
                ahead = _take(0, weights + piece, two, ahead, lines)
            ahead = _take(inputs + piece, 0, two, ahead, lines)
            ahead = _take(0, weights, two, ahead, lines)
            ahead = _take(inputs + 2 * piece, 0, two, ahead, lines)
        ahead = _take(inputs, 0, two, ahead, lines)
        inputs += N_PIECES * piece
        weights += pieces * piece
    return ahead


@cfunc(MULTIPLY, cache=True)
def multiply(
    inputs: int, prepared: int, rows: int, record: int, first: int, last: int, out: int, add: int
) -> None:
    """As `compiled_panels` says."""
    told = record_at(record)
    steps, pieces, outputs = told[STEPS], told[PIECES], told[OUTPUTS]
    n_blocks = (rows + BLOCK - 1) // BLOCK
    panel_bytes, block_bytes = steps * pieces * 2 * TILE_BYTES, steps * N_PIECES * 2 * TILE_BYTES
    n_products = 2 * pieces if pieces == 3 else 2 * pieces + 1  # of pieces, a step
    lines = -(-panel_bytes // LINE // (steps * n_blocks * n_products))  # of the next panel, with each of them
    target = rows_at(out, rows, outputs)
    found = np.empty((BLOCK, BLOCK), np.float32)
    configuration = np.zeros(LINE, np.uint8)  # eight tiles of 16 rows of 64 bytes
    configuration[0] = 1  # the palette
    configuration[16:32:2] = 2 * DEPTH  # bytes a row, 16 bits each
    configuration[48:56] = ROWS
    _configure(configuration.ctypes.data)
    for panel in range(first, last):
        weights = told[VALUES] + panel * panel_bytes
        ahead = weights + panel_bytes
        width = min(BLOCK, outputs - panel * BLOCK)
        for block in range(n_blocks):
            n_rows = min(BLOCK, rows - block * BLOCK)
            two = n_rows > ROWS
            ahead = _block(prepared + block * block_bytes, weights, steps, two, pieces, ahead, lines)
            _store_sums(found.ctypes.data)
            deliver(found, n_rows, width, told[BIAS], target, block * BLOCK, panel * BLOCK, add)
    _release()
