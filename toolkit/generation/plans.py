"""What is asked of the engine; imports neither MLX nor NumPy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from toolkit.records import Kind


class PromptPlan(NamedTuple):
    """A prompt and the sequences that are wanted of it."""

    prompt_id: str  # with the seed and the sample's index, it keys a sequence's random numbers
    token_ids: Sequence[int]
    sequences: Sequence[tuple[Kind, int]]  # (kind, sample_index); kind "greedy" takes the likeliest token
