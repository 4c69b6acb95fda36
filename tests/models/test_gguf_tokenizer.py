import json
import random
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from toolkit.errors import ToolkitError
from toolkit.models.gguf_header import GgufHeader
from toolkit.models.gguf_tokenizer import build_tokenizer, tokenizer_config

CASES = Path(__file__).parents[1] / "cases"
TEXTS = st.text(st.sampled_from("aAbB zZ's'LL0123456789 \n\r\t.,!éß日本語のहि\u200b½Ⅷ"), max_size=40)

# The published patterns, each written down whole
PUBLISHED = {
    "gpt-2": r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""",
    "llama-bpe": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"""
    r"""| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""",
    "qwen2": r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*"""
    r"""|\s*[\r\n]+|\s+(?!\S)|\s+""",
}


def byte_characters() -> dict[int, str]:
    """Byte-level BPE's character of each byte: itself where it prints, else one from 256 on."""
    printing = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [byte for byte in range(256) if byte not in printing]
    return {byte: chr(byte) for byte in printing} | {byte: chr(256 + i) for i, byte in enumerate(rest)}


def header_of(metadata: dict) -> GgufHeader:
    return GgufHeader(Path("some.gguf"), 3, metadata, {})


def byte_level_metadata(pre: str, extra: tuple[str, ...] = (), merges: tuple[str, ...] = ()) -> dict:
    tokens = ["<end>", "<start>", "<mine>", *byte_characters().values(), *extra]
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": np.array([3, 3, 4] + [1] * (len(tokens) - 3)),
        "tokenizer.ggml.merges": list(merges),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 0,
    }


@cache
def plain_tokenizer(pre: str) -> Tokenizer:
    return build_tokenizer(header_of(byte_level_metadata(pre)))


@cache
def sentence_tokenizer() -> Tokenizer:
    return build_tokenizer(header_of(sentence_metadata()))


def pieces(pre: str, text: str) -> list[str]:
    """What a text is cut into before merging, byte characters undone."""
    back = {character: byte for byte, character in byte_characters().items()}
    cut = plain_tokenizer(pre).pre_tokenizer.pre_tokenize_str(text)
    return [bytes(back[character] for character in piece).decode() for piece, _ in cut]


@pytest.mark.parametrize("pre", sorted(PUBLISHED))
@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_text_is_cut_by_the_published_pattern(pre, text):
    assert pieces(pre, text) == regex.findall(PUBLISHED[pre], text)


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_smollm_takes_digits_one_by_one_then_cuts_the_rest(text):
    expected = []
    for part in regex.split(r"(\p{N})", text):
        expected += [part] if regex.fullmatch(r"\p{N}", part) else regex.findall(PUBLISHED["gpt-2"], part)
    assert pieces("smollm", text) == expected


def test_the_default_cuts_at_punctuation_and_digits():
    assert pieces("default", "It's 12345 (yes).") == ["It", "'", "s", " ", "123", "45", " ", "(", "yes", ")."]


def test_merges_apply_in_their_order():
    metadata = byte_level_metadata("gpt-2", ("ab", "bc", "abc"), ("b c", "a b", "ab c"))
    tokenizer = build_tokenizer(header_of(metadata))
    assert tokenizer.encode("abc").tokens == ["a", "bc"]


def test_only_llama_bpe_takes_a_whole_piece_before_its_merges():
    for pre, expected in (("llama-bpe", ["abc"]), ("gpt-2", ["a", "bc"])):
        metadata = byte_level_metadata(pre, ("ab", "bc", "abc"), ("b c", "a b", "ab c"))
        tokenizer = build_tokenizer(header_of(metadata))
        assert tokenizer.encode("abc", add_special_tokens=False).tokens == expected


def test_control_tokens_are_special_and_the_users_own_are_text():
    tokenizer = build_tokenizer(header_of(byte_level_metadata("gpt-2")))
    ids = tokenizer.encode("<mine>a<end>").ids
    assert ids == [2, tokenizer.token_to_id("a"), 0]
    assert tokenizer.decode(ids) == "<mine>a"


@pytest.mark.parametrize(
    ("pre", "flags", "expected"),
    [
        ("gpt-2", {}, ["a"]),
        ("llama-bpe", {}, ["<start>", "a"]),
        ("llama-bpe", {"add_bos_token": False}, ["a"]),
        ("gpt-2", {"add_bos_token": True, "add_eos_token": True}, ["<start>", "a", "<end>"]),
    ],
)
def test_ends_are_added_as_the_file_says(pre, flags, expected):
    metadata = byte_level_metadata(pre) | {f"tokenizer.ggml.{key}": value for key, value in flags.items()}
    assert build_tokenizer(header_of(metadata)).encode("a").tokens == expected


