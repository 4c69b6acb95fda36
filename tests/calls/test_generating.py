"""`toolkit.generate` and `toolkit.stream`: shapes, texts, what a sequence holds, and segments as they come."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx_lm.models.cache import ArraysCache

import toolkit
from tests.generation.networks import believed
from toolkit.calls.results import Generation
from toolkit.collect.collector import Work, collect
from toolkit.collect.prompts import Prompt
from toolkit.collect.render import render_prompts
from toolkit.collect.settings import RenderSettings, Settings
from toolkit.errors import ToolkitError
from toolkit.generation.sampler import Sampler
from toolkit.records import SequenceRecord

PROMPTS = ["What is the capital of France?", "How many legs", "naïve café"]
STOPS = ["he", "C", "_"]
TOLERANCE = 2e-2  # attention scores of the tiny network reach 350, so float32 is off by some 1e-3


def sequences_of(result: Any) -> list[Any]:
    return [sequence for generation in result.generations for sequence in generation.sequences]


def assert_own_logprobs(model: Any, result: Any) -> None:
    """Each sequence's log-probabilities are those of its own prompt and tokens, read at once."""
    for sequence in sequences_of(result):
        generated = list(sequence.generated_token_ids)
        expected = believed(model.network, list(sequence.prompt_token_ids), generated)
        expected = expected[np.arange(len(generated)), generated]
        np.testing.assert_allclose(sequence.logprobs, expected, atol=TOLERANCE)


@pytest.mark.parametrize(
    ("prompts", "samples", "shape", "text"),
    [
        (PROMPTS[0], 1, (1, 1), str),
        (PROMPTS[:1], 1, (1, 1), str),
        (PROMPTS, 1, (1, 3), [str] * 3),
        (PROMPTS[0], 4, (4, 1), [str] * 4),
        (PROMPTS, 4, (4, 3), [[str] * 3] * 4),
    ],
)
def test_arrays_keep_singletons_and_text_drops_them(
    prompts: Any, samples: int, shape: tuple[int, int], text: Any, tiny_model: Any
) -> None:
    result = toolkit.generate(tiny_model, prompts, samples=samples, max_tokens=6)
    longest = max(len(sequence.generated_token_ids) for sequence in sequences_of(result))
    assert result.shape == result.token_ids.shape == result.logprobs.shape == (*shape, longest)
    assert result.token_ids.dtype == np.int32
    assert result.logprobs.dtype == np.float32

    def kinds(value: Any) -> Any:
        return [kinds(one) for one in value] if isinstance(value, list) else type(value)

    assert kinds(result.text) == text


def test_what_is_past_a_sequences_end_is_marked(tiny_model: Any) -> None:
    many_ends = replace(tiny_model, more_end_ids=frozenset(range(0, 320, 7)))  # so that lengths differ
    result = toolkit.generate(many_ends, PROMPTS, samples=5, max_tokens=12)
    lengths = set()
    for prompt, generation in enumerate(result.generations):
        for sample, sequence in enumerate(generation.sequences):
            n = len(sequence.generated_token_ids)
            lengths.add(n)
            assert result.token_ids[sample, prompt, :n].tolist() == list(sequence.generated_token_ids)
            assert (result.token_ids[sample, prompt, n:] == -1).all()
            assert (result.token_ids[sample, prompt, :n] >= 0).all()
            np.testing.assert_array_equal(result.logprobs[sample, prompt, :n], sequence.logprobs)
            assert np.isnan(result.logprobs[sample, prompt, n:]).all()
            assert result.text[sample][prompt] == sequence.text
    assert len(lengths) > 2
    assert_own_logprobs(many_ends, result)


def test_a_sequence_has_its_prompt_its_tokens_and_their_sum(tiny_model: Any) -> None:
    result = toolkit.generate(tiny_model, PROMPTS, samples=2, max_tokens=7, chat_template=False)
    for text, generation in zip(PROMPTS, result.generations, strict=True):
        assert generation.prompt.text == text
        assert [s.record.sample_index for s in generation.sequences] == [0, 1]
        for sequence in generation.sequences:
            assert list(sequence.prompt_token_ids) == tiny_model.tokenizer.encode(text)
            assert sequence.token_ids == sequence.prompt_token_ids + sequence.generated_token_ids
            assert sequence.logprob == pytest.approx(np.sum(sequence.logprobs, dtype=np.float64), abs=1e-9)
            pieces = tiny_model.token_bytes.pieces(sequence.generated_token_ids)
            assert sequence.text == b"".join(p or b"" for p in pieces).decode("utf-8", "replace")


