"""Token columns made from logits by plain float64 loops, and spans over them, for the tests of estimators."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.stats.ranges import Columns, Ranges

CASES = Path(__file__).parents[1] / "cases"


def case(name: str) -> Any:
    return json.loads((CASES / name).read_text())


class Token(NamedTuple):
    """One token: its logits, and which of them it is."""

    logits: list[float]
    drawn: int

    @property
    def logprobs(self) -> list[float]:
        total = math.log(sum(math.exp(z) for z in self.logits))
        return [z - total for z in self.logits]

    @property
    def logprob(self) -> float:
        return self.logprobs[self.drawn]

    @property
    def finite(self) -> list[float]:
        return [z for z in self.logits if z > -math.inf]

    @property
    def entropy(self) -> float:
        return -sum(math.exp(x) * x for x in self.logprobs if x > -math.inf)

    @property
    def varentropy(self) -> float:
        return sum(math.exp(x) * (x + self.entropy) ** 2 for x in self.logprobs if x > -math.inf)

    @property
    def rank(self) -> int:
        return 1 + sum(z > self.logits[self.drawn] for z in self.logits)

    def top(self, k: int) -> list[float]:
        return sorted(self.logprobs, reverse=True)[:k]


def entropy_of(logprobs: list[float]) -> float:
    """Of log-probabilities, after renormalising them."""
    mass = sum(math.exp(x) for x in logprobs)
    shares = [math.exp(x) / mass for x in logprobs]
    return -sum(p * math.log(p) for p in shares if p > 0)


def lse(values: list[float]) -> float:
    return math.log(sum(math.exp(x) for x in values))


def columns_of(tokens: list[Token], n_alternatives: int = 5) -> Columns:
    rows = {
        "logprob": [t.logprob for t in tokens],
        "constrained_logprob": [t.logprob / 2 for t in tokens],
        "sampling_logprob": [t.logprob / 3 for t in tokens],
        "rank": [t.rank for t in tokens],
        "entropy": [t.entropy for t in tokens],
        "varentropy": [t.varentropy for t in tokens],
        "logsumexp": [lse(t.logits) for t in tokens],
        "mean_logit": [sum(t.finite) / len(t.finite) for t in tokens],
        "n_finite": [len(t.finite) for t in tokens],
        "lse_half": [lse([z / 2 for z in t.logits]) for t in tokens],
        "lse_quarter": [lse([z / 4 for z in t.logits]) for t in tokens],
        "top1_logprob": [t.top(2)[0] for t in tokens],
        "top2_logprob": [t.top(2)[1] for t in tokens],
        "top15_entropy": [entropy_of(t.top(15)) for t in tokens],
        "top20_mean_logprob": [sum(t.top(20)) / 20 for t in tokens],
        "boosted_prob": [math.exp(t.logprob) for t in tokens],
    }
    columns = {name: np.array(values, np.float64) for name, values in rows.items()}
    columns["alternative_logprobs"] = np.array([t.top(n_alternatives) for t in tokens]).reshape(
        len(tokens), -1
    )
    return columns


def random_tokens(
    n: int, *, seed: int, size: int = 24, masked: bool = False, tied: bool = False
) -> list[Token]:
    """`masked` gives some logits -inf, drawn ones too; `tied` rounds logits to whole numbers."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (n, size))
    if tied:
        logits = logits.round()
    if masked:
        logits[rng.random((n, size)) < 0.1] = -np.inf
    return [Token(row.tolist(), int(rng.integers(size))) for row in logits]


def random_ranges(n: int, *, seed: int) -> Ranges:
    """Spans in any order that overlap: empty ones, single tokens, and all of it."""
    rng = np.random.default_rng(seed)
    starts, ends = np.sort(rng.integers(0, n + 1, (2, 25)), axis=0)
    singles = rng.integers(0, n, 5)
    return Ranges(
        np.concatenate([starts, singles, [0, 0, n]]), np.concatenate([ends, singles + 1, [n, 0, n]])
    )
