"""A batch whose rows share their prompt's keys and values: the CPU's cache.

A prompt is prefilled once into a `Prompt`; a row that continues it points there and keeps only its own
positions, so forking copies nothing, a row that ends is replaced in place, and no step copies a cache.
Attention is in compiled kernels, or in NumPy. Knows token ids and positions, nothing of sampling.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from toolkit.generation.arrays import to_numpy
from toolkit.generation.forward import Forward
from toolkit.generation.logits_rows import LogitsRows
from toolkit.generation.native import NativeNetwork, NativePrompt, StepRows
from toolkit.generation.numpy_kernels import KEY_BLOCK, Angles, Floats, SharedPrefix, attend_prompt
from toolkit.generation.patches import (
    Position,
    Unsupported,
    has_plain_rotary,
    imported_names,
    patched,
)
from toolkit.generation.row_attention import Heads, RowStep, Stored, row_step

PREFILL_CHUNK = 128  # positions at a time: 6.5 s became 2.0 s for 1,000 tokens against one go
MIN_ROWS = 8  # of a step by a BLAS: its product of fewer rows may add up in another order, and gains little


@dataclass(eq=False)
class Prompt:
    """A prompt that was read. Keys and values are kept plain, or as the native network keeps them."""

    length: int
    plain: list[tuple[Floats, Floats]] = field(default_factory=list)  # a layer: (kv_heads, length, dim)
    native: NativePrompt | None = None

    @property
    def layers(self) -> list[tuple[Floats, Floats]]:
        """Keys and values of each layer, (kv_heads, length, dim)."""
        return self.plain if self.native is None else self.native.layers()


class _Prefill:
    """Stands for the caches while a text of known length is read in chunks, from what was read before."""

    def __init__(self, length: int, n_layers: int, before: Prompt | None, defers_rotary: bool) -> None:
        self.length = length
        self.defers_rotary = defers_rotary
        self._angles: tuple[int, Angles] | None = None
        filled = [None] * n_layers if before is None else before.layers
        self.layers = [_PrefillLayer(self, one) for one in filled]

    def angles(self, start: int, end: int) -> Angles:
        """Of positions start to end; kept while they are asked for."""
        if self._angles is None or self._angles[0] != start:
            self._angles = start, Angles(np.arange(start, end))
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
        q, new_keys = angles.rotate(self._position.rotary, q, new_keys)
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
        self.stored = Stored([], [])

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
        batch, n = self._batch, len(self._batch)
        heads = Heads(*(to_numpy(array)[:n, :, 0] for array in (queries, *self._new)))
        self.make_room(heads.keys.shape[1:], heads.values.shape[1:])
        out = batch.rows_step.attend(heads, self._position.rotary, self.stored, self.shared(), scale)
        if len(out) < queries.shape[0]:
            out = np.concatenate([out, np.zeros((queries.shape[0] - n, *out.shape[1:]), np.float32)])
        return mx.array(out[:, :, None]).astype(queries.dtype)

    def shared(self) -> list[SharedPrefix]:
        """The prompts' keys and values, with the rows that continue them."""
        return [SharedPrefix(rows, *prompt.layers[self._layer]) for prompt, rows in self._batch.groups]

    def make_room(self, keys: tuple[int, ...], values: tuple[int, ...]) -> None:
        """A block more where a row's own positions fill those that there are; (kv_heads, dim) of each."""
        n_blocks = int(self._batch.own[: len(self._batch)].max()) // KEY_BLOCK + 1
        while len(self.stored.keys) < n_blocks:
            for stored, (heads, dim) in ((self.stored.keys, keys), (self.stored.values, values)):
                stored.append(np.zeros((self._batch.slots, heads, KEY_BLOCK, dim), np.float32))

    def copy_rows(self, source: NDArray[np.intp], target: NDArray[np.intp], width: int) -> None:
        """Rows `target` become copies of rows `source`, up to a position."""
        for stored in self.stored:
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
        self.rows_step: RowStep

    def __len__(self) -> int:
        return len(self._prompts)

    def prefill(self, token_ids: Sequence[int]) -> tuple[Prompt, mx.array]:
        """Read a prompt; its keys and values, and the logits after its last token, (1, vocabulary)."""
        if self._forward.native is not None:
            text, logits = self._forward.native.read(np.array(token_ids, np.intp))
            return Prompt(len(token_ids), native=text), logits
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
        starts = np.array([prompt.length for prompt in self._prompts])
        padding = [0] * max(0, MIN_ROWS - n)
        self.groups = self._group()
        if self._forward.native is not None:
            return self._native_step(self._forward.native, token_ids)
        self.offset = mx.array([*(starts + self.own[:n]).tolist(), *padding])
        self.rows_step = row_step()(starts, self.own[:n], [rows for _, rows in self.groups], KEY_BLOCK)
        with patched(self._names):
            logits = self._forward.logits(mx.array([*token_ids, *padding])[:, None], self._layers)
        self.own[:n] += 1
        return logits[:n] if padding else logits

    def _native_step(self, network: NativeNetwork, token_ids: Sequence[int]) -> mx.array:
        n = len(self)
        for layer in self._layers:
            layer.make_room(network.kv_shape, network.kv_shape)
        blocks = [zip(*layer.stored, strict=True) for layer in self._layers]
        rows = StepRows(
            members=[rows for _, rows in self.groups],
            prompts=[prompt.native for prompt, _ in self.groups if prompt.native is not None],
            own=self.own[:n],
            stored=np.array(
                [[[a.ctypes.data for a in pair] for pair in layer] for layer in blocks], np.int64
            ),
            slots=self.slots,
            block_size=KEY_BLOCK,
        )
        logits = network.step(np.array(token_ids, np.intp), rows)
        self.own[:n] += 1
        return logits

    def _prefilling(self, length: int, before: Prompt | None) -> _Prefill:
        return _Prefill(length, len(self._layers), before, self.defers_rotary)

    def _group(self) -> list[tuple[Prompt, NDArray[np.intp]]]:
        rows: dict[int, list[int]] = {}
        for i, prompt in enumerate(self._prompts):
            rows.setdefault(id(prompt), []).append(i)
        return [(self._prompts[members[0]], np.array(members)) for members in rows.values()]
