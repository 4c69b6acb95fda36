"""What is written is what is read; a commit is there whole or not at all."""

from __future__ import annotations

import dataclasses
import errno
import itertools
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.factory import (
    VOCABULARY,
    make_manifest,
    make_prompt,
    make_record,
    make_records,
    make_run,
    prompt_name,
)
from toolkit.errors import DataFault, ToolkitError
from toolkit.records import SequenceRecord
from toolkit.store import PromptTokens, RunWriter, Shard, begin, commit, open_run
from toolkit.store.layout import orphans
from toolkit.store.lock import RunLock
from toolkit.store.validate import validate


def write(path: Path, records: Iterable[SequenceRecord], **manifest: Any) -> Path:
    records = list(records)
    with RunWriter.create(path, make_manifest(**manifest)) as writer:
        writer.add_prompts(make_prompt(prompt_id) for prompt_id in sorted({r.prompt_id for r in records}))
        writer.commit(records, VOCABULARY)
    return path


def assert_equal(one: SequenceRecord, other: SequenceRecord) -> None:
    for field in dataclasses.fields(SequenceRecord):
        if field.name not in ("token_ids", "statistics", "alignment"):
            assert getattr(one, field.name) == getattr(other, field.name), field.name
    np.testing.assert_array_equal(one.token_ids, other.token_ids)
    for name, values in one.statistics._asdict().items():
        np.testing.assert_array_equal(values, getattr(other.statistics, name), err_msg=name)
        assert values.dtype == getattr(other.statistics, name).dtype, name
    for name in ("pieces", "text", "n_bytes", "segments"):
        assert getattr(one.alignment, name) == getattr(other.alignment, name), name
    np.testing.assert_array_equal(one.alignment.byte_start, other.alignment.byte_start)
    np.testing.assert_array_equal(one.alignment.byte_end, other.alignment.byte_end)


def alter(record: SequenceRecord, **columns: object) -> SequenceRecord:
    return dataclasses.replace(record, statistics=record.statistics._replace(**columns))


def altered(record: SequenceRecord, name: str, place: int, value: float) -> SequenceRecord:
    column = getattr(record.statistics, name).copy()
    column[place] = value
    return alter(record, **{name: column})


@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_records_come_back_as_they_were(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    n = data.draw(st.integers(1, 6))
    watched = data.draw(st.lists(st.integers(0, 60), max_size=4, unique=True))
    watch_at = data.draw(st.sampled_from(["first", "every"]))
    records = []
    for index in range(n):
        record = make_record(
            data.draw(st.sampled_from(["a", "é", "10", "9", " ", "../x", "ab"])),
            data.draw(st.sampled_from(["sample", "greedy", "beam", "scored"])),
            index,
            n_tokens=data.draw(st.integers(0, 30)),
            seed=data.draw(st.integers(0, 99)),
            k=data.draw(st.integers(0, 6)),
            has_end=data.draw(st.booleans()),
            watched=watched,
            watch_at=watch_at,
        )
        if data.draw(st.booleans()):
            record = alter(record, constrained_logprob=record.statistics.logprob - 1)
        records.append(record)
    path = write(tmp_path_factory.mktemp("trip") / "run", records, tables=("watched",) if watched else ())
    run = open_run(path)
    stored = {record.key: record for record in run.iter_sequences()}
    assert run.sequence_keys() == {record.key for record in records} == set(stored)
    for record in records:
        if record.statistics.alternative_ids.shape[0] == 0:  # widths are not kept where there are no tokens
            record = alter(
                record, **{n: v[:, :0] for n, v in record.statistics._asdict().items() if v.ndim == 2}
            )
        assert_equal(record, stored[record.key])
    assert list(validate(path)) == []


def test_a_text_cut_by_a_stop_string_keeps_its_tokens(tmp_path: Path) -> None:
    record = make_record(n_tokens=12, n_bytes=8, has_end=False)
    path = write(tmp_path / "run", [record])
    (stored,) = open_run(path).iter_sequences()
    assert_equal(record, stored)
    assert len(stored.token_ids) == 12
    assert len(stored.alignment.text.encode()) == 8
    assert list(validate(path)) == []


def test_not_computed_is_null_masked_is_minus_infinity_and_nan_is_never_stored(tmp_path: Path) -> None:
    record = make_record("p", "scored", n_tokens=4, k=0)
    nothing = np.full(4, np.nan, np.float32)
    record = alter(record, entropy=nothing, rank=np.zeros(4, np.int32), n_finite=np.zeros(4, np.int32))
    record = altered(record, "logprob", 1, -np.inf)
    record = altered(record, "top2_logprob", 2, -np.inf)
    run = open_run(write(tmp_path / "run", [record]))
    tokens = pq.read_table(run.part_path("tokens", run.parts()[0]))
    for name in ("constrained_logprob", "sampling_logprob", "entropy", "rank", "n_finite"):
        assert tokens[name].null_count == 4, name
    assert tokens["logprob"].to_pylist()[1] == -np.inf
    assert tokens["top2_logprob"].to_pylist()[2] == -np.inf
    for table in ("tokens", "sequences"):
        for column in pq.read_table(run.part_path(table, run.parts()[0])).columns:
            assert not any(value != value for value in column.to_pylist())
    sequence = pq.read_table(run.part_path("sequences", run.parts()[0])).to_pylist()[0]
    assert sequence["sum_logprob"] == -np.inf
    assert sequence["sum_sampling_logprob"] is None
    assert sequence["beam_score"] is None
    (back,) = run.iter_sequences()
    assert_equal(record, back)


def test_nan_where_null_has_no_meaning_is_an_error_and_stores_nothing(tmp_path: Path) -> None:
    good = make_record(n_tokens=4)
    alternatives = good.statistics.alternative_logprobs.copy()
    alternatives[2, 1] = np.nan
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt()])
        for bad in (altered(good, "logprob", 1, np.nan), alter(good, alternative_logprobs=alternatives)):
            with pytest.raises(ValueError, match="NaN is never stored"):
                writer.commit([bad], VOCABULARY)
    assert open_run(tmp_path / "run").parts() == ()


