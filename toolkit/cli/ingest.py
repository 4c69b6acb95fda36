"""`toolkit ingest FILE --from SOURCE --output RUN`: log-probabilities of other engines as a run."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from toolkit.characters import count, quoted
from toolkit.cli.arguments import add_json, existing_file, one_of

if TYPE_CHECKING:
    from toolkit.ingest import Outcome

SOURCES = ("openai", "vllm", "llamacpp", "transformers", "polygraph")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", type=existing_file, help="responses, outputs or arrays")
    parser.add_argument(
        "--from",
        dest="source",
        metavar="SOURCE",
        required=True,
        type=one_of(SOURCES),
        help=f"what made the file: {', '.join(SOURCES)}",
    )
    parser.add_argument("--output", metavar="RUN", type=Path, required=True, help="the run's folder")
    parser.add_argument(
        "--prompts",
        metavar="FILE",
        type=existing_file,
        help="prompts and references, joined by id: as collect reads them, or a batch's input",
    )
    parser.add_argument(
        "--map", metavar="OURS=THEIRS", action="append", default=[], help="reference=answer: a field's name"
    )
    parser.add_argument(
        "--tokenizer",
        metavar="PATH",
        type=Path,
        help="tokenizer.json, or its folder: what token ids stand for, where the file has ids only",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a run that is there")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Run the verb; 1 where answers were left out."""
    from toolkit.collect.fields import parse_mapping
    from toolkit.collect.prompts import FIELDS
    from toolkit.ingest import ingest

    outcome = ingest(
        args.file,
        args.source,
        args.output,
        prompts=args.prompts,
        tokenizer=args.tokenizer,
        mapping=parse_mapping(args.map, FIELDS),
        overwrite=args.overwrite,
    )
    if args.json:
        print(json.dumps({"run": str(args.output), **asdict(outcome)}))
    _report(args.output, outcome)
    return 1 if outcome.n_left_out else 0


def _report(output: Path, outcome: Outcome) -> None:
    for reason, times in outcome.left_out.items():
        _say(f"left out {count(times, 'answer')}: {reason}")
    if outcome.without_reference:
        n, first = len(outcome.without_reference), quoted(outcome.without_reference[0])
        _say(f"{count(n, 'prompt')} not in the file of prompts, {first} the first")
    for note in outcome.notes:
        _say(note)
    _say(
        f"{count(outcome.n_sequences, 'sequence')} of {count(outcome.n_tokens, 'token')} and "
        f"{count(outcome.n_prompts, 'prompt')}: {output}"
    )


def _say(text: str) -> None:
    print(f"toolkit ingest: {text}", file=sys.stderr)
