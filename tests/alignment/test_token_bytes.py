"""Bytes of tokens, against the tokenizers' own decoding."""

import json
import subprocess
import sys
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.alignment.small_tokenizers import (
    ADDED,
    NAMES,
    SPECIAL,
    Made,
    byte_level_bpe,
    fast,
    generated_texts,
    random_ids,
    unigram,
    wordpiece,
)
from toolkit.alignment import TokenBytes, segment_pieces
from toolkit.errors import ToolkitError


def backend_of(tokenizer: Any) -> Any:
    return getattr(tokenizer, "backend_tokenizer", tokenizer)


def own_decoding(tokenizer: Any, ids: list[int]) -> str:
    options = {} if backend_of(tokenizer) is tokenizer else {"clean_up_tokenization_spaces": False}
    return tokenizer.decode(ids, skip_special_tokens=True, **options)


def encoded(tokenizer: Any, text: str) -> list[int]:
    return backend_of(tokenizer).encode(text, add_special_tokens=False).ids


def assert_decodes_alike(made: Made, token_bytes: TokenBytes, ids: list[int]) -> None:
    pairs = zip(ids, token_bytes.pieces(ids), strict=True)
    visible = [(backend_of(made.tokenizer).id_to_token(i), piece) for i, piece in pairs if piece is not None]
    text = made.as_decoded([token for token, _ in visible], [piece for _, piece in visible])
    assert text == own_decoding(made.tokenizer, ids)


def mlx_tokenizer_utils() -> Any:
    return pytest.importorskip("mlx_lm.tokenizer_utils", exc_type=ImportError)


def test_joined_bytes_decode_to_the_tokenizers_own_decoding_of_generated_texts(each: Made) -> None:
    token_bytes = TokenBytes(each.tokenizer)
    for text in generated_texts(1000):
        assert_decodes_alike(each, token_bytes, encoded(each.tokenizer, text))


def test_joined_bytes_decode_to_the_tokenizers_own_decoding_of_random_ids(each: Made) -> None:
    token_bytes = TokenBytes(each.tokenizer)
    for ids in random_ids(1000, backend_of(each.tokenizer).get_vocab_size()):
        assert_decodes_alike(each, token_bytes, ids)


@given(text=st.text(max_size=40), name=st.sampled_from(NAMES))
def test_any_text_decodes_alike(made: dict[str, Made], text: str, name: str) -> None:
    each = made[name]
    assert_decodes_alike(each, TokenBytes(each.tokenizer), encoded(each.tokenizer, text))


def test_kind_and_number_of_differences_are_read_from_the_decoder(each: Made) -> None:
    token_bytes = TokenBytes(each.tokenizer)
    assert token_bytes.kind == each.kind
    assert len(token_bytes.differences) == each.n_differences
    assert all(sentence.endswith(".") for sentence in token_bytes.differences)


def test_segments_of_any_tokenizer_cover_its_text_and_every_token_with_bytes(each: Made) -> None:
    token_bytes = TokenBytes(each.tokenizer)
    for ids in random_ids(300, backend_of(each.tokenizer).get_vocab_size(), seed=2):
        pieces = token_bytes.pieces(ids)
        segments = segment_pieces(pieces)
        assert "".join(s.text for s in segments) == b"".join(p or b"" for p in pieces).decode(
            "utf-8", "replace"
        )
        covered = {i for s in segments for i in range(s.token_start, s.token_end)}
        assert covered >= {i for i, piece in enumerate(pieces) if piece}


@pytest.mark.parametrize("name", [name for name in NAMES if name.startswith("byte-level")])
def test_byte_level_pieces_join_to_the_encoded_text(made: dict[str, Made], name: str) -> None:
    tokenizer = made[name].tokenizer
    token_bytes = TokenBytes(tokenizer)
    # "ça" is an added token that the decoder takes for bytes, since its characters are all in the alphabet.
    for text in (text for text in generated_texts(300, seed=3) if "ça" not in text):
        assert b"".join(p or b"" for p in token_bytes.pieces(encoded(tokenizer, text))) == text.encode()


