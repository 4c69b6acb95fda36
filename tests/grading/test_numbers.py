"""Numbers in text: as people write them, and written by a program."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.grading import find_numbers


def values(text, **options):
    return [number.value for number in find_numbers(text, **options)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("is 42.", [42]),
        ("1,234.5", [1234.5]),
        ("12,34,567", [1234567]),
        ("1\u202f234\u00a0567", [1234567]),
        ("1'000 and 1_000", [1000, 1000]),
        ("1,2,3", [1, 2, 3]),
        ("1, 2 and 3", [1, 2, 3]),
        (".5", [0.5]),
        ("-5 to −7", [-5, -7]),
        ("3-5", [3, 5]),
        ("GPT-4", [4]),
        ("- 5 apples", [5]),
        ("(-5)", [-5]),
        ("-$5, $-5, €3.50", [-5, -5, 3.5]),
        ("(3,-5)", [3, -5]),
        ("x.-5", [-5]),
        ("...-5", [-5]),
        ("(-3)-5", [-3, 5]),
        ("it is 6--7", [6, 7]),
        ("answer--42", [42]),
        ("The answer is...42", [42]),
        ("is.42", [42]),
        ("3..5", [3, 5]),
        ("10 000", [10_000]),
        ("1 234 567.5 people", [1_234_567.5]),
        ("2020 100", [2020, 100]),
        ("010 000", [10, 0]),
        ("1,234 567", [1234, 567]),
        ("10 00 and 10  000", [10, 0, 10, 0]),
        ("2.5e6 1E-3", [2.5e6, 1e-3]),
        ("2×10⁶, 6.02 x 10^23, 5·10⁻²", [2e6, 6.02e23, 0.05]),
        ("10^6, 10⁶, 2**10, 10^{-2}, -2^2", [1e6, 1e6, 1024, 0.01, -4]),
        (r"2 \times 10^{6} or 2\cdot10^3", [2e6, 2e3]),
        ("1969² and 110⁶", [1969, 110]),
        ("5 m^2, x^-3, y^{12}, 2^3^2", [5, 8]),
        ("9^99999 and 0^-1", []),
        ("3/4", [0.75]),
        ("-1/2", [-0.5]),
        ("1 1/2 and 1½ and ½", [1.5, 1.5, 0.5]),
        ("1/0", []),
        ("5 million and 1.5 billion", [5e6, 1.5e9]),
        ("12/05/2020", []),
        ("3.11.7", []),
        ("H2O v2", []),
        ("1e999", []),
        ("9" * 400, []),
        ("٣٫٥ and １２ and १२", [3.5, 12, 12]),
        ("10:30", [10, 30]),
        ("", []),
        ("none", []),
    ],
)
def test_numbers_in_digits(text, expected):
    assert values(text) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("zero", [0]),
        ("Twenty-five people", [25]),
        ("three hundred and five", [305]),
        ("one hundred twenty thousand and six", [120006]),
        ("two million, three hundred thousand and twelve", [2300012]),
        ("twelve hundred", [1200]),
        ("a million and a hundred", [1000100]),
        ("minus two", [-2]),
        ("three point one four", [3.14]),
        ("one two three", [1, 2, 3]),
        ("someone, tenth, pone", []),
        ("No one knows, nor any one, the one, this one", []),
        ("no-one", []),
        ("one another", []),
        ("this one million", [1e6]),
        ("one", [1]),
        ("one half", [0.5]),
        ("two thirds and three-quarters", [2 / 3, 0.75]),
        ("the twenty third", [20]),
        ("two and a half", [2.5]),
        ("two and a half million", [2.5e6]),
        ("half a million", [5e5]),
        ("one half million", [5e5]),
        ("minus one third", [-1 / 3]),
    ],
)
def test_numbers_in_words(text, expected):
    assert values(text) == pytest.approx(expected)
    assert values(text, words=False) == []


def test_words_count_only_without_digits():
    assert values("One of them is 7") == [7]


def test_decimal_comma():
    assert values("1.234,5 und 3,14 und 2.000", decimal=",") == pytest.approx([1234.5, 3.14, 2000])


@pytest.mark.parametrize("text", ["45%", "45 %", "45 percent", "45 per cent", "forty-five percent", "４５％"])
def test_percentages_are_marked(text):
    (number,) = find_numbers(text)
    assert (number.value, number.percent) == (45, True)
    assert not find_numbers("45 percents")[0].percent


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=64), max_size=5))
def test_what_python_writes_is_read_back_exactly(numbers):
    assert values(", ".join(map(repr, numbers))) == numbers


@given(st.integers(-(10**15), 10**15))
def test_grouped_integers_are_read_back(number):
    assert values(f"about {number:,} people") == [number]


@given(st.text())
def test_a_number_lies_where_it_says(text):
    for number in find_numbers(text):
        assert math.isfinite(number.value)
        assert text[number.start : number.end].strip()
        again = find_numbers(text[number.start : number.end])
        assert [abs(n.value) for n in again] == [abs(number.value)]


@given(st.integers(0, 10**12))
def test_integers_in_groups_with_spaces_are_read_back(number):
    assert values(f"about {number:,} people".replace(",", " ")) == [number]


@pytest.mark.parametrize("text", ["1 " * 5000, "1,234" * 2000, "one " * 5000, "1/" * 5000, "hundred " * 3000])
def test_long_texts_end(text):
    assert {number.value for number in find_numbers(text)} <= {1, 100, 234, 2341}
