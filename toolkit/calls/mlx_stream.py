"""MLX-LM's `stream_generate` with the tokens of every piece of text.

MLX-LM's detokenizers hold text back, and what they release may begin or end inside a token. Here each response
with text has exactly the tokens with a byte in it. Generates nothing itself: MLX-LM's own loop does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import accumulate, groupby
from typing import Any, NamedTuple, Protocol

from toolkit.alignment import TokenBytes, char_to_byte_offsets, token_range
from toolkit.alignment.decoders import BYTE_ALPHABET, BYTE_TOKEN
from toolkit.models import blas

blas.preload()

from mlx_lm.generate import GenerationResponse  # noqa: E402
from mlx_lm.generate import stream_generate as library_stream_generate  # noqa: E402
from mlx_lm.tokenizer_utils import (  # noqa: E402
    BPEStreamingDetokenizer,
    NaiveStreamingDetokenizer,
    SPMStreamingDetokenizer,
    TokenizerWrapper,
)

PAST_VOCABULARY = "!"  # what MLX-LM's byte-level detokenizer writes for an id that has no token


class SegmentToken(NamedTuple):
    """A token of a piece of text."""

    id: int
    bytes: bytes  # that MLX-LM's detokenizer writes for it; a special token's are those of its name
    logprob: float  # response.logprobs[id]: nats, after logits processors, before the sampler


@dataclass
class StreamResponse(GenerationResponse):
    """MLX-LM's response and the tokens of its text.

    Attributes
    ----------
    segment_tokens : tuple of SegmentToken
        All tokens with a byte in `text`, and no other; in order. Empty where `text` is. A token that begins in
        one text and ends in the next is in both.
    """

    segment_tokens: tuple[SegmentToken, ...] = ()


def stream_generate(
    model: Any, tokenizer: Any, prompt: Any, *args: Any, **kwargs: Any
) -> Iterator[StreamResponse]:
    """MLX-LM's `stream_generate`, for its own models and tokenizers, with `segment_tokens` in each response.

    Parameters
    ----------
    model, tokenizer, prompt, *args, **kwargs
        As in `mlx_lm.stream_generate`; all of its arguments are passed on.

    Yields
    ------
    StreamResponse
        MLX-LM's responses, their fields unchanged. A detokenizer of a class that MLX-LM does not have is
        taken to write all tokens that wait at once.

    Examples
    --------
    >>> for response in toolkit.stream_generate(model, tokenizer, "Once"):  # doctest: +SKIP
    ...     print(response.text, [token.logprob for token in response.segment_tokens])
    """
    if not isinstance(tokenizer, TokenizerWrapper):
        tokenizer = TokenizerWrapper(tokenizer)
    writer = _writer(tokenizer)
    for response in library_stream_generate(model, tokenizer, prompt, *args, **kwargs):
        is_last = response.finish_reason is not None
        # The end token is not given to the detokenizer.
        if response.finish_reason != "stop":
            logprobs: Any = response.logprobs
            writer.add(response.token, float(logprobs[response.token].item()))
        tokens = writer.written(response.text, is_last)
        yield StreamResponse(**vars(response), segment_tokens=tokens)


class _Writer(Protocol):
    """Knows which tokens a detokenizer's text came from."""

    def add(self, token_id: int, logprob: float) -> None:
        """One more token was given to the detokenizer."""
        ...

    def written(self, text: str, is_last: bool) -> tuple[SegmentToken, ...]:
        """The tokens with a byte in `text`, which it gave now."""
        ...


def _writer(tokenizer: TokenizerWrapper) -> _Writer:
    detokenizer = tokenizer.detokenizer
    kind = type(detokenizer)
    if kind is BPEStreamingDetokenizer:
        return _AllThatWaits(_ByteLevelPieces(detokenizer.tokenmap))
    if kind is SPMStreamingDetokenizer:
        return _AllThatWaits(_SentencePieces(detokenizer.tokenmap))
    pieces = _Pieces(tokenizer)
    return _Lines(tokenizer, pieces) if kind is NaiveStreamingDetokenizer else _AllThatWaits(pieces)


class _ByteLevelPieces:
    """Bytes as MLX-LM's byte-level detokenizer writes them, a character of the vocabulary at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def __call__(self, token_id: int) -> bytes:
        name = self._names[token_id] if token_id < len(self._names) else PAST_VOCABULARY
        return b"".join(_byte(character) for character in name)


def _byte(character: str) -> bytes:
    value = BYTE_ALPHABET.get(character)
    return character.encode() if value is None else bytes([value])


class _SentencePieces:
    """Bytes as MLX-LM's SentencePiece detokenizer writes them."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self._pieces = pieces

    def __call__(self, token_id: int) -> bytes:
        return self._pieces[token_id].replace("▁".encode(), b" ")


class _Pieces:
    """Bytes of any tokenizer's tokens; of a special one, those of the text that it decodes to."""

    def __init__(self, tokenizer: TokenizerWrapper) -> None:
        self._tokenizer = tokenizer
        self._bytes = TokenBytes(tokenizer)
        self.has_byte_tokens = self._bytes.kind == "sentencepiece"

    def __call__(self, token_id: int) -> bytes:
        piece = self._bytes.piece(token_id)
        return self._tokenizer.decode([token_id]).encode() if piece is None else piece

    def is_byte(self, token_id: int) -> bool:
        name = self._tokenizer.convert_ids_to_tokens(token_id)
        return name is not None and BYTE_TOKEN.fullmatch(name) is not None