def test_only_finite_alternatives_are_stored(tmp_path: Path) -> None:
    record = make_record(n_tokens=3, k=4)
    logprobs, ids = record.statistics.alternative_logprobs.copy(), record.statistics.alternative_ids.copy()
    logprobs[1, 2:], ids[1, 3:] = -np.inf, -1
    run = open_run(
        write(tmp_path / "run", [alter(record, alternative_logprobs=logprobs, alternative_ids=ids)])
    )
    frame = run.alternatives_df()
    assert frame.groupby("token_index").size().tolist() == [4, 2, 4]
    assert frame["alternative_rank"].tolist() == [1, 2, 3, 4, 1, 2, 1, 2, 3, 4]


def test_sums_are_of_all_tokens_in_float64_the_end_token_included(tmp_path: Path) -> None:
    record = make_record(n_tokens=20, n_bytes=7)
    row = open_run(write(tmp_path / "run", [record])).sequences_df().iloc[0]
    assert row["sum_logprob"] == pytest.approx(sum(map(float, record.statistics.logprob)), abs=1e-12)
    assert row["sum_sampling_logprob"] == pytest.approx(
        sum(map(float, record.statistics.sampling_logprob)), abs=1e-12
    )


def test_special_tokens_have_no_bytes_and_vocabulary_names_them(tmp_path: Path) -> None:
    run = open_run(write(tmp_path / "run", [make_record(n_tokens=5)]))
    last = run.tokens_df().iloc[-1]
    assert last["is_special"]
    assert last["bytes"] is None
    assert run.vocabulary[int(last["token_id"])] == (None, "<|im_end|>", True)


def test_vocabulary_has_the_ids_that_occur_alternatives_among_them(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path / "run", batch=4))
    used = {*run.tokens_df()["token_id"], *run.alternatives_df()["token_id"]}
    assert set(run.vocabulary) == used
    assert all(run.vocabulary[token_id] == VOCABULARY[token_id] for token_id in used)
    assert len(run.parts("vocabulary")) > 1  # each commit adds what is new


def test_watched_tokens_are_stored_where_they_were_looked_at_and_are_in_vocabulary(tmp_path: Path) -> None:
    record = make_record(n_tokens=5, watched=(7, 50), k=0)
    logprobs = record.statistics.watched_logprobs.copy()
    logprobs[0, 1] = -np.inf
    run = open_run(write(tmp_path / "run", [alter(record, watched_logprobs=logprobs)], tables=("watched",)))
    rows = run.load("watched", ["token_index", "token_id", "logprob", "rank"]).to_pydict()
    ranks = record.statistics.watched_ranks[0].tolist()
    assert rows == {
        "token_index": [0, 0],
        "token_id": [7, 50],
        "logprob": [float(logprobs[0, 0]), -np.inf],
        "rank": ranks,
    }
    assert {7, 50} <= set(run.vocabulary)
    assert len(run.parts("watched")) == len(run.parts()) == 1


