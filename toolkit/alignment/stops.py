"""Stop strings: text ends before the first one, wherever token borders lie.

Which stop string matches depends on the text alone, never on how it came in pieces: the match that begins
earliest wins, and of two that begin together the shorter one. While a match that began earlier could still
be completed, a complete later one waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from toolkit.alignment.align import char_to_byte_offsets
from toolkit.alignment.segments import StreamingSegmenter, segment_pieces
from toolkit.errors import ToolkitError
from toolkit.records import Segment


class _Automaton(NamedTuple):
    """Aho-Corasick: a node is a prefix of a stop string; node 0 is the empty one."""

    children: list[dict[str, int]]
    fallback: list[int]  # the longest proper suffix of the node that is a node
    depth: list[int]  # the node's length
    match: list[str]  # the longest stop string that is a suffix of the node, or ""


@lru_cache(maxsize=64)
def _compile(stops: tuple[str, ...]) -> _Automaton:
    automaton = _Automaton([{}], [0], [0], [""])
    for stop in stops:
        _insert(automaton, stop)
    queue = deque([0])
    while queue:
        node = queue.popleft()
        for character, child in automaton.children[node].items():
            fallback = _next(automaton, automaton.fallback[node], character) if node else 0
            automaton.fallback[child] = fallback
            automaton.match[child] = automaton.match[child] or automaton.match[fallback]
            queue.append(child)
    return automaton


def _insert(automaton: _Automaton, stop: str) -> None:
    node = 0
    for character in stop:
        child = automaton.children[node].setdefault(character, len(automaton.children))
        if child == len(automaton.children):
            automaton.children.append({})
            automaton.fallback.append(0)
            automaton.depth.append(automaton.depth[node] + 1)
            automaton.match.append("")
        node = child
    automaton.match[node] = stop


def _next(automaton: _Automaton, node: int, character: str) -> int:
    while node and character not in automaton.children[node]:
        node = automaton.fallback[node]
    return automaton.children[node].get(character, 0)


def _checked(stops: str | Iterable[str]) -> tuple[str, ...]:
    listed = (stops,) if isinstance(stops, str) else tuple(stops)
    for stop in listed:
        if not isinstance(stop, str):
            raise ToolkitError(f"stop: {stop!r} is of type {type(stop).__name__}; give strings")
        if not stop:
            raise ToolkitError("stop: '' is empty; give a string of at least one character, or none")
        if any("\ud800" <= character <= "\udfff" for character in stop):
            raise ToolkitError(f"stop: {stop!r} has a lone surrogate, which no text has; give valid Unicode")
    return listed


class StopMatcher:
    """Finds stop strings in a text that comes in pieces, in time linear in the text.

    Parameters
    ----------
    stops : str or iterable of str
        Each at least one character. They may overlap and contain each other. None at all is allowed.

    Attributes
    ----------
    matched : str or None
        The stop string that ended the text.

    Raises
    ------
    ToolkitError
        A stop string is empty, not a string, or not valid Unicode.
    """

    def __init__(self, stops: str | Iterable[str]) -> None:
        self._automaton = _compile(_checked(stops))
        self._node = 0
        self._n_chars = 0  # seen
        self._candidate: tuple[int, str] | None = None  # where the best complete match begins, and it
        self.matched: str | None = None

    def push(self, text: str) -> int:
        """Take the next piece of text.

        Returns
        -------
        int
            Characters, counted from the start, that are sure to be kept. The rest could be the start of a
            stop string, or came after one. Once `matched` is set it does not change any more.
        """
        for character in text:
            self._step(character)
        return self._kept()

    def finish(self) -> int:
        """End the text: a partial match is released, a complete one that waited is taken. Returns as push."""
        if self._candidate is not None:
            self.matched = self._candidate[1]
        self._node = 0
        return self._kept()

    def _step(self, character: str) -> None:
        self._n_chars += 1
        self._node = _next(self._automaton, self._node, character)
        stop = self._automaton.match[self._node]
        # Of equal beginnings the first to complete is the shorter one, and stays.
        if stop and (self._candidate is None or self._n_chars - len(stop) < self._candidate[0]):
            self._candidate = (self._n_chars - len(stop), stop)
        if self._candidate is not None and self._candidate[0] <= self._open():
            self.matched = self._candidate[1]

    def _open(self) -> int:
        """Where the earliest match that could still be completed begins."""
        return self._n_chars - self._automaton.depth[self._node]

    def _kept(self) -> int:
        if self.matched is not None and self._candidate is not None:
            return self._candidate[0]
        return self._open()


class TextStream:
    """The segments of a sequence as they come, up to a stop string.

    Its segments are those of `segment_pieces(pieces, n_bytes)`, whatever the stop strings. A segment that
    holds a character which could begin a stop string is held whole, so its `emitted_at`, the token whose
    arrival released it, can be later than there; pushing the same pieces again gives the same segments.

    Parameters
    ----------
    stops : str or iterable of str
        See `StopMatcher`. They are looked for in the text, so the literal of a special token never matches.

    Attributes
    ----------
    n_bytes : int
        Bytes kept: all so far, or those before the stop string.
    """

    def __init__(self, stops: str | Iterable[str] = ()) -> None:
        self._segmenter = StreamingSegmenter()
        self._matcher = StopMatcher(stops)
        self._pieces: list[bytes | None] = []
        self._held: deque[Segment] = deque()
        self._n_released = 0  # segments
        self.n_bytes = 0

    @property
    def stopped(self) -> str | None:
        """The stop string that ended the text. `finish` too can set it: see there."""
        return self._matcher.matched

    def push(self, piece: bytes | None) -> list[Segment]:
        """Take the next token's bytes (None for a special token); return the segments it releases.

        After a stop string nothing is released any more.
        """
        if self.stopped is not None:
            return []
        self._pieces.append(piece)
        self.n_bytes += len(piece or b"")
        return self._take(self._segmenter.push(piece))

    def finish(self) -> list[Segment]:
        """End the sequence; return what was held.

        A stop string can still be found here: one that was complete but waited for another that began
        earlier, or one that contains the U+FFFD of an unfinished character.
        """
        return self._take(self._segmenter.finish(), final=True)

    def _take(self, segments: Sequence[Segment], final: bool = False) -> list[Segment]:
        kept = self._matcher.push("".join(segment.text for segment in segments))
        if final:
            kept = self._matcher.finish()
        self._held.extend(segments)
        if self.stopped is not None:
            return self._cut(kept)
        released = []
        while self._held and self._held[0].char_end <= kept:
            released.append(self._held.popleft())
        return self._emitted(released)

    def _cut(self, n_chars: int) -> list[Segment]:
        data = b"".join(piece or b"" for piece in self._pieces)
        self.n_bytes = int(char_to_byte_offsets(data)[n_chars])
        self._held.clear()
        return self._emitted(segment_pieces(self._pieces, self.n_bytes)[self._n_released :])

    def _emitted(self, segments: Sequence[Segment]) -> list[Segment]:
        self._n_released += len(segments)
        return [segment._replace(emitted_at=len(self._pieces) - 1) for segment in segments]
