"""Models for the tests: the real one, fetched once, and a tiny random one that is made here."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from toolkit.models import blas

ROOT = Path(__file__).parents[1]
os.environ.setdefault("TOOLKIT_MODELS", str(ROOT / "data" / "models"))
blas.preload()  # before any test module imports MLX

TINY_CONFIG = {
    "model_type": "llama",
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "intermediate_size": 48,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "max_position_embeddings": 512,
    "rope_theta": 10000.0,
    "tie_word_embeddings": True,
}
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] }}"
    "{% if not loop.last or add_generation_prompt %}{{ '<|im_end|>\n' }}{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
TEXT = [
    "What is the capital of France? The capital of France is Paris.",
    "How many legs does a spider have? A spider has eight legs.",
    "naïve café, 日本語のテスト, 🎉 party, हिन्दी में, да!",
    "def add(a, b):\n    return a + b\n",
]


@pytest.fixture(scope="session")
def model() -> Any:
    """The default model."""
    from toolkit.models import load

    return load(quiet=True)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that MLX-LM loads: a random llama of two layers with a byte-level tokenizer."""
    import mlx.core as mx
    from mlx.utils import tree_flatten
    from mlx_lm.models import llama

    folder = tmp_path_factory.mktemp("tiny")
    vocabulary = _write_tokenizer(folder)
    config = {**TINY_CONFIG, "vocab_size": vocabulary, "eos_token_id": [2]}
    (folder / "config.json").write_text(json.dumps(config))
    mx.random.seed(7)
    network = llama.Model(llama.ModelArgs.from_dict(config))
    weights = {name: 4 * value for name, value in tree_flatten(network.parameters())}
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    return folder


@pytest.fixture(scope="session")
def tiny_model(tiny_folder: Path) -> Any:
    """The tiny random model, loaded."""
    from toolkit.models import load

    return load(tiny_folder, quiet=True)


def _write_tokenizer(folder: Path) -> int:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    tokenizer.save(str(folder / "tokenizer.json"))
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "bos_token": "<|im_start|>",
        "eos_token": "<|im_end|>",
        "clean_up_tokenization_spaces": False,
        "chat_template": CHAT_TEMPLATE,
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return int(tokenizer.get_vocab_size())
