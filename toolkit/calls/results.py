"""What `toolkit.generate` gives back: sequences, generations and arrays over both. NumPy only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Sequence as Sequence_
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.records import FinishReason, PromptRecord, Segment, SequenceRecord, TokenStatistics

PADDING = -1  # in token_ids, past a sequence's end


@dataclass(frozen=True)
class Sequence:
    """One continuation of a prompt.

    Attributes
    ----------
    prompt_token_ids, generated_token_ids : tuple of int
        The end token is one of the generated ones.
    record : SequenceRecord
        All that is known of it, as it would be stored.
    literals : Mapping
        What a person reads for the ids of its tokens, of their alternatives, and of watched ones.
    """

    prompt_token_ids: tuple[int, ...]
    record: SequenceRecord
    literals: Mapping[int, str] = field(default_factory=dict, repr=False, compare=False)

    def _repr_html_(self) -> str:
        from toolkit.report.notebook import sequence_html

        return sequence_html(self)

    @cached_property
    def generated_token_ids(self) -> tuple[int, ...]:
        return tuple(self.record.token_ids.tolist())

    @property
    def token_ids(self) -> tuple[int, ...]:
        """Prompt and generated tokens."""
        return self.prompt_token_ids + self.generated_token_ids

    @cached_property
    def logprob(self) -> float:
        """Cumulative log-probability of the generated tokens, the end token included; nats."""
        return float(self.logprobs.sum(dtype=np.float64))

    @property
    def logprobs(self) -> NDArray[np.float32]:
        """Of each generated token, from the untouched logits; nats."""
        return self.record.statistics.logprob

    @property
    def statistics(self) -> TokenStatistics:
        return self.record.statistics

    def watched(self, position: int = 0) -> dict[str, float]:
        """The log-probability of each watched token at a position, by its text; nats.

        Ranks are `statistics.watched_ranks`, in the same order. Empty where nothing was watched; NaN where it was
        not looked.

        Raises
        ------
        IndexError
            The sequence has no such position.
        """
        s = self.statistics
        pairs = zip(s.watched_ids[position].tolist(), s.watched_logprobs[position].tolist(), strict=True)
        return {self.literals[token_id]: logprob for token_id, logprob in pairs}

    @property
    def text(self) -> str:
        return self.record.alignment.text

    @property
    def segments(self) -> tuple[Segment, ...]:
        return self.record.alignment.segments

    @property
    def finish_reason(self) -> FinishReason:
        return self.record.finish_reason

    @property
    def beam_score(self) -> float | None:
        return self.record.beam_score


@dataclass(frozen=True)
class Generation:
    """All sequences of one prompt, in the order of their sample index."""

    prompt: PromptRecord
    sequences: tuple[Sequence, ...]

    def _repr_html_(self) -> str:
        from toolkit.report.notebook import generation_html

        return generation_html(self)


@dataclass(frozen=True)
class Result:
    """The sequences of several prompts.

    Attributes
    ----------
    generations : tuple of Generation
        One a prompt, in the prompts' order.
    """

    generations: tuple[Generation, ...]

    def __repr__(self) -> str:
        return f"Result of shape (n_samples, n_prompts, n_tokens) = {self.shape}"

    def _repr_html_(self) -> str:
        from toolkit.report.notebook import result_html

        return result_html(self)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(n_samples, n_prompts, n_tokens), n_tokens of the longest sequence."""
        n_samples = max((len(generation.sequences) for generation in self.generations), default=0)
        longest = max((len(s.generated_token_ids) for g in self.generations for s in g.sequences), default=0)
        return n_samples, len(self.generations), longest

    @cached_property
    def token_ids(self) -> NDArray[np.int32]:
        """Generated ids, (n_samples, n_prompts, n_tokens); -1 past a sequence's end. Singletons stay."""
        return self._fill(np.full(self.shape, PADDING, np.int32), "token_ids")

    @cached_property
    def logprobs(self) -> NDArray[np.float32]:
        """Their log-probabilities, the same shape; NaN past a sequence's end."""
        return self._fill(np.full(self.shape, np.nan, np.float32), "logprobs")

    @property
    def text(self) -> Any:
        """text[sample][prompt]; singletons go: a str, a list over samples or prompts, or a list of lists.

        None where a prompt has fewer sequences than others (a beam search that found fewer).
        """
        n_samples, n_prompts, _ = self.shape
        texts: list[Any] = [
            [
                generation.sequences[sample].text if sample < len(generation.sequences) else None
                for generation in self.generations
            ]
            for sample in range(n_samples)
        ]
        if n_prompts == 1:
            texts = [row[0] for row in texts]
        return texts[0] if n_samples == 1 else texts

    def _fill(self, array: NDArray[Any], of: str) -> NDArray[Any]:
        for prompt, generation in enumerate(self.generations):
            for sample, sequence in enumerate(generation.sequences):
                values = sequence.record.token_ids if of == "token_ids" else sequence.logprobs
                array[sample, prompt, : len(values)] = values
        return array


def make_result(
    prompts: Sequence_[PromptRecord], records: Sequence_[SequenceRecord], literal: Callable[[int], str]
) -> Result:
    """Sort records under their prompts; `literal` gives what a person reads for a token id."""
    grouped: dict[str, list[SequenceRecord]] = {prompt.prompt_id: [] for prompt in prompts}
    for record in records:
        grouped[record.prompt_id].append(record)
    literals = {token_id: literal(token_id) for token_id in _token_ids(records)}
    return Result(tuple(_generation(prompt, grouped[prompt.prompt_id], literals) for prompt in prompts))


def _token_ids(records: Sequence_[SequenceRecord]) -> list[int]:
    """Every id that occurs, as a token, an alternative or a watched one; -1 stands for none."""
    found = [
        ids.ravel()
        for one in records
        for ids in (one.token_ids, one.statistics.alternative_ids, one.statistics.watched_ids[:1])
    ]
    return (
        [token_id for token_id in np.unique(np.concatenate(found)).tolist() if token_id >= 0] if found else []
    )


def _generation(
    prompt: PromptRecord, records: list[SequenceRecord], literals: Mapping[int, str]
) -> Generation:
    ids = tuple(prompt.token_ids.tolist())
    ordered = sorted(records, key=lambda record: (record.kind, record.sample_index))
    return Generation(prompt, tuple(Sequence(ids, record, literals) for record in ordered))
