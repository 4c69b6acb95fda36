"""`toolkit show RUN`: a run's texts in the terminal, coloured by confidence."""

from __future__ import annotations

import argparse
import math
import os
import shutil
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES, scale_of
from toolkit.characters import clip, visible
from toolkit.cli.arguments import add_runs, add_selection, one_of, positive_int
from toolkit.cli.output import text_table
from toolkit.cli.spans import add_by
from toolkit.report.terminal import ColourMode, colour_mode, legend, number, render

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.appearance.scales import Scale
    from toolkit.report.views import SequenceView, TokenView
    from toolkit.store import Run

COLOURS = ("auto", "always", "never")
_OF_TOKENS, _OF_SPANS = "logprob", "mean_logprob"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, several=False)
    add_by(parser, "token", left_out=("prompt", "window"))
    parser.add_argument(
        "--metric",
        metavar="METRIC",
        help=f"of tokens: {', '.join(TOKEN_SCALES)}; of the others: {', '.join(SPAN_SCALES)}",
    )
    parser.add_argument("--sort", metavar="METRIC", help="sort by this statistic, the least confident first")
    parser.add_argument("--limit", type=positive_int, default=10, metavar="N", help="show N sequences (10)")
    parser.add_argument("--alternatives", action="store_true", help="list each token with its alternatives")
    parser.add_argument(
        "--color",
        type=one_of(COLOURS),
        default="auto",
        metavar="WHEN",
        help=f"{', '.join(COLOURS)} (auto: in a terminal, unless NO_COLOR is set)",
    )
    add_selection(parser)


def run(args: argparse.Namespace) -> int:
    """Print the sequences, and what the colours mean."""
    of_tokens = args.by.name == "token"
    metric = args.metric or (_OF_TOKENS if of_tokens else _OF_SPANS)
    scale = scale_of(metric, TOKEN_SCALES if of_tokens else SPAN_SCALES)
    from toolkit.aggregation.selection import KEY
    from toolkit.report.views import sequence_views
    from toolkit.store import open_run

    opened = open_run(args.runs[0])
    frame = _sequences(opened, args)
    rows: list[dict[str, Any]] = frame.head(args.limit).to_dict("records")  # type: ignore[assignment]
    keys = [tuple(row[name] for name in KEY) for row in rows]
    views = sequence_views(opened, keys, args.by, metric, scale, tokens=args.alternatives)
    prompts = _prompts(opened, {row["prompt_id"] for row in rows})
    mode = colour_mode(sys.stdout.isatty(), os.environ, args.color)
    for key, row in zip(keys, rows, strict=True):
        print(heading(row), *_context(prompts.get(row["prompt_id"])), sep="\n")
        print(body(views[key], scale, mode), end="\n\n")
    print(legend(metric, scale, mode))
    if len(frame) > len(rows):
        print(f"{len(rows)} of {len(frame)} sequences; --limit N shows more")
    return 0


def heading(row: Mapping[str, Any]) -> str:
    """Key, statistics and finish reason of a sequence in one line."""
    values = [f"{name} {number(row[name])}" for name in row if isinstance(row[name], float)]
    name = f"{visible(row['prompt_id'])}  {row['kind']} {row['sample_index']}"
    return "  ".join([name, f"{row['n_tokens']} tokens", *values, str(row["finish_reason"])])


def body(view: SequenceView, scale: Scale, mode: ColourMode) -> str:
    """The coloured text, indented, and below it the tokens where the view has them."""
    text = "  " + render(view.pieces, scale, mode).replace("\n", "\n  ")
    return f"{text}\n\n{token_table(view.tokens)}" if view.tokens else text


def token_table(tokens: list[TokenView]) -> str:
    """A line a token: what it is, how likely it was, and what else could have been."""
    rows = [
        [
            token.position,
            f"'{token.text}'",
            token.logprob,
            token.entropy,
            None if math.isnan(token.rank) else int(token.rank),
            "  ".join(f"'{text}' {100 * math.exp(logprob):.1f} %" for text, logprob in token.alternatives),
        ]
        for token in tokens
    ]
    names = ["token", "text", "logprob", "entropy", "rank", "alternatives"]
    return "\n".join(f"  {line}" for line in text_table(names, rows, _columns(indent=2)).splitlines())


def _sequences(run: Run, args: argparse.Namespace) -> pd.DataFrame:
    from toolkit.aggregation.selection import Selection
    from toolkit.aggregation.summary import least_confident_first, summary_df

    metrics = dict.fromkeys(["n_tokens", "mean_logprob", *([args.sort] if args.sort else [])])
    frame = summary_df(run, "sequence", list(metrics), Selection(args.prompts, args.kinds, args.samples))
    return least_confident_first(frame, "sequence", args.sort) if args.sort else frame


def _prompts(run: Run, ids: set[str]) -> dict[str, Mapping[str, Any]]:
    return {row["prompt_id"]: row for row in run.load("prompts", None, sorted(ids)).to_pylist()}


def _context(prompt: Mapping[str, Any] | None) -> list[str]:
    """What was asked and what would be right, a line each."""
    from toolkit.report.views import question

    if prompt is None:
        return []
    right = " | ".join(prompt["reference"] or [])
    lines = [f"  prompt: {question(prompt)}", *([f"  right: {right}"] if right else [])]
    columns = _columns()
    return [visible(line) if columns is None else clip(visible(line), columns) for line in lines]


def _columns(indent: int = 0) -> int | None:
    return shutil.get_terminal_size().columns - indent if sys.stdout.isatty() else None
