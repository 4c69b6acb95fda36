"""What a source gives of a continuation, before it is laid over bytes: plain tuples, the same for every source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan
from typing import Any, NamedTuple

from toolkit.records import FinishReason, Kind, TokenStatistics


class Token(NamedTuple):
    """A token as its source names it; None is what the source does not say."""

    text: str | None = None
    data: bytes | None = None  # its bytes
    id: int | None = None
    special: bool = False  # it has no bytes: an end token, say

    def is_same(self, other: Token) -> bool:
        """Whether two names are of one token: by their ids where both have one."""
        if self.id is not None and other.id is not None:
            return self.id == other.id
        return self[:2] == other[:2] and self[:2] != (None, None)


class Likely(NamedTuple):
    """A token that was likely at a position."""

    token: Token
    logprob: float


class Position(NamedTuple):
    """A token of a continuation and what was believed there; NaN, and rank 0, are not given."""

    token: Token
    logprob: float = nan
    rank: int = 0
    likely: tuple[Likely, ...] = ()
    sampling_logprob: float = nan


@dataclass(frozen=True)
class GivenPrompt:
    """What was asked; its id is what continuations of one prompt share."""

    id: str
    text: str = ""
    messages: Sequence[Mapping[str, Any]] | None = None
    token_ids: Sequence[int] = ()
    reference: Sequence[str] = ()
    metadata: Mapping[str, Any] = field(default_factory=dict)
    positions: Sequence[Position] = ()  # its own tokens, where they were scored
    index: int | None = None  # its place among the prompts, where the source says it


@dataclass(frozen=True)
class Given:
    """A continuation as its source gave it.

    Attributes
    ----------
    where : str
        File and line, for messages.
    text : str or None
        The whole text; None where it is not given.
    null_is_special : bool
        Whether a token without bytes is special: so where the source gives bytes.
    n_likely : int or None
        How many likely tokens were asked for, where that is known and lists may have the token itself at
        their end although it is not among the likely ones; None elsewhere.
    may_append : bool
        Whether lists may have the token itself in addition.
    statistics : TokenStatistics or None
        All of them, where the source gave whole distributions; alternatives are ids then.
    sample_index, has_end, n_bytes, beam_score, seed
        Where the source says them: what this package exported.
    """

    where: str
    prompt: GivenPrompt
    positions: Sequence[Position]
    text: str | None
    finish_reason: FinishReason
    stop_reason: str | None = None
    kind: Kind = "sample"
    model: str | None = None
    sampling: Mapping[str, float] = field(
        default_factory=dict
    )  # temperature, top_p, ...: as they were asked for
    null_is_special: bool = False
    n_likely: int | None = None
    may_append: bool = False
    statistics: TokenStatistics | None = None
    sample_index: int | None = None
    has_end: bool | None = None
    n_bytes: int | None = None
    beam_score: float | None = None
    seed: int | None = None


class LeftOut(NamedTuple):
    """An answer that holds nothing to store, and why."""

    where: str
    reason: str


Items = Iterator[Given | LeftOut]


class Tally:
    """What is told at the end: how often, and where first."""

    def __init__(self) -> None:
        self._found: dict[str, tuple[int, str]] = {}

    def add(self, what: str, where: str, times: int = 1) -> None:
        """Count `what`; a time of 0 counts nothing."""
        if times:
            before, first = self._found.get(what, (0, where))
            self._found[what] = (before + times, first)

    def __getitem__(self, what: str) -> int:
        return self._found.get(what, (0, ""))[0]

    def first(self, what: str) -> str:
        return self._found[what][1]

    def names(self) -> Iterable[str]:
        return self._found
