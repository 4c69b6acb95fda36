"""`toolkit compare RUN RUN`: what a second run does differently from a first one on the same prompts."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.characters import count, visible
from toolkit.cli.arguments import add_json, add_runs, number, one_of, positive_int
from toolkit.cli.engines import add_engine, make_engine
from toolkit.cli.evaluating import add_bootstrap, add_comparison, add_grader, add_over, add_target, take_json
from toolkit.cli.output import chosen_format, json_rows, json_text, text_table, write_frame
from toolkit.cli.tables import markdown_table, terminal_columns, write_text
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.judging.comparing import Compared

FORMATS = ("table", "markdown", "csv", "json", "parquet", "html")
TABLES = ("differences", "prompts")
_ENDINGS = {".html": "html", ".htm": "html", ".md": "markdown"}  # beside those of every table
_SHOWN = ("metric", "estimator", "a", "b", "difference", "difference_low", "difference_high", "n_prompts")
_OF_PROMPTS = ("prompt_id", "outcome_a", "outcome_b", "confidence_a", "confidence_b", "text_a", "text_b")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    add_grader(parser)
    add_target(parser)
    add_over(parser)
    parser.add_argument(
        "--estimators",
        metavar="NAMES",
        help="comma-separated, for example mean_logprob,min_prob; all by default. n_tokens is always there",
    )
    parser.add_argument(
        "--confidence",
        metavar="NAME",
        help="the estimator that prompts are put in order by, where both runs are right or both wrong (the "
        "first of --estimators, else mean_logprob)",
    )
    add_bootstrap(parser)
    parser.add_argument(
        "--level", type=_level, default=0.95, metavar="X", help="of the intervals, between 0 and 1 (0.95)"
    )
    add_comparison(parser)
    parser.add_argument("--no-end", action="store_true", help="leave the end token out of a sequence")
    add_engine(parser)
    parser.add_argument(
        "--limit",
        type=positive_int,
        metavar="N",
        help="how many of the prompts that differ most a table (10) or a page (20) shows",
    )
    parser.add_argument(
        "--table",
        type=one_of(TABLES),
        metavar="TABLE",
        help="what csv and parquet hold: differences, or prompts (differences)",
    )
    parser.add_argument("--no-figures", action="store_true", help="leave the figures out of a page")
    parser.add_argument(
        "--format",
        type=one_of(FORMATS),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; by default what the ending of --output says, else table",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="write to this file, not to stdout; a page to FILE.html",
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print or write what differs; with `--json`, an object with both tables."""
    chosen = _format(args)
    if len(args.runs) != 2:
        raise ToolkitError(f"RUN: {len(args.runs)} given; compare takes two, the second less the first")
    from toolkit.aggregation.agreement import Comparison
    from toolkit.aggregation.summary import split_metrics
    from toolkit.judging.comparing import compare_runs
    from toolkit.judging.question import Question
    from toolkit.store import open_runs

    question = Question(
        grader=args.grader,
        target=args.target,
        over=args.over,
        estimators=split_metrics(args.estimators) if args.estimators is not None else None,
        bootstrap=args.bootstrap,
        level=args.level,
        seed=args.seed,
        threshold=args.threshold,
        comparison=Comparison(args.equivalence, args.similarity),
        include_end=not args.no_end,
    )
    with make_engine(args) as engine:
        runs = open_runs(args.runs, engine)
        found = compare_runs(runs, question, args.confidence)
        if chosen == "html":
            from toolkit.report.comparison import write_comparison

            write_comparison(
                runs, found, args.output, n_prompts=args.limit or 20, figures=not args.no_figures
            )
    for note in found.notes:
        print(f"toolkit compare: {visible(note)}", file=sys.stderr)
    if chosen == "html":
        print(visible(str(args.output)) if sys.stdout.isatty() else args.output)
    else:
        _write(found, chosen, args)
    return 0


def _write(found: Compared, chosen: str, args: argparse.Namespace) -> None:
    if chosen == "json":
        text = json_text(
            {
                **found.context,
                "notes": found.notes,
                **{name: json_rows(getattr(found, name)) for name in TABLES},
            }
        )
        write_text(text + "\n", args.output)
    elif chosen in ("csv", "parquet"):
        write_frame(getattr(found, args.table or "differences"), chosen, args.output)
    else:
        write_text(_tables(found, chosen, args.limit or 10, args.output), args.output)


def _tables(found: Compared, chosen: str, limit: int, output: Path | None) -> str:
    """Both tables, for people: what is undefined in both runs is left out."""
    differences = found.differences
    known = differences[differences[["a", "b"]].notna().any(axis=1)]
    parts = [*map(visible, describe(found)), "", _table(known, _SHOWN, chosen, output)]
    prompts = found.prompts.head(limit)
    graded = found.context["grader"] is not None
    names = [name for name in _OF_PROMPTS if graded or not name.startswith("outcome")]
    if len(prompts):
        rest = len(found.prompts) - len(prompts)
        more = f"; {rest:,} more in csv and json" if rest else ""
        how = f"by right and wrong, then by {found.context['confidence']}" if graded else "by confidence"
        parts += [f"The prompts that differ most, {how}{more}:", "", _table(prompts, names, chosen, output)]
    return "\n".join(parts)


def describe(found: Compared) -> list[str]:
    """What was compared, a line each."""
    context = found.context
    runs = [
        f"{letter}: {run['run']}: {run['model'] or 'unknown model'}, {run['sampler']}"
        for letter, run in zip("ab", context["runs"], strict=True)
    ]
    how = f"{100 * context['level']:g} % intervals" if context["bootstrap"] else "without intervals"
    graded = "not graded" if context["grader"] is None else f"grader {context['grader']}"
    return [
        *runs,
        f"{count(context['n_prompts'], 'prompt')} in both; difference is b less a, {how}; target "
        f"{context['target']}, over {context['over']}, {graded}",
    ]


def _table(frame: pd.DataFrame, names: Sequence[str], chosen: str, output: Path | None) -> str:
    rows: list[Sequence[Any]] = list(frame[list(names)].itertuples(index=False, name=None))
    if chosen == "markdown":
        return markdown_table(list(names), rows)
    return text_table(list(names), rows, terminal_columns() if output is None else None)


def _format(args: argparse.Namespace) -> str:
    take_json(args)
    ending = args.output.suffix.lower() if args.output is not None else ""
    chosen = args.format or _ENDINGS.get(ending)
    if chosen == "html" and args.output is None:
        raise ToolkitError("--format html: a page is not for a terminal; give a file with -o FILE.html")
    if chosen in ("html", "markdown"):
        chosen_format("table", args.output)
    else:
        chosen = chosen_format(chosen, args.output)
    if args.table is not None and chosen not in ("csv", "parquet"):
        raise ToolkitError(f"--table {args.table}: {chosen} has both; it is for csv and parquet")
    if args.no_figures and chosen != "html":
        raise ToolkitError(f"--no-figures: {chosen} has none; it is for a page, -o FILE.html")
    return chosen


def _level(text: str) -> float:
    value = number(0.0, 1.0, above=True)(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"{text} is not below 1; use a number between 0 and 1, as 0.95")
    return value