def test_watched_tokens_need_their_table_and_the_order_of_ids(tmp_path: Path) -> None:
    record = make_record(watched=(7, 50))
    with pytest.raises(ValueError, match="the run's manifest does not name the table watched"):
        write(tmp_path / "one", [record])
    turned = alter(record, watched_ids=record.statistics.watched_ids[:, ::-1])
    with pytest.raises(ValueError, match="watched tokens are not in the order of their ids"):
        write(tmp_path / "two", [turned], tables=("watched",))


def test_a_part_without_watched_rows_has_the_file_all_the_same(tmp_path: Path) -> None:
    path = write(tmp_path / "run", [make_record(n_tokens=0, has_end=False)], tables=("watched",))
    run = open_run(path)
    assert run.part_path("watched", run.parts()[0]).exists()
    assert list(validate(path)) == []


def test_a_lost_vocabulary_gets_the_watched_tokens_again(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", watched=(3, 60), k=0)
    for part in open_run(path).parts("vocabulary"):
        open_run(path).part_path("vocabulary", part).unlink()
    with RunWriter.open(path, make_manifest(tables=("watched",))) as writer:
        writer.restore_vocabulary(VOCABULARY)
    assert {3, 60} <= set(open_run(path).vocabulary)
    assert list(validate(path)) == []


def test_prompts_round_trip_and_are_stored_once(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        assert writer.add_prompts(make_prompt(prompt_name(i), i) for i in range(4)) == 4
        assert writer.add_prompts(make_prompt(prompt_name(i), i) for i in range(6)) == 2
    frame = open_run(tmp_path / "run").prompts_df()
    assert frame["prompt_index"].tolist() == list(range(6))
    assert frame["reference"].tolist() == [[], ["Paris"], ["Paris", "paris"]] * 2
    assert frame["token_ids"].iloc[3].tolist() == [1, 2, 6, 0]
    assert frame["metadata"].iloc[1] == '{"level": 1, "topic": "été"}'
    assert frame["messages"].iloc[1] == '[{"content": "What is question-00001?", "role": "user"}]'


def test_a_prompt_that_is_no_unicode_is_named(tmp_path: Path) -> None:
    bad = dataclasses.replace(make_prompt("bad"), text="\ud800")
    with (
        RunWriter.create(tmp_path / "run", make_manifest()) as writer,
        pytest.raises(ToolkitError, match="prompt 'bad' holds text that is no Unicode"),
    ):
        writer.add_prompts([make_prompt("good"), bad])


def test_prompt_tokens_are_stored_where_asked_for(tmp_path: Path) -> None:
    record = make_record(n_tokens=4, k=0)
    first_is_null = altered(record, "logprob", 0, np.nan)
    first_is_null = altered(first_is_null, "rank", 0, 0)
    tokens = PromptTokens("p", record.token_ids, record.alignment.pieces, first_is_null.statistics)
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt()])
        assert writer.add_prompt_tokens([tokens]) == 1
        assert writer.add_prompt_tokens([tokens]) == 0
    frame = open_run(tmp_path / "run").prompt_tokens_df()
    assert np.isnan(frame["logprob"].iloc[0])
    assert frame["logprob"].tolist()[1:] == record.statistics.logprob.tolist()[1:]
    assert frame["byte_end"].tolist() == record.alignment.byte_end.tolist()
    assert list(validate(tmp_path / "run")) == []


def test_rows_are_sorted_by_key_whatever_the_order_of_the_records(tmp_path: Path) -> None:
    records = [
        make_record(p, k, i) for p in ("b", "a", "é", "a2") for k in ("sample", "greedy") for i in (10, 2, 0)
    ]
    run = open_run(write(tmp_path / "run", records))
    rows = pq.read_table(run.part_path("sequences", run.parts()[0])).to_pylist()
    keys = [(row["prompt_id"], row["kind"], row["sample_index"]) for row in rows]
    assert keys == sorted(record.key for record in records)


