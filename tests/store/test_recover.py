"""What a crash or a bad disk leaves is moved out of the way, and only that is collected again."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest

from tests.store.factory import VOCABULARY, make_manifest, make_records, make_run
from toolkit.store import RunWriter, open_run
from toolkit.store.layout import orphans
from toolkit.store.manifest import write_session
from toolkit.store.recover import find_damage
from toolkit.store.validate import validate


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def test_a_sound_run_has_no_damage(tmp_path: Path) -> None:
    assert list(find_damage(make_run(tmp_path / "run"))) == []


@pytest.mark.parametrize("table", ["tokens", "segments", "alternatives", "sequences"])
@pytest.mark.parametrize("place", [100, -400])
def test_a_damaged_part_is_moved_aside_and_only_its_sequences_are_missing(
    tmp_path: Path, table: str, place: int
) -> None:
    path = make_run(tmp_path / "run", batch=5)
    run = open_run(path)
    part = run.parts()[1]
    lost = {r.key for r in run.iter_sequences() if r.prompt_id == "question-00001"}
    flip(run.part_path(table, part), place)
    with RunWriter.resume(path, make_manifest()) as writer:
        assert [(damage.group, damage.part) for damage in writer.damage] == [("sequences", part)]
        assert str(run.part_path(table, part)) in writer.damage[0].message
        records = {record.key: record for record in make_records()}
        assert set(records) - writer.keys == lost
        writer.commit([records[key] for key in lost], VOCABULARY)
    assert open_run(path).sequence_keys() == set(records)
    assert (path / "damaged" / table / f"{part}.parquet").is_file()
    assert open_run(path).manifest.current.set_aside == (part,)  # type: ignore[union-attr]
    assert list(validate(path)) == []


def test_leftovers_of_this_host_go_and_those_of_another_stay(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    run = open_run(path)
    source = run.part_path("tokens", run.parts()[0])
    session = run.manifest.sessions[0]
    for number, host in enumerate((session.host, "another")):
        killed = dataclasses.replace(session, id=f"20260101T000000-0000000{number}", host=host, ended=None)
        write_session(path, killed)
        shutil.copy(source, source.with_stem(f"part-{killed.id}-000001"))
    RunWriter.open(path, make_manifest()).close()
    assert [orphan.stem for orphan in orphans(path)] == ["part-20260101T000000-00000001-000001"]


def test_damaged_prompts_are_stored_again(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    run = open_run(path)
    flip(run.part_path("prompts", run.parts("prompts")[0]), 100)
    with RunWriter.resume(path, make_manifest()) as writer:
        assert writer.prompt_ids == set()
        assert len(writer.keys) == 15


def test_a_lost_vocabulary_is_asked_for_again(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run", n_prompts=2, batch=5)
    run = open_run(path)
    before = run.vocabulary
    flip(run.part_path("vocabulary", run.parts("vocabulary")[0]), 100)
    extra = list(make_records(3))[-1:]
    with RunWriter.resume(path, make_manifest()) as writer:
        writer.add_prompts([])
        writer.prompt_ids.add(extra[0].prompt_id)
        writer.commit(extra, VOCABULARY)
    assert set(open_run(path).vocabulary) >= set(before)
    assert not [finding for finding in validate(path) if finding.rule == "vocabulary"]
