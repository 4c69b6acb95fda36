"""`toolkit collect`: draw samples for a file of prompts and keep them as a run."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.characters import count
from toolkit.cli.arguments import (
    non_negative_float,
    non_negative_int,
    number,
    one_of,
    positive_int,
    positive_probability,
    probability,
    seed,
)
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
from toolkit.cli.engines import add_cluster, check_engine
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.collect.collector import Work
    from toolkit.collect.prompts import Prompt
    from toolkit.collect.settings import Constraint, Settings
    from toolkit.store.lock import Shard


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `toolkit collect`."""
    add_model_and_output(parser)
    parser.add_argument("--prompts", metavar="F", required=True, help="JSON Lines; - is standard input")
    parser.add_argument(
        "-n",
        "--num-samples",
        metavar="N",
        type=non_negative_int,
        help="samples a prompt; 1, or 0 with --beams",
    )
    parser.add_argument("--greedy", action="store_true", help="one greedy sequence beside the samples")
    parser.add_argument(
        "--max-tokens", metavar="N", type=positive_int, default=256, help="of a sequence, at most (256)"
    )
    _add_sampler(parser)
    _add_beams(parser)
    _add_text(parser)
    _add_constraint(parser)
    add_statistics(parser)
    parser.add_argument(
        "--batch-size",
        metavar="N",
        type=positive_int,
        help="sequences at once; chosen from free memory and measured speed",
    )
    parser.add_argument(
        "--processes",
        metavar="N",
        type=positive_int,
        default=1,
        help="processes that share the cores: quicker from some 64 sequences each (1)",
    )
    parser.add_argument("--stream", action="store_true", help="print the text as it comes")
    add_run_options(parser, "prompts")
    add_cluster(parser)


def _add_sampler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--temp", metavar="T", type=non_negative_float, default=1.0, help="0 is greedy")
    parser.add_argument("--top-p", metavar="P", type=positive_probability, default=1.0)
    parser.add_argument("--top-k", metavar="K", type=non_negative_int, default=0, help="0 keeps all")
    parser.add_argument("--min-p", metavar="P", type=probability, default=0.0)
    parser.add_argument(
        "--sampler-order",
        metavar="ORDER",
        type=one_of(("temperature_first", "mlx_lm")),
        default="temperature_first",
        help="temperature_first, or mlx_lm: filters before the temperature",
    )
    parser.add_argument("--seed", metavar="N", type=seed, default=0)