def test_watched_tokens_of_each_sequence_by_their_texts(tiny_model: Any) -> None:
    watched = {" capital": tiny_model.tokenizer.encode(" capital")[0], "<|im_end|>": 2}
    for at, n in (("first", 1), (None, 1), ("every", 4)):
        options = {} if at is None else {"watch_at": at}
        result = toolkit.generate(
            tiny_model, PROMPTS, samples=2, max_tokens=4, watch_tokens=list(watched), **options
        )
        for sequence in sequences_of(result):
            generated = list(sequence.generated_token_ids)
            expected = believed(tiny_model.network, list(sequence.prompt_token_ids), generated)
            for position in range(len(generated)):
                found = sequence.watched(position)
                assert set(found) == set(watched)
                for text, token_id in watched.items():
                    wanted = expected[position, token_id] if position < n else np.nan
                    assert found[text] == pytest.approx(wanted, abs=TOLERANCE, nan_ok=True)


def test_beams_have_watched_tokens_and_others_have_none(tiny_model: Any) -> None:
    result = toolkit.generate(tiny_model, PROMPTS[0], beams=2, max_tokens=3, watch_tokens=["A", "B"])
    assert [set(sequence.watched()) for sequence in sequences_of(result)] == [{"A", "B"}] * 2
    (sequence,) = sequences_of(toolkit.generate(tiny_model, PROMPTS[0], max_tokens=3))
    assert sequence.watched() == {}


def test_the_end_token_is_a_row(tiny_model: Any) -> None:
    always = replace(tiny_model, more_end_ids=frozenset(range(320)))
    result = toolkit.generate(always, PROMPTS, samples=2)
    assert result.shape == (2, 3, 1)
    assert {sequence.finish_reason for sequence in sequences_of(result)} == {"stop"}
    assert np.isfinite(result.logprobs).all()


@pytest.mark.parametrize("batch_size", [1, 4, 64])
def test_the_batch_size_changes_nothing(batch_size: int, tiny_model: Any) -> None:
    result = toolkit.generate(tiny_model, PROMPTS, samples=3, max_tokens=8, seed=5, batch_size=batch_size)
    expected = toolkit.generate(tiny_model, PROMPTS, samples=3, max_tokens=8, seed=5)
    np.testing.assert_array_equal(result.token_ids, expected.token_ids)
    np.testing.assert_allclose(result.logprobs, expected.logprobs, atol=TOLERANCE)


def test_a_seed_gives_the_samples_that_a_collection_gives(tiny_model: Any, tmp_path: Path) -> None:
    settings = Settings(num_samples=3, max_tokens=8, sampler=Sampler(0.8, top_k=50), seed=11)
    files = [Prompt(place, place + 1, prompt=text) for place, text in enumerate(PROMPTS)]
    records = render_prompts(tiny_model.tokenizer, files, RenderSettings())
    collect(Work(tiny_model, settings, records, batch_size=2), tmp_path / "run")
    run = toolkit.open_run(tmp_path / "run")
    stored: dict[tuple[str, int], list[int]] = {}
    for (prompt_id, index), rows in run.tokens_df().groupby(["prompt_id", "sample_index"], observed=True):
        stored[prompt_id, index] = rows.sort_values("token_index")["token_id"].tolist()
    given = {"samples": 3, "max_tokens": 8, "temperature": 0.8, "top_k": 50}
    result = toolkit.generate(tiny_model, PROMPTS, seed=11, **given)
    found = {
        (sequence.record.prompt_id, sequence.record.sample_index): list(sequence.generated_token_ids)
        for sequence in sequences_of(result)
    }
    assert found == stored
    other = toolkit.generate(tiny_model, PROMPTS, seed=12, **given)
    assert other.token_ids.tolist() != result.token_ids.tolist()


def test_a_prompt_that_is_there_twice_has_samples_of_its_own(tiny_model: Any) -> None:
    result = toolkit.generate(tiny_model, [PROMPTS[0]] * 2, samples=4, max_tokens=8)
    ids = [generation.prompt.prompt_id for generation in result.generations]
    assert ids[1] == f"{ids[0]}-2"
    assert result.token_ids[:, 0].tolist() != result.token_ids[:, 1].tolist()


