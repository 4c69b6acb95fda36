"""The loop's logic, on a mock model: what runs when, and what a sequence consists of."""

from __future__ import annotations

import numpy as np
import pytest

from tests.generation.mock import MockBatch, Rule, hashed_logits, numpy_statistics
from toolkit.generation.engine import Engine, FinishedSequence, Limits, PromptPlan, _closed_up
from toolkit.generation.randomness import uniforms
from toolkit.generation.sampling import Sampler

END = 0


def run(
    rule: Rule,
    plans: list[PromptPlan],
    *,
    slots: int = 4,
    max_tokens: int = 6,
    temperature: float = 1.0,
    end_ids: frozenset[int] = frozenset([END]),
    context_length: int | None = None,
    watcher=None,
    seed: int = 0,
) -> tuple[dict[tuple[str, str, int], FinishedSequence], MockBatch, list]:
    batch = MockBatch(rule)
    sampler = Sampler(temperature)
    limits = Limits(max_tokens, end_ids, context_length)
    engine = Engine(
        batch, numpy_statistics(sampler), sampler, limits, seed=seed, slots=slots, watcher=watcher
    )
    steps = list(engine.run(plans))
    finished = [sequence for step in steps for sequence in step.finished]
    found = {(s.prompt_id, s.kind, s.sample_index): s for s in finished}
    assert len(found) == len(finished), "a sequence ended twice"
    return found, batch, steps


def samples(n: int) -> list[tuple[str, int]]:
    return [("sample", i) for i in range(n)]


def plans(n_prompts: int, n_samples: int) -> list[PromptPlan]:
    return [PromptPlan(f"p{i}", [i + 1, 2, 3][: 1 + i % 3], samples(n_samples)) for i in range(n_prompts)]


def one_by_one(rule: Rule, plan: PromptPlan, index: int, max_tokens: int, seed: int) -> list[int]:
    """What the sequence must be: drawn alone, with the plain inverse of the cumulative distribution."""
    ids, generated = tuple(plan.token_ids), []
    for u in uniforms(seed, plan.prompt_id, index, max_tokens):
        logits = rule(ids).astype(np.float64)
        p = np.exp(logits - logits.max())
        token = int(np.searchsorted(np.cumsum(p), u * p.sum(), side="right"))
        generated.append(token)
        ids = (*ids, token)
        if token == END:
            break
    return generated


@pytest.mark.parametrize("slots", [1, 2, 3, 7, 32])
def test_every_sequence_is_the_one_it_would_be_alone(slots: int) -> None:
    rule, wanted = hashed_logits(), plans(5, 4)
    found, _, _ = run(rule, wanted, slots=slots, seed=3)
    assert len(found) == 20
    for plan in wanted:
        for index in range(4):
            sequence = found[plan.prompt_id, "sample", index]
            assert sequence.token_ids.tolist() == one_by_one(rule, plan, index, 6, seed=3)


def test_statistics_are_those_of_the_logits_at_each_position() -> None:
    rule, wanted = hashed_logits(), plans(3, 2)
    found, _, _ = run(rule, wanted)
    for plan in wanted:
        for index in range(2):
            sequence = found[plan.prompt_id, "sample", index]
            ids = tuple(plan.token_ids)
            for t, token in enumerate(sequence.token_ids.tolist()):
                z = rule(ids).astype(np.float64)
                logp = z - np.log(np.exp(z).sum())
                assert sequence.statistics.logprob[t] == pytest.approx(logp[token], abs=1e-5)
                assert sequence.statistics.entropy[t] == pytest.approx(-(np.exp(logp) * logp).sum(), abs=1e-5)
                assert sequence.statistics.alternative_ids[t].tolist() == np.argsort(-z)[:3].tolist()
                ids = (*ids, token)


def test_a_prompt_is_prefilled_once() -> None:
    _, batch, _ = run(hashed_logits(), plans(4, 9), slots=2)
    assert len(batch.prefilled) == 4


def test_the_batch_stays_full_while_sequences_wait() -> None:
    # No end token: all sequences are equally long, so only the last ones can leave rows empty.
    _, batch, _ = run(hashed_logits(), plans(6, 2), slots=4, end_ids=frozenset())
    assert set(batch.widths) == {4}


def test_rows_that_end_at_different_steps_are_replaced() -> None:
    found, batch, _ = run(hashed_logits(), plans(8, 5), slots=4, max_tokens=20)
    lengths = {len(sequence.token_ids) for sequence in found.values()}
    assert len(lengths) > 3
    total = sum(len(sequence.token_ids) - 1 for sequence in found.values())  # first tokens come from prefill
    assert sum(batch.widths) == total
    full = batch.widths[: len(batch.widths) - 20]
    assert full
    assert set(full) == {4}


def test_the_end_token_is_recorded_with_its_logprob() -> None:
    found, _, _ = run(hashed_logits(), plans(4, 8), max_tokens=30)
    ended = [sequence for sequence in found.values() if sequence.finish_reason == "stop"]
    assert ended
    for sequence in ended:
        assert sequence.has_end
        assert sequence.token_ids[-1] == END
        assert END not in sequence.token_ids[:-1]
        assert np.isfinite(sequence.statistics.logprob[-1])


def always(token: int, vocabulary: int = 5) -> Rule:
    logits = np.full(vocabulary, -10.0, np.float32)
    logits[token] = 10.0
    return lambda ids: logits


def test_an_immediate_end_token_gives_one_row_and_no_step() -> None:
    found, batch, _ = run(always(END), plans(3, 2), temperature=0)
    assert all(sequence.token_ids.tolist() == [END] for sequence in found.values())
    assert batch.widths == []


