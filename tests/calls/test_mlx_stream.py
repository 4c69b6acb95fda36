"""`toolkit.stream_generate`: MLX-LM's responses, and exactly the tokens that their texts have bytes of."""

from __future__ import annotations

from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import mlx.core as mx
import mlx.nn as nn
import mlx_lm
import pytest
from mlx_lm.tokenizer_utils import (
    BPEStreamingDetokenizer,
    NaiveStreamingDetokenizer,
    SPMStreamingDetokenizer,
    TokenizerWrapper,
    _byte_decoder,
)
from mlx_lm.tokenizer_utils import load as load_tokenizer

import toolkit
from tests.alignment.small_tokenizers import (
    NAMES,
    every_kind,
    fast,
    generated_texts,
    is_byte,
    random_ids,
    sentencepiece_model,
)

BYTE_LEVEL = "byte-level in transformers"
STRIPPED = "sentencepiece bpe"
AT_ONCE = {  # MLX-LM's detokenizers that write all bytes that wait
    "byte-level": BPEStreamingDetokenizer,
    BYTE_LEVEL: BPEStreamingDetokenizer,
    "bpe with byte fallback": SPMStreamingDetokenizer,
    "bpe with byte fallback, stripped": SPMStreamingDetokenizer,
    STRIPPED: SPMStreamingDetokenizer,
}
IN_LINES = [name for name in NAMES if name not in AT_ONCE]


class Scripted(nn.Module):
    """A model that says given ids, each with another log-probability."""

    def __init__(self, script: list[int], size: int) -> None:
        super().__init__()
        self._script = script
        self._size = size
        self._turn = 0

    def __call__(self, ids: mx.array, cache: Any = None) -> mx.array:
        token = self._script[self._turn] if self._turn < len(self._script) else 0
        self._turn += 1
        return (mx.arange(self._size) == token)[None, None] * (1 + 0.01 * self._turn)

    def make_cache(self) -> list[Any]:
        return []


class Part(NamedTuple):
    """A response with text: the text, and the places in the script of its tokens."""

    text: str
    places: list[int]


