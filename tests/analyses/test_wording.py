"""Numbers as a report writes them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.analyses.made import support
from toolkit.stats.bootstrap import Interval

wording, reports = support("wording"), support("reports")
SPREAD = {"value": 0.456, "low": -0.004, "high": 1234.5}
UNKNOWN = {"value": None, "low": None, "high": None}


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [
        (0.456, 2, "0.46"),
        (-0.456, 1, "−0.5"),
        (-0.001, 2, "0.00"),
        (1234.5, 0, "1,234"),
        (None, 2, "not computed"),
    ],
)
def test_a_number_is_rounded_and_zero_has_no_sign(value: float | None, digits: int, text: str) -> None:
    assert wording.number(value, digits) == text


def test_a_spread_is_written_with_its_ends_and_its_unit() -> None:
    assert wording.spread(SPREAD) == "0.46 (0.00 to 1,234.50)"
    assert wording.percents({"value": 0.456, "low": 0.4, "high": 0.5}) == "46 % (40 to 50)"
    assert wording.points({"value": -0.456, "low": -0.5, "high": 0.4}, 1) == "−45.6 points (−50.0 to 40.0)"
    assert wording.hundredth({"value": 0.456, "low": 0.4, "high": 0.5}) == "46 (40 to 50)"
    assert wording.spread({"value": 0.4, "low": None, "high": None}) == "0.40"


@pytest.mark.parametrize("write", ["spread", "percents", "points"])
def test_what_was_not_computed_is_said_so(write: str) -> None:
    assert getattr(wording, write)(UNKNOWN) == "not computed"


def test_an_interval_is_above_a_limit_only_where_all_of_it_is() -> None:
    assert wording.above({"value": 1, "low": 0.1, "high": 2})
    assert not wording.above({"value": 1, "low": 0.0, "high": 2})
    assert wording.above({"value": 1, "low": 0.6, "high": 2}, 0.5)
    assert wording.below({"value": -1, "low": -2, "high": -0.1})
    assert not wording.below({"value": -1, "low": -2, "high": 0.0})
    assert not wording.above(UNKNOWN)
    assert not wording.below(UNKNOWN)


def test_a_paragraph_an_item_and_a_row_are_a_line_each() -> None:
    text = (
        "\n\na b\n  c.\n\n\n\n- one\n  two\n- three\n\n| a |\n|---|\n| b |\n    c |\n\n    code\n    more\n"
    )
    assert wording.unwrapped(text) == (
        "a b c.\n\n- one two\n- three\n\n| a |\n|---|\n| b | c |\n\n    code\n    more\n"
    )


def test_a_name_that_the_results_lack_is_an_error() -> None:
    with pytest.raises(Exception, match=r"no attribute|undefined"):
        wording.render("{{ r.nothing }}", r={})


def test_results_are_plain_json_with_six_digits() -> None:
    given = {
        "interval": Interval(1 / 3, math.nan, math.inf, 5, 0),
        "numbers": (np.float64(2 / 3), np.int64(4), True, "text", None),
    }
    assert reports.plain(given) == {
        "interval": {"value": 0.333333, "low": None, "high": None},
        "numbers": [0.666667, 4, True, "text", None],
    }
