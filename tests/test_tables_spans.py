"""Frames of spans: which rows, in which order, of which runs, and what is refused."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from tests.spans.text_runs import cut, make_text_run, text_record
from tests.store.factory import make_run, prompt_name
from toolkit.errors import ToolkitError
from toolkit.store import Run, open_run, open_runs
from toolkit.store import reader as reader_module


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return open_run(make_run(tmp_path_factory.mktemp("spans") / "run", batch=4))


def test_rows_do_not_depend_on_the_files(tmp_path: Path) -> None:
    many, one = (open_run(make_run(tmp_path / str(batch), batch=batch)) for batch in (4, 100))
    for by in ("token", "segment", "word", "window:4:2", "sequence", "prompt"):
        pd.testing.assert_frame_equal(many.spans_df(by), one.spans_df(by))


def test_rows_come_in_the_order_of_the_key_whichever_was_collected_first(tmp_path: Path) -> None:
    made = [text_record(cut("one two", 2), prompt, "sample", i) for prompt in "ba" for i in (1, 0)]
    frame = open_run(make_text_run(tmp_path / "run", made)).spans_df("word")
    keys = [(*key, i) for key in sorted(record.key for record in made) for i in (0, 1)]
    names = ["prompt_id", "kind", "sample_index", "span_index"]
    assert list(frame[names].itertuples(index=False, name=None)) == keys


def test_what_is_not_computed_is_null_in_the_iterator_s_tables(run: Run) -> None:
    (table, *_) = run.iter_spans(lambda text: [(0, 0)], ["mean_logprob"])
    assert table.num_rows > 0
    assert table["mean_logprob"].null_count == table.num_rows


def test_the_iterator_reads_a_row_group_at_a_time_and_gives_the_same_rows(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = run.spans_df("word")

    def refuse(*_: object) -> None:
        raise AssertionError("a table was loaded whole")

    monkeypatch.setattr(reader_module.Run, "load", refuse)
    tables = list(run.iter_spans("word"))
    assert len(tables) == len(run.parts())
    assert sum(table.num_rows for table in tables) == len(whole)
    assert {name for table in tables for name in table.column_names} == set(whole.columns)
    assert all(isinstance(table, pa.Table) for table in tables)


def test_several_runs_stand_one_below_the_other(run: Run, tmp_path: Path) -> None:
    other = shutil.copytree(run.path, tmp_path / "other")
    frame = open_runs([run.path, other]).spans_df("word")
    assert frame.columns.tolist()[:4] == ["run", "model", "temperature", "top_p"]
    assert len(frame) == 2 * len(run.spans_df("word"))


def test_prompts_and_kinds_narrow_and_may_leave_nothing(run: Run) -> None:
    whole = run.spans_df("word")
    some = run.spans_df("word", prompts=prompt_name(1), kinds="greedy")
    expected = whole[(whole["prompt_id"] == prompt_name(1)) & (whole["kind"] == "greedy")].reset_index(
        drop=True
    )
    pd.testing.assert_frame_equal(some, expected)
    nothing = run.spans_df("word", prompts="unknown")
    assert nothing.empty
    assert nothing.columns.tolist() == whole.columns.tolist()
    assert nothing.dtypes.tolist() == whole.dtypes.tolist()


def test_random_numbers_go_on_from_block_to_block(run: Run) -> None:
    frame = run.spans_df("word", ["random"])
    assert len(frame) > 20
    assert frame["random"].is_unique


def test_wrong_names_are_refused(run: Run) -> None:
    with pytest.raises(ToolkitError, match="there is no span 'phrase'"):
        run.spans_df("phrase")
    with pytest.raises(ToolkitError, match="did you mean mean_logprob"):
        run.spans_df("word", ["mean_logprb"])
    with pytest.raises(ToolkitError, match="statistic of a prompt's samples"):
        run.spans_df("word", "number_of_classes")
    with pytest.raises(ToolkitError, match="weights: there is no 'half'; use one of whole, bytes"):
        run.spans_df("word", weights="half")
    with pytest.raises(ToolkitError, match="kinds: 'beams' is no kind"):
        run.spans_df("word", kinds="beams")


def test_a_table_that_would_not_fit_names_the_iterator(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("toolkit.store.memory.free_memory_bytes", lambda: 4096)
    with pytest.raises(ToolkitError, match=r"run\.iter_spans\(\)"):
        run.spans_df("word")


def test_columns_of_whole_tokens_do_not_weigh_bytes(run: Run) -> None:
    for by in ("window:3", "sequence", "token", "prompt"):
        pd.testing.assert_frame_equal(run.spans_df(by, weights="bytes"), run.spans_df(by))
