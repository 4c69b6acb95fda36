"""A model of the mind: caches that are plain lists of token ids, and logits that a formula gives.

It takes the place of the network and its caches, so that the loop's logic can be tested exactly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from toolkit.generation import statistics
from toolkit.generation.engine import Drawn, Statistics
from toolkit.generation.sampling import Sampler

Rule = Callable[[tuple[int, ...]], np.ndarray]


def hashed_logits(vocabulary: int = 11, scale: float = 2.0) -> Rule:
    """Logits that depend on every token so far, and on nothing else."""

    def rule(ids: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng(ids).normal(0, scale, vocabulary).astype(np.float32)

    return rule


class MockBatch:
    """A batch whose caches are the token ids that each row has read. Counts what was asked of it."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.rows: list[tuple[int, ...]] = []
        self.prefilled: list[tuple[int, ...]] = []
        self.widths: list[int] = []  # rows of each step

    def __len__(self) -> int:
        return len(self.rows)

    def prefill(self, token_ids: Sequence[int]) -> tuple[tuple[int, ...], np.ndarray]:
        prompt = tuple(int(i) for i in token_ids)
        self.prefilled.append(prompt)
        return prompt, self.rule(prompt)[None]

    def repeat(self, logits: np.ndarray, n: int) -> np.ndarray:
        return np.repeat(logits, n, axis=0)

    def read(self, prompt: tuple[int, ...], token_ids: Sequence[int], chunk: int) -> Iterator[np.ndarray]:
        for start in range(0, len(token_ids), chunk):
            ends = range(start + 1, min(start + chunk, len(token_ids)) + 1)
            yield np.stack([self.rule((*prompt, *token_ids[:end])) for end in ends])

    def take(self, logits: np.ndarray, rows: np.ndarray) -> np.ndarray:
        return logits[rows]

    def logprobs(self, logits: np.ndarray, changed: np.ndarray | None) -> np.ndarray:
        z = logits.astype(np.float64)
        result = z - np.log(np.exp(z).sum(axis=1, keepdims=True))
        return result if changed is None else np.where(changed == -np.inf, -np.inf, result + (changed - z))

    def choose(self, logits: np.ndarray, chooser: Any, greedy: np.ndarray) -> np.ndarray:
        return np.where(greedy, logits.argmax(axis=1), chooser(logits)).astype(np.int32)

    def admit(self, prompts: Sequence[tuple[int, ...]]) -> None:
        self.rows += prompts

    def replace(self, rows: Sequence[int], prompts: Sequence[tuple[int, ...]]) -> None:
        for row, prompt in zip(rows, prompts, strict=True):
            self.rows[row] = prompt

    def select(self, rows: Sequence[int]) -> None:
        self.rows = [self.rows[row] for row in rows]

    def step(self, token_ids: Sequence[int]) -> np.ndarray:
        self.widths.append(len(self.rows))
        self.rows = [(*row, int(i)) for row, i in zip(self.rows, token_ids, strict=True)]
        return np.stack([self.rule(row) for row in self.rows])


def numpy_statistics(sampler: Sampler, n_alternatives: int = 3) -> Statistics:
    """The NumPy statistics over the mock's logits."""

    def describe(logits: Any, uniforms: Any, greedy_rows: Any, **given: Any) -> Drawn:
        return statistics.step(logits, sampler, uniforms, greedy_rows, n_alternatives, **given)

    return describe