def test_sentencepieces_own_decoding_is_ours_without_the_prefix_space(
    made: dict[str, Made], spm_bpe_model: bytes
) -> None:
    import sentencepiece

    processor = sentencepiece.SentencePieceProcessor(model_proto=spm_bpe_model)
    token_bytes = TokenBytes(made["sentencepiece bpe"].tokenizer)
    n_with_byte_tokens = 0
    for text in generated_texts(300, seed=4):
        ids = processor.encode(text)
        n_with_byte_tokens += any(processor.is_byte(i) for i in ids)
        pieces = token_bytes.pieces(ids)
        assert b"".join(p or b"" for p in pieces).decode("utf-8").removeprefix(" ") == processor.decode(ids)
    assert n_with_byte_tokens > 100


def test_a_leading_space_belongs_to_the_token(made: dict[str, Made]) -> None:
    for name, string, piece in [
        ("byte-level", "ĠParis", b" Paris"),
        ("sentencepiece bpe", "▁Paris", b" Paris"),
        ("sentencepiece bpe", "<0x0A>", b"\n"),
        ("sentencepiece bpe", "<0xF0>", b"\xf0"),
        ("unigram", "▁", b" "),
        ("wordpiece", "Paris", b" Paris"),
        ("wordpiece", "##s", b"s"),
        ("wordpiece, cleaned", ",", b","),
        ("wordpiece", ",", b" ,"),
        ("bpe with a word end", "Paris</w>", b"Paris "),
    ]:
        tokenizer = made[name].tokenizer
        token_id = backend_of(tokenizer).token_to_id(string)
        assert token_id is not None, (name, string)
        assert TokenBytes(tokenizer).piece(token_id) == piece, (name, string)


@pytest.mark.parametrize("name", ["byte-level", "sentencepiece bpe", "unigram"])
def test_added_tokens_have_the_bytes_of_their_content(made: dict[str, Made], name: str) -> None:
    tokenizer = made[name].tokenizer
    token_bytes = TokenBytes(tokenizer)
    # "ça" is left out: see test_byte_level_pieces_join_to_the_encoded_text.
    for content in (content for content in ADDED if content != "ça"):
        token_id = backend_of(tokenizer).token_to_id(content)
        assert token_bytes.piece(token_id) == content.encode()
        assert token_bytes.literal(token_id) == content
        assert not token_bytes.is_special(token_id)


def test_special_tokens_and_ids_past_the_vocabulary_have_no_bytes(each: Made) -> None:
    backend = backend_of(each.tokenizer)
    token_bytes = TokenBytes(each.tokenizer)
    for content in SPECIAL:
        token_id = backend.token_to_id(content)
        assert token_bytes.piece(token_id) is None
        assert token_bytes.is_special(token_id)
        assert token_bytes.literal(token_id) == content
    past = backend.get_vocab_size() + 3
    assert token_bytes.piece(past) is None
    assert token_bytes.is_special(past)
    assert token_bytes.literal(past) == f"<id {past}>"


def test_literals_are_readable(made: dict[str, Made]) -> None:
    tokenizer = made["byte-level"].tokenizer
    token_bytes = TokenBytes(tokenizer)
    assert token_bytes.literal(tokenizer.token_to_id("ĠParis")) == " Paris"
    assert token_bytes.literal(tokenizer.token_to_id("ð")) == r"\xf0"


class OnlyToList(NamedTuple):
    """An array of another library."""

    ids: list[int]

    def tolist(self) -> list[int]:
        return self.ids


def test_pieces_takes_lists_arrays_and_iterators(made: dict[str, Made]) -> None:
    token_bytes = TokenBytes(made["byte-level"].tokenizer)
    ids = [5, 300, 10**6, 5]
    expected = [token_bytes.piece(i) for i in ids]
    assert expected[2] is None
    assert token_bytes.pieces(ids) == expected
    assert token_bytes.pieces(np.array(ids, dtype=np.int32)) == expected
    assert token_bytes.pieces(iter(ids)) == expected
    assert token_bytes.pieces([]) == []
    other_library: Any = OnlyToList(ids)
    assert token_bytes.pieces(other_library) == expected
    scalar: Any = np.int32(300)
    assert token_bytes.piece(scalar) == expected[1]


def test_a_negative_id_is_refused_and_named(made: dict[str, Made]) -> None:
    token_bytes = TokenBytes(made["byte-level"].tokenizer)
    with pytest.raises(ToolkitError, match="-1 is negative"):
        token_bytes.pieces(np.array([3, -1]))


