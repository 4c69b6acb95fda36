"""Prompts to finished sequences: drives the engine, follows each sequence's text, and makes its record."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.alignment import TextStream, TokenBytes, align
from toolkit.generation.engine import ActiveSequence, FinishedSequence, Step
from toolkit.records import FinishReason, Segment, SequenceRecord

Key = tuple[str, str, int]


def key_of(sequence: ActiveSequence | FinishedSequence) -> Key:
    """A sequence's key in every table."""
    return sequence.prompt_id, sequence.kind, sequence.sample_index


class TextStep(NamedTuple):
    """A step of the engine, with what it released and ended."""

    step: Step
    released: list[list[Segment]]  # of each of the step's sequences
    records: list[SequenceRecord]  # sequences that ended

    @property
    def n_tokens(self) -> int:
        """Tokens that are new: one a sequence, or all of those that a beam search ended with."""
        n = len(self.step.token_ids)
        return n if self.step.sequences else sum(len(record.token_ids) for record in self.records)


class _Text:
    """A running sequence's bytes and segments."""

    def __init__(self, stops: Sequence[str]) -> None:
        self.stream = TextStream(stops)
        self.pieces: list[bytes | None] = []
        self.segments: list[Segment] = []

    def push(self, piece: bytes | None) -> list[Segment]:
        self.pieces.append(piece)
        return self._keep(self.stream.push(piece))

    def finish(self) -> list[Segment]:
        return self._keep(self.stream.finish())

    def _keep(self, released: list[Segment]) -> list[Segment]:
        self.segments += released
        return released


class TextFollower:
    """Follows the text of every running sequence; the engine's watcher.

    Parameters
    ----------
    token_bytes : bytes of the model's tokens
    stops : stop strings; a sequence ends where one is complete, and its text before it
    seed : written into the records
    """

    def __init__(self, token_bytes: TokenBytes, stops: Sequence[str], seed: int | None) -> None:
        self._token_bytes = token_bytes
        self._stops = tuple(stops)
        self._seed = seed
        self._texts: dict[Key, _Text] = {}
        self._released: list[list[Segment]] = []

    def __call__(self, sequences: Sequence[ActiveSequence], token_ids: NDArray[np.int32]) -> dict[int, str]:
        """Take one token of each sequence; the rows whose text is complete, and their stop string."""
        self._released, stopped = [], {}
        for row, (sequence, token_id) in enumerate(zip(sequences, token_ids.tolist(), strict=True)):
            text = self._texts.setdefault(key_of(sequence), _Text(self._stops))
            if sequence.finish_reason == "error":  # no token was drawn
                self._released.append([])
                continue
            self._released.append(text.push(self._token_bytes.piece(token_id)))
            if text.stream.stopped is not None:
                stopped[row] = text.stream.stopped
        return stopped

    def follow(self, steps: Iterable[Step]) -> Iterator[TextStep]:
        """The engine's steps with their segments and records."""
        for step in steps:
            released = self._released
            ended = {key_of(sequence): sequence for sequence in step.finished}
            records = []
            for row, sequence in enumerate(step.sequences):
                if (finished := ended.get(key_of(sequence))) is not None:
                    released[row] = released[row] + self._texts[key_of(sequence)].finish()
                    records.append(self._record(finished))
            yield TextStep(step, released, records)

    def _record(self, sequence: FinishedSequence) -> SequenceRecord:
        text = self._texts.pop(key_of(sequence))
        finish_reason: FinishReason = sequence.finish_reason
        stop_reason = sequence.stop_reason
        if sequence.has_end:
            stop_reason = self._token_bytes.literal(int(sequence.token_ids[-1]))
        if text.stream.stopped is not None:
            finish_reason, stop_reason = "stop", text.stream.stopped
        return SequenceRecord(
            prompt_id=sequence.prompt_id,
            kind=sequence.kind,
            sample_index=sequence.sample_index,
            token_ids=sequence.token_ids,
            statistics=sequence.statistics,
            alignment=align(text.pieces, text.stream.n_bytes, text.segments),
            has_end=sequence.has_end,
            finish_reason=finish_reason,
            stop_reason=stop_reason,
            seed=self._seed,
        )
