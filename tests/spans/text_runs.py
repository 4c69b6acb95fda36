"""Runs of given texts, cut into given tokens; the statistics are of made logits."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tests.store.factory import VOCABULARY, make_logits, make_manifest, make_prompt, make_statistics
from toolkit.alignment import align
from toolkit.records import Kind, SequenceRecord
from toolkit.store import RunWriter

END = b"<end>"  # stands for the end token, which has no bytes


def cut(text: str, *sizes: int) -> list[bytes]:
    """The bytes of a text in pieces of these sizes in turn, which need not end where characters do."""
    data, pieces, i = text.encode(), [], 0
    while data:
        size = sizes[i % len(sizes)]
        pieces.append(data[:size])
        data, i = data[size:], i + 1
    return pieces


def make_text_run(
    path: Path, sequences: Sequence[SequenceRecord], prompts: dict[str, str] | None = None
) -> Path:
    """A run of records made by `text_record`, one commit each; `prompts` replaces the texts of some prompts."""
    changed = prompts or {}
    with RunWriter.create(path, make_manifest()) as writer:
        for i, prompt_id in enumerate(dict.fromkeys(record.prompt_id for record in sequences)):
            prompt = make_prompt(prompt_id, i)
            object.__setattr__(prompt, "text", changed.get(prompt_id, prompt.text))
            writer.add_prompts([prompt])
        for record in sequences:
            pieces = record.alignment.pieces
            entries = {
                int(i): (piece, (piece or END).decode("utf-8", "replace"), piece is None)
                for i, piece in zip(record.token_ids, pieces, strict=True)
            }
            writer.commit([record], VOCABULARY | entries)  # the alternatives are of the factory's
    return path


_IDS: dict[bytes | None, int] = {}


def text_record(
    pieces: Sequence[bytes],
    prompt_id: str = "p",
    kind: Kind = "sample",
    sample_index: int = 0,
    n_bytes: int | None = None,
) -> SequenceRecord:
    """A sequence of tokens with these bytes; `END` is the end token."""
    real = [None if piece == END else piece for piece in pieces]
    ids = np.array([_IDS.setdefault(piece, len(VOCABULARY) + len(_IDS)) for piece in real], np.int32)
    rng = np.random.default_rng([len(pieces), sample_index, *prompt_id.encode()])
    logits = make_logits(len(ids), rng)
    drawn = (np.arange(len(ids)) * 7 % logits.shape[1]).astype(np.int32)
    has_end = bool(real) and real[-1] is None
    return SequenceRecord(
        prompt_id=prompt_id,
        kind=kind,
        sample_index=sample_index,
        token_ids=ids,
        statistics=make_statistics(logits, drawn, drawn=kind == "sample"),
        alignment=align(real, n_bytes),
        has_end=has_end,
        finish_reason="stop" if has_end or n_bytes is not None else "length",
        stop_reason="<end>" if has_end else None,
        seed=0 if kind == "sample" else None,
    )
