"""A run exported in the shapes of OpenAI and ingested again has the same values where the shape carries them."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings

from tests.exporting.odd_runs import PIECES, Odd, odd_runs
from tests.exporting.test_responses import listed
from toolkit.collect.collector import Work, collect
from toolkit.collect.prompts import Prompt
from toolkit.collect.render import render_prompts
from toolkit.collect.settings import RenderSettings, Settings
from toolkit.exporting import response_text
from toolkit.ingest import ingest
from toolkit.store import Run, open_run, open_runs
from toolkit.store.schemas import SEQUENCES
from toolkit.store.validate import validate

CARRIED = ("bytes", "is_special", "logprob", "top1_logprob", "top2_logprob", "byte_start", "byte_end")


@contextmanager
def taken_back(run: Run, shape: Any) -> Iterator[Run]:
    with tempfile.TemporaryDirectory() as name, patch("toolkit.store.files._sync"):
        folder = Path(name)
        (folder / "out.jsonl").write_bytes(b"".join(response_text(open_runs([run.path]), shape)))
        ingest(folder / "out.jsonl", "openai", folder / "run")
        assert list(validate(folder / "run")) == []
        yield open_run(folder / "run")


def collected(model: Any, texts: list[str], path: Path) -> Run:
    """Samples and a greedy sequence of each text."""
    prompts = [Prompt(i, i + 1, prompt=text, reference=("x",)) for i, text in enumerate(texts)]
    records = render_prompts(model.tokenizer, prompts, RenderSettings())
    collect(Work(model, Settings(num_samples=3, greedy=True, max_tokens=12), records), path)
    return open_run(path)


def by_key(run: Run, table: str) -> dict[tuple[Any, ...], list[dict[str, Any]]]:
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in run.load(table).to_pylist():
        found.setdefault(tuple(row[name] for name in SEQUENCES.key), []).append(row)
    return found


@settings(max_examples=25, deadline=None)
@given(odd_runs())
def test_odd_sequences_come_back_from_chat_completions(odd: Odd) -> None:
    with odd.run(batch=2) as run, taken_back(run, "chat") as again:
        stored, heads = by_key(again, "tokens"), by_key(again, "sequences")
        for record in odd.sequences:
            kept = listed(record)
            rows = stored.get(record.key, [])
            assert [row["bytes"] for row in rows] == [record.alignment.pieces[i] for i in kept]
            logprobs = record.statistics.logprob[kept]
            np.testing.assert_array_equal([row["logprob"] for row in rows], logprobs)
            [head] = heads[record.key]
            assert (head["text"], head["n_bytes"]) == (record.alignment.text, record.alignment.n_bytes)
            assert (head["finish_reason"], head["stop_reason"]) == (record.finish_reason, record.stop_reason)
            assert (head["beam_score"], head["seed"]) == (record.beam_score, record.seed)
        assert by_key(run, "segments").keys() == by_key(again, "segments").keys()
        prompts = {row["prompt_id"]: row for row in again.load("prompts").to_pylist()}
        used = {record.prompt_id for record in odd.sequences}
        assert prompts == {
            r["prompt_id"]: r for r in run.load("prompts").to_pylist() if r["prompt_id"] in used
        }


@settings(max_examples=25, deadline=None)
@given(odd_runs())
def test_alternatives_come_back_in_their_order(odd: Odd) -> None:
    with odd.run(batch=2) as run, taken_back(run, "chat") as again:
        names, stored = again.vocabulary, by_key(again, "alternatives")
        for record in odd.sequences:
            kept, statistics = listed(record), record.statistics
            expected = [
                (
                    place,
                    rank + 1,
                    PIECES[statistics.alternative_ids[i, rank]],
                    statistics.alternative_logprobs[i, rank],
                )
                for place, i in enumerate(kept)
                for rank in range(statistics.alternative_ids.shape[1])
            ]
            got = [
                (row["token_index"], row["alternative_rank"], names[row["token_id"]].bytes, row["logprob"])
                for row in stored.get(record.key, [])
            ]
            assert got == expected


@pytest.mark.parametrize("shape", ["chat", "completion"])
def test_a_collected_run_comes_back(tmp_path: Path, tiny_model: Any, shape: Any) -> None:
    prompts = ["The end", "é 日本", "Once"]
    run = collected(tiny_model, prompts, tmp_path / "run")
    with taken_back(run, shape) as again:
        before, after = (by_key(one, "tokens") for one in (run, again))
        assert before.keys() == after.keys()
        for key, rows in before.items():
            for name in CARRIED:
                assert [row[name] for row in rows] == [row[name] for row in after[key]], name
            ranks = [row["rank"] if row["rank"] <= 5 else None for row in rows]
            assert [row["rank"] for row in after[key]] == ranks
        for table, names in (
            ("sequences", [name for name in SEQUENCES.names if name != "sum_sampling_logprob"]),
            ("prompts", ["prompt_id", "text", "token_ids", "messages", "reference"]),
            ("segments", ["text", "byte_start", "byte_end", "token_start", "token_end", "emitted_at"]),
            ("alternatives", ["token_index", "alternative_rank", "logprob"]),
        ):
            assert again.load(table, names).to_pydict() == run.load(table, names).to_pydict(), table
        ids, theirs = (one.load("alternatives", ["token_id"])["token_id"].to_pylist() for one in (run, again))
        assert [again.vocabulary[i].bytes for i in theirs] == [run.vocabulary[i].bytes for i in ids]
        assert again.manifest.model["name"] == run.manifest.model["name"]
