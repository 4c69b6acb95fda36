"""Every kind of cache that can be batched, end to end on small random networks; the others are refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mlx_lm.models.cache import (
    CacheList,
    ChunkedKVCache,
    ConcatenateKVCache,
    KVCache,
    QuantizedKVCache,
    RotatingKVCache,
    make_prompt_cache,
)

from tests.generation.networks import CONFIGS, TOLERANCE, VOCABULARY, believed, make_network
from toolkit.errors import ToolkitError
from toolkit.generation.backend import choose_batch, choose_statistics
from toolkit.generation.beam import BeamSearch
from toolkit.generation.beam_settings import BeamSettings
from toolkit.generation.engine import Engine, FinishedSequence, Limits
from toolkit.generation.forward import Forward
from toolkit.generation.library_batch import LibraryBatch
from toolkit.generation.plans import PromptPlan
from toolkit.generation.sampling import Sampler
from toolkit.generation.scoring import Scorer
from toolkit.generation.shared_prefix import SharedPrefixBatch

# What each network's layers keep, in order; "+" where a layer keeps two.
KINDS = {
    "llama": ["KVCache"] * 2,
    "llama_untied": ["KVCache"] * 2,
    "llama_sliding": ["KVCache", "RotatingKVCache"],
    "qwen2": ["KVCache"] * 2,
    "gemma3": ["RotatingKVCache", "RotatingKVCache", "KVCache"],
    "mamba": ["ArraysCache"] * 2,
    "mamba2": ["ArraysCache"] * 2,
    "lfm2": ["ArraysCache", "KVCache", "ArraysCache"],
    "falcon_h1": ["ArraysCache+KVCache"] * 2,
    "recurrent_gemma": ["ArraysCache", "ArraysCache", "RotatingKVCache"],
    "qwen3_next": ["ArraysCache", "KVCache"] * 2,
}
PROMPTS = {"short": [5], "middle": [7, 3, 9, 11], "long": list(range(20, 34))}  # one token; over the window
END_IDS = frozenset(range(0, VOCABULARY, 9))  # so many that sequences end at different steps


def name_of(layer: Any) -> str:
    if isinstance(layer, CacheList):
        return "+".join(map(name_of, layer.caches))
    return type(layer).__name__


def expected_logprobs(network: Any, prompt: list[int], generated: list[int]) -> np.ndarray:
    """Of each generated token, when all is read at once."""
    return believed(network, prompt, generated)[np.arange(len(generated)), generated]


def assert_own_logprobs(name: str, network: Any, sequences: list[FinishedSequence]) -> None:
    for sequence in sequences:
        expected = expected_logprobs(network, PROMPTS[sequence.prompt_id], sequence.token_ids.tolist())
        np.testing.assert_allclose(sequence.statistics.logprob, expected, atol=2 * TOLERANCE[name])


@pytest.mark.parametrize("name", CONFIGS)
def test_what_the_layers_keep_and_which_batch_serves(name: str) -> None:
    network = make_network(name)
    assert [name_of(layer) for layer in make_prompt_cache(network)] == KINDS[name]
    plain = set(KINDS[name]) == {"KVCache"}
    batch = choose_batch(Forward(network))(2)
    assert isinstance(batch, SharedPrefixBatch if plain else LibraryBatch)


@pytest.mark.parametrize("name", CONFIGS)
def test_samples_have_the_logprobs_of_reading_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a prompt is read in several chunks."""
    for module in ("library_batch", "shared_prefix"):
        monkeypatch.setattr(f"toolkit.generation.{module}.PREFILL_CHUNK", 5)
    network, sampler = make_network(name), Sampler()
    engine = Engine(
        choose_batch(Forward(network))(5),
        choose_statistics(sampler, 3),
        sampler,
        Limits(14, END_IDS),
        seed=4,
        slots=5,
    )
    plans = [PromptPlan(key, ids, [("sample", i) for i in range(4)]) for key, ids in PROMPTS.items()]
    sequences = [sequence for step in engine.run(plans) for sequence in step.finished]
    assert len(sequences) == 12
    assert len({len(sequence.token_ids) for sequence in sequences}) > 3
    assert_own_logprobs(name, network, sequences)


@pytest.mark.parametrize("name", CONFIGS)
def test_beams_have_the_logprobs_of_reading_at_once(name: str) -> None:
    network = make_network(name)
    search = BeamSearch(
        choose_batch(Forward(network))(6),
        choose_statistics(Sampler(), 3),
        BeamSettings(3),
        Limits(12, frozenset([4])),
        slots=6,
    )
    groups = list(search.run(PromptPlan(key, ids, [("beam", 0)]) for key, ids in PROMPTS.items()))
    sequences = [sequence for group in groups for sequence in group]
    assert len(sequences) == 9
    assert_own_logprobs(name, network, sequences)


@pytest.mark.parametrize("name", CONFIGS)
def test_given_tokens_have_the_logprobs_of_reading_at_once(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolkit.generation.scoring.CHUNK", 5)
    network = make_network(name)
    scorer = Scorer(choose_batch(Forward(network))(1), choose_statistics(Sampler(), 3))
    prompt, texts = PROMPTS["long"], [[8], list(range(40, 53)), [], [8, 9, 10]]
    for ids, found in zip(texts, scorer.continuations(prompt, texts), strict=True):
        expected = expected_logprobs(network, prompt, ids)
        np.testing.assert_allclose(found.logprob, expected, atol=2 * TOLERANCE[name])
    of_prompt = scorer.prompt_tokens(prompt).logprob
    assert np.isnan(of_prompt[0])
    expected = expected_logprobs(network, prompt[:1], prompt[1:])
    np.testing.assert_allclose(of_prompt[1:], expected, atol=2 * TOLERANCE[name])


@pytest.mark.parametrize(
    ("cache", "named"),
    [
        (QuantizedKVCache(), "QuantizedKVCache cannot be batched"),
        (ChunkedKVCache(8), "ChunkedKVCache cannot be batched"),
        (ConcatenateKVCache(), "ConcatenateKVCache cannot be batched"),
        (CacheList(KVCache(), ChunkedKVCache(8)), "ChunkedKVCache cannot be batched"),
        (RotatingKVCache(8, keep=4), "RotatingKVCache keeps the first 4 tokens"),
        (CacheList(KVCache(), RotatingKVCache(8, keep=1)), "RotatingKVCache keeps the first 1 token,"),
    ],
)
def test_caches_that_cannot_be_batched_are_refused_by_name(cache: Any, named: str) -> None:
    network = make_network("llama")
    network.make_cache = lambda: [KVCache(), cache]
    with pytest.raises(ToolkitError, match=named):
        choose_batch(Forward(network))(2)
