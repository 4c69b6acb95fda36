"""A step's attention: rotary embedding, the rows' new positions, and attention over prompt and own text.

`CompiledRows` where Numba is installed, else `PlainRows`; both give the same within rounding. An object is of one
step and serves all its layers. Knows nothing of models, tokens or MLX.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from toolkit.generation.kernels import can_compile
from toolkit.generation.numpy_kernels import (
    Angles,
    Floats,
    Rotary,
    SharedPrefix,
    attend_rows,
)
from toolkit.generation.row_passes import workspace
from toolkit.generation.threads import n_threads, run_together

Indices = NDArray[np.intp]
Places = dict[int, tuple[Indices, Indices]]  # block of positions: rows that write there, and where in it

MIN_SHARE = 16  # rows from which a thread of its own pays


class Heads(NamedTuple):
    """What a layer hands over for the new position of each row, before the rotary embedding."""

    queries: Floats  # (rows, heads, head_dim)
    keys: Floats  # (rows, kv_heads, head_dim)
    values: Floats  # (rows, kv_heads, value_dim)


class Stored(NamedTuple):
    """A layer's own keys and values of all rows: blocks of (slots, kv_heads, block_size, dim)."""

    keys: list[Floats]
    values: list[Floats]


class RowStep(Protocol):
    """One step of n rows."""

    def __init__(
        self, starts: Indices, own: Indices, members: Sequence[Indices], block_size: int
    ) -> None: ...

    def attend(
        self,
        heads: Heads,
        rotary: Rotary | None,
        stored: Stored,
        shared: Sequence[SharedPrefix],
        scale: float,
    ) -> Floats:
        """Attention (rows, heads, value_dim); writes the new keys and values behind each row's own."""


class PlainRows:
    """In NumPy.

    Parameters
    ----------
    starts : (n,) positions of each row's prompt
    own : (n,) own positions that each row holds already
    members : the rows of each prompt, disjoint, all of 0..n-1
    block_size : own positions of a row in one array of `Stored`
    """

    def __init__(self, starts: Indices, own: Indices, members: Sequence[Indices], block_size: int) -> None:
        self._own = own.copy()
        self._angles = Angles(starts + own)
        self._places = _places(np.arange(len(own)), own, block_size)

    def attend(
        self,
        heads: Heads,
        rotary: Rotary | None,
        stored: Stored,
        shared: Sequence[SharedPrefix],
        scale: float,
    ) -> Floats:
        """As `RowStep.attend`."""
        n = len(self._own)
        by_head = (heads.queries.swapaxes(0, 1), heads.keys.swapaxes(0, 1))
        queries, new = (array.swapaxes(0, 1) for array in self._angles.rotate(rotary, *by_head))
        for block, (rows, place) in self._places.items():
            for room, given in ((stored.keys[block], new), (stored.values[block], heads.values)):
                # One flat index of whole heads is much quicker than one of rows and positions.
                flat = (rows[:, None] * given.shape[1] + np.arange(given.shape[1])) * room.shape[2] + place[
                    :, None
                ]
                room.reshape(-1, given.shape[2])[flat] = given[rows]
        keys, values = ([block[:n] for block in blocks] for blocks in stored)
        return attend_rows(queries, keys, values, self._own + 1, shared, scale)


class _Share(NamedTuple):
    """The rows of one thread."""

    rows: Indices
    of_prefix: list[Indices]  # those that continue each prompt
    places: Places
    blocks: list[
        tuple[Indices, Indices]
    ]  # of each block of own positions: rows that reach it, positions in it


class CompiledRows:
    """By the kernels of `compiled_attention`, the rows shared out over threads. Parameters as of `PlainRows`."""

    def __init__(self, starts: Indices, own: Indices, members: Sequence[Indices], block_size: int) -> None:
        self._n = len(own)
        self._angles = Angles(starts + own)
        self._space = workspace()
        # Rows of one prompt stay together, so that each thread reads few prompts.
        order = np.concatenate(members)
        n_shares = max(1, min(n_threads(), len(order) // MIN_SHARE))
        self._shares = [_share(rows, own, members, block_size) for rows in np.array_split(order, n_shares)]

    def attend(
        self,
        heads: Heads,
        rotary: Rotary | None,
        stored: Stored,
        shared: Sequence[SharedPrefix],
        scale: float,
    ) -> Floats:
        """As `RowStep.attend`; what it returns is valid until the next call."""
        given = Heads(*map(np.ascontiguousarray, heads))
        space = self._space
        shape = given.queries.shape[:2]
        maximum, total = space.array("maximum", shape), space.array("total", shape)
        maximum.fill(-np.inf)
        total.fill(0)
        out = space.array("attention", (*shape, given.values.shape[2]))
        out.fill(0)
        state = _State(
            given,
            space.array("queries", given.queries.shape),
            space.array("keys", given.keys.shape),
            self._angles.of(rotary),
            rotary is not None and rotary.traditional,
            (maximum, total, out),
        )
        run_together(
            [functools.partial(_attend_share, share, state, stored, shared, scale) for share in self._shares]
        )
        return out


class _State(NamedTuple):
    given: Heads
    queries: Floats  # rotated and scaled
    keys: Floats  # rotated
    angles: tuple[Floats, Floats]
    traditional: bool
    softmax: tuple[Floats, Floats, Floats]  # maximum and total (rows, heads), sum of values


def _attend_share(
    share: _Share, state: _State, stored: Stored, shared: Sequence[SharedPrefix], scale: float
) -> None:
    from toolkit.generation import compiled_attention as kernels

    turn = (*state.angles, state.traditional)
    kernels.rotate_rows(share.rows, state.given.queries, *turn, scale, state.queries)
    kernels.rotate_rows(share.rows, state.given.keys, *turn, 1.0, state.keys)
    for block, (rows, places) in share.places.items():
        kernels.write_rows(rows, places, state.keys, stored.keys[block])
        kernels.write_rows(rows, places, state.given.values, stored.values[block])
    for rows, prefix in zip(share.of_prefix, shared, strict=True):
        if rows.size:
            kernels.attend_prefix(rows, state.queries, prefix.keys, prefix.values, *state.softmax)
    for (rows, counts), keys, values in zip(share.blocks, stored.keys, stored.values, strict=False):
        kernels.attend_own(rows, counts, state.queries, keys, values, *state.softmax)
    _, total, out = state.softmax
    kernels.divide_rows(share.rows, total, out)


def _share(rows: Indices, own: Indices, members: Sequence[Indices], block_size: int) -> _Share:
    counts = own[rows] + 1
    blocks = []
    for start in range(0, int(counts.max()), block_size):
        reach = counts > start
        blocks.append((rows[reach], np.minimum(counts[reach] - start, block_size)))
    of_prefix = [one[np.isin(one, rows)] for one in members]
    return _Share(rows, of_prefix, _places(rows, own[rows], block_size), blocks)


def _places(rows: Indices, own: Indices, block_size: int) -> Places:
    """Where each row's new position goes."""
    blocks, places = np.divmod(own, block_size)
    return {block: (rows[blocks == block], places[blocks == block]) for block in np.unique(blocks).tolist()}


def row_step() -> type[RowStep]:
    """The implementation to use."""
    return CompiledRows if can_compile() else PlainRows
