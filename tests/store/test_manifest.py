"""Manifests round trip, merge their sessions, and are refused in one line when they are damaged."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.store.factory import make_manifest, make_run
from toolkit.errors import DataFault, ToolkitError
from toolkit.store.manifest import (
    Session,
    check_same_content,
    content_hash,
    read_manifest,
    write_manifest,
    write_session,
)

SESSION = Session(
    "20260101T000000-00000000", "2026-01-01T00:00:00+00:00", ("toolkit",), {"n": 3}, {"mlx": "1"}, "h", 7
)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    manifest = make_manifest(notes=("a note",), blas="openblas", prompt_file_hash="ab")
    write_manifest(tmp_path, manifest)
    assert read_manifest(tmp_path) == manifest


def test_the_file_is_the_same_whatever_the_order_of_settings(tmp_path: Path) -> None:
    write_manifest(tmp_path, make_manifest(content_config={"a": 1, "b": {"c": 2, "d": 3}}))
    first = (tmp_path / "manifest.json").read_bytes()
    write_manifest(tmp_path, make_manifest(content_config={"b": {"d": 3, "c": 2}, "a": 1}))
    assert (tmp_path / "manifest.json").read_bytes() == first


def test_sessions_of_several_processes_are_merged_in_order(tmp_path: Path) -> None:
    write_manifest(tmp_path, make_manifest())
    later = dataclasses.replace(
        SESSION, id="20260102T000000-00000000", started="2026-01-02T00:00:00+00:00", shard="1/2"
    )
    for session in (later, SESSION):
        write_session(tmp_path, dataclasses.replace(session, counts={"tokens": 5}))
    manifest = read_manifest(tmp_path)
    assert [session.id for session in manifest.sessions] == [SESSION.id, later.id]
    assert manifest.current is not None
    assert manifest.current.shard == "1/2"
    assert manifest.counts == {"tokens": 10}


def test_a_person_finds_the_sessions_in_manifest_json(tmp_path: Path) -> None:
    values = json.loads((make_run(tmp_path / "run") / "manifest.json").read_text())
    assert values["counts"]["sequences"] == 15
    assert values["sessions"][0]["ended"] is not None
    assert values["content_hash"] == content_hash(values["content_config"])


def test_the_same_content_is_accepted_whatever_else_changes() -> None:
    check_same_content(make_manifest(), make_manifest(config={"batch_size": 1}, device="gpu", seed=3))


def test_other_content_is_refused_and_each_difference_shown() -> None:
    old = make_manifest(
        content_config={"model": "a", "sampler": {"temperature": 1.0, "top_p": 1.0}, "stop": ["x"]}
    )
    new = make_manifest(
        content_config={"model": "a", "sampler": {"temperature": 0.8, "min_p": 0.1}, "stop": ["x"]}
    )
    with pytest.raises(ToolkitError) as caught:
        check_same_content(old, new)
    message = str(caught.value)
    assert "sampler.temperature: 1.0 -> 0.8" in message
    assert "sampler.min_p: (not set) -> 0.1" in message
    assert "sampler.top_p: 1.0 -> (not set)" in message
    assert "model:" not in message
    assert "stop" not in message


def test_lists_and_tuples_are_the_same_setting() -> None:
    check_same_content(
        make_manifest(content_config={"stop": ["a"]}), make_manifest(content_config={"stop": ("a",)})
    )


def test_a_setting_is_found_where_it_is_nested() -> None:
    manifest = make_manifest(
        content_config={"sampler": {"temperature": 0.5}}, config={"temperature": 9, "limit": 3}
    )
    assert manifest.setting("temperature") == 0.5
    assert manifest.setting("limit") == 3
    assert manifest.setting("nothing") is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"seed": "0"}, "seed is '0', and must be a whole number or null"),
        ({"seed": True}, "seed is True"),
        ({"command": "toolkit"}, "command is 'toolkit', and must be a list of texts"),
        ({"versions": {"mlx": 1}}, "versions is .*, and must be texts by name"),
        ({"config": []}, "config is .*, and must be an object"),
        ({"content_config": {"model": "other"}}, "was altered"),
        ({"schema_version": None}, "no schema_version"),
        ({"device": ...}, "device is missing"),
        ({"config": {"limit": float("nan")}}, "no JSON"),
        ({"content_config": {"top_p": float("inf")}}, "no JSON"),
    ],
)
def test_a_damaged_field_is_named(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    write_manifest(tmp_path, make_manifest())
    file = tmp_path / "manifest.json"
    values = json.loads(file.read_text()) | change
    file.write_text(json.dumps({name: value for name, value in values.items() if value is not ...}))
    with pytest.raises(DataFault, match=words) as caught:
        read_manifest(tmp_path)
    assert str(file) in str(caught.value)


def test_an_unknown_major_version_is_refused_and_a_later_minor_one_is_read(tmp_path: Path) -> None:
    write_manifest(tmp_path, make_manifest(schema_version="1.9"))
    assert read_manifest(tmp_path).schema_version == "1.9"
    write_manifest(tmp_path, make_manifest(schema_version="2.0"))
    with pytest.raises(
        ToolkitError, match=r"schema version '2\.0', and this version of the toolkit reads 1\.x"
    ):
        read_manifest(tmp_path)


@settings(max_examples=200, deadline=None)
@given(
    content=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=4)
            ),
        ).map(lambda value: json.dumps(value).encode()),
        st.sampled_from(
            [b"[" * 5000, b'{"a":' * 5000, b"9" * 5000, b"1e999", b"NaN", b'"\\ud800"', b"\xff\xfe{\x00}\x00"]
        ),
    )
)
def test_anything_else_is_one_line(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    folder = tmp_path_factory.getbasetemp() / "fuzz"
    folder.mkdir(exist_ok=True)
    (folder / "manifest.json").write_bytes(content)
    with pytest.raises(ToolkitError) as caught:
        read_manifest(folder)
    assert len(str(caught.value).splitlines()) == 1


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_any_value_in_a_field_is_accepted_or_one_line(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.getbasetemp() / "fields"
    folder.mkdir(exist_ok=True)
    write_manifest(folder, make_manifest())
    values = json.loads((folder / "manifest.json").read_text())
    name = data.draw(st.sampled_from(sorted(values)))
    values[name] = data.draw(
        st.none()
        | st.integers()
        | st.text(max_size=9)
        | st.lists(st.text(max_size=3), max_size=2)
        | st.floats()
    )
    (folder / "manifest.json").write_text(json.dumps(values))
    message = ""
    try:
        read_manifest(folder)
    except ToolkitError as error:
        message = str(error)
    assert "\n" not in message


def test_a_run_of_the_version_before_is_read(tmp_path: Path) -> None:
    path = make_run(tmp_path / "run")
    for session in (path / "sessions").iterdir():
        values = json.loads(session.read_text())
        del values["n_lost"]
        session.write_text(json.dumps(values))
    assert [session.n_lost for session in read_manifest(path).sessions] == [0]
