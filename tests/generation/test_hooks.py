"""What a user puts into the loop: samplers, logits processors, constraints and grammars, end to end."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import mlx.core as mx
import mlx_lm
import numpy as np
import pytest
from mlx_lm.sample_utils import (
    apply_min_p,
    apply_top_k,
    apply_top_p,
    make_logits_processors,
    make_sampler,
)

import toolkit
from tests.generation import reference
from tests.generation.networks import believed, log_softmax
from toolkit.errors import ToolkitError
from toolkit.generation.beam_step import score
from toolkit.generation.grammar import regex_grammar
from toolkit.generation.logits_rows import LogitsRows

PROMPTS = ["What is the capital of France?", "How many legs"]
TOLERANCE = 2e-2  # attention scores of the tiny network reach 350, so float32 is off by some 1e-3
SCHEMA = {
    "type": "object",
    "properties": {"name": {"enum": ["ab", "cd"]}, "n": {"type": "integer", "minimum": 0, "maximum": 99}},
    "required": ["name", "n"],
    "additionalProperties": False,
    "x-guidance": {"whitespace_flexible": False},  # a random model would write spaces for long
}


def sequences_of(result: Any) -> list[Any]:
    return [sequence for generation in result.generations for sequence in generation.sequences]


def beliefs_of(model: Any, sequence: Any) -> np.ndarray:
    """Log-probabilities before each token, (n, vocabulary), when all is read at once."""
    return believed(model.network, list(sequence.prompt_token_ids), list(sequence.generated_token_ids))


def picked(beliefs: np.ndarray, sequence: Any) -> np.ndarray:
    return beliefs[np.arange(len(beliefs)), list(sequence.generated_token_ids)]


def assert_untouched(model: Any, result: Any) -> None:
    """`logprob` is the model's own, whatever was done to choose the token."""
    for sequence in sequences_of(result):
        expected = picked(beliefs_of(model, sequence), sequence)
        np.testing.assert_allclose(sequence.logprobs, expected, atol=TOLERANCE)


def generate(model: Any, **given: Any) -> Any:
    result = toolkit.generate(model, PROMPTS, **{"samples": 4, "max_tokens": 10, "seed": 3, **given})
    assert_untouched(model, result)
    return result


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"temperature": 0.5},
        {"temperature": 3.0},
        {"top_k": 4, "temperature": 2.0},
        {"top_p": 0.8, "temperature": 2.0},
        {"min_p": 0.1, "temperature": 2.0},
        {"top_k": 9, "top_p": 0.9, "min_p": 0.05, "temperature": 2.5},
        {"top_k": 9, "top_p": 0.9, "min_p": 0.05, "temperature": 2.5, "order": "mlx_lm"},
    ],
)
def test_sampling_logprob_is_of_the_law_that_was_drawn_from(given: dict[str, Any], tiny_model: Any) -> None:
    for sequence in sequences_of(generate(tiny_model, **given)):
        for place, logits in enumerate(beliefs_of(tiny_model, sequence)):
            law = reference.probabilities(logits, **given)
            expected = np.log(law[sequence.generated_token_ids[place]])
            assert sequence.statistics.sampling_logprob[place] == pytest.approx(expected, abs=TOLERANCE)
        assert np.isnan(sequence.statistics.constrained_logprob).all()


@pytest.mark.parametrize("given", [{"top_k": 1}, {"temperature": 0.0, "samples": 1}])
def test_the_likeliest_token_alone_is_certain_to_be_drawn(given: dict[str, Any], tiny_model: Any) -> None:
    for sequence in sequences_of(generate(tiny_model, **given)):
        assert (sequence.statistics.sampling_logprob == 0).all()
        assert (sequence.statistics.rank == 1).all()
        assert (sequence.logprobs < 0).any()


