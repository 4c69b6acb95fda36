"""Numbers as a report writes them, and the questions that its sentences ask of them.

A report is a Jinja template over the results as JSON, so that nothing but those can be quoted. Intervals are
objects with value, low and high; null is "not computed".
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import jinja2

NONE = "not computed"
Spread = Mapping[str, float | None]


def render(template: str, **given: Any) -> str:
    """Markdown of a template: a line a paragraph, however the template breaks it."""
    return unwrapped(_environment().from_string(template).render(**given))


def number(value: float | None, digits: int = 2) -> str:
    """0.91; −0.32; what rounds to zero has no sign."""
    if value is None:
        return NONE
    text = f"{value:,.{digits}f}"
    return (text.lstrip("-") if not re.search("[1-9]", text) else text).replace("-", "−")


def spread(given: Spread, digits: int = 2) -> str:
    """0.91 (0.87 to 0.95)."""
    if given["value"] is None:
        return NONE
    return number(given["value"], digits) + _ends(given, digits)


def percent(value: float | None, digits: int = 0) -> str:
    """45 %."""
    return NONE if value is None else f"{number(100 * value, digits)} %"


def percents(given: Spread, digits: int = 0) -> str:
    """45 % (38 to 52)."""
    return percent(given["value"], digits) + _ends(_hundredfold(given), digits)


def points(given: Spread, digits: int = 0) -> str:
    """3 points (−2 to 8): a difference of two percentages."""
    if given["value"] is None:
        return NONE
    tenfold = _hundredfold(given)
    return f"{number(tenfold['value'], digits)} points{_ends(tenfold, digits)}"


def hundredth(given: Spread, digits: int = 0) -> str:
    """46.5 (39.3 to 54.7): as `percents`, for a table that says the unit."""
    return spread(_hundredfold(given), digits)


def plainly(value: float | None) -> str:
    """1; 0.8."""
    return NONE if value is None else f"{value:g}"


def code(text: str) -> str:
    """A name as code."""
    return f"`{text}`"


def above(given: Spread, limit: float = 0.0) -> bool:
    """Whether the whole interval lies above the limit."""
    return given["low"] is not None and given["low"] > limit


def below(given: Spread, limit: float = 0.0) -> bool:
    """Whether the whole interval lies below the limit."""
    return given["high"] is not None and given["high"] < limit


def unwrapped(text: str) -> str:
    """Lines of a paragraph, a list item or a row of a table joined; blank lines between blocks, one at most."""
    blocks = [block.strip("\n") for block in re.split(r"\n\s*\n", text)]
    return "\n\n".join(_joined(block) for block in blocks if block.strip()) + "\n"


def _joined(block: str) -> str:
    if block.startswith(("#", "    ")):
        return "\n".join(line.rstrip() for line in block.splitlines())
    return re.sub(r"\s*\n(?!- |\|)\s*", " ", block.strip())


def _ends(given: Spread, digits: int) -> str:
    if given["low"] is None or given["high"] is None:
        return ""
    return f" ({number(given['low'], digits)} to {number(given['high'], digits)})"


def _hundredfold(given: Spread) -> Spread:
    return {name: None if value is None else 100 * value for name, value in given.items()}


@cache
def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        autoescape=False, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    for filter_ in (number, spread, percent, percents, points, hundredth, plainly, code):
        made.filters[filter_.__name__] = filter_
    for test in (above, below):
        made.tests[test.__name__] = test
    return made
