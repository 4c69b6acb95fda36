"""What every contender is given: the prompts as token ids, how many samples of what length, and files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:  # a contender decides itself when NumPy, and so its BLAS, is loaded
    import numpy as np
    from numpy.typing import NDArray

SAME_MODEL = 1e-3  # logits may differ by this much


@dataclass(frozen=True)
class Job:
    """A folder with the model and its prompts, and what is to be generated."""

    folder: str
    prompts: list[list[int]]  # token ids
    samples: int  # of each prompt
    max_tokens: int  # of each sample: end tokens are ignored

    @property
    def rows(self) -> int:
        return self.samples * len(self.prompts)

    @property
    def model(self) -> Path:
        """Float32 weights, config and tokenizer, as MLX-LM and transformers load them."""
        return Path(self.folder, "model")

    @property
    def gguf(self) -> Path:
        """The same weights for llama.cpp."""
        return Path(self.folder, "model.gguf")

    @property
    def prompt_file(self) -> Path:
        """The same prompts as JSON Lines."""
        return Path(self.folder, "prompts.jsonl")

    @property
    def reference(self) -> Path:
        """Logits (vocabulary,) after the first prompt, as this project computes them."""
        return Path(self.folder, "reference.npy")

    def smaller(self, prompts: int, samples: int) -> Job:
        """The same with at most so many prompts, and samples of each."""
        return replace(self, prompts=self.prompts[:prompts], samples=min(samples, self.samples))

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Job:
        return cls(**json.loads(text))


class Unavailable(Exception):
    """A contender cannot take part; the message says why, in one line."""


@dataclass(frozen=True)
class Prepared:
    """A contender that is loaded and warm."""

    turn: Callable[[], Turn]
    logits: NDArray[np.float32] | None = None  # (vocabulary,) after the first prompt; None: it cannot tell
    facts: dict[str, Any] = field(default_factory=dict)  # versions, threads, device


class Turn(NamedTuple):
    """What a contender did in one turn."""

    n_tokens: int
    seconds: float
