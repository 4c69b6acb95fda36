"""What the verbs that write a run share: `collect` and `score`."""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from toolkit.characters import count
from toolkit.cli.arguments import add_json, non_negative_int, one_of, positive_int
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.collect.collector import Outcome
    from toolkit.collect.settings import RenderSettings
    from toolkit.collect.watching import WatchSettings
    from toolkit.models import Model
    from toolkit.store.lock import Shard


def add_model_and_output(parser: argparse.ArgumentParser) -> None:
    """`--model` and `--output`."""
    parser.add_argument("--model", metavar="M", help="folder, .gguf file or repository; the default model")
    parser.add_argument("--output", metavar="RUN", type=Path, required=True, help="the run's folder")


def add_rendering(parser: argparse.ArgumentParser) -> None:
    """How a prompt becomes the text that the model reads."""
    parser.add_argument("--system-prompt", metavar="TEXT")
    parser.add_argument("--ignore-chat-template", action="store_true", help="give the model the bare prompt")
    parser.add_argument("--chat-template-config", metavar="JSON", help="more arguments for the template")


def add_statistics(parser: argparse.ArgumentParser) -> None:
    """What is kept of a token."""
    parser.add_argument(
        "--top-logprobs",
        metavar="K",
        type=non_negative_int,
        default=5,
        help="alternatives a token, 0 to 20 (5)",
    )
    parser.add_argument(
        "--prompt-logprobs", action="store_true", help="also store the prompts' own tokens, scored"
    )
    parser.add_argument(
        "--watch-tokens",
        metavar="LIST",
        action="append",
        help='also store these tokens, however unlikely: A,B or " A"," B" with their spaces; repeatable',
    )
    parser.add_argument(
        "--watch-at",
        metavar="WHERE",
        type=one_of(("first", "every")),
        help="watch them at the first position of a sequence, or at every one (first)",
    )


def add_run_options(parser: argparse.ArgumentParser, lines: str) -> None:
    """Which lines to take, and what to do with a run that is there; `lines` is what a line is."""
    parser.add_argument(
        "--map", metavar="OURS=THEIRS", action="append", default=[], help="reference=answer: a field's name"
    )
    parser.add_argument("--shard", metavar="I/N", help="only every Nth prompt, by its id; I from 0")
    parser.add_argument("--limit", metavar="N", type=positive_int, help=f"only the first N {lines}")
    parser.add_argument(
        "--resume", action=argparse.BooleanOptionalAction, default=True, help="go on with a run that is there"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a run that is there")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and stop")
    add_json(parser)


def render_settings(args: argparse.Namespace, prefill_response: str | None = None) -> RenderSettings:
    """The settings of `add_rendering`."""
    from toolkit.collect.settings import RenderSettings

    return RenderSettings(
        system_prompt=args.system_prompt,
        ignore_chat_template=args.ignore_chat_template,
        chat_template_config=_template_config(args.chat_template_config),
        prefill_response=prefill_response,
    )


def watch_settings(args: argparse.Namespace) -> WatchSettings | None:
    """The watched tokens of `add_statistics`."""
    from toolkit.collect.watching import make_watch_settings, parse_tokens

    tokens = [token for text in args.watch_tokens or () for token in parse_tokens(text)]
    return make_watch_settings(tokens, args.watch_at)


def say_watched(verb: str, model: Model, settings: WatchSettings | None) -> None:
    """Say on stderr which tokens are watched: the same word with a space before it is another one."""
    from toolkit.collect.watching import described, watch_of

    if settings is not None:
        print(f"toolkit {verb}: {described(model, watch_of(model, settings))}", file=sys.stderr)


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


def parse_shard(text: str | None) -> Shard | None:
    """`i/n` as a shard."""
    from toolkit.store.lock import Shard

    if text is None:
        return None
    index, slash, count = text.partition("/")
    if not (slash and index.isdecimal() and count.isdecimal() and int(index) < int(count)):
        raise ToolkitError(f"--shard: {text!r} is not I/N with I from 0 to N-1; 0/2 and 1/2, for example")
    return Shard(int(index), int(count))


def stop_on_sigterm() -> None:
    """Let SIGTERM end the loop as Ctrl-C does: what was finished is kept."""
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(signum: int, frame: Any) -> NoReturn:
    raise KeyboardInterrupt


def report(verb: str, args: argparse.Namespace, outcome: Outcome) -> int:
    """Say what came of it; the exit status, 1 where it was interrupted or a sequence ended by an error."""
    if args.json:
        print(json.dumps({"run": str(args.output), **vars(outcome)}))
    before = f" ({outcome.n_before:,} were there)" if outcome.n_before else ""
    print(
        f"toolkit {verb}: {count(outcome.n_sequences, 'sequence')} of {count(outcome.n_tokens, 'token')} "
        f"in {outcome.seconds:.1f} s{before}: {args.output}",
        file=sys.stderr,
    )
    if outcome.n_errors:
        print(
            f"toolkit {verb}: {count(outcome.n_errors, 'sequence')} ended by an error; "
            "see finish_reason and stop_reason in the table sequences",
            file=sys.stderr,
        )
    if outcome.interrupted:
        print(f"toolkit {verb}: interrupted; the same command goes on from here", file=sys.stderr)
    return 1 if outcome.interrupted or outcome.n_errors else 0
