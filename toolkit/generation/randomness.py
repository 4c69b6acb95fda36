"""The random numbers of a sequence, which depend on nothing but its own key.

The same sample comes out alone, in any batch, in any shard and after a resume. Knows keys and counts only.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from ..errors import ToolkitError

MAX_SEED = 2**63 - 1


def uniforms(seed: int, prompt_id: str, sample_index: int, n: int) -> NDArray[np.float64]:
    """The first `n` uniform numbers of the stream of one sequence.

    Philox 4x64 with ten rounds (Salmon and others, 2011, doi:10.1145/2063384.2063405), keyed by the 16-byte
    BLAKE2b of "seed:sample_index:prompt_id" in UTF-8, read as a little-endian number; the upper 53 bits of
    each output word over 2**53. Fewer numbers are a prefix of more.

    Parameters
    ----------
    seed : int
        From 0 to 2**63 - 1.
    prompt_id : str
        Any text.
    sample_index : int
        From 0.
    n : int
        How many numbers.

    Returns
    -------
    (n,) float64 in [0, 1)

    Raises
    ------
    ToolkitError
        If the seed or the sample index is out of its range.
    """
    _check("seed", seed)
    _check("sample_index", sample_index)
    # The two numbers come first and hold no colon, so that no two keys are written alike. Lone surrogates can
    # come out of JSON.
    key = f"{seed:d}:{sample_index:d}:{prompt_id}".encode("utf-8", "surrogatepass")
    digest = hashlib.blake2b(key, digest_size=16).digest()
    words = np.random.Philox(key=int.from_bytes(digest, "little")).random_raw(n)
    return (words >> np.uint64(11)).astype(np.float64) * 2.0**-53


def _check(name: str, value: int) -> None:
    if not isinstance(value, int | np.integer) or not 0 <= value <= MAX_SEED:
        raise ToolkitError(f"{name}: {value!r}; it must be a whole number from 0 to 2**63 - 1")