@pytest.fixture(scope="module")
def hugging_face(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Every kind of tokenizer in transformers' classes."""
    pytest.importorskip("sentencepiece")
    model = sentencepiece_model(model_type="bpe", byte_fallback=True, character_coverage=0.98)
    made = every_kind(tmp_path_factory.mktemp("kinds"), model)
    return {
        name: kind.tokenizer if hasattr(kind.tokenizer, "init_kwargs") else fast(kind.tokenizer)
        for name, kind in made.items()
    }


@pytest.fixture(scope="module")
def loaded(
    hugging_face: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> dict[str, TokenizerWrapper]:
    """The same as MLX-LM loads them, with the detokenizer that it chooses."""
    folder = tmp_path_factory.mktemp("saved")
    for name, tokenizer in hugging_face.items():
        tokenizer.save_pretrained(folder / name)
    return {name: load_tokenizer(folder / name) for name in hugging_face}


def respond(tokenizer: Any, script: list[int], **given: Any) -> list[Any]:
    given.setdefault("max_tokens", len(script))
    size = len(tokenizer) + 8  # as a padded output layer has
    return list(toolkit.stream_generate(Scripted(script, size), tokenizer, [1], **given))


def parts_of(responses: list[Any], script: list[int]) -> list[Part]:
    """Checks what holds for every tokenizer, and finds tokens by their log-probabilities."""
    places = {float(r.logprobs[r.token].item()): place for place, r in enumerate(responses)}
    assert len(places) == len(responses)
    parts = []
    for now, response in enumerate(responses):
        tokens = response.segment_tokens
        assert bool(tokens) == bool(response.text)
        found = [places[token.logprob] for token in tokens]
        assert [script[place] for place in found] == [token.id for token in tokens]
        assert all(token.bytes for token in tokens)
        assert found == sorted(set(found))
        assert max(found, default=0) <= now
        if tokens:
            parts.append(Part(response.text, found))
    return parts


def in_order(parts: list[Part]) -> bool:
    """A token is in two texts only where one ends inside it and the other begins there."""
    return all(a.places[-1] <= b.places[0] for a, b in pairwise(parts))


def by_characters(pieces: list[bytes]) -> list[tuple[str, set[int]]]:
    """The characters of joined bytes with the tokens of each, one after the other."""
    owners = [place for place, piece in enumerate(pieces) for _ in piece]
    data, characters = b"".join(pieces), []
    while data:
        n = first_character(data)
        characters.append((data[:n].decode("utf-8", "replace"), set(owners[:n])))
        data, owners = data[n:], owners[n:]
    return characters


def first_character(data: bytes) -> int:
    """Bytes of the first character, or of what is replaced by one."""
    for n in range(1, 5):
        try:
            data[:n].decode()
            return n
        except UnicodeDecodeError as error:
            if error.reason != "unexpected end of data" or n >= len(data):
                return error.end
    raise AssertionError(data)


def expected_parts(characters: list[tuple[str, set[int]]], texts: list[str]) -> list[Part]:
    """The characters cut into these texts, which lack spaces at the start at most."""
    dropped = len(characters) - len("".join(texts))
    assert not "".join(character for character, _ in characters[:dropped]).strip(" ")
    rest, parts = iter(characters[dropped:]), []
    for text in texts:
        cut = [next(rest) for _ in text]
        assert "".join(character for character, _ in cut) == text
        parts.append(Part(text, sorted(set().union(*(owners for _, owners in cut)))))
    return parts


def plain_bytes(tokenizer: TokenizerWrapper, token: int) -> bytes:
    """What MLX-LM's own tables say."""
    table = tokenizer.detokenizer.tokenmap
    if isinstance(tokenizer.detokenizer, SPMStreamingDetokenizer):
        return table[token].replace("▁".encode(), b" ")
    name = table[token] if token < len(table) else "!"
    decoder = _byte_decoder()
    return b"".join(bytes([decoder[c]]) if c in decoder else c.encode() for c in name)


def scripts(tokenizer: Any, n: int, seed: int) -> list[list[int]]:
    """Texts of many languages, and random ids; no end token."""
    ends = {tokenizer.eos_token_id}
    # Byte-level detokenizers write an id past the vocabulary; the others of MLX-LM fail on one.
    found = [tokenizer.encode(text, add_special_tokens=False) for text in generated_texts(n, seed)]
    found += list(random_ids(n, len(tokenizer) - 5, seed))
    return [[token for token in ids if token not in ends] for ids in found if ids]


@pytest.mark.parametrize("name", AT_ONCE)
def test_each_text_has_the_tokens_of_its_bytes(name: str, loaded: dict[str, TokenizerWrapper]) -> None:
    tokenizer = loaded[name]
    assert type(tokenizer.detokenizer) is AT_ONCE[name]
    for script in filter(None, scripts(tokenizer, 25, seed=1)):
        parts = parts_of(respond(tokenizer, script), script)
        pieces = [plain_bytes(tokenizer, token) for token in script]
        assert in_order(parts)
        assert parts == expected_parts(by_characters(pieces), [part.text for part in parts])


Owners = Callable[[Any, list[int]], list[tuple[str, set[int]]]]


def by_prefixes(tokenizer: Any, line: list[int]) -> list[tuple[str, set[int]]]:
    """A token has a byte in a character that is not there before it, or not yet whole.

    Right where no token changes whole characters before it.
    """
    decoded = [tokenizer.decode(line[:k]) for k in range(len(line) + 1)]
    assert all(decoded[-1].startswith(text.rstrip("\ufffd")) for text in decoded)
    characters = []
    for place, character in enumerate(decoded[-1]):
        begun = next(k for k, text in enumerate(decoded) if len(text) > place)
        whole = next(k for k, text in enumerate(decoded) if text[place : place + 1] == character)
        characters.append((character, set(range(begun - 1, whole))))
    return characters


def by_pieces(tokenizer: Any, line: list[int]) -> list[tuple[str, set[int]]]:
    """By the bytes of a byte-level vocabulary; a special token's are those of its name."""
    decoder = _byte_decoder()
    names = tokenizer.convert_ids_to_tokens(line)
    known = [all(c in decoder for c in name) for name in names]
    return by_characters(
        [
            bytes(decoder[c] for c in name) if is_known else name.encode()
            for name, is_known in zip(names, known, strict=True)
        ]
    )


def by_word_ends(tokenizer: Any, line: list[int]) -> list[tuple[str, set[int]]]:
    """A word end is its token's space; the last one of the line is not written yet."""
    names = tokenizer.convert_ids_to_tokens(line)
    return by_characters([name.replace("</w>", " ").encode() for name in names])


def by_runs(tokenizer: Any, line: list[int]) -> list[tuple[str, set[int]]]:
    """Of a vocabulary with byte tokens: a run of them that is not valid as a whole is one U+FFFD a byte."""
    names = tokenizer.convert_ids_to_tokens(line)
    characters: list[tuple[str, set[int]]] = []
    for in_run, group in groupby(enumerate(names), key=lambda pair: is_byte(pair[1])):
        places, run = zip(*group, strict=True)
        pieces = [bytes([int(n[3:5], 16)]) if in_run else n.replace("▁", " ").encode() for n in run]
        found = by_characters(pieces)
        if in_run and b"".join(pieces).decode("utf-8", "replace").encode() != b"".join(pieces):
            found = [("\ufffd", {place}) for place in range(len(run))]
        characters += [(c, {places[owner] for owner in owners}) for c, owners in found]
    decoded = tokenizer.decode(line)
    return characters[len(characters) - len(decoded) :]


def in_lines(tokenizer: Any, script: list[int], owners_of: Owners) -> list[Part]:
    """The naive detokenizer's texts with their tokens."""
    detokenizer, parts = NaiveStreamingDetokenizer(tokenizer), []
    first, line = 0, 0  # the character and the token that the line begins with
    for place, token in enumerate(script):
        detokenizer.add_token(token)
        if place == len(script) - 1:
            detokenizer.finalize()
        shown = detokenizer.offset
        text = detokenizer.last_segment
        if text:
            cut = owners_of(tokenizer, script[line : place + 1])[shown - first :][: len(text)]
            assert "".join(character for character, _ in cut) == text
            owners = set().union(*(owners for _, owners in cut))
            parts.append(Part(text, sorted(line + owner for owner in owners)))
        if text.endswith("\n"):
            first, line = detokenizer.offset, place + 1
    return parts


@pytest.mark.parametrize("name", IN_LINES)
def test_texts_of_the_naive_detokenizer(name: str, loaded: dict[str, TokenizerWrapper]) -> None:
    tokenizer = loaded[name]
    assert type(tokenizer.detokenizer) is NaiveStreamingDetokenizer
    for text in generated_texts(20, seed=2):
        # A character that looks like the mark of an unfinished one would mislead the plain count.
        script = tokenizer.encode(text.replace("\ufffd", ""), add_special_tokens=False)
        parts = parts_of(respond(tokenizer, script), script)
        assert in_order(parts)
        owners_of = by_word_ends if name == "bpe with a word end" else by_prefixes
        assert parts == in_lines(tokenizer, script, owners_of)


@pytest.mark.parametrize(
    ("name", "owners_of"),
    [
        ("byte-level in a sequence", by_pieces),
        (BYTE_LEVEL, by_pieces),
        ("bpe with byte fallback", by_runs),
        (STRIPPED, by_runs),
    ],
)
def test_a_tokenizer_of_transformers_may_be_given(
    name: str, owners_of: Owners, hugging_face: dict[str, Any]
) -> None:
    """MLX-LM then takes the naive detokenizer, for which any ids at all are tried."""
    tokenizer = hugging_face[name]
    for script in filter(None, scripts(tokenizer, 15, seed=3)):
        parts = parts_of(respond(tokenizer, script), script)
        assert parts == in_lines(tokenizer, script, owners_of)


@pytest.mark.parametrize("name", NAMES)
def test_the_responses_are_those_of_mlx_lm(name: str, loaded: dict[str, TokenizerWrapper]) -> None:
    tokenizer = loaded[name]
    script = [t for text in generated_texts(5) for t in tokenizer.encode(text, add_special_tokens=False)]
    size = len(tokenizer)
    ours = respond(tokenizer, script)
    theirs = list(mlx_lm.stream_generate(Scripted(script, size + 8), tokenizer, [1], max_tokens=len(script)))
    assert len(ours) == len(theirs)
    for response, expected in zip(ours, theirs, strict=True):
        assert isinstance(response, type(expected))
        for field in ("text", "token", "from_draft", "prompt_tokens", "generation_tokens", "finish_reason"):
            assert getattr(response, field) == getattr(expected, field)
        assert mx.array_equal(response.logprobs, expected.logprobs)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (NaiveStreamingDetokenizer, [Part("x", [0]), Part("x", [1]), Part("é", [1, 2]), Part("x", [3])]),
        (BPEStreamingDetokenizer, [Part("x", [0]), Part("xé", [1, 2]), Part("x", [3])]),
    ],
)
def test_a_token_that_ends_one_text_and_begins_the_next_is_in_both(kind: Any, expected: list[Part]) -> None:
    tokenizer = byte_level({"x": 0, "xÃ": 1, "©": 2}, kind)
    script = [0, 1, 2, 0]
    assert parts_of(respond(tokenizer, script), script) == expected