def test_what_cannot_decode_is_refused_and_named() -> None:
    with pytest.raises(ToolkitError, match=r"tokenizer: dict has no decode"):
        TokenBytes({})


def test_mlx_lms_wrapper_gives_what_its_tokenizer_gives(made: dict[str, Made]) -> None:
    utils = mlx_tokenizer_utils()
    for name in ("byte-level in transformers", "sentencepiece bpe", "wordpiece, cleaned"):
        tokenizer = made[name].tokenizer
        ids = range(len(tokenizer) + 2)
        wrapped, bare = TokenBytes(utils.TokenizerWrapper(tokenizer)), TokenBytes(tokenizer)
        assert (wrapped.kind, wrapped.differences) == (bare.kind, bare.differences)
        assert wrapped.pieces(ids) == bare.pieces(ids)


def test_mlx_lms_byte_level_detokenizer_writes_the_same_text_but_for_a_first_space(
    made: dict[str, Made],
) -> None:
    utils = mlx_tokenizer_utils()
    tokenizer = made["byte-level in transformers"].tokenizer
    token_bytes, detokenizer = TokenBytes(tokenizer), utils.BPEStreamingDetokenizer(tokenizer)
    # Its finalize() fails on some added tokens.
    for text in (text for text in generated_texts(1000, seed=5) if not any(a in text for a in ADDED)):
        ids = encoded(tokenizer, text)
        detokenizer.reset()
        for token_id in ids:
            detokenizer.add_token(token_id)
        detokenizer.finalize()
        segments = segment_pieces(token_bytes.pieces(ids))
        assert "".join(s.text for s in segments).removeprefix(" ") == detokenizer.text
        assert "".join(s.text for s in segments) == own_decoding(tokenizer, ids)


def test_a_class_that_decodes_in_its_own_way_is_read_from_its_decoding(made: dict[str, Made]) -> None:
    utils = mlx_tokenizer_utils()
    backend = byte_level_bpe()
    backend.add_tokens(["<n>"])
    token_bytes = TokenBytes(utils.NewlineTokenizer(tokenizer_object=backend))
    assert token_bytes.kind == "decoded"
    assert token_bytes.piece(backend.token_to_id("<n>")) == b"\n"
    plain = TokenBytes(made["byte-level"].tokenizer)
    ids = [i for i in range(700) if i != backend.token_to_id("<n>")]
    assert token_bytes.pieces(ids) == plain.pieces(ids)


def test_a_decoder_that_depends_on_more_than_a_token_is_read_from_differences() -> None:
    from tokenizers import decoders

    fused = decoders.Sequence([decoders.Fuse(), decoders.Metaspace()])
    regex = decoders.Sequence([decoders.Replace(regex_of("▁+"), " "), decoders.Fuse()])
    for decoder, spaces in [(fused, b""), (regex, b" "), (decoders.CTC(), "▁".encode())]:
        tokenizer = unigram(decoder, "always")
        token_bytes = TokenBytes(tokenizer)
        assert token_bytes.kind == "decoded"
        assert len(token_bytes.differences) == 1
        assert token_bytes.piece(tokenizer.token_to_id("▁")) == spaces
        assert token_bytes.piece(tokenizer.token_to_id("<|end|>")) is None
        assert token_bytes.piece(tokenizer.get_vocab_size()) is None
        for ids in random_ids(200, tokenizer.get_vocab_size(), seed=6):
            visible = [i for i in ids if not token_bytes.is_special(i)]
            distinct = [i for i, _ in groupby(visible)]  # CTC drops repetitions
            text = b"".join(p or b"" for p in token_bytes.pieces(distinct)).decode()
            assert text == tokenizer.decode(distinct)


def test_a_replacement_that_could_match_across_tokens_is_not_made_token_by_token() -> None:
    from tokenizers import decoders

    across = decoders.Sequence([decoders.Fuse(), decoders.Replace("▁▁", " ")])
    assert TokenBytes(unigram(across, "always")).kind == "decoded"
    within = decoders.Sequence([decoders.Replace("▁▁", " "), decoders.Fuse()])
    assert TokenBytes(unigram(within, "always")).kind == "plain"


def regex_of(pattern: str) -> Any:
    from tokenizers import Regex

    return Regex(pattern)