class _AllThatWaits:
    """Of a detokenizer that writes everything that waits, or nothing; spaces at the text's start may be dropped.

    MLX-LM's byte-level and SentencePiece ones.
    """

    def __init__(self, pieces: Any) -> None:
        self._pieces = pieces
        self._waiting: list[SegmentToken] = []

    def add(self, token_id: int, logprob: float) -> None:
        self._waiting.append(SegmentToken(token_id, self._pieces(token_id), logprob))

    def written(self, text: str, is_last: bool) -> tuple[SegmentToken, ...]:
        if not text:
            return ()
        tokens, self._waiting = self._waiting, []
        offsets = char_to_byte_offsets(b"".join(token.bytes for token in tokens))
        start = offsets[max(0, len(offsets) - 1 - len(text))]
        ends = accumulate(len(token.bytes) for token in tokens)
        return tuple(token for token, end in zip(tokens, ends, strict=True) if token.bytes and end > start)


class _Lines:
    """Of MLX-LM's naive detokenizer, which decodes the line so far and holds back an unfinished character.

    Every token of a line can change what the ones before it decode to, so the characters of the line are put
    to tokens anew with each.
    """

    def __init__(self, tokenizer: TokenizerWrapper, pieces: _Pieces) -> None:
        self._tokenizer = tokenizer
        self._pieces = pieces
        self._detokenizer = tokenizer.detokenizer  # does what MLX-LM's own does
        self._shown = 0  # characters
        self._begin_line()

    def _begin_line(self) -> None:
        self._first = self._shown  # where the line begins
        self._tokens: list[SegmentToken] = []
        self._line = ""
        self._owners: list[tuple[int, int]] = []  # of each character, the tokens with a byte in it

    def add(self, token_id: int, logprob: float) -> None:
        self._detokenizer.add_token(token_id)
        self._tokens.append(SegmentToken(token_id, self._pieces(token_id), logprob))
        line = self._tokenizer.decode([token.id for token in self._tokens])
        owners = self._by_bytes(line)
        if owners is None:
            owners = _carried(self._line, self._owners, line, len(self._tokens) - 1)
        self._line, self._owners = line, owners

    def written(self, text: str, is_last: bool) -> tuple[SegmentToken, ...]:
        if is_last:
            self._detokenizer.finalize()
        start = self._shown - self._first
        whole = self._detokenizer.text
        self._shown = len(whole)
        tokens = self._between(start, self._shown - self._first) if text else ()
        if self._shown > self._first and whole[-1] == "\n":
            self._begin_line()
        return tokens

    def _between(self, start: int, end: int) -> tuple[SegmentToken, ...]:
        """The tokens with a byte in these characters of the line."""
        owners = self._owners[start:end]
        first, after = min(first for first, _ in owners), max(after for _, after in owners)
        return tuple(token for token in self._tokens[first:after] if token.bytes)

    def _by_bytes(self, line: str) -> list[tuple[int, int]] | None:
        """Owners of the line's characters where the tokens' bytes give it, but for spaces at its ends."""
        pieces = [token.bytes for token in self._tokens]
        data = b"".join(pieces)
        readings = [(data.decode("utf-8", "replace"), char_to_byte_offsets(data).tolist())]
        if self._pieces.has_byte_tokens:
            readings.append(_by_byte_runs(pieces, [self._pieces.is_byte(token.id) for token in self._tokens]))
        for text, offsets in readings:
            place = text.rfind(line)
            if place >= 0 and not (text[:place] + text[place + len(line) :]).strip(" "):
                return _owners(pieces, offsets[place : place + len(line) + 1])
        return None


def _owners(pieces: Sequence[bytes], offsets: Sequence[int]) -> list[tuple[int, int]]:
    """The tokens, first and after the last, with a byte between each two offsets."""
    ends = list(accumulate(map(len, pieces)))
    found = token_range([0, *ends[:-1]], ends, offsets[:-1], offsets[1:])
    return list(zip(found.start.tolist(), found.end.tolist(), strict=True))


def _by_byte_runs(pieces: Sequence[bytes], is_byte: Sequence[bool]) -> tuple[str, list[int]]:
    """A text and its characters' byte offsets, where a run of byte tokens that is not valid UTF-8 as a whole
    becomes one U+FFFD a byte.
    """
    text, offsets = "", [0]
    for is_run, group in groupby(zip(is_byte, pieces, strict=True), key=lambda pair: pair[0]):
        data = b"".join(piece for _, piece in group)
        part = data.decode("utf-8", "replace")
        ends = char_to_byte_offsets(data).tolist()[1:]
        if is_run and part.encode() != data:
            part, ends = "\ufffd" * len(data), list(range(1, len(data) + 1))
        text, offsets = text + part, offsets + [offsets[-1] + end for end in ends]
    return text, offsets


def _carried(old: str, owners: list[tuple[int, int]], new: str, token: int) -> list[tuple[int, int]]:
    """Owners after one more token: what stays keeps its own, and the rest is the new token's.

    What takes the place of an unfinished character is also that one's.
    """
    pairs = enumerate(zip(old, new, strict=False))
    same = next((place for place, (a, b) in pairs if a != b), min(len(old), len(new)))
    result = owners[:same]
    matcher = SequenceMatcher(None, old[same:], new[same:], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        before = owners[same + a : same + b]
        if tag == "equal":
            result += before
        else:
            unfinished = "\ufffd" in old[same + a : same + b]
            result += [(before[0][0] if unfinished else token, token + 1)] * (d - c)
    if new == old and new.endswith("\ufffd"):
        result[-1] = result[-1][0], token + 1
    return result
