"""Prompts searched and filtered, and the list of the least confident."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.report.browser.conftest import Open
from tests.report.browser.islands import MASKED, Prompt, Text, make_island, piece_text
from tests.report.browser.made import long, small
from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES


def grade_of(sequence: dict[str, Any]) -> str:
    if sequence["grade"] is None:
        return "ungraded"
    return {0.0: "wrong", 1.0: "right"}.get(sequence["grade"], "partly")


def shown(value: float) -> str:
    if value == MASKED:
        return "−∞"
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.2f}"


def least(island: dict[str, Any], sequences: list[int], by: str, metric: str) -> list[tuple[str, str]]:
    """(value, text) by confidence, the least first, in plain Python."""
    scale = {**TOKEN_SCALES, **SPAN_SCALES}[metric]
    found = []
    for i in sequences:
        sequence = island["sequences"][i]
        items = sequence["tokens"] if by == "token" else sequence["spans"].get(by)
        if items is None:
            continue
        for j, value in enumerate(items[metric]):
            if value is None or (by == "token" and j >= items["kept"]):
                continue
            if by == "token":
                text = island["vocabulary"]["texts"][items["v"][j]]
            else:
                text = piece_text(sequence["text"], items["start"][j], items["end"][j])
            found.append((value if scale.sure > scale.unsure else -value, i, j, shown(value), text))
    return [(value, text) for *_, value, text in sorted(found)]


def one_line(text: str) -> str:
    marked = text.replace("\n", "↵").replace("\t", "⇥")
    core = marked.strip(" ")
    before, _, after = marked.partition(core)
    return before.replace(" ", "·") + core + after.replace(" ", "·")


@pytest.mark.parametrize("choice", ["right", "wrong", "partly", "ungraded", "all"])
def test_the_filter_lets_through_what_it_says(open_island: Open, choice: str) -> None:
    island = small()
    reader = open_island(island).choose("filter", choice)
    matching = [s for s in island["sequences"] if choice in ("all", grade_of(s))]
    ids = list(dict.fromkeys(island["prompts"][s["prompt"]]["id"] for s in matching))
    assert reader.texts(".prompt-id") == ids
    own = [s for s in matching if island["prompts"][s["prompt"]]["id"] == reader.prompt]
    assert reader('[role="tab"]').count() == len(own)
    reader.choose("scope", "page")
    expected = least(island, [island["sequences"].index(s) for s in matching], "token", "logprob")
    assert (
        reader.least
        == [(value.replace("-", "−"), one_line(text)) for value, text in expected][: len(reader.least)]
    )


def test_the_filter_tells_how_many_there_are_of_each(open_island: Open) -> None:
    reader = open_island(small())
    told = {
        name: reader(f"#count-{name}").text_content() for name in ("right", "wrong", "partly", "ungraded")
    }
    assert told == {"right": "2", "wrong": "2", "partly": "1", "ungraded": "2"}
    assert reader.texts("#prompts .tally")[0].split() == ["✓", "2", "2", "right✗", "1", "1", "wrong"]


def test_what_the_filter_shuts_out_is_left_for_the_nearest_that_it_does_not(open_island: Open) -> None:
    reader = open_island(small())
    assert reader.choose("filter", "wrong").sequence == "sample 0"
    assert reader.choose("filter", "ungraded").sequence == "sample 1"
    assert reader.press("n").prompt == "sky"
    assert reader.press("]").sequence == "sample 3"


def test_a_filter_that_nothing_passes_says_so_and_can_be_undone(open_island: Open) -> None:
    island = make_island([Prompt("p", [Text(["a"], [-1.0, -0.1], grade=1.0)])])
    reader = open_island(island).choose("filter", "wrong")
    assert reader("#nothing").text_content() == "No sequence on this page is wrong."
    assert reader("#sheet").is_hidden()
    assert reader.least == []
    assert reader.press("n", "u", "c", "w").choose("filter", "all").sequence == "greedy"


def test_partly_right_is_offered_only_where_something_is(open_island: Open) -> None:
    assert open_island(small())("#filter-partly").is_visible()
    all_or_nothing = make_island([Prompt("p", [Text(["a"], [-1.0, -0.1], grade=1.0)])])
    assert open_island(all_or_nothing)("#filter-partly").is_hidden()


def test_what_is_partly_right_is_neither_right_nor_wrong(open_island: Open) -> None:
    half = make_island([Prompt("p", [Text(["a"], [-1.0, -0.1], grade=0.5)])])
    reader = open_island(half)
    assert "◐ partly right (0.50)" in " ".join(reader("#facts").text_content().split())
    assert reader.texts("#prompts .tally")[0].split()[0:2] == ["✓", "0"]
    assert "◐" in reader.texts("#prompts .tally")[0]


def test_a_page_without_sequences_says_so(open_island: Open) -> None:
    reader = open_island(make_island([]))
    assert reader("#nothing").text_content() == "There are no sequences on this page."


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("PARIS", ["france"]),
        ("colour", ["sky"]),
        ("js", ["json"]),
        ("?", ["france", "json", "sky"]),
        ("zzz", []),
    ],
)
def test_prompts_are_found_by_id_question_and_reference(
    open_island: Open, query: str, ids: list[str]
) -> None:
    reader = open_island(small())
    reader("#search").fill(query)
    assert reader.texts(".prompt-id") == ids
    assert reader("#found").text_content() == f"{len(ids)} of 3 prompts"
    if ids:
        reader("#search").press("Enter")
        assert reader.prompt == ids[0]


def test_prompts_of_several_runs_name_their_run(open_island: Open) -> None:
    runs = [
        {"name": name, "model": f"model {name}", "sampler": "temperature 1"} for name in ("first", "second")
    ]
    texts = [Text(["a"], [-1.0, -0.1])]
    island = make_island([Prompt("p", texts, run=0), Prompt("p", texts, run=1)], runs=runs)
    reader = open_island(island, hash="#prompt=p&run=1")
    assert reader.texts(".prompt-run") == ["first", "second"]
    assert "model second" in reader.texts("#prompt-head bdi")


MEASURES = [
    ("token", "logprob"),
    ("token", "entropy"),
    ("token", "rank"),
    ("word", "mean_logprob"),
    ("word", "mean_entropy"),
    ("sentence", "sum_logprob"),
    ("field", "min_logprob"),
]


@pytest.mark.parametrize(("by", "metric"), MEASURES)
def test_the_least_confident_are_in_order_of_a_plain_sort(open_island: Open, by: str, metric: str) -> None:
    island = small()
    reader = open_island(island).select(by=by).select(metric=metric)
    everything = list(range(len(island["sequences"])))
    for scope, sequences in (("sequence", [0]), ("page", everything)):
        reader.choose("scope", scope)
        if reader("#least-more").is_visible():
            reader("#least-more").click()
        expected = least(island, sequences, by, metric)
        assert reader.least == [(value.replace("-", "−"), one_line(text)) for value, text in expected]
    assert reader("#least-title").text_content() == f"Least confident {by}s"


def test_an_entry_leads_to_its_place_in_another_prompt(open_island: Open) -> None:
    reader = open_island(small()).choose("scope", "page").select(by="word", metric="min_logprob")
    target = reader(
        "#least-list .entry",
    ).filter(has_text="grey")
    assert "sky · sample 7" in (target.text_content() or "")
    target.focus()
    reader.press("Enter")
    assert (reader.prompt, reader.sequence, reader.focused) == ("sky", "sample 7", "grey")
    assert reader.card["word"] == "3 of 3"


def test_an_entry_leads_back_from_side_by_side_and_into_a_long_text(open_island: Open) -> None:
    reader = open_island(long(3000)).press("c")
    assert reader.least[0] == (f"{-6.0 - 2937 / 3000:.2f}".replace("-", "−"), "·w2937")
    reader("#least-list .entry").first.click()
    assert reader.focused == " w2937"
    assert reader("#text .piece:focus").is_visible()


def test_more_of_the_list_is_shown_on_demand(open_island: Open) -> None:
    n = 90
    text = Text(
        [f" w{i}" for i in range(n)], [-4 * math.sin(i) ** 2 - 0.001 for i in range(n)], has_end=False
    )
    reader = open_island(make_island([Prompt("p", [text])]))
    assert len(reader.least) == 20
    reader("#least-more").click()
    assert len(reader.least) == 70
    assert reader("#least-list .entry").nth(20).evaluate("one => one === document.activeElement")
    reader("#least-more").click()
    assert len(reader.least) == n
    assert reader("#least-more").is_hidden()
