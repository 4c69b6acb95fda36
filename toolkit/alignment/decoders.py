"""A tokenizer's decoder, read from its JSON, as a function of one token: the token's string to its bytes.

The `tokenizers` library decodes a list of token strings in steps (Replace, ByteFallback, Fuse and so on).
Nearly every step does to a token what it would do to it alone. What a step does by position, at the first
token say, or after the tokens were fused, is no property of a token; it is left out here and described in
`TokenDecoder.differences`. A decoder with a step that cannot be had token by token is not read at all.

Knows nothing of ids, of special tokens or of any class of tokenizer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

Step = Callable[[str], str | bytes]

# From the most telling to the least: a decoder is of the first kind that one of its steps shows.
KINDS = ("byte-level", "sentencepiece", "wordpiece", "suffix", "metaspace", "spaced", "plain")

BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")

# What the WordPiece decoder does to each token, in this order.
_CLEANUP = (
    (" .", "."),
    (" ?", "?"),
    (" !", "!"),
    (" ,", ","),
    (" ' ", "'"),
    (" n't", "n't"),
    (" 'm", "'m"),
    (" do not", " don't"),
    (" 's", "'s"),
    (" 've", "'ve"),
    (" 're", "'re"),
)

_BYTE_RUNS = (
    "In a run of byte tokens that is not valid UTF-8 as a whole, the tokenizer's decoder writes one U+FFFD "
    "for every byte; here the valid characters stay, and each ill-formed sequence becomes one U+FFFD."
)
_FIRST_METASPACE = (
    "The tokenizer's decoder drops the spaces of the first token; here they stay, since a sequence continues "
    "its prompt."
)
_FIRST_WORDPIECE = (
    "The tokenizer's decoder puts no space before the first token and leaves its continuation mark; here "
    "every token is decoded as inside a text, since a sequence continues its prompt."
)
_FIRST_SPACED = (
    "The tokenizer has no decoder and joins tokens with spaces; here every token has its space in front, "
    "the first one too."
)
_LAST_SUFFIX = (
    "The tokenizer's decoder writes no space for the word end of the last token; here every word end is a "
    "space."
)


def _strip_sentence(content: str, start: int, stop: int) -> str:
    places = " and ".join(
        f"up to {n} {content!r} from the {edge} of the text"
        for n, edge in ((start, "start"), (stop, "end"))
        if n
    )
    return f"The tokenizer's decoder strips {places}; here they stay, since a sequence continues its prompt."


def _byte_alphabet() -> dict[str, int]:
    """The 256 characters by which byte-level vocabularies write bytes."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = sorted(set(range(256)) - set(printable))
    return {chr(b): b for b in printable} | {chr(256 + i): b for i, b in enumerate(others)}


BYTE_ALPHABET = _byte_alphabet()


def bytes_of_alphabet(token: str) -> bytes:
    """The bytes that a byte-level token writes; a token with any other character stands for itself."""
    try:
        return bytes([BYTE_ALPHABET[character] for character in token])
    except KeyError:
        return token.encode("utf-8")


@dataclass(frozen=True)
class TokenDecoder:
    """Turns a token's string into its bytes."""

    kind: str  # one of KINDS
    steps: tuple[Step, ...]
    differences: tuple[str, ...]  # sentences: how the tokenizer's own decoding of a text differs

    def __call__(self, token: str) -> bytes:
        value: str | bytes = token
        for step in self.steps:
            if isinstance(value, bytes):
                return value
            value = step(value)
        return value if isinstance(value, bytes) else value.encode("utf-8")


class _Part(NamedTuple):
    """What one step of a decoder is, seen from a token."""

    step: Step | None = None
    kind: str = "plain"
    difference: str = ""
    fuses: bool = False  # later steps see the text as one token


