"""Make data/prompts/choices.jsonl: the questions of capitals.jsonl with four choices each.

The wrong ones are capitals of the same continent. The same seed gives the same file.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "data" / "prompts"
SOURCE, OUTPUT = FOLDER / "capitals.jsonl", FOLDER / "choices.jsonl"
N_WRONG = 3
SEED = 0
ONLY_THE_NAME = " Answer with the name only."
# The first name that the source accepts is a former one.
RENAMED = {"Nur-Sultan": "Astana"}


def main() -> int:
    """Write the file, and say how many questions it has."""
    lines = SOURCE.read_text(encoding="utf-8").splitlines()
    made = questions([json.loads(line) for line in lines])
    OUTPUT.write_text("".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in made), encoding="utf-8")
    print(f"{OUTPUT}: {len(made)} questions", file=sys.stderr)
    return 0


def questions(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Each question with its capital and three others of the continent, in an order drawn for it."""
    rng = random.Random(SEED)
    return [_question(row, rows, rng) for row in rows]


def capital(row: dict[str, Any]) -> str:
    """The name of the capital that a choice has."""
    name = row["reference"][0]
    return RENAMED.get(name, name)


def _question(row: dict[str, Any], rows: Sequence[dict[str, Any]], rng: random.Random) -> dict[str, Any]:
    accepted = {name.casefold() for name in row["reference"]}
    continent = row["metadata"]["continent"]
    others = {capital(other) for other in rows if other["metadata"]["continent"] == continent}
    wrong = rng.sample(sorted(name for name in others if name.casefold() not in accepted), N_WRONG)
    choices = [capital(row), *wrong]
    rng.shuffle(choices)
    return {
        "id": row["id"].replace("capital-", "choice-", 1),
        "prompt": row["prompt"].removesuffix(ONLY_THE_NAME),
        "choices": choices,
        "reference": capital(row),
        "metadata": row["metadata"],
    }


if __name__ == "__main__":
    sys.exit(main())
