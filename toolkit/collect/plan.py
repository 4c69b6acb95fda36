"""Which sequences are wanted, which are missing, and which shard a prompt belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence

from toolkit.collect.settings import Settings
from toolkit.generation.plans import PromptPlan
from toolkit.records import Kind, PromptRecord
from toolkit.store.lock import Shard

Key = tuple[str, str, int]


def wanted_sequences(settings: Settings) -> list[tuple[Kind, int]]:
    """(kind, sample_index) of every sequence that a prompt gets; the greedy one first."""
    greedy: list[tuple[Kind, int]] = [("greedy", 0)] if settings.greedy else []
    n_beams = 0 if settings.beam is None else settings.beam.wanted
    beams: list[tuple[Kind, int]] = [("beam", place) for place in range(n_beams)]
    return greedy + [("sample", index) for index in range(settings.num_samples)] + beams


def in_shard(prompt_id: str, shard: Shard | None) -> bool:
    """Whether a prompt is this shard's: by a hash of its id, the same on every host."""
    if shard is None:
        return True
    digest = hashlib.blake2b(prompt_id.encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") % shard.count == shard.index


def missing_sequences(
    prompts: Sequence[PromptRecord], settings: Settings, stored: Collection[Key]
) -> Iterator[PromptPlan]:
    """The prompts that lack sequences, each with those it lacks.

    A beam search gives all its hypotheses at once, and sometimes fewer than wanted: a prompt that has one lacks
    none.
    """
    wanted = wanted_sequences(settings)
    for prompt in prompts:
        lacking = [
            (kind, index)
            for kind, index in wanted
            if (prompt.prompt_id, kind, 0 if kind == "beam" else index) not in stored
        ]
        if lacking:
            yield PromptPlan(prompt.prompt_id, prompt.token_ids.tolist(), lacking)