def read_decoder(state: Mapping[str, Any] | None) -> TokenDecoder | None:
    """Read a decoder of the `tokenizers` library.

    Parameters
    ----------
    state : mapping or None
        The decoder's JSON, `{"type": "ByteLevel", ...}`. None is a tokenizer without a decoder, which joins
        its tokens with spaces.

    Returns
    -------
    TokenDecoder or None
        None if a step is unknown or does not work token by token.
    """
    if state is None:
        return TokenDecoder("spaced", (lambda token: " " + token,), (_FIRST_SPACED,))
    parts: list[_Part] = []
    for step in _flatten(state):
        part = _read_step(step, fused=any(p.fuses for p in parts))
        if part is None:
            return None
        parts.append(part)
    return TokenDecoder(
        kind=min((p.kind for p in parts), key=KINDS.index, default="plain"),
        steps=tuple(p.step for p in parts if p.step is not None),
        differences=tuple(p.difference for p in parts if p.difference),
    )


def _flatten(state: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    if state.get("type") != "Sequence":
        yield state
        return
    for step in state["decoders"]:
        yield from _flatten(step)


def _read_step(step: Mapping[str, Any], fused: bool) -> _Part | None:
    kind = step.get("type")
    if kind == "Fuse":
        return _Part(fuses=True)
    if kind == "Replace":
        return _replace(step, fused)
    if kind == "Strip":
        return _strip(step, fused)
    reader = _UNFUSED.get(str(kind))
    return None if fused or reader is None else reader(step)


def _replace(step: Mapping[str, Any], fused: bool) -> _Part | None:
    pattern, content = step["pattern"].get("String"), step["content"]
    # A longer pattern could match across tokens that were fused.
    if pattern is None or (fused and len(pattern) != 1):
        return None
    return _Part(lambda token: token.replace(pattern, content), "metaspace" if pattern == "▁" else "plain")


def _strip(step: Mapping[str, Any], fused: bool) -> _Part:
    content, start, stop = step["content"], step["start"], step["stop"]
    if fused:
        return _Part(difference=_strip_sentence(content, start, stop) if start or stop else "")

    def strip(token: str) -> str:
        left = min(start, len(token) - len(token.lstrip(content)))
        token = token[left:]
        return token[: len(token) - min(stop, len(token) - len(token.rstrip(content)))]

    return _Part(strip)


def _byte_level(step: Mapping[str, Any]) -> _Part:
    return _Part(bytes_of_alphabet, "byte-level", fuses=True)


def _byte_fallback(step: Mapping[str, Any]) -> _Part:
    def decode(token: str) -> str | bytes:
        match = BYTE_TOKEN.fullmatch(token)
        return token if match is None else bytes([int(match[1], 16)])

    return _Part(decode, "sentencepiece", _BYTE_RUNS)


def _metaspace(step: Mapping[str, Any]) -> _Part:
    replacement = step["replacement"]
    difference = "" if step.get("prepend_scheme") == "never" else _FIRST_METASPACE
    return _Part(lambda token: token.replace(replacement, " "), "metaspace", difference)


def _wordpiece(step: Mapping[str, Any]) -> _Part:
    prefix, cleanup = step["prefix"], step["cleanup"]

    def decode(token: str) -> str:
        token = token[len(prefix) :] if token.startswith(prefix) else " " + token
        for dirty, clean in _CLEANUP if cleanup else ():
            token = token.replace(dirty, clean)
        return token

    return _Part(decode, "wordpiece", _FIRST_WORDPIECE)


def _suffix(step: Mapping[str, Any]) -> _Part:
    suffix = step["suffix"]
    return _Part(lambda token: token.replace(suffix, " "), "suffix", _LAST_SUFFIX)


_UNFUSED: dict[str, Callable[[Mapping[str, Any]], _Part]] = {
    "ByteLevel": _byte_level,
    "ByteFallback": _byte_fallback,
    "Metaspace": _metaspace,
    "WordPiece": _wordpiece,
    "BPEDecoder": _suffix,
}
