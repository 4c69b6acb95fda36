"""Watched tokens from a reader's side: frames with their text, runs without them, runs of schema 1.0."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record, make_run
from toolkit.errors import DataFault, ToolkitError
from toolkit.store import RunWriter, open_run, open_runs, schemas
from toolkit.store.compact import compact
from toolkit.store.manifest import read_manifest
from toolkit.store.validate import validate

WATCHED = (3, 7, 60)
COLUMNS = ["prompt_id", "kind", "sample_index", "token_index", "token_id", "logprob", "rank"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("watched") / "run", batch=4, watched=WATCHED, watch_at="every")


def test_a_frame_has_each_watched_token_at_each_position_with_its_text(path: Path) -> None:
    frame = open_run(path).watched_df()
    assert list(frame.columns) == [*COLUMNS, "literal"]
    assert len(frame) == len(WATCHED) * len(open_run(path).tokens_df())
    assert [VOCABULARY[i][1] for i in frame["token_id"]] == frame["literal"].tolist()
    keys = frame[["prompt_id", "kind", "sample_index", "token_index", "token_id"]]
    assert keys.equals(keys.sort_values(list(keys.columns), ignore_index=True))


def test_a_frame_can_be_narrowed(path: Path) -> None:
    run = open_run(path)
    frame = run.watched_df(columns=["literal", "rank"], prompts="question-00001", kinds="greedy")
    assert list(frame.columns) == ["literal", "rank"]
    n = len(run.tokens_df(prompts="question-00001", kinds="greedy"))
    assert frame["literal"].tolist() == [VOCABULARY[i][1] for i in WATCHED] * n
    assert list(run.watched_df(columns="logprob").columns) == ["logprob"]
    with pytest.raises(ToolkitError, match="watched has no column 'bytes'"):
        run.watched_df(columns="bytes")


def test_a_watched_token_that_was_drawn_has_the_values_of_tokens(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run", watched=range(2, 80), watch_at="every"))
    key = ["prompt_id", "kind", "sample_index", "token_index", "token_id"]
    both = run.watched_df().merge(run.tokens_df(), on=key, suffixes=("", "_drawn"))
    assert len(both) > 30
    assert (both["logprob"] == both["logprob_drawn"]).all()
    assert (both["rank"] == both["rank_drawn"]).all()


def test_a_run_without_watched_tokens_has_no_rows_and_is_read_as_ever(tmp_path: Path, path: Path) -> None:
    run = open_run(make_run(tmp_path / "none"))
    assert run.parts("watched") == ()
    assert not (run.path / "watched").exists()
    assert list(run.watched_df().columns) == [*COLUMNS, "literal"]
    assert len(run.watched_df()) == 0
    (rows,) = run.iter_groups({"watched": None, "tokens": ["token_id"]})
    assert (rows["watched"].num_rows, rows["tokens"].num_rows) == (0, len(run.tokens_df()))
    assert all(record.statistics.watched_ids.shape[1] == 0 for record in run.iter_sequences())
    both = open_runs([run.path, path]).watched_df()
    assert set(both["run"]) == {"run"}


def test_a_file_that_is_gone_is_a_fault_and_a_resume_moves_its_part_aside(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run", batch=4, watched=WATCHED))
    lost = run.parts()[1]
    run.part_path("watched", lost).unlink()
    with pytest.raises(DataFault, match=r"watched.*is gone"):
        run.watched_df()
    assert len(run.tokens_df())
    with RunWriter.open(run.path, make_manifest()) as writer:
        assert [damage.part for damage in writer.damage] == [lost]
    assert list(validate(run.path)) == []


def test_a_run_of_the_schema_before_opens_goes_on_and_is_compacted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    monkeypatch.setattr(schemas, "SCHEMA_VERSION", "1.0")
    with RunWriter.create(path, make_manifest(schema_version="1.0")) as writer:
        writer.add_prompts([make_prompt("old")])
        writer.commit([make_record("old")], VOCABULARY)
    monkeypatch.undo()
    values = json.loads((path / "manifest.json").read_text())
    del values["tables"]
    (path / "manifest.json").write_text(json.dumps(values))
    assert read_manifest(path).tables == ()
    assert list(validate(path)) == []
    with RunWriter.open(path, make_manifest()) as writer:
        writer.add_prompts([make_prompt("new")])
        writer.commit([make_record("new")], VOCABULARY)
    compact(path)
    run = open_run(path)
    assert [key[0] for key in sorted(run.sequence_keys())] == ["new", "old"]
    assert len(run.watched_df()) == 0
    assert list(validate(path)) == []


def test_compacting_keeps_the_watched_rows(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", batch=3, shuffled=True, watched=WATCHED)
    before = open_run(path).watched_df()
    result = compact(path)
    assert result.n_files_after == len(list(path.rglob("*.parquet"))) == 7
    assert len(list((path / "watched").iterdir())) == 1
    assert open_run(path).watched_df().equals(before)
    assert np.isfinite(before["logprob"]).all()
