"""Prompts with their sequences, cut into pages by what they weigh in bytes.

A page's data is kept as JSON in a file of a temporary folder until it is written, so that memory holds one
page at a time however many there are.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.errors import DataFault
from toolkit.report.data import OPTIONAL_COLUMNS, SPAN_KINDS, TOKEN_COLUMNS, SequenceData
from toolkit.store import VocabularyEntry

PAGE_SEQUENCES = 500
PAGE_BYTES = 5_000_000

_ESCAPED = {mark: f"\\u{ord(mark):04x}" for mark in "<>&\u2028\u2029"}


class PromptData(NamedTuple):
    """A prompt of a run with its sequences."""

    run: int
    prompt_id: str
    question: str
    reference: list[str]
    vocabulary: Mapping[int, VocabularyEntry]
    sequences: Sequence[SequenceData]


class Placed(NamedTuple):
    """Where a sequence came to stand."""

    page: int  # from 1
    sequence: SequenceData


@dataclass
class Page:
    """One page, its data in a file.

    Attributes
    ----------
    number : int
        From 1.
    first, last : str
        Ids of its first and last prompt.
    n_sequences : int
    granularities : list of dict
        As the island has them.
    """

    number: int
    path: Path
    first: str
    last: str
    n_sequences: int
    n_bytes: int
    granularities: list[dict[str, Any]]


class PageWriter:
    """Fills pages with prompts in turn.

    Parameters
    ----------
    folder : Path
        For the pages' data.
    taken : int
        Bytes that all else on the first page takes.
    taken_later : int
        The same of each page that follows.
    """

    def __init__(self, folder: Path, taken: int, taken_later: int) -> None:
        self.folder, self.taken_later = folder, taken_later
        self.pages: list[Page] = []
        self._open = _OpenPage(PAGE_BYTES - taken)

    def add(self, prompt: PromptData) -> list[Placed]:
        """Put a prompt on the page that is open, or on a new one where it does not fit any more.

        All its sequences go on one page, unless they are too large for one: then on as many as they need.
        """
        if self._open.add(prompt):
            return self._placed(prompt.sequences)
        self._close()
        if self._open.add(prompt):
            return self._placed(prompt.sequences)
        found: list[Placed] = []
        for one in prompt.sequences:
            part = prompt._replace(sequences=[one])
            if not self._open.add(part):
                self._close()
                self._open.add(part, force=True)
            found += self._placed([one])
        return found

    def finish(self) -> list[Page]:
        """All pages; one without sequences where there was no prompt."""
        if not self._open.is_empty or not self.pages:
            self._close(last=True)
        return self.pages

    def _placed(self, sequences: Iterable[SequenceData]) -> list[Placed]:
        return [Placed(len(self.pages) + 1, one) for one in sequences]

    def _close(self, last: bool = False) -> None:
        if not self._open.is_empty or last:
            number = len(self.pages) + 1
            path = self.folder / f"page-{number}.json"
            self.pages.append(self._open.write(path, number))
        self._open = _OpenPage(PAGE_BYTES - self.taken_later)


def island_json(value: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element, or a line of JavaScript."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for mark, escaped in _ESCAPED.items():
        text = text.replace(mark, escaped)
    return text


@dataclass
class _OpenPage:
    limit: int
    vocabulary: _Vocabulary = field(default_factory=lambda: _Vocabulary())
    prompts: list[str] = field(default_factory=list)
    sequences: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    n_bytes: int = 0
    columns: set[tuple[str, str]] = field(default_factory=set)  # (granularity, statistic) that there are

    @property
    def is_empty(self) -> bool:
        return not self.sequences

    def add(self, prompt: PromptData, *, force: bool = False) -> bool:
        """Take a prompt, if it fits."""
        if not self.is_empty and len(self.sequences) + len(prompt.sequences) > PAGE_SEQUENCES:
            return False
        before = len(self.vocabulary)
        texts = [island_json(self._sequence(prompt, one)) for one in prompt.sequences]
        first = len(self.sequences)
        head = {
            "run": prompt.run,
            "id": prompt.prompt_id,
            "question": prompt.question,
            "reference": prompt.reference,
            "sequences": list(range(first, first + len(texts))),
        }
        text = island_json(head)
        size = sum(len(one.encode()) + 1 for one in (*texts, text)) + self.vocabulary.n_bytes_from(before)
        if self.n_bytes + size > self.limit and not force:
            self.vocabulary.cut(before)
            return False
        self.prompts.append(text)
        self.sequences += texts
        self.ids.append(prompt.prompt_id)
        self.n_bytes += size
        self.columns.update(chain.from_iterable(_columns(one.fields) for one in prompt.sequences))
        return True

    def write(self, path: Path, number: int) -> Page:
        """The data as the last members of the island's object."""
        text = (
            f'"vocabulary":{self.vocabulary.json()},"prompts":[{",".join(self.prompts)}],'
            f'"sequences":[{",".join(self.sequences)}]'
        )
        path.write_bytes(text.encode("utf-8", "replace"))
        first, last = (self.ids[0], self.ids[-1]) if self.ids else ("", "")
        return Page(number, path, first, last, len(self.sequences), self.n_bytes, self._granularities())

    def _sequence(self, prompt: PromptData, one: SequenceData) -> dict[str, Any]:
        place = self.vocabulary.places(prompt.run, prompt.vocabulary, one)
        tokens = {
            "v": [place[i] for i in one.token_ids.tolist()],
            **one.fields["tokens"],
            "alternatives": _alternatives(one, place),
        }
        return {"prompt": len(self.prompts), **one.fields, "tokens": tokens}

    def _granularities(self) -> list[dict[str, Any]]:
        of_tokens = [*TOKEN_COLUMNS, *(name for name in OPTIONAL_COLUMNS if ("token", name) in self.columns)]
        present = [name for name in SPAN_KINDS if (name, "") in self.columns]
        return [
            {"name": "token", "metrics": of_tokens},
            *({"name": name, "metrics": list(SPAN_KINDS[name])} for name in present),
        ]


