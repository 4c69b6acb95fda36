"""Text as it comes, for `collect --stream`: whole lines, each with the sequence that it belongs to."""

from __future__ import annotations

from typing import TextIO

from toolkit.characters import visible
from toolkit.collect.continuations import Key, TextStep, key_of


class LiveText:
    """Prints segments as they come.

    One sequence at a time would not show the others, and mixed segments cannot be read; so each sequence's text is
    printed line by line, as soon as a line or the sequence ends.

    Parameters
    ----------
    stream : where to print
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._lines: dict[Key, str] = {}

    def __call__(self, step: TextStep) -> None:
        """Take a step of the collection."""
        ended = {record.key for record in step.records}
        for sequence, released in zip(step.step.sequences, step.released, strict=True):
            key = key_of(sequence)
            text = self._lines.pop(key, "") + "".join(segment.text for segment in released)
            *lines, rest = text.split("\n")
            for line in lines:
                self._print(key, line)
            if key in ended:
                self._print(key, rest)
            elif rest:
                self._lines[key] = rest

    def _print(self, key: Key, line: str) -> None:
        prompt_id, kind, index = key
        self._stream.write(f"{visible(prompt_id)} {kind} {index}: {visible(line)}\n")
        self._stream.flush()
