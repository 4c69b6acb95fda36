"""Which tokens are watched: what a user writes, checked, and the ids that a model's tokenizer has for it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.alignment.decoders import BYTE_TOKEN
from toolkit.characters import quoted, safe_json
from toolkit.errors import ToolkitError, argument
from toolkit.generation.watching import NO_WATCH, WATCH_AT, Watch, WatchAt

if TYPE_CHECKING:
    from toolkit.models import Model

MAX_WATCHED = 100
"""Tokens at once: each is compared with every logit, and is a row a position."""

_N_SHOWN = 8  # pieces in a message


@dataclass(frozen=True)
class WatchSettings:
    """Texts of tokens whose log-probability and rank are stored, however unlikely they are.

    Raises
    ------
    ToolkitError
        There is none, there are too many, one is empty, no text or named twice, or `at` is neither of the two.
    """

    tokens: tuple[str, ...]
    at: WatchAt = "first"  # at the first position of a sequence, or at every one

    def __post_init__(self) -> None:
        name = argument("watch_tokens")
        tokens = self.tokens
        if isinstance(tokens, str) or not isinstance(tokens, Sequence):
            raise ToolkitError(f"{name}: {quoted(tokens)} is no list of texts; give a list, a text a token")
        object.__setattr__(self, "tokens", tuple(tokens))
        if not 1 <= len(tokens) <= MAX_WATCHED:
            raise ToolkitError(f"{name}: {len(tokens)} tokens are named; name 1 to {MAX_WATCHED}")
        for text in self.tokens:
            _check_text(text)
            if self.tokens.count(text) > 1:
                raise ToolkitError(f"{name}: {quoted(text)} is named twice; name each token once")
        if self.at not in WATCH_AT:
            raise ToolkitError(
                f"{argument('watch_at')}: there is no {quoted(self.at)}; use one of {', '.join(WATCH_AT)}"
            )

    def content(self) -> dict[str, Any]:
        """What decides the rows that a run holds; the order in which tokens were named does not."""
        return {"tokens": sorted(self.tokens), "at": self.at}


def _check_text(text: Any) -> None:
    name = argument("watch_tokens")
    if not isinstance(text, str):
        raise ToolkitError(f"{name}: {quoted(text)} is no text; give the text of a token")
    if not text:
        raise ToolkitError(f"{name}: '' is empty; give the text of a token")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ToolkitError(f"{name}: {quoted(text)} is no Unicode (a lone surrogate); correct it") from None


def make_watch_settings(tokens: Sequence[str] | None, at: str | None) -> WatchSettings | None:
    """The settings of two arguments, None where neither is given.

    Raises
    ------
    ToolkitError
        Positions are given without tokens, or as `WatchSettings`.
    """
    if tokens is None or (isinstance(tokens, list | tuple) and not tokens):
        if at is not None:
            raise ToolkitError(
                f"{argument('watch_at')}: there is nothing to watch; name {argument('watch_tokens')}, or leave "
                "it out"
            )
        return None
    return WatchSettings(tokens, "first" if at is None else at)  # type: ignore[arg-type]  # checked there


def parse_tokens(text: str) -> list[str]:
    r"""`A,B," C","\n"` as texts: separated by commas; one in double quotes is a string of JSON.

    Raises
    ------
    ToolkitError
        Spaces are at the end of one that is not quoted, a quote is not closed, or something follows it.
    """
    return list(_entries(text))


def _entries(text: str) -> Iterator[str]:
    start = 0
    while start <= len(text):
        read = _quoted_entry if text.startswith('"', start) else _bare_entry
        entry, end = read(text, start)
        yield entry
        start = end + 1


def _quoted_entry(text: str, start: int) -> tuple[str, int]:
    """A string of JSON, and where its comma is or the text ends."""
    try:
        entry, end = json.JSONDecoder().raw_decode(text, start)
    except ValueError:
        raise ToolkitError(
            f"{argument('watch_tokens')}: {quoted(text[start:])} begins with a quote and is no string of JSON; "
            r'write " A" for a token with a space, "\"" for a quote'
        ) from None
    if end < len(text) and text[end] != ",":
        raise ToolkitError(
            f"{argument('watch_tokens')}: {quoted(text[end:])} follows a quoted token; put a comma between"
        )
    return entry, end


def _bare_entry(text: str, start: int) -> tuple[str, int]:
    """What comes before the next comma, and where that is or the text ends."""
    end = text.find(",", start)
    end = len(text) if end < 0 else end
    entry = text[start:end]
    if entry != entry.strip():
        raise ToolkitError(
            f"{argument('watch_tokens')}: {quoted(entry)} has a space at its end or beginning; leave it out, or "
            f"put quotes around it if the token has it: {safe_json(json.dumps(entry, ensure_ascii=False))}"
        )
    return entry, end


def watch_of(model: Model, settings: WatchSettings | None) -> Watch:
    """The tokens of the model that the settings name.

    Raises
    ------
    ToolkitError
        A text is no single token of the model's tokenizer, or two texts are the same one.
    """
    if settings is None:
        return NO_WATCH
    named: dict[int, str] = {}
    for text in settings.tokens:
        token_id = token_of(model, text)
        if token_id is None:
            raise ToolkitError(_no_token(model, text))
        if token_id in named:
            raise ToolkitError(
                f"{argument('watch_tokens')}: {quoted(named[token_id])} and {quoted(text)} are both token "
                f"{token_id}; name one of them"
            )
        named[token_id] = text
    return Watch(np.array(sorted(named), np.int32), settings.at)


def token_of(model: Model, text: str) -> int | None:
    """The token that is this text and no other: with these bytes, or with this name where it is special.

    A tokenizer that puts a space before a text has another token for the text alone; it is looked for in the
    vocabulary.
    """
    split = _split(model, text)
    if len(split) == 1 and _is_token(model, split[0], text):
        return split[0]
    wanted, pieces = text.encode(), model.token_bytes
    found = [i for i in range(model.vocabulary_size) if pieces.piece(i) == wanted]
    # A byte that stands in for what the vocabulary lacks comes last: no text is written with it.
    return min(found, key=lambda i: _is_byte(model, i), default=None)


def _is_byte(model: Model, token_id: int) -> bool:
    return bool(BYTE_TOKEN.fullmatch(str(model.tokenizer.convert_ids_to_tokens(token_id))))


def described(model: Model, watch: Watch) -> str:
    """One line that says what is watched, and which other spellings are tokens of their own."""
    literals = [model.token_bytes.literal(i) for i in watch.token_ids.tolist()]
    named = ", ".join(f"{quoted(text)} ({i})" for text, i in zip(literals, watch.token_ids, strict=True))
    others = [other for text in literals if (other := _other_spelling(text)) not in literals]
    others = [other for other in others if token_of(model, other) is not None]
    where = "the first position" if watch.at == "first" else "every position"
    own = "is a token of its own" if len(others) == 1 else "are tokens of their own"
    apart = f"; not {', '.join(map(quoted, others))}, which {own}" if others else ""
    return f"watches {named} at {where}{apart}"


def _split(model: Model, text: str) -> list[int]:
    return list(model.tokenizer.encode(text, add_special_tokens=False))


def _is_token(model: Model, token_id: int, text: str) -> bool:
    if not 0 <= token_id < model.vocabulary_size:
        return False
    piece = model.token_bytes.piece(token_id)
    if piece is None:
        return model.token_bytes.literal(token_id) == text
    return piece == text.encode()


def _other_spelling(text: str) -> str:
    """With a leading space, or without the one it has."""
    return text[1:] if text.startswith(" ") else f" {text}"


def _no_token(model: Model, text: str) -> str:
    """What a text that is no token splits into, and what of it can be watched, with and without a leading space."""
    pieces = [quoted(model.token_bytes.literal(i)) for i in _split(model, text)]
    more = f" and {len(pieces) - _N_SHOWN} more" if len(pieces) > _N_SHOWN else ""
    bare = text.strip()
    spellings = [bare, f" {bare}"] if bare else []
    whole = [one for one in spellings if token_of(model, one) is not None]
    first = [model.token_bytes.literal(_split(model, one)[0]) for one in spellings]
    named = " or ".join(map(quoted, dict.fromkeys(whole or first)))
    offer = (
        f"name {named}, which is one" if whole else f"name its first token, {named}" if first else "name one"
    )
    return (
        f"{argument('watch_tokens')}: {quoted(text)} is no single token of this tokenizer: it splits into "
        f"{', '.join(pieces[:_N_SHOWN])}{more}; {offer}"
    )
