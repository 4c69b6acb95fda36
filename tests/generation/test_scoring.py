"""Scores of given tokens against the logits themselves."""

from __future__ import annotations

import numpy as np
import pytest

from tests.generation.mock import MockBatch, hashed_logits, numpy_statistics
from tests.generation.networks import make_network, read_at_once
from toolkit.generation.forward import Forward
from toolkit.generation.library_batch import LibraryBatch
from toolkit.generation.sampler import Sampler
from toolkit.generation.scoring import Scorer
from toolkit.generation.shared_prefix import SharedPrefixBatch


def log_softmax(logits: np.ndarray) -> np.ndarray:
    z = logits.astype(np.float64)
    return z - np.log(np.exp(z).sum(axis=-1, keepdims=True))


def test_each_token_is_scored_after_those_before_it() -> None:
    rule, prompt = hashed_logits(9), (4, 2)
    continuations = [[1, 2, 3, 4, 5, 6, 7], [8], [], [0, 0]]
    scorer = Scorer(MockBatch(rule), numpy_statistics(Sampler()))
    for ids, found in zip(continuations, scorer.continuations(prompt, continuations), strict=True):
        assert len(found.logprob) == len(ids)
        for t, token in enumerate(ids):
            expected = log_softmax(rule((*prompt, *ids[:t])))[token]
            assert found.logprob[t] == pytest.approx(expected, abs=1e-5)
        assert np.isnan(found.sampling_logprob).all()


def test_a_prompt_is_prefilled_once_for_all_continuations() -> None:
    batch = MockBatch(hashed_logits(9))
    list(Scorer(batch, numpy_statistics(Sampler())).continuations([1, 2], [[3], [4, 5], [6]]))
    assert len(batch.prefilled) == 1


def test_the_first_token_of_a_prompt_has_no_score() -> None:
    rule, prompt = hashed_logits(9), [4, 2, 7, 1]
    found = Scorer(MockBatch(rule), numpy_statistics(Sampler())).prompt_tokens(prompt)
    assert len(found.logprob) == 4
    assert np.isnan(found.logprob[0])
    assert found.rank[0] == 0
    for t in range(1, 4):
        assert found.logprob[t] == pytest.approx(log_softmax(rule(tuple(prompt[:t])))[prompt[t]], abs=1e-5)


@pytest.mark.parametrize("kind", [SharedPrefixBatch, LibraryBatch])
def test_both_batches_score_like_reading_at_once(kind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.generation.scoring.CHUNK", 4)
    network = make_network("llama")
    prompt, continuations = [5, 6, 7], [[11, 12, 13, 14, 15, 16, 17, 18, 19], [21], [31, 32, 33, 34, 35]]
    scorer = Scorer(kind(Forward(network), 1), numpy_statistics(Sampler()))
    for ids, found in zip(continuations, scorer.continuations(prompt, continuations), strict=True):
        expected = log_softmax(read_at_once(network, [*prompt, *ids])[2:-1])
        np.testing.assert_allclose(found.logprob, expected[np.arange(len(ids)), ids], atol=1e-4)
