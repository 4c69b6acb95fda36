"""The address keeps the place, and what it asks for is checked."""

from __future__ import annotations

from urllib.parse import parse_qs, quote

import pytest

from tests.report.browser.conftest import Open
from tests.report.browser.islands import Prompt, Text, make_island
from tests.report.browser.made import small
from tests.report.browser.reader import Reader


def place(reader: Reader) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(reader.hash[1:]).items()}


def test_a_page_that_was_only_opened_has_no_place_in_its_address(open_island: Open) -> None:
    reader = open_island(small())
    assert reader.hash == ""
    assert reader.page.evaluate("scrollY") == 0


def test_every_choice_is_kept_and_opens_again(open_island: Open) -> None:
    reader = open_island(small())
    length = reader.page.evaluate("history.length")
    reader.press("n", "n", "]").select(by="word", metric="min_logprob")
    assert place(reader) == {
        "prompt": "sky",
        "run": "0",
        "kind": "sample",
        "sample": "7",
        "by": "word",
        "metric": "min_logprob",
    }
    assert reader.page.evaluate("history.length") == length
    again = open_island(small(), hash=reader.press("c").hash)
    assert (again.prompt, again.sequence) == ("sky", "sample 7")
    assert (again("#by").input_value(), again("#metric").input_value()) == ("word", "min_logprob")
    assert again("#panels").is_visible()


@pytest.mark.parametrize(
    "asked",
    [
        "#prompt=nobody",
        "#by=word&metric=rank",
        "#",
        "#prompt=%E0%A4%A",
        "#prompt=france&run=7",
    ],
)
def test_what_the_page_does_not_have_is_ignored(open_island: Open, asked: str) -> None:
    reader = open_island(small(), hash=asked)
    assert (reader.prompt, reader.sequence, reader("#by").input_value()) == ("france", "greedy", "token")


@pytest.mark.parametrize(
    ("asked", "sequence", "by", "metric"),
    [
        ("kind=beam&sample=0", "greedy", "token", "logprob"),
        ("kind=sample&sample=99", "greedy", "token", "logprob"),
        ("kind=sample&sample=-1", "greedy", "token", "logprob"),
        ("kind=sample", "sample 0", "token", "logprob"),
        ("kind=sample&sample=1&by=page", "sample 1", "token", "logprob"),
        ("sample=2&by=word&metric=rank", "sample 2", "word", "mean_logprob"),
        ("by=token&metric=__proto__", "greedy", "token", "logprob"),
        ("by=token&metric=rank&view=evil", "greedy", "token", "rank"),
    ],
)
def test_each_part_of_it_is_checked(
    open_island: Open, asked: str, sequence: str, by: str, metric: str
) -> None:
    reader = open_island(small(), hash=f"#prompt=france&{asked}")
    assert reader.sequence == sequence
    assert (reader("#by").input_value(), reader("#metric").input_value()) == (by, metric)
    assert reader("#panel").is_visible()


def test_a_link_to_a_span_focuses_it_also_past_a_filter(open_island: Open) -> None:
    reader = open_island(small()).choose("filter", "wrong")
    reader.page.evaluate(
        "location.hash = '#prompt=france&kind=sample&sample=2&by=word&metric=min_logprob&span=3'"
    )
    reader("#text .piece:focus").wait_for()
    assert (reader.sequence, reader.focused) == ("sample 2", "Paris")
    assert reader.page.locator('input[name="filter"][value="all"]').is_checked()
    assert "span" not in reader.press("Escape", "w").hash


@pytest.mark.parametrize("span", ["99", "-1", "1.5", ""])
def test_a_span_that_is_not_there_is_not_looked_for(open_island: Open, span: str) -> None:
    reader = open_island(small(), hash=f"#prompt=france&kind=greedy&sample=0&by=word&span={span}")
    assert reader.sequence == "greedy"
    assert reader("#text .piece:focus").count() == (1 if span == "" else 0)


def test_ids_of_any_characters_come_back(open_island: Open) -> None:
    name = 'a&b=c#d %+"<é🎉'
    texts = [Text(["a"], [-1.0, -0.1], "sample", i) for i in range(2)]
    reader = open_island(make_island([Prompt("other", texts), Prompt(name, texts)])).press("n", "]")
    assert place(reader)["prompt"] == name
    again = open_island(make_island([Prompt("other", texts), Prompt(name, texts)]), hash=reader.hash)
    assert (again.prompt, again.sequence) == (name, "sample 1")
    by_hand = open_island(
        make_island([Prompt("other", texts), Prompt(name, texts)]), hash=f"#prompt={quote(name)}"
    )
    assert by_hand.prompt == name


def test_an_anchor_of_the_page_changes_nothing_in_the_reader(open_island: Open) -> None:
    reader = open_island(small()).press("n")
    reader.page.get_by_role("link", name="Reader", exact=True).click()
    assert reader.hash == "#reader"
    assert reader.prompt == "json"