def test_a_row_group_holds_whole_sequences_and_the_same_in_every_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = [make_record("p", sample_index=i, n_tokens=n) for i, n in enumerate([5, 9, 3, 40, 1, 9, 9])]
    monkeypatch.setattr(commit, "ROW_GROUP_TOKENS", 16)
    run = open_run(write(tmp_path / "run", records))
    groups = list(run.iter_groups(dict.fromkeys(("sequences", "tokens", "segments", "alternatives"))))
    assert [rows["tokens"].num_rows for rows in groups] == [14, 3, 40, 10, 9]
    for rows in groups:
        indices = set(rows["sequences"]["sample_index"].to_pylist())
        assert {i for name in rows for i in rows[name]["sample_index"].to_pylist()} == indices
    assert list(validate(run.path)) == []


def test_a_commit_that_fails_before_its_last_rename_leaves_the_run_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = make_run(tmp_path / "run", n_prompts=1)
    before = open_run(path).tokens_df()
    rename = commit.rename

    def fail(source: Path, target: Path) -> None:
        if target.parent.name == "sequences":
            assert sorted(
                p.name for p in path.iterdir() if list(p.glob("*-000002.parquet"))
            )  # the others are there
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    with RunWriter.open(path, make_manifest()) as writer:
        writer.add_prompts([make_prompt("new")])
        monkeypatch.setattr(commit, "rename", fail)
        with pytest.raises(DataFault, match=r"cannot write .*sequences.*Input/output error"):
            writer.commit([make_record("new")], VOCABULARY)
        assert ("new", "sample", 0) not in writer.keys
        assert orphans(path) == []
        monkeypatch.undo()
        assert open_run(path).tokens_df().equals(before)
        writer.commit([make_record("new")], VOCABULARY)  # and the writer goes on
    assert ("new", "sample", 0) in open_run(path).sequence_keys()
    assert list(validate(path)) == []


