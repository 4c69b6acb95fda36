"""Logits after texts of many lengths equal those of each text read alone."""

from __future__ import annotations

import mlx.core as mx
import numpy as np
import pytest

from toolkit.generation.forward import Forward
from toolkit.generation.reading import last_logits

from .networks import make_network

TEXTS = [[5, 3, 8], [1], [7, 7, 2, 9, 4, 4, 1], [2, 6], [3] * 12]


@pytest.mark.parametrize("kind", ["llama", "gemma3", "mamba"])
@pytest.mark.parametrize("most_positions", [1, 9, 1000])
def test_each_text_as_if_read_alone(kind: str, most_positions: int) -> None:
    network = make_network(kind)
    found = list(last_logits(Forward(network), TEXTS, most_positions))
    for text, logits in zip(TEXTS, found, strict=True):
        expected = np.array(network(mx.array([text]))[0, -1].astype(mx.float32))
        np.testing.assert_allclose(logits, expected, atol=2e-4)


def test_no_texts() -> None:
    assert list(last_logits(Forward(make_network("llama")), [])) == []
