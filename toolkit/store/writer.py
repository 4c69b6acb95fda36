"""The one way rows get into a run."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import pyarrow as pa

from toolkit.errors import ToolkitError
from toolkit.records import PromptRecord, SequenceRecord
from toolkit.store.begin import Begun, begin, now
from toolkit.store.blocks import Block
from toolkit.store.commit import commit_part
from toolkit.store.keys import Key, key_tuples
from toolkit.store.layout import committed_parts, part_name, part_path
from toolkit.store.lock import Shard, guard
from toolkit.store.manifest import Manifest, read_manifest, write_manifest, write_session
from toolkit.store.parquet import read_files, read_rows
from toolkit.store.rows import (
    PromptTokens,
    prompt_block,
    prompt_token_block,
    sequence_block,
    vocabulary_block,
)
from toolkit.store.schemas import TABLES


class RunWriter:
    """Writes to a run, alone or as one shard of several; make one with `create`, `open` or `resume`.

    Attributes
    ----------
    path : Path
        The run.
    keys : set of (prompt_id, kind, sample_index)
        Sequences that are stored.
    prompt_ids : set of str
        Prompts that are stored.
    with_prompt_tokens : set of str
        Prompts whose own tokens are stored.
    damage : list of Damage
        Parts that could not be read and were moved aside when the run was opened.

    Use it as a context manager: leaving ends the session and gives the lock back, also after an error.
    Not safe for several threads at once.
    """

    def __init__(self, path: Path, begun: Begun) -> None:
        self.path = path
        self.damage = begun.damage
        self._lock = begun.lock
        self._open = True
        self._n_parts = 0
        self._counts: Counter[str] = Counter()
        self.keys: set[Key] = set(key_tuples(_stored(path, "sequences", TABLES["sequences"].key)))
        self.prompt_ids = _stored_set(path, "prompts", "prompt_id")
        self.with_prompt_tokens = _stored_set(path, "prompt_tokens", "prompt_id")
        self._named = _stored_set(path, "vocabulary", "token_id")
        manifest = read_manifest(path)
        self._optional = manifest.tables
        self._unnamed = _ids_in_use(path, manifest) - self._named
        n_lost = max(0, manifest.n_expected - len(self.keys))
        self._session = dataclasses.replace(begun.session, n_lost=n_lost)
        write_session(path, self._session)

    @classmethod
    def create(
        cls, path: str | Path, manifest: Manifest, *, shard: Shard | None = None, overwrite: bool = False
    ) -> RunWriter:
        """Begin a new run at `path`.

        Parameters
        ----------
        path : str or Path
            A folder that does not exist or is empty.
        manifest : Manifest
            Its command, config, versions and prompt_file_hash describe the session too.
        shard : Shard, optional
        overwrite : bool
            Remove the run that is there first; files that are no part of a run stay.

        Raises
        ------
        ToolkitError
            The path holds something else, or another process writes there.
        DataFault
            It cannot be written to.
        """
        return cls._begin(path, manifest, shard, create=True, overwrite=overwrite)

    @classmethod
    def open(cls, path: str | Path, manifest: Manifest, *, shard: Shard | None = None) -> RunWriter:
        """Go on with the run at `path`, whose content settings must be those of `manifest`.

        What dead writers left is removed, and parts that cannot be read are moved aside (`damage`).

        Raises
        ------
        ToolkitError
            There is no run, it was collected with other settings, or another process writes there.
        """
        return cls._begin(path, manifest, shard, go_on=True)

    @classmethod
    def resume(cls, path: str | Path, manifest: Manifest, *, shard: Shard | None = None) -> RunWriter:
        """`open` if there is a run at `path`, else `create`; several shards may do so at once."""
        return cls._begin(path, manifest, shard, create=True, go_on=True)

    @classmethod
    def _begin(
        cls,
        path: str | Path,
        manifest: Manifest,
        shard: Shard | None,
        *,
        create: bool = False,
        go_on: bool = False,
        overwrite: bool = False,
    ) -> RunWriter:
        begun = begin(Path(path), manifest, shard, create=create, go_on=go_on, overwrite=overwrite)
        try:
            return cls(Path(path), begun)
        except BaseException:
            begun.lock.release()
            raise

    @property
    def session_id(self) -> str:
        return self._session.id

    @property
    def counts(self) -> dict[str, int]:
        """Rows that this writer committed: prompts, sequences and tokens."""
        return dict(self._counts)

    def add_prompts(self, records: Iterable[PromptRecord]) -> int:
        """Store the prompts that are not stored yet, and return how many were not.

        Raises
        ------
        ToolkitError
            A prompt has text that is no Unicode (a lone surrogate).
        """
        new = {r.prompt_id: r for r in records if r.prompt_id not in self.prompt_ids}
        if new:
            self._commit("prompts", _prompt_rows([new[prompt_id] for prompt_id in sorted(new)]))
            self.prompt_ids.update(new)
            self._counts["prompts"] += len(new)
        return len(new)

    def add_prompt_tokens(self, prompts: Iterable[PromptTokens]) -> int:
        """Store the tokens of the prompts whose tokens are not stored yet, and return how many were not."""
        new = {p.prompt_id: p for p in prompts if p.prompt_id not in self.with_prompt_tokens}
        if new:
            self._commit("prompt_tokens", prompt_token_block([new[prompt_id] for prompt_id in sorted(new)]))
            self.with_prompt_tokens.update(new)
        return len(new)

    def commit(
        self, records: Sequence[SequenceRecord], vocabulary: Mapping[int, tuple[bytes | None, str, bool]]
    ) -> str | None:
        """Store sequences: all of them are on disk when this returns, and none if it raises.

        Parameters
        ----------
        records : sequence of SequenceRecord
            In any order. Their prompts are stored already, and they are not.
        vocabulary : mapping of int to (bytes, literal, is_special)
            Asked for the ids that occur and are not stored yet, alternatives and watched ones among them.

        Returns
        -------
        str or None
            Name of the part; None without records.

        Raises
        ------
        ValueError
            A sequence is stored already or given twice, its prompt is not stored, its fields do not fit
            together, a value is NaN where null has no meaning, or tokens are watched and the manifest does not
            name the table.
        DataFault
            The disk is full, read-only or broken; what was committed before is kept.
        """
        if not records:
            return None
        ordered = sorted(records, key=lambda record: record.key)
        self._check_new(ordered)
        block = sequence_block(ordered, self._optional)
        self._add_vocabulary(_ids_of(ordered), vocabulary)
        part = self._commit("sequences", block)
        self.keys.update(record.key for record in ordered)
        self._counts["sequences"] += len(ordered)
        self._counts["tokens"] += block.rows["tokens"].num_rows
        return part

    def restore_vocabulary(self, vocabulary: Mapping[int, tuple[bytes | None, str, bool]]) -> None:
        """Store the ids that occur in the run and that its vocabulary lacks: a damaged one was moved aside."""
        self._add_vocabulary(set(), vocabulary)

    def close(self) -> None:
        """End the session: write its end and counts, into the manifest too, and give the lock back."""
        if not self._open:
            return
        self._open = False
        try:
            write_session(self.path, dataclasses.replace(self._session, ended=now(), counts=self.counts))
            with guard(self.path):
                write_manifest(self.path, read_manifest(self.path))
        finally:
            self._lock.release()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        else:
            with suppress(ToolkitError):  # the first error is the one to be told
                self.close()

    def _commit(self, group: str, block: Block) -> str:
        if not self._open:
            raise ValueError("the writer is closed")
        self._n_parts += 1
        part = part_name(self.session_id, self._n_parts)
        commit_part(self.path, group, part, block)
        return part

    def _check_new(self, ordered: Sequence[SequenceRecord]) -> None:
        previous = None
        for record in ordered:
            if record.key == previous or record.key in self.keys:
                raise ValueError(f"sequence {record.key} is stored already, or is given twice")
            if record.prompt_id not in self.prompt_ids:
                raise ValueError(f"prompt {record.prompt_id!r} is not stored: add_prompts comes first")
            previous = record.key

    def _add_vocabulary(
        self, ids: set[int], vocabulary: Mapping[int, tuple[bytes | None, str, bool]]
    ) -> None:
        new = sorted((ids | self._unnamed) - self._named)
        if new:
            self._commit("vocabulary", vocabulary_block({token_id: vocabulary[token_id] for token_id in new}))
            self._named.update(new)
            self._unnamed = set()


def _ids_of(records: Iterable[SequenceRecord]) -> set[int]:
    arrays = [record.token_ids for record in records]
    for record in records:
        finite = np.isfinite(record.statistics.alternative_logprobs)
        arrays.append(record.statistics.alternative_ids[finite])
        arrays.append(record.statistics.watched_ids[:1].ravel())
    return set(np.unique(np.concatenate(arrays)).tolist())


def _stored(path: Path, table: str, columns: Sequence[str]) -> pa.Table:
    """Columns of all parts of a table that is a group's own."""
    parts = committed_parts(path, table)
    return read_files([part_path(path, table, part) for part in parts], table, columns)


def _stored_set(path: Path, table: str, column: str) -> set[Any]:
    return set(_stored(path, table, [column])[column].to_pylist())


def _ids_in_use(path: Path, manifest: Manifest) -> set[int]:
    ids: set[int] = set()
    with_ids = [table for table in manifest.tables_of("sequences") if "token_id" in TABLES[table].names]
    for part in committed_parts(path, "sequences"):
        for table in with_ids:
            rows = read_rows(part_path(path, table, part), table, ["token_id"])
            ids.update(rows["token_id"].unique().to_pylist())
    return ids


def _prompt_rows(records: Sequence[PromptRecord]) -> Block:
    try:
        return prompt_block(records)
    except UnicodeEncodeError as error:
        for record in records if len(records) > 1 else ():
            _prompt_rows([record])
        raise ToolkitError(
            f"prompt {records[0].prompt_id!r} holds text that is no Unicode (a lone surrogate): correct it"
        ) from error
