"""Each rule of a run finds the damage that it is for, and names file and row."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.store.factory import VOCABULARY, make_manifest, make_prompt, make_record, make_run
from toolkit.errors import ToolkitError
from toolkit.store import Run, RunWriter, open_run
from toolkit.store.manifest import write_manifest
from toolkit.store.parquet import read_rows, writing_file
from toolkit.store.rules import CONTENT, STRUCTURE
from toolkit.store.schemas import GROUPS, TABLES
from toolkit.store.validate import Finding, validate

Change = Callable[[list[dict[str, Any]]], None]

WATCHED = (0, 7, 40)  # at every position, so that row 3 of watched is the first of the second token


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("validate") / "run"
    return make_run(path, n_prompts=2, n_samples=2, watched=WATCHED, watch_at="every")


@pytest.fixture
def run(good: Path, tmp_path: Path) -> Run:
    return open_run(shutil.copytree(good, tmp_path / "run"))


def rewrite(run: Run, table: str, groups: list[pa.Table]) -> Path:
    """Write a table's only file anew, as the writer would."""
    path = run.part_path(table, run.parts(table)[0])
    with writing_file(path, table) as writer:
        for rows in groups:
            writer.write_table(rows.cast(TABLES[table].schema), row_group_size=max(rows.num_rows, 1))
    return path


def change(run: Run, table: str, edit: Change) -> Path:
    path = run.part_path(table, run.parts(table)[0])
    rows = read_rows(path, table).cast(TABLES[table].schema).to_pylist()
    edit(rows)
    return rewrite(run, table, [pa.Table.from_pylist(rows, TABLES[table].schema)])


def put(row: int, name: str, value: Any) -> Change:
    """Set a value, or apply a function to it."""

    def edit(rows: list[dict[str, Any]]) -> None:
        rows[row][name] = value(rows[row][name]) if callable(value) else value

    return edit


def swap(one: int, other: int) -> Change:
    def edit(rows: list[dict[str, Any]]) -> None:
        rows[one], rows[other] = rows[other], rows[one]

    return edit


def repeat(row: int) -> Change:
    return lambda rows: rows.insert(row, rows[row])


def drop(row: int) -> Change:
    return lambda rows: rows.pop(row) and None


def put_all(name: str, value: Any) -> Change:
    """Set a value in all rows."""

    def edit(rows: list[dict[str, Any]]) -> None:
        for row in rows:
            row[name] = value

    return edit


def as_the_token(run: Run) -> int:
    """A row of watched whose token is the one that the sequence has there."""
    drawn = {(*r.key, t): i for r in run.iter_sequences() for t, i in enumerate(r.token_ids.tolist())}
    rows = run.load("watched").to_pylist()
    keys = [(r["prompt_id"], r["kind"], r["sample_index"], r["token_index"]) for r in rows]
    return next(
        i for i, (key, row) in enumerate(zip(keys, rows, strict=True)) if drawn[key] == row["token_id"]
    )


