"""The token ids of a run that other engines made: theirs where they gave them, else made from bytes."""

from __future__ import annotations

import hashlib
from typing import Any

from toolkit.ingest.given import Token
from toolkit.ingest.pieces import alone
from toolkit.store import VocabularyEntry

_BITS = 0x7FFFFFFF  # ids are stored in 32 bits, and are not negative


class Vocabulary:
    """What each token id stands for; an id always stands for the same bytes.

    Parameters
    ----------
    tokenizer : TokenBytes, optional
        Knows the bytes of the ids that sources give.

    Attributes
    ----------
    entries : dict of int to VocabularyEntry
    n_made : int
        Tokens that got an id made from their bytes, since none was given.
    n_moved : int
        Tokens whose given id stood for other bytes before, and that got one made from their bytes.
    """

    def __init__(self, tokenizer: Any = None) -> None:
        self.entries: dict[int, VocabularyEntry] = {}
        self.n_made = 0
        self.n_moved = 0
        self._tokenizer = tokenizer
        self._made_ids: dict[bytes | str, int] = {}  # by bytes, or the literal of a special token

    def known(self, token: Token) -> Token:
        """The token with what the tokenizer knows of its id."""
        if self._tokenizer is None or token.id is None:
            return token
        piece = self._tokenizer.piece(token.id)
        return Token(self._tokenizer.literal(token.id), piece, token.id, piece is None)

    @property
    def is_exact(self) -> bool:
        """Whether a tokenizer says what ids stand for."""
        return self._tokenizer is not None

    def add(self, token: Token, piece: bytes | None) -> int:
        """The id to store for a token that stands for `piece`."""
        entry = VocabularyEntry(piece, _literal(token, piece), piece is None)
        if token.id is not None:
            there = self.entries.setdefault(token.id, entry)
            if there.bytes == piece:
                return token.id
            self.n_moved += 1
        else:
            self.n_made += 1
        name = entry.literal if piece is None else piece
        if name not in self._made_ids:
            self._made_ids[name] = self._made(entry)
        return self._made_ids[name]

    def add_alone(self, token: Token, null_is_special: bool, blank: bool = False) -> int:
        """The id of a token that is no part of a text: an alternative. A given id stands for what it stood for.

        With `blank`, one of which the id alone is known has no bytes, as those in texts have; else `<id>`.
        """
        if token.id is not None and token.id in self.entries:
            return token.id
        token = self.known(token)
        is_blank = blank and token.text is None and token.data is None and not token.special
        return self.add(token, b"" if is_blank else alone(token, null_is_special))

    def _made(self, entry: VocabularyEntry) -> int:
        """An id from a hash of the bytes, or of a special token's literal; the next hash where it is taken."""
        name = b"special " + entry.literal.encode() if entry.bytes is None else b"bytes " + entry.bytes
        digest = hashlib.sha256(name).digest()
        while True:
            token_id = int.from_bytes(digest[:4], "big") & _BITS
            there = self.entries.setdefault(token_id, entry)
            if there.bytes == entry.bytes and (entry.bytes is not None or there.literal == entry.literal):
                return token_id
            digest = hashlib.sha256(digest).digest()


def _literal(token: Token, piece: bytes | None) -> str:
    if token.text and (piece is None or token.id is not None):
        return token.text
    if token.id is not None and not piece:
        return f"<id {token.id}>"
    return "" if piece is None else piece.decode("utf-8", "replace")