@pytest.mark.parametrize(
    "filters", [{"top_p": 0.7}, {"min_p": 0.2}, {"top_k": 3}, {"top_p": 0.9, "top_k": 4}]
)
def test_the_order_of_mlx_lm_keeps_the_tokens_that_mlx_lm_keeps(
    filters: dict[str, Any], tiny_model: Any
) -> None:
    temperature = 1.7
    result = generate(tiny_model, temperature=temperature, order="mlx_lm", **filters)
    for sequence in sequences_of(result):
        logprobs = mx.array(beliefs_of(tiny_model, sequence).astype(np.float32))
        for name, apply in (("top_p", apply_top_p), ("min_p", apply_min_p), ("top_k", apply_top_k)):
            if name in filters:
                logprobs = apply(logprobs, filters[name])
        expected = picked(log_softmax(np.array(logprobs, np.float64) / temperature), sequence)
        assert np.isfinite(expected).all()
        np.testing.assert_allclose(sequence.statistics.sampling_logprob, expected, atol=TOLERANCE)


def test_a_sampler_of_mlx_lm_chooses_and_its_law_is_not_known(tiny_model: Any) -> None:
    mx.random.seed(5)
    result = generate(tiny_model, sampler=make_sampler(temp=2.0, top_k=3))
    ranks = np.concatenate([sequence.statistics.rank for sequence in sequences_of(result)])
    assert set(ranks) == {1, 2, 3}
    for sequence in sequences_of(result):
        assert np.isnan(sequence.statistics.sampling_logprob).all()
        assert np.isnan(sequence.statistics.constrained_logprob).all()


def test_the_greedy_sampler_of_mlx_lm_is_greedy(tiny_model: Any) -> None:
    chosen = generate(tiny_model, sampler=make_sampler(temp=0.0), samples=1)
    greedy = generate(tiny_model, temperature=0.0, samples=1)
    np.testing.assert_array_equal(chosen.token_ids, greedy.token_ids)


def test_a_sampler_sees_normalised_logprobs_after_the_processors(tiny_model: Any) -> None:
    seen: list[np.ndarray] = []
    bias = np.random.default_rng(0).normal(0, 3, 320).astype(np.float32)

    def second(logprobs: mx.array) -> mx.array:
        seen.append(np.array(logprobs))
        return mx.argsort(-logprobs, axis=-1)[:, 1]

    (sequence,) = sequences_of(
        toolkit.generate(
            tiny_model,
            PROMPTS[0],
            max_tokens=6,
            sampler=second,
            logits_processors=[lambda ids, logits: logits + mx.array(bias)],
        )
    )
    expected = log_softmax(beliefs_of(tiny_model, sequence) + bias)
    np.testing.assert_allclose(np.concatenate(seen), expected, atol=TOLERANCE)
    np.testing.assert_array_equal(sequence.generated_token_ids, np.argsort(-expected)[:, 1])
    np.testing.assert_allclose(
        sequence.statistics.constrained_logprob, picked(expected, sequence), atol=TOLERANCE
    )


def test_a_sampler_leaves_greedy_rows_and_rows_that_are_not_finite_alone() -> None:
    logits = mx.array([[0.0, 1.0, 2.0], [0.0, 1.0, 2.0], [0.0, float("nan"), 2.0]])
    chosen = LogitsRows().choose(logits, lambda rows: mx.zeros(3, mx.uint32), np.array([False, True, False]))
    assert chosen.tolist() == [0, 2, -1]


def processed(model: Any, sequence: Any, processors: Sequence[Any]) -> np.ndarray:
    """Log-probabilities after MLX-LM's processors, as MLX-LM calls them: a row at a time."""
    prompt, generated = list(sequence.prompt_token_ids), list(sequence.generated_token_ids)
    rows = []
    for place, logits in enumerate(
        np.array(model.network(mx.array([prompt + generated]))[0])[len(prompt) - 1 :]
    ):
        row = mx.array(logits[None])
        for processor in processors:
            row = processor(mx.array(prompt + generated[:place]), row)
        rows.append(np.array(row[0]))
    return log_softmax(np.array(rows[:-1], np.float64))


PROCESSORS = {
    "bias": {"logit_bias": {5: 9.0, 90: -20.0, 81: 7.0}},
    "repetition": {"repetition_penalty": 1.7, "repetition_context_size": 12},
    "several": {"logit_bias": {5: 4.0}, "presence_penalty": 3.0, "frequency_penalty": 2.0},
}


