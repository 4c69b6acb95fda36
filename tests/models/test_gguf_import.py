import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.models.gguf_writer import Shape, encode, forward, llama_metadata, llama_tensors, write_gguf
from toolkit.errors import ToolkitError
from toolkit.models import load
from toolkit.models.gguf_config import llama3_factors
from toolkit.models.gguf_import import import_gguf

IDS = [1, 5, 9, 40, 62, 7, 7, 30, 12]
SHAPE = Shape()
ROOT = Path(__file__).parents[2]


def logits_of(folder: Path, **options: str) -> np.ndarray:
    model = load(folder, quiet=True, **options)
    import mlx.core as mx

    return np.array(model.network(mx.array([IDS]))[0].astype(mx.float32), dtype=np.float64)


@pytest.mark.parametrize(
    ("kinds", "tied", "biases", "shape"),
    [
        (("F32", "F32"), True, False, SHAPE),
        (("F32", "F32"), False, True, SHAPE),
        (("F16", "F16"), True, False, SHAPE),
        (("Q8_0", "Q4_1"), True, False, SHAPE),
        (("Q4_0", "Q8_0"), False, True, SHAPE),
        (("F32", "Q4_0"), True, False, Shape(hidden=96, heads=3, kv_heads=1, theta=10_000.0)),
        (("F32", "F32"), True, False, Shape(heads=4, kv_heads=4)),
    ],
)
def test_imported_llama_computes_what_the_file_means(tmp_path, kinds, tied, biases, shape):
    tensors = llama_tensors(shape, kinds=kinds, tied=tied, biases=biases)
    file = write_gguf(tmp_path / "tiny.gguf", llama_metadata(shape), tensors)
    logits = logits_of(import_gguf(file, tmp_path / "out"))
    np.testing.assert_allclose(logits, forward(shape, tensors, IDS), atol=2e-4)


def test_linear_scaling_stretches_positions(tmp_path):
    shape, tensors = Shape(stretch=4.0), llama_tensors(SHAPE)
    scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}
    file = write_gguf(tmp_path / "tiny.gguf", llama_metadata(shape) | scaling, tensors)
    logits = logits_of(import_gguf(file, tmp_path / "out"))
    np.testing.assert_allclose(logits, forward(shape, tensors, IDS), atol=2e-4)


def test_factors_of_another_scaling_are_refused(tmp_path):
    for factors in (np.linspace(1, 8, 8), np.zeros(8), np.full(8, np.nan)):
        tensors = llama_tensors(SHAPE) | {"rope_freqs.weight": encode(factors, "F32")}
        file = write_gguf(tmp_path / "tiny.gguf", llama_metadata(SHAPE), tensors)
        with pytest.raises(ToolkitError, match=r"'rope_freqs\.weight' is not the scaling of Llama 3"):
            import_gguf(file, tmp_path / "out")


def test_quantised_weights_kept_as_stored_give_the_same(tmp_path):
    tensors = llama_tensors(SHAPE, kinds=("Q8_0", "Q4_1"))
    folder = import_gguf(write_gguf(tmp_path / "tiny.gguf", llama_metadata(SHAPE), tensors), tmp_path / "out")
    np.testing.assert_allclose(logits_of(folder, dtype="stored"), forward(SHAPE, tensors, IDS), atol=2e-4)


def test_bits_are_per_layer_and_scales_float32(tmp_path):
    tensors = llama_tensors(SHAPE, kinds=("Q8_0", "Q4_1"))
    folder = import_gguf(write_gguf(tmp_path / "tiny.gguf", llama_metadata(SHAPE), tensors), tmp_path / "out")
    quantization = json.loads((folder / "config.json").read_text())["quantization"]
    assert quantization["model.embed_tokens"] == {"group_size": 32, "bits": 8}
    assert quantization["model.layers.1.mlp.down_proj"] == {"group_size": 32, "bits": 4}
    import mlx.core as mx

    weights = mx.load(str(folder / "model.safetensors"))
    assert {str(array.dtype) for array in weights.values()} == {"mlx.core.uint32", "mlx.core.float32"}


def test_config_has_the_metadata(tmp_path):
    file = write_gguf(
        tmp_path / "tiny.gguf",
        llama_metadata(SHAPE) | {"tokenizer.ggml.eot_token_id": 5},
        llama_tensors(SHAPE),
    )
    config = json.loads((import_gguf(file, tmp_path / "out") / "config.json").read_text())
    expected = {
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 512,
        "rms_norm_eps": 1e-5,
        "rope_theta": 5000.0,
        "vocab_size": 64,
        "tie_word_embeddings": True,
        "bos_token_id": 1,
        "eos_token_id": [0, 5],
    }
    assert expected.items() <= config.items()
    assert "quantization" not in config


