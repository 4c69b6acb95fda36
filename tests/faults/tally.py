"""What was injected and what came of it, over a session of tests: the table of docs/faults.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

Record = Callable[[str, object], None]  # pytest's record_property

HEAD = """# Faults

What `make faults` injected, and what came of it. A collection survives where the run is valid afterwards, goes on,
and ends with the sequences and token ids of one that nothing happened to. Bad input survives where it is refused in
one line with exit status 2 and leaves nothing behind.

| what | injected | survived | committed rows lost | tracebacks |
|---|---|---|---|---|
"""


def tell(record: Record, what: str, *, n: int = 1, rows_lost: int | None = None, tracebacks: int = 0) -> None:
    """Note what a test injects; it has survived if the test passes."""
    record("fault", (what, n, rows_lost, tracebacks))


def note(record: Record, text: str) -> None:
    """Note what a test measured."""
    record("note", text)


@dataclass
class Tally:
    """Counts by what was injected, in the order in which they came."""

    injected: Counter[str] = field(default_factory=Counter)
    survived: Counter[str] = field(default_factory=Counter)
    rows_lost: dict[str, int] = field(default_factory=dict)
    tracebacks: Counter[str] = field(default_factory=Counter)
    notes: list[str] = field(default_factory=list)

    def add(self, fault: tuple[str, int, int | None, int], passed: bool) -> None:
        what, n, lost, tracebacks = fault
        self.injected[what] += n
        self.survived[what] += n if passed else 0
        self.tracebacks[what] += tracebacks
        if lost is not None:
            self.rows_lost[what] = self.rows_lost.get(what, 0) + lost

    def table(self) -> str:
        """The page."""
        lines = [
            f"| {what} | {n} | {self.survived[what]} | {self.rows_lost.get(what, '')} | {self.tracebacks[what]} |"
            for what, n in self.injected.items()
        ]
        return HEAD + "\n".join([*lines, "", *self.notes]) + "\n"
