"""`toolkit export RUN...`: a run as CSV, as JSON Lines, or in the shape of the OpenAI API's responses."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.characters import quoted
from toolkit.cli.arguments import add_runs, add_selection, one_of
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.store import Runs

FORMATS = ("csv", "jsonl", "openai")
ENDINGS = {".csv": "csv", ".jsonl": "jsonl", ".ndjson": "jsonl"}
TABLES = (
    "tokens",
    "sequences",
    "segments",
    "alternatives",
    "watched",
    "prompts",
    "prompt_tokens",
    "grades",
    "similarities",
    "choices",
    "truths",
    "vocabulary",
)
SHAPES = ("chat", "completion")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    parser.add_argument(
        "--format",
        type=one_of(FORMATS),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; by default what the ending of --output says (.csv, .jsonl)",
    )
    parser.add_argument(
        "--table",
        type=one_of(TABLES),
        metavar="TABLE",
        help=f"the rows of a table: {', '.join(TABLES)} (csv: tokens; jsonl: whole sequences)",
    )
    parser.add_argument("--columns", metavar="NAMES", help="columns of the table, comma-separated")
    parser.add_argument(
        "--shape",
        type=one_of(SHAPES),
        metavar="SHAPE",
        help="of openai: chat, or completion for the older one (chat)",
    )
    parser.add_argument("--no-end", action="store_true", help="of openai: do not list the end token")
    add_selection(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to this file, not to stdout")


def run(args: argparse.Namespace) -> int:
    """Write the runs out."""
    chosen = _format(args)
    _check(args, chosen)
    from toolkit.exporting.output import check_output, write_export
    from toolkit.store import open_runs

    if args.output is not None:
        check_output(args.output)
    write_export(_text(open_runs(args.runs), args, chosen), args.output)
    return 0


def _format(args: argparse.Namespace) -> str:
    ending = args.output.suffix.lower() if args.output is not None else ""
    chosen = args.format or ENDINGS.get(ending)
    if chosen is None:
        given = f"the ending {quoted(ending)} says none" if ending else "none is given"
        raise ToolkitError(f"--format: {given}; use one of {', '.join(FORMATS)}")
    if ending == ".csv" and chosen != "csv":
        name = quoted(args.output.name)
        raise ToolkitError(f"--output: {name} is not where {chosen} goes; use .jsonl, or --format csv")
    return str(chosen)


def _check(args: argparse.Namespace, chosen: str) -> None:
    """Refuse what the format has no use for."""
    of_tables = chosen == "csv" or args.table is not None
    if chosen == "openai" and args.table is not None:
        raise ToolkitError("--table: openai has no tables; use --format csv or jsonl")
    if args.columns is not None and not of_tables:
        raise ToolkitError("--columns: only a table has columns; name one with --table")
    if args.shape is not None and chosen != "openai":
        raise ToolkitError(f"--shape: {chosen} has none; use --format openai")
    if args.no_end and chosen != "openai":
        raise ToolkitError(f"--no-end: {chosen} has every token; use --format openai, or leave it out")


def _text(runs: Runs, args: argparse.Namespace, chosen: str) -> Iterator[bytes]:
    from toolkit.aggregation.selection import Selection
    from toolkit.exporting import response_text, sequence_text, table_text

    selection = Selection(args.prompts, args.kinds, args.samples)
    if chosen == "openai":
        return response_text(runs, args.shape or "chat", selection, include_end=not args.no_end)
    if chosen == "jsonl" and args.table is None:
        return sequence_text(runs, selection)
    columns = None if args.columns is None else _names(args.columns)
    return table_text(runs, args.table or "tokens", "csv" if chosen == "csv" else "jsonl", columns, selection)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