NAN = float("nan")
DAMAGES: list[tuple[str, str, Change, int | None]] = [
    ("sorted", "tokens", swap(0, 1), 1),
    ("sorted", "sequences", swap(0, 1), 1),
    ("sorted", "segments", swap(2, 3), 3),
    ("sorted", "tokens", repeat(0), 1),
    ("sorted", "alternatives", swap(0, 1), 1),
    ("sorted", "prompts", swap(0, 1), 1),
    ("has a sequence", "tokens", put(-1, "sample_index", 9), None),
    ("has a sequence", "alternatives", put(-1, "sample_index", 9), None),
    ("counts", "sequences", put(1, "n_tokens", 99), 1),
    ("counts", "tokens", drop(-1), 5),
    ("counts", "prompts", put(1, "n_tokens", 9), 1),
    ("no NaN", "tokens", put(2, "entropy", NAN), 2),
    ("no NaN", "tokens", put(2, "logprob", NAN), 2),
    ("no NaN", "sequences", put(1, "sum_logprob", NAN), 1),
    ("known words", "sequences", put(1, "finish_reason", "bored"), 1),
    ("positions", "tokens", put(0, "token_index", -1), 0),
    ("positions", "segments", put(0, "segment_index", -1), 0),
    ("ranges cover", "tokens", put(1, "byte_start", lambda v: v + 1), 1),
    ("ranges cover", "segments", put(1, "byte_start", lambda v: v + 1), 1),
    ("ranges cover", "segments", put(1, "char_start", lambda v: v + 1), 1),
    ("token bytes", "tokens", put(1, "bytes", b"longer than it was"), 1),
    ("token bytes", "tokens", put(1, "is_special", True), 1),
    ("vocabulary", "tokens", put(1, "token_id", 99_999), 1),
    ("vocabulary", "tokens", put(1, "bytes", lambda v: v[:-1] + b"!"), 1),
    ("vocabulary", "alternatives", put(4, "token_id", 99_999), 4),
    ("bytes decode", "sequences", put(2, "text", lambda v: v + "!"), 2),
    ("bytes decode", "sequences", put(2, "n_bytes", 9999), 2),
    ("segments join", "segments", put(1, "text", lambda v: "?" * len(v)), 0),
    ("segments join", "sequences", put(2, "n_bytes", lambda v: v - 1), 2),
    ("segment length", "segments", put(1, "char_end", lambda v: v + 1), 1),
    ("segment tokens", "segments", put(1, "token_start", lambda v: v - 1), 1),
    ("segment tokens", "segments", put(1, "token_end", lambda v: v + 1), 1),
    ("segment tokens", "segments", put(1, "emitted_at", 0), 1),
    ("segment tokens", "segments", put(1, "emitted_at", 9999), 1),
    ("sums", "sequences", put(1, "sum_logprob", lambda v: v - 0.01), 1),
    ("sums", "sequences", put(1, "sum_sampling_logprob", None), 1),
    ("log-probabilities", "tokens", put(1, "logprob", 0.01), 1),
    ("log-probabilities", "tokens", put(1, "sampling_logprob", 0.01), 1),
    ("log-probabilities", "tokens", put(1, "logprob", lambda v: 0.0), 1),
    ("log-probabilities", "alternatives", put(1, "logprob", 0.01), 1),
    ("alternatives", "alternatives", put(1, "logprob", 0.0), 1),
    ("alternatives", "alternatives", put(1, "logprob", float("-inf")), 1),
    ("alternatives", "alternatives", drop(0), 0),
    ("alternatives", "alternatives", put(-1, "token_index", 9999), None),
    ("sorted", "watched", swap(0, 1), 1),
    ("has a sequence", "watched", put(-1, "sample_index", 9), None),
    ("no NaN", "watched", put(2, "logprob", NAN), 2),
    ("vocabulary", "watched", put(2, "token_id", 99_999), 2),
    ("log-probabilities", "watched", put(1, "logprob", 0.01), 1),
    ("watched values", "watched", put(1, "rank", 0), 1),
    ("watched values", "watched", put(1, "logprob", 0.0), 1),
    ("watched values", "watched", put_all("rank", 7), None),
    ("watched positions", "watched", drop(4), 3),
    ("watched positions", "watched", put(4, "token_id", 8), 4),
    ("watched positions", "watched", put(-1, "token_index", 9999), None),
    ("watched everywhere", "watched", lambda rows: rows.__delitem__(slice(-3, None)), 5),
    ("watched everywhere", "watched", lambda rows: rows.clear(), 0),
    ("prompt known", "prompts", put(0, "prompt_id", "a stranger"), None),
]


def test_a_good_run_has_no_findings(run: Run) -> None:
    assert list(validate(run.path)) == []


