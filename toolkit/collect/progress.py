"""How far a collection has come, on stderr: a bar in a terminal, plain lines elsewhere.

Knows only counts. Output that fails is given up without a word: a lost terminal must not end a collection.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType
from typing import TextIO

from toolkit.characters import count

_REDRAW_SECONDS = 0.1  # between two drawings of the bar
_LINE_SECONDS = 10.0  # between two plain lines
_LINE_SHARE = 0.1  # or after this share of the whole
_WINDOW_SECONDS = 30.0  # the speed is that of the last half minute
_BAR_COLUMNS = 24


class Progress:
    """Progress of a number of sequences, with tokens a second and the time left.

    Parameters
    ----------
    total : int
        Sequences that there will be at the end, those done before included.
    done : int
        Sequences done before; they do not count towards the speed.
    label : str
        What stands at the beginning of the line.
    unit : str
        What is counted; of other things than sequences the speed is told, not that of tokens.
    stream : TextIO, optional
        Where to write; stderr by default. None and closed streams are taken, and nothing is written.
    terminal : bool, optional
        Draw a bar in place; by default where the stream is a terminal that can (TERM is not `dumb`).
    clock : callable
        Seconds that only rise.

    Examples
    --------
    >>> with Progress(total=432, label="collect") as progress:  # doctest: +SKIP
    ...     progress.update(sequences=1, tokens=17)
    """

    def __init__(
        self,
        total: int,
        *,
        done: int = 0,
        label: str = "",
        unit: str = "sequence",
        stream: TextIO | None = None,
        terminal: bool | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self.done = done
        self.tokens = 0
        self._label, self._unit = label, unit
        self._stream = sys.stderr if stream is None else stream
        self._terminal = _draws_in_place(self._stream) if terminal is None else terminal
        self._clock = clock
        self._marks = deque([(clock(), done, 0)])  # (seconds, sequences, tokens), oldest first
        self._shown_at: float | None = None
        self._shown_done = done
        self._columns_shown = 0

    def update(self, sequences: int = 0, tokens: int = 0) -> None:
        """Add finished sequences and generated tokens; show it where it is time to."""
        self.done += sequences
        self.tokens += tokens
        now = self._clock()
        self._mark(now)
        if self._is_due(now):
            self._show(now)

    def message(self, text: str) -> None:
        """Write a line of its own; the bar goes on below it."""
        self._clear()
        self._write(f"{text}\n")
        if self._terminal and self._shown_at is not None:
            self._show(self._clock())

    def close(self) -> None:
        """Show the last state, where it is not shown yet, and leave the line."""
        if self._terminal or self._shown_at is None or self.done != self._shown_done:
            self._show(self._clock())
        if self._terminal:
            self._write("\n")
        self._columns_shown = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _mark(self, now: float) -> None:
        if len(self._marks) > 1 and now - self._marks[-2][0] < _REDRAW_SECONDS:
            self._marks.pop()  # one mark for each tenth of a second, however often it is called
        self._marks.append((now, self.done, self.tokens))
        while len(self._marks) > 2 and now - self._marks[1][0] >= _WINDOW_SECONDS:
            self._marks.popleft()

    def _is_due(self, now: float) -> bool:
        if self._shown_at is None:
            return True
        waited = now - self._shown_at
        if self._terminal:
            return waited >= _REDRAW_SECONDS
        return waited >= _LINE_SECONDS or self.done - self._shown_done >= max(1, _LINE_SHARE * self.total)

    def _show(self, now: float) -> None:
        self._shown_at, self._shown_done = now, self.done
        if self._terminal:
            self._draw(self._bar_line())
        else:
            self._write(f"{self._prefix()}{self._counts()}{self._speed()}\n")

    def _bar_line(self) -> str:
        return f"{self._prefix()}{bar(self.done, self.total, _BAR_COLUMNS)} {self._counts()}{self._speed()}"

    def _prefix(self) -> str:
        return f"{self._label}: " if self._label else ""

    def _counts(self) -> str:
        percent = 100 * self.done // self.total if self.total else 100
        return f"{self.done:,}/{count(self.total, self._unit)} ({percent} %)"

    def _speed(self) -> str:
        (then, done, tokens), (now, _, _) = self._marks[0], self._marks[-1]
        seconds = now - then
        if seconds <= 0:
            return ""
        finished, left = self.done - done, self.total - self.done
        if self._unit == "sequence":
            text = f", {(self.tokens - tokens) / seconds:,.0f} tokens/s"
        else:
            text = f", {finished / seconds:,.1f} {self._unit}s/s"
        return f"{text}, {duration(left * seconds / finished)} left" if finished and left > 0 else text

    def _draw(self, line: str) -> None:
        columns = shutil.get_terminal_size().columns - 1  # the last column would wrap
        line = line[:columns]
        self._write(f"\r{line}{' ' * (self._columns_shown - len(line))}")
        self._columns_shown = len(line)

    def _clear(self) -> None:
        if self._columns_shown:
            self._write(f"\r{' ' * self._columns_shown}\r")
            self._columns_shown = 0

    def _write(self, text: str) -> None:
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError, AttributeError):  # gone, closed, or None
            return


def bar(done: int, total: int, columns: int) -> str:
    """`[#####.....]`, `columns` wide inside, full only when all is done."""
    filled = columns if done >= total else max(0, columns * done // total)
    return f"[{'#' * filled}{'.' * (columns - filled)}]"


def duration(seconds: float) -> str:
    """Seconds as `0:07`, `12:30`, `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def _draws_in_place(stream: TextIO | None) -> bool:
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except (OSError, ValueError):
        return False