@pytest.mark.parametrize("name", PROCESSORS)
def test_processors_of_mlx_lm_change_what_is_drawn_and_not_the_logprob(name: str, tiny_model: Any) -> None:
    processors = make_logits_processors(**PROCESSORS[name])
    result = generate(tiny_model, logits_processors=processors, max_tokens=16)
    plain = generate(tiny_model, max_tokens=16)
    assert result.token_ids.tolist() != plain.token_ids.tolist()
    for sequence in sequences_of(result):
        expected = picked(processed(tiny_model, sequence, processors), sequence)
        constrained = sequence.statistics.constrained_logprob
        np.testing.assert_allclose(constrained, expected, atol=TOLERANCE)
        np.testing.assert_array_equal(constrained, sequence.statistics.sampling_logprob)


@pytest.mark.parametrize("name", PROCESSORS)
def test_greedy_texts_under_processors_are_those_of_mlx_lm(name: str, tiny_model: Any) -> None:
    processors = make_logits_processors(**PROCESSORS[name])
    given = {"max_tokens": 16, "logits_processors": processors}
    result = generate(tiny_model, temperature=0.0, samples=1, **given)
    for sequence in sequences_of(result):
        theirs = mlx_lm.stream_generate(
            tiny_model.network, tiny_model.tokenizer, list(sequence.prompt_token_ids), **given
        )
        assert list(sequence.generated_token_ids) == [response.token for response in theirs]


def test_the_filters_see_processed_logits(tiny_model: Any) -> None:
    processors = make_logits_processors(logit_bias={5: 200.0, 6: 200.0})
    result = generate(tiny_model, logits_processors=processors, top_k=2)
    assert set(result.token_ids[result.token_ids >= 0]) == {5, 6}


def test_beams_are_scored_with_what_processors_changed(tiny_model: Any) -> None:
    bias = {5: 3.0, 81: 2.0, 90: -4.0}
    result = toolkit.generate(
        tiny_model,
        PROMPTS,
        beams=3,
        max_tokens=8,
        length_penalty=0.0,
        logits_processors=make_logits_processors(logit_bias=bias),
    )
    assert_untouched(tiny_model, result)
    for sequence in sequences_of(result):
        moved = sum(bias.get(token, 0.0) for token in sequence.generated_token_ids)
        assert sequence.beam_score == pytest.approx(sequence.logprob + moved, abs=TOLERANCE)


class Turns:
    """A constraint of a user's: odd and even tokens by turns, or the end token."""

    def begin(self, prompt_ids: Sequence[int]) -> int:
        return len(prompt_ids) % 2

    def apply(self, states: Sequence[int], logits: mx.array) -> mx.array:
        ids = mx.arange(logits.shape[1])
        return mx.where(ids[None] % 2 == mx.array(list(states))[:, None], logits, -mx.inf)

    def follow(self, state: int, token_id: int) -> int:
        return 1 - state


def test_a_constraint_of_a_users_follows_each_sequence(tiny_model: Any) -> None:
    noise = np.random.default_rng(1).normal(0, 20, 320).tolist()
    raised = make_logits_processors(logit_bias=dict(enumerate(noise)))
    result = generate(tiny_model, constraint=Turns(), logits_processors=raised, samples=5)
    for sequence in sequences_of(result):
        start = len(sequence.prompt_token_ids) % 2
        turns = (start + np.arange(len(sequence.generated_token_ids))) % 2
        assert [token % 2 for token in sequence.generated_token_ids] == turns.tolist()
        logits = processed(tiny_model, sequence, raised)
        masked = np.where(np.arange(320) % 2 == turns[:, None], logits, -np.inf)
        expected = picked(log_softmax(masked), sequence)
        np.testing.assert_allclose(sequence.statistics.constrained_logprob, expected, atol=TOLERANCE)


REGEX = r"(yes|no)[0-9]{1,3}x?"


def assert_pulled(sequence: Any) -> None:
    """A mask takes mass from what it forbids, so what is left cannot become less likely."""
    pull = sequence.statistics.constrained_logprob - sequence.logprobs
    assert (pull >= -1e-5).all()


