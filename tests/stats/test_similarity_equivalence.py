"""Which samples say the same: answers of texts, and the classes that equal answers make."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit import patterns
from toolkit.errors import ToolkitError
from toolkit.stats import answers, equivalence


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("  Paris \n", "paris"),
        ("**Paris**.", "paris"),
        ("'Paris,' she   said!", "paris she said"),
        ("ＰＡＲＩＳ", "paris"),
        ("Straße", "strasse"),
        ("巴黎。", "巴黎"),
        ("«Oslo»", "oslo"),
        ("-5", "-5"),
        ("-.5", "-.5"),
        ("3.5", "3.5"),
        ("5%.", "5%"),
        ("C#", "c#"),
        ("45 %", "45%"),
        ("% of 5", "% of 5"),
        ("- Paris", "paris"),
        ("don't", "don't"),
        ("?!", "?!"),
        ("", ""),
    ],
)
def test_a_normalised_text_keeps_what_changes_an_answer(text: str, expected: str) -> None:
    assert answers.normalize_text(text) == expected


@given(st.text(max_size=30))
def test_normalising_twice_changes_nothing_more(text: str) -> None:
    once = answers.normalize_text(text)
    assert answers.normalize_text(once) == once


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is 1,234.5 or so", 1234.5),
        ("1,23,456", 123456.0),
        ("10,20", 20.0),
        ("1,2345", 2345.0),
        ("12\u202f345", 12345.0),
        ("x = −3", -3.0),
        ("+7", 7.0),
        ("GPT-4", 4.0),
        ("3-5", 5.0),
        ("5 - 3", 3.0),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("1e999", None),
        ("It is 5.", 5.0),
        ("($5)", 5.0),
        ("50%", 50.0),
        ("٣٤", 34.0),
        ("H2O", None),
        ("v1.2.3", None),
        ("none", None),
        ("3.11.7", None),
        ("The answer is...42", 42.0),
        ("(3,-5)", -5.0),
        ("...-5", -5.0),
        ("answer--42", 42.0),
        ("-$5", -5.0),
        ("$-5", -5.0),
        ("−€3.50", -3.5),
        ("10 000", 10000.0),
        ("2020 100", 100.0),
        ("12\u2009345", 12345.0),
        ("10^6", 1e6),
        ("2**3", 8.0),
        ("-2^2", -4.0),
        ("2 x 10^-3", 0.002),
        ("5 m^2", 5.0),
        ("2^99999", None),
        ("0^-1", None),
    ],
)
def test_the_last_number_of_a_text(text: str, expected: float | None) -> None:
    assert answers.extract_number(text) == expected


def test_the_first_number_is_an_option() -> None:
    assert answers.extract_number("3 of 4", "first") == 3.0
    with pytest.raises(ToolkitError, match="first or last"):
        answers.extract_number("3", "middle")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The answer is (B).", "B"),
        ("Answer: **C**", "C"),
        ("First I chose option A, but the answer is D.", "D"),
        ("B) Paris", "B"),
        ("b.", "B"),
        (" C \n", "C"),
        ("(d)", "D"),
        ("I think (d) is right", "D"),
        (r"The correct one is \boxed{B}", "B"),
        ("Answer\n\nC", "C"),
        ("answer: __B__", "B"),
        ("This is a hard choice. A is wrong, C is right.", None),
        ("Choose the best option. A cat sat.", None),
        ("Is that an option? A cat sat.", None),
        ("An answer… A cat sat.", None),
        ("A dog ran", None),
        ("answer is a dog", None),
        ("The answer isn't clear", None),
        ("The answer is Berlin", None),
        ("F.", None),
        ("", None),
    ],
)
def test_the_letter_that_a_text_chooses(text: str, expected: str | None) -> None:
    assert answers.extract_choice(text) == expected


def test_the_letters_of_a_choice_are_an_option() -> None:
    assert answers.extract_choice("F.", letters="abcdef") == "F"
    with pytest.raises(ToolkitError, match="letters"):
        answers.extract_choice("F.", letters="A-F")


def test_a_pattern_gives_its_group_or_its_match() -> None:
    assert answers.extract_match("x=1, x=2", r"x=(\d)") == "2"
    assert answers.extract_match("x=1, x=2", r"x=\d", "first") == "x=1"
    assert answers.extract_match("y", r"x=(\d)") is None
    with pytest.raises(ToolkitError, match="no regular expression"):
        answers.extract_match("y", "(")


def test_a_pattern_that_does_not_end_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "PATTERN_SECONDS", 0.05)
    texts = ["a" * 60 + "b"]
    for position in ("first", "last"):
        with pytest.raises(ToolkitError, match="avoid nested repeats"):
            answers.extract_match(texts[0], r"(a|aa)+$", position)
    with pytest.raises(ToolkitError, match="avoid nested repeats"):
        equivalence.classify(texts, "regex", pattern=r"(a|aa)+$")


def test_equal_infinities_are_one_class() -> None:
    numbers = [np.inf, 1.0, np.inf, -np.inf, None]
    assert equivalence.number_classes(numbers).tolist() == [0, 1, 0, 2, -1]
    assert equivalence.number_classes(numbers, 5.0).tolist() == [0, 1, 0, 2, -1]


@pytest.mark.parametrize("text", ["answer" + " " * 50_000 + "x", "answer is" + "*" * 50_000 + "x"])
def test_a_choice_in_a_long_text_ends(text: str) -> None:
    assert answers.extract_choice(text) is None


def test_classes_are_numbered_as_they_appear_and_no_answer_is_minus_one() -> None:
    assert equivalence.answer_classes(["b", None, "a", "b"]).tolist() == [0, -1, 1, 0]
    assert equivalence.answer_classes([]).tolist() == []


@pytest.mark.parametrize(
    ("by", "options", "expected"),
    [
        ("exact", {}, [0, 0, 1, 2]),
        ("number", {}, [0, 0, 1, -1]),
        ("number", {"tolerance": 1.0}, [0, 0, 0, -1]),
        ("regex", {"pattern": r"\d+|none"}, [0, 0, 1, 2]),
        (len, {}, [0, 1, 0, 2]),
    ],
)
def test_texts_are_classified_by_what_they_answer(by: object, options: dict, expected: list[int]) -> None:
    texts = ["It is 12", "it is 12.", "It is 13", "I know none"]
    assert equivalence.classify(texts, by, **options).tolist() == expected  # type: ignore[arg-type]


def test_choices_are_classified_by_letter() -> None:
    assert equivalence.classify(["A.", "(B)", "Answer: A", "?"], "choice").tolist() == [0, 1, 0, -1]
    assert equivalence.classify(["Y.", "n."], "choice", letters="YN").tolist() == [0, 1]


def test_the_linkages_differ_where_equality_is_not_transitive() -> None:
    numbers = [1.0, 1.4, 1.8, 5.0]
    assert equivalence.number_classes(numbers, 0.5).tolist() == [0, 0, 1, 2]
    assert equivalence.number_classes(numbers, 0.5, linkage="transitive").tolist() == [0, 0, 0, 1]


def plain_greedy(equal: np.ndarray) -> list[int]:
    leaders: list[int] = []
    classes = []
    for i in range(len(equal)):
        for number, leader in enumerate(leaders):
            if equal[leader, i]:
                classes.append(number)
                break
        else:
            classes.append(len(leaders))
            leaders.append(i)
    return classes


def plain_transitive(equal: np.ndarray) -> list[int]:
    classes = list(range(len(equal)))
    for i, j in np.argwhere(equal):
        low, high = sorted((classes[i], classes[j]))
        classes = [low if c == high else c for c in classes]
    order = list(dict.fromkeys(classes))
    return [order.index(c) for c in classes]


@given(st.integers(1, 8), st.integers(0, 10_000))
def test_classes_over_a_threshold_equal_plain_loops(n: int, seed: int) -> None:
    matrix = np.random.default_rng(seed).random((n, n))
    equal = ((matrix + matrix.T) / 2 >= 0.6) | np.eye(n, dtype=bool)
    greedy = equivalence.threshold_classes(matrix, 0.6)
    assert greedy.tolist() == plain_greedy(equal)
    transitive = equivalence.threshold_classes(matrix, 0.6, linkage="transitive")
    assert transitive.tolist() == plain_transitive(equal)
    names = [str(i) for i in range(n)]
    for linkage, expected in (("greedy", greedy), ("transitive", transitive)):
        found = equivalence.function_classes(names, lambda a, b: bool(equal[int(a), int(b)]), linkage=linkage)  # type: ignore[arg-type]
        assert found.tolist() == expected.tolist()


def test_a_matrix_with_negative_cosines_has_classes() -> None:
    matrix = np.array([[1.0, -0.5, 0.9], [-0.5, 1.0, -0.4], [0.9, -0.4, 1.0]])
    assert equivalence.threshold_classes(matrix, 0.8).tolist() == [0, 1, 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"by": "meaning"}, "exact, number, choice, regex"),
        ({"by": "regex"}, "needs a pattern"),
        ({"by": "number", "tolerance": -1.0}, "tolerance=-1"),
        ({"by": "number", "linkage": "average"}, "greedy or transitive"),
    ],
)
def test_a_wrong_equivalence_is_refused(arguments: dict, words: str) -> None:
    with pytest.raises(ToolkitError, match=words):
        equivalence.classify(["1", "2"], **arguments)


def test_a_wrong_linkage_of_a_function_is_refused() -> None:
    with pytest.raises(ToolkitError, match="greedy or transitive"):
        equivalence.function_classes(["a"], lambda a, b: True, linkage="single")  # type: ignore[arg-type]