class SlowTokenizer:
    """As transformers' tokenizers in plain Python are: no backend, byte-level strings, words joined late."""

    all_special_tokens = ("</s>",)

    def __init__(self) -> None:
        self.tokens = ["<0xF0>", "a", "bc", "Ã", "©", "</s>", "d", "日"]

    def __len__(self) -> int:
        return len(self.tokens)

    def convert_ids_to_tokens(self, token_id: int) -> str:
        return self.tokens[token_id]

    def decode(self, ids: list[int], skip_special_tokens: bool, clean_up_tokenization_spaces: bool) -> str:
        assert skip_special_tokens
        assert not clean_up_tokenization_spaces
        bytes_of = {"<0xF0>": b"\xf0", "Ã": b"\xc3", "©": b"\xa9", "</s>": b""}
        data = b"".join(bytes_of.get(self.tokens[i], self.tokens[i].encode()) for i in ids)
        return data.decode("utf-8", "replace").strip()


def test_a_tokenizer_without_a_backend_is_read_from_its_decoding_down_to_bytes() -> None:
    tokenizer = SlowTokenizer()
    token_bytes = TokenBytes(tokenizer)
    assert token_bytes.kind == "decoded"
    expected = [b"\xf0", b"a", b"bc", b"\xc3", b"\xa9", None, b"d", "日".encode(), None]
    assert token_bytes.pieces(range(9)) == expected
    assert token_bytes.literal(8) == "<id 8>"
    assert b"".join(p or b"" for p in token_bytes.pieces([1, 3, 4, 2])).decode() == "aébc"


def test_clean_up_is_named_where_decode_does_it_by_default() -> None:
    from tokenizers import decoders

    cleaned = TokenBytes(fast(wordpiece(decoders.WordPiece()), clean_up_tokenization_spaces=True))
    assert len(cleaned.differences) == 2
    assert "clean_up_tokenization_spaces" in cleaned.differences[1]
    # transformers does not clean up after a BPE model.
    assert TokenBytes(fast(byte_level_bpe(), clean_up_tokenization_spaces=True)).differences == ()


def test_a_token_named_special_that_the_decoder_writes_has_no_bytes_and_is_named() -> None:
    tokenizer = byte_level_bpe()
    tokenizer.add_tokens(["</s>"])
    hf = fast(tokenizer)
    hf.eos_token = "</s>"
    token_bytes = TokenBytes(hf)
    assert token_bytes.piece(tokenizer.token_to_id("</s>")) is None
    assert "</s>" in token_bytes.differences[0]
    assert "</s>" in own_decoding(hf, [tokenizer.token_to_id("</s>")])


@pytest.mark.parametrize(("start", "stop"), [(1, 0), (0, 1), (2, 1), (3, 3)])
def test_spaces_stripped_before_the_tokens_are_fused_belong_to_no_token(start: int, stop: int) -> None:
    from tokenizers import Tokenizer, decoders, models

    vocabulary = ["▁▁abc▁▁", "▁def▁", "ghi", "▁▁▁jkl▁▁▁"]
    tokenizer = Tokenizer(models.BPE({token: i for i, token in enumerate(vocabulary)}, []))
    steps = [decoders.Replace("▁", " "), decoders.Strip(" ", start, stop), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps)
    token_bytes = TokenBytes(tokenizer)
    assert (token_bytes.kind, token_bytes.differences) == ("metaspace", ())
    ids = [0, 1, 2, 3, 2, 1, 0]
    assert b"".join(p or b"" for p in token_bytes.pieces(ids)).decode() == tokenizer.decode(ids)


def test_a_hole_in_the_vocabulary_counts_as_special() -> None:
    from tokenizers import Tokenizer, decoders, models

    tokenizer = Tokenizer(models.BPE({"a": 0, "b": 5}, []))
    tokenizer.decoder = decoders.ByteLevel()
    token_bytes = TokenBytes(tokenizer)
    assert token_bytes.pieces([0, 3, 5]) == [b"a", None, b"b"]
    assert token_bytes.literal(3) == "<id 3>"


def test_alignment_imports_neither_mlx_nor_a_tokenizers_package() -> None:
    code = "import json, sys, toolkit.alignment; print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    roots = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert not roots & {"mlx", "mlx_lm", "tokenizers", "transformers", "pandas"}