def test_texts_match_the_regex_and_their_end_is_drawn(tiny_model: Any) -> None:
    result = generate(tiny_model, regex=REGEX, samples=12, temperature=4.0, max_tokens=20)
    for generation in result.generations:
        assert len({sequence.text for sequence in generation.sequences}) > 3
    for sequence in sequences_of(result):
        assert re.fullmatch(REGEX, sequence.text)
        assert sequence.finish_reason == "stop"
        assert sequence.generated_token_ids[-1] in tiny_model.end_ids
        assert np.isfinite(sequence.statistics.constrained_logprob).all()
        assert_pulled(sequence)
        if sequence.text.endswith("x"):  # nothing else was allowed
            assert sequence.statistics.constrained_logprob[-1] == pytest.approx(0, abs=1e-6)
            assert sequence.logprobs[-1] < -1


def test_each_of_several_end_tokens_may_end_a_grammar(tiny_model: Any) -> None:
    """Also where the grammar could go on."""
    model = replace(tiny_model, more_end_ids=frozenset([0, 1]))
    (more,) = tiny_model.tokenizer.convert_tokens_to_ids(["c"])
    result = generate(model, regex="[ab]c?", samples=24, temperature=20.0, max_tokens=4)
    seen = set()
    for sequence in sequences_of(result):
        *_, last = sequence.generated_token_ids
        seen.add((len(sequence.text), last))
        beliefs = beliefs_of(model, sequence)[-1]
        allowed = [0, 1, 2] if sequence.text.endswith("c") else [0, 1, 2, more]
        expected = beliefs[last] - np.logaddexp.reduce(beliefs[allowed])
        assert sequence.statistics.constrained_logprob[-1] == pytest.approx(expected, abs=TOLERANCE)
    assert {last for n, last in seen if n == 1} == {last for n, last in seen if n == 2} == {0, 1, 2}


def test_constrained_logprob_is_renormalised_over_what_the_grammar_allows(tiny_model: Any) -> None:
    """The first token of a choice of letters: those letters alone are allowed."""
    letters = tiny_model.tokenizer.convert_tokens_to_ids(["a", "b", "c"])
    for sequence in sequences_of(generate(tiny_model, regex="[abc]", samples=6)):
        beliefs = beliefs_of(tiny_model, sequence)[0]
        expected = beliefs[sequence.generated_token_ids[0]] - np.logaddexp.reduce(beliefs[letters])
        assert sequence.statistics.constrained_logprob[0] == pytest.approx(expected, abs=TOLERANCE)


@pytest.mark.parametrize("as_text", [False, True])
def test_texts_are_what_the_schema_allows(as_text: bool, tiny_model: Any) -> None:
    schema = json.dumps(SCHEMA) if as_text else SCHEMA
    result = generate(tiny_model, json_schema=schema, samples=6, temperature=3.0, max_tokens=60)
    found = [json.loads(sequence.text) for sequence in sequences_of(result)]
    assert all(value.keys() == {"name", "n"} and value["name"] in ("ab", "cd") for value in found)
    assert all(isinstance(value["n"], int) and 0 <= value["n"] <= 99 for value in found)
    assert len({value["n"] for value in found}) > 3
    for sequence in sequences_of(result):
        assert_pulled(sequence)
        assert sequence.record.has_end


def test_a_grammar_holds_under_processors_and_a_sampler(tiny_model: Any) -> None:
    against = make_logits_processors(logit_bias={i: 50.0 for i in range(100, 300)})
    result = generate(
        tiny_model, regex=REGEX, logits_processors=against, sampler=make_sampler(temp=1.0), max_tokens=20
    )
    for sequence in sequences_of(result):
        assert re.fullmatch(REGEX, sequence.text)
        assert np.isnan(sequence.statistics.sampling_logprob).all()


def test_a_text_that_is_cut_has_the_beginning_of_a_match(tiny_model: Any) -> None:
    for sequence in sequences_of(generate(tiny_model, regex="[ab]{40}", max_tokens=5)):
        assert sequence.finish_reason == "length"
        assert re.fullmatch("[ab]{5,}", sequence.text)


