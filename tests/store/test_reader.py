"""Readers see whole commits, refuse what they cannot read in one line, and read only what is asked for."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
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
from toolkit.errors import DataFault, ToolkitError
from toolkit.store import RunWriter, memory, open_run, open_runs, schemas


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("reader") / "run", batch=5)


def test_what_is_no_run_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for name, words in (
        ("missing", "does not exist"),
        ("file", "it is a file"),
        ("folder", r"no manifest\.json"),
    ):
        with pytest.raises(ToolkitError, match=words) as caught:
            open_run(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


def test_records_come_in_parts_and_in_key_order_within_them(path: Path) -> None:
    run = open_run(path)
    assert len(run.parts()) == 3
    assert {record.key for record in run.iter_sequences()} == {record.key for record in make_records()}


def test_iteration_can_be_narrowed(path: Path) -> None:
    run = open_run(path)
    chosen = {r.key for r in run.iter_sequences(prompts=prompt_name(1), kinds=["greedy"])}
    assert chosen == {(prompt_name(1), "greedy", 0)}
    rows = pa.concat_tables(run.iter_row_groups("tokens", ["logprob"], prompts=[prompt_name(2)]))
    assert rows.column_names == ["logprob"]
    assert rows.num_rows == sum(len(r.token_ids) for r in make_records() if r.prompt_id == prompt_name(2))


@pytest.mark.parametrize(
    ("table", "filters", "message"),
    [
        ("prompts", {"kinds": ["greedy"]}, "kinds: prompts has no column kind to choose by"),
        ("prompt_tokens", {"kinds": "greedy"}, "kinds: prompt_tokens has no column kind"),
        ("vocabulary", {"prompts": ["x"]}, "prompts: vocabulary has no column prompt_id"),
        ("vocabulary", {"kinds": "greedy"}, "kinds: vocabulary has no column kind"),
    ],
)
def test_what_a_table_cannot_be_narrowed_by_is_refused(
    path: Path, table: str, filters: dict, message: str
) -> None:
    run = open_run(path)
    for read in (run.load, lambda *a, **b: list(run.iter_row_groups(*a, **b))):
        with pytest.raises(ToolkitError, match=message) as caught:
            read(table, **filters)
        assert not isinstance(caught.value, DataFault)
    if "prompts" in filters:
        with pytest.raises(ToolkitError, match=message):
            run.refuse_large(table, schemas.TABLES[table].names, filters["prompts"])


def test_row_groups_without_a_wanted_prompt_are_not_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[list[int]] = []
    original = pq.ParquetFile.read_row_groups

    def spy(self: pq.ParquetFile, groups: list[int], **options: object) -> pa.Table:
        read.append(groups)
        return original(self, groups, **options)

    monkeypatch.setattr(pq.ParquetFile, "read_row_groups", spy)
    list(open_run(path).iter_row_groups("tokens", ["logprob"], prompts=[prompt_name(0)]))
    assert len(read) == 1  # each part of this run holds one prompt


def test_a_reader_keeps_what_it_saw_while_a_writer_goes_on(tmp_path: Path) -> None:
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt()])
        writer.commit([make_record(sample_index=0)], VOCABULARY)
        run = open_run(tmp_path / "run")
        writer.commit([make_record(sample_index=1)], VOCABULARY)
        assert len(run.sequence_keys()) == 1
        assert len(open_run(tmp_path / "run").sequence_keys()) == 2


def test_files_that_were_not_committed_are_not_seen(tmp_path: Path, path: Path) -> None:
    run = Path(shutil.copytree(path, tmp_path / "run"))
    before = open_run(run).tokens_df()
    for table in ("tokens", "segments"):
        source = next((run / table).glob("*.parquet"))
        shutil.copy(source, source.with_name("part-20990101T000000-00000000-000001.parquet"))
        shutil.copy(source, source.with_name(".part.parquet.tmp"))
    assert open_run(run).tokens_df().equals(before)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-30])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def foreign(file: Path) -> None:
    file.write_text("prompt_id,text\n" * 99)


def another_table(file: Path) -> None:
    shutil.copy(next((file.parents[1] / "prompts").glob("*.parquet")), file)


def flipped(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for place in range(60, len(content) - 4000, 100):
        content[place] ^= 0x10
    file.write_bytes(content)


def gone(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("damage", [cut, empty, foreign, another_table, flipped, gone])
def test_a_damaged_file_is_one_line_that_names_it(
    tmp_path: Path, path: Path, damage: Callable[[Path], None]
) -> None:
    run = open_run(shutil.copytree(path, tmp_path / "run"))
    file = run.part_path("tokens", run.parts()[1])
    damage(file)
    for read in (run.tokens_df, lambda: list(run.iter_sequences())):
        with pytest.raises(DataFault) as caught:
            read()
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)


def test_an_unknown_major_version_is_refused_with_the_one_that_can_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(schemas, "SCHEMA_VERSION", "2.0")
        run = make_run(tmp_path / "run")
    with pytest.raises(
        ToolkitError, match=r"schema version '2\.0', and this version of the toolkit reads 1\.x"
    ):
        open_run(run).tokens_df()


def test_a_load_of_over_half_the_free_memory_is_refused_and_names_the_iterator(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(path)
    monkeypatch.setattr(memory, "free_memory_bytes", lambda: 20_000)
    with pytest.raises(ToolkitError, match=r"run\.iter_sequences\(\)") as caught:
        run.tokens_df()
    assert "tokens" in str(caught.value)
    assert len(run.tokens_df(columns=["logprob"], prompts=[prompt_name(0)])) > 0  # a smaller one is not
    monkeypatch.setattr(memory, "free_memory_bytes", lambda: None)
    run.tokens_df()


def test_the_estimate_is_near_what_a_load_takes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = open_run(path)
    asked: list[int] = []
    monkeypatch.setattr("toolkit.store.reader.refuse_large_load", lambda n, *_: asked.append(n))
    numbers = [c.name for c in schemas.TABLES["tokens"].columns if c.encoding in ("split", "delta")]
    frame = run.tokens_df(columns=numbers)
    key = 2 * 16 + 4  # bytes a row for the key, which is read too
    used = frame.memory_usage(index=False).sum() + key * len(frame)
    assert used <= asked[0] <= 4 * used


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda run: run.tokens_df(columns=["logprob", "logprop"]),
            "tokens has no column 'logprop'; it has prompt_id",
        ),
        (
            lambda run: run.tokens_df(kinds=["beams"]),
            "'beams' is no kind of sequence; allowed are beam, greedy",
        ),
        (lambda run: run.load("token"), "no table 'token'; there are prompts"),
        (lambda run: list(run.iter_row_groups("tokens", ["nothing"])), "no column 'nothing'"),
        (lambda run: open_runs([]), "no run was named"),
    ],
)
def test_wrong_arguments_are_named(path: Path, call: Callable[[object], object], words: str) -> None:
    with pytest.raises(ToolkitError, match=words):
        call(open_run(path))


def test_several_runs_carry_their_settings(tmp_path: Path, path: Path) -> None:
    other = shutil.copytree(path, tmp_path / "other")
    runs = open_runs([path, other])
    frame = runs.sequences_df(["n_tokens"])
    assert frame.columns.tolist() == ["run", "model", "temperature", "top_p", "n_tokens"]
    assert frame["run"].unique().tolist() == ["run", "other"]
    assert frame[["model", "temperature", "top_p"]].drop_duplicates().values.tolist() == [["made", 0.8, 1.0]]
    assert len(frame) == 30
    namesake = shutil.copytree(path, tmp_path / "more" / path.name)
    again = open_runs([path, namesake])
    assert again.sequences_df(["n_tokens"])["run"].unique().tolist() == [str(path), str(namesake)]
    assert [run.path for run in runs] == [path, other]
    assert len(open_runs(path)) == 1


def test_opening_reads_no_parquet_file(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pq, "ParquetFile", lambda *_, **__: pytest.fail("a file was opened"))
    run = open_run(path)
    assert len(run.parts()) == 3


def test_a_run_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    with pytest.raises(ToolkitError, match="named twice"):
        open_runs([path, tmp_path / "." / "run"])
    assert repr(open_runs([path])) == f"Runs(['{path}'])"
