"""Stretches of a sequence's text and the tokens or values that they belong to.

Plain texts and numbers: knows nothing of runs, colours or terminals.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from toolkit.appearance.scales import Scale
from toolkit.characters import JOINERS, clusters

T = TypeVar("T")


class Piece(NamedTuple):
    """A stretch of text and the value that colours it.

    NaN is a value that was not computed; None is text that belongs to nothing that could have one. Both stay
    plain; without colours, a question mark tells the first from text that the model was sure of.
    """

    text: str
    value: float | None


def whole_characters(parts: Sequence[tuple[str, T]]) -> list[tuple[str, tuple[T, ...]]]:
    """Parts of a text cut anew, so that no cluster of characters is in two of them.

    Returns
    -------
    list of (text, owners)
        The text in order; `owners` is what came with the parts that the text is of, mostly one.
    """
    text = "".join(part for part, _ in parts)
    if text.isascii():
        return [(part, (owner,)) for part, owner in parts if part]
    owner_of = [i for i, (part, _) in enumerate(parts) for _ in part]
    found = []
    place = 0
    for cluster in _with_what_joiners_need(clusters(text)):
        owners = tuple(dict.fromkeys(owner_of[place : place + len(cluster)]))
        place += len(cluster)
        found.append((cluster, owners))
    return [(part, tuple(parts[i][1] for i in owners)) for part, owners in _joined(found)]


def _with_what_joiners_need(found: Iterable[str]) -> Iterator[str]:
    """Clusters; one that ends in a joiner comes with the next, without which the joiner would mean nothing."""
    held = ""
    for cluster in found:
        held += cluster
        if len(held) == 1 or held[-1] not in JOINERS:
            yield held
            held = ""
    if held:
        yield held


def _joined(parts: Iterable[tuple[str, tuple[int, ...]]]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Neighbours that have the same owners as one."""
    for owners, group in groupby(parts, key=lambda part: part[1]):
        yield "".join(text for text, _ in group), owners


def shared_value(values: Sequence[float | None], scale: Scale) -> float | None:
    """The value of what several pieces make together: the least sure one's; None where none has any."""
    known = [value for value in values if value is not None]
    return least_sure(known, scale) if known else None


def split_by_tokens(
    text: str, byte_start: int, byte_end: int, tokens: Sequence[tuple[int, int]]
) -> list[tuple[str, tuple[int, ...]]]:
    """A segment's text cut where its tokens meet.

    Parameters
    ----------
    text : str
        The segment's text, which lies over bytes `byte_start` to `byte_end` of the sequence.
    tokens : sequence of (byte_start, byte_end)
        Those with a byte in the segment, in order.

    Returns
    -------
    list of (text, tokens)
        The text in order, each part with the places of its tokens: mostly one, several where they made one
        character together.

    Notes
    -----
    Invalid bytes stand as U+FFFD, and which bytes each one replaced is not kept: such a segment is one piece.
    """
    spans = _character_spans(text, byte_start, byte_end)
    if spans is None:
        return [(text, tuple(range(len(tokens))))] if text else []
    owners = (
        tuple(i for i, (first, last) in enumerate(tokens) if first < end and last > start)
        for start, end in spans
    )
    return list(_joined(zip(text, owners, strict=True)))


def _character_spans(text: str, byte_start: int, byte_end: int) -> list[tuple[int, int]] | None:
    spans, place = [], byte_start
    for character in text:
        following = place + len(character.encode("utf-8", errors="replace"))
        spans.append((place, following))
        place = following
    return spans if place == byte_end and "\ufffd" not in text else None


def least_sure(values: Sequence[float], scale: Scale) -> float:
    """The value of lowest confidence, also beyond the scale's end; NaN where none was computed."""
    known = [value for value in values if not math.isnan(value)]
    worst = min if scale.sure > scale.unsure else max
    return worst(known) if known else math.nan
