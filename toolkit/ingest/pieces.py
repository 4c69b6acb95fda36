r"""A continuation's tokens as bytes, from whatever a source says of them.

Bytes are taken where they are given. Else a token's text is laid over the whole text: what fits there decides
which way of writing it was (plain, `bytes:\xe2`, the alphabet of byte-level vocabularies, `▁` for a space),
which tokens are special and have no bytes, and which bytes belong to tokens that are parts of a character and
were written as U+FFFD.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from toolkit.alignment import char_to_byte_offsets
from toolkit.alignment.decoders import BYTE_ALPHABET, BYTE_TOKEN, bytes_of_alphabet
from toolkit.ingest.given import Token

_ESCAPED = re.compile(r"\\x([0-9a-fA-F]{2})|\\(\\)")
_PREFIX = re.compile(r"bytes?:")  # of completions of OpenAI, and of llama.cpp: `byte: \xe2`
_SPECIAL = re.compile(
    r"<\|[^|<>]*\|>|</?s>|<(?:pad|unk|bos|eos|start_of_turn|end_of_turn)>|\[(?:CLS|SEP|PAD)\]"
)
_REPLACED = "\ufffd"
_LONGEST = 64  # bytes that one token whose bytes are not known may stand for


class Laid(NamedTuple):
    """Tokens as bytes."""

    pieces: list[bytes | None]
    n_bytes: int  # of them, those of the text
    n_guessed: int  # tokens whose bytes were found by what lies between their neighbours
    fits: bool  # whether they are the text


def lay(tokens: Sequence[Token], text: str | None, null_is_special: bool) -> Laid:
    """The bytes of tokens, and how many of them the text has.

    Parameters
    ----------
    tokens : sequence of Token
    text : str, optional
        The whole text, where it is known.
    null_is_special : bool
        A token without bytes is special.
    """
    plain = [alone(token, null_is_special) for token in tokens]
    joined = _joined(plain)
    if text is None or joined.decode("utf-8", "replace") == text:
        return Laid(plain, len(joined), 0, True)
    over = _over(tokens, text.encode(), null_is_special)
    if over is not None:
        return Laid(over.pieces, len(text.encode()), over.n_guessed, True)
    if joined.decode("utf-8", "replace").startswith(text):
        return Laid(plain, int(char_to_byte_offsets(joined)[len(text)]), 0, True)
    # Decoding of SentencePiece drops the first space; bytes are the truth.
    return Laid(plain, len(joined), 0, joined.decode("utf-8", "replace").strip() == text.strip())


def alone(token: Token, null_is_special: bool) -> bytes | None:
    """The bytes of a token that is seen alone: an alternative, or one of a text that is not known."""
    if token.special:
        return None
    if token.data is not None:
        return token.data
    if token.text is None:
        return b"" if token.id is None else f"<{token.id}>".encode()
    if null_is_special or is_special(token.text):
        return None
    return next(_readings(token))


def is_special(text: str) -> bool:
    """Whether a token's text is how special tokens are written."""
    return _SPECIAL.fullmatch(text) is not None


def unescaped(text: str) -> bytes | None:
    r"""The bytes of `bytes:\xe2\x82` and `byte: \xe2`; None for a text that is not of this form."""
    prefix = _PREFIX.match(text)
    if prefix is None:
        return None
    rest = text[prefix.end() :]
    if prefix[0] == "byte:":
        match = re.fullmatch(r" ?\\x([0-9a-fA-F]{2})", rest)
        return None if match is None else bytes([int(match[1], 16)])
    if _ESCAPED.search(rest) is None and _PREFIX.match(rest) is None:
        return None
    parts, last = [], 0
    for found in _ESCAPED.finditer(rest):
        parts += [rest[last : found.start()].encode(), b"\\" if found[2] else bytes([int(found[1], 16)])]
        last = found.end()
    return b"".join([*parts, rest[last:].encode()])


def _readings(token: Token) -> Iterator[bytes]:
    """The bytes that a token's text may stand for, the likeliest first."""
    if token.text is None:
        return
    text = token.text
    if (escaped := unescaped(text)) is not None:
        yield escaped
    yield text.encode()
    if (byte := BYTE_TOKEN.fullmatch(text)) is not None:
        yield bytes([int(byte[1], 16)])
    if "▁" in text:
        yield text.replace("▁", " ").encode()
    if not text.isascii() and all(character in BYTE_ALPHABET for character in text):
        yield bytes_of_alphabet(text)


class _Over(NamedTuple):
    pieces: list[bytes | None]
    n_guessed: int


def _over(tokens: Sequence[Token], data: bytes, null_is_special: bool) -> _Over | None:
    """Tokens laid over the bytes of the whole text; None where they do not fit."""
    pieces: list[bytes | None] = []
    place, n_guessed = 0, 0
    waiting: list[int] = []  # tokens before this one whose bytes are not known
    for i, token in enumerate(tokens):
        if token.special:
            pieces.append(None)
            continue
        readings = [token.data] if _is_sure(token) else list(_readings(token))
        found = _found(readings, data, place, len(waiting))
        if _is_unknown(token) and (waiting or found is None or found[0] != place):
            waiting.append(i)
            pieces.append(b"")
        elif found is not None:
            start, piece = found
            if waiting:
                pieces[waiting[-1]] = data[place:start]
                n_guessed, waiting = n_guessed + len(waiting), []
            pieces.append(piece)
            place = min(start + len(piece), len(data))
        elif (null_is_special and token.data is None) or is_special(token.text or ""):
            pieces.append(None)
        else:
            return None
    rest = data[place:]
    if waiting and len(rest) <= _LONGEST * len(waiting):
        pieces[waiting[-1]] = rest
        return _Over(pieces, n_guessed + len(waiting))
    return None if rest else _Over(pieces, n_guessed)


def _is_sure(token: Token) -> bool:
    """Whether the bytes given are the token's own, not those of a replacement character."""
    return token.data is not None and _REPLACED.encode() not in token.data


def _is_unknown(token: Token) -> bool:
    if token.data is not None:
        return _REPLACED.encode() in token.data
    return token.text is None or (_REPLACED in token.text and unescaped(token.text) is None)


def _found(
    readings: Sequence[bytes | None], data: bytes, place: int, n_waiting: int
) -> tuple[int, bytes] | None:
    """Where the first reading that fits begins, and the reading; past the end of the text anything fits."""
    known = [reading for reading in readings if reading is not None]
    for reading in known:
        if not n_waiting:
            # A stop string cuts the text inside a token: what is left of the text begins it.
            rest = data[place:]
            if rest.startswith(reading) or (rest and reading.startswith(rest)):
                return place, reading
        elif reading and (start := data.find(reading, place, place + _LONGEST * n_waiting)) >= 0:
            return start, reading
    past_end = place == len(data) and not n_waiting
    plain = [reading for reading in known if not is_special(reading.decode("utf-8", "replace"))]
    return (place, plain[0]) if past_end and plain else None


def _joined(pieces: Sequence[bytes | None]) -> bytes:
    return b"".join(piece or b"" for piece in pieces)
