"""Functions that workers of other processes import."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path


def squared(number: int) -> int:
    return number * number


def refused(number: int) -> int:
    from toolkit.errors import DataFault, argument

    raise DataFault(f"{argument('workers')}: {number} is refused")


@dataclass(frozen=True)
class DiesOnce:
    """Kills its process where the file is not there yet; else it does what it is for."""

    marker: Path

    def _die_once(self) -> None:
        if not self.marker.exists():
            self.marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Square(DiesOnce):
    """A square; the number 5 is a death."""

    def __call__(self, number: int) -> int:
        if number == 5:
            self._die_once()
        return number * number


@dataclass(frozen=True)
class FirstHalf(DiesOnce):
    """A finder of spans: the first half of a text."""

    def __call__(self, text: str) -> list[tuple[int, int]]:
        self._die_once()
        return [(0, len(text) // 2)]


@dataclass(frozen=True)
class FirstLetter(DiesOnce):
    """What a text answers: its first letter."""

    def __call__(self, text: str) -> str:
        self._die_once()
        return text[:1]


def dies(number: int) -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    return number
