import numpy as np
import pytest

from tests.models.gguf_writer import Shape, llama_metadata, llama_tensors, write_gguf
from toolkit.errors import ToolkitError
from toolkit.models import load, precision
from toolkit.models.gguf_import import import_gguf

SHAPE = Shape()
IDS = [3, 1, 40]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny llama, quantised as the default model is."""
    path = tmp_path_factory.mktemp("precision")
    file = write_gguf(path / "tiny.gguf", llama_metadata(SHAPE), llama_tensors(SHAPE, kinds=("Q8_0", "Q4_1")))
    return import_gguf(file, path / "out")


@pytest.fixture
def network():
    """A llama of two layers in float32, with biases, not yet quantised."""
    import mlx.core as mx
    from mlx_lm.models import llama

    mx.random.seed(0)
    arguments = llama.ModelArgs(
        model_type="llama",
        hidden_size=64,
        num_hidden_layers=2,
        intermediate_size=96,
        num_attention_heads=4,
        rms_norm_eps=1e-5,
        vocab_size=64,
        attention_bias=True,
        tie_word_embeddings=False,
    )
    made = llama.Model(arguments)
    mx.eval(made.parameters())
    return made


def logits(network):
    import mlx.core as mx

    return np.array(network(mx.array([IDS])).astype(mx.float32))


def scarce(monkeypatch, free: int) -> None:
    monkeypatch.setattr(precision, "free_memory_bytes", lambda: free)


@pytest.mark.parametrize(
    "options",
    [
        {"group_size": 32, "bits": 4},
        {"group_size": 32, "bits": 8},
        {"group_size": 32, "bits": 3},
        {"group_size": 32, "bits": 4, "mode": "mxfp4"},
        {"group_size": 16, "bits": 4, "mode": "nvfp4"},
        {"group_size": 32, "bits": 8, "mode": "mxfp8"},
    ],
)
def test_dequantised_layers_compute_what_quantised_ones_do(network, options):
    import mlx.nn as nn

    nn.quantize(network, **options)
    before = logits(network)
    precision.dequantise(network)
    assert not any(precision.is_quantised(module) for _, module in network.named_modules())
    assert precision.compute_dtype(network) == "float32"
    np.testing.assert_allclose(logits(network), before, atol=1e-4)


def test_half_precision_scales_are_widened_before_they_are_multiplied(network):
    import mlx.core as mx
    import mlx.nn as nn

    nn.quantize(network, group_size=32, bits=4)
    network.set_dtype(mx.float16)
    layer = network.layers[0].mlp.up_proj
    codes = np.array(
        mx.dequantize(layer.weight, mx.ones_like(layer.scales), mx.zeros_like(layer.biases), 32, 4)
    )
    scales = np.repeat(np.array(layer.scales, dtype=np.float64), 32, axis=1)
    biases = np.repeat(np.array(layer.biases, dtype=np.float64), 32, axis=1)
    expected = codes.astype(np.float64) * scales + biases
    np.testing.assert_allclose(np.array(precision.unpacked(layer)), expected, rtol=1e-6, atol=1e-7)


def test_biases_of_layers_stay(network):
    import mlx.nn as nn

    bias = np.array(network.layers[0].self_attn.q_proj.bias)
    nn.quantize(network, group_size=32, bits=8)
    precision.dequantise(network)
    assert np.array_equal(np.array(network.layers[0].self_attn.q_proj.bias), bias)


def test_float32_bytes_are_those_after_dequantising(network):
    import mlx.nn as nn

    expected = sum(array.nbytes for array in precision.arrays(network))
    assert precision.float32_bytes(network) == expected
    nn.quantize(network, group_size=32, bits=4)
    assert precision.float32_bytes(network) == expected


def test_a_cpu_gets_float32_where_it_fits_in_half_of_the_free_memory(folder, monkeypatch, capsys):
    needed = precision.float32_bytes(load(folder, quiet=True).network)
    scarce(monkeypatch, 2 * needed)
    assert not any(precision.is_quantised(module) for _, module in load(folder).network.named_modules())
    assert capsys.readouterr().err == ""
    scarce(monkeypatch, 2 * needed - 2)
    kept = load(folder)
    assert any(precision.is_quantised(module) for _, module in kept.network.named_modules())
    assert "slow on a CPU" in capsys.readouterr().err


def test_unknown_memory_is_taken_as_enough(folder, monkeypatch):
    monkeypatch.setattr(precision, "free_memory_bytes", lambda: None)
    assert not any(precision.is_quantised(module) for _, module in load(folder).network.named_modules())


def test_half_precision_becomes_float32_on_a_cpu(network, monkeypatch):
    import mlx.core as mx

    network.set_dtype(mx.bfloat16)
    assert precision.compute_dtype(network) == "bfloat16"
    assert precision.set_precision(network) is None
    assert precision.compute_dtype(network) == "float32"
    network.set_dtype(mx.bfloat16)
    scarce(monkeypatch, 1000)
    assert "float32" in precision.set_precision(network)
    assert precision.compute_dtype(network) == "bfloat16"


def test_float32_weights_never_need_room(network, monkeypatch):
    scarce(monkeypatch, 1)
    assert precision.set_precision(network) is None


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_a_dtype_that_is_asked_for_is_given(folder, monkeypatch, dtype):
    scarce(monkeypatch, 1)
    model = load(folder, dtype=dtype, quiet=True)
    assert model.dtype == dtype
    quantised = any(precision.is_quantised(module) for _, module in model.network.named_modules())
    assert quantised == (dtype != "float32")


def test_stored_leaves_the_weights_alone(folder):
    model = load(folder, dtype="stored", quiet=True)
    assert any(precision.is_quantised(module) for _, module in model.network.named_modules())


def test_an_unknown_dtype_lists_the_known(folder):
    with pytest.raises(ToolkitError, match="dtype='int8': allowed are float32, float16, bfloat16, stored"):
        load(folder, dtype="int8", quiet=True)


def test_a_gpu_keeps_the_weights_as_they_are_stored(network, monkeypatch):
    import mlx.core as mx
    import mlx.nn as nn

    nn.quantize(network, group_size=32, bits=4)
    monkeypatch.setattr(mx, "default_device", lambda: mx.Device(mx.gpu))
    assert precision.default_dtype(network) == ("stored", None)