@pytest.mark.parametrize(("rule", "table", "edit", "row"), DAMAGES)
def test_each_damage_is_named(run: Run, rule: str, table: str, edit: Change, row: int | None) -> None:
    change(run, table, edit)
    found = [finding for finding in validate(run.path) if finding.rule == rule]
    assert found, "no finding of this rule"
    assert all(Path(finding.file).is_file() for finding in found)
    assert row is None or row in [finding.row for finding in found]


@pytest.mark.parametrize(("column", "wrong"), [("logprob", lambda v: v - 0.1), ("rank", lambda v: v + 1)])
def test_a_watched_token_that_was_drawn_has_the_values_of_tokens(
    run: Run, column: str, wrong: Callable[[Any], Any]
) -> None:
    row = as_the_token(run)
    change(run, "watched", put(row, column, wrong))
    found = [finding for finding in validate(run.path) if finding.rule == "watched values"]
    assert [finding.row for finding in found] == [row]


def test_tokens_watched_at_the_first_position_pass_and_one_left_out_is_named(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_prompts=2, n_samples=2, watched=WATCHED)
    assert list(validate(path)) == []
    change(open_run(path), "watched", lambda rows: rows.__delitem__(slice(0, 3)))
    (finding,) = validate(path)
    assert (finding.rule, finding.row) == ("watched everywhere", 0)


def test_a_file_of_watched_tokens_that_is_gone_is_named(run: Run) -> None:
    path = run.part_path("watched", run.parts()[0])
    path.unlink()
    assert ("readable", str(path)) in [(finding.rule, finding.file) for finding in validate(run.path)]


def test_watched_tokens_that_the_manifest_does_not_name_are_found(run: Run) -> None:
    write_manifest(run.path, dataclasses.replace(run.manifest, tables=(), sessions=()))
    (finding,) = [finding for finding in validate(run.path) if finding.rule == "known table"]
    assert "the manifest does not name watched" in finding.message


def test_every_rule_of_a_row_group_has_a_damage_here() -> None:
    assert {rule.name for rule in (*STRUCTURE, *CONTENT)} <= {damage[0] for damage in DAMAGES}


def test_a_finding_reads_as_a_line(run: Run) -> None:
    path = change(run, "tokens", put(1, "logprob", 0.5))
    lines = [str(finding) for finding in validate(run.path)]
    assert f"{path}, row 1: log-probabilities: is above 0, or above the most likely one" in lines
    assert str(Finding("readable", "a.parquet", None, "is gone")) == "a.parquet: readable: is gone"


def test_more_rows_are_counted(run: Run) -> None:
    def edit(rows: list[dict[str, Any]]) -> None:
        for row in rows[2:7]:
            row["entropy"] = NAN

    change(run, "tokens", edit)
    (finding,) = [finding for finding in validate(run.path) if finding.rule == "no NaN"]
    assert (finding.row, finding.message) == (2, "holds a NaN (and 4 more rows)")


def split(run: Run, table: str, at: int) -> Path:
    rows = read_rows(run.part_path(table, run.parts()[0]), table)
    return rewrite(run, table, [rows.slice(0, at), rows.slice(at)])


def test_a_sequence_over_two_row_groups_is_named(run: Run) -> None:
    boundary = 3  # sequences
    counts = np.cumsum(run.sequences_df()["n_tokens"])
    segments = run.segments_df().groupby(["prompt_id", "kind", "sample_index"]).size().cumsum()
    alternatives = run.alternatives_df().groupby(["prompt_id", "kind", "sample_index"]).size().cumsum()
    split(run, "sequences", boundary)
    split(run, "segments", int(segments.iloc[boundary - 1]))
    split(run, "alternatives", int(alternatives.iloc[boundary - 1]))
    split(run, "tokens", int(counts[boundary - 1]))
    split(run, "watched", int(counts[boundary - 1]) * len(WATCHED))
    assert list(validate(run.path)) == []
    path = split(run, "tokens", int(counts[boundary - 1]) - 1)
    named = [finding for finding in validate(run.path) if finding.rule == "one row group"]
    assert [(finding.file, finding.row) for finding in named] == [(str(path), int(counts[boundary - 1]) - 1)]


