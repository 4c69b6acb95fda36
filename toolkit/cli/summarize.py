"""`toolkit summarize RUN...`: the confidence table of runs."""

from __future__ import annotations

import argparse

from toolkit.cli.arguments import add_runs, add_selection, one_of, positive_int
from toolkit.cli.output import add_output, chosen_format, write_frame
from toolkit.errors import ToolkitError

GRAINS = ("token", "segment", "sequence", "prompt")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    parser.add_argument(
        "--by",
        type=one_of(GRAINS),
        default="sequence",
        metavar="GRAIN",
        help=f"{', '.join(GRAINS)} (sequence)",
    )
    parser.add_argument(
        "--metrics",
        metavar="NAMES",
        help="statistics, comma-separated, for example mean_logprob,min_k_percent(0.1)",
    )
    parser.add_argument("--sort", metavar="METRIC", help="sort by this statistic, the least confident first")
    parser.add_argument("--limit", type=positive_int, metavar="N", help="print the first N rows only")
    parser.add_argument(
        "--no-end", action="store_true", help="leave the end token out of sequences and prompts"
    )
    add_selection(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, or write it to a file."""
    chosen = chosen_format(args.format, args.output)
    from toolkit.selection import Selection
    from toolkit.store import open_runs
    from toolkit.summary import DEFAULT_METRICS, least_confident_first, split_metrics, summaries_df

    metrics = split_metrics(args.metrics) if args.metrics is not None else [*DEFAULT_METRICS[args.by]]
    if not metrics:
        raise ToolkitError("--metrics: no name is given; write mean_logprob, for example")
    if args.sort is not None and args.sort not in metrics:
        metrics.append(args.sort)
    selection = Selection(args.prompts, args.kinds, args.samples)
    frame = summaries_df(open_runs(args.runs), args.by, metrics, selection, include_end=not args.no_end)
    if args.sort is not None:
        frame = least_confident_first(frame, args.by, args.sort)
    write_frame(frame.head(args.limit) if args.limit is not None else frame, chosen, args.output)
    return 0
