"""What a run's manifest says of its collection."""

from __future__ import annotations

import platform
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib import metadata
from typing import Any

from toolkit.collect.settings import ScoreSettings, Settings
from toolkit.models import Model
from toolkit.models.blas import preload
from toolkit.store import Manifest

_PACKAGES = ("token-confidence-toolkit", "mlx", "mlx-lm", "numpy", "pyarrow", "transformers", "tokenizers")
BATCH_NOTE = (
    "A token near a boundary of its distribution may come out differently in a batch of another size, "
    "where the last bits of a matrix product differ."
)


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that make a sequence."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def content_config(model: Model, settings: Settings | ScoreSettings) -> dict[str, Any]:
    """All that decides a sequence's content."""
    return {
        **settings.content(),
        "dtype": model.dtype,
        "weights_hash": model.weights_hash,
        "tokenizer_hash": model.tokenizer_hash,
        "template_hash": model.template_hash,
    }


def make_manifest(
    model: Model,
    settings: Settings | ScoreSettings,
    config: Mapping[str, Any],
    *,
    logits_dtype: str,
    prompt_file_hash: str | None,
    seed: int | None = None,
) -> Manifest:
    """The manifest of a collection that begins now.

    Parameters
    ----------
    config : what is wanted beside the settings: the number of prompts, batch size, shard, ...
    logits_dtype : of the logits before they were cast to float32
    """
    import mlx.core as mx

    blas = preload()
    return Manifest(
        command=tuple(sys.argv),
        config={**asdict(settings), **config},
        content_config=content_config(model, settings),
        model={
            "name": model.name,
            "weights_hash": model.weights_hash,
            "type": model.config.get("model_type"),
            "context_length": model.context_length,
        },
        tokenizer={
            "hash": model.tokenizer_hash,
            "template_hash": model.template_hash,
            "kind": model.token_bytes.kind,
            "differences": list(model.token_bytes.differences),
        },
        versions=versions(),
        device=str(mx.default_device().type).rpartition(".")[2],
        dtype=model.dtype,
        logits_dtype=logits_dtype,
        seed=seed,
        blas=blas.name,
        prompt_file_hash=prompt_file_hash,
        notes=(BATCH_NOTE,),
        tables=() if settings.watch is None else ("watched",),
    )