class FirstToken(nn.Module):
    """A network whose answers use an alphabet of ten tokens that the prompt's first token names."""

    layers = (None,)

    def make_cache(self) -> list[Any]:
        return [ArraysCache(1)]

    def __call__(self, ids: mx.array, cache: Any = None) -> mx.array:
        first = ids[:, :1] if cache is None or cache[0][0] is None else cache[0][0]
        if cache is not None:
            cache[0][0] = first
        # What is drawn depends on the last token too; token 2 ends a text.
        weights = mx.sin(mx.arange(320)[None, None] * (1 + ids[:, :, None]))
        own = mx.arange(320) // 10 == first[:, :, None]
        return mx.where(own | (mx.arange(320) == 2), weights, -mx.inf)


def test_samples_never_land_under_another_prompt(tiny_model: Any) -> None:
    model = replace(tiny_model, network=FirstToken())
    prompts = [[alphabet, *range(alphabet % 4)] for alphabet in range(1, 32)]
    result = toolkit.generate(model, prompts, samples=5, max_tokens=20, batch_size=13)
    lengths = set()
    for (alphabet, *_), generation in zip(prompts, result.generations, strict=True):
        assert len(generation.sequences) == 5
        for sequence in generation.sequences:
            lengths.add(len(sequence.generated_token_ids))
            assert {i // 10 for i in sequence.generated_token_ids if i != 2} <= {alphabet}
    assert len(lengths) > 5
    assert_own_logprobs(model, result)


def test_prompts_are_texts_messages_or_token_ids(tiny_model: Any) -> None:
    messages = [{"role": "user", "content": PROMPTS[0]}]
    rendered = tiny_model.tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=True)
    expected = toolkit.generate(tiny_model, PROMPTS[0], max_tokens=5)
    assert list(sequences_of(expected)[0].prompt_token_ids) == rendered
    for prompts in (messages, [messages], rendered, [rendered], np.array(rendered), (PROMPTS[0],)):
        result = toolkit.generate(tiny_model, prompts, max_tokens=5)
        np.testing.assert_array_equal(result.token_ids, expected.token_ids)
    several = toolkit.generate(tiny_model, [messages, rendered, PROMPTS[1]], max_tokens=5)
    assert several.shape[1] == 3


def test_a_system_prompt_comes_first(tiny_model: Any) -> None:
    result = toolkit.generate(tiny_model, PROMPTS[0], max_tokens=1, system_prompt="Be brief.")
    assert result.generations[0].prompt.text.startswith("<|im_start|>system\nBe brief.")


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"samples": 0}, "samples: 0 is not allowed"),
        ({"samples": 2, "temperature": 0}, "samples: 2 at temperature 0"),
        ({"max_tokens": 0}, "max_tokens: 0"),
        ({"temperature": -1.0}, "temperature: -1.0"),
        ({"top_k": -1}, "top_k: -1"),
        ({"top_p": 0.0}, "top_p: 0.0"),
        ({"min_p": 1.5}, "min_p: 1.5"),
        ({"order": "upside_down"}, "order: 'upside_down'.*temperature_first or mlx_lm"),
        ({"seed": -1}, "seed: -1"),
        ({"stop": ""}, "stop"),
        ({"stop": ["ok", ""]}, "stop"),
        ({"top_logprobs": 21}, "top_logprobs: 21"),
        ({"beams": 0}, "beams: 0"),
        ({"beams": 2, "samples": 3}, "samples: 3 cannot be drawn in a beam search"),
        ({"beams": 2, "n_returned": 3}, "n_returned: 3"),
        ({"beams": 2, "stop": "x"}, "stop.*beam"),
        ({"batch_size": 0}, "batch_size: 0"),
        ({"regex": "a", "json_schema": "{}"}, "regex, json_schema"),
    ],
)
def test_wrong_arguments_are_named(given: dict[str, Any], named: str, tiny_model: Any) -> None:
    with pytest.raises(ToolkitError, match=named) as caught:
        toolkit.generate(tiny_model, PROMPTS[0], **given)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("prompts", "named"),
    [
        ([], "prompts: there is none"),
        ([[]], r"prompts\[0\]"),
        ([PROMPTS[0], [1, 320]], r"prompts\[1\].*from 0 to 319"),
        ([[-1]], r"prompts\[0\]"),
        ([[1, 2.5]], r"prompts\[0\]"),
        ("x" * 600, "context is 512"),
    ],
)
def test_wrong_prompts_are_named(prompts: Any, named: str, tiny_model: Any) -> None:
    with pytest.raises(ToolkitError, match=named):
        toolkit.generate(tiny_model, prompts)


