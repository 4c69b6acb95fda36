"""`toolkit p-true RUN`: a model asked whether a run's answers are true, kept beside the run."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from toolkit.characters import count, visible
from toolkit.cli.arguments import add_json, add_runs, one_of
from toolkit.cli.collecting import stop_on_sigterm
from toolkit.cli.output import json_rows, json_text, text_table

if TYPE_CHECKING:
    from toolkit.calls.truths import Told


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `toolkit p-true`."""
    add_runs(parser, several=False)
    parser.add_argument(
        "--model", metavar="M", help="who is asked: folder, .gguf file or repository; the default model"
    )
    parser.add_argument(
        "--kind",
        metavar="KIND",
        action="append",
        dest="kinds",
        type=one_of(("sample", "greedy", "beam", "scored")),
        help="ask about answers of this kind; repeatable (greedy where the run has it, else its samples)",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="ask about everything again, and forget what was said before"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what was said, by kind; 1 where it was interrupted."""
    from toolkit.calls.truths import keep_truths, truths_summary
    from toolkit.collect.progress import Progress
    from toolkit.models import load
    from toolkit.store import open_run

    (path,) = args.runs
    opened = open_run(path)
    stop_on_sigterm()
    told = keep_truths(
        opened,
        load(args.model),
        kinds=args.kinds,
        overwrite=args.overwrite,
        progress=lambda total, done: Progress(total, done=done, label="p-true"),
    )
    summary = truths_summary(told.frame)
    if args.json:
        print(json_text(json_rows(summary)))
    else:
        print(text_table(list(summary.columns), list(summary.itertuples(index=False, name=None))), end="")
    print(f"toolkit p-true: {visible(str(path))}: {_said(told)}", file=sys.stderr)
    return 1 if told.interrupted else 0


def _said(told: Told) -> str:
    parts = [f"asked about {count(told.n_new, 'answer')}"]
    if told.n_before:
        parts.append(f"{told.n_before:,} had been asked about")
    if told.n_without_answer:
        parts.append(f"{told.n_without_answer:,} without an answer")
    if told.interrupted:
        parts.append("interrupted; the same command goes on from here")
    return "; ".join(parts)
