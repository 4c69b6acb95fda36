"""Token ids to bytes, for any tokenizer.

A token's bytes are what it adds to a text that goes on: " Paris" for "▁Paris", also where it comes first,
since a sequence continues its prompt. A special token (end, turn markers) has none. How a tokenizer decodes
is read from its decoder's JSON; where that cannot be done token by token, from what a token adds to the
decoding of another one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from toolkit.alignment.decoders import (
    BYTE_ALPHABET,
    BYTE_TOKEN,
    TokenDecoder,
    bytes_of_alphabet,
    read_decoder,
)
from toolkit.errors import ToolkitError

_CLEANED = (
    "The tokenizer cleans up spaces before punctuation and contractions (clean_up_tokenization_spaces); here "
    "they stay."
)
_NAMED_SPECIAL = "The tokenizer names {} as special, yet its decoder writes them; here they have no bytes."
_BY_DIFFERENCE = (
    "The tokenizer's decoding cannot be read token by token; here a token's bytes are what it adds to the "
    "decoding of another token, so a decoding that depends on more of the text may differ."
)


class TokenBytes:
    r"""The bytes of each token of a tokenizer.

    Parameters
    ----------
    tokenizer : tokenizer
        Of `tokenizers`, of `transformers` (fast or not), or MLX-LM's wrapper around one.
    special_ids : iterable of int
        More tokens that are special: end tokens that the tokenizer holds for ordinary text.

    Attributes
    ----------
    kind : str
        How it decodes: "byte-level" (GPT-2's byte alphabet), "sentencepiece" (with byte fallback),
        "metaspace" ("▁" for spaces, no byte fallback: Unigram mostly), "wordpiece" ("##"), "suffix"
        ("</w>"), "spaced" (no decoder, tokens joined with spaces), "plain" (tokens joined) or "decoded"
        (by decoding differences).
    differences : tuple of str
        One sentence for each way in which the tokenizer's own decoding, with special tokens skipped, may
        differ from the joined bytes decoded with the standard replacement. Empty for most byte-level ones.

    Raises
    ------
    ToolkitError
        The tokenizer has no `decode`.

    Notes
    -----
    An id past the vocabulary, as a model with a padded output layer can draw, or one that the vocabulary
    leaves out, counts as special: no bytes, and `<id 49999>` as its literal.
    """

    def __init__(self, tokenizer: Any, special_ids: Iterable[int] = ()) -> None:
        if not hasattr(tokenizer, "decode"):
            name = type(tokenizer).__name__
            raise ToolkitError(f"tokenizer: {name} has no decode(); give one of tokenizers or transformers")
        self._vocabulary = vocabulary = _Vocabulary(tokenizer)
        decoder = vocabulary.decoder()
        self.kind: str = "decoded" if decoder is None else decoder.kind
        differences = (_BY_DIFFERENCE,) if decoder is None else decoder.differences
        self.differences: tuple[str, ...] = differences + vocabulary.differences()
        self._table = _Table(vocabulary, decoder)
        self._table.update(dict.fromkeys(special_ids))

    def piece(self, token_id: int) -> bytes | None:
        """Bytes of a token; None for a special token. A negative id is a ToolkitError."""
        return self._table[int(token_id)]

    def pieces(self, token_ids: Iterable[int]) -> list[bytes | None]:
        """Bytes of each token of a list or of an array of shape (n,)."""
        ids = token_ids.tolist() if hasattr(token_ids, "tolist") else token_ids
        return list(map(self._table.__getitem__, ids))

    def is_special(self, token_id: int) -> bool:
        """Whether a token is special: it has no bytes and belongs to no segment."""
        return self.piece(token_id) is None

    def literal(self, token_id: int) -> str:
        r"""What a person reads: `<|im_end|>`, ` Paris`, and `\xf0\x9f` for bytes that are no text alone."""
        piece = self.piece(token_id)
        if piece is not None:
            return piece.decode("utf-8", "backslashreplace")
        token = self._vocabulary.token(int(token_id))
        return f"<id {int(token_id)}>" if token is None else token


class _Vocabulary:
    """One face for the tokenizers of several libraries."""

    def __init__(self, tokenizer: Any) -> None:
        # MLX-LM's wrapper forwards to the tokenizer that it wraps, so `decode` is bound to that one.
        self._owner = getattr(tokenizer.decode, "__self__", tokenizer)
        backend = getattr(self._owner, "backend_tokenizer", self._owner)
        self._backend = backend if hasattr(backend, "id_to_token") else None  # of `tokenizers`, if it has one
        self._options = {"skip_special_tokens": True}
        if self._owner is not self._backend:
            self._options["clean_up_tokenization_spaces"] = False
        self.skipped = self._skipped()
        self.special = self.skipped.union(getattr(self._owner, "all_special_tokens", ()))

    def token(self, token_id: int) -> str | None:
        """The vocabulary's string; None for an id that it does not have."""
        if self._backend is not None:
            return self._backend.id_to_token(token_id)
        token = self._owner.convert_ids_to_tokens(token_id) if token_id < self.size() else None
        return token.decode("utf-8", "backslashreplace") if isinstance(token, bytes) else token

    def text(self, token_ids: list[int]) -> str:
        """The tokenizer's own decoding."""
        return self._owner.decode(token_ids, **self._options)

    def size(self) -> int:
        return len(self._owner) if self._backend is None else self._backend.get_vocab_size()

    def decoder(self) -> TokenDecoder | None:
        """How it decodes a token; None where its decoder does not say, or a class of its own does more."""
        if self._backend is None or not self._decodes_as_its_backend():
            return None
        decoder = self._backend.decoder
        return read_decoder(None if decoder is None else json.loads(decoder.__getstate__()))

    def differences(self) -> tuple[str, ...]:
        """How decoding differs beside what the decoder does."""
        written = sorted(self.special - self.skipped)
        named = _NAMED_SPECIAL.format(", ".join(written))
        return ((named,) if written else ()) + ((_CLEANED,) if self._cleans_up() else ())

    def _decodes_as_its_backend(self) -> bool:
        if self._owner is self._backend:
            return True
        methods = [getattr(type(self._owner), name, None) for name in ("decode", "_decode")]
        return all(getattr(m, "__module__", "").startswith("transformers.tokenization_") for m in methods)

    def _skipped(self) -> frozenset[str]:
        """Tokens that decoding skips. `tokenizers` knows them by their strings, not by their ids."""
        if self._backend is None:
            return frozenset(self._owner.all_special_tokens)
        added = self._backend.get_added_tokens_decoder().values()
        return frozenset(token.content for token in added if token.special)

    def _cleans_up(self) -> bool:
        """Whether `decode` cleans up spaces unless told not to. BPE is left alone unless forced."""
        if not getattr(self._owner, "clean_up_tokenization_spaces", False):
            return False
        forced = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
        is_bpe = self._backend is not None and type(self._backend.model).__name__ == "BPE"
        return not is_bpe or bool(getattr(self._owner, forced, False))


class _Table(dict[int, bytes | None]):
    """Bytes by token id, each made when it is first asked for."""

    def __init__(self, vocabulary: _Vocabulary, decoder: TokenDecoder | None) -> None:
        self._vocabulary, self._decoder = vocabulary, decoder
        self._differences = _Differences(vocabulary)

    def __missing__(self, token_id: int) -> bytes | None:
        if token_id < 0:
            raise ToolkitError(f"token_ids: {token_id} is negative; leave out what is padding")
        piece = self[token_id] = self._piece(token_id, self._vocabulary.token(token_id))
        return piece

    def _piece(self, token_id: int, token: str | None) -> bytes | None:
        if token is None or token in self._vocabulary.special:
            return None
        return self._differences(token_id, token) if self._decoder is None else self._decoder(token)


class _Differences:
    """A token's bytes as what it adds to the decoding of another token."""

    def __init__(self, vocabulary: _Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._anchors: list[int] | None = None

    def __call__(self, token_id: int, token: str) -> bytes:
        # CTC decoders drop repetitions, so the token before is never the same one.
        anchor = next(([a] for a in self._find_anchors() if a != token_id), [])
        before, both = (self._vocabulary.text(ids) for ids in (anchor, [*anchor, token_id]))
        text = both[len(before) :] if both.startswith(before) else self._vocabulary.text([token_id])
        return _part_of_character(token, text) if "\ufffd" in text else text.encode("utf-8")

    def _find_anchors(self) -> list[int]:
        """Two tokens that decode to letters; fewer where there are none."""
        if self._anchors is None:
            self._anchors = []
            for token_id in range(self._vocabulary.size()):
                if self._vocabulary.text([token_id]).strip().isalpha():
                    self._anchors.append(token_id)
                if len(self._anchors) == 2:
                    break
        return self._anchors


def _part_of_character(token: str, text: str) -> bytes:
    """Bytes of a token that decodes to U+FFFD alone, if its string writes them in one of the usual ways."""
    match = BYTE_TOKEN.fullmatch(token)
    if match is not None:
        return bytes([int(match[1], 16)])
    return bytes_of_alphabet(token) if all(c in BYTE_ALPHABET for c in token) else text.encode("utf-8")
