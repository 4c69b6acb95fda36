"""The real model: what is recorded is what the model says, and a seed gives the same samples anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mlx.core as mx
import numpy as np
import pytest

from toolkit.collect.settings import Settings
from toolkit.collect.steps import Generator, prepared
from toolkit.generation.plans import PromptPlan
from toolkit.generation.randomness import uniforms
from toolkit.records import SequenceRecord

pytestmark = pytest.mark.model

QUESTIONS = [
    "What is the capital of France?",
    "Name three colours of the rainbow, and say for each one thing in nature that has it.",
    "7 + 5?",
    "Who wrote the play Hamlet, and in which century did its author live and work in London?",
]
N_SAMPLES = 25
MAX_TOKENS = 10
SEED = 11


@pytest.fixture(scope="module")
def prompts(model: Any) -> dict[str, list[int]]:
    return {
        f"q{i}": model.tokenizer.apply_chat_template(
            [{"role": "user", "content": question}], add_generation_prompt=True
        )
        for i, question in enumerate(QUESTIONS)
    }


def draw(model: Any, plans: list[PromptPlan], batch_size: int) -> dict[tuple[str, str, int], SequenceRecord]:
    settings = Settings(num_samples=N_SAMPLES, max_tokens=MAX_TOKENS, seed=SEED)
    steps = Generator(model, settings, batch_size).run(plans)
    return {record.key: record for step in steps for record in step.records}


def all_plans(prompts: dict[str, list[int]]) -> list[PromptPlan]:
    return [
        PromptPlan(name, ids, [("greedy", 0), *(("sample", i) for i in range(N_SAMPLES))])
        for name, ids in prompts.items()
    ]


@pytest.fixture(scope="module")
def in_batches_of_32(model: Any, prompts: Any) -> dict[Any, SequenceRecord]:
    return draw(model, all_plans(prompts), 32)


def teacher_forced(model: Any, prompt: list[int], generated: list[int]) -> np.ndarray:
    """Float64 log-probabilities at every generated position, from one pass over the whole text."""
    ids = mx.array([[*prompt, *generated]])
    logits = np.array(model.network(ids)[0, len(prompt) - 1 : -1].astype(mx.float32)).astype(np.float64)
    shifted = logits - logits.max(axis=1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))


def check_against_teacher_forcing(model: Any, prompt: list[int], record: SequenceRecord) -> None:
    ids = record.token_ids.tolist()
    logp = teacher_forced(model, prompt, ids)
    recorded = record.statistics
    chosen = logp[np.arange(len(ids)), ids]
    np.testing.assert_allclose(recorded.logprob, chosen, atol=1e-3)
    np.testing.assert_allclose(recorded.entropy, -(np.exp(logp) * logp).sum(axis=1), atol=1e-3)
    order = np.sort(logp, axis=1)[:, ::-1]
    np.testing.assert_allclose(recorded.alternative_logprobs, order[:, :5], atol=1e-3)


def test_recorded_values_equal_teacher_forcing_in_a_batch(model, prompts, in_batches_of_32) -> None:
    lengths = {len(ids) for ids in prompts.values()}
    assert len(lengths) > 2
    assert len(in_batches_of_32) == len(prompts) * (N_SAMPLES + 1)
    for (prompt_id, _, index), record in in_batches_of_32.items():
        if index < 8:
            check_against_teacher_forcing(model, prompts[prompt_id], record)


@pytest.mark.parametrize("batch_size", [1, 5])
def test_recorded_values_equal_teacher_forcing_in_other_sizes(model, prompts, batch_size: int) -> None:
    plans = [PromptPlan(name, ids, [("sample", 0), ("sample", 3)]) for name, ids in prompts.items()]
    for (prompt_id, _, _), record in draw(model, plans, batch_size).items():
        check_against_teacher_forcing(model, prompts[prompt_id], record)


def differing(
    some: dict[Any, SequenceRecord], reference: dict[Any, SequenceRecord]
) -> Iterator[tuple[Any, int]]:
    """(key, first position that differs) of sequences that are not the same."""
    for key, record in some.items():
        ours, theirs = record.token_ids.tolist(), reference[key].token_ids.tolist()
        if ours != theirs:
            yield key, next(i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a != b)


def check_same(model: Any, prompts: Any, some: dict[Any, Any], reference: dict[Any, Any]) -> None:
    """At least 99 of 100 are identical; the others part where the random number lies at a boundary."""
    changed = list(differing(some, reference))
    assert len(changed) <= max(1, len(some) // 100)
    for key, position in changed:
        ids = some[key].token_ids.tolist()
        logp = teacher_forced(model, prompts[key[0]], ids[: position + 1])[position]
        cumulative = np.cumsum(np.exp(logp))
        u = uniforms(SEED, key[0], key[2], MAX_TOKENS)[position]
        assert np.abs(cumulative - u).min() < 1e-5, f"{key} differs at {position}, far from a boundary"


def test_the_same_samples_in_another_order(model, prompts, in_batches_of_32) -> None:
    plans = [
        PromptPlan(name, ids, [("sample", i) for i in reversed(range(N_SAMPLES))])
        for name, ids in reversed(prompts.items())
    ]
    check_same(model, prompts, draw(model, plans, 32), in_batches_of_32)


def test_the_same_samples_alone(model, prompts, in_batches_of_32) -> None:
    alone = {}
    for name, ids in prompts.items():
        for index in range(0, N_SAMPLES, 6):
            alone.update(draw(model, [PromptPlan(name, ids, [("sample", index)])], 1))
    check_same(model, prompts, alone, in_batches_of_32)


def test_the_same_samples_when_only_some_are_missing(model, prompts, in_batches_of_32) -> None:
    plans = [
        PromptPlan(name, ids, [("sample", i) for i in range(number, N_SAMPLES, 3)])
        for number, (name, ids) in enumerate(prompts.items())
    ]
    check_same(model, prompts, draw(model, plans, 16), in_batches_of_32)


def test_a_row_s_recorded_bits_do_not_depend_on_the_batch(model, prompts, in_batches_of_32) -> None:
    """With compiled kernels nothing of a row depends on the rows beside it, so that no token can flip."""
    forward, _ = prepared(model)
    if forward.native is None:
        pytest.skip("MLX's BLAS makes the products: the last bits follow the size of the batch")
    plans = [PromptPlan(name, ids, [("sample", 1), ("sample", 20)]) for name, ids in prompts.items()]
    for batch_size in (1, 3):
        for key, record in draw(model, plans, batch_size).items():
            expected = in_batches_of_32[key]
            assert record.token_ids.tolist() == expected.token_ids.tolist()
            for name in ("logprob", "entropy", "logsumexp", "alternative_logprobs"):
                np.testing.assert_array_equal(
                    getattr(record.statistics, name),
                    getattr(expected.statistics, name),
                    err_msg=f"{key} {name}",
                )
