"""`toolkit score`: log-probabilities of given completions, kept as a run."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from toolkit.characters import count
from toolkit.cli.collecting import (
    add_model_and_output,
    add_rendering,
    add_run_options,
    add_statistics,
    parse_shard,
    render_settings,
    report,
    say_watched,
    stop_on_sigterm,
    watch_settings,
)

if TYPE_CHECKING:
    from toolkit.collect.score import ScoreWork


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `toolkit score`."""
    add_model_and_output(parser)
    parser.add_argument("--input", metavar="F", required=True, help="JSON Lines; - is standard input")
    parser.add_argument(
        "--joint", action="store_true", help="tokenise a text together with its prompt, not apart from it"
    )
    parser.add_argument(
        "--add-end", action="store_true", help="append the end token to completions that lack it"
    )
    add_rendering(parser)
    add_statistics(parser)
    add_run_options(parser, "completions")


def run(args: argparse.Namespace) -> int:
    """Run the verb; 1 where the scoring was interrupted or a sequence ended by an error."""
    from toolkit.collect.progress import Progress
    from toolkit.collect.score import score

    work = _work(args)
    if args.dry_run:
        return _dry_run(args, work)
    stop_on_sigterm()
    outcome = score(
        work,
        args.output,
        resume=args.resume,
        overwrite=args.overwrite,
        progress=lambda total, done: Progress(total, done=done, label="score"),
    )
    return report("score", args, outcome)


def _work(args: argparse.Namespace) -> ScoreWork:
    from toolkit.collect.completions import FIELDS, read_completions
    from toolkit.collect.fields import parse_mapping
    from toolkit.collect.json_lines import file_hash
    from toolkit.collect.settings import ScoreSettings

    settings = ScoreSettings(
        args.joint, args.add_end, args.top_logprobs, render_settings(args), watch_settings(args)
    )
    shard = parse_shard(args.shard)
    completions = read_completions(args.input, parse_mapping(args.map, FIELDS), args.limit)

    from toolkit.collect.score import ScoreWork
    from toolkit.collect.scoring_plans import plan_completions
    from toolkit.models import load

    model = load(args.model)
    say_watched("score", model, settings.watch)
    plans = plan_completions(model, completions, settings)
    return ScoreWork(model, settings, plans, shard, file_hash(args.input), args.prompt_logprobs)


def _dry_run(args: argparse.Namespace, work: ScoreWork) -> int:
    from toolkit.collect.score import lacking
    from toolkit.store import open_run

    stored = open_run(args.output).sequence_keys() if (args.output / "manifest.json").is_file() else set()
    plans = work.mine()
    missing = [plan.completions[index] for plan in plans for index in lacking(plan, stored)]
    facts = {
        "prompts": len(plans),
        "sequences": sum(len(plan.completions) for plan in plans),
        "missing": len(missing),
        "tokens": sum(map(len, missing)),
        "longest_prompt_tokens": max((len(plan.prompt.token_ids) for plan in plans), default=0),
    }
    if args.json:
        print(json.dumps(facts))
    else:
        print(
            f"{count(facts['prompts'], 'prompt')} (the longest of "
            f"{count(facts['longest_prompt_tokens'], 'token')}), {count(facts['sequences'], 'completion')}, "
            f"{facts['missing']:,} of them missing: {count(facts['tokens'], 'token')} to score"
        )
    return 0
