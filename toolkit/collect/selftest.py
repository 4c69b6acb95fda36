"""Checks of generation for `toolkit doctor --selftest`: seeds, batches, and both implementations of statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from toolkit.collect.settings import Settings
from toolkit.collect.steps import Generator
from toolkit.generation import statistics, statistics_mlx
from toolkit.generation.plans import PromptPlan
from toolkit.generation.sampler import Sampler
from toolkit.models import Model
from toolkit.models.selftest import Check, all_logprobs, check_logprobs, check_tokens, tolerance
from toolkit.records import SequenceRecord

QUESTIONS = ("What is the capital of France?", "Name three colours of the rainbow.")
N_SAMPLES = 4
MAX_TOKENS = 8
STATISTICS_TOLERANCE = 2e-4  # between MLX's and NumPy's


def check_seeds(model: Model) -> Check:
    """The same seed gives the same samples again, another one gives others."""
    plans = _plans(model, range(N_SAMPLES))
    first, again, other = (_ids(_draw(model, plans, seed)) for seed in (1, 1, 2))
    passed = first == again and first != other
    return Check("seeds", passed, f"{_same(first, again)} of {len(first)} samples the same again")


def check_batches(model: Model) -> Check:
    """Recorded log-probabilities equal reading each text at once; a sample alone is the one of the batch."""
    batch = _draw(model, _plans(model, range(N_SAMPLES)), 1)
    prompts = {plan.prompt_id: list(plan.token_ids) for plan in _plans(model, [0])}
    differences = [0.0]
    for record in batch:
        prompt, ids = prompts[record.prompt_id], record.token_ids.tolist()
        read = all_logprobs(model, [*prompt, *ids])[len(prompt) - 1 :]
        differences.append(np.abs(read[np.arange(len(ids)), ids] - record.statistics.logprob).max())
    alone = [record for i in (0, N_SAMPLES - 1) for record in _draw(model, _plans(model, [i]), 1)]
    together = _ids(batch)
    same = sum(together[record.key] == record.token_ids.tolist() for record in alone)
    largest, allowed = float(np.max(differences)), 5 * tolerance(model)
    detail = (
        f"off by {largest:.1e} nats at most, {allowed:.0e} allowed; {same} of {len(alone)} the same alone"
    )
    return Check("batches", largest <= allowed, detail)


def check_statistics(model: Model) -> Check:
    """MLX's and NumPy's statistics of the same logits agree."""
    import mlx.core as mx

    logits = np.random.default_rng(0).normal(0, 4, (4, 5000)).astype(np.float32)
    uniforms, greedy = np.linspace(0.1, 0.9, 4), np.zeros(4, bool)
    ids, ours = statistics.step(logits, Sampler(), uniforms, greedy)
    _, theirs = statistics_mlx.step(mx.array(logits), Sampler(), uniforms, greedy, forced_ids=ids)
    pairs = zip(ours._replace(sampling_logprob=theirs.sampling_logprob), theirs, strict=True)
    largest = float(max(np.nanmax(np.abs(a - b), initial=0) for a, b in pairs))
    return Check(
        "statistics", largest <= STATISTICS_TOLERANCE, f"MLX and NumPy differ by {largest:.1e} at most"
    )


CHECKS: tuple[Callable[[Model], Check], ...] = (
    check_tokens,
    check_logprobs,
    check_statistics,
    check_seeds,
    check_batches,
)


def _plans(model: Model, samples: Sequence[int]) -> list[PromptPlan]:
    return [
        PromptPlan(f"q{i}", model.tokenizer.encode(question), [("sample", sample) for sample in samples])
        for i, question in enumerate(QUESTIONS)
    ]


def _draw(model: Model, plans: Sequence[PromptPlan], seed: int) -> list[SequenceRecord]:
    generator = Generator(model, Settings(num_samples=N_SAMPLES, max_tokens=MAX_TOKENS, seed=seed))
    return [record for step in generator.run(plans) for record in step.records]


def _ids(records: Sequence[SequenceRecord]) -> dict[Any, list[int]]:
    return {record.key: record.token_ids.tolist() for record in records}


def _same(some: dict[Any, list[int]], others: dict[Any, list[int]]) -> int:
    return sum(others[key] == ids for key, ids in some.items())