def byte_level(vocabulary: dict[str, int], kind: Any) -> TokenizerWrapper:
    from tokenizers import Tokenizer, decoders, models

    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.decoder = decoders.ByteLevel()
    return TokenizerWrapper(fast(tokenizer), kind)


def test_spaces_that_the_tokenizer_cleans_up_are_no_tokens(hugging_face: dict[str, Any]) -> None:
    """Where decoding is not the tokens' bytes, what a token adds to it tells; also inside a character."""
    made = hugging_face[BYTE_LEVEL].backend_tokenizer
    forced = "clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output"
    tokenizer = fast(made, clean_up_tokenization_spaces=True, **{forced: True})
    alphabet = {value: name for name, value in _byte_decoder().items()}
    names = ["x", "Ġ", ".", *(alphabet[byte] for byte in "🙂é🙂".encode()[:-2])]
    script = tokenizer.convert_tokens_to_ids(names)
    parts = parts_of(respond(tokenizer, script), script)
    assert parts == [
        Part("x", [0]),
        Part(".", [2]),
        Part("🙂", [3, 4, 5, 6]),
        Part("é", [7, 8]),
        Part("\ufffd", [9, 10]),
    ]


def test_each_line_begins_anew_in_the_naive_detokenizer(hugging_face: dict[str, Any]) -> None:
    """Its first token loses its space, as MLX-LM decodes a line alone."""
    tokenizer = hugging_face["unigram"]
    tokenizer.add_tokens(["\n"])
    first, second = (tokenizer.encode(word, add_special_tokens=False) for word in ("dog", "Straße naïve"))
    newline = tokenizer.convert_tokens_to_ids("\n")
    script = [*first, newline, *second, newline, *second]
    parts = parts_of(respond(tokenizer, script), script)
    assert len(second) > 1
    assert "".join(part.text for part in parts) == "dog\nStraße naïve\nStraße naïve"
    assert in_order(parts)
    assert parts == in_lines(tokenizer, script, by_prefixes)


