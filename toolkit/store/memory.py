"""Refusing a load that would not fit, before it starts."""

from __future__ import annotations

from toolkit.errors import ToolkitError
from toolkit.memory import free_memory_bytes


def refuse_large_load(n_bytes: int, what: str, instead: str) -> None:
    """Raise if `n_bytes` are over half of the free memory.

    Parameters
    ----------
    n_bytes : int
        Estimated need.
    what, instead : str
        Name of the load, and what to do in its place, for the message.

    Raises
    ------
    ToolkitError
        The load would need over half of the free memory. Where the system does not say how much is free,
        nothing is refused.
    """
    free = free_memory_bytes()
    if free is not None and n_bytes > free / 2:
        raise ToolkitError(
            f"{what} would need about {_gigabytes(n_bytes)}, over half of the free {_gigabytes(free)}: "
            f"{instead}"
        )


def _gigabytes(n_bytes: int) -> str:
    return f"{n_bytes / 1e9:.2g} GB"
