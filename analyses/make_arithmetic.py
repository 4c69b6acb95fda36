"""Make data/prompts/arithmetic.jsonl: sums, products and differences in five levels of difficulty.

The same seed gives the same file. A question comes after three worked examples of its own level, as turns of
a chat: without them a small model talks about arithmetic in place of doing it. Levels take turns, so that the
first lines of the file hold some of each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

OUTPUT = Path(__file__).parents[1] / "data" / "prompts" / "arithmetic.jsonl"
SEED = 2
QUESTIONS = 20  # of each level
EXAMPLES = 3


class Task(NamedTuple):
    """An expression of whole numbers, and what it is."""

    numbers: tuple[int, ...]
    sign: str
    answer: int

    @property
    def text(self) -> str:
        """As it is asked: `7 + 5`."""
        return f" {self.sign} ".join(map(str, self.numbers))

    @property
    def name(self) -> str:
        """As an id has it: `7-5`."""
        return "-".join(map(str, self.numbers))


def main() -> int:
    """Write the file, and say how many questions it has."""
    rows = make_rows(Random(SEED))
    OUTPUT.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    print(f"{OUTPUT}: {len(rows)} questions", file=sys.stderr)
    return 0


def make_rows(random: Random) -> list[dict[str, Any]]:
    """The lines of the file: a question of each level, then the next of each."""
    levels = [list(_questions(name, level, random)) for name, level in LEVELS.items()]
    return [row for turn in zip(*levels, strict=True) for row in turn]


def one_digit_sum(random: Random) -> Task:
    """7 + 5."""
    return _sum(random.randint(2, 9), random.randint(2, 9))


def one_digit_product(random: Random) -> Task:
    """7 * 5."""
    a, b = random.randint(2, 9), random.randint(2, 9)
    return Task((a, b), "*", a * b)


def two_digit_sum(random: Random) -> Task:
    """43 + 29."""
    return _sum(random.randint(10, 99), random.randint(10, 99))


def three_term_sum(random: Random) -> Task:
    """6 + 8 + 5."""
    return _sum(*(random.randint(2, 9) for _ in range(3)))


def difference(random: Random) -> Task:
    """12 - 7: what a one-digit sum undoes."""
    a, b = random.randint(1, 9), random.randint(2, 9)
    return Task((a + b, b), "-", a)


LEVELS: dict[str, Callable[[Random], Task]] = {
    "one-digit sum": one_digit_sum,
    "one-digit product": one_digit_product,
    "two-digit sum": two_digit_sum,
    "three-term sum": three_term_sum,
    "difference": difference,
}


def _sum(*numbers: int) -> Task:
    return Task(numbers, "+", sum(numbers))


def _questions(name: str, level: Callable[[Random], Task], random: Random) -> Iterator[dict[str, Any]]:
    """The lines of a level. No two ask for the same numbers, in whatever order."""
    asked: set[tuple[int, ...]] = set()
    while len(asked) < QUESTIONS:
        task = level(random)
        numbers = tuple(sorted(task.numbers))
        # An answer that is in the question would be right by repeating it.
        if numbers in asked or task.answer in numbers:
            continue
        asked.add(numbers)
        yield {
            "id": f"{name.replace(' ', '-')}-{task.name}",
            "messages": _messages(task, _examples(level, task, random)),
            "reference": [str(task.answer)],
            "metadata": {"level": name},
        }


def _examples(level: Callable[[Random], Task], task: Task, random: Random) -> list[Task]:
    """Tasks of the level with answers of their own, so that none can be copied."""
    found = {task.answer: task}
    while len(found) <= EXAMPLES:
        other = level(random)
        found.setdefault(other.answer, other)
    return list(found.values())[1:]


def _messages(task: Task, examples: list[Task]) -> list[dict[str, str]]:
    turns = []
    for example in examples:
        turns.append({"role": "user", "content": f"What is {example.text}?"})
        turns.append({"role": "assistant", "content": f"{example.text} = {example.answer}"})
    return [*turns, {"role": "user", "content": f"What is {task.text}?"}]


if __name__ == "__main__":
    raise SystemExit(main())
