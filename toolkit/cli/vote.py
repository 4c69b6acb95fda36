"""`toolkit vote RUN...`: accuracy of votes against the number of samples, or what stopping early would save."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

import toolkit.cli.arguments as types
from toolkit.characters import count, quoted, visible
from toolkit.cli.arguments import add_json, add_runs
from toolkit.cli.evaluating import add_bootstrap, add_comparison, add_grader, add_over, take_json
from toolkit.cli.output import add_output, chosen_format, write_frame
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.judging.voting import Election
    from toolkit.store import Run


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    add_grader(parser)
    add_over(parser)
    parser.add_argument("--sizes", metavar="K,K", help="numbers of samples, as 1,4,16 (1, 2, 4, ... and all)")
    parser.add_argument(
        "--confidence",
        default="geometric_mean_prob",
        metavar="NAME",
        help="the estimator that weighs a sample in weighted and filtered votes (geometric_mean_prob)",
    )
    parser.add_argument(
        "--keep",
        type=types.positive_probability,
        default=0.1,
        metavar="X",
        help="share of the samples that a filtered vote keeps (0.1)",
    )
    parser.add_argument(
        "--borda-p",
        type=types.non_negative_float,
        default=0.3,
        metavar="P",
        help="exponent of the Borda vote (0.3)",
    )
    add_comparison(parser, similarity=False)
    parser.add_argument(
        "--early-stopping",
        action="store_true",
        help="replay DeepConf's online rule: tokens saved against accuracy",
    )
    parser.add_argument(
        "--warmup",
        type=types.positive_int,
        default=16,
        metavar="N",
        help="first samples, drawn whole, that set the threshold (16)",
    )
    parser.add_argument(
        "--window",
        type=types.positive_int,
        default=2048,
        metavar="N",
        help="tokens in a window; short answers never fill the default (2048)",
    )
    parser.add_argument(
        "--percentile",
        type=types.number(0, 100),
        action="append",
        metavar="X",
        help="of the first samples' lowest windows, where a later one is cut; repeatable (10 and 90)",
    )
    add_bootstrap(parser)
    add_output(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print the table, or write it to a file."""
    take_json(args)
    chosen = chosen_format(args.format, args.output)
    sizes = _sizes(args.sizes)
    from toolkit.aggregation.agreement import Comparison
    from toolkit.judging.evaluation import joined
    from toolkit.judging.voting import Election
    from toolkit.store import open_runs

    election = Election(
        grader=args.grader,
        over=args.over,
        comparison=Comparison(args.equivalence),
        confidence=args.confidence,
        keep=args.keep,
        p=args.borda_p,
        bootstrap=args.bootstrap,
        seed=args.seed,
    )
    runs = open_runs(args.runs)
    frames = [_frame(one, election, sizes, args) for one in runs]
    write_frame(joined(runs, frames), chosen, args.output)
    return 0


def _frame(run: Run, election: Election, sizes: list[int] | None, args: argparse.Namespace) -> pd.DataFrame:
    from toolkit.judging.voting import count_ungraded, early_stopping_df, vote_df

    n_ungraded, n = count_ungraded(run, election)
    if n_ungraded:
        print(
            f"toolkit vote: {visible(str(run.path))}: not graded: {n_ungraded:,} of {count(n, 'sample')}; "
            "their prompts are left out: they have no reference, or were collected after the run was graded",
            file=sys.stderr,
        )
    if not args.early_stopping:
        return vote_df(run, election, sizes)
    percentiles = args.percentile or [10.0, 90.0]
    frame = early_stopping_df(run, election, percentiles=percentiles, warmup=args.warmup, window=args.window)
    if not frame["n_cut"].any():
        print(
            f"toolkit vote: {visible(str(run.path))}: nothing would be cut: give fewer --warmup samples than a "
            "prompt has, and a --window that answers fill",
            file=sys.stderr,
        )
    return frame


def _sizes(text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [types.positive_int(part.strip()) for part in text.split(",")]
    except argparse.ArgumentTypeError:
        raise ToolkitError(f"--sizes: {quoted(text)} is no list of numbers; write 1,4,16") from None
