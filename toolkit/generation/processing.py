"""What changes logits before a token is chosen: logits processors and grammars, with a state a sequence.

A state is never altered in place by `follow`, so beams and samples fork it by sharing it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

LogitsProcessor = Callable[[Any, Any], Any]  # (token ids (n,), logits (1, vocabulary)) -> logits, as MLX-LM's


class Processing(Protocol):
    """Changes the logits of sequences, each by its state."""

    def begin(self, prompt_ids: Sequence[int]) -> Any:
        """The state of a sequence that has only its prompt."""
        ...

    def apply(self, states: Sequence[Any], logits: Any) -> Any:
        """Changed logits (rows, vocabulary), -inf where a token is masked out; None where none changes."""
        ...

    def follow(self, state: Any, token_id: int) -> Any:
        """The state after one more token; the old one stays as it is."""
        ...


class NoProcessing:
    """Leaves the logits untouched."""

    def begin(self, prompt_ids: Sequence[int]) -> None:
        return None

    def apply(self, states: Sequence[Any], logits: Any) -> None:
        return None

    def follow(self, state: Any, token_id: int) -> None:
        return None


class LogitsProcessors:
    """MLX-LM's logits processors, a row at a time, one after the other.

    Parameters
    ----------
    processors : each is called with the prompt's and the generated token ids and the logits (1, vocabulary)
    """

    def __init__(self, processors: Sequence[LogitsProcessor]) -> None:
        self._processors = tuple(processors)

    def begin(self, prompt_ids: Sequence[int]) -> tuple[int, ...]:
        return tuple(prompt_ids)

    def apply(self, states: Sequence[tuple[int, ...]], logits: Any) -> Any:
        import mlx.core as mx

        rows = []
        for row, state in enumerate(states):
            changed, ids = logits[row : row + 1], mx.array(state)
            for processor in self._processors:
                changed = processor(ids, changed)
            rows.append(changed)
        return mx.concatenate(rows, axis=0)

    def follow(self, state: tuple[int, ...], token_id: int) -> tuple[int, ...]:
        return (*state, token_id)


class Chain:
    """Several processings, one after the other."""

    def __init__(self, parts: Sequence[Processing]) -> None:
        self._parts = tuple(parts)

    def begin(self, prompt_ids: Sequence[int]) -> tuple[Any, ...]:
        return tuple(part.begin(prompt_ids) for part in self._parts)

    def apply(self, states: Sequence[tuple[Any, ...]], logits: Any) -> Any:
        changed = None
        for place, part in enumerate(self._parts):
            new = part.apply([state[place] for state in states], logits if changed is None else changed)
            changed = changed if new is None else new
        return changed

    def follow(self, state: tuple[Any, ...], token_id: int) -> tuple[Any, ...]:
        return tuple(part.follow(one, token_id) for part, one in zip(self._parts, state, strict=True))
