import json

import pytest

from tests.models.gguf_writer import Shape, llama_metadata, llama_tensors, write_gguf
from toolkit.cli.main import main
from toolkit.models import fetch

SHAPE = Shape()


@pytest.fixture
def file(tmp_path, monkeypatch):
    monkeypatch.setenv("TOOLKIT_MODELS", str(tmp_path / "models"))
    return write_gguf(tmp_path / "tiny.gguf", llama_metadata(SHAPE), llama_tensors(SHAPE))


def test_import_prints_the_folder(file, tmp_path, capsys):
    assert main(["model", "import", str(file), "--output", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'out'}\n"
    assert (tmp_path / "out" / "model.safetensors").is_file()


def test_info_describes_a_model(file, tmp_path, capsys):
    main(["model", "import", str(file), "--output", str(tmp_path / "out")])
    capsys.readouterr()
    assert main(["model", "info", str(tmp_path / "out"), "--json"]) == 0
    described = json.loads(capsys.readouterr().out)
    assert (described["architecture"], described["vocabulary"], described["end_tokens"]) == (
        "llama",
        64,
        ["<|end|>"],
    )
    assert main(["model", "info", str(tmp_path / "out")]) == 0
    assert f"weights_hash    {described['weights_hash']}" in capsys.readouterr().out


def test_fetch_prints_the_folder(file, tmp_path, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr(fetch, "fetch_default_model", lambda force: asked.append(force) or tmp_path)
    assert main(["model", "fetch"]) == main(["model", "fetch", "--force"]) == 0
    assert asked == [False, True]
    assert capsys.readouterr().out == f"{tmp_path}\n" * 2


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["model"], "ACTION"),
        (["model", "import", "absent.gguf", "--output", "out"], "absent.gguf"),
        (["model", "import", __file__, "--output", "out"], "not a GGUF file"),
        (["model", "import", __file__], "--output"),
        (["model", "info", "nonsense"], "'nonsense'"),
        (["model", "sell"], "sell"),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(file, tmp_path, monkeypatch, capsys, arguments, named):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    captured = capsys.readouterr()
    assert named in captured.err
    assert captured.err.count("\n") == 1
    assert captured.out == ""
    assert not (tmp_path / "out").exists()
