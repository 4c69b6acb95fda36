"""A batch over MLX-LM's own caches: for GPUs, and for models whose layers keep more than plain keys and values.

The same operations as `SharedPrefixBatch`. A row that ends is replaced in place where every layer keeps plain
keys and values and the new prompt fits; otherwise by the library's merge, extend and filter, which copy.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import numpy as np
from mlx_lm.models.cache import BatchKVCache, CacheList, RotatingKVCache, make_prompt_cache

from toolkit.characters import count
from toolkit.errors import ToolkitError
from toolkit.generation.forward import Forward
from toolkit.generation.logits_rows import LogitsRows

PREFILL_CHUNK = 512
TRIM_PADDING = 64  # positions that no row uses before the caches are cut


@dataclass(eq=False)
class LibraryPrompt:
    """A prompt's caches after prefill, one a layer, of one row each."""

    length: int
    layers: list[Any]


def check_batchable(layers: Sequence[Any]) -> None:
    """Refuse caches that cannot be merged into a batch, by name."""
    for layer in layers:
        if isinstance(layer, CacheList):
            check_batchable(layer.caches)
        elif not hasattr(layer, "merge"):
            raise ToolkitError(
                f"model: its cache {type(layer).__name__} cannot be batched; "
                "use a model whose caches can be merged (KVCache, RotatingKVCache, ArraysCache)"
            )
        elif isinstance(layer, RotatingKVCache) and layer.keep:
            raise ToolkitError(
                f"model: its RotatingKVCache keeps the first {count(layer.keep, 'token')}, "
                "which a batch would lose; "
                "use a model without"
            )


class LibraryBatch(LogitsRows):
    """Rows 0..n-1 of a running batch, over merged caches of MLX-LM.

    Parameters
    ----------
    forward : the network, as logits
    slots : the most rows at once
    """

    def __init__(self, forward: Forward, slots: int) -> None:
        self.slots = slots
        self._forward = forward
        self._layers: list[Any] = []
        self._rows = 0
        check_batchable(make_prompt_cache(forward.network))

    def __len__(self) -> int:
        return self._rows

    def prefill(self, token_ids: Sequence[int]) -> tuple[LibraryPrompt, mx.array]:
        """Read a prompt; its caches, and the logits after its last token, (1, vocabulary)."""
        layers = make_prompt_cache(self._forward.network)
        logits = self._forward.prefill(token_ids, layers, PREFILL_CHUNK)
        return LibraryPrompt(len(token_ids), layers), logits

    def read(self, prompt: LibraryPrompt, token_ids: Sequence[int], chunk: int) -> Iterator[mx.array]:
        """Read given tokens after a prompt, in chunks; logits (n, vocabulary) after each token of a chunk.

        The prompt and the rows of the batch stay as they are.
        """
        layers = copy.deepcopy(prompt.layers)
        for start in range(0, len(token_ids), chunk):
            logits = self._forward.all_logits(token_ids[start : start + chunk], layers)
            mx.eval(logits)
            yield logits

    def admit(self, prompts: Sequence[LibraryPrompt]) -> None:
        """New rows at the end, one a prompt given."""
        if self._rows + len(prompts) > self.slots:
            raise IndexError(f"{self._rows} + {len(prompts)} rows do not fit in {self.slots} slots")
        merged = [
            type(layer).merge([p.layers[i] for p in prompts]) for i, layer in enumerate(prompts[0].layers)
        ]
        if self._rows:
            for layer, new in zip(self._layers, merged, strict=True):
                layer.extend(new)
        else:
            self._layers = merged
        self._rows += len(prompts)

    def replace(self, rows: Sequence[int], prompts: Sequence[LibraryPrompt]) -> None:
        """Let other sequences take these rows."""
        longest = max(prompt.length for prompt in prompts)
        if all(isinstance(layer, BatchKVCache) and longest <= layer._idx for layer in self._layers):
            for i, layer in enumerate(self._layers):
                for row, prompt in zip(rows, prompts, strict=True):
                    _write_row(layer, row, prompt.layers[i], prompt.length)
            self._trim()
            return
        n = self._rows
        order = list(range(n))
        for j, row in enumerate(rows):
            order[row] = n + j
        slots, self.slots = self.slots, n + len(prompts)
        self.admit(prompts)
        self.slots = slots
        self.select(order)

    def select(self, rows: Sequence[int]) -> None:
        """Row i becomes a copy of what row rows[i] was; rows past the end of the list go."""
        if list(rows) == list(range(self._rows)):
            return
        self._rows = len(rows)
        if not rows:
            self._layers = []
        for layer in self._layers:
            layer.filter(mx.array(list(rows)))

    def step(self, token_ids: Sequence[int]) -> mx.array:
        """Feed one token a row; logits (rows, vocabulary), not yet evaluated."""
        return self._forward.logits(mx.array(list(token_ids))[:, None], self._layers)

    def _trim(self) -> None:
        """Cut positions that every row pads; each finished row leaves some."""
        padding: mx.array = self._layers[0].left_padding  # the same in every layer
        if int(np.array(padding.min())) > TRIM_PADDING:
            for layer in self._layers:
                layer.filter(mx.arange(self._rows))


def _write_row(layer: Any, row: int, cache: Any, length: int) -> None:
    """Put one prompt's keys and values into a row, right-aligned at the batch's position, without a copy."""
    start, end = layer._idx - length, layer._idx
    layer.keys[row : row + 1, :, start:end] = cache.keys[..., :length, :]
    layer.values[row : row + 1, :, start:end] = cache.values[..., :length, :]
    # Not in place: a step that is still being computed may hold the old arrays.
    layer.left_padding = mx.where(mx.arange(layer.left_padding.size) == row, start, layer.left_padding)
    layer.offset = mx.where(mx.arange(layer.offset.size) == row, length, layer.offset)
