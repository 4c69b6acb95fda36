"""`toolkit recalibrate RUN...`: from an estimator's values to probabilities of being right."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import toolkit.cli.arguments as types
from toolkit.cli.arguments import add_json, add_runs
from toolkit.cli.evaluating import add_comparison, add_grader, add_over, add_target, take_json
from toolkit.cli.output import add_output, chosen_format, text_of, write_frame
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.judging.question import Question
    from toolkit.store import Run

METHODS = ("isotonic", "platt", "temperature", "histogram")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, several=False)
    parser.add_argument("--estimator", metavar="NAME", help="whose values, as mean_logprob")
    parser.add_argument(
        "--method",
        type=types.one_of(METHODS),
        default="isotonic",
        metavar="METHOD",
        help=f"{', '.join(METHODS)} (isotonic)",
    )
    parser.add_argument(
        "--apply",
        type=Path,
        metavar="MAP",
        help="fit nothing; give each answer of the run the probability that this map says",
    )
    add_grader(parser)
    add_target(parser)
    add_over(parser)
    add_comparison(parser)
    parser.add_argument(
        "--folds",
        type=types.integer(2),
        default=5,
        metavar="N",
        help="parts of the prompts that the fit is checked on in turn (5)",
    )
    parser.add_argument(
        "--bins", type=types.positive_int, default=10, metavar="N", help="of a histogram, at most (10)"
    )
    parser.add_argument("--seed", type=types.seed, default=0, metavar="N", help="of the parts (0)")
    add_output(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Fit a map, print calibration before and after, and write it to `--output`; or apply one."""
    if (args.estimator is None) == (args.apply is None):
        raise ToolkitError("--estimator, --apply: give one of them: an estimator to fit, or a map to apply")
    take_json(args)
    from toolkit.aggregation.agreement import Comparison
    from toolkit.judging.question import Question
    from toolkit.store import open_run

    question = Question(
        grader=args.grader,
        target=args.target,
        over=args.over,
        threshold=args.threshold,
        seed=args.seed,
        comparison=Comparison(args.equivalence, args.similarity),
    )
    action = _fit if args.apply is None else _apply
    action(open_run(args.runs[0]), question, args)
    return 0


def _fit(run: Run, question: Question, args: argparse.Namespace) -> None:
    from toolkit.judging.recalibrating import fit_run

    if args.output is not None:
        chosen_format("json", args.output)
    fitted = fit_run(run, args.estimator, args.method, question, folds=args.folds, bins=args.bins)
    if args.output is not None:
        fitted.recalibration.save(args.output)
    write_frame(fitted.comparison, chosen_format(args.format, None), None)


def _apply(run: Run, question: Question, args: argparse.Namespace) -> None:
    from toolkit.judging.recalibrating import apply_run
    from toolkit.stats.recalibration_file import load_recalibration

    chosen = chosen_format(args.format, args.output)
    applied = apply_run(run, load_recalibration(args.apply), question)
    if applied.comparison is not None:
        print(text_of(applied.comparison, "table", None), end="", file=sys.stderr)
    write_frame(applied.values, chosen, args.output)
