"""What a caller gave: arrays of the right shape and of one length, else one line that says what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from toolkit.errors import ToolkitError
from toolkit.stats.tally import Floats, vector

__all__ = ["matrix", "same_length", "vector"]


def matrix(values: ArrayLike, name: str) -> Floats:
    """Values as a two-dimensional float64 array, None as NaN; an empty list is (0, 0).

    Raises
    ------
    ToolkitError
        If they are not numbers, or of another shape.
    """
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ToolkitError(f"{name} holds something that is not a number: {error}") from None
    if array.shape == (0,):
        return array.reshape(0, 0)
    if array.ndim != 2:
        raise ToolkitError(f"{name} has shape {array.shape}: give a row a sample or token, shape (n, m)")
    return array


def same_length(**arguments: Sequence[Any] | Floats | None) -> None:
    """Raise ToolkitError, which names each argument, unless all that are not None have one length."""
    lengths = {name: len(given) for name, given in arguments.items() if given is not None}
    if len(set(lengths.values())) > 1:
        said = " and ".join(f"{name} has {n}" for name, n in lengths.items())
        raise ToolkitError(f"{said}: give one of each")
