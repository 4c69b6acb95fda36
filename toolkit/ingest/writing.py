"""A file of another engine's answers as a run: read once to check it and once to write.

The first reading finds every fault before a folder is made, and what the manifest says: the model, how ids were
made, what is missing.
"""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

from toolkit.collect.json_lines import file_hash
from toolkit.errors import ToolkitError
from toolkit.ingest import arrays, llamacpp, openai, polygraph, vllm
from toolkit.ingest.building import GUESSED, UNLIKE, UNRANKED, Builder, check_one_model, prompt_record
from toolkit.ingest.given import Given, GivenPrompt, Items, LeftOut, Tally
from toolkit.ingest.joining import check_joined, joined, read_known
from toolkit.ingest.tokenizers import load_tokenizer
from toolkit.ingest.values import MASKED
from toolkit.ingest.vocabulary import Vocabulary
from toolkit.records import SequenceRecord
from toolkit.store import Manifest, PromptTokens, RunWriter
from toolkit.store.schemas import ROW_GROUP_TOKENS

Source = Literal["openai", "vllm", "llamacpp", "transformers", "polygraph"]

_READERS: Mapping[Source, Callable[[Path, Tally], Items]] = {
    "openai": openai.read,
    "vllm": vllm.read,
    "llamacpp": llamacpp.read,
    "transformers": arrays.read,
    "polygraph": polygraph.read,
}
SOURCES: tuple[Source, ...] = tuple(_READERS)

_PACKAGES = ("token-confidence-toolkit", "numpy", "pyarrow")
_MASKED_NOTE = (
    "{n:,} log-probabilities were sentinels (-9999, -100, -inf, or a probability of 0) and are stored as -inf"
)
_NOTES = {
    MASKED: _MASKED_NOTE,
    GUESSED: "{n:,} tokens came as parts of characters without their bytes: the bytes went to the last of each",
    UNLIKE: "the bytes of {n:,} sequences do not spell the text given with them; the bytes are stored",
    UNRANKED: "{n:,} tokens are likelier than all the likely ones listed, so rank and top log-probabilities are null",
    arrays.SCORED: "{n:,} tokens have processed scores only: logprob is of those, after temperature and filters",
}
_ALWAYS = "What the source does not give is null: entropy and the like, unless it gave whole distributions"
_MADE = (
    "The source gives no token ids: they are made from a hash of each token's bytes, the same in every run"
)
_MOVED = "{n:,} tokens have an id made from their bytes, since theirs stood for other bytes elsewhere"


@dataclass(frozen=True)
class Outcome:
    """What became of a file."""

    n_prompts: int
    n_sequences: int
    n_tokens: int
    n_masked: int  # sentinels that became -inf
    n_left_out: int  # answers that hold nothing to store
    left_out: Mapping[str, int] = field(default_factory=dict)  # the same by reason
    notes: tuple[str, ...] = ()  # what to know of the data; also in the manifest
    without_reference: tuple[str, ...] = ()  # prompts that the file of prompts lacks


@dataclass
class _Survey:
    """What the first reading found."""

    tally: Tally = field(default_factory=Tally)
    models: dict[str, str] = field(default_factory=dict)  # where each was named first
    prompts: dict[str, tuple[GivenPrompt, str]] = field(default_factory=dict)  # in the order they came in
    left_out: Tally = field(default_factory=Tally)
    sampling: list[Mapping[str, float]] = field(default_factory=list)  # every one that differs
    n_sequences: int = 0
    n_tokens: int = 0


def ingest(
    path: str | Path,
    source: Source,
    output: str | Path,
    *,
    prompts: str | Path | None = None,
    tokenizer: str | Path | None = None,
    mapping: Mapping[str, str] | None = None,
    overwrite: bool = False,
) -> Outcome:
    """Write the answers in a file of another engine as a run.

    Parameters
    ----------
    path : str or Path
        See docs/ingest.md for the shapes.
    source : {"openai", "vllm", "llamacpp", "transformers", "polygraph"}
    output : str or Path
        The run's folder; made if it is not there.
    prompts : str or Path, optional
        Prompts and references by id, as `collect` reads them, or the input of a batch.
    tokenizer : str or Path, optional
        tokenizer.json, or its folder: what token ids stand for, where the source gives them.
    mapping : mapping, optional
        Which field of `prompts` serves as which of ours.
    overwrite : bool
        Replace a run that is there.

    Raises
    ------
    ToolkitError
        The file is not of this source, a line has no log-probabilities, it is of several models, or the folder
        holds something else. The message names file and line; nothing is written.
    """
    file, known = Path(path), {} if prompts is None else read_known(Path(prompts), mapping)
    reader = _READERS[source]
    token_bytes = None if tokenizer is None else load_tokenizer(Path(tokenizer))
    first = Builder(Vocabulary(token_bytes), Tally())
    survey = _survey(reader, file, first)
    lacking = [] if prompts is None else check_joined(set(survey.prompts), known, Path(prompts))
    notes = _notes(survey, first)
    manifest = _manifest(file, source, survey, token_bytes, notes)
    with RunWriter.create(output, manifest, overwrite=overwrite) as writer:
        second = Builder(Vocabulary(token_bytes), Tally())
        _write_prompts(writer, survey, known)
        _write(writer, reader(file, Tally()), second)
    left_out = {reason: survey.left_out[reason] for reason in survey.left_out.names()}
    return Outcome(
        n_prompts=len(survey.prompts),
        n_sequences=survey.n_sequences,
        n_tokens=survey.n_tokens,
        n_masked=survey.tally[MASKED],
        n_left_out=sum(left_out.values()),
        left_out={_at(survey.left_out, reason): times for reason, times in left_out.items()},
        notes=notes,
        without_reference=tuple(lacking),
    )


