"""The float32 model as MLX-LM runs it, on the BLAS that $TOOLKIT_BLAS chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from contenders.job import Job

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def load(job: Job) -> tuple[Any, Any]:
    """Network and tokenizer; the BLAS is put in front of MLX's own before MLX is imported."""
    from toolkit.models import blas

    blas.preload()
    import mlx.core as mx
    import mlx_lm

    loaded = mlx_lm.load(str(job.model))
    mx.eval(loaded[0].parameters())
    return loaded[0], loaded[1]


def logits_after(model: Any, prompt: list[int]) -> NDArray[np.float32]:
    """Logits (vocabulary,) after a prompt."""
    import mlx.core as mx
    import numpy as np

    return np.array(model(mx.array([prompt]))[0, -1].astype(mx.float32))


def facts() -> dict[str, Any]:
    from toolkit.models import blas

    choice = blas.preload()
    return {"blas": choice.name, "blas_threads": choice.threads}
