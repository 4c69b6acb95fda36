"""Data frames equal a plain reading of the records."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.store.factory import (
    VOCABULARY,
    make_manifest,
    make_prompt,
    make_record,
    make_records,
    make_run,
    prompt_name,
)
from toolkit.alignment import align
from toolkit.errors import ToolkitError
from toolkit.records import SequenceRecord
from toolkit.store import Run, RunWriter, open_run, open_runs
from toolkit.store.schemas import TABLES
from toolkit.tables import segment_tokens_df, segments_df, sequences_df, tokens_df


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(make_run(tmp_path_factory.mktemp("tables") / "run", batch=4, shuffled=True))


@pytest.fixture(scope="module")
def records() -> list[SequenceRecord]:
    return sorted(make_records(), key=lambda record: record.key)


def test_tokens_are_those_of_the_records_sorted_by_key(run: Run, records: list[SequenceRecord]) -> None:
    frame = tokens_df(run)
    assert frame.columns.tolist() == TABLES["tokens"].names
    assert list(zip(frame["prompt_id"], frame["kind"], frame["sample_index"], strict=True)) == [
        record.key for record in records for _ in record.token_ids
    ]
    for name in ("logprob", "sampling_logprob", "entropy", "boosted_prob"):
        expected = np.concatenate([getattr(record.statistics, name) for record in records])
        np.testing.assert_array_equal(frame[name].to_numpy(), expected)
    assert frame["bytes"].tolist() == [piece for record in records for piece in record.alignment.pieces]


def test_segments_are_those_of_the_records_with_their_number_of_tokens(
    run: Run, records: list[SequenceRecord]
) -> None:
    frame = segments_df(run)
    segments = [segment for record in records for segment in record.alignment.segments]
    assert frame["text"].tolist() == [segment.text for segment in segments]
    assert frame["n_tokens"].tolist() == [segment.token_end - segment.token_start for segment in segments]
    assert frame.columns.tolist() == [*TABLES["segments"].names, "n_tokens"]


def test_sequences_and_prompts_are_those_of_the_records(run: Run, records: list[SequenceRecord]) -> None:
    frame = sequences_df(run)
    assert frame["text"].tolist() == [record.alignment.text for record in records]
    assert frame["finish_reason"].tolist() == [record.finish_reason for record in records]
    assert frame["stop_reason"].isna().tolist() == [record.stop_reason is None for record in records]
    assert run.prompts_df()["prompt_id"].tolist() == [prompt_name(i) for i in range(3)]


def test_a_large_seed_keeps_its_digits_beside_sequences_without_one(tmp_path: Path) -> None:
    seed = 2**62 + 1
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt()])
        drawn = dataclasses.replace(make_record(), seed=seed)
        writer.commit([drawn, make_record(kind="scored")], VOCABULARY)
    seeds = open_run(tmp_path / "run").sequences_df()["seed"]
    assert seeds.isna().tolist() == [False, True]
    assert int(seeds.iloc[0]) == seed


def test_keys_are_plain_text_so_that_grouping_has_no_empty_groups(run: Run) -> None:
    frame = run.tokens_df(["prompt_id", "kind", "sample_index", "logprob"], kinds=["greedy"])
    groups = frame.groupby(["prompt_id", "kind", "sample_index"])["logprob"].sum()
    assert len(groups) == 3
    assert isinstance(frame["kind"].iloc[0], str)


@pytest.mark.parametrize(
    "columns", [["logprob"], ["rank", "prompt_id"], ["n_finite", "token_index", "logprob"]]
)
def test_columns_come_as_asked_and_in_key_order(run: Run, columns: list[str]) -> None:
    pd.testing.assert_frame_equal(run.tokens_df(columns), run.tokens_df()[columns])


def test_segment_columns_may_include_the_computed_one(run: Run) -> None:
    pd.testing.assert_frame_equal(
        run.segments_df(["n_tokens", "text"]), run.segments_df()[["n_tokens", "text"]]
    )
    assert run.segments_df("text").columns.tolist() == ["text"]


@pytest.mark.parametrize("name", ["tokens_df", "segments_df", "sequences_df", "alternatives_df"])
def test_filters_equal_filtering_the_whole(run: Run, name: str) -> None:
    whole = getattr(run, name)()
    wanted = [prompt_name(0), prompt_name(2)]
    expected = whole[whole["prompt_id"].isin(wanted) & (whole["kind"] == "sample")].reset_index(drop=True)
    pd.testing.assert_frame_equal(getattr(run, name)(prompts=wanted, kinds="sample"), expected)
    assert getattr(run, name)(prompts=["unknown"]).empty


def test_only_what_is_asked_for_is_read(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    import pyarrow.parquet as pq

    asked = []
    original = pq.ParquetFile.read_row_groups

    def spy(self: pq.ParquetFile, groups: list[int], columns: list[str], **options: object) -> object:
        asked.append(columns)
        return original(self, groups, columns=columns, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", spy)
    run.tokens_df(["logprob"])
    assert {tuple(sorted(columns)) for columns in asked} == {("kind", "logprob", "prompt_id", "sample_index")}


def plain_pairs(records: list[SequenceRecord]) -> list[tuple[object, ...]]:
    rows = []
    for record in records:
        alignment = record.alignment
        for index, segment in enumerate(alignment.segments):
            for token, piece in enumerate(alignment.pieces):
                own = range(int(alignment.byte_start[token]), int(alignment.byte_end[token]))
                shared = set(own) & set(range(segment.byte_start, segment.byte_end))
                if shared and piece is not None:
                    rows.append((*record.key, index, token, len(shared) / len(piece)))
    return rows


def test_segment_tokens_equal_a_plain_loop_over_bytes(run: Run, records: list[SequenceRecord]) -> None:
    frame = segment_tokens_df(run)
    names = ["prompt_id", "kind", "sample_index", "segment_index", "token_index", "share"]
    assert list(frame[names].itertuples(index=False, name=None)) == plain_pairs(records)
    tokens = run.tokens_df().set_index(["prompt_id", "kind", "sample_index", "token_index"])
    own = tokens.loc[pd.MultiIndex.from_frame(frame[tokens.index.names])]
    for name in ("token_id", "logprob", "entropy"):
        assert frame[name].tolist() == own[name].tolist()


def test_a_token_that_straddles_two_segments_is_in_both_and_its_shares_add_up(run: Run) -> None:
    frame = run.segment_tokens_df()
    assert frame["share"].between(0, 1, inclusive="right").all()
    total = frame.groupby(["prompt_id", "kind", "sample_index", "token_index"])["share"].sum()
    np.testing.assert_allclose(total, 1.0)


def test_a_special_token_inside_a_character_is_in_no_segment(tmp_path: Path) -> None:
    pieces = [*(bytes([byte]) for byte in "🎉".encode()), b" so"]
    pieces.insert(2, None)
    record = make_record(n_tokens=len(pieces), has_end=False)
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt()])
        writer.commit([dataclasses.replace(record, alignment=align(pieces))], VOCABULARY)
    frame = open_run(tmp_path / "run").segment_tokens_df()
    assert frame["token_index"].tolist() == [0, 1, 3, 4, 5]
    assert frame["segment_index"].tolist() == [0, 0, 0, 0, 1]


def test_segment_tokens_can_be_narrowed_and_may_be_none(run: Run) -> None:
    whole = run.segment_tokens_df()
    some = run.segment_tokens_df(prompts=prompt_name(1), kinds=["sample"])
    expected = whole[(whole["prompt_id"] == prompt_name(1)) & (whole["kind"] == "sample")]
    pd.testing.assert_frame_equal(some, expected.reset_index(drop=True))
    nothing = run.segment_tokens_df(prompts="unknown")
    assert nothing.empty
    assert nothing.columns.tolist() == whole.columns.tolist()


def test_an_empty_run_has_empty_frames_of_the_same_columns(tmp_path: Path, run: Run) -> None:
    empty = open_run(make_run(tmp_path / "empty", n_prompts=0))
    for name in (
        "tokens_df",
        "segments_df",
        "sequences_df",
        "alternatives_df",
        "prompts_df",
        "segment_tokens_df",
    ):
        frame = getattr(empty, name)()
        assert frame.empty
        assert frame.columns.tolist() == getattr(run, name)().columns.tolist()
    assert list(empty.iter_sequences()) == []
    assert empty.vocabulary == {}


def test_several_runs_stand_one_below_the_other(run: Run, tmp_path: Path) -> None:
    other = shutil.copytree(run.path, tmp_path / "other")
    frame = open_runs([run.path, other]).segment_tokens_df()
    assert frame.columns.tolist()[:4] == ["run", "model", "temperature", "top_p"]
    half = len(frame) // 2
    own = run.segment_tokens_df()
    pd.testing.assert_frame_equal(frame.iloc[:half, 4:], own)
    pd.testing.assert_frame_equal(frame.iloc[half:, 4:].reset_index(drop=True), own)


def test_a_wrong_column_is_named(run: Run) -> None:
    with pytest.raises(ToolkitError, match="segments has no column 'txt'"):
        run.segments_df(["txt", "n_tokens"])
