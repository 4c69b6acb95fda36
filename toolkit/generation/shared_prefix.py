"""A batch whose rows share their prompt's keys and values: the CPU's cache.

A prompt is prefilled once into a `Prompt`; a row that continues it points there and keeps only its own
positions, so forking copies nothing, a row that ends is replaced in place, and no step copies a cache.
Attention is in NumPy. Knows token ids and positions, nothing of sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from toolkit.generation.forward import Forward
from toolkit.generation.logits_rows import LogitsRows
from toolkit.generation.numpy_kernels import (
    KEY_BLOCK,
    Floats,
    Rotary,
    SharedPrefix,
    attend_prompt,
    attend_rows,
)
from toolkit.generation.patches import (
    Position,
    Unsupported,
    has_plain_rotary,
    imported_names,
    patched,
    to_numpy,
)

PREFILL_CHUNK = 128  # positions at a time: 6.5 s became 2.0 s for 1,000 tokens against one go
MIN_ROWS = 8  # of a step: a matrix product of fewer rows may add up in another order, and gains little


@dataclass(eq=False)
class Prompt:
    """The prefilled keys and values of a prompt, a pair a layer: (kv_heads, length, dim)."""

    length: int
    layers: list[tuple[Floats, Floats]] = field(default_factory=list)


class _Angles:
    """Rotary angles of the positions of one forward pass, the same for all layers."""

    def __init__(self, positions: NDArray[np.intp]) -> None:
        self._positions = positions
        self._found: dict[Rotary, tuple[Floats, Floats]] = {}

    def rotate(self, position: Position, queries: Floats, keys: Floats) -> tuple[Floats, Floats]:
        """Rotate what a layer's own embedding left to us; heads (..., n, head_dim)."""
        rotary = position.rotary
        if rotary is None:
            return queries, keys
        if rotary not in self._found:
            self._found[rotary] = rotary.angles(self._positions)
        cos, sin = self._found[rotary]
        return rotary.rotate(queries, cos, sin), rotary.rotate(keys, cos, sin)


class _Prefill:
    """Stands for the caches while a text of known length is read in chunks, from what was read before."""

    def __init__(self, length: int, n_layers: int, before: Prompt | None, defers_rotary: bool) -> None:
        self.length = length
        self.defers_rotary = defers_rotary
        self._angles: tuple[int, _Angles] | None = None
        filled = [None] * n_layers if before is None else before.layers
        self.layers = [_PrefillLayer(self, one) for one in filled]

    def angles(self, start: int, end: int) -> _Angles:
        """Of positions start to end; kept while they are asked for."""
        if self._angles is None or self._angles[0] != start:
            self._angles = start, _Angles(np.arange(start, end))
        return self._angles[1]


class _PrefillLayer:
    """A layer's part of a prefill."""

    def __init__(self, prefill: _Prefill, before: tuple[Floats, Floats] | None) -> None:
        self._prefill = prefill
        self._keys: Floats | None = None
        self._values: Floats | None = None
        self._position = Position()
        self._n = 0  # positions read
        if before is not None:
            self._put(*before)

    @property
    def offset(self) -> Any:
        return self._position if self._prefill.defers_rotary else self._n

    def make_mask(self, n: int, window_size: int | None = None, **_: Any) -> None:
        if window_size is not None:
            raise Unsupported("a sliding window over a plain cache")

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        self._new = keys, values  # evaluated with the queries, in one go
        return keys, values

    def attend(self, queries: mx.array, scale: float) -> mx.array:
        mx.eval(queries, *self._new)
        q, new_keys, new_values = (to_numpy(array)[0] for array in (queries, *self._new))
        angles = self._prefill.angles(self._n, self._n + q.shape[1])
        q, new_keys = angles.rotate(self._position, q, new_keys)
        self._put(new_keys, new_values)
        keys, values = self.filled()
        out = attend_prompt(q, keys[:, : self._n], values[:, : self._n], scale)
        return mx.array(out[None]).astype(queries.dtype)

    def _put(self, new_keys: Floats, new_values: Floats) -> None:
        """Put more positions behind those that were read."""
        if self._keys is None or self._values is None:
            room = self._prefill.length
            self._keys = np.empty((new_keys.shape[0], room, new_keys.shape[2]), np.float32)
            self._values = np.empty((new_values.shape[0], room, new_values.shape[2]), np.float32)
        end = self._n + new_keys.shape[1]
        self._keys[:, self._n : end] = new_keys
        self._values[:, self._n : end] = new_values
        self._n = end

    def filled(self) -> tuple[Floats, Floats]:
        if self._keys is None or self._values is None:
            raise Unsupported("a layer that keeps no keys")
        return self._keys, self._values


