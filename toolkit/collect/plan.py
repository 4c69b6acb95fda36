"""Which sequences are wanted, which are missing, and which shard a prompt belongs to."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise

from toolkit.collect.settings import Settings
from toolkit.generation.plans import PromptPlan
from toolkit.records import Kind, PromptRecord
from toolkit.store.lock import Shard

Key = tuple[str, str, int]

WHOLE_PROMPTS = 4  # a share; with fewer, each prompt's sequences are divided among the shares


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


def deal(plans: Sequence[PromptPlan], n: int) -> list[list[PromptPlan]]:
    """Deal sequences out to n shares that have about as many each.

    Whole prompts where there are enough of them, since each share reads its prompts; else some sequences of each
    prompt to each share. The hypotheses of a beam search stay together.
    """
    shares: list[list[PromptPlan]] = [[] for _ in range(n)]
    sizes = [0] * n
    whole = len(plans) >= WHOLE_PROMPTS * n
    for plan in plans:
        for piece in [plan] if whole else _pieces(plan, n):
            place = sizes.index(min(sizes))
            shares[place].append(piece)
            sizes[place] += len(piece.sequences)
    return shares


def _pieces(plan: PromptPlan, n: int) -> list[PromptPlan]:
    """A plan's sequences in at most n pieces of about one size, all beams in one."""
    beams = [one for one in plan.sequences if one[0] == "beam"]
    others = [one for one in plan.sequences if one[0] != "beam"]
    edges = [len(others) * i // n for i in range(n + 1)]
    pieces = [others[start:end] for start, end in pairwise(edges)]
    return [plan._replace(sequences=piece) for piece in (beams, *pieces) if piece]
