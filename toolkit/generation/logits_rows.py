"""What the loops do with rows of MLX logits; the mock model of the tests has the same in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from toolkit.generation.patches import to_numpy


class LogitsRows:
    """Operations on logits (rows, vocabulary); the batches inherit them."""

    def repeat(self, logits: mx.array, n: int) -> mx.array:
        """First logits (1, vocabulary) as n rows, for n sequences of one prompt."""
        return mx.repeat(logits, n, axis=0) if n > 1 else logits

    def take(self, logits: mx.array, rows: NDArray[np.intp]) -> mx.array:
        """Some of the rows, with repeats."""
        return logits[mx.array(rows.astype(np.int32))]

    def logprobs(self, logits: mx.array, changed: mx.array | None) -> NDArray[np.float64]:
        """Log-probabilities in float64, moved by what a processing changed in the logits.

        A masked token's is -inf. They are not normalised again: that a grammar forbids the rest does not make a
        token likelier under the model.
        """
        mx.eval(logits)
        values = to_numpy(logits).astype(np.float64)
        shifted = values - values.max(axis=1, keepdims=True)
        result = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        if changed is None:
            return result
        mx.eval(changed)
        moved = result + (to_numpy(changed) - values)
        return np.asarray(np.where(np.isneginf(to_numpy(changed)), -np.inf, moved))

    def choose(
        self, logits: mx.array, chooser: Callable[[Any], Any], greedy: NDArray[np.bool_]
    ) -> NDArray[np.int32]:
        """Token ids that a user's sampler takes from the log-probabilities; greedy rows take the likeliest."""
        chosen = np.array(chooser(logits - mx.logsumexp(logits, axis=-1, keepdims=True)), np.int32)
        likeliest = np.array(mx.argmax(logits, axis=-1), np.int32)
        bad = ~np.isfinite(np.array(logits.max(axis=-1)))
        return np.where(bad, -1, np.where(greedy, likeliest, chosen)).astype(np.int32)
