"""What passes between generation, alignment and store: plain arrays and frozen records.

Imports NumPy only, so that every stage can use it where MLX is not installed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

Kind = Literal["sample", "greedy", "beam", "scored"]
FinishReason = Literal["stop", "length", "context", "error", "cancelled"]

KINDS: tuple[Kind, ...] = ("beam", "greedy", "sample", "scored")
FINISH_REASONS: tuple[FinishReason, ...] = ("stop", "length", "context", "error", "cancelled")


class TokenStatistics(NamedTuple):
    """Statistics of n tokens, each over the whole vocabulary at its position.

    Every field is an array of shape (n,), float32 unless said otherwise; in nats. NaN means not computed
    (null in the tables) and -inf means masked out. Definitions: docs/formulas.md.
    """

    logprob: NDArray[np.float32]  # of the token, from the untouched logits
    constrained_logprob: NDArray[np.float32]  # after processors and grammar masks; NaN where there are none
    sampling_logprob: NDArray[np.float32]  # under the distribution that the token was drawn from
    rank: NDArray[np.int32]  # 1 + the number of logits strictly greater
    entropy: NDArray[np.float32]
    varentropy: NDArray[np.float32]
    logsumexp: NDArray[np.float32]
    mean_logit: NDArray[np.float32]  # over the finite logits
    n_finite: NDArray[np.int32]
    lse_half: NDArray[np.float32]  # logsumexp(logits / 2)
    lse_quarter: NDArray[np.float32]  # logsumexp(logits / 4)
    top1_logprob: NDArray[np.float32]
    top2_logprob: NDArray[np.float32]
    top15_entropy: NDArray[np.float32]  # of the 15 most likely, renormalised
    top20_mean_logprob: NDArray[np.float32]
    boosted_prob: NDArray[np.float32]
    alternative_ids: NDArray[np.int32]  # (n, k), most likely first
    alternative_logprobs: NDArray[np.float32]  # (n, k), falling
    watched_ids: NDArray[np.int32]  # (n, w), rising, the same in every row; no columns where none are watched
    watched_logprobs: NDArray[np.float32]  # (n, w), from the untouched logits; NaN where it was not looked
    watched_ranks: NDArray[np.int32]  # (n, w); 0 where it was not looked

    def rows(self, index: Any) -> TokenStatistics:
        """The same statistics at `index`, anything that indexes an axis of length n."""
        return TokenStatistics(*(column[index] for column in self))

    @staticmethod
    def empty(n_alternatives: int = 0) -> TokenStatistics:
        """Statistics of no tokens."""
        floats, integers = np.empty(0, np.float32), np.empty(0, np.int32)
        columns = {name: floats for name in TokenStatistics._fields}
        return TokenStatistics(**columns)._replace(  # type: ignore[arg-type]
            rank=integers,
            n_finite=integers,
            alternative_ids=np.empty((0, n_alternatives), np.int32),
            alternative_logprobs=np.empty((0, n_alternatives), np.float32),
            **unwatched(0),
        )

    def watching(self, token_ids: NDArray[np.int32]) -> TokenStatistics:
        """The same with these tokens, (w,), as the watched ones, and nothing computed of them."""
        return self._replace(**unwatched(len(self.logprob), token_ids))

    @staticmethod
    def unknown(like: TokenStatistics) -> TokenStatistics:
        """Statistics of one token that were not computed, with as many alternatives as `like` has."""
        return TokenStatistics(
            *(
                np.full((1, *column.shape[1:]), np.nan if column.dtype.kind == "f" else 0, column.dtype)
                for column in like
            )
        )

    @staticmethod
    def concatenate(parts: Sequence[TokenStatistics]) -> TokenStatistics:
        """Join statistics of several stretches of tokens, in order."""
        return TokenStatistics(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))


def unwatched(n: int, token_ids: Sequence[int] | NDArray[np.int32] = ()) -> dict[str, Any]:
    """The watched fields of `TokenStatistics` of n tokens where none of these w ids was looked at."""
    shape = (n, len(token_ids))
    return {
        "watched_ids": np.broadcast_to(np.asarray(token_ids, np.int32), shape).copy(),
        "watched_logprobs": np.full(shape, np.nan, np.float32),
        "watched_ranks": np.zeros(shape, np.int32),
    }


class Segment(NamedTuple):
    """Text that was released together while streaming. All ranges are half-open."""

    text: str
    byte_start: int
    byte_end: int
    char_start: int
    char_end: int
    token_start: int  # token_start:token_end are all tokens with a byte in the segment
    token_end: int
    emitted_at: int  # index of the token whose arrival released it


@dataclass(frozen=True)
class Alignment:
    """How the n tokens of a sequence lie over its bytes, and its text in segments."""

    pieces: tuple[bytes | None, ...]  # a token's bytes; None is a special token, which has none
    byte_start: NDArray[np.int32]  # (n,), over all tokens, also those past n_bytes
    byte_end: NDArray[np.int32]  # (n,)
    text: str  # the first n_bytes bytes, decoded as UTF-8 with the standard replacement
    n_bytes: int  # bytes kept; all, unless a stop string cut the text
    segments: tuple[Segment, ...]


@dataclass(frozen=True)
class SequenceRecord:
    """One continuation of one prompt, as it is stored. Its key is (prompt_id, kind, sample_index)."""

    prompt_id: str
    kind: Kind
    sample_index: int
    token_ids: NDArray[np.int32]  # (n,), the end token included
    statistics: TokenStatistics  # of n tokens
    alignment: Alignment
    has_end: bool  # the last token is an end token
    finish_reason: FinishReason
    stop_reason: str | None = None  # the end token's literal, the stop string, or the error
    beam_score: float | None = None
    seed: int | None = None

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.prompt_id, self.kind, self.sample_index)


@dataclass(frozen=True)
class PromptRecord:
    """A prompt as it was rendered and tokenised."""

    prompt_id: str
    prompt_index: int  # its place in the prompt file
    text: str
    token_ids: NDArray[np.int32]
    messages: Sequence[Mapping[str, Any]] | None = None
    reference: Sequence[str] = ()  # any of them is right
    metadata: Mapping[str, Any] = field(default_factory=dict)
