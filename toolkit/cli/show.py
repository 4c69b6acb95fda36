"""`toolkit show RUN`: a run's texts in the terminal, coloured by confidence."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES, Scale, scale_of
from toolkit.characters import clip, count, visible
from toolkit.cli.arguments import add_runs, add_selection, one_of, positive_int
from toolkit.cli.spans import add_by
from toolkit.report.terminal import ColourMode, bold, colour_mode, fold, legend, number, render

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.report.views import SequenceView
    from toolkit.store import Run

COLOURS = ("auto", "always", "never")
_OF_TOKENS, _OF_SPANS = "logprob", "mean_logprob"
_INDENT = "  "


class Screen(NamedTuple):
    """How to print: the scale of the statistic, the colours, and the width to keep to."""

    scale: Scale
    mode: ColourMode
    columns: int | None = None


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
    parser.add_argument(
        "--alternatives", action="store_true", help="list each token with what else was likely"
    )
    parser.add_argument(
        "--color",
        type=one_of(COLOURS),
        default="auto",
        metavar="WHEN",
        help=f"{', '.join(COLOURS)} (auto: in a terminal, unless NO_COLOR is set; always: as for less -R)",
    )
    add_selection(parser)


def run(args: argparse.Namespace) -> int:
    """Print the sequences, and what the colours mean."""
    of_tokens = args.by.name == "token"
    metric = args.metric or (_OF_TOKENS if of_tokens else _OF_SPANS)
    scale = scale_of(metric, TOKEN_SCALES if of_tokens else SPAN_SCALES)
    from toolkit.aggregation.selection import KEY
    from toolkit.report.alternatives import NOTE
    from toolkit.report.views import has_gaps, sequence_views
    from toolkit.store import open_run

    opened = open_run(args.runs[0])
    frame = _sequences(opened, args)
    rows: list[dict[str, Any]] = frame.head(args.limit).to_dict("records")  # type: ignore[assignment]
    keys = [tuple(row[name] for name in KEY) for row in rows]
    views = sequence_views(opened, keys, args.by, metric, scale, tokens=args.alternatives)
    prompts = _prompts(opened, {row["prompt_id"] for row in rows})
    screen = Screen(scale, colour_mode(sys.stdout.isatty(), os.environ, args.color), _columns(args.color))
    for key, row in zip(keys, rows, strict=True):
        print(heading(row, screen), *_context(prompts.get(row["prompt_id"]), screen.columns), sep="\n")
        print(*body(views[key], args.by.name, screen), "", sep="\n")
    gaps = any(has_gaps(view) for view in views.values())
    print(legend(metric, scale, screen.mode, columns=screen.columns, gaps=gaps))
    if args.alternatives:
        print(NOTE)
    if len(frame) > len(rows):
        print(
            fold(
                [f"{len(rows):,} of {count(len(frame), 'sequence')};", "--limit N shows more"],
                screen.columns,
                between=" ",
            )
        )
    return 0


def heading(row: Mapping[str, Any], screen: Screen) -> str:
    """Key, statistics and finish reason of a sequence, in one line where it fits."""
    values = [f"{visible(name)} {number(row[name])}" for name in row if isinstance(row[name], float)]
    name = bold(visible(row["prompt_id"]), screen.mode)
    kind = visible(f"{row['kind']} {row['sample_index']}")
    parts = [name, kind, count(row["n_tokens"], "token"), *values, visible(str(row["finish_reason"]))]
    return fold(parts, screen.columns, indent=2 * _INDENT)


def body(view: SequenceView, by: str, screen: Screen) -> Iterator[str]:
    """The coloured text, indented, and below it the tokens where the view has them."""
    from toolkit.report.alternatives import token_lines

    text = render(view.pieces, screen.scale, screen.mode, columns=screen.columns, indent=_INDENT)
    yield text.rstrip("\n")
    if all(piece.value is None for piece in view.pieces):
        yield f"{_INDENT}({'no text' if not view.pieces else f'no {by} in it'})"
    if view.tokens:
        yield ""
    for token in view.tokens:
        yield from token_lines(token, screen.mode, screen.columns)


def _sequences(run: Run, args: argparse.Namespace) -> pd.DataFrame:
    from toolkit.aggregation.selection import Selection
    from toolkit.aggregation.summary import least_confident_first, summary_df

    metrics = dict.fromkeys(["n_tokens", "mean_logprob", *([args.sort] if args.sort else [])])
    frame = summary_df(run, "sequence", list(metrics), Selection(args.prompts, args.kinds, args.samples))
    return least_confident_first(frame, "sequence", args.sort) if args.sort else frame


def _prompts(run: Run, ids: set[str]) -> dict[str, Mapping[str, Any]]:
    return {row["prompt_id"]: row for row in run.load("prompts", None, sorted(ids)).to_pylist()}


def _context(prompt: Mapping[str, Any] | None, columns: int | None) -> list[str]:
    """What was asked and what would be right, a line each."""
    from toolkit.appearance.questions import question

    if prompt is None:
        return []
    right = " | ".join(prompt["reference"] or [])
    lines = [f"prompt: {question(prompt)}", *([f"right: {right}"] if right else [])]
    shown = [_INDENT + visible(line) for line in lines]
    return shown if columns is None else [clip(line, columns) for line in shown]


def _columns(choice: str) -> int | None:
    """The terminal's width; with colours always, also that of a terminal behind a pager."""
    if sys.stdout.isatty():
        return shutil.get_terminal_size().columns
    if choice == "always" and sys.stderr.isatty():
        return os.get_terminal_size(sys.stderr.fileno()).columns
    return None
