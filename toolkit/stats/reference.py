"""What the register of estimators says, as rows and as a page: `python -m toolkit.stats.reference > FILE`."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from math import inf
from typing import NamedTuple

from toolkit.stats import Estimator, estimators
from toolkit.stats.registry import LEVELS, Level

_HEADS: dict[Level, str] = {
    "token-span": "Over the tokens of a span",
    "samples": "Over the samples of a prompt",
    "asked": "Asked of the model: choices, and whether an answer is true",
}
_INTRODUCTION = """\
# Estimators

Every statistic of the register, as `toolkit summarize --list` prints it: what it is called, which columns it
reads, which way is more confident, the smallest and largest value, and who published it. A name takes its
parameters in parentheses: `min_k_percent(0.1)`, `lowest_window(window=64)`.

An input `TABLE.COLUMN` is of a table that `toolkit ask` or `toolkit p-true` puts beside a run.

This page is made from the docstrings: `python -m toolkit.stats.reference > docs/estimators.md`.

l is a token's log-probability, z the logits, p = softmax(z) over the V finite ones, H the entropy of p; all
logarithms are natural. `docs/formulas.md` defines the columns that the inputs name. For K samples, S is a
sample's summed log-probability and n its number of tokens.
"""


class Entry(NamedTuple):
    """A row of the register. `name` has the parameters with their defaults."""

    name: str
    level: str
    inputs: str
    direction: str  # which way is more confident: higher or lower
    range: str
    source: str


def entries() -> list[Entry]:
    """Every registered estimator, in the register's order."""
    return [_entry(estimator) for estimator in estimators()]


def page() -> str:
    """All of it as Markdown: a table a level, then each estimator's docstring."""
    return "\n".join([_INTRODUCTION, *(line for level in LEVELS for line in _section(level))])


def _entry(estimator: Estimator) -> Entry:
    low, high = (f"{bound:g}".replace("inf", "∞").replace("-", "−") for bound in estimator.range)
    left, right = ("(" if estimator.range[0] == -inf else "["), (")" if estimator.range[1] == inf else "]")
    return Entry(
        name=_usage(estimator),
        level=estimator.level,
        inputs=", ".join(estimator.inputs) or "none",
        direction="higher" if estimator.higher_is_confident else "lower",
        range=f"{left}{low}, {high}{right}",
        source=estimator.source,
    )


def _usage(estimator: Estimator) -> str:
    values = ", ".join(f"{name}={value}" for name, value in estimator.parameters.items())
    return f"{estimator.name}({values})" if values else estimator.name


def _section(level: Level) -> Iterator[str]:
    yield f"## {_HEADS[level]}\n"
    yield "| name | reads | more confident | range | source |"
    yield "|---|---|---|---|---|"
    for estimator in estimators(level):
        entry = _entry(estimator)
        yield f"| `{entry.name}` | {entry.inputs} | {entry.direction} | {entry.range} | {entry.source} |"
    yield ""
    for estimator in estimators(level):
        yield f"### {estimator.name}\n"
        yield f"{_prose(estimator)}\n"


def _prose(estimator: Estimator) -> str:
    """The docstring; its list of parameters as a list."""
    text = inspect.getdoc(estimator.function) or ""
    body, _, parameters = text.partition("\n\nParameters\n----------\n")
    if not parameters:
        return body
    items = parameters.partition("\n\n")[0]
    return f"{body}\n\n" + "\n".join(
        f"  {line.strip()}" if line.startswith(" ") else f"- {line}" for line in items.splitlines()
    )


if __name__ == "__main__":
    print(page(), end="")
