"""Variants of a model with fewer bits a weight, kept beside it in the models folder."""

from __future__ import annotations

import json
import shutil
import sys
from typing import Any

import toolkit
from support.options import Options
from toolkit.errors import ToolkitError
from toolkit.models.folders import is_model_folder, locked, models_folder, new_folder
from toolkit.models.model import Model

GROUP_SIZE = 64
"""Weights that share a scale and an offset: MLX-LM's default."""

_QUANTISED = ("quantization", "quantization_config")  # in the config of a model whose weights are


def variant(bits: int, options: Options) -> str:
    """The name of the model with so many bits a weight; it is made where the models folder lacks it.

    The weights are rounded from what they are in float32, so from the stored values of a model that is
    quantised already. The embedding, which is the output layer too, is among them; norms are not.
    """
    name = variant_name(bits, options)
    target = models_folder() / name
    with locked(target):
        if not is_model_folder(target):
            print(f"making {target}", file=sys.stderr)
            _make(toolkit.load(options.model, dtype="float32"), bits, name)
    return name


def variant_name(bits: int, options: Options) -> str:
    """What the variant is called: the model's own name, and the bits."""
    from toolkit.models.fetch import default_model_path

    whole = default_model_path().name if options.model is None else options.model.rstrip("/")
    return f"{whole.rpartition('/')[2].removesuffix('.gguf')}-{bits}bit"


def _make(model: Model, bits: int, name: str) -> None:
    from mlx_lm.utils import save_model

    config = _quantise(model, bits)
    with new_folder(models_folder() / name) as folder:
        save_model(folder, model.network)
        for path in model.path.iterdir():
            if path.is_file() and path.name != "config.json" and not path.name.startswith("model"):
                shutil.copyfile(path, folder / path.name)
        (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def _quantise(model: Model, bits: int) -> dict[str, Any]:
    """Round a model's weights in place; the config that says so."""
    import mlx.nn as nn

    def takes(_: str, module: Any) -> bool:
        return hasattr(module, "to_quantized") and module.weight.shape[-1] % GROUP_SIZE == 0

    if not any(takes(name, module) for name, module in model.network.named_modules()):
        raise ToolkitError(
            f"model {model.name!r}: no layer is a multiple of {GROUP_SIZE} wide: it has nothing to round"
        )
    nn.quantize(model.network, GROUP_SIZE, bits, class_predicate=takes)
    given = {name: value for name, value in model.config.items() if name not in _QUANTISED}
    return {**given, "quantization": {"group_size": GROUP_SIZE, "bits": bits}}