def test_llama3_scaling_is_recognised_by_its_factors(tmp_path):
    shape = Shape(theta=500_000.0)
    tensors = llama_tensors(shape)
    tensors["rope_freqs.weight"] = encode(llama3_factors(shape.width, shape.theta, 32.0), "F32")
    file = write_gguf(tmp_path / "tiny.gguf", llama_metadata(shape), tensors)
    model = load(import_gguf(file, tmp_path / "out"), quiet=True)
    assert model.config["rope_scaling"]["factor"] == 32.0
    # MLX-LM keeps wavelengths as divisors of the position: ours times theta^(2i/d)
    ours = llama3_factors(shape.width, shape.theta, 32.0) * shape.theta ** (
        np.arange(0, shape.width, 2) / shape.width
    )
    np.testing.assert_allclose(np.array(model.network.layers[0].self_attn.rope._freqs), ours, rtol=1e-5)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"general.architecture": "qwen2"}, "'qwen2'"),
        ({"llama.expert_count": 8}, "llama.expert_count"),
        ({"llama.rope.scaling.type": "yarn"}, "'yarn'"),
        ({"llama.rope.dimension_count": 8}, "rope.dimension_count is 8"),
        ({"llama.attention.head_count": 0}, "head_count is 0"),
        ({"llama.attention.head_count_kv": 3}, "attn_k"),
        ({"llama.block_count": 2_000_000_000}, "block_count"),
        ({"llama.block_count": 1}, "blk.1."),
        ({"llama.block_count": 3}, "blk.2."),
        ({"llama.feed_forward_length": 97}, "ffn_"),
        ({"llama.context_length": "long"}, "'long'"),
        ({"tokenizer.ggml.pre": "mystery"}, "'mystery'"),
        ({"tokenizer.ggml.model": "rwkv"}, "'rwkv'"),
        ({"tokenizer.ggml.merges": ["A Q"]}, "AQ"),
        ({"tokenizer.ggml.eos_token_id": 5000}, "eos_token_id is 5000"),
        ({"tokenizer.ggml.token_type": [1, 2, 3]}, "3 token types for 64"),
    ],
)
def test_what_cannot_be_imported_is_named_and_leaves_nothing(tmp_path, change, named):
    file = write_gguf(tmp_path / "tiny.gguf", llama_metadata(SHAPE) | change, llama_tensors(SHAPE))
    with pytest.raises(ToolkitError, match=r"tiny\.gguf") as caught:
        import_gguf(file, tmp_path / "out")
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny.gguf"]


@pytest.mark.parametrize(("type_name", "n_bytes"), [("BF16", 2 * 64 * 64), ("Q4_K", 144 * 16)])
def test_a_type_that_mlx_does_not_read_is_named(tmp_path, type_name, n_bytes):
    tensors = llama_tensors(Shape(vocabulary=64, hidden=64))
    old = tensors["blk.0.attn_q.weight"]
    shape = old.shape if type_name == "BF16" else (16, 256)
    tensors["blk.0.attn_q.weight"] = old._replace(type_name=type_name, shape=shape, content=bytes(n_bytes))
    file = write_gguf(tmp_path / "tiny.gguf", llama_metadata(SHAPE), tensors)
    with pytest.raises(ToolkitError, match=f"'blk.0.attn_q.weight' is of type {type_name}.*Q4_1"):
        import_gguf(file, tmp_path / "out")


def test_missing_and_foreign_tensors_are_named(tmp_path):
    tensors = llama_tensors(SHAPE)
    norm = tensors.pop("blk.1.attn_norm.weight")
    with pytest.raises(ToolkitError, match=r"'blk.1.attn_norm.weight' is missing"):
        import_gguf(write_gguf(tmp_path / "a.gguf", llama_metadata(SHAPE), tensors), tmp_path / "out")
    tensors |= {"blk.1.attn_norm.weight": norm, "blk.1.attn_q_norm.weight": norm}
    with pytest.raises(ToolkitError, match=r"'blk.1.attn_q_norm.weight' is none"):
        import_gguf(write_gguf(tmp_path / "b.gguf", llama_metadata(SHAPE), tensors), tmp_path / "out")


def test_an_output_that_is_there_is_refused(tmp_path):
    file = write_gguf(tmp_path / "tiny.gguf", llama_metadata(SHAPE), llama_tensors(SHAPE))
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("kept")
    with pytest.raises(ToolkitError, match="is there already"):
        import_gguf(file, tmp_path / "out")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["mine.txt"]


def test_an_output_that_cannot_be_made_is_named(tmp_path):
    file = write_gguf(tmp_path / "tiny.gguf", llama_metadata(SHAPE), llama_tensors(SHAPE))
    with pytest.raises(ToolkitError, match=r"tiny\.gguf.*cannot write there"):
        import_gguf(file, file / "out")


def test_damaged_headers_never_end_the_process(tmp_path):
    shape = Shape(hidden=32, inner=32, layers=1, heads=2, kv_heads=1, vocabulary=32)
    sound = write_gguf(
        tmp_path / "sound.gguf", llama_metadata(shape), llama_tensors(shape, kinds=("Q8_0", "Q4_1"))
    )
    command = [sys.executable, "-m", "tests.models.damage", str(sound), str(tmp_path), "0", "400"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert 200 < int(done.stdout) < 400
