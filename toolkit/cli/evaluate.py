"""`toolkit evaluate RUN...`: every estimator against right and wrong."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.characters import count, visible
from toolkit.cli.arguments import add_json, add_runs, one_of, positive_probability
from toolkit.cli.engines import add_engine, make_engine
from toolkit.cli.evaluating import add_bootstrap, add_comparison, add_grader, add_over, add_target, take_json
from toolkit.cli.output import chosen_format, text_table, write_frame
from toolkit.cli.tables import markdown_table, terminal_columns, write_text
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.judging.evaluation import Evaluation

FORMATS = ("table", "markdown", "csv", "json", "parquet")
SHOWN = ("auroc", "auprc", "prr", "prr_half", "aurc_tie_merged", "ece", "brier")
_LABELS = ("run", "model", "temperature", "top_p")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    add_grader(parser)
    add_target(parser)
    add_over(parser)
    parser.add_argument(
        "--by", type=one_of(("field",)), metavar="field", help="judge each field of a JSON reference"
    )
    parser.add_argument(
        "--estimators",
        metavar="NAMES",
        help="comma-separated, for example mean_logprob,min_k_percent(0.1); all by default. random and "
        "n_tokens are always there",
    )
    add_bootstrap(parser)
    parser.add_argument(
        "--max-rejection",
        type=positive_probability,
        metavar="X",
        help="one more prr, with at most this share of the units left out; 1.0 and 0.5 are always there",
    )
    add_comparison(parser)
    parser.add_argument("--no-end", action="store_true", help="leave the end token out of a sequence")
    add_engine(parser)
    parser.add_argument(
        "--metrics",
        metavar="NAMES",
        help=f"which metrics a table shows, with their intervals ({','.join(SHOWN)}); csv, json and parquet "
        "have all",
    )
    parser.add_argument(
        "--format",
        type=one_of(FORMATS),
        metavar="FORMAT",
        help=f"{', '.join(FORMATS)}; by default what the ending of --output says, else table",
    )
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write to this file, not to stdout")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print or write the table; with `--json`, a list of objects, one an estimator."""
    chosen = _format(args)
    from toolkit.aggregation.agreement import Comparison
    from toolkit.aggregation.summary import split_metrics
    from toolkit.judging.evaluation import evaluate_run, joined
    from toolkit.judging.question import Question
    from toolkit.store import open_runs

    question = Question(
        grader=args.grader,
        target=args.target,
        over=args.over,
        by=args.by,
        estimators=split_metrics(args.estimators) if args.estimators is not None else None,
        bootstrap=args.bootstrap,
        seed=args.seed,
        max_rejection=args.max_rejection,
        threshold=args.threshold,
        comparison=Comparison(args.equivalence, args.similarity),
        include_end=not args.no_end,
    )
    shown = _shown(args.metrics, [metric.name for metric in question.metrics])
    with make_engine(args) as engine:
        runs = open_runs(args.runs, engine)
        results = [evaluate_run(one, question) for one in runs]
    for note in (note for result in results for note in result.notes):
        print(f"toolkit evaluate: {visible(note)}", file=sys.stderr)
    frame = joined(runs, [result.frame for result in results])
    if chosen in ("table", "markdown"):
        heads = [describe(label["run"], result) for label, result in zip(runs.labels, results, strict=True)]
        _write_table(frame, heads, shown, chosen, args.output)
    else:
        write_frame(frame, chosen, args.output)
    return 0


def describe(name: str, result: Evaluation) -> str:
    """What was judged, in a line."""
    context = result.context
    return (
        f"{name}: {count(context['n'], 'unit')} of {count(context['n_prompts'], 'prompt')}, "
        f"accuracy {context['accuracy']:.3f}; "
        f"target {context['target']}, over {context['over']}, grader "
        f"{context['grader']}@{context['config_hash'][:6]}; {context['sampler']}"
    )


def columns_shown(frame: pd.DataFrame, metrics: Sequence[str] | None) -> list[str]:
    """What a table for people has: those asked for with their intervals, or the main ones."""
    labels = [name for name in _LABELS if name in frame]
    main = "prr" if "prr_difference" in frame else "auroc"
    with_interval = metrics or [main]
    others = [] if metrics else [name for name in SHOWN if name != main]
    ends = [f"{name}{end}" for name in with_interval for end in ("", "_low", "_high")]
    compared = [f"{main}_difference", f"{main}_difference_low", f"{main}_difference_high", "auroc_within"]
    names = ["estimator", *ends, *others, *compared, "n", "n_undefined"]
    filled = [name for name in names if name == main or frame[name].notna().any()]
    return [*labels, *dict.fromkeys(filled)]


def _format(args: argparse.Namespace) -> str:
    take_json(args)
    ending = args.output.suffix.lower() if args.output is not None else ""
    if args.format == "markdown" or (args.format is None and ending == ".md"):
        chosen_format("table", args.output)
        return "markdown"
    return chosen_format(args.format, args.output)


def _shown(text: str | None, known: Sequence[str]) -> list[str] | None:
    if text is None:
        return None
    names = [name.strip() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in known:
            raise ToolkitError(f"--metrics: there is no {name!r}; use some of {', '.join(known)}")
    return names


def _write_table(
    frame: pd.DataFrame, heads: Sequence[str], metrics: list[str] | None, chosen: str, output: Path | None
) -> None:
    part = frame[columns_shown(frame, metrics)]
    rows: list[Sequence[Any]] = list(part.itertuples(index=False, name=None))
    if chosen == "markdown":
        table = markdown_table(list(part.columns), rows)
    else:
        table = text_table(list(part.columns), rows, terminal_columns() if output is None else None)
    write_text("\n".join(map(visible, heads)) + "\n\n" + table, output)
