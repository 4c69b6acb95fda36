"""The default model's tokenizer: known ids, and segments against its own decoding."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.alignment.small_tokenizers import generated_texts, random_ids
from toolkit.alignment import TokenBytes, segment_pieces

CASES = json.loads((Path(__file__).parents[1] / "cases" / "tokenization.json").read_text(encoding="utf-8"))

pytestmark = pytest.mark.model


def text_of(token_bytes: TokenBytes, ids: list[int]) -> str:
    return "".join(segment.text for segment in segment_pieces(token_bytes.pieces(ids)))


@pytest.mark.parametrize("case", CASES, ids=[repr(case["text"]) for case in CASES])
def test_pieces_of_known_ids_join_to_the_text(model: Any, case: dict[str, Any]) -> None:
    pieces = TokenBytes(model.tokenizer).pieces(case["ids"])
    assert b"".join(piece or b"" for piece in pieces) == case["text"].encode()


def test_segments_join_to_the_tokenizers_own_decoding(model: Any) -> None:
    token_bytes = TokenBytes(model.tokenizer)
    assert (token_bytes.kind, token_bytes.differences) == ("byte-level", ())
    texts = [model.tokenizer.encode(text, add_special_tokens=False) for text in generated_texts(500)]
    for ids in [*texts, *random_ids(500, len(model.tokenizer))]:
        own = model.tokenizer.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        assert text_of(token_bytes, ids) == own


def test_end_and_turn_markers_have_no_bytes(model: Any) -> None:
    token_bytes = TokenBytes(model.tokenizer)
    for literal in ("<|im_end|>", "<|im_start|>", "<|endoftext|>"):
        token_id = model.tokenizer.convert_tokens_to_ids(literal)
        assert token_bytes.piece(token_id) is None
        assert token_bytes.literal(token_id) == literal
