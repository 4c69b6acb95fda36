"""`toolkit ask`: questions with choices put to a model, kept as a run."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from toolkit.characters import count
from toolkit.cli.arguments import add_json, non_negative_int, positive_int
from toolkit.cli.collecting import add_model_and_output, add_rendering, render_settings, stop_on_sigterm
from toolkit.cli.output import json_rows, json_text, text_table

if TYPE_CHECKING:
    from toolkit.calls.ask_runs import AskWork
    from toolkit.collect.collector import Outcome


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `toolkit ask`."""
    add_model_and_output(parser)
    parser.add_argument(
        "--prompts",
        metavar="F",
        required=True,
        help="JSON Lines, each with prompt or messages, choices and if wanted reference; - is standard input",
    )
    parser.add_argument(
        "--rotate",
        action="store_true",
        help="ask for the letter once for every rotation of the choices, and average",
    )
    parser.add_argument(
        "--bare",
        metavar="TEXT",
        default="Answer:",
        help="the prompt without the question, which a choice's text is compared after (Answer:)",
    )
    add_rendering(parser)
    parser.add_argument(
        "--top-logprobs",
        metavar="K",
        type=non_negative_int,
        default=5,
        help="alternatives a token, 0 to 20 (5)",
    )
    parser.add_argument(
        "--map", metavar="OURS=THEIRS", action="append", default=[], help="reference=answer: a field's name"
    )
    parser.add_argument("--limit", metavar="N", type=positive_int, help="only the first N questions")
    parser.add_argument(
        "--resume", action=argparse.BooleanOptionalAction, default=True, help="go on with a run that is there"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a run that is there")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print how the picks by each score fare; 1 where it was interrupted or logits were not finite."""
    from toolkit.calls.ask_runs import ask_run

    work = _work(args)
    stop_on_sigterm()
    outcome = ask_run(work, args.output, resume=args.resume, overwrite=args.overwrite, progress=_progress)
    if not outcome.interrupted:
        _print_picks(args)
    return _report(args, outcome)


def _work(args: argparse.Namespace) -> AskWork:
    from toolkit.collect.fields import parse_mapping
    from toolkit.collect.json_lines import file_hash
    from toolkit.collect.questions import FIELDS, read_questions

    questions = read_questions(args.prompts, parse_mapping(args.map, FIELDS), args.limit)

    from toolkit.calls.ask_runs import AskWork
    from toolkit.collect.asking import AskSettings
    from toolkit.models import load

    settings = AskSettings(
        top_logprobs=args.top_logprobs, render=render_settings(args), rotate=args.rotate, bare=args.bare
    )
    return AskWork(load(args.model), settings, questions, file_hash(args.prompts))


def _progress(label: str) -> Any:
    from toolkit.collect.progress import Progress

    def make(total: int, done: int) -> Progress:
        return Progress(total, done=done, label=label)

    return make


def _print_picks(args: argparse.Namespace) -> None:
    from toolkit.judging.asked import choices_df, picks_df
    from toolkit.store import open_run

    frame = picks_df(choices_df(open_run(args.output)))
    if args.json:
        print(json_text(json_rows(frame)))
    else:
        print(text_table(list(frame.columns), list(frame.itertuples(index=False, name=None))), end="")


def _report(args: argparse.Namespace, outcome: Outcome) -> int:
    before = f" ({outcome.n_before:,} were there)" if outcome.n_before else ""
    print(
        f"toolkit ask: {count(outcome.n_sequences, 'choice')}{before} in {outcome.seconds:.1f} s: {args.output}",
        file=sys.stderr,
    )
    if outcome.n_errors:
        print(
            f"toolkit ask: {count(outcome.n_errors, 'choice')} ended by an error: they have no scores by text; "
            "see stop_reason in the table sequences",
            file=sys.stderr,
        )
    if outcome.interrupted:
        print("toolkit ask: interrupted; the same command goes on from here", file=sys.stderr)
    return 1 if outcome.interrupted or outcome.n_errors else 0