def test_texts_and_tokens_do_not_lag_behind_each_other(loaded: dict[str, TokenizerWrapper]) -> None:
    text = "kings) according to specific rules"
    tokenizer = loaded[BYTE_LEVEL]
    responses = respond(tokenizer, tokenizer.encode(text))
    assert "".join(response.text for response in responses) == text
    for response in responses:
        assert b"".join(token.bytes for token in response.segment_tokens).decode() == response.text


def test_bytes_of_an_unfinished_character_come_with_the_last_response(
    loaded: dict[str, TokenizerWrapper],
) -> None:
    tokenizer = loaded[BYTE_LEVEL]
    script = tokenizer.convert_tokens_to_ids(
        ["Ġ", "ð", "Ł"]
    )  # a space, and two of the four bytes of an emoji
    responses = respond(tokenizer, script)
    assert [response.text for response in responses] == ["", "", "\ufffd"]  # the first space is dropped
    assert [token.bytes for token in responses[-1].segment_tokens] == [b"\xf0", b"\x9f"]
    script += [tokenizer.eos_token_id]
    responses = respond(tokenizer, script)
    assert [token.bytes for token in responses[-1].segment_tokens] == [b"\xf0", b"\x9f"]
    assert responses[-1].finish_reason == "stop"


def test_the_end_token_is_in_no_text(loaded: dict[str, TokenizerWrapper]) -> None:
    for name, tokenizer in loaded.items():
        script = [*tokenizer.encode("the lazy dog", add_special_tokens=False), tokenizer.eos_token_id]
        responses = respond(tokenizer, script, max_tokens=40)
        assert responses[-1].finish_reason == "stop"
        assert {token for part in parts_of(responses, script) for token in part.places} == {
            *range(len(script) - 1)
        }, name


