"""`toolkit collect`: draw samples for a file of prompts and keep them as a run."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from toolkit.cli.arguments import (
    add_json,
    non_negative_float,
    non_negative_int,
    number,
    positive_int,
    positive_probability,
    probability,
    seed,
)
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.collect.collector import Outcome, Work
    from toolkit.collect.settings import Constraint, Settings
    from toolkit.store.lock import Shard


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `toolkit collect`."""
    parser.add_argument("--model", metavar="M", help="folder, .gguf file or repository; the default model")
    parser.add_argument("--prompts", metavar="F", required=True, help="JSON Lines; - is standard input")
    parser.add_argument("--output", metavar="RUN", type=Path, required=True, help="the run's folder")
    parser.add_argument(
        "-n",
        "--num-samples",
        metavar="N",
        type=non_negative_int,
        help="samples a prompt; 1, or 0 with --beams",
    )
    parser.add_argument("--greedy", action="store_true", help="one greedy sequence beside the samples")
    parser.add_argument("--max-tokens", metavar="N", type=positive_int, default=256)
    _add_sampler(parser)
    _add_beams(parser)
    _add_text(parser)
    _add_constraint(parser)
    parser.add_argument(
        "--top-logprobs", metavar="K", type=non_negative_int, default=5, help="alternatives a token, 0 to 20"
    )
    parser.add_argument(
        "--prompt-logprobs", action="store_true", help="also store the prompts' own tokens, scored"
    )
    parser.add_argument(
        "--map", metavar="OURS=THEIRS", action="append", default=[], help="reference=answer: a field's name"
    )
    parser.add_argument("--batch-size", metavar="N", type=positive_int, help="sequences at once")
    parser.add_argument("--shard", metavar="I/N", help="only every Nth prompt, by its id; I from 0")
    parser.add_argument("--limit", metavar="N", type=positive_int, help="only the first N prompts")
    parser.add_argument(
        "--resume", action=argparse.BooleanOptionalAction, default=True, help="go on with a run that is there"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a run that is there")
    parser.add_argument("--dry-run", action="store_true", help="say what would be collected, and stop")
    parser.add_argument("--stream", action="store_true", help="print the text as it comes")
    add_json(parser)


def _add_sampler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--temp", metavar="T", type=non_negative_float, default=1.0, help="0 is greedy")
    parser.add_argument("--top-p", metavar="P", type=positive_probability, default=1.0)
    parser.add_argument("--top-k", metavar="K", type=non_negative_int, default=0, help="0 keeps all")
    parser.add_argument("--min-p", metavar="P", type=probability, default=0.0)
    parser.add_argument("--seed", metavar="N", type=seed, default=0)


def _add_beams(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--beams", metavar="K", type=positive_int, help="also the K best of a beam search")
    parser.add_argument(
        "--length-penalty", metavar="P", type=number(), default=1.0, help="score: log-probability / length**P"
    )
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
    parser.add_argument("--system-prompt", metavar="TEXT")
    parser.add_argument("--ignore-chat-template", action="store_true", help="give the model the bare prompt")
    parser.add_argument("--chat-template-config", metavar="JSON", help="more arguments for the template")
    parser.add_argument("--prefill-response", metavar="TEXT", help="the answer begins with this")


def run(args: argparse.Namespace) -> int:
    """Run the verb; 1 where the collection was interrupted or a sequence ended by an error."""
    from toolkit.collect.prompts import file_hash, parse_mapping, read_prompts

    settings = _settings(args)
    shard = _shard(args.shard)
    prompts = read_prompts(args.prompts, parse_mapping(args.map), args.limit)
    work = _work(args, settings, shard, prompts, file_hash(args.prompts))
    if args.dry_run:
        return _dry_run(args, work)
    return _collect(args, work)


def _settings(args: argparse.Namespace) -> Settings:
    from toolkit.collect.settings import RenderSettings, Settings
    from toolkit.generation.beam_settings import BeamSettings
    from toolkit.generation.sampling import Sampler

    n = args.num_samples if args.num_samples is not None else 0 if args.beams else 1
    return Settings(
        num_samples=n,
        greedy=args.greedy,
        beam=BeamSettings(args.beams, args.length_penalty, args.early_stopping) if args.beams else None,
        max_tokens=args.max_tokens,
        sampler=Sampler(args.temp, args.top_k, args.top_p, args.min_p),
        seed=args.seed,
        top_logprobs=args.top_logprobs,
        stop=tuple(args.stop),
        extra_eos_tokens=tuple(args.extra_eos_token),
        constraint=_constraint(args.regex, args.json_schema),
        render=RenderSettings(
            system_prompt=args.system_prompt,
            ignore_chat_template=args.ignore_chat_template,
            chat_template_config=_template_config(args.chat_template_config),
            prefill_response=args.prefill_response,
        ),
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


def _template_config(text: str | None) -> Mapping[str, Any]:
    try:
        config = json.loads(text or "{}")
    except (json.JSONDecodeError, RecursionError) as error:
        raise ToolkitError(
            f"--chat-template-config: {text!r} is not JSON ({error}); give an object"
        ) from None
    if not isinstance(config, dict):
        raise ToolkitError(f'--chat-template-config: {text!r} is no object; give {{"name": value}}')
    return config


def _shard(text: str | None) -> Shard | None:
    from toolkit.store.lock import Shard

    if text is None:
        return None
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ToolkitError(f"--shard: {text!r} is not I/N with I from 0 to N-1; 0/2 and 1/2, for example")
    return Shard(int(index), int(count))


def _work(
    args: argparse.Namespace, settings: Settings, shard: Shard | None, prompts: Any, prompt_file_hash: Any
) -> Work:
    from toolkit.collect.collector import DEFAULT_BATCH_SIZE, Work
    from toolkit.collect.render import render_prompts
    from toolkit.models import load

    model = load(args.model)
    records = render_prompts(model.tokenizer, prompts, settings.render, model.context_length)
    batch_size = args.batch_size or DEFAULT_BATCH_SIZE
    return Work(model, settings, records, batch_size, shard, prompt_file_hash, args.prompt_logprobs)


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
            f"{facts['prompts']:,} prompts (the longest of {longest:,} tokens), {total:,} sequences, "
            f"{lacking:,} of them missing: at most {facts['most_tokens']:,} tokens to collect"
        )
    return 0


def _collect(args: argparse.Namespace, work: Work) -> int:
    from toolkit.collect.collector import collect
    from toolkit.collect.progress import Progress

    signal.signal(signal.SIGTERM, _interrupt)
    show = None
    if args.stream:
        from toolkit.collect.live import LiveText

        show = LiveText(sys.stdout)
    outcome = collect(
        work,
        args.output,
        resume=args.resume,
        overwrite=args.overwrite,
        progress=lambda total, done: Progress(total, done=done, label="collect"),
        on_step=show,
    )
    _report(args, outcome)
    return 1 if outcome.interrupted or outcome.n_errors else 0


def _interrupt(signum: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def _report(args: argparse.Namespace, outcome: Outcome) -> None:
    if args.json:
        print(json.dumps({"run": str(args.output), **vars(outcome)}))
    before = f" ({outcome.n_before:,} were there)" if outcome.n_before else ""
    print(
        f"toolkit collect: {outcome.n_sequences:,} sequences of {outcome.n_tokens:,} tokens "
        f"in {outcome.seconds:.1f} s{before}: {args.output}",
        file=sys.stderr,
    )
    if outcome.n_errors:
        print(
            f"toolkit collect: {outcome.n_errors:,} sequences ended by an error; "
            "see finish_reason and stop_reason in the table sequences",
            file=sys.stderr,
        )
    if outcome.interrupted:
        print("toolkit collect: interrupted; the same command goes on from here", file=sys.stderr)
