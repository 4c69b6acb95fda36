"""`toolkit audit RUN`: scores a run's own tokens again, and compares."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.characters import count, quoted, visible
from toolkit.cli.arguments import add_json, add_runs, non_negative_float, positive_int
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.collect.audit import AuditResult, WorstToken
    from toolkit.models import Model
    from toolkit.store import Manifest

_SHOWN_OF_GOOD = 3  # tokens, where nothing is over the tolerance


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `toolkit audit`."""
    add_runs(parser, several=False)
    parser.add_argument("--model", metavar="M", help="folder, .gguf file or repository; that of the run")
    parser.add_argument(
        "--force", action="store_true", help="compare also with a model that is not that of the run"
    )
    parser.add_argument(
        "--tolerance", metavar="NATS", type=non_negative_float, help="the largest difference that passes"
    )
    parser.add_argument("--limit", metavar="N", type=positive_int, help="only the first N sequences")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print how far the run is from its model; 1 where a difference is over the tolerance."""
    from toolkit.store import open_run

    (path,) = args.runs
    stored = open_run(path)
    from toolkit.collect.audit import audit, check_same_model
    from toolkit.collect.progress import Progress

    model = _load(args.model, stored.manifest)
    if not args.force:
        check_same_model(stored.manifest, model)
    result = audit(
        stored,
        model,
        tolerance=args.tolerance,
        limit=args.limit,
        progress=lambda total, done: Progress(total, done=done, label="audit"),
    )
    print(_as_json(path, model, result) if args.json else _as_text(path, result))
    return 0 if result.passed else 1


def _load(name: str | None, manifest: Manifest) -> Model:
    """The model in float32, whatever the run was collected in."""
    from toolkit.models import load

    if name is not None:
        return load(name, dtype="float32")
    own = manifest.model.get("name")
    if not isinstance(own, str):
        raise ToolkitError("--model: the run does not say its model; name it with --model")
    try:
        return load(own, dtype="float32")
    except ToolkitError as error:
        raise ToolkitError(f"{error}; the run calls it {quoted(own)}: name it with --model") from None


def _as_json(path: Path, model: Model, result: AuditResult) -> str:
    from toolkit.cli.output import json_text, json_value

    values: dict[str, Any] = {
        "run": str(path),
        "model": model.name,
        **dataclasses.asdict(result),
        "differences": {name: found._asdict() for name, found in result.differences.items()},
        "passed": result.passed,
    }
    return json_text(_plain(values, json_value))


def _plain(value: Any, convert: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(inner, convert) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, convert) for inner in value]
    return convert(value)


def _as_text(path: Path, result: AuditResult) -> str:
    from toolkit.cli.output import text_table

    rows = [(name, *map(_short, found)) for name, found in result.differences.items()]
    heads = ("differences", "values", "median", "mean", "p99", "largest")
    lines = [
        f"{visible(str(path))}: {count(result.n_sequences, 'sequence')} of {count(result.n_tokens, 'token')}, "
        f"collected in {result.stored_dtype}, scored again in {result.scored_dtype}",
        text_table(heads, rows).rstrip("\n"),
    ]
    shown = result.worst[:_SHOWN_OF_GOOD] if result.passed else result.worst
    if shown:
        lines += ["the tokens that differ most:", *(f"  {_token(token)}" for token in shown)]
    verdict = "no difference is" if result.passed else "there are differences"
    return "\n".join([*lines, f"{verdict} over the tolerance of {result.tolerance:g} nats"])


def _short(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:.2g}"


def _token(token: WorstToken) -> str:
    return (
        f"prompt {quoted(token.prompt_id)} {token.kind} {token.sample_index} token {token.token_index} "
        f"{token.measure}: stored {token.stored:.6f}, scored {token.scored:.6f}"
    )
