"""Made records and runs that hold together as real ones do: statistics of actual logits, aligned text.

Used by tests and benchmarks. Everything follows from the seed.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.alignment import align
from toolkit.records import Kind, PromptRecord, SequenceRecord, TokenStatistics, unwatched
from toolkit.store import Manifest, RunWriter

TEMPERATURE = 0.8
END_ID = 0
_FRAGMENTS = ["🎉", "é", "日本", "\ufffd"]  # cut into single bytes, so that characters straddle tokens


def _vocabulary() -> dict[int, tuple[bytes | None, str, bool]]:
    pieces: list[bytes] = []
    for first in "tsaiocwb":
        pieces += [f" {first}{second}{third}".encode() for second in "aeiou" for third in "nrtslmdk"]
    pieces += [bytes([byte]) for byte in "".join(_FRAGMENTS).encode()]
    pieces += [text.encode() for text in (".", ",", "\n", " ", "naïve", "of the ", '"', "🎉")]
    entries: dict[int, tuple[bytes | None, str, bool]] = {
        END_ID: (None, "<|im_end|>", True),
        1: (None, "<|im_start|>", True),
    }
    return entries | {
        i: (piece, piece.decode("utf-8", "replace"), False) for i, piece in enumerate(pieces, 2)
    }


VOCABULARY = _vocabulary()
"""id to (bytes, literal, is_special)."""

_PARTY = [next(i for i, entry in VOCABULARY.items() if entry[0] == bytes([b])) for b in "🎉".encode()]
"""Ids that only together are a character."""


def make_logits(n: int, rng: np.random.Generator) -> NDArray[np.float64]:
    """Logits of n positions, (n, V): some all but certain, some flat. They are float32 values."""
    sharpness = rng.choice([0.3, 1.0, 2.5, 8.0], size=(n, 1))
    logits = -sharpness * np.log(np.arange(1, len(VOCABULARY) + 1)) + rng.normal(0, 1, (n, len(VOCABULARY)))
    return rng.permuted(logits, axis=1).astype(np.float32).astype(np.float64)


def make_statistics(
    logits: NDArray[np.float64],
    ids: NDArray[np.int32],
    k: int = 5,
    drawn: bool = True,
    watched: Sequence[int] = (),
    watch_at: str = "first",
) -> TokenStatistics:
    """Statistics of tokens `ids` under `logits` (n, V), by the definitions, in float64."""
    n, size = logits.shape
    lse = _lse(logits)
    logp = logits - lse[:, None]
    p = np.exp(logp)
    falling = -np.sort(-logp, axis=1)
    entropy = -(p * logp).sum(1)
    own = np.take_along_axis(logp, ids[:, None].astype(np.int64), 1)[:, 0]
    tempered = logits / TEMPERATURE
    top15 = np.exp(falling[:, :15]) / np.exp(falling[:, :15]).sum(1, keepdims=True)
    order = np.argsort(-logp, axis=1, kind="stable")[:, :k]
    single = np.float32
    return TokenStatistics(
        logprob=own.astype(single),
        constrained_logprob=np.full(n, np.nan, single),
        sampling_logprob=(
            np.take_along_axis(tempered, ids[:, None].astype(np.int64), 1)[:, 0] - _lse(tempered)
            if drawn
            else np.full(n, np.nan)
        ).astype(single),
        rank=(1 + (logp > own[:, None]).sum(1)).astype(np.int32),
        entropy=entropy.astype(single),
        varentropy=((p * logp**2).sum(1) - entropy**2).astype(single),
        logsumexp=lse.astype(single),
        mean_logit=logits.mean(1).astype(single),
        n_finite=np.full(n, size, np.int32),
        lse_half=_lse(logits / 2).astype(single),
        lse_quarter=_lse(logits / 4).astype(single),
        top1_logprob=falling[:, 0].astype(single),
        top2_logprob=falling[:, 1].astype(single),
        top15_entropy=-(top15 * np.log(top15)).sum(1).astype(single),
        top20_mean_logprob=falling[:, :20].mean(1).astype(single),
        boosted_prob=_boosted(np.exp(falling), np.exp(own)).astype(single),
        alternative_ids=order.astype(np.int32),
        alternative_logprobs=np.take_along_axis(logp, order, 1).astype(single),
        **_watched(logp, watched, n if watch_at == "every" else min(n, 1)),
    )


def _watched(logp: NDArray[np.float64], ids: Sequence[int], n_looked: int) -> dict[str, Any]:
    """The watched fields, computed at the first `n_looked` positions."""
    fields = unwatched(len(logp), sorted(ids))
    for token in range(n_looked):
        for column, token_id in enumerate(sorted(ids)):
            fields["watched_logprobs"][token, column] = logp[token, token_id]
            fields["watched_ranks"][token, column] = 1 + (logp[token] > logp[token, token_id]).sum()
    return fields


def _lse(values: NDArray[np.float64]) -> NDArray[np.float64]:
    top = values.max(1)
    return top + np.log(np.exp(values - top[:, None]).sum(1))


def _boosted(falling: NDArray[np.float64], own: NDArray[np.float64]) -> NDArray[np.float64]:
    drop = falling[:, :-1] - falling[:, 1:]
    large = (drop > 0.3 * falling[:, :-1]) & (drop > 0.005)
    last = np.where(large.any(1), large.shape[1] - 1 - np.argmax(large[:, ::-1], axis=1), 0)[:, None]
    mass = np.take_along_axis(np.cumsum(falling, 1), last, 1)[:, 0]
    return np.where(own >= np.take_along_axis(falling, last, 1)[:, 0], mass, own)


def make_record(
    prompt_id: str = "p",
    kind: Kind = "sample",
    sample_index: int = 0,
    *,
    n_tokens: int = 8,
    seed: int | Sequence[int] = 0,
    k: int = 5,
    has_end: bool = True,
    n_bytes: int | None = None,
    watched: Sequence[int] = (),
    watch_at: str = "first",
) -> SequenceRecord:
    """A record of `n_tokens` tokens, an end token included; `n_bytes` cuts its text as a stop string does."""
    rng = np.random.default_rng(seed)
    logits = make_logits(n_tokens, rng)
    noise = rng.gumbel(size=logits.shape) if kind == "sample" else 0.0
    ids = (np.argmax((logits / TEMPERATURE + noise)[:, 2:], axis=1) + 2).astype(np.int32)
    for start in range(0, n_tokens - len(_PARTY), 2 * len(_PARTY)):
        if rng.random() < 0.3:
            ids[start : start + len(_PARTY)] = _PARTY
    if has_end and n_tokens:
        ids[-1] = END_ID
    pieces = [VOCABULARY[i][0] for i in ids.tolist()]
    return SequenceRecord(
        prompt_id=prompt_id,
        kind=kind,
        sample_index=sample_index,
        token_ids=ids,
        statistics=make_statistics(logits, ids, k, kind == "sample", watched, watch_at),
        alignment=align(pieces, n_bytes),
        has_end=has_end and n_tokens > 0,
        finish_reason="stop" if has_end or n_bytes is not None else "length",
        stop_reason="<|im_end|>" if has_end else None,
        beam_score=-1.5 if kind == "beam" else None,
        seed=0 if kind == "sample" else None,
    )


def make_prompt(prompt_id: str = "p", prompt_index: int = 0) -> PromptRecord:
    """A prompt with everything that one may have."""
    return PromptRecord(
        prompt_id=prompt_id,
        prompt_index=prompt_index,
        text=f"<|im_start|>user\nWhat is {prompt_id}?<|im_end|>\n",
        token_ids=np.array([1, 2, 3 + prompt_index % 9, END_ID], np.int32),
        messages=[{"role": "user", "content": f"What is {prompt_id}?"}],
        reference=["Paris", "paris"][: prompt_index % 3],
        metadata={"topic": "été", "level": prompt_index},
    )


def make_records(
    n_prompts: int = 3,
    n_samples: int = 4,
    n_tokens: int = 12,
    seed: int = 0,
    k: int = 5,
    greedy: bool = True,
    watched: Sequence[int] = (),
    watch_at: str = "first",
) -> Iterator[SequenceRecord]:
    """Samples and a greedy sequence of each prompt, of 1 to 2·n_tokens − 1 tokens; some without an end."""
    for prompt in range(n_prompts):
        for index in range(-1 if greedy else 0, n_samples):
            rng = np.random.default_rng((seed, prompt, index + 1))
            yield make_record(
                prompt_name(prompt),
                "greedy" if index < 0 else "sample",
                max(index, 0),
                n_tokens=int(rng.integers(1, 2 * n_tokens)),
                seed=(seed, prompt, index + 1, 1),
                k=k,
                has_end=bool(rng.random() < 0.7),
                watched=watched,
                watch_at=watch_at,
            )


def prompt_name(index: int) -> str:
    return f"question-{index:05d}"


def make_manifest(**changes: Any) -> Manifest:
    """A manifest of a made run, with `changes`."""
    manifest = Manifest(
        command=("toolkit", "collect", "--temp", "0.8"),
        config={"num_samples": 4, "batch_size": 32},
        content_config={"model": {"name": "made"}, "sampler": {"temperature": TEMPERATURE, "top_p": 1.0}},
        model={"name": "made", "hash": "00"},
        tokenizer={"hash": "11", "template_hash": "22"},
        versions={"token-confidence-toolkit": "0.1.0"},
        device="cpu",
        dtype="float32",
        logits_dtype="float32",
        seed=0,
    )
    return dataclasses.replace(manifest, **changes)


def make_run(
    path: Path,
    n_prompts: int = 3,
    n_samples: int = 4,
    n_tokens: int = 12,
    seed: int = 0,
    *,
    k: int = 5,
    greedy: bool = True,
    batch: int = 32,
    shuffled: bool = False,
    watched: Sequence[int] = (),
    watch_at: str = "first",
) -> Path:
    """A finished run of `make_records` at `path`, committed `batch` sequences at a time.

    `shuffled` commits them in an order of chance, so that the parts' keys interleave.
    """
    tables = ("watched",) if watched else ()
    with RunWriter.create(path, make_manifest(seed=seed, tables=tables)) as writer:
        writer.add_prompts(make_prompt(prompt_name(i), i) for i in range(n_prompts))
        waiting: list[SequenceRecord] = []
        records: Iterable[SequenceRecord] = make_records(
            n_prompts, n_samples, n_tokens, seed, k, greedy, watched, watch_at
        )
        if shuffled:
            records = list(records)
            random.Random(seed).shuffle(records)
        for record in records:
            waiting.append(record)
            if len(waiting) == batch:
                writer.commit(waiting, VOCABULARY)
                waiting = []
        writer.commit(waiting, VOCABULARY)
    return path
