"""The similarities stored beside a run as matrices of a prompt's sequences: what `stored` means in a comparison."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.records import KINDS
from toolkit.stats.ranges import Floats
from toolkit.store.files import file_identity
from toolkit.store.similarities import find_similarities, read_similarities, similarity_sets

if TYPE_CHECKING:
    from toolkit.store import Run
    from toolkit.store.keys import Key

STORED = "stored"
THRESHOLD = 0.5
"""Two say the same from here on, where no other is given: yes is more likely than no."""

_NUMBERS: dict[str, int] = {kind: number for number, kind in enumerate(sorted(KINDS))}


class StoredName(NamedTuple):
    """What `stored`, `stored:NAME`, `stored:0.7` and `stored:NAME:0.7` say."""

    name: str | None
    threshold: float | None


def parse_stored(text: str) -> StoredName | None:
    """The parts of a text that means what is stored; None where it means something else.

    Raises
    ------
    ToolkitError
        The threshold is no number from 0 to 1.
    """
    word, *parts = text.split(":")
    if word != STORED:
        return None
    name = parts.pop(0) if parts and not _is_number(parts[0]) else None
    if len(parts) > 1 or name == "" or (parts and not (_is_number(parts[0]) and 0 <= float(parts[0]) <= 1)):
        raise ToolkitError(
            f"{quoted(text)}: give stored, stored:NAME, stored:THRESHOLD or stored:NAME:THRESHOLD, the threshold "
            "from 0 to 1, as stored:0.7"
        )
    return StoredName(name, float(parts[0]) if parts else None)


@dataclass(frozen=True)
class StoredMatrices:
    """A set of similarities, read when the first matrix is asked for; another process reads it itself.

    Attributes
    ----------
    path : Path
        Of the file.
    identity : tuple of int
        Which file it was when the set was found.
    """

    path: Path
    name: str
    identity: tuple[int, ...]

    def matrix(self, keys: Sequence[Key]) -> Floats:
        """Similarity of sequences of one prompt.

        Parameters
        ----------
        keys : K times (prompt_id, kind, sample_index)

        Returns
        -------
        (K, K), 1 on the diagonal. The greedy sequence has NaN to all others where nothing is stored of it.

        Raises
        ------
        ToolkitError
            A pair is missing.
        """
        found = np.eye(len(keys))
        if len(keys) < 2:
            return found
        found[~np.eye(len(keys), dtype=bool)] = np.nan
        own = np.array([_code(kind, index) for _, kind, index in keys], np.int64)
        order = np.argsort(own)
        first, second, value = _rows_of(self.path, self.identity).get(keys[0][0], _NO_ROWS)
        i, j = (_places(own[order], codes) for codes in (first, second))
        both = (i >= 0) & (j >= 0)
        i, j = order[i[both]], order[j[both]]
        found[i, j] = found[j, i] = value[both]
        self._check(keys, found)
        return found

    def _check(self, keys: Sequence[Key], found: Floats) -> None:
        """Refuse a matrix with gaps, a greedy sequence aside of which nothing is stored."""
        unknown = np.isnan(found)
        absent = (unknown.sum(axis=1) == len(keys) - 1) & np.array([key[1] == "greedy" for key in keys])
        unknown[absent] = unknown[:, absent] = False
        if unknown.any():
            i, j = (int(place[0]) for place in np.nonzero(unknown))
            raise ToolkitError(
                f"similarity: {quoted(self.name)} has no value for {keys[i][1]} {keys[i][2]} and {keys[j][1]} "
                f"{keys[j][2]} of prompt {quoted(keys[i][0])}: run toolkit similarity again, which adds what is "
                "missing"
            )


def stored_matrices(run: Run, name: str | None, part: str) -> StoredMatrices:
    """What is stored of a run.

    Parameters
    ----------
    run : Run
    name : str, optional
        Of the set; the only one there is by default.
    part : str
        The part of the texts that is looked at.

    Raises
    ------
    ToolkitError
        There is no such set, or it compares another part.
    """
    one = find_similarities(similarity_sets(run.path), name, str(run.path))
    over = one.settings.get("over")
    if over not in (None, part):
        raise ToolkitError(
            f"similarity: {quoted(one.name)} compares {over}, and {part} is looked at: look at {over} too, or run "
            f"toolkit similarity over {part} under another name"
        )
    return StoredMatrices(one.path, one.name, file_identity(one.path))


_Rows = tuple[NDArray[np.int64], NDArray[np.int64], Floats]
_NO_ROWS: _Rows = (np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


@lru_cache(maxsize=4)
def _rows_of(path: Path, identity: tuple[int, ...]) -> dict[str, _Rows]:
    """By prompt: codes of the first and the second sequence, and values. `identity` tells a replaced file apart."""
    (one,) = [one for one in similarity_sets(path.parents[1]) if one.path == path]
    rows = read_similarities(one)
    prompts = rows["prompt_id"].to_numpy(zero_copy_only=False)
    first, second = (
        _codes(rows[f"{name}_kind"].to_pylist(), rows[f"{name}_index"].to_numpy())
        for name in ("first", "second")
    )
    values = rows["value"].to_numpy().astype(np.float64)
    starts = np.flatnonzero(np.r_[True, prompts[1:] != prompts[:-1]]) if len(prompts) else np.zeros(0, int)
    ends = np.r_[starts[1:], len(prompts)]
    return {
        str(prompts[a]): (first[a:b], second[a:b], values[a:b])
        for a, b in zip(starts.tolist(), ends.tolist(), strict=False)
    }


def _codes(kinds: Sequence[str], indices: NDArray[np.int64]) -> NDArray[np.int64]:
    starts = {kind: _code(kind, 0) for kind in _NUMBERS}
    return np.array([starts[kind] for kind in kinds], np.int64) + indices


def _code(kind: str, index: int) -> int:
    return (_NUMBERS[kind] << 32) + int(index)


def _places(ordered: NDArray[np.int64], wanted: NDArray[np.int64]) -> NDArray[np.intp]:
    """Where each wanted code is among ordered ones, -1 where it is not."""
    place = np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)
    return np.where(ordered[place] == wanted, place, -1)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