def test_data_reaches_the_disk_before_the_commit_point(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []

    def spy(step: str, original: Callable[..., None]) -> Callable[..., None]:
        def record(*paths: Path) -> None:
            last = paths[-1]
            table = last.name if step == "sync_folder" else last.parent.name
            if step != "rename":
                table = f"{step} {table}"
            steps.append(table)
            original(*paths)

        return record

    with RunWriter.create(tmp_path / "run", make_manifest(tables=("watched",))) as writer:
        writer.add_prompts([make_prompt()])
        writer.commit([make_record(seed=3, watched=(3, 5))], VOCABULARY)
        for step in ("sync_file", "rename", "sync_folder"):
            monkeypatch.setattr(commit, step, spy(step, getattr(commit, step)))
        writer.commit([make_record(sample_index=1, seed=3, watched=(3, 5))], VOCABULARY)
    data = ("tokens", "segments", "alternatives", "watched")
    point = steps.index("sequences")
    assert {f"sync_file {table}" for table in (*data, "sequences")} <= set(steps[:point])
    assert {f"sync_folder {table}" for table in data} <= set(steps[:point])
    assert steps[point + 1 :] == ["sync_folder sequences"]


FULL = """
import resource, sys
from pathlib import Path
from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record
from toolkit.errors import DataFault
from toolkit.store import RunWriter
writer = RunWriter.open(Path(sys.argv[1]), make_manifest())
writer.add_prompts([make_prompt("new")])
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (5000, hard))
try:
    writer.commit([make_record("new", n_tokens=400)], VOCABULARY)
except DataFault as fault:
    print(fault)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
writer.commit([make_record("new", n_tokens=400)], VOCABULARY)
writer.close()
"""


def test_a_disk_that_fills_up_in_the_middle_is_one_line_and_the_writer_can_go_on(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_prompts=1)
    command = [sys.executable, "-c", FULL, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert re.fullmatch(r"cannot write .*parquet: .*File too large.*\n", done.stdout), done.stdout
    assert ("new", "sample", 0) in open_run(path).sequence_keys()
    assert list(validate(path)) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record
from toolkit.store import RunWriter, commit
rename = commit.rename
def die(source, target):
    if target.parent.name == sys.argv[2] and target.parent.name != "vocabulary":
        os.kill(os.getpid(), signal.SIGKILL)
    rename(source, target)
writer = RunWriter.open(Path(sys.argv[1]), make_manifest())
writer.add_prompts([make_prompt("new")])
commit.rename = die
writer.commit([make_record("new")], VOCABULARY)
"""


@pytest.mark.parametrize("table", ["tokens", "segments", "alternatives", "sequences"])
def test_a_writer_killed_between_renames_leaves_a_whole_run_and_the_next_one_cleans_up(
    tmp_path: Path, table: str
) -> None:
    path = make_run(tmp_path / "run", n_prompts=1)
    before = open_run(path).tokens_df()
    done = subprocess.run([sys.executable, "-c", KILLED, str(path), table], check=False)
    assert done.returncode == -signal.SIGKILL
    assert open_run(path).tokens_df().equals(before)
    left = [p for p in path.rglob("*") if p.name.endswith(".tmp")]
    assert left
    with RunWriter.open(path, make_manifest()) as writer:
        assert orphans(path) == []
        assert not [p for p in path.rglob("*") if p.name.endswith(".tmp")]
        writer.commit([make_record("new")], VOCABULARY)
    assert list(validate(path)) == []


def test_a_resume_knows_what_is_stored(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    with RunWriter.resume(path, make_manifest(config={"num_samples": 99})) as writer:
        assert writer.keys == {record.key for record in make_records()}
        assert writer.prompt_ids == {prompt_name(i) for i in range(3)}
        with pytest.raises(ValueError, match="stored already"):
            writer.commit([next(make_records())], VOCABULARY)
    manifest = open_run(path).manifest
    assert len(manifest.sessions) == 2
    assert manifest.current is not None
    assert manifest.current.config["num_samples"] == 99
    assert manifest.config["num_samples"] == 4


def test_a_sequence_given_twice_or_without_its_prompt_is_an_error(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt()])
        with pytest.raises(ValueError, match="given twice"):
            writer.commit([make_record(), make_record()], VOCABULARY)
        with pytest.raises(ValueError, match="add_prompts comes first"):
            writer.commit([make_record("stranger")], VOCABULARY)
        assert writer.commit([], VOCABULARY) is None
    assert open_run(tmp_path / "run").parts() == ()


def test_a_record_whose_fields_do_not_fit_is_an_error(tmp_path: Path) -> None:
    record = make_record(n_tokens=4)
    short = record.statistics.rows(slice(3))
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt()])
        with pytest.raises(ValueError, match="has 4 tokens, but logprob has 3"):
            writer.commit([dataclasses.replace(record, statistics=short)], VOCABULARY)


def test_parts_of_two_writers_never_share_a_name(tmp_path: Path) -> None:
    writers = [RunWriter.resume(tmp_path / "run", make_manifest(), shard=Shard(i, 3)) for i in range(3)]
    for index, writer in enumerate(writers):
        writer.add_prompts([make_prompt(prompt_name(index), index)])
        for sample in range(2):
            writer.commit([make_record(prompt_name(index), sample_index=sample)], VOCABULARY)
    for writer in writers:
        writer.close()
    run = open_run(tmp_path / "run")
    assert len(set(run.parts())) == len(run.parts()) == 6
    assert len(run.sequence_keys()) == 6
    assert sorted(session.shard or "" for session in run.manifest.sessions) == ["0/3", "1/3", "2/3"]
    assert run.manifest.counts["sequences"] == 6
    assert list(validate(run.path)) == []


def before_line(n: int, functions: Iterable[Callable[..., Any]], action: Callable[[], None]) -> Any:
    """A trace function that does `action` before the n-th line that `functions` run, counted from 0."""
    codes, left = {function.__code__ for function in functions}, [n]

    def trace(frame: FrameType, event: str, _: object) -> Any:
        if frame.f_code in codes and event == "line":
            left[0] -= 1
            if left[0] == -1:
                sys.settrace(None)
                action()
        return trace if frame.f_code in codes else None

    return trace


@pytest.mark.parametrize("go_on", [True, False])
def test_shards_may_begin_a_run_at_the_same_moment(go_on: bool, tmp_path: Path) -> None:
    """Another shard makes the run between any two lines of making it."""
    without_guard = (begin.begin, begin._foreign_name, begin._make_folder)
    start = RunWriter.resume if go_on else RunWriter.create
    for n in itertools.count():
        path, others = tmp_path / "deep" / str(n), list[RunWriter]()

        def other(path: Path = path, others: list[RunWriter] = others) -> None:
            others.append(RunWriter.resume(path, make_manifest(), shard=Shard(1, 2)))

        sys.settrace(before_line(n, without_guard, other))
        try:
            start(path, make_manifest(), shard=Shard(0, 2)).close()
            refused = False
        except ToolkitError as error:
            refused = "already holds a run" in str(error)
        finally:
            sys.settrace(None)
        if not others:
            break
        assert refused is not go_on
        sessions = open_run(path).manifest.sessions
        assert {session.shard for session in sessions} == ({"0/2", "1/2"} if go_on else {"1/2"})
        others[0].close()
    assert n > 10


def test_a_folder_that_another_shard_works_in_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = RunLock.acquire

    def held_by_another(run: Path, writer: str, shard: Shard | None = None) -> RunLock:
        others.append(lock(run, "another", Shard(1, 2)))
        raise KeyboardInterrupt

    others = list[RunLock]()
    monkeypatch.setattr(RunLock, "acquire", held_by_another)
    with pytest.raises(KeyboardInterrupt):
        RunWriter.resume(tmp_path / "run", make_manifest(), shard=Shard(0, 2))
    assert (tmp_path / "run").is_dir()
    others[0].release()


def test_a_shard_leaves_the_files_of_another_that_is_in_the_middle_of_a_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "run"
    first = RunWriter.resume(path, make_manifest(), shard=Shard(0, 2))
    first.add_prompts([make_prompt()])
    rename = commit.rename

    def meanwhile(source: Path, target: Path) -> None:
        if target.parent.name == "sequences":
            with RunWriter.resume(path, make_manifest(), shard=Shard(1, 2)):
                pass
        rename(source, target)

    monkeypatch.setattr(commit, "rename", meanwhile)
    first.commit([make_record()], VOCABULARY)
    first.close()
    assert len(open_run(path).sequence_keys()) == 1
    assert list(validate(path)) == []


def test_other_settings_are_refused_and_change_nothing(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    before = sorted(p.name for p in path.rglob("*"))
    other = make_manifest(
        content_config={"model": {"name": "made"}, "sampler": {"temperature": 1.0, "top_p": 1.0}}
    )
    with pytest.raises(ToolkitError, match=r"sampler\.temperature: 0\.8 -> 1\.0"):
        RunWriter.resume(path, other)
    assert sorted(p.name for p in path.rglob("*")) == before
    RunWriter.resume(path, make_manifest()).close()  # the lock was given back


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    with (
        RunWriter.create(tmp_path / "run", make_manifest()),
        pytest.raises(ToolkitError, match=f"process {os.getpid()} on host"),
    ):
        RunWriter.open(tmp_path / "run", make_manifest())


def test_create_refuses_what_is_in_the_way(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    with pytest.raises(ToolkitError, match="already holds a run"):
        RunWriter.create(run, make_manifest())
    (tmp_path / "file").touch()
    with pytest.raises(ToolkitError, match="cannot make the folder"):
        RunWriter.create(tmp_path / "file", make_manifest())
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "thesis.txt").write_text("years of work")
    for overwrite in (False, True):
        with pytest.raises(ToolkitError, match=r"in use: it holds 'thesis\.txt' and no run"):
            RunWriter.create(tmp_path / "full", make_manifest(), overwrite=overwrite)
    with pytest.raises(ToolkitError, match="no run at"):
        RunWriter.open(tmp_path / "missing", make_manifest())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["file", "full", "run"]


def test_overwrite_replaces_a_run_and_leaves_other_files(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "notes.txt").write_text("mine")
    other = make_manifest(content_config={"model": "other"})
    with pytest.raises(ToolkitError, match="overwrite with shard"):
        RunWriter.create(run, other, overwrite=True, shard=Shard(0, 2))
    with RunWriter.create(run, other, overwrite=True) as writer:
        assert writer.keys == set()
    assert open_run(run).parts() == ()
    assert (run / "notes.txt").read_text() == "mine"


def test_a_folder_that_was_made_for_nothing_is_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise DataFault("cannot write: No space left on device")

    monkeypatch.setattr("toolkit.store.begin.write_manifest", full)
    with pytest.raises(DataFault):
        RunWriter.create(tmp_path / "run", make_manifest())
    assert list(tmp_path.iterdir()) == []


def test_a_session_ends_also_after_an_error(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path / "run", make_manifest())
    writer.add_prompts([make_prompt()])
    writer.commit([make_record()], VOCABULARY)
    with pytest.raises(KeyboardInterrupt), writer:
        raise KeyboardInterrupt
    (session,) = open_run(tmp_path / "run").manifest.sessions
    assert session.ended is not None
    assert session.counts == {"prompts": 1, "sequences": 1, "tokens": 8}
    with pytest.raises(ValueError, match="closed"):
        writer.commit([make_record(sample_index=1)], VOCABULARY)
