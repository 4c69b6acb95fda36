"""Dictionaries of vLLM from token id to log-probability: those of a continuation, and of the prompt's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.collect.fields import LARGEST_ID
from toolkit.collect.json_lines import fail
from toolkit.ingest.given import Likely, Position, Tally, Token
from toolkit.ingest.values import id_of, list_of, logprob_of, object_of, text_of


def positions_of(
    listed: Any, ids: Sequence[int | None], name: str, tally: Tally, where: str
) -> list[Position]:
    """A position for each token id, from a list of dictionaries that are as many."""
    values = list_of(listed, name)
    if len(values) != len(ids):
        fail(f"{name} has {len(values)} positions, and there are {len(ids)} token ids; they must be as many")
    return [_position(value, own, name, tally, where) for value, own in zip(values, ids, strict=True)]


def prompt_positions(listed: Any, ids: Sequence[int], tally: Tally, where: str) -> list[Position]:
    """The positions of a prompt; the first has no dictionary."""
    own: Sequence[int | None] = ids or [_first_id(one) for one in list_of(listed, "prompt_logprobs")]
    return positions_of(listed, own, "prompt_logprobs", tally, where)


def _first_id(value: Any) -> int | None:
    """The prompt's token comes first in its dictionary."""
    first = next(iter(value), None) if isinstance(value, dict) else None
    return id_of(first, "prompt_logprobs")


def _position(value: Any, own: int | None, name: str, tally: Tally, where: str) -> Position:
    if value is None:
        return Position(Token(id=own))
    found = {id_of(key, name): _entry(one, name, tally, where) for key, one in object_of(value, name).items()}
    likely = tuple(Likely(Token(text, None, i), logprob) for i, (logprob, _, text) in found.items())
    if own is None or own not in found:
        return Position(Token(id=own), likely=likely)
    logprob, rank, text = found[own]
    return Position(Token(text, None, own), logprob, rank, likely)


def _entry(value: Any, name: str, tally: Tally, where: str) -> tuple[float, int, str | None]:
    """Log-probability, rank (0 where it is not given) and text; older versions give the number alone."""
    if not isinstance(value, Mapping):
        return logprob_of(value, name, tally, where), 0, None
    rank, text = value.get("rank"), value.get("decoded_token")
    if rank is not None and (type(rank) is not int or not 1 <= rank <= LARGEST_ID):
        fail(f"rank in {name} is {rank!r:.40}; a rank is 1 or more")
    return (
        logprob_of(value.get("logprob"), f"logprob in {name}", tally, where),
        rank or 0,
        None if text is None else text_of(text, "decoded_token"),
    )