def test_beams_take_the_place_of_samples(tiny_model: Any) -> None:
    result = toolkit.generate(tiny_model, PROMPTS, beams=3, max_tokens=6, length_penalty=0.0)
    assert result.shape[:2] == (3, 3)
    assert_own_logprobs(tiny_model, result)
    for generation in result.generations:
        scores = [sequence.beam_score for sequence in generation.sequences]
        assert scores == sorted(scores, reverse=True)
        for sequence in generation.sequences:
            assert sequence.record.kind == "beam"
            assert sequence.logprob == pytest.approx(sequence.beam_score, abs=1e-4)
    greedy = toolkit.generate(tiny_model, PROMPTS, temperature=0.0, max_tokens=6)
    one = toolkit.generate(tiny_model, PROMPTS, beams=1, max_tokens=6)
    np.testing.assert_array_equal(one.token_ids, greedy.token_ids)


def streamed(segments: Any) -> dict[int, list[Any]]:
    found = defaultdict(list)
    for segment in segments:
        found[segment.sample_index].append(segment)
    return found


@pytest.mark.parametrize("given", [{}, {"stop": STOPS}, {"top_p": 0.9, "temperature": 2.0}])
def test_a_stream_gives_the_segments_of_generate(given: dict[str, Any], tiny_model: Any) -> None:
    given = {"samples": 6, "max_tokens": 40, "seed": 2, **given}
    found = streamed(toolkit.stream(tiny_model, PROMPTS[2], **given))
    result = toolkit.generate(tiny_model, PROMPTS[2], **given)
    assert set(found) == set(range(6))
    stopped = [s.record.stop_reason for s in sequences_of(result) if s.record.stop_reason in STOPS]
    assert bool(stopped) == ("stop" in given)
    for index, sequence in enumerate(sequences_of(result)):
        segments = found[index]
        with_text = [segment for segment in segments if segment.text]
        assert [segment.text for segment in with_text] == [s.text for s in sequence.segments]
        for segment, expected in zip(with_text, sequence.segments, strict=True):
            assert_tokens_of(segment, expected, sequence.record, tiny_model)
        # The reason comes once, and last.
        assert [s.finish_reason for s in segments[:-1]] == [None] * (len(segments) - 1)
        assert segments[-1].finish_reason == sequence.finish_reason
        assert all(s.text or s.finish_reason for s in segments)
        assert all(s.tokens for s in with_text)


def assert_tokens_of(segment: Any, expected: Any, record: SequenceRecord, model: Any) -> None:
    """Its tokens are those whose bytes lie in it, with what is recorded of them."""
    places = [
        place
        for place, (start, end) in enumerate(
            zip(record.alignment.byte_start, record.alignment.byte_end, strict=True)
        )
        if max(start, expected.byte_start) < min(end, expected.byte_end)
    ]
    assert [token.id for token in segment.tokens] == record.token_ids[places].tolist()
    assert [token.bytes for token in segment.tokens] == [
        model.token_bytes.piece(i) for i in record.token_ids[places]
    ]
    kept = record.statistics.rows(places)
    np.testing.assert_allclose([token.logprob for token in segment.tokens], kept.logprob, atol=TOLERANCE)
    np.testing.assert_allclose([token.entropy for token in segment.tokens], kept.entropy, atol=TOLERANCE)
    for token, ids, logprobs in zip(
        segment.tokens, kept.alternative_ids, kept.alternative_logprobs, strict=True
    ):
        assert [i for i, _ in token.alternatives] == ids.tolist()
        np.testing.assert_allclose([p for _, p in token.alternatives], logprobs, atol=TOLERANCE)
        assert token.rank == 1 + sum(p > token.logprob for _, p in token.alternatives) or token.rank > 5


class Scripted(nn.Module):
    """A network that says given tokens, one after the other, after a prompt of one token."""

    layers = (None,)

    def __init__(self, script: list[int]) -> None:
        super().__init__()
        self._script = mx.array([*script, 2])

    def make_cache(self) -> list[Any]:
        return [ArraysCache(1)]

    def __call__(self, ids: mx.array, cache: Any = None) -> mx.array:
        place = mx.zeros((len(ids), 1), mx.int32) if cache is None or cache[0][0] is None else cache[0][0]
        if cache is not None:
            cache[0][0] = place + 1
        wanted = self._script[mx.minimum(place, len(self._script) - 1)]
        return (mx.arange(320) == wanted[:, :, None]) * 100.0