def test_tables_of_a_part_that_differ_in_row_groups_are_named(run: Run) -> None:
    path = split(run, "tokens", 5)
    named = [finding for finding in validate(run.path) if finding.rule == "one row group"]
    assert str(path) in [finding.file for finding in named]


def test_a_sequence_in_two_parts_is_named(run: Run) -> None:
    part = run.parts()[0]
    for table in GROUPS["sequences"]:
        source = run.part_path(table, part)
        shutil.copy(source, source.with_stem("part-20990101T000000-00000000-000001"))
    named = [finding for finding in validate(run.path) if finding.rule == "unique keys"]
    assert [finding.row for finding in named] == [0, 0]


def test_an_orphan_is_named_and_a_leftover_of_a_live_writer_is_not(run: Run) -> None:
    source = run.part_path("tokens", run.parts()[0])
    orphan = source.with_stem("part-20990101T000000-00000000-000001")
    shutil.copy(source, orphan)
    assert [finding.file for finding in validate(run.path) if finding.rule == "orphan"] == [str(orphan)]
    with RunWriter.open(run.path, make_manifest()) as writer:
        shutil.copy(source, source.with_stem(f"part-{writer.session_id}-000009"))
        assert list(validate(run.path)) == []


@pytest.mark.parametrize("content", [b"", b"PAR1", b"prompt_id,kind\n"])
def test_an_unreadable_file_is_one_finding_and_the_rest_is_looked_at(run: Run, content: bytes) -> None:
    path = run.part_path("tokens", run.parts()[0])
    path.write_bytes(content)
    change(run, "prompts", put(1, "n_tokens", 9))
    found = {(finding.rule, finding.file) for finding in validate(run.path)}
    assert ("readable", str(path)) in found
    assert ("counts", str(run.part_path("prompts", run.parts("prompts")[0]))) in found


def test_a_column_of_another_type_is_named(run: Run) -> None:
    path = run.part_path("vocabulary", run.parts("vocabulary")[0])
    rows = pq.read_table(path)
    spec = TABLES["vocabulary"]
    other = dataclasses.replace(
        spec, columns=tuple(dataclasses.replace(c, nullable=True) for c in spec.columns)
    )
    options = other.writer_options
    with pq.ParquetWriter(path, other.schema, **options) as writer:
        writer.add_key_value_metadata({**spec.metadata, "toolkit.crc32": "0" * 16})
        writer.write_table(rows.cast(other.schema))
    from toolkit.store.seal import seal

    seal(path)
    assert ("schema", str(path)) in [(finding.rule, finding.file) for finding in validate(run.path)]


def test_a_lost_part_is_missed_by_the_counts_of_its_session(run: Run) -> None:
    for table in reversed(GROUPS["sequences"]):
        run.part_path(table, run.parts()[0]).unlink()
    (finding,) = validate(run.path)
    assert (finding.rule, finding.message) == (
        "counts",
        "its sessions committed 6 sequences, and the run holds 0",
    )


def test_an_altered_manifest_is_a_finding(run: Run) -> None:
    file = run.path / "manifest.json"
    values = json.loads(file.read_text())
    values["content_config"]["sampler"]["temperature"] = 0.1
    file.write_text(json.dumps(values))
    assert [finding.rule for finding in validate(run.path)] == ["manifest"]


def test_what_is_no_run_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ToolkitError, match="no run"):
        list(validate(tmp_path))


@pytest.mark.parametrize("kind", ["greedy", "beam", "scored"])
def test_good_sequences_of_every_kind_pass(tmp_path: Path, kind: Any) -> None:
    def records() -> Iterator[Any]:
        for index, n_tokens in enumerate((0, 1, 2, 30)):
            yield make_record("p", kind, index, n_tokens=n_tokens, seed=index, k=index)

    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt()])
        writer.commit(list(records()), VOCABULARY)
    assert list(validate(tmp_path / "run")) == []
