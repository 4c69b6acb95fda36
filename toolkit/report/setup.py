"""The setup of a run, from its manifest: what made the texts, in names and texts for a table."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from typing import Any, NamedTuple

from toolkit.characters import count
from toolkit.judging.evaluation import sampler_of
from toolkit.report.reading import Source
from toolkit.store import Manifest

_MOST_SESSIONS = 20


class Setup(NamedTuple):
    """The setup of a run, as texts that are not escaped yet."""

    run: str
    command: str
    facts: list[tuple[str, str]]
    versions: list[tuple[str, str]]
    config: str  # JSON, indented
    notes: list[str]


def setup_of(source: Source) -> Setup:
    """What the manifest says, the main things by name and all of the configuration as JSON."""
    manifest = source.run.manifest
    return Setup(
        run=source.name,
        command=shlex.join(manifest.command),
        facts=[(name, value) for name, value in _facts(source, manifest) if value],
        versions=sorted(manifest.versions.items()),
        config=json.dumps(manifest.config, indent=2, sort_keys=True, ensure_ascii=False),
        notes=list(manifest.notes),
    )


def _facts(source: Source, manifest: Manifest) -> list[tuple[str, str]]:
    model, tokenizer = manifest.model, manifest.tokenizer
    return [
        ("run", source.name),
        ("model", _text(model.get("name"))),
        ("weights hash", _text(model.get("weights_hash", model.get("hash")))),
        ("tokenizer", _text(tokenizer.get("kind"))),
        ("tokenizer hash", _text(tokenizer.get("hash"))),
        ("chat template hash", _text(tokenizer.get("template_hash"))),
        ("sampler", sampler_of(source.run)),
        ("seed", _text(manifest.seed)),
        ("longest answer", _with_unit(manifest.setting("max_tokens"), "tokens")),
        ("stop strings", ", ".join(map(repr, manifest.setting("stop") or []))),
        ("alternatives kept", _text(manifest.setting("top_logprobs"))),
        ("device", manifest.device),
        ("BLAS", _text(manifest.blas)),
        ("dtype", manifest.dtype),
        ("dtype of logits", manifest.logits_dtype),
        ("prompt file hash", _text(manifest.prompt_file_hash)),
        ("settings hash", manifest.content_hash),
        ("schema", manifest.schema_version),
        ("collected", _sessions(manifest)),
        ("rows", ", ".join(f"{n:,} {table}" for table, n in manifest.counts.items())),
    ]


def _sessions(manifest: Manifest) -> str:
    said = [
        f"{one.started} to {one.ended or 'no end (it runs, or was stopped)'}"
        + (f", shard {one.shard}" if one.shard else "")
        for one in manifest.sessions[:_MOST_SESSIONS]
    ]
    more = len(manifest.sessions) - len(said)
    return "; ".join([*said, *([count(more, "more session")] if more > 0 else [])])


def _with_unit(value: Any, unit: str) -> str:
    return f"{_text(value)} {unit}" if value is not None else ""


def _text(value: Any) -> str:
    if value is None:
        return ""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, Mapping | list | tuple) else str(value)
