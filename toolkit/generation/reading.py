"""What a network says after each of many texts: the logits that follow them, several texts in one pass.

Texts are padded at their ends, which no position before can see, so no cache and no mask is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import mlx.core as mx
import numpy as np
from numpy.typing import NDArray

from toolkit.generation.arrays import to_numpy
from toolkit.generation.forward import Forward
from toolkit.generation.patches import imported_names, patched

MOST_POSITIONS = 2048  # of one pass, padding included


def last_logits(
    forward: Forward, texts: Sequence[Sequence[int]], most_positions: int = MOST_POSITIONS
) -> Iterator[NDArray[np.float32]]:
    """The logits after the last token of each text.

    Parameters
    ----------
    forward : Forward
    texts : sequence of token ids
        None of them empty.
    most_positions : int
        Of one pass, unless a single text is longer.

    Yields
    ------
    (vocabulary,) float32
        In the order of the texts.
    """
    for start, end in _passes([len(text) for text in texts], most_positions):
        ids = [list(text) for text in texts[start:end]]
        width = max(map(len, ids))
        padded = mx.array([text + [text[-1]] * (width - len(text)) for text in ids])
        with patched(imported_names(forward.network)):
            logits = forward.logits_at(padded, [len(text) - 1 for text in ids])
            mx.eval(logits)
        yield from to_numpy(logits)


def _passes(lengths: Sequence[int], most: int) -> Iterator[tuple[int, int]]:
    """Neighbours that go through the network together: (first, end) of each pass."""
    start, width = 0, 0
    for i, length in enumerate(lengths):
        if i > start and max(width, length) * (i + 1 - start) > most:
            yield start, i
            start, width = i, 0
        width = max(width, length)
    if lengths:
        yield start, len(lengths)
