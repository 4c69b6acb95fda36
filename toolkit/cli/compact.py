"""`toolkit compact RUN...`: merge a run's many small files into few."""

from __future__ import annotations

import argparse

from toolkit.characters import count, visible
from toolkit.cli.arguments import add_runs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)


def run(args: argparse.Namespace) -> int:
    """Compact each run and say what came of it."""
    from toolkit.store.compact import compact

    for path in args.runs:
        done = compact(path)
        replaced = count(done.n_files_kept, "replaced file")
        kept = f"; until nobody reads the run, there are {replaced} more" if done.n_files_kept else ""
        print(
            f"{visible(str(path))}: {count(done.n_before, 'part')} before, {done.n_after:,} after; "
            f"{count(done.n_files_before, 'file')} before, {done.n_files_after:,} after{kept}"
        )
    return 0