def _at(tally: Tally, reason: str) -> str:
    return f"{reason} (first at {tally.first(reason)})"


def _survey(reader: Callable[[Path, Tally], Items], file: Path, builder: Builder) -> _Survey:
    """Read everything and keep only what the manifest and the prompts need."""
    survey = _Survey()
    builder.tally = survey.tally
    for item in reader(file, survey.tally):
        if isinstance(item, LeftOut):
            survey.left_out.add(item.reason, item.where)
            continue
        is_new = item.prompt.id not in survey.prompts
        _note_model(survey, item)
        _note_prompt(survey, item)
        survey.n_sequences += 1
        survey.n_tokens += len(builder.sequence(item).token_ids)
        if is_new and item.prompt.positions:
            builder.prompt_tokens(item.prompt, item.where)
        if item.sampling not in survey.sampling:
            survey.sampling.append(item.sampling)
    check_one_model(survey.models)
    if not survey.n_sequences:
        reasons = "; ".join(_at(survey.left_out, reason) for reason in survey.left_out.names())
        raise ToolkitError(f"{file}: there is no answer to store in it: {reasons or 'it has no choices'}")
    return survey


def _note_model(survey: _Survey, item: Given) -> None:
    if item.model:
        survey.models.setdefault(item.model, item.where)
        check_one_model(survey.models)


def _note_prompt(survey: _Survey, item: Given) -> None:
    """Keep a prompt when it first comes; another text under the same id is refused."""
    if item.prompt.id not in survey.prompts:
        _check_storable(item)
        survey.prompts[item.prompt.id] = (replace(item.prompt, positions=()), item.where)
    prompt, where = survey.prompts[item.prompt.id]
    if prompt.text and item.prompt.text and prompt.text != item.prompt.text:
        raise ToolkitError(
            f"{item.where}: prompt {item.prompt.id!r} has another text than on {where}; "
            "give different prompts different ids"
        )


def _check_storable(item: Given) -> None:
    """Refuse a prompt that JSON in UTF-8 cannot hold: half of a surrogate pair, NaN."""
    prompt = item.prompt
    values = [prompt.id, prompt.text, prompt.messages, list(prompt.reference), prompt.metadata]
    try:
        json.dumps(values, ensure_ascii=False, allow_nan=False).encode()
    except ValueError as error:
        raise ToolkitError(f"{item.where}: the prompt holds what cannot be stored: {error}") from error


def _notes(survey: _Survey, builder: Builder) -> tuple[str, ...]:
    tally, vocabulary = survey.tally, builder.vocabulary
    found = [text.format(n=tally[name]) for name, text in _NOTES.items() if tally[name]]
    if vocabulary.n_made:
        found.append(_MADE)
    if vocabulary.n_moved:
        found.append(_MOVED.format(n=vocabulary.n_moved))
    return tuple(f"{text}." for text in [*found, _ALWAYS])


def _manifest(
    file: Path, source: Source, survey: _Survey, token_bytes: Any, notes: tuple[str, ...]
) -> Manifest:
    """A manifest that says what the source says, and that the rest is not known."""
    model, digest = check_one_model(survey.models), file_hash(file)
    same = survey.sampling[0] if len(survey.sampling) == 1 else {}
    return Manifest(
        command=tuple(sys.argv),
        config={
            "source": source,
            "file": file.name,
            "n_prompts": len(survey.prompts),
            "sampling": dict(same),
        },
        content_config={"source": source, "file_hash": digest, "model": model},
        model={"name": model or "unknown", "source": source},
        tokenizer={
            "kind": "unknown" if token_bytes is None else token_bytes.kind,
            "ids": "made from bytes" if _MADE + "." in notes else "given",
        },
        versions=_versions(),
        device="unknown",
        dtype="unknown",
        logits_dtype="unknown",
        seed=None,
        prompt_file_hash=digest,
        notes=notes,
    )


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: metadata.version(name) for name in _PACKAGES}}


def _write_prompts(writer: RunWriter, survey: _Survey, known: Mapping[str, GivenPrompt]) -> None:
    prompts = [joined(prompt, known) for prompt, _ in survey.prompts.values()]
    writer.add_prompts(prompt_record(prompt, index) for index, prompt in enumerate(prompts))


def _write(writer: RunWriter, items: Iterator[Given | LeftOut], builder: Builder) -> None:
    """Commit as many sequences at once as make a row group, and the tokens of their prompts beside them."""
    waiting: list[SequenceRecord] = []
    prompts: dict[str, PromptTokens] = {}
    seen: set[str] = set()
    n_tokens = 0
    for item in items:
        if isinstance(item, LeftOut):
            continue
        waiting.append(builder.sequence(item))
        n_tokens += len(waiting[-1].token_ids)
        if item.prompt.id not in seen and item.prompt.positions:
            prompts[item.prompt.id] = builder.prompt_tokens(item.prompt, item.where)
            n_tokens += len(item.prompt.positions)
        seen.add(item.prompt.id)
        if n_tokens >= ROW_GROUP_TOKENS:
            _commit(writer, waiting, prompts, builder)
            waiting, prompts, n_tokens = [], {}, 0
    _commit(writer, waiting, prompts, builder)


def _commit(
    writer: RunWriter,
    records: Sequence[SequenceRecord],
    prompts: Mapping[str, PromptTokens],
    builder: Builder,
) -> None:
    writer.add_prompt_tokens(prompts.values())
    writer.commit(records, builder.vocabulary.entries)
