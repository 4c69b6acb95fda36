"""Find, fetch, import and load a model; choose its dtype and the BLAS under MLX.

Importing this package is quick: MLX comes in when a model is loaded, after the BLAS.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.models.loading import load
    from toolkit.models.model import Model

__all__ = ["Model", "load"]


def __getattr__(name: str) -> Any:
    if name == "load":
        from toolkit.models.loading import load

        return load
    if name == "Model":
        from toolkit.models.model import Model

        return Model
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
