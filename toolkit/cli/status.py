"""`toolkit status RUN...`: how far runs have come, and how large they are."""

from __future__ import annotations

import argparse
import dataclasses
from typing import TYPE_CHECKING

from toolkit.characters import count, visible
from toolkit.cli.arguments import add_json, add_runs
from toolkit.cli.output import json_text

if TYPE_CHECKING:
    from toolkit.collect.status import RunStatus


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the status of each run; with `--json`, a list of objects."""
    from toolkit.collect.status import run_status
    from toolkit.store import open_run

    found = [run_status(open_run(path)) for path in args.runs]
    if args.json:
        print(json_text([dataclasses.asdict(status) for status in found]))
    else:
        print("\n\n".join(map(describe, found)))
    return 0


def describe(status: RunStatus) -> str:
    """A run's status in lines for people."""
    state = {True: "complete", False: "not complete", None: "planned is not known"}[status.complete]
    rows = {
        "model": status.model or "-",
        **{kind: _progress(status, kind) for kind in sorted(status.planned.keys() | status.done.keys())},
        "prompts": f"{status.prompts:,}",
        "tokens": f"{status.tokens:,}",
        "sessions": f"{status.sessions}" + (f", shards {' '.join(status.shards)}" if status.shards else ""),
        "parts": f"{status.parts:,}, {size(status.bytes)} in all",
        "last commit": status.last_commit or "-",
    }
    head = f"{visible(status.path)}: {state}{', a process collects now' if status.collecting else ''}"
    return "\n".join([head, *(f"  {name:<12}{visible(value)}" for name, value in rows.items())])


def _progress(status: RunStatus, kind: str) -> str:
    done = status.done.get(kind, 0)
    planned = status.planned.get(kind)
    return count(done, "sequence") if planned is None else f"{done:,} of {count(planned, 'sequence')}"


def size(n_bytes: int) -> str:
    """Bytes for people, in powers of 1,000."""
    value, unit = float(n_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if value < 1000:
            break
        value, unit = value / 1000, larger
    return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
