"""One pure function over many tasks: in this process, in a pool of processes, or on a Dask cluster.

Knows functions and tasks, and not what they read or compute. `Processes` and `Dask` are imported when they are
first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from toolkit.scale.engines import LOCAL, Engine, Local

if TYPE_CHECKING:
    from toolkit.scale.dask_engine import Dask as Dask
    from toolkit.scale.processes import Processes as Processes

__all__ = ["LOCAL", "Dask", "Engine", "Local", "Processes"]

_MODULES = {"Dask": "toolkit.scale.dask_engine", "Processes": "toolkit.scale.processes"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'toolkit.scale' has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)