def test_the_end_token_exactly_at_max_tokens_is_a_stop() -> None:
    def rule(ids: tuple[int, ...]) -> np.ndarray:
        return always(END if len(ids) == 3 else 1)(ids)

    found, _, _ = run(rule, [PromptPlan("p", [7], samples(1))], max_tokens=3, temperature=0)
    sequence = found["p", "sample", 0]
    assert sequence.token_ids.tolist() == [1, 1, END]
    assert (sequence.finish_reason, sequence.has_end) == ("stop", True)


def test_max_tokens_of_one_needs_no_step() -> None:
    found, batch, _ = run(hashed_logits(), plans(3, 4), max_tokens=1, end_ids=frozenset())
    assert all(s.finish_reason == "length" and len(s.token_ids) == 1 for s in found.values())
    assert batch.widths == []


def test_the_context_ends_a_sequence() -> None:
    found, _, _ = run(always(1), [PromptPlan("p", [1, 2, 3], samples(1))], context_length=5, temperature=0)
    assert found["p", "sample", 0].finish_reason == "context"
    assert len(found["p", "sample", 0].token_ids) == 2


def test_several_end_tokens_all_end() -> None:
    found, _, _ = run(hashed_logits(), plans(6, 6), end_ids=frozenset([END, 4, 5]), max_tokens=40)
    assert {int(s.token_ids[-1]) for s in found.values() if s.has_end} == {END, 4, 5}


def test_a_greedy_sequence_does_not_change_the_samples() -> None:
    rule, wanted = hashed_logits(), plans(3, 3)
    with_greedy = [PromptPlan(p.prompt_id, p.token_ids, [("greedy", 0), *p.sequences]) for p in wanted]
    alone, _, _ = run(rule, wanted)
    beside, _, _ = run(rule, with_greedy)
    for key, sequence in alone.items():
        assert beside[key].token_ids.tolist() == sequence.token_ids.tolist()
    greedy = beside["p0", "greedy", 0]
    ids: tuple[int, ...] = tuple(wanted[0].token_ids)
    for token in greedy.token_ids.tolist():
        assert token == int(rule(ids).argmax())
        ids = (*ids, token)
    assert (greedy.statistics.sampling_logprob == 0).all()


def test_a_watcher_stops_rows_and_says_why() -> None:
    def watcher(sequences, token_ids):
        return {row: "seven" for row, token in enumerate(token_ids) if token == 7}

    found, _, _ = run(hashed_logits(), plans(5, 5), watcher=watcher, max_tokens=30)
    stopped = [s for s in found.values() if s.stop_reason == "seven"]
    assert stopped
    for sequence in found.values():
        assert 7 not in sequence.token_ids[:-1]
    assert all(s.finish_reason == "stop" and not s.has_end for s in stopped)


def test_logits_that_are_not_finite_stop_their_row_alone() -> None:
    healthy = hashed_logits()

    def rule(ids: tuple[int, ...]) -> np.ndarray:
        return np.full(11, np.nan, np.float32) if ids[0] == 2 and len(ids) > 3 else healthy(ids)

    found, _, _ = run(rule, plans(3, 3), end_ids=frozenset())
    for (prompt_id, _, _), sequence in found.items():
        if prompt_id == "p1":
            assert sequence.finish_reason == "error"
            assert sequence.stop_reason == "the model's logits are not finite"
            assert len(sequence.token_ids) == 2
            assert np.isfinite(sequence.statistics.logprob).all()
        else:
            assert sequence.finish_reason == "length"


def test_logits_that_are_not_finite_at_once_give_an_empty_sequence() -> None:
    found, _, _ = run(lambda ids: np.full(11, np.nan, np.float32), plans(1, 2))
    assert [len(s.token_ids) for s in found.values()] == [0, 0]


def test_samples_never_land_under_another_prompt() -> None:
    def rule(ids: tuple[int, ...]) -> np.ndarray:
        """Each prompt's answers use tokens of their own."""
        logits = np.full(40, -np.inf, np.float32)
        logits[ids[0] * 4 : ids[0] * 4 + 4] = np.random.default_rng(ids).normal(size=4)
        return logits

    wanted = [PromptPlan(f"p{i}", [i], samples(5)) for i in range(10)]
    found, _, _ = run(rule, wanted, slots=7, max_tokens=9, end_ids=frozenset([0, 5, 13, 22]))
    for (prompt_id, _, _), sequence in found.items():
        assert set(sequence.token_ids // 4) == {int(prompt_id[1:])}


def test_steps_hold_each_token_once_in_order() -> None:
    found, _, steps = run(hashed_logits(), plans(4, 4))
    streamed: dict[tuple[str, str, int], list[int]] = {}
    for step in steps:
        for sequence, token in zip(step.sequences, step.token_ids.tolist(), strict=True):
            streamed.setdefault((sequence.prompt_id, sequence.kind, sequence.sample_index), []).append(token)
    assert streamed == {key: sequence.token_ids.tolist() for key, sequence in found.items()}


@pytest.mark.parametrize(("n", "empty"), [(5, {0}), (5, {4}), (5, {0, 1, 4}), (1, {0}), (6, {1, 3, 5})])
def test_closing_up_keeps_each_row_once(n: int, empty: set[int]) -> None:
    order = _closed_up(n, empty)
    assert sorted(order) == [row for row in range(n) if row not in empty]
    assert all(row == place or row >= len(order) for place, row in enumerate(order))
