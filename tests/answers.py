"""Made runs whose texts and log-probabilities a test chooses."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.store.factory import make_manifest
from toolkit.alignment import align
from toolkit.records import FinishReason, Kind, PromptRecord, SequenceRecord, TokenStatistics, unwatched
from toolkit.store import Run, RunWriter, open_run

END = "<|im_end|>"


@dataclass(frozen=True)
class Answer:
    """A sequence: its tokens' texts and log-probabilities, and that of the end token (None: it has none)."""

    prompt_id: str
    pieces: Sequence[str]
    logprobs: Sequence[float]
    kind: Kind = "sample"
    sample_index: int = 0
    end: float | None = -0.1
    finish_reason: FinishReason = "stop"
    sampling: Sequence[float] | None = (
        None  # sampling_logprob of all tokens; the log-probabilities by default
    )

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def all_logprobs(self) -> list[float]:
        return [*self.logprobs, *(() if self.end is None else (self.end,))]

    @property
    def key(self) -> tuple[str, str, int]:
        return (self.prompt_id, self.kind, self.sample_index)


def greedy(prompt_id: str, text: str, *logprobs: float, **more: Any) -> Answer:
    """A greedy answer whose tokens are its characters, or the whole text where one value is given."""
    pieces = [text] if len(logprobs) == 1 else list(text)
    return Answer(prompt_id, pieces, logprobs, kind="greedy", **more)


def sample(prompt_id: str, index: int, text: str, *logprobs: float, **more: Any) -> Answer:
    """A sample, as `greedy`."""
    pieces = [text] if len(logprobs) == 1 else list(text)
    return Answer(prompt_id, pieces, logprobs, sample_index=index, **more)


def statistics(answer: Answer) -> TokenStatistics:
    """Statistics that follow from the log-probabilities, so that a test can tell them."""
    logprob = np.array(answer.all_logprobs, np.float32)
    n = len(logprob)
    given = logprob if answer.sampling is None else np.array(answer.sampling, np.float32)
    ones = np.ones(n, np.float32)
    return TokenStatistics(
        logprob=logprob,
        constrained_logprob=np.full(n, np.nan, np.float32),
        sampling_logprob=given,
        rank=np.ones(n, np.int32),
        entropy=np.minimum(-logprob / 2, np.float32(np.log(4))),
        varentropy=ones,
        logsumexp=ones,
        mean_logit=-2
        + np.maximum(logprob, -1e3),  # so that self-certainty falls as the log-probability rises
        n_finite=np.full(n, 4, np.int32),
        lse_half=ones,
        lse_quarter=ones,
        top1_logprob=np.maximum(logprob, -1),
        top2_logprob=np.maximum(logprob, -1) - 1,
        top15_entropy=ones,
        top20_mean_logprob=-10
        - np.maximum(logprob, -1e3),  # DeepConf's confidence of a token is 10 + logprob
        boosted_prob=np.exp(logprob),
        alternative_ids=np.zeros((n, 0), np.int32),
        alternative_logprobs=np.zeros((n, 0), np.float32),
        **unwatched(n),
    )


def prompt(
    prompt_id: str, *references: str, text: str = "Q", index: int = 0, **metadata: Any
) -> PromptRecord:
    ids = np.array([1], np.int32)
    return PromptRecord(prompt_id, index, text, ids, None, references, metadata)


def make_answers(
    path: Path, prompts: Sequence[PromptRecord], answers: Sequence[Answer], **manifest: Any
) -> Run:
    """A finished run of these, opened."""
    with RunWriter.create(path, make_manifest(**manifest)) as writer:
        writer.add_prompts(prompts)
        add_answers(writer, answers)
    return open_run(path)


def add_answers(writer: RunWriter, answers: Sequence[Answer]) -> None:
    vocabulary: dict[int, tuple[bytes | None, str, bool]] = {0: (None, END, True)}
    writer.commit([_record(answer, vocabulary) for answer in answers], vocabulary)


def by_key(frame: Any, column: str) -> Mapping[tuple[str, str, int], Any]:
    """A column of a frame by (prompt_id, kind, sample_index)."""
    keys = frame[["prompt_id", "kind", "sample_index"]].itertuples(index=False, name=None)
    return dict(zip(keys, frame[column], strict=True))


def _record(answer: Answer, vocabulary: dict[int, tuple[bytes | None, str, bool]]) -> SequenceRecord:
    ids = [_id(piece, vocabulary) for piece in answer.pieces]
    pieces: list[bytes | None] = [piece.encode() for piece in answer.pieces]
    if answer.end is not None:
        ids, pieces = [*ids, 0], [*pieces, None]
    return SequenceRecord(
        prompt_id=answer.prompt_id,
        kind=answer.kind,
        sample_index=answer.sample_index,
        token_ids=np.array(ids, np.int32),
        statistics=statistics(answer),
        alignment=align(pieces),
        has_end=answer.end is not None,
        finish_reason=answer.finish_reason,
        stop_reason=END if answer.end is not None else None,
    )


def _id(piece: str, vocabulary: dict[int, tuple[bytes | None, str, bool]]) -> int:
    number = 1 + (zlib.crc32(piece.encode()) >> 2)  # the same in every session of a run
    assert vocabulary.setdefault(number, (piece.encode(), piece, False))[1] == piece
    return number
