"""Argument types: what they take, and what they say about the rest."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolkit.characters import visible
from toolkit.cli import arguments as types
from toolkit.cli.arguments import Parser, UsageError, existing_file, integer, number, one_of

TAKEN: list[tuple[Callable[[str], Any], str, Any]] = [
    (types.positive_int, "1", 1),
    (types.positive_int, "+12", 12),
    (types.positive_int, "2147483647", 2**31 - 1),
    (types.non_negative_int, "0", 0),
    (types.seed, "9223372036854775807", 2**63 - 1),
    (types.non_negative_float, "0", 0.0),
    (types.non_negative_float, "1e3", 1000.0),
    (types.probability, "1.0", 1.0),
    (types.probability, "0", 0.0),
    (types.positive_probability, "1e-3", 0.001),
    (integer(-3, 3), "-3", -3),
]
REFUSED: list[tuple[Callable[[str], Any], str, str]] = [
    (types.positive_int, "0", "0 is below 1; use 1 to 2147483647"),
    (types.positive_int, "2147483648", "2147483648 is above 2147483647; use 1 to 2147483647"),
    (types.positive_int, "9" * 5000, "is not a whole number; use 1 to 2147483647"),
    (types.positive_int, "1.5", "'1.5' is not a whole number"),
    (types.positive_int, "1_000", "'1_000' is not a whole number"),
    (types.positive_int, "٣", "'٣' is not a whole number"),
    (types.positive_int, "", "'' is not a whole number"),
    (types.seed, "9223372036854775808", "9223372036854775808 is above 9223372036854775807"),
    (types.seed, "-1", "-1 is below 0"),
    (types.non_negative_float, "-1", "-1 is below 0; use 0 or more"),
    (types.non_negative_float, "nan", "'nan' is not a number; use 0 or more"),
    (types.non_negative_float, "inf", "'inf' is not a number; use 0 or more"),
    (types.non_negative_float, "1e999", "'1e999' is not a number"),
    (types.non_negative_float, "warm", "'warm' is not a number"),
    (types.probability, "1.01", "1.01 is above 1; use 0 to 1"),
    (types.positive_probability, "0", "0 is not above 0; use a number above 0, 1 at most"),
    (one_of(("a", "b")), "c", "there is no 'c'; use one of a, b"),
    (number(), "x", "'x' is not a number; use a number"),
    (existing_file, "no\x1bwhere", "'no␛where' is not there; give the path of a file"),
    (existing_file, "a\0b", "'a␀b'"),
    (existing_file, "/", "'/' is a folder"),
]


@pytest.mark.parametrize(("kind", "text", "value"), TAKEN)
def test_values_that_are_taken(kind: Callable[[str], Any], text: str, value: Any) -> None:
    assert kind(text) == value
    assert type(kind(text)) is type(value)


@pytest.mark.parametrize(("kind", "text", "message"), REFUSED)
def test_what_is_refused_is_named_with_what_is_allowed(
    kind: Callable[[str], Any], text: str, message: str
) -> None:
    with pytest.raises(argparse.ArgumentTypeError) as caught:
        kind(text)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 200


@given(st.text(), st.sampled_from([integer(1), number(0.0, 1.0), existing_file, one_of(("a",))]))
def test_any_text_is_taken_or_refused(text: str, kind: Callable[[str], Any]) -> None:
    refusal = ""
    try:
        kind(text)
    except argparse.ArgumentTypeError as error:
        refusal = str(error)
    assert visible(refusal) == refusal


@given(st.integers(-(2**40), 2**40))
def test_integers_in_range_are_taken_as_they_are(value: int) -> None:
    if 1 <= value < 2**31:
        assert types.positive_int(str(value)) == value
    else:
        with pytest.raises(argparse.ArgumentTypeError):
            types.positive_int(str(value))


def test_a_file_that_is_there_is_a_path(tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_text("")
    assert existing_file(str(file)) == file


def test_the_message_has_option_value_allowed_and_where_to_look() -> None:
    parser = Parser(prog="toolkit collect")
    parser.add_argument("--temp", type=types.non_negative_float)
    with pytest.raises(UsageError) as caught:
        parser.parse_args(["--temp", "-1"])
    assert str(caught.value) == "--temp: -1 is below 0; use 0 or more; see toolkit collect --help"
    assert (caught.value.prog, caught.value.exit_status) == ("toolkit collect", 2)


def test_subcommands_have_errors_of_their_own() -> None:
    parser = Parser(prog="toolkit model")
    inner = parser.add_subparsers(required=True, dest="action").add_parser("import")
    inner.add_argument("file")
    with pytest.raises(UsageError, match="see toolkit model import --help"):
        parser.parse_args(["import"])
    with pytest.raises(UsageError, match="action"):
        parser.parse_args([])


def test_shared_options() -> None:
    parser = Parser(prog="toolkit x")
    types.add_runs(parser)
    types.add_json(parser)
    types.add_selection(parser)
    args = parser.parse_args(
        ["a", "b", "--json", "--prompt", "p", "--prompt", "q", "--kind", "beam", "--sample", "2"]
    )
    assert (args.runs, args.json) == ([Path("a"), Path("b")], True)
    assert (args.prompts, args.kinds, args.samples) == (["p", "q"], ["beam"], [2])
    with pytest.raises(
        UsageError, match="--kind: there is no 'beams'; use one of sample, greedy, beam, scored"
    ):
        parser.parse_args(["a", "--kind", "beams"])
