"""Runs of generated sequences with everything that is hard to write down and read back."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from hypothesis import strategies as st

from tests.store.factory import make_manifest
from toolkit.alignment import align
from toolkit.records import PromptRecord, SequenceRecord, TokenStatistics, unwatched
from toolkit.store import Run, RunWriter, open_run

END = 0
PIECES: Sequence[bytes | None] = (
    None,
    None,
    b"",
    b"a",
    b"a",  # another id with the same bytes, as byte fallback has them
    b"\xf0\x9f",
    b" \xe2\x82",
    b"\xac",
    b"\x8e\x89",
    "é".encode(),
    "日本".encode(),
    "\ufffd".encode(),
    b"\xff\\",
    b"bytes:",
    b"bytes:\\xe2",
    b"\\xe2",
    b"=1+1",
    b"'=",
    b'"',
    b",",
    b"\n",
    b"\r\n",
    b"\t",
    b" ",
    "\x85\u2028\u2029".encode(),
    b"\x1b[31m\x7f",
    "\u202e".encode(),
    b"<|im_end|>",
    b"NA",
    b"nan",
    b"null",
    b"-",
    b"007",
)
"""The bytes of each token id; the first is the end token, the second another special one."""

LITERALS = [
    "<|im_end|>",
    "<|im_start|>",
    *(piece.decode("utf-8", "replace") for piece in PIECES[2:] if piece is not None),
]
VOCABULARY = {
    i: (piece, literal, piece is None)
    for i, (piece, literal) in enumerate(zip(PIECES, LITERALS, strict=True))
}

FLOATS = st.one_of(
    st.floats(-30, 0, width=32),
    st.sampled_from([0.0, -0.0, -1e-7, -1e-45, -3.4e38, -16777216.0, -1e7, -np.inf]),
)
NULLABLE = st.one_of(FLOATS, st.just(np.nan))
TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@dataclass(frozen=True)
class Odd:
    """A run's records, sorted by key."""

    prompts: list[PromptRecord]
    sequences: list[SequenceRecord]

    @contextmanager
    def run(self, batch: int = 3) -> Iterator[Run]:
        """The run of these, in a folder of its own; a file holds `batch` sequences."""
        # Nothing here is about what survives a loss of power, and syncing is most of the time.
        with tempfile.TemporaryDirectory() as folder, patch("toolkit.store.files._sync"):
            yield open_run(self.write(Path(folder) / "run", batch))

    def write(self, path: Path, batch: int = 3) -> Path:
        with RunWriter.create(path, make_manifest()) as writer:
            writer.add_prompts(self.prompts)
            for start in range(0, len(self.sequences), batch):
                writer.commit(self.sequences[start : start + batch], VOCABULARY)
        return path


@st.composite
def odd_runs(draw: st.DrawFn) -> Odd:
    ids = draw(st.lists(TEXTS.filter(_is_id), min_size=1, max_size=2, unique=True))
    prompts = [draw(_prompts(name, i)) for i, name in enumerate(ids)]
    keys = [(name, kind, i) for name in ids for kind in ("greedy", "sample") for i in range(2)]
    chosen = draw(st.lists(st.sampled_from(keys), min_size=1, max_size=4, unique=True))
    return Odd(sorted(prompts, key=lambda p: p.prompt_id.encode()), [draw(sequences(*key)) for key in chosen])


def _is_id(text: str) -> bool:
    return bool(text) and text.isprintable()


@st.composite
def _prompts(draw: st.DrawFn, prompt_id: str, index: int) -> PromptRecord:
    messages = [{"role": "user", "content": draw(TEXTS)}]
    return PromptRecord(
        prompt_id,
        index,
        draw(TEXTS),
        np.array(draw(st.lists(st.integers(0, 9), max_size=3)), np.int32),
        draw(st.sampled_from([None, messages])),
        draw(st.lists(TEXTS, max_size=2)),
        draw(st.dictionaries(TEXTS, st.one_of(TEXTS, st.integers(), st.none()), max_size=2)),
    )


@st.composite
def sequences(draw: st.DrawFn, prompt_id: str, kind: Any, index: int) -> SequenceRecord:
    ids = draw(st.lists(st.integers(1, len(PIECES) - 1), max_size=7))
    has_end = draw(st.booleans())
    ids += [END] * has_end
    pieces = [PIECES[i] for i in ids]
    total = sum(len(piece or b"") for piece in pieces)
    cut = draw(st.one_of(st.none(), st.integers(0, total)))
    return SequenceRecord(
        prompt_id,
        kind,
        index,
        np.array(ids, np.int32),
        draw(_statistics(len(ids))),
        align(pieces, cut),
        has_end,
        draw(st.sampled_from(["stop", "length", "context", "error", "cancelled"])),
        draw(st.one_of(st.none(), TEXTS.filter(bool))),
        draw(st.one_of(st.none(), st.floats(-9, 0))),
        draw(st.one_of(st.none(), st.integers(0, 2**63 - 1))),
    )


@st.composite
def _statistics(draw: st.DrawFn, n: int) -> TokenStatistics:
    k = draw(st.integers(0, 3))
    values: dict[str, Any] = {
        name: np.array(draw(st.lists(NULLABLE, min_size=n, max_size=n)), np.float32)
        for name in TokenStatistics._fields
    }
    values["logprob"] = np.array(draw(st.lists(FLOATS, min_size=n, max_size=n)), np.float32)
    for name in ("rank", "n_finite"):
        values[name] = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), np.int32)
    likely = [draw(st.permutations(range(len(PIECES))))[:k] for _ in range(n)]
    finite = [sorted(draw(st.lists(st.floats(-30, 0, width=32), min_size=k, max_size=k))) for _ in range(n)]
    values["alternative_ids"] = np.array(likely, np.int32).reshape(n, k)
    values["alternative_logprobs"] = np.array(finite, np.float32).reshape(n, k)[:, ::-1]
    return TokenStatistics(**(values | unwatched(n)))


def by_key(records: Sequence[SequenceRecord]) -> Mapping[tuple[str, str, int], SequenceRecord]:
    return {record.key: record for record in records}
