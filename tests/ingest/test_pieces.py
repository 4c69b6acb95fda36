r"""Tokens' texts become the bytes of the whole text, whichever way they were written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.alignment.decoders import BYTE_ALPHABET
from toolkit.ingest.given import Token
from toolkit.ingest.pieces import lay, unescaped

LETTERS = {value: letter for letter, value in BYTE_ALPHABET.items()}


def cut(data: bytes, places: list[int]) -> list[bytes]:
    ends = sorted({place % (len(data) + 1) for place in places} | {len(data)})
    return [data[start:end] for start, end in zip([0, *ends], ends, strict=False) if end > start]


@given(st.text(max_size=12), st.lists(st.integers(0, 60), max_size=6))
def test_bytes_that_are_given_are_kept(text: str, places: list[int]) -> None:
    pieces = cut(text.encode(errors="replace"), places)
    whole = b"".join(pieces).decode()
    assert lay([Token("?", piece) for piece in pieces], whole, True).pieces == pieces


@given(
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=12),
    st.lists(st.integers(0, 60), max_size=6),
)
def test_the_alphabet_of_byte_level_vocabularies_is_read(text: str, places: list[int]) -> None:
    pieces = cut(text.encode(), places)
    tokens = [Token("".join(LETTERS[byte] for byte in piece)) for piece in pieces]
    laid = lay(tokens, text, False)
    assert b"".join(piece or b"" for piece in laid.pieces).decode() == text or not laid.fits


@given(
    st.text(st.characters(exclude_categories=("Cs",)), max_size=12), st.lists(st.integers(0, 60), max_size=6)
)
def test_parts_of_characters_together_are_the_text(text: str, places: list[int]) -> None:
    """What a server writes that decodes each token alone: U+FFFD for parts."""
    pieces = cut(text.encode(), places)
    laid = lay([Token(piece.decode("utf-8", "replace")) for piece in pieces], text, False)
    assert laid.fits
    assert len(laid.pieces) == len(pieces)
    assert b"".join(piece or b"" for piece in laid.pieces).decode() == text


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("bytes:\\xe2\\x82", b"\xe2\x82"),
        ("bytes: \\xe2", b" \xe2"),
        ("byte: \\xE2", b"\xe2"),
        ("bytes:a\\xff\\\\", b"a\xff\\"),
        ("bytes:plain", None),
        ("a\\xe2", None),
    ],
)
def test_escaped_bytes_are_read_back(written: str, expected: bytes | None) -> None:
    assert unescaped(written) == expected


@pytest.mark.parametrize("end", ["<|im_end|>", "</s>", "<end_of_turn>"])
def test_an_end_token_outside_the_text_is_special(end: str) -> None:
    assert lay([Token("a"), Token(end)], "a", False).pieces == [b"a", None]
    assert lay([Token("a"), Token(end)], f"a{end}", False).pieces == [b"a", end.encode()]


def test_words_of_sentencepiece_are_read_over_the_text() -> None:
    assert lay([Token("▁The"), Token("▁end"), Token("<0x0A>")], " The end\n", False).pieces == [
        b" The",
        b" end",
        b"\n",
    ]


def test_tokens_of_which_only_ids_are_known_share_the_text() -> None:
    laid = lay([Token(id=1), Token(id=2)], "Paris", False)
    assert laid.pieces == [b"", b"Paris"]
    assert laid.n_guessed == 2


def test_tokens_of_which_nothing_but_ids_is_known_are_shown_as_them() -> None:
    assert lay([Token(id=1), Token(id=2)], None, False).pieces == [b"<1>", b"<2>"]