class _RowLayer:
    """A layer's own keys and values, a row each, and its part in one step.

    They are kept in blocks of positions, so that room is made without a copy of what is there.
    """

    def __init__(self, batch: SharedPrefixBatch, layer: int) -> None:
        self._batch = batch
        self._layer = layer
        self._position = Position()
        self._keys: list[Floats] = []  # (slots, kv_heads, KEY_BLOCK, dim) each
        self._values: list[Floats] = []

    @property
    def offset(self) -> Any:
        return self._position if self._batch.defers_rotary else self._batch.offset

    def make_mask(self, n: int, window_size: int | None = None, **_: Any) -> None:
        if window_size is not None:
            raise Unsupported("a sliding window over a plain cache")

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        self._new = keys, values  # evaluated with the queries, in one go
        return keys, values

    def attend(self, queries: mx.array, scale: float) -> mx.array:
        mx.eval(queries, *self._new)
        n = len(self._batch)
        q, new_keys, new_values = (to_numpy(array)[:n, :, 0] for array in (queries, *self._new))
        q, new_keys = self._batch.rotate(self._position, q, new_keys)
        self._write(new_keys, new_values)
        prefixes = [SharedPrefix(rows, *prompt.layers[self._layer]) for prompt, rows in self._batch.groups]
        keys, values = ([block[:n] for block in blocks] for blocks in (self._keys, self._values))
        out = attend_rows(q, keys, values, self._batch.own[:n] + 1, prefixes, scale)
        padded = np.zeros((queries.shape[0], *out.shape[1:]), np.float32)
        padded[:n] = out
        return mx.array(padded[:, :, None]).astype(queries.dtype)

    def _write(self, keys: Floats, values: Floats) -> None:
        """Put each row's new position after its own ones."""
        places = self._batch.places
        while len(self._keys) <= max(places):
            for stored, new in ((self._keys, keys), (self._values, values)):
                shape = (self._batch.slots, new.shape[1], KEY_BLOCK, new.shape[2])
                stored.append(np.zeros(shape, np.float32))
        for block, (rows, place) in places.items():
            for room, new in ((self._keys[block], keys), (self._values[block], values)):
                # One flat index of whole heads is much quicker than one of rows and positions.
                heads = (rows[:, None] * new.shape[1] + np.arange(new.shape[1])) * KEY_BLOCK + place[:, None]
                room.reshape(-1, new.shape[2])[heads] = new[rows]

    def copy_rows(self, source: NDArray[np.intp], target: NDArray[np.intp], width: int) -> None:
        """Rows `target` become copies of rows `source`, up to a position."""
        for stored in (self._keys, self._values):
            for block in stored[: -(-width // KEY_BLOCK)]:
                block[target] = block[source]


class SharedPrefixBatch(LogitsRows):
    """Rows 0..n-1 of a running batch, over a network whose layers all keep plain keys and values.

    Parameters
    ----------
    forward : the network, as logits
    slots : the most rows at once
    """

    def __init__(self, forward: Forward, slots: int) -> None:
        self.slots = slots
        self._forward = forward
        self._names = imported_names(forward.network)
        self.defers_rotary = has_plain_rotary(forward.network)
        self._layers = [_RowLayer(self, i) for i in range(len(forward.network.layers))]
        self._prompts: list[Prompt] = []  # of row i
        self.own = np.zeros(slots, np.intp)  # own positions that row i holds
        self.groups: list[tuple[Prompt, NDArray[np.intp]]] = []
        self.offset = mx.array(0)
        self.places: dict[int, tuple[NDArray[np.intp], NDArray[np.intp]]] = {}  # block: rows, positions in it
        self._angles = _Angles(np.zeros(0, np.intp))

    def __len__(self) -> int:
        return len(self._prompts)

    def prefill(self, token_ids: Sequence[int]) -> tuple[Prompt, mx.array]:
        """Read a prompt; its keys and values, and the logits after its last token, (1, vocabulary)."""
        layers = self._prefilling(len(token_ids), None).layers
        with patched(self._names):
            logits = self._forward.prefill(token_ids, layers, PREFILL_CHUNK)
        return Prompt(len(token_ids), [layer.filled() for layer in layers]), logits

    def read(self, prompt: Prompt, token_ids: Sequence[int], chunk: int) -> Iterator[mx.array]:
        """Read given tokens after a prompt, in chunks; logits (n, vocabulary) after each token of a chunk.

        The prompt and the rows of the batch stay as they are.
        """
        layers = self._prefilling(prompt.length + len(token_ids), prompt).layers
        for start in range(0, len(token_ids), chunk):
            with patched(self._names):
                logits = self._forward.all_logits(token_ids[start : start + chunk], layers)
                mx.eval(logits)
            yield logits

    def admit(self, prompts: Sequence[Prompt]) -> None:
        """New rows at the end, one a prompt given."""
        n = len(self._prompts)
        if n + len(prompts) > self.slots:
            raise IndexError(f"{n} + {len(prompts)} rows do not fit in {self.slots} slots")
        self.own[n : n + len(prompts)] = 0
        self._prompts.extend(prompts)

    def replace(self, rows: Sequence[int], prompts: Sequence[Prompt]) -> None:
        """Let other sequences take these rows."""
        for row, prompt in zip(rows, prompts, strict=True):
            self.own[row] = 0
            self._prompts[row] = prompt

    def select(self, rows: Sequence[int]) -> None:
        """Row i becomes a copy of what row rows[i] was; rows past the end of the list go."""
        order = np.array(rows, np.intp)
        moved = np.flatnonzero(order != np.arange(len(order)))
        source = order[moved]
        width = int(self.own[source].max(initial=0))
        for layer in self._layers:
            layer.copy_rows(source, moved, width)
        self.own[moved] = self.own[source]
        self._prompts = [self._prompts[i] for i in rows]

    def step(self, token_ids: Sequence[int]) -> mx.array:
        """Feed one token a row; logits (rows, vocabulary), not yet evaluated."""
        n = len(self._prompts)
        positions = np.array([prompt.length for prompt in self._prompts]) + self.own[:n]
        padding = [0] * max(0, MIN_ROWS - n)
        self.offset = mx.array([*positions.tolist(), *padding])
        self._angles = _Angles(positions)
        self.groups = self._group()
        self.places = self._find_places()
        with patched(self._names):
            logits = self._forward.logits(mx.array([*token_ids, *padding])[:, None], self._layers)
        self.own[:n] += 1
        return logits[:n] if padding else logits

    def rotate(self, position: Position, queries: Floats, keys: Floats) -> tuple[Floats, Floats]:
        """Rotate the new position of each row; heads (rows, n_heads, head_dim)."""
        q, k = self._angles.rotate(position, queries.swapaxes(0, 1), keys.swapaxes(0, 1))
        return q.swapaxes(0, 1), k.swapaxes(0, 1)

    def _prefilling(self, length: int, before: Prompt | None) -> _Prefill:
        return _Prefill(length, len(self._layers), before, self.defers_rotary)

    def _find_places(self) -> dict[int, tuple[NDArray[np.intp], NDArray[np.intp]]]:
        blocks, places = np.divmod(self.own[: len(self)], KEY_BLOCK)
        found = {}
        for block in np.unique(blocks).tolist():
            rows = np.flatnonzero(blocks == block)
            found[block] = rows, places[rows]
        return found

    def _group(self) -> list[tuple[Prompt, NDArray[np.intp]]]:
        rows: dict[int, list[int]] = {}
        for i, prompt in enumerate(self._prompts):
            rows.setdefault(id(prompt), []).append(i)
        return [(self._prompts[members[0]], np.array(members)) for members in rows.values()]
