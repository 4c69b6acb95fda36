import json
import shutil
import threading

import pytest

from tests.models.gguf_writer import Shape, llama_metadata, llama_tensors, write_gguf
from toolkit.errors import ToolkitError
from toolkit.models import load, loading
from toolkit.models.gguf_import import import_gguf
from toolkit.models.model import describe, hash_files, stored_bits

SHAPE = Shape()


@pytest.fixture
def models(tmp_path, monkeypatch):
    """An empty models folder."""
    monkeypatch.setenv("TOOLKIT_MODELS", str(tmp_path / "models"))
    (tmp_path / "models").mkdir()
    return tmp_path / "models"


@pytest.fixture
def file(tmp_path):
    """A small quantised GGUF."""
    tensors = llama_tensors(SHAPE, kinds=("Q8_0", "Q4_1"))
    metadata = llama_metadata(SHAPE) | {"tokenizer.ggml.eot_token_id": 5}
    return write_gguf(tmp_path / "tiny.gguf", metadata, tensors)


def refused(name, match: str) -> None:
    with pytest.raises(ToolkitError, match=match) as caught:
        load(name, quiet=True)
    assert "\n" not in str(caught.value)


def test_a_gguf_is_imported_once_and_again_when_it_changes(models, file, capsys):
    first = load(file)
    assert "importing" in capsys.readouterr().err
    assert first.path.parent == models
    assert load(file).path == first.path
    assert capsys.readouterr().err == ""
    write_gguf(file, llama_metadata(SHAPE), llama_tensors(SHAPE, seed=1))
    assert load(file, quiet=True).path != first.path


def test_quiet_says_nothing(models, file, capsys):
    load(file, quiet=True)
    assert capsys.readouterr().err == ""


def test_two_at_once_import_it_once(models, file):
    paths = []
    threads = [
        threading.Thread(target=lambda: paths.append(loading.find(file, quiet=True))) for _ in range(3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(paths) == 3
    assert len(set(paths)) == 1


def test_a_model_tells_what_it_is(models, file):
    model = load(file, quiet=True)
    assert model.name == str(file)
    assert model.end_ids == {0, 5}
    assert model.context_length == 512
    assert model.dtype == "float32"
    assert model.config["model_type"] == "llama"
    assert describe(model)["stored_bits"] == [4, 8]
    assert (
        describe(model)["parameters"] == 64 * 64 + 2 * (2 * 64 * 64 + 2 * 32 * 64 + 3 * 96 * 64 + 2 * 64) + 64
    )
    assert json.dumps(describe(model))


def test_a_name_in_the_models_folder_is_found(models, file):
    path = load(file, quiet=True).path
    assert load(path.name, quiet=True).path == path


def test_hashes_follow_the_content(models, file, tmp_path):
    model = load(file, quiet=True)
    copy = tmp_path / "copy"
    shutil.copytree(model.path, copy)
    same = load(copy, quiet=True)
    assert (same.weights_hash, same.tokenizer_hash) == (model.weights_hash, model.tokenizer_hash)
    config = json.loads((copy / "tokenizer_config.json").read_text()) | {"chat_template": "{{ messages }}"}
    (copy / "tokenizer_config.json").write_text(json.dumps(config))
    with open(copy / "tokenizer.json", "a") as opened:
        opened.write("\n")
    (copy / "config.json").write_text((copy / "config.json").read_text() + "\n")
    changed = load(copy, quiet=True)
    assert changed.template_hash != model.template_hash
    assert changed.tokenizer_hash != model.tokenizer_hash
    assert changed.weights_hash != model.weights_hash


def test_a_hash_depends_on_names_and_on_where_a_file_ends(tmp_path):
    hashes = set()
    for number, contents in enumerate([("ab", "c"), ("a", "bc"), ("c", "ab")]):
        folder = tmp_path / str(number)
        folder.mkdir()
        for name, content in zip(("x.bin", "y.bin"), contents, strict=True):
            (folder / name).write_text(content)
        hashes.add(hash_files(folder, ["*.bin"]))
    assert len(hashes) == 3


@pytest.mark.parametrize(
    "name", ["nonsense", "./nonsense", "/no/such/folder", "absent.gguf", "owner/absent.gguf"]
)
def test_an_unknown_name_is_one_line_that_says_what_is_allowed(models, name):
    refused(name, r"no such folder or file; give a folder, a \.gguf file, a repository.*it is empty")


def test_an_unknown_name_lists_what_is_there(models, file):
    path = load(file, quiet=True).path
    refused("nonsense", path.name)


def test_a_folder_without_a_model_is_named(models, tmp_path):
    refused(tmp_path, r"lacks config\.json")


def test_another_file_is_named(models, tmp_path):
    (tmp_path / "notes.txt").write_text("text")
    refused(tmp_path / "notes.txt", "not a GGUF file")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_type": "unheard_of"}, "unheard_of"),
        ({"hidden_size": 48}, "MLX-LM cannot load it"),
        ({"model_file": "custom.py"}, "custom"),
    ],
)
def test_a_folder_that_mlx_lm_refuses_is_one_line(models, file, tmp_path, change, named):
    copy = tmp_path / "copy"
    shutil.copytree(load(file, quiet=True).path, copy)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").write_text(json.dumps(config | change))
    (copy / "custom.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')")
    refused(copy, named)
    assert not (tmp_path / "ran").exists()


def test_code_of_a_tokenizer_is_never_run(models, file, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(load(file, quiet=True).path, copy)
    config = json.loads((copy / "tokenizer_config.json").read_text())
    del config["tokenizer_class"]
    custom = {"auto_map": {"AutoTokenizer": [None, "custom.Custom"]}}
    (copy / "tokenizer_config.json").write_text(json.dumps(config | custom))
    (copy / "custom.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Custom: pass")
    refused(copy, "custom code")
    assert not (tmp_path / "ran").exists()


def test_a_hub_that_cannot_be_reached_is_one_line(models, monkeypatch):
    def offline(*args, **kwargs):
        raise ConnectionError("cannot reach the hub:\nname or service not known")

    monkeypatch.setattr("mlx_lm.load", offline)
    refused("owner/name", r"'owner/name'.*cannot be had from the hub: cannot reach the hub: name or service")


def test_the_default_is_fetched_when_it_is_missing_and_says_so(models, file, monkeypatch, capsys):
    def fetch(progress=None):
        return import_gguf(file, loading.default_model_path())

    monkeypatch.setattr(loading, "fetch_default_model", fetch)
    model = load()
    assert "fetching" in capsys.readouterr().err
    assert model.name == model.path.name == "SmolLM2-135M-Instruct"
    monkeypatch.setattr(loading, "fetch_default_model", None)  # a second call would fail
    load()


def test_bits_of_a_config():
    assert stored_bits({}) == []
    assert stored_bits(
        {"quantization": {"group_size": 64, "bits": 4, "lm_head": {"bits": 6}, "a": False}}
    ) == [4, 6]


@pytest.mark.model
def test_the_default_model_is_float32_with_its_end_token(model):
    assert model.name == "SmolLM2-135M-Instruct"
    assert (model.dtype, model.end_ids, model.context_length) == ("float32", {2}, 8192)