def test_a_special_token_inside_a_character_is_none_of_its_tokens(tiny_model: Any) -> None:
    first, second = tiny_model.tokenizer.convert_tokens_to_ids(["Ã", "©"])  # the bytes of é
    x = tiny_model.tokenizer.convert_tokens_to_ids("x")
    model = replace(tiny_model, network=Scripted([x, first, 1, second, x]))
    segments = list(toolkit.stream(model, [5]))
    assert [segment.text for segment in segments] == ["x", "é", "x", ""]
    assert [[token.id for token in s.tokens] for s in segments] == [[x], [first, second], [x], []]
    assert segments[-1].finish_reason == "stop"


def test_what_was_held_for_a_stop_string_comes_at_the_limit(tiny_model: Any) -> None:
    x, y = tiny_model.tokenizer.convert_tokens_to_ids(["x", "y"])
    model = replace(tiny_model, network=Scripted([x, x, y, y]))
    segments = list(toolkit.stream(model, [5], stop="xyz", max_tokens=3))
    assert [segment.text for segment in segments] == ["x", "x", "y"]
    assert [segment.finish_reason for segment in segments] == [None, None, "length"]


def test_a_stream_whose_first_token_ends_it_gives_the_reason(tiny_model: Any) -> None:
    model = replace(tiny_model, more_end_ids=frozenset(range(320)))
    (segment,) = toolkit.stream(model, PROMPTS[0])
    assert (segment.text, segment.tokens, segment.finish_reason) == ("", (), "stop")


def test_segments_of_samples_come_side_by_side(tiny_model: Any) -> None:
    indices = [s.sample_index for s in toolkit.stream(tiny_model, PROMPTS[0], samples=3, max_tokens=30)]
    first_end = max(place for place, index in enumerate(indices) if index == indices[0])
    assert set(indices[:first_end]) == {0, 1, 2}


@pytest.mark.parametrize(
    ("prompt", "given", "named"),
    [
        (PROMPTS[0], {"samples": 0}, "samples: 0"),
        (PROMPTS[0], {"stop": ""}, "stop"),
        (PROMPTS[0], {"top_p": 2.0}, "top_p"),
        ([1, 999], {}, r"prompts\[0\]"),
    ],
)
def test_wrong_arguments_of_a_stream_are_named(
    prompt: Any, given: dict[str, Any], named: str, tiny_model: Any
) -> None:
    with pytest.raises(ToolkitError, match=named):
        list(toolkit.stream(tiny_model, prompt, **given))


@pytest.mark.model
def test_samples_of_the_default_model_equal_reading_at_once(model: Any) -> None:
    result = toolkit.generate(model, ["Name a fruit.", "2 + 2 ="], samples=2, max_tokens=6, temperature=0.7)
    assert result.shape[:2] == (2, 2)
    assert_own_logprobs(model, result)


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ({"prompts": 5}, "prompts"),
        ({"prompts": None}, "prompts"),
        ({"prompts": {"role": "user", "content": "a"}}, "prompts"),
        ({"prompts": []}, "prompts"),
        ({"prompts": [[0.5]]}, "prompts"),
        ({"samples": "3"}, "samples: '3'"),
        ({"samples": 2.5}, "samples: 2.5"),
        ({"max_tokens": 2.5}, "max_tokens: 2.5"),
        ({"seed": "a"}, "seed: 'a'"),
        ({"stop": 3}, "stop: 3"),
        ({"stop": [3]}, r"stop: \[3\]"),
        ({"sampler": 3}, "sampler"),
        ({"beams": 2, "sampler": lambda logprobs: logprobs}, "sampler"),
    ],
)
def test_arguments_of_odd_types_are_named(tiny_model, arguments, named):
    with pytest.raises(ToolkitError, match=named):
        toolkit.generate(tiny_model, **{"prompts": "Hi", "max_tokens": 2, **arguments})


def test_arrays_of_ids_are_prompts(tiny_model):
    ids = np.array([[3, 4, 5], [6, 7, 8]])
    assert toolkit.generate(tiny_model, ids, max_tokens=2).shape[1] == 2
    assert toolkit.generate(tiny_model, [ids[0], ids[1]], max_tokens=2).shape[1] == 2
    assert toolkit.generate(tiny_model, ids[0], max_tokens=2).shape[1] == 1
    assert list(toolkit.stream(tiny_model, ids[0], max_tokens=2))


def test_a_prompt_with_fewer_hypotheses_has_none_in_their_place(tiny_model):
    result = toolkit.generate(tiny_model, ["a", "b"], beams=3, max_tokens=3)
    short = Generation(result.generations[0].prompt, result.generations[0].sequences[:1])
    trimmed = type(result)((short, result.generations[1]))
    assert trimmed.text[2] == [None, result.generations[1].sequences[2].text]
