"""`toolkit summarize RUN...`: the confidence table of runs; `--list`: the statistics there are."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.arguments import UsageError, add_selection, one_of, positive_int
from toolkit.cli.evaluating import add_comparison
from toolkit.cli.output import add_output, chosen_format, write_frame
from toolkit.cli.spans import add_by
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    import pandas as pd

WEIGHTS = ("whole", "bytes")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("runs", metavar="RUN", nargs="*", type=Path, help="folder of a run")
    parser.add_argument("--list", action="store_true", help="list the statistics there are, and read no run")
    add_by(parser, "sequence")
    parser.add_argument(
        "--metrics",
        metavar="NAMES",
        help="statistics, comma-separated, for example mean_logprob,min_k_percent(0.1); by prompt also those of "
        "samples, for example semantic_entropy(farquhar)",
    )
    parser.add_argument("--sort", metavar="METRIC", help="sort by this statistic, the least confident first")
    parser.add_argument("--limit", type=positive_int, metavar="N", help="print the first N rows only")
    parser.add_argument(
        "--no-end", action="store_true", help="leave the end token out of tokens, sequences and prompts"
    )
    parser.add_argument(
        "--weights",
        type=one_of(WEIGHTS),
        default="whole",
        metavar="HOW",
        help="a token at a span's edge counts whole, or by the share of its bytes that is in it (whole)",
    )
    add_comparison(parser)
    add_selection(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, or write it to a file."""
    chosen = chosen_format(args.format, args.output)
    if not args.list and not args.runs:
        raise UsageError("toolkit summarize", "the following arguments are required: RUN")
    frame = _statistics() if args.list else _summary(args)
    if frame.empty and not args.list:
        print(f"toolkit summarize: nothing is found by {args.by.name} in what is selected", file=sys.stderr)
    write_frame(frame.head(args.limit) if args.limit is not None else frame, chosen, args.output)
    return 0


def _summary(args: argparse.Namespace) -> pd.DataFrame:
    from toolkit.aggregation.agreement import Comparison
    from toolkit.aggregation.selection import Selection
    from toolkit.aggregation.summary import (
        default_metrics,
        least_confident_first,
        split_metrics,
        summaries_df,
    )
    from toolkit.store import open_runs

    metrics = split_metrics(args.metrics) if args.metrics is not None else [*default_metrics(args.by)]
    if not metrics:
        raise ToolkitError("--metrics: no name is given; write mean_logprob, for example")
    if args.sort is not None and args.sort not in metrics:
        metrics.append(args.sort)
    frame = summaries_df(
        open_runs(args.runs),
        args.by,
        metrics,
        Selection(args.prompts, args.kinds, args.samples),
        include_end=not args.no_end,
        weights=args.weights,
        comparison=Comparison(args.equivalence, args.similarity),
    )
    return frame if args.sort is None else least_confident_first(frame, args.by, args.sort)


def _statistics() -> pd.DataFrame:
    import pandas as pd

    from toolkit.stats.reference import entries

    return pd.DataFrame([entry._asdict() for entry in entries()])
