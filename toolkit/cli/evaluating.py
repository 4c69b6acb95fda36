"""Options that `evaluate`, `vote` and `recalibrate` share: whose grades, of what, how samples are compared."""

from __future__ import annotations

import argparse

from toolkit.cli.arguments import non_negative_int, one_of, positive_probability, seed
from toolkit.errors import ToolkitError

PICKS = ("pick", "pick:letter", "pick:sum", "pick:mean", "pick:byte", "pick:pmi")
TARGETS = ("greedy", "first", "each", "vote", "mean", *PICKS)


def add_grader(parser: argparse.ArgumentParser) -> None:
    """`--grader`, whose grades; not needed where a run has those of one only."""
    parser.add_argument(
        "--grader", metavar="NAME", help="whose grades: a name as toolkit grade was given it, or NAME@HASH"
    )


def add_over(parser: argparse.ArgumentParser) -> None:
    """`--over`, the part of each text that is looked at."""
    parser.add_argument(
        "--over",
        metavar="PART",
        help="the tokens that an estimator sees: sequence, answer, regex:PATTERN or field:PATH (the answer "
        "where texts have thinking blocks, else the sequence)",
    )


def add_target(parser: argparse.ArgumentParser) -> None:
    """`--target` and `--threshold`, what is judged."""
    parser.add_argument(
        "--target",
        type=one_of(TARGETS),
        metavar="TARGET",
        help=f"what is judged of each prompt: {', '.join(TARGETS)} (pick, which is by letter, where a run has "
        "choices, greedy where it has that, else each)",
    )
    parser.add_argument(
        "--threshold",
        type=positive_probability,
        metavar="X",
        help="a grade between 0 and 1 is right from here on",
    )


def add_comparison(parser: argparse.ArgumentParser, *, similarity: bool = True) -> None:
    """`--equivalence` and, if wanted, `--similarity`: how the samples of a prompt are compared."""
    parser.add_argument(
        "--equivalence",
        default="exact",
        metavar="HOW",
        help="which samples say the same: exact (normalised text), number[:TOLERANCE], choice[:LETTERS], "
        "regex:PATTERN or stored[:NAME][:THRESHOLD], what toolkit similarity keeps (exact)",
    )
    if similarity:
        parser.add_argument(
            "--similarity",
            default="rougeL",
            metavar="HOW",
            help="how alike samples are: jaccard, rouge1, rouge2, rougeL, edit or stored[:NAME], what toolkit "
            "similarity keeps (rougeL)",
        )


def add_bootstrap(parser: argparse.ArgumentParser) -> None:
    """`--bootstrap` and `--seed`, the intervals."""
    parser.add_argument(
        "--bootstrap",
        type=non_negative_int,
        default=1000,
        metavar="N",
        help="resamples of prompts for the intervals; 0 for none (1000)",
    )
    parser.add_argument("--seed", type=seed, default=0, metavar="N", help="of everything drawn (0)")


def take_json(args: argparse.Namespace) -> None:
    """Let `--json` stand for `--format json`.

    Raises
    ------
    ToolkitError
        Another format is asked for too.
    """
    if args.json and args.format not in (None, "json"):
        raise ToolkitError(f"--json and --format {args.format}: give one of them")
    args.format = "json" if args.json else args.format
