"""How far a run has come: what is stored, against what its latest session was asked for."""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from toolkit.store.lock import live_writers

if TYPE_CHECKING:
    from toolkit.store import Manifest, Run


@dataclass(frozen=True)
class RunStatus:
    """Progress and size of a run."""

    path: str
    model: str | None
    collecting: bool  # a process writes to it now
    complete: bool | None  # every sequence that the latest session wanted is stored; None: it does not say
    planned: dict[str, int]  # sequences that it wanted, by kind
    done: dict[str, int]  # sequences stored, by kind
    prompts: int
    tokens: int
    sessions: int
    shards: list[str]  # "i/n", those that collected so far
    parts: int  # files of sequences
    bytes: int  # of all files
    last_commit: str | None  # ISO 8601, UTC


def run_status(run: Run) -> RunStatus:
    """Progress and size of a run, read from its manifest and its key columns.

    Planned is what the session that started last asked for: prompts of its file, times the sequences of each.
    """
    done, tokens = _stored(run)
    planned = planned_sequences(run.manifest)
    return RunStatus(
        path=str(run.path),
        model=run.manifest.model.get("name"),
        collecting=bool(live_writers(run.path)),
        complete=all(done.get(kind, 0) >= n for kind, n in planned.items()) if planned else None,
        planned=planned,
        done=done,
        prompts=sum(rows.num_rows for rows in run.iter_row_groups("prompts", "prompt_id")),
        tokens=tokens,
        sessions=len(run.manifest.sessions),
        shards=sorted({session.shard for session in run.manifest.sessions if session.shard}),
        parts=len(run.parts()),
        bytes=_size(run.path),
        last_commit=_last_commit(run),
    )


def planned_sequences(manifest: Manifest) -> dict[str, int]:
    """Sequences of each kind that the latest session asked for; empty where the manifest does not say."""
    config: Any = manifest.config if manifest.current is None else manifest.current.config
    if isinstance(config.get("n_scored"), int):
        return {"scored": config["n_scored"]}
    prompts, samples = config.get("n_prompts"), config.get("num_samples")
    if not isinstance(prompts, int) or not isinstance(samples, int):
        return {}
    each = {"greedy": int(bool(config.get("greedy"))), "sample": samples}
    return {kind: prompts * count for kind, count in each.items() if count}


def _stored(run: Run) -> tuple[dict[str, int], int]:
    kinds: Counter[str] = Counter()
    tokens = 0
    for rows in run.iter_row_groups("sequences", ["kind", "n_tokens"]):
        kinds.update(rows["kind"].to_pylist())
        tokens += pc.sum(rows["n_tokens"]).as_py() or 0
    return dict(sorted(kinds.items())), tokens


def _size(path: Path) -> int:
    return sum(
        os.lstat(os.path.join(folder, name)).st_size for folder, _, names in os.walk(path) for name in names
    )


def _last_commit(run: Run) -> str | None:
    times = [run.part_path("sequences", part).stat().st_mtime for part in run.parts()]
    return datetime.fromtimestamp(max(times), UTC).isoformat(timespec="seconds") if times else None
