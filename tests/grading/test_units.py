"""Which texts are a number, and which only have one in them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.grading.units import whole_number


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12", 12),
        (" -5. ", -5),
        ("(1,234)", 1234),
        ("**42**", 42),
        ("= 7", 7),
        ("twenty-five", 25),
        ("half a million", 500_000),
        ("45 %", 45),
        ("forty-five percent", 45),
        ("$5", 5),
        ("-$5", -5),
        ("US$ 5", 5),
        ("5 EUR", 5),
        ("EUR 5", 5),
        ("₹5", 5),
        ("5 million dollars", 5e6),
        ("12 km", 12),
        ("12km/h", 12),
        ("9.81 m/s²", 9.81),
        ("9.81 m/s^2", 9.81),
        ("60 miles per hour", 60),
        ("300 square kilometres", 300),
        ("10 000 km²", 10_000),
        ("20 °C", 20),
        ("20 degrees Celsius", 20),
        ("230V", 230),
        ("10 s", 10),
        ("5 years old", 5),
        ("2.1 million people", 2.1e6),
        ("4 light-years", 4),
    ],
)
def test_a_number_with_its_unit_is_a_number(text, expected):
    number = whole_number(text)
    assert number is not None
    assert number.value == expected


@pytest.mark.parametrize(
    "text",
    [
        *(
            "Apollo 11",
            "The Three Musketeers",
            "Summer of 1999 tour",
            "50 Cent",
            "21 Grams",
            "101 Dalmatians",
        ),
        *("1990s", "4K", "5G", "3D", "7 Up", "19th", "44 BC", "Channel 4", "Catch-22", "H2O", "v2", "12 kmx"),
        *("", "none", "1 or 2", "3-5 km", "five of them", "No one"),
    ],
)
def test_a_name_with_a_number_is_none(text):
    assert whole_number(text) is None


def test_the_decimal_mark_and_words_are_options():
    assert whole_number("3,5 km", decimal=",") == (3.5, False, 0, 3)
    assert whole_number("five", words=False) is None


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_what_python_writes_is_a_number(value):
    number = whole_number(repr(value))
    assert number is not None
    assert number.value == value


@pytest.mark.parametrize(
    "tail", ["m" * 9000, "m " * 9000 + "x", " " * 9000 + "x", "- " * 9000 + "x", "m-" * 9000]
)
def test_long_texts_end(tail):
    assert whole_number("5 " + tail) is None
