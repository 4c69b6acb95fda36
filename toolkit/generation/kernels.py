"""Chooses between compiled kernels and NumPy's, and shares the former out over threads.

Both give the same within rounding. The compiled ones are there where Numba is installed.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.generation import row_passes
from toolkit.generation.numpy_kernels import Floats, silu_product
from toolkit.generation.threads import n_threads, run_together

MIN_ELEMENTS = 1 << 15  # of an activation, from which a thread of its own pays
# Rows of logits likewise, of passes with exponentials and without: to wake a thread may take a millisecond.
MIN_ROWS, MIN_ROWS_OF_SHORT = 8, 64


@functools.cache
def can_compile() -> bool:
    """Whether Numba is installed, fits the NumPy that is, and is not switched off by $NUMBA_DISABLE_JIT."""
    try:
        from numba.core import config
    except ImportError:
        return False
    return not getattr(config, "DISABLE_JIT", False)


def gated(gate: Floats, up: Floats, out: Floats) -> None:
    """out = silu(gate) * up, elementwise; `out` in one piece."""
    if not can_compile():
        out[...] = silu_product(gate, up)
        return
    from toolkit.generation import compiled_attention

    flat = [np.ascontiguousarray(array).reshape(-1) for array in (gate, up)]
    _share_out(compiled_attention.silu_product, gate.size // MIN_ELEMENTS, *flat, out.reshape(-1))


def gated_rows(both: Floats, out: Floats) -> None:
    """The same of rows that hold gate and up side by side: both (rows, 2 n), out (rows, n). Compiled only."""
    from toolkit.generation import compiled_attention

    _share_out(compiled_attention.gated_rows, out.size // MIN_ELEMENTS, both, out)


def mass_and_moments(
    logits: Floats,
    maxima: Floats,
    block_sums: Floats,
    sums: NDArray[np.float64],
    space: row_passes.Workspace,
    n_top: int = 0,
) -> tuple[NDArray[np.int32], Floats] | None:
    """Fill maxima (n, n_maxima), block_sums (n, n_blocks) and sums (n, 5) of logits (n, V).

    Maxima and blocks are those of `row_passes`: sums of exp(y), y = logit - the row's maximum, over a block, and
    over the row those of y, exp(y) y, exp(y) y y, exp(y / 2) and exp(y / 4). A row with NaN or +inf, or nothing
    but -inf, gets a maximum or sums that are not finite.

    Returns
    -------
    `top` of n_top tokens, found on the way; None where nothing is compiled.
    """
    if not can_compile():
        row_passes.mass_and_moments(logits, maxima, block_sums, sums, space)
        return None
    from toolkit.generation import compiled_passes

    ids, values = np.empty((len(logits), n_top), np.int32), np.empty((len(logits), n_top), np.float32)
    given = (logits, maxima, block_sums, sums, ids, values)
    _share_out(compiled_passes.mass_moments_and_top, len(logits) // MIN_ROWS, *given)
    return ids, values


def mass(
    logits: Floats, maximum: Floats, temperature: float, block_sums: Floats, space: row_passes.Workspace
) -> None:
    """Fill block_sums (n, n_blocks): sums of exp((logits - maximum) / temperature); maximum (n,)."""
    if not can_compile():
        row_passes.mass(logits, maximum, temperature, block_sums, space)
        return
    from toolkit.generation import compiled_passes

    kernel = functools.partial(compiled_passes.mass, 1 / temperature)
    _share_out(kernel, len(logits) // MIN_ROWS, logits, maximum, block_sums)


def top(logits: Floats, maxima: Floats, k: int) -> tuple[NDArray[np.int32], Floats] | None:
    """Ids and logits (n, k) of the largest of each row, (n, V), falling, equal ones by rising id; k is at most V.

    `maxima` (n, n_maxima) are those of `mass_and_moments`. None where nothing is compiled.
    """
    if not can_compile():
        return None
    from toolkit.generation import compiled_passes

    ids, values = np.empty((len(logits), k), np.int32), np.empty((len(logits), k), np.float32)
    _share_out(compiled_passes.top, len(logits) // MIN_ROWS_OF_SHORT, logits, maxima, ids, values)
    return ids, values


def draw(
    logits: Floats,
    maximum: Floats,
    block_sums: Floats,
    temperature: float,
    uniforms: NDArray[np.float64],
) -> NDArray[np.int32] | None:
    """(n,) tokens drawn from exp((logits - maximum) / temperature), by rising id; None where nothing is compiled.

    `block_sums` (n, n_blocks) are those of `mass`, at this temperature.
    """
    if not can_compile():
        return None
    from toolkit.generation import compiled_passes

    ids = np.empty(len(logits), np.int32)
    compiled_passes.draw(1 / temperature, logits, maximum, block_sums, uniforms, ids)
    return ids


def count_above(logits: Floats, values: Floats, space: row_passes.Workspace) -> NDArray[np.int32]:
    """(n,) how many logits of each row are greater than the row's value."""
    if not can_compile():
        return row_passes.count_above(logits, values, space)
    from toolkit.generation import compiled_passes

    counts = np.empty(len(logits), np.int32)
    _share_out(compiled_passes.count_above, len(logits) // MIN_ROWS_OF_SHORT, logits, values, counts)
    return counts


def count_above_each(logits: Floats, values: Floats, space: row_passes.Workspace) -> NDArray[np.int32]:
    """(n, w) how many logits of each row, (n, V), are greater than each of the row's values, (n, w)."""
    if not can_compile():
        return row_passes.count_above_each(logits, values, space)
    from toolkit.generation import compiled_passes

    counts = np.empty(values.shape, np.int32)
    shares = min(len(logits), values.size // MIN_ROWS)
    _share_out(compiled_passes.count_above_each, shares, logits, values, counts)
    return counts


def _share_out(kernel: Callable[..., None], shares: int, *arrays: NDArray[Any]) -> None:
    """Call a kernel with parts of the arrays, split along their first axis into `shares`, or one a thread."""
    n = max(1, min(n_threads(), shares))
    run_together([functools.partial(kernel, *parts) for parts in _split(n, arrays)])


def _split(n: int, arrays: tuple[NDArray[Any], ...]) -> Iterator[list[NDArray[Any]]]:
    edges = [len(arrays[0]) * i // n for i in range(n + 1)]
    for start, end in itertools.pairwise(edges):
        yield [array[start:end] for array in arrays]
