"""Compacting changes the files and nothing else, whenever it is interrupted and whoever reads meanwhile."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record, make_run
from toolkit.errors import DataFault, ToolkitError
from toolkit.store import Run, RunWriter, open_run
from toolkit.store.compact import compact
from toolkit.store.validate import validate

FRAMES = (
    "tokens_df",
    "segments_df",
    "sequences_df",
    "alternatives_df",
    "prompts_df",
    "segment_tokens_df",
    "watched_df",
)
WATCHED = (0, 7, 40)


def frames(run: Run) -> dict[str, pd.DataFrame]:
    return {name: getattr(run, name)() for name in FRAMES}


def assert_same(one: dict[str, pd.DataFrame], other: dict[str, pd.DataFrame]) -> None:
    for name in FRAMES:
        pd.testing.assert_frame_equal(one[name], other[name])


def n_files(path: Path) -> int:
    return len(list(path.rglob("*.parquet")))


def test_many_parts_become_few_with_the_same_rows(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_prompts=6, batch=3)
    before, vocabulary = frames(open_run(path)), open_run(path).vocabulary
    n_parts, files = len(open_run(path).parts()), n_files(path)
    assert n_parts > 5
    result = compact(path)
    assert (result.n_before, result.n_files_before) == (n_parts, files)
    assert (result.n_after, result.n_files_after, result.n_files_kept) == (1, 6, 0)
    run = open_run(path)
    assert len(run.parts()) == 1
    assert n_files(path) == 6
    assert_same(before, frames(run))
    assert run.vocabulary == vocabulary
    assert list(validate(path)) == []


def test_parts_are_filled_up_to_the_target(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_prompts=6, batch=3)
    before = frames(open_run(path))
    compact(path, target_tokens=100)
    run = open_run(path)
    sizes = [sum(rows["n_tokens"].to_pylist()) for rows in run.iter_row_groups("sequences", ["n_tokens"])]
    assert 1 < len(sizes) < 10
    assert max(sizes) <= 100
    assert_same(before, frames(run))
    assert list(validate(path)) == []


def test_a_second_time_there_is_nothing_to_do(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", batch=3)
    compact(path)
    parts = open_run(path).parts()
    result = compact(path)
    assert result.n_before == result.n_after
    assert open_run(path).parts() == parts


def test_a_reader_that_was_there_before_still_reads_and_files_go_with_the_next_writer(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", batch=3)
    reader = open_run(path)
    before = frames(open_run(path))
    kept = compact(path).n_files_kept
    assert kept > 0
    assert_same(before, frames(reader))
    assert_same(before, frames(open_run(path)))
    assert list(validate(path)) == []
    del reader
    RunWriter.open(path, make_manifest()).close()
    assert n_files(path) == 6
    assert_same(before, frames(open_run(path)))


KILLED = """
import os, signal, sys
from pathlib import Path
from toolkit.store import commit, compact, layout
place, step = sys.argv[2].split(":")
module = {"commit": commit, "layout": layout, "compact": compact}[place]
original, count = getattr(module, step), int(sys.argv[3])
def die(*arguments):
    global count
    count -= 1
    if count < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*arguments)
setattr(module, step, die)
compact.compact(Path(sys.argv[1]))
"""


@pytest.mark.parametrize(
    ("step", "count"),
    [
        ("compact:record_replacement", 0),
        ("compact:commit_part", 0),
        ("commit:rename", 0),
        ("commit:rename", 3),
        ("commit:rename", 4),
        ("commit:rename", 5),
        ("compact:remove_replaced", 0),
        ("layout:_remove_parts", 0),
        ("layout:sync_folder", 0),
    ],
)
def test_killed_anywhere_the_run_is_whole_and_can_go_on(tmp_path: Path, step: str, count: int) -> None:
    path = make_run(tmp_path / "run", batch=3, watched=WATCHED, watch_at="every")
    before = frames(open_run(path))
    assert len(before["watched_df"])
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), step, str(count)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert_same(before, frames(open_run(path)))
    with RunWriter.open(path, make_manifest()) as writer:
        writer.add_prompts([make_prompt("new")])
        writer.commit([make_record("new", watched=WATCHED, watch_at="every")], VOCABULARY)
    assert list(validate(path)) == []
    compact(path)
    assert len(open_run(path).sequence_keys()) == 16
    assert len(list(path.glob("watched/*.parquet"))) == len(open_run(path).parts())
    assert list(validate(path)) == []


def test_a_run_that_is_being_written_is_refused(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    with RunWriter.open(path, make_manifest()), pytest.raises(ToolkitError, match="is being written"):
        compact(path)


def test_a_damaged_run_is_left_as_it_is(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", batch=3)
    run = open_run(path)
    run.part_path("tokens", run.parts()[0]).write_bytes(b"")
    count = n_files(path)
    with pytest.raises(DataFault, match="is damaged"):
        compact(path)
    assert n_files(path) == count