def every_spelling(grammar: Any, state: Any, end_ids: frozenset[int]) -> Iterator[list[int]]:
    """All sequences of tokens that a grammar allows, with their end tokens."""
    for token in np.flatnonzero(
        np.isfinite(np.array(grammar.apply([state], mx.zeros((1, 320)))[0]))
    ).tolist():
        if token in end_ids:
            yield [token]
        else:
            for rest in every_spelling(grammar, grammar.follow(state, token), end_ids):
                yield [token, *rest]


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_beams_under_a_regex_find_the_best_of_all_its_texts(penalty: float, tiny_model: Any) -> None:
    regex = "(the|is|of)[0-4]?"
    grammar = regex_grammar(regex, tiny_model.tokenizer, tiny_model.end_ids)
    spellings = list(every_spelling(grammar, grammar.begin([]), tiny_model.end_ids))
    texts = {tiny_model.tokenizer.decode(ids[:-1]) for ids in spellings}
    assert texts == {word + digit for word in ("the", "is", "of") for digit in ("", *"01234")}
    assert len(spellings) > len(texts)
    result = toolkit.generate(
        tiny_model, PROMPTS, regex=regex, beams=len(spellings), length_penalty=penalty, max_tokens=12
    )
    assert_untouched(tiny_model, result)
    for generation in result.generations:
        prompt = generation.prompt.token_ids.tolist()
        scores = {}
        for ids in spellings:
            total = believed(tiny_model.network, prompt, ids)[np.arange(len(ids)), ids].sum()
            scores[tuple(ids)] = score(total, len(ids), penalty)
        best = sorted(scores, key=lambda ids: -scores[ids])
        assert [sequence.generated_token_ids for sequence in generation.sequences] == best
        for sequence in generation.sequences:
            expected = scores[sequence.generated_token_ids]
            assert sequence.beam_score == pytest.approx(expected, abs=TOLERANCE)
            assert_pulled(sequence)


def test_text_that_a_grammar_forces_is_spelled_as_the_tokenizer_does(tiny_model: Any) -> None:
    """llguidance allows its first token alone there, so that constrained_logprob is 0."""
    (sequence,) = sequences_of(toolkit.generate(tiny_model, PROMPTS[0], regex="capital of France"))
    assert list(sequence.generated_token_ids[:-1]) == tiny_model.tokenizer.encode("capital of France")
    np.testing.assert_allclose(sequence.statistics.constrained_logprob, 0, atol=1e-6)
    assert (sequence.logprobs < 0).all()


def test_a_few_beams_stay_inside_the_regex(tiny_model: Any) -> None:
    result = toolkit.generate(tiny_model, PROMPTS, regex=REGEX, beams=4, max_tokens=12)
    assert_untouched(tiny_model, result)
    for sequence in sequences_of(result):
        assert re.fullmatch(REGEX, sequence.text)


@pytest.mark.parametrize("given", [{"regex": "a"}, {"json_schema": "{}"}])
def test_without_llguidance_the_message_says_what_to_install(
    given: dict[str, Any], tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(ToolkitError, match=r"llguidance; install it with pip install .*\[constraints\]"):
        toolkit.generate(tiny_model, PROMPTS[0], **given)


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"regex": ""}, "regex: it is empty"),
        ({"regex": "(a"}, "regex"),
        ({"regex": "(?=a)b"}, "regex"),
        ({"json_schema": "{"}, "json_schema: it is not valid JSON"),
        ({"json_schema": "[1]"}, "json_schema: it is no JSON object"),
        ({"json_schema": {"type": "nonsense"}}, "json_schema"),
        ({"json_schema": {"$ref": "#/nowhere"}}, "json_schema"),
    ],
)
def test_a_grammar_that_is_wrong_is_named_in_one_line(
    given: dict[str, Any], named: str, tiny_model: Any
) -> None:
    with pytest.raises(ToolkitError, match=named) as caught:
        toolkit.generate(tiny_model, PROMPTS[0], **given)
    assert "\n" not in str(caught.value)


@pytest.mark.model
def test_the_default_model_answers_inside_a_regex(model: Any) -> None:
    question = "Is the sky blue? Answer yes or no."
    result = toolkit.generate(model, question, samples=2, regex="yes|no", max_tokens=4)
    assert_untouched(model, result)
    for sequence in sequences_of(result):
        assert sequence.text in ("yes", "no")
        assert_pulled(sequence)