def test_a_special_token_that_mlx_lm_writes_has_the_bytes_of_its_name(
    loaded: dict[str, TokenizerWrapper],
) -> None:
    for name in (BYTE_LEVEL, STRIPPED, "byte-level in a sequence", "wordpiece"):
        tokenizer = loaded[name]
        user = tokenizer.convert_tokens_to_ids("<|user|>")
        responses = respond(tokenizer, [user, user])
        assert [token.bytes.strip() for r in responses for token in r.segment_tokens] == [b"<|user|>"] * 2


def test_an_id_past_the_vocabulary_is_written_as_mlx_lm_does(loaded: dict[str, TokenizerWrapper]) -> None:
    tokenizer = loaded[BYTE_LEVEL]
    script = [*tokenizer.encode("dog"), len(tokenizer) + 3]
    assert parts_of(respond(tokenizer, script), script)[-1] == Part("!", [len(script) - 1])


class Words(NaiveStreamingDetokenizer):
    """A detokenizer of a user's: it gives text at the end only."""

    @property
    def text(self) -> str:
        return self._text


def test_a_detokenizer_of_a_class_of_its_own_writes_all_that_waits(hugging_face: dict[str, Any]) -> None:
    tokenizer = TokenizerWrapper(hugging_face["unigram"], Words)
    script = tokenizer.encode("the lazy dog", add_special_tokens=False)
    parts = parts_of(respond(tokenizer, script), script)
    assert parts == [Part("the lazy dog", list(range(len(script))))]


def test_all_arguments_reach_mlx_lm(tiny_model: Any) -> None:
    network, tokenizer = tiny_model.network, tiny_model.tokenizer
    seen: list[int] = []

    def processor(ids: mx.array, logits: mx.array) -> mx.array:
        seen.append(len(ids))
        return logits

    given: dict[str, Any] = {"logits_processors": [processor], "prefill_step_size": 2}
    ours = list(toolkit.stream_generate(network, tokenizer, "What is", 7, **given))
    expected = list(mlx_lm.stream_generate(network, tokenizer, "What is", max_tokens=7))
    assert [response.token for response in ours] == [response.token for response in expected]
    assert seen[0] == len(tokenizer.encode("What is"))
    with pytest.raises(ValueError, match="non-zero"):
        list(toolkit.stream_generate(network, tokenizer, "What is", max_tokens=0))


def test_a_draft_model_changes_no_token(tiny_model: Any) -> None:
    network, tokenizer = tiny_model.network, tiny_model.tokenizer
    plain = list(toolkit.stream_generate(network, tokenizer, "What is", max_tokens=12))
    drafted = list(toolkit.stream_generate(network, tokenizer, "What is", max_tokens=12, draft_model=network))
    assert any(response.from_draft for response in drafted)
    assert [r.text for r in drafted] == [r.text for r in plain]
    for response, expected in zip(drafted, plain, strict=True):
        assert [t.id for t in response.segment_tokens] == [t.id for t in expected.segment_tokens]


@pytest.mark.model
def test_the_default_model_gives_its_text_token_by_token(model: Any) -> None:
    prompt = model.tokenizer.apply_chat_template(
        [{"role": "user", "content": "Name a cat in Japanese script."}], add_generation_prompt=True
    )
    responses = list(toolkit.stream_generate(model.network, model.tokenizer, prompt, max_tokens=8))
    tokens = [token.id for response in responses for token in response.segment_tokens]
    end = [r.token for r in responses if r.finish_reason == "stop"]
    assert tokens + end == [response.token for response in responses]
    text = b"".join(token.bytes for response in responses for token in response.segment_tokens)
    assert text.decode("utf-8", "replace") == "".join(response.text for response in responses)
