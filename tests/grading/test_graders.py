"""Each grader on answers that a person would call right or wrong."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.errors import ToolkitError
from toolkit.grading import (
    GRADERS,
    AnyOf,
    Choice,
    Contains,
    Exact,
    Extraction,
    Function,
    Grading,
    Labels,
    Normalizer,
    Number,
    Regex,
    make_grader,
    parse_grader,
)


def value(grader, text, *references):
    return grader.grade(text, references).value


@pytest.mark.parametrize(
    ("grader", "text", "references", "expected"),
    [
        (Exact(), "The Paris.", ["London", "paris"], 1),
        (Exact(), "Paris, France", ["Paris"], 0),
        (Exact(), "3.14", ["314"], 0),
        (Exact(), "", ["Paris"], 0),
        (Exact(), "the", ["The"], 1),
        (Exact(normalizer=Normalizer(accents=False)), "Bogota", ["Bogotá"], 1),
        (Exact(), "Bogota", ["Bogotá"], 0),
        (Contains(), "The capital is Paris.", ["paris"], 1),
        (Contains(), "Nigeria", ["Niger"], 0),
        (Contains(whole_words=False), "Nigeria", ["Niger"], 1),
        (Contains(), "It is New  York City", ["new york"], 1),
        (Contains(), "首都是巴黎。", ["巴黎"], 1),
        (Contains(), "15, 1.5, -5", ["5"], 0),
        (Contains(), "it is 5.", ["5"], 1),
        (Contains(), "I like C++ best", ["C++"], 1),
        (Contains(), "I like C best", ["C++"], 0),
        (Contains(), "I use C++", ["C"], 0),
        (Contains(), "I use C++11.", ["C"], 0),
        (Contains(), "I use C#.", ["C"], 0),
        (Contains(), "I use C and C++", ["C"], 1),
        (Contains(), "grade A+", ["A"], 0),
        (Contains(), "I use .NET", ["NET"], 0),
        (Contains(), "I use .NET", [".NET"], 1),
        (Contains(), "the net income", [".NET"], 0),
        (Contains(), "...Paris", ["Paris"], 1),
        (Contains(), "Paris### Next", ["Paris"], 1),
        (Contains(), "2+2=4", ["2"], 1),
        (Contains(), "1914-1918", ["1918"], 1),
        (Contains(), "0 or .5", ["5"], 0),
        (Contains(normalizer=Normalizer(punctuation=False)), "I use C++ or .NET", ["C", "NET"], 0),
        (Contains(), "It is Paris's old name", ["Paris"], 1),
        (Contains(), "It is Paris’s old name", ["Paris"], 1),
        (Contains(), "the boys' room", ["boys"], 1),
        (Contains(), "Paris's", ["Paris’s"], 1),
        (Contains(), "I visited St. John's", ["St. John's"], 1),
        (Contains(), "N'Djamena", ["N’Djamena"], 1),
        (Contains(), "la capitale de l’Italie", ["Italie"], 1),
        (Contains(), "It is Oslo.It is old.", ["Oslo"], 1),
        (Contains(), "I don't know", ["Don"], 0),
        (Contains(normalizer=Normalizer(punctuation=False)), "Paris's", ["Paris"], 1),
        (Exact(), "45 %", ["45%"], 1),
        (Exact(), "45 %", ["45"], 0),
        (Contains(), "-5 degrees", ["-5"], 1),
        (Contains(normalizer=Normalizer(punctuation=False)), "a.b", ["a*b"], 0),
        (Contains(normalizer=Normalizer(punctuation=False)), "a*b", ["a*b"], 1),
        (Contains(), "Paris,France", ["Paris"], 1),
        (Number(), "so 3 and 4 make 7", ["7"], 1),
        (Number(), "so 3 and 4 make 7", ["3"], 0),
        (Number(which="first"), "7 people (3 and 4)", ["7"], 1),
        (Number(which="any"), "3, 4 and 7", ["4"], 1),
        (Number(), "1,234,567 people", ["1234567"], 1),
        (Number(), "twelve", ["12 km"], 1),
        (Number(), "3.1415", ["3.14"], 0),
        (Number(absolute=0.01), "3.1415", ["3.14"], 1),
        (Number(relative=0.1), "109", ["100"], 1),
        (Number(relative=0.1), "111", ["100"], 0),
        (Number(), "45%", ["0.45"], 1),
        (Number(), "45%", ["45"], 1),
        (Number(), "0.45", ["45%"], 1),
        (Number(), "0.45%", ["45%"], 0),
        (Number(), "45%", ["0.45%"], 0),
        (Number(), "no idea", ["7"], 0),
        (Number(), "No one knows", ["1"], 0),
        (Number(), "10 000", ["10000"], 1),
        (Number(), "It is 10^6", ["1,000,000"], 1),
        (Number(), "7", ["Apollo 11", "7 km"], 1),
        (Number(decimal=","), "3,5", ["3,5"], 1),
        (Regex(), "It was in 1969.", [r"\b19\d\d\b"], 1),
        (Regex(), "It was in 1869.", [r"\b19\d\d\b", "^no"], 0),
        (Regex(pattern=r"^\d+$"), "12", [], 1),
        (Regex(pattern=r"^yes"), "Yes.", [], 0),
        (Regex(pattern=r"^yes", ignore_case=True), "Yes.", [], 1),
        (Regex(pattern=r"answer is {reference}\b"), "The answer is 3.5", ["3.5"], 1),
        (Regex(pattern=r"answer is {reference}\b"), "The answer is 375", ["3.5"], 0),
        (Choice(), "The answer is (B).", ["B"], 1),
        (Choice(), "b)", ["(B)"], 1),
        (Choice(), "A is wrong, so the answer is C", ["B"], 0),
        (Choice(), "I do not know", ["B"], 0),
        (Choice(), "This is a hard choice. A is wrong.", ["A"], 0),
        (Choice(letters="ABCDEFGH"), "G", ["G"], 1),
        (AnyOf(), "It is 1,000.", ["1000"], 1),
        (AnyOf(), "The capital is Paris", ["Paris", "Paname"], 1),
        (AnyOf(), "Rome", ["Paris"], 0),
        (AnyOf(), "Gemini 11", ["Apollo 11"], 0),
        (AnyOf(), "There are three of them", ["The Three Musketeers"], 0),
        (AnyOf(), "It opened in 1999", ["Summer of 1999 tour"], 0),
        (AnyOf(), "It is 1,000 km", ["1000 km"], 1),
        (AnyOf(graders=(Exact(), Choice())), "answer: B", ["B"], 1),
    ],
)
def test_right_and_wrong(grader, text, references, expected):
    assert grader.grade(text, references).value == expected


@pytest.mark.parametrize(
    ("grader", "text", "references", "expected"),
    [
        (Exact(), " The Paris. ", ["paris"], "The Paris."),
        (Contains(), "It is paris.", ["Paris"], "Paris"),
        (Number(), "about 1,234 km", ["5"], "1,234"),
        (Number(which="any"), "3, 4 and 7", ["4"], "4"),
        (Regex(), "in 1969.", [r"\d+"], "1969"),
        (Choice(), "the answer is: b", ["A"], None),
        (Choice(), "b.", ["A"], "B"),
        (AnyOf(), "It is 1,000.", ["1000"], "1000"),
    ],
)
def test_what_was_judged_is_kept(grader, text, references, expected):
    assert grader.grade(text, references).extracted == expected


@pytest.mark.parametrize("grader", [Exact(), Contains(), Number(), Regex(), Choice(), AnyOf()])
def test_no_reference_is_ungraded_and_no_answer_is_wrong(grader):
    assert math.isnan(grader.grade("Paris", []).value)
    assert math.isnan(grader.grade(None, []).value)
    assert grader.grade(None, ["7" if grader.name != "choice" else "B"]) == (0.0, None)


@pytest.mark.parametrize(
    ("grader", "reference"),
    [
        (Exact(), " "),
        (Contains(), ""),
        (Number(), "Paris"),
        (Number(), "1 or 2"),
        (Number(), "Apollo 11"),
        (Choice(), "Z"),
    ],
)
def test_a_reference_that_cannot_be_used_is_ungraded(grader, reference):
    assert math.isnan(value(grader, "Paris", reference))


def test_any_of_is_ungraded_only_if_all_its_graders_are():
    assert value(AnyOf(graders=(Number(), Exact())), "Paris", "Paris") == 1
    assert math.isnan(value(AnyOf(graders=(Number(), Choice())), "Paris", "Paris"))


@given(st.text(), st.text())
def test_equal_texts_are_right_and_contained(text, other):
    if text.split():
        assert value(Exact(), text, other, text) == 1
        assert value(Contains(whole_words=False), f"{text}", text) == 1


@given(st.text(alphabet="ab 5.-"), st.text(alphabet="ab 5.-", min_size=1))
def test_whole_words_are_found_only_where_their_letters_are(text, reference):
    if value(Contains(), text, reference) == 1:
        assert value(Contains(whole_words=False), text, reference) == 1


def test_a_grader_says_whether_it_needs_references(tmp_path):
    (tmp_path / "l.csv").write_text("prompt_id,value\nq,1\n")
    labels = Labels(str(tmp_path / "l.csv"))
    needing = [Exact(), Contains(), Number(), Regex(), Regex(pattern="{reference}"), Choice(), AnyOf()]
    free = [Regex(pattern="x"), Function(max), labels, AnyOf(graders=(Exact(), labels))]
    assert all(grader.needs_references for grader in needing)
    assert not any(grader.needs_references for grader in free)


def test_a_reference_is_a_list():
    with pytest.raises(ToolkitError, match="references is one text, 'Paris'"):
        Exact().grade("Paris", "Paris")


def test_a_broken_reference_pattern_is_named():
    with pytest.raises(ToolkitError, match=r"reference '\(' is no regular expression"):
        Regex().grade("x", ["("])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Number(absolute=-1), "absolute is -1"),
        (lambda: Number(relative=math.nan), "relative is nan"),
        (lambda: Number(which="middle"), "which is 'middle': give last, first or any"),
        (lambda: Number(decimal=";"), "decimal is ';'"),
        (lambda: Regex(pattern="("), r"pattern '\(' is no regular expression"),
        (lambda: Choice(letters="1234"), "letters is '1234'"),
        (lambda: Choice(letters=""), "letters is ''"),
        (lambda: AnyOf(graders=()), "graders is empty"),
    ],
)
def test_wrong_settings_are_named(make, message):
    with pytest.raises(ToolkitError, match=message):
        make()


def test_a_hash_changes_with_each_setting_and_with_nothing_else():
    graders = [
        Exact(),
        Exact(normalizer=Normalizer(accents=False)),
        Contains(),
        Contains(whole_words=False),
        Number(),
        Number(absolute=0.1),
        Number(which="first"),
        Regex(),
        Regex(pattern="x"),
        Choice(),
        Choice(letters="AB"),
        AnyOf(),
        AnyOf(graders=(Exact(),)),
        AnyOf(graders=(Exact(), Number())),
    ]
    assert len({grader.config_hash for grader in graders}) == len(graders)
    assert Number(absolute=0.1).config_hash == Number(absolute=0.1).config_hash
    assert Exact().config_hash == "bc834075f2f90e0b"


def test_a_version_changes_the_hash(monkeypatch):
    before = Exact().config_hash
    monkeypatch.setattr(Exact, "version", 2)
    assert Exact().config_hash != before


def test_unknown_names_list_what_there_is():
    with pytest.raises(
        ToolkitError, match="unknown grader 'fuzzy': give one of exact, contains, any-of, number"
    ):
        make_grader("fuzzy")
    with pytest.raises(ToolkitError, match="unknown grader 'fuzzy'"):
        parse_grader("fuzzy:1")
    with pytest.raises(
        ToolkitError, match="grader number has no setting 'tolerance': it has absolute, relative"
    ):
        make_grader("number", tolerance=1)
    with pytest.raises(ToolkitError, match="grader labels needs path: give it, or labels:VALUE"):
        make_grader("labels")
    with pytest.raises(ToolkitError, match="a setting has the wrong type"):
        make_grader("number", absolute="much")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("exact", Exact()),
        ("any-of", AnyOf()),
        ("any_of:exact,number", AnyOf(graders=(Exact(), Number()))),
        ("number:0.5", Number(absolute=0.5)),
        ("regex:^a:b", Regex(pattern="^a:b")),
        ("choice:ABCD", Choice(letters="ABCD")),
    ],
)
def test_a_command_names_a_grader_and_its_main_setting(text, expected):
    assert parse_grader(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("exact:1", "grader exact takes no value"),
        ("number:much", "number:much: the tolerance is a number"),
        ("any_of:exact,", "unknown grader ''"),
        ("function", "grader function needs target"),
    ],
)
def test_what_a_command_cannot_mean_is_refused(text, message):
    with pytest.raises(ToolkitError, match=message):
        parse_grader(text)


def test_every_grader_is_registered_under_its_name():
    assert list(GRADERS) == ["exact", "contains", "any_of", "number", "regex", "choice", "function", "labels"]
    assert all(grader.name == name and grader.__doc__ for name, grader in GRADERS.items())


def test_grading_judges_the_answer_and_says_where_it_is():
    text = "<think>Lyon</think> Paris \n"
    found = Grading(Exact())(text, ["Paris"])
    assert found.grade == (1.0, "Paris")
    assert text[found.start : found.end] == "Paris"
    assert Grading(Exact())(text, ["Lyon"]).grade.value == 0
    assert Grading(Contains(), Extraction(thinking=()))(text, ["Lyon"]).grade.value == 1
    assert Grading(Exact())("<think>Paris", ["Paris"]).grade == (0.0, None)


def test_a_gradings_hash_covers_both_parts():
    hashes = {
        Grading(Exact()).config_hash,
        Grading(Contains()).config_hash,
        Grading(Exact(), Extraction(line="last")).config_hash,
        Grading(Exact(), Extraction(pattern="x")).config_hash,
    }
    assert len(hashes) == 4
