"""Import a llama GGUF into a folder that MLX-LM loads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.models import blas
from toolkit.models.folders import new_folder, refuse_existing
from toolkit.models.gguf_config import Place, llama_config, tensor_places
from toolkit.models.gguf_header import GgufHeader, read_header
from toolkit.models.gguf_tokenizer import write_tokenizer


def import_gguf(file: str | Path, output: str | Path) -> Path:
    """Import a GGUF file of the llama architecture.

    Quantised weights stay as they are, in groups of 32, with scales and biases in float32: in half
    precision, log-probabilities would be off by up to 0.04 nats.

    Parameters
    ----------
    file : str or Path
        A GGUF with tensors of type F32, F16, Q8_0, Q4_0 or Q4_1.
    output : str or Path
        The folder to make. It appears whole or not at all.

    Returns
    -------
    Path
        `output`, with config.json, model.safetensors, tokenizer.json and tokenizer_config.json.

    Raises
    ------
    ToolkitError
        If the file is damaged, of another architecture, type or tokenizer (it is named), or `output` is
        there already.
    """
    output = Path(output).expanduser()
    refuse_existing(output)
    header = read_header(Path(file).expanduser())
    config = llama_config(header)
    weights = read_weights(header, tensor_places(header, config))
    with new_folder(output) as folder:
        write_tokenizer(header, folder)
        text = json.dumps({key: value for key, value in config.items() if value is not None}, indent=2)
        (folder / "config.json").write_text(text + "\n", encoding="utf-8")
        save_weights(folder / "model.safetensors", weights)
    return output


def read_weights(header: GgufHeader, places: dict[str, Place]) -> dict[str, Any]:
    """MLX arrays under MLX-LM's names, with the rows of q and k put back."""
    blas.preload()
    import mlx.core as mx

    try:
        tensors: Any = mx.load(str(header.path), format="gguf")
    except (RuntimeError, ValueError) as error:
        raise ToolkitError(f"{header.path}: MLX cannot read this GGUF: {error}") from error
    weights = {}
    for name, place in places.items():
        for source, target in parts(name, place.name, tensors):
            array = tensors[source]
            if source != name:  # scales and biases of a quantised weight
                array = array.astype(mx.float32)
            weights[target] = array if place.rotary_heads is None else unpermute(array, place.rotary_heads)
    return weights


def parts(name: str, target: str, tensors: dict[str, Any]) -> list[tuple[str, str]]:
    """The arrays that MLX makes of one tensor, and their names in the model."""
    stem, target_stem = name.removesuffix(".weight"), target.removesuffix(".weight")
    quantised = [(f"{stem}.{part}", f"{target_stem}.{part}") for part in ("scales", "biases")]
    return [(name, target), *(pair for pair in quantised if name.endswith(".weight") and pair[0] in tensors)]


def unpermute(array: Any, n_heads: int) -> Any:
    """Put the rows of a q or k weight, or bias, back from GGUF's order to the transformers order.

    GGUF has the two halves of a head interleaved, since its rotation takes neighbouring rows:
    rows 0, d/2, 1, d/2 + 1, ... of each head. The rotation here takes row i with row i + d/2.
    """
    pairs = array.reshape(n_heads, array.shape[0] // n_heads // 2, 2, -1)
    return pairs.swapaxes(1, 2).reshape(array.shape)


def save_weights(path: Path, weights: dict[str, Any]) -> None:
    import mlx.core as mx

    try:
        mx.save_safetensors(str(path), weights, metadata={"format": "mlx"})
    except RuntimeError as error:  # a full disk, for one
        raise ToolkitError(f"{path.parent}: writing failed: {error}") from error
