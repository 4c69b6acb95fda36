"""`toolkit summarize RUN...`: the confidence table of runs; `--list`: the statistics there are."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.cli.arguments import UsageError, add_selection, one_of, positive_int
from toolkit.cli.engines import add_engine, make_engine
from toolkit.cli.evaluating import add_comparison
from toolkit.cli.output import add_output, chosen_format, write_frame
from toolkit.cli.spans import add_by
from toolkit.cli.streams import write_tables
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

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
    add_engine(parser)
    add_output(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, or write it to a file."""
    chosen = chosen_format(args.format, args.output)
    if args.list:
        write_frame(_statistics()[: args.limit], chosen, args.output)
        return 0
    if not args.runs:
        raise UsageError("toolkit summarize", "the following arguments are required: RUN")
    if not _summarize(args, chosen):
        print(f"toolkit summarize: nothing is found by {args.by.name} in what is selected", file=sys.stderr)
    return 0


def _summarize(args: argparse.Namespace, chosen: str) -> int:
    """Write the summary, a row group of the runs after the other where nothing needs all of it; count its rows."""
    from toolkit.aggregation.agreement import Comparison
    from toolkit.aggregation.selection import Selection
    from toolkit.aggregation.summary import is_of_samples, iter_summaries, summaries_df
    from toolkit.store import open_runs

    metrics, comparison = _metrics(args), Comparison(args.equivalence, args.similarity)
    with make_engine(args) as engine:
        what = (
            open_runs(args.runs, engine),
            args.by,
            metrics,
            Selection(args.prompts, args.kinds, args.samples),
        )
        how = {"include_end": not args.no_end, "weights": args.weights}
        if chosen != "table" and args.sort is None and not is_of_samples(args.by, metrics):
            tables = iter_summaries(*what, **how)
            limited = tables if args.limit is None else _first(tables, args.limit)
            return write_tables(limited, chosen, args.output)
        frame = summaries_df(*what, **how, comparison=comparison)
    write_frame(_sorted(frame, args)[: args.limit], chosen, args.output)
    return len(frame)


def _metrics(args: argparse.Namespace) -> list[str]:
    from toolkit.aggregation.summary import default_metrics, split_metrics

    metrics = split_metrics(args.metrics) if args.metrics is not None else [*default_metrics(args.by)]
    if not metrics:
        raise ToolkitError("--metrics: no name is given; write mean_logprob, for example")
    return metrics if args.sort in (None, *metrics) else [*metrics, args.sort]


def _sorted(frame: pd.DataFrame, args: argparse.Namespace) -> pd.DataFrame:
    from toolkit.aggregation.summary import least_confident_first

    return frame if args.sort is None else least_confident_first(frame, args.by, args.sort)


def _first(tables: Iterator[pa.Table], limit: int) -> Iterator[pa.Table]:
    """The first rows of tables, of which no more are made than it takes."""
    for table in tables:
        yield table.slice(0, limit)
        limit -= table.num_rows
        if limit <= 0:
            return


def _statistics() -> pd.DataFrame:
    import pandas as pd

    from toolkit.stats.reference import entries

    return pd.DataFrame([entry._asdict() for entry in entries()])