def _add_beams(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--beams", metavar="K", type=positive_int, help="also the K best of a beam search")
    parser.add_argument(
        "--length-penalty", metavar="P", type=number(), default=1.0, help="score: log-probability / length**P"
    )
    parser.add_argument("--beams-returned", metavar="N", type=positive_int, help="keep the N best; all K")
    parser.add_argument("--early-stopping", action="store_true", help="end a search when K texts have ended")


def _add_constraint(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--regex", metavar="R", help="every text has to match this expression")
    parser.add_argument(
        "--json-schema", metavar="S", help="a schema, or a file with one: JSON that it allows"
    )


def _add_text(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--stop", metavar="TEXT", action="append", default=[], help="end the text before this"
    )
    parser.add_argument("--extra-eos-token", metavar="TOKEN", action="append", default=[])
    add_rendering(parser)
    parser.add_argument("--prefill-response", metavar="TEXT", help="the answer begins with this")


def run(args: argparse.Namespace) -> int:
    """Run the verb; 1 where the collection was interrupted or a sequence ended by an error."""
    check_engine(args)
    _check_processes(args)
    if args.dry_run:
        return _dry_run(args, make_work(args))
    if args.engine == "dask":
        from toolkit.cli.cluster import collect_on_cluster

        return collect_on_cluster(args, _settings(args), len(_prompts(args)))
    return _collect(args, make_work(args))


def _check_processes(args: argparse.Namespace) -> None:
    if args.processes == 1:
        return
    for flag, given in (("--stream", args.stream), ("--engine dask", args.engine == "dask")):
        if given:
            raise ToolkitError(
                f"--processes: {args.processes} cannot be combined with {flag}; leave out one of them"
            )
    from toolkit.collect.processes import check_processes

    check_processes(args.processes)


def make_work(args: argparse.Namespace) -> Work:
    """What is to be collected, with the model loaded."""
    from toolkit.collect.json_lines import file_hash

    settings, shard, prompts = _settings(args), parse_shard(args.shard), _prompts(args)
    return _work(args, settings, shard, prompts, file_hash(args.prompts))


def _prompts(args: argparse.Namespace) -> list[Prompt]:
    from toolkit.collect.fields import parse_mapping
    from toolkit.collect.prompts import FIELDS, read_prompts

    return read_prompts(args.prompts, parse_mapping(args.map, FIELDS), args.limit)


def _settings(args: argparse.Namespace) -> Settings:
    from toolkit.collect.settings import Settings
    from toolkit.generation.beam_settings import BeamSettings
    from toolkit.generation.sampling import Sampler

    n = args.num_samples if args.num_samples is not None else 0 if args.beams else 1
    return Settings(
        num_samples=n,
        greedy=args.greedy,
        beam=BeamSettings(args.beams, args.length_penalty, args.early_stopping, args.beams_returned)
        if args.beams
        else None,
        max_tokens=args.max_tokens,
        sampler=Sampler(args.temp, args.top_k, args.top_p, args.min_p, args.sampler_order),
        seed=args.seed,
        top_logprobs=args.top_logprobs,
        stop=tuple(args.stop),
        extra_eos_tokens=tuple(args.extra_eos_token),
        constraint=_constraint(args.regex, args.json_schema),
        watch=watch_settings(args),
        render=render_settings(args, args.prefill_response),
    )


def _constraint(regex: str | None, json_schema: str | None) -> Constraint | None:
    from toolkit.collect.settings import Constraint

    if regex is None and json_schema is None:
        return None
    if json_schema is not None and not json_schema.lstrip().startswith("{"):
        try:
            json_schema = Path(json_schema).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError, ValueError) as error:
            raise ToolkitError(
                f"--json-schema: {json_schema!r} is neither a JSON object nor a file that can be read ({error})"
            ) from None
    return Constraint(regex, json_schema)


def _work(
    args: argparse.Namespace, settings: Settings, shard: Shard | None, prompts: Any, prompt_file_hash: Any
) -> Work:
    from toolkit.collect.collector import Work
    from toolkit.collect.render import render_prompts
    from toolkit.models import load

    model = load(args.model)
    say_watched("collect", model, settings.watch)
    records = render_prompts(model.tokenizer, prompts, settings.render, model.context_length)
    return Work(model, settings, records, args.batch_size, shard, prompt_file_hash, args.prompt_logprobs)


def _dry_run(args: argparse.Namespace, work: Work) -> int:
    from toolkit.collect.plan import missing_sequences, wanted_sequences
    from toolkit.store import open_run

    stored = open_run(args.output).sequence_keys() if (args.output / "manifest.json").is_file() else set()
    lacking = sum(len(plan.sequences) for plan in missing_sequences(work.mine(), work.settings, stored))
    total = len(work.mine()) * len(wanted_sequences(work.settings))
    longest = max((len(prompt.token_ids) for prompt in work.mine()), default=0)
    facts = {
        "prompts": len(work.mine()),
        "sequences": total,
        "missing": lacking,
        "most_tokens": lacking * work.settings.max_tokens,
        "longest_prompt_tokens": longest,
    }
    if args.json:
        print(json.dumps(facts))
    else:
        print(
            f"{count(facts['prompts'], 'prompt')} (the longest of {count(longest, 'token')}), "
            f"{count(total, 'sequence')}, {lacking:,} of them missing: "
            f"at most {count(facts['most_tokens'], 'token')} to collect"
        )
    return 0


def _collect(args: argparse.Namespace, work: Work) -> int:
    from toolkit.collect.collector import collect
    from toolkit.collect.progress import Progress

    stop_on_sigterm()
    given = {
        "resume": args.resume,
        "overwrite": args.overwrite,
        "progress": lambda total, done: Progress(total, done=done, label="collect"),
    }
    if args.processes > 1:
        from toolkit.collect.processes import collect_in_processes

        return report("collect", args, collect_in_processes(work, args.output, args.processes, **given))
    show = None
    if args.stream:
        from toolkit.collect.live import LiveText

        show = LiveText(sys.stdout)
    outcome = collect(work, args.output, on_step=show, **given)
    return report("collect", args, outcome)