@settings(max_examples=100, deadline=None)
@given(TEXTS)
def test_byte_level_text_comes_back(text):
    tokenizer = plain_tokenizer("smollm")
    assert tokenizer.decode(tokenizer.encode(text).ids) == text


def sentence_pieces(seed: int = 0) -> tuple[list[str], list[float]]:
    """Pieces as SentencePiece's trainer makes them: each joins two earlier ones, with a falling score."""
    source = random.Random(seed)
    pieces = ["\u2581", *"abcde"]
    scores = [-1000.0 - i for i in range(len(pieces))]
    while len(pieces) < 60:
        joined = source.choice(pieces) + source.choice(pieces)
        if joined not in pieces and len(joined) < 6:
            pieces.append(joined)
            scores.append(-float(len(pieces)))
    return pieces, scores


def sentence_metadata(**flags: bool) -> dict:
    pieces, scores = sentence_pieces()
    byte_tokens = [f"<0x{byte:02X}>" for byte in range(256)]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": ["<unk>", "<s>", "</s>", *byte_tokens, *pieces],
        "tokenizer.ggml.scores": np.array([0.0] * 259 + scores, dtype=np.float32),
        "tokenizer.ggml.token_type": np.array([2, 3, 3] + [6] * 256 + [1] * len(pieces)),
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.unknown_token_id": 0,
    } | {f"tokenizer.ggml.{key}": value for key, value in flags.items()}


def merge_best_first(text: str) -> list[str]:
    """SentencePiece's BPE in plain Python: join the neighbours with the best score, the leftmost first."""
    scores = dict(zip(*sentence_pieces(), strict=True))
    parts = list("\u2581" + text.replace(" ", "\u2581"))
    while True:
        joins = [(scores[a + b], -i) for i, (a, b) in enumerate(pairwise(parts)) if a + b in scores]
        if not joins:
            break
        at = -max(joins)[1]
        parts[at : at + 2] = [parts[at] + parts[at + 1]]
    return [token for part in parts for token in ([part] if part in scores else byte_tokens_of(part))]


def byte_tokens_of(part: str) -> list[str]:
    return [f"<0x{byte:02X}>" for byte in part.encode()]


@settings(max_examples=300, deadline=None)
@given(st.text(st.sampled_from("abcdeabcdeabcde  é日"), min_size=1, max_size=30))
def test_sentencepiece_joins_the_best_score_first_and_falls_back_to_bytes(text):
    tokenizer = sentence_tokenizer()
    encoded = tokenizer.encode(text, add_special_tokens=False)
    assert encoded.tokens == merge_best_first(text)
    assert tokenizer.decode(encoded.ids) == text


def test_sentencepiece_adds_the_start_and_a_space_unless_told_not_to():
    tokenizer = sentence_tokenizer()
    assert tokenizer.encode("a").ids[0] == 1
    bare = build_tokenizer(header_of(sentence_metadata(add_bos_token=False, add_space_prefix=False)))
    assert bare.encode("a").tokens == ["a"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"tokenizer.ggml.model": "bert"}, "'bert'"),
        ({"tokenizer.ggml.pre": "tekken"}, "'tekken'.*smollm"),
        ({"tokenizer.ggml.tokens": ["a", "b", "a"]}, "token twice"),
        ({"tokenizer.ggml.tokens": 7}, "tokens is 7"),
        ({"tokenizer.ggml.merges": ["a b c"]}, "not two tokens"),
        ({"tokenizer.ggml.merges": ["a nope"]}, "nope"),
        ({"tokenizer.ggml.add_bos_token": "yes"}, "add_bos_token is 'yes'"),
        ({"tokenizer.ggml.eos_token_id": -1}, "eos_token_id is -1"),
        ({"tokenizer.ggml.model": "llama"}, "scores is missing"),
    ],
)
def test_an_unknown_or_damaged_tokenizer_is_named(change, named):
    header = header_of(byte_level_metadata("gpt-2") | change)
    with pytest.raises(ToolkitError, match=named):
        tokenizer_config(header) if "eos_token_id" in named else build_tokenizer(header)


def test_the_config_names_special_tokens_and_the_template():
    metadata = byte_level_metadata("gpt-2") | {
        "tokenizer.chat_template": "{{ x }}",
        "llama.context_length": 99,
    }
    config = tokenizer_config(header_of(metadata))
    assert config["bos_token"] == "<start>"
    assert config["eos_token"] == "<end>"
    assert config["chat_template"] == "{{ x }}"
    assert config["model_max_length"] == 99
    assert "unk_token" not in config


@pytest.mark.model
def test_the_default_models_ids_are_llama_cpps(model):
    for case in json.loads((CASES / "tokenization.json").read_text(encoding="utf-8")):
        assert model.tokenizer.encode(case["text"], add_special_tokens=False) == case["ids"], case["text"]
