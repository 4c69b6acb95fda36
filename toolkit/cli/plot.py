"""`toolkit plot RUN... KIND -o FILE`: a figure of one run or of several; `--list`: the kinds there are."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

import toolkit.cli.arguments as types
from toolkit.characters import quoted
from toolkit.cli.arguments import UsageError, add_runs, add_selection, one_of, option_of
from toolkit.cli.evaluating import add_bootstrap, add_comparison, add_grader, add_over, add_target
from toolkit.errors import ToolkitError
from toolkit.figures.drawing import THEMES
from toolkit.figures.kinds import BINNINGS, GROUPS, KINDS, RECALIBRATIONS
from toolkit.figures.options import OPTIONS
from toolkit.figures.saving import DPI, FORMATS
from toolkit.spans.kinds import FORMS, span_kind

_SMALLEST, _LARGEST = 2.0, 60.0  # inches; a smaller figure has no room for its legend


class _List(argparse.Action):
    """`--list`, as `--help`: it needs nothing else on the line."""

    def __init__(self, **more: Any) -> None:
        super().__init__(nargs=0, **{**more, "default": argparse.SUPPRESS})

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(kinds_text(parser), end="")
        parser.exit()


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    parser.add_argument("figure", metavar="KIND", help=f"{', '.join(KINDS)}; --list says what each shows")
    parser.add_argument(
        "-o", "--output", metavar="FILE", type=Path, required=True, help="a .png, .svg or .pdf"
    )
    parser.add_argument("--list", action=_List, help="list the kinds of figures with their options")
    _add_look(parser)
    add_selection(parser)
    _add_spans(parser)
    _add_judging(parser)
    _add_votes(parser)


def _add_look(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--theme",
        type=one_of(THEMES),
        default="light",
        metavar="THEME",
        help=f"{' or '.join(THEMES)} (light)",
    )
    parser.add_argument("--size", type=_size, metavar="WxH", help="inches, as 7x4.5 (what the figure needs)")
    parser.add_argument(
        "--dpi", type=types.integer(20, 1200), default=DPI, metavar="N", help=f"pixels an inch ({DPI})"
    )
    parser.add_argument(
        "--format",
        type=one_of(FORMATS),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; needed only where FILE has no such ending",
    )


def _add_spans(parser: argparse.ArgumentParser) -> None:
    usages = ", ".join(form.usage for form in FORMS.values())
    parser.add_argument(
        "--by",
        type=_span,
        action="append",
        metavar="SPAN",
        help=f"distribution: what texts are cut into; repeatable: {usages} (sequence)",
    )
    parser.add_argument("--metric", metavar="NAME", help="the statistic that is shown")
    parser.add_argument(
        "--group",
        type=one_of(GROUPS),
        action="append",
        metavar="GROUP",
        help=f"distribution: what it is split by; repeatable: {', '.join(GROUPS)} (what differs)",
    )
    parser.add_argument("--limit", type=types.positive_int, metavar="N", help="rows at most")


def _add_judging(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--estimator",
        action="append",
        dest="estimators",
        metavar="NAME",
        help="as mean_logprob or min_k_percent(0.1); repeatable; in votes, what weighs a sample",
    )
    parser.add_argument(
        "--agreement", metavar="NAME", help="agreement: the estimator of samples (exact_match_rate)"
    )
    add_grader(parser)
    add_target(parser)
    add_over(parser)
    add_comparison(parser)
    parser.add_argument("--bins", type=types.positive_int, metavar="N", help="reliability: bins (10)")
    parser.add_argument(
        "--binning",
        type=one_of(BINNINGS),
        metavar="HOW",
        help=f"reliability: {' or '.join(BINNINGS)} (equal_width)",
    )
    parser.add_argument(
        "--recalibrate",
        type=one_of(RECALIBRATIONS),
        metavar="METHOD",
        help=f"reliability: also after {', '.join(RECALIBRATIONS)}, cross-validated over prompts",
    )


def _add_votes(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--percentile",
        type=types.number(0, 100),
        action="append",
        dest="percentiles",
        metavar="X",
        help="early-stopping: of the first samples' lowest windows, where a later one is cut; repeatable "
        "(10, 25, 50, 75, 90)",
    )
    parser.add_argument(
        "--warmup",
        type=types.positive_int,
        metavar="N",
        help="early-stopping: first samples, drawn whole (16, or half of a prompt's)",
    )
    parser.add_argument(
        "--window",
        type=types.positive_int,
        metavar="N",
        help="early-stopping: tokens in a window (2048, or half of the median length)",
    )
    add_bootstrap(parser)
    # What is not given is left to each kind of figure, which may also have no use for it.
    parser.set_defaults(bootstrap=None, seed=None, equivalence=None, similarity=None)


def run(args: argparse.Namespace) -> int:
    """Draw the figure and write it; nothing is written where something is wrong."""
    if args.figure not in KINDS and any(str(path) in KINDS for path in args.runs):
        raise UsageError("toolkit plot", "the kind of figure comes last: RUN... KIND -o FILE")
    from toolkit.figures import prepare
    from toolkit.figures.saving import output_format, save_figure
    from toolkit.store import open_runs

    file_format = output_format(args.output, args.format)
    given = {name: getattr(args, name) for name in OPTIONS}
    drawing = prepare(open_runs(args.runs), args.figure, **given)
    figure = drawing.figure(theme=args.theme, size=args.size)
    save_figure(figure, args.output, format=file_format, dpi=args.dpi)
    return 0


def kinds_text(parser: argparse.ArgumentParser) -> str:
    """The kinds of figures: what each shows, needs and can be asked."""
    longest = max(map(len, KINDS))
    lines = []
    for name, kind in KINDS.items():
        chosen = "; the most telling prompt, unless --prompt names one" if kind.needs_prompt else ""
        needs = f"; needs {kind.needs}" if kind.needs else ""
        lines.append(f"{name:<{longest}}  {kind.help}{chosen}{needs}")
        lines.append(f"{'':<{longest}}  {' '.join(option_of(parser, option) for option in kind.options)}")
    return "\n".join(lines) + "\n"


def _span(text: str) -> str:
    try:
        span_kind(text)
    except ToolkitError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _size(text: str) -> tuple[float, float]:
    found = re.fullmatch(r"([0-9.]{1,8})[xX×]([0-9.]{1,8})", text)
    inches = types.number(_SMALLEST, _LARGEST)
    if found is None:
        raise argparse.ArgumentTypeError(
            f"{quoted(text)} is no size; write width x height in inches, as 7x4.5"
        )
    return inches(found[1]), inches(found[2])
