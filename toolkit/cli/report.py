"""`toolkit report RUN... -o report.html`: runs as HTML pages to read, look at and pass on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from toolkit.characters import visible
from toolkit.cli.arguments import add_runs, add_selection
from toolkit.cli.engines import add_engine, make_engine
from toolkit.cli.evaluating import add_bootstrap, add_comparison, add_grader
from toolkit.cli.output import chosen_format
from toolkit.errors import ToolkitError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        required=True,
        metavar="FILE",
        help="the first page; over 500 sequences or 5 MB there are more beside it, report-2.html and so on",
    )
    parser.add_argument("--title", metavar="TEXT", help="of the report (the runs' names)")
    add_grader(parser)
    add_comparison(parser)
    add_bootstrap(parser)
    parser.add_argument("--no-figures", action="store_true", help="leave the figures out")
    add_selection(parser)
    add_engine(parser)


def run(args: argparse.Namespace) -> int:
    """Write the pages, and print their paths."""
    chosen_format("table", args.output)
    if args.output.suffix.lower() not in (".html", ".htm"):
        raise ToolkitError(
            f"--output: {str(args.output)!r:.80} is no HTML file; give a name that ends in .html"
        )
    from toolkit.aggregation.agreement import Comparison
    from toolkit.aggregation.selection import Selection
    from toolkit.report.writing import Settings, write_report

    settings = Settings(
        title=args.title,
        selection=Selection(args.prompts, args.kinds, args.samples),
        grader=args.grader,
        figures=not args.no_figures,
        bootstrap=args.bootstrap,
        seed=args.seed,
        comparison=Comparison(args.equivalence, args.similarity),
    )
    with make_engine(args) as engine:
        report = write_report(args.runs, args.output, settings, engine)
    for note in report.notes:
        print(f"toolkit report: {visible(note)}", file=sys.stderr)
    paths = map(str, report.paths)
    print(*(map(visible, paths) if sys.stdout.isatty() else paths), sep="\n")
    return 0
