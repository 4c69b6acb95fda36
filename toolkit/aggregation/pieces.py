"""A run cut into pieces that an engine's workers read each on their own: some of its parts, or some prompts.

The pieces follow the order in which the run is read, and hold whole sequences, so that what is made of each piece
is what is made of the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from toolkit.aggregation.selection import EVERYTHING, Block, Selection, prompt_groups, read_blocks
from toolkit.store.blocks import cuts

if TYPE_CHECKING:
    from toolkit.store import Run

R = TypeVar("R")

PIECE_BYTES = 1 << 22
"""About as many bytes of the tokens table are a piece, some 130,000 tokens; a file is never cut."""


class Piece(NamedTuple):
    """Whole sequences of a run that are read together."""

    run: Run
    selection: Selection


def map_blocks(
    run: Run,
    function: Callable[[Block], R],
    inputs: set[str],
    selection: Selection,
    *,
    whole: bool = False,
    include_end: bool = True,
    segments: bool = True,
) -> Iterator[R]:
    """A function of each block of the selected sequences, over the run's engine.

    Parameters
    ----------
    run : Run
    function : callable
        Pure, and such that an engine can send it.
    inputs, selection, whole, include_end, segments
        As of `read_blocks`.

    Yields
    ------
    object
        Of a block after another, in the order of `read_blocks`.
    """
    each = _EachBlock(function, inputs, whole, include_end, segments)
    if not whole and not run.engine.splits:
        return each.results(Piece(run, selection))
    # Prompts that are read whole are looked for in their own parts only, in one process too.
    pieces = (
        prompt_pieces(run, selection, prompt_groups(run, selection)) if whole else part_pieces(run, selection)
    )
    return chain.from_iterable(run.engine.map(each, pieces))


def map_runs(run: Run, function: Callable[[Run], R]) -> Iterator[R]:
    """A function of the run, or of each piece of it where its engine splits it."""
    pieces = (piece.run for piece in part_pieces(run, EVERYTHING)) if run.engine.splits else (run,)
    return run.engine.map(function, pieces)


def part_pieces(run: Run, selection: Selection) -> Iterator[Piece]:
    """Neighbouring parts of about `PIECE_BYTES` together."""
    parts = run.parts()
    paths = [run.part_path("tokens", part) for part in parts]
    sizes = np.array([path.stat().st_size if path.exists() else 0 for path in paths], np.int64)
    for first, last in cuts(sizes, PIECE_BYTES):
        yield Piece(run.of_parts(parts[first:last]), selection)


def prompt_pieces(run: Run, selection: Selection, groups: Iterable[Sequence[str]]) -> Iterator[Piece]:
    """Each group of prompts, by their ids, with those parts only that hold a selected sequence of one."""
    places = _places(run, selection)
    parts = run.parts()
    for ids in groups:
        wanted = sorted({place for prompt in ids for place in places.get(prompt, ())})
        yield Piece(run.of_parts([parts[place] for place in wanted]), selection._replace(prompts=ids))


def prompts_of(piece: Piece) -> set[str]:
    """Ids of the prompts that have a sequence in a piece."""
    found: set[str] = set()
    prompts, kinds, _ = piece.selection
    for rows in piece.run.iter_row_groups("sequences", ["prompt_id"], prompts, kinds):
        found.update(rows["prompt_id"].unique().to_pylist())
    return found


@dataclass(frozen=True)
class _EachBlock(Generic[R]):
    """A function of each block of a piece."""

    function: Callable[[Block], R]
    inputs: set[str]
    whole: bool
    include_end: bool
    segments: bool

    def __call__(self, piece: Piece) -> list[R]:
        return list(self.results(piece))

    def results(self, piece: Piece) -> Iterator[R]:
        blocks = read_blocks(
            piece.run,
            self.inputs,
            piece.selection,
            whole=self.whole,
            include_end=self.include_end,
            segments=self.segments,
        )
        return map(self.function, blocks)


def _places(run: Run, selection: Selection) -> dict[str, list[int]]:
    """In which parts, by number, each prompt has a selected sequence."""
    found: dict[str, list[int]] = {}
    for place, part in enumerate(run.parts()):
        for prompt in prompts_of(Piece(run.of_parts([part]), selection)):
            found.setdefault(prompt, []).append(place)
    return found
