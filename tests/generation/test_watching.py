"""Watched tokens: their log-probability and rank by the untouched logits, wherever they were asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.generation.mock import MockBatch, hashed_logits, numpy_statistics
from tests.generation.networks import log_softmax
from toolkit.errors import ToolkitError
from toolkit.generation import statistics, statistics_mlx
from toolkit.generation.beam import BeamSearch, BeamSettings
from toolkit.generation.engine import Engine, Limits
from toolkit.generation.plans import PromptPlan
from toolkit.generation.sampler import Sampler
from toolkit.generation.scoring import Scorer
from toolkit.generation.watching import NO_WATCH, Watch, WatchAt
from toolkit.records import TokenStatistics

from .test_statistics import KINDS, make

VOCABULARY = 30
RULE = hashed_logits(VOCABULARY)
WATCHED = np.array([1, 7, 12, 28], np.int32)
PROMPTS = {"a": [4, 2], "b": [9], "c": [3, 3, 3]}


class Odd:
    """A constraint that allows odd ids only."""

    def begin(self, prompt_ids: Any) -> None:
        return None

    def follow(self, state: Any, token_id: int) -> None:
        return None

    def apply(self, states: Any, logits: Any) -> Any:
        changed = np.array(logits)
        changed[:, ::2] = -np.inf
        return changed


def assert_watched(found: TokenStatistics, prompt: list[int], ids: list[int], at: WatchAt) -> None:
    """The fields are those of a float64 softmax of the rule's own logits, where it was looked."""
    assert found.watched_ids.tolist() == [WATCHED.tolist()] * len(ids)
    for position in range(len(ids)):
        logprobs, ranks = found.watched_logprobs[position], found.watched_ranks[position]
        if at == "first" and position:
            assert np.isnan(logprobs).all()
            assert not ranks.any()
            continue
        expected = log_softmax(RULE((*prompt, *ids[:position])).astype(np.float64))
        np.testing.assert_allclose(logprobs, expected[WATCHED], atol=1e-5)
        assert ranks.tolist() == [1 + int((expected > expected[i]).sum()) for i in WATCHED]


@pytest.mark.parametrize("at", ["first", "every"])
@pytest.mark.parametrize("processing", [None, Odd()], ids=["free", "constrained"])
def test_samples_and_greedy_sequences_of_any_batch(at: WatchAt, processing: Any) -> None:
    plans = [
        PromptPlan(name, ids, [("greedy", 0), *(("sample", i) for i in range(3))])
        for name, ids in PROMPTS.items()
    ]
    sampler = Sampler(0.7, top_k=5)
    engine = Engine(
        MockBatch(RULE),
        numpy_statistics(sampler),
        sampler,
        Limits(6, frozenset([1])),
        seed=0,
        slots=5,
        processing=processing,
        watch=Watch(WATCHED, at),
    )
    finished = [sequence for step in engine.run(plans) for sequence in step.finished]
    assert len(finished) == 12
    assert max(len(sequence.token_ids) for sequence in finished) > 1
    for sequence in finished:
        assert_watched(sequence.statistics, PROMPTS[sequence.prompt_id], sequence.token_ids.tolist(), at)


@pytest.mark.parametrize("at", ["first", "every"])
@pytest.mark.parametrize("processing", [None, Odd()], ids=["free", "constrained"])
def test_beams_follow_their_ancestors(at: WatchAt, processing: Any) -> None:
    search = BeamSearch(
        MockBatch(RULE),
        numpy_statistics(Sampler()),
        BeamSettings(3),
        Limits(5, frozenset([1])),
        slots=6,
        processing=processing,
        watch=Watch(WATCHED, at),
    )
    groups = list(search.run(PromptPlan(name, ids, [("beam", 0)]) for name, ids in PROMPTS.items()))
    assert len(groups) == 3
    for sequence in (sequence for group in groups for sequence in group):
        assert_watched(sequence.statistics, PROMPTS[sequence.prompt_id], sequence.token_ids.tolist(), at)


@pytest.mark.parametrize("at", ["first", "every"])
def test_given_tokens(at: WatchAt, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.generation.scoring.CHUNK", 2)
    scorer = Scorer(MockBatch(RULE), numpy_statistics(Sampler()), Watch(WATCHED, at))
    continuations = [[5, 6, 7, 8, 9, 10], [1], []]
    for ids, found in zip(continuations, scorer.continuations([4, 2], continuations), strict=True):
        assert_watched(found, [4, 2], ids, at)
    assert scorer.prompt_tokens([4, 2, 7]).watched_ids.shape == (3, 0)


def test_what_is_watched_changes_no_token_and_no_other_statistic() -> None:
    def tokens(watch: Watch) -> list[Any]:
        sampler = Sampler()
        engine = Engine(
            MockBatch(RULE),
            numpy_statistics(sampler),
            sampler,
            Limits(6, frozenset([1])),
            seed=3,
            slots=2,
            watch=watch,
        )
        plans = [PromptPlan("a", [4, 2], [("sample", i) for i in range(4)])]
        return [sequence for step in engine.run(plans) for sequence in step.finished]

    for one, other in zip(tokens(NO_WATCH), tokens(Watch(WATCHED, "every")), strict=True):
        assert one.token_ids.tolist() == other.token_ids.tolist()
        for name in set(TokenStatistics._fields) - {"watched_ids", "watched_logprobs", "watched_ranks"}:
            np.testing.assert_array_equal(
                getattr(one.statistics, name), getattr(other.statistics, name), name
            )


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_tokens", [1, 2, 65, 300, 5000])
def test_both_implementations_by_a_plain_count(n_tokens: int, kind: str) -> None:
    import mlx.core as mx

    row = make(kind, n_tokens)
    rows = np.stack([row, row[::-1], np.roll(row, 1)])
    ids = np.unique(np.linspace(0, n_tokens - 1, 9).astype(np.int32))
    drawn = np.zeros(3, np.int32)
    own = statistics.step(rows, Sampler(), np.zeros(3), forced_ids=drawn, watched_ids=ids)[1]
    device = statistics_mlx.step(mx.array(rows), Sampler(), np.zeros(3), forced_ids=drawn, watched_ids=ids)[1]
    with np.errstate(invalid="ignore"):
        expected = log_softmax(rows.astype(np.float64))[:, ids]
    for found, tolerance in ((own, 1e-5), (device, 2e-4)):
        np.testing.assert_allclose(found.watched_logprobs, expected, atol=tolerance, rtol=1e-6)
        assert found.watched_ranks.tolist() == [[1 + int((z > z[i]).sum()) for i in ids] for z in rows]
        assert found.watched_ids.tolist() == [ids.tolist()] * 3


@pytest.mark.usefixtures("implementation")
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_row_that_is_not_finite_has_none_and_its_neighbours_keep_theirs(value: float) -> None:
    rows = np.stack([make("normal", 300, seed) for seed in range(3)])
    rows[1, 17] = value
    _, found = statistics.step(rows, Sampler(), np.full(3, 0.5), watched_ids=WATCHED)
    assert np.isnan(found.watched_logprobs[1]).all()
    assert not found.watched_ranks[1].any()
    assert np.isfinite(found.watched_logprobs[[0, 2]]).all()


def test_an_id_that_the_vocabulary_has_not_is_refused() -> None:
    with pytest.raises(ToolkitError, match="token id 300 is not in the vocabulary"):
        statistics.step(
            make("normal", 300)[None], Sampler(), np.zeros(1), watched_ids=np.array([300], np.int32)
        )