def _columns(fields: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """What a sequence has: granularities, and columns of its tokens."""
    yield from (("token", name) for name in OPTIONAL_COLUMNS if name in fields["tokens"])
    yield from ((name, "") for name in fields["spans"])


def _alternatives(one: SequenceData, place: Mapping[int, int]) -> list[list[float]]:
    rows = zip(one.alternative_ids.tolist(), one.alternative_logprobs.tolist(), strict=True)
    return [
        [
            value
            for token_id, logprob in zip(ids, logprobs, strict=True)
            if token_id >= 0
            for value in (place[token_id], logprob)
        ]
        for ids, logprobs in rows
    ]


class _Vocabulary:
    """The tokens of a page, each once, in the order in which they came."""

    def __init__(self) -> None:
        self._entries: dict[VocabularyEntry, int] = {}
        self._sizes: list[int] = []
        self._places: dict[int, dict[int, int]] = {}  # by run, of a token id

    def __len__(self) -> int:
        return len(self._entries)

    def places(
        self, run: int, vocabulary: Mapping[int, VocabularyEntry], one: SequenceData
    ) -> Mapping[int, int]:
        """Where each token id of a sequence stands, and others; new ones are added."""
        known = self._places.setdefault(run, {})
        # In the order of the sequence, so that the same run gives the same page.
        ids = np.concatenate([one.token_ids, one.alternative_ids.ravel()])
        for token_id in dict.fromkeys(ids.tolist()):
            if token_id >= 0 and token_id not in known:
                known[token_id] = self._place(token_id, vocabulary)
        return known

    def n_bytes_from(self, first: int) -> int:
        """Bytes that the entries from here on take."""
        return sum(self._sizes[first:])

    def cut(self, length: int) -> None:
        """Forget the entries from here on."""
        self._entries = dict(list(self._entries.items())[:length])
        del self._sizes[length:]
        for known in self._places.values():
            for token_id in [token_id for token_id, place in known.items() if place >= length]:
                del known[token_id]

    def json(self) -> str:
        texts = [entry.literal for entry in self._entries]
        return island_json({"texts": texts, "bytes": [_hex(entry) for entry in self._entries]})

    def _place(self, token_id: int, vocabulary: Mapping[int, VocabularyEntry]) -> int:
        if token_id not in vocabulary:
            raise DataFault(f"token id {token_id} is not in the run's vocabulary: run toolkit validate")
        entry = vocabulary[token_id]
        if entry not in self._entries:
            self._entries[entry] = len(self._sizes)
            self._sizes.append(_size(entry))
        return self._entries[entry]


@cache
def _size(entry: VocabularyEntry) -> int:
    """Bytes that an entry takes."""
    return len(island_json([entry.literal, _hex(entry)]).encode("utf-8", "replace"))


def _hex(entry: VocabularyEntry) -> str | None:
    return None if entry.bytes is None else entry.bytes.hex()
