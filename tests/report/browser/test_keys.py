"""Everything by keyboard: the documented keys, the order of the focus, one stop for each group."""

from __future__ import annotations

import pytest

from tests.report.browser.conftest import Open
from tests.report.browser.islands import Prompt, Text, make_island
from tests.report.browser.made import small
from tests.report.browser.reader import Reader

DOCUMENTED = {
    "←", "→", "↑", "↓", "Home", "End", "u", "U", "[", "]", "p", "n", "c", "w", "/", "Enter", "Esc", "?", "Tab",
}  # fmt: skip
STOP = """() => {
    const one = document.activeElement;
    return one.id || one.name || one.closest("[id]").id;
}"""


def stops(reader: Reader, key: str, n: int) -> list[str]:
    return [str(reader.press(key).page.evaluate(STOP)) for _ in range(n)]


def test_the_keys_that_there_are_are_documented_and_no_others(open_island: Open) -> None:
    reader = open_island(small())
    assert set(reader.texts("#keys kbd")) == DOCUMENTED


def test_the_focus_goes_from_prompts_over_sequences_and_controls_to_text_and_list(open_island: Open) -> None:
    reader = open_island(small())
    reader.page.get_by_text("Keys", exact=True).focus()
    entries = reader("#least-list .entry").count()
    expected = [
        "search",
        "filter",
        "prompts",
        "sequences",
        "by",
        "metric",
        "spaces",
        "view",
        "text",
        "card-close",
    ]
    expected += ["scope", *["least-list"] * entries]
    assert stops(reader, "Tab", len(expected)) == expected
    assert stops(reader, "Shift+Tab", len(expected) - 1) == expected[-2::-1]


def test_the_skip_link_is_first_and_leads_to_the_reader(open_island: Open) -> None:
    reader = open_island(small())
    reader.press("Tab")
    assert reader.focused == "Skip to the reader"
    reader.press("Enter")
    assert reader.hash == "#reader"
    assert reader.sequence == "greedy"


@pytest.mark.parametrize("group", ["#text .piece", '[role="tab"]', '[role="option"]'])
def test_a_group_is_one_stop(open_island: Open, group: str) -> None:
    reader = open_island(small())
    script = "all => all.map(one => one.tabIndex)"
    assert sorted(reader(group).evaluate_all(script), reverse=True)[:2] == [0, -1]
    reader(group).nth(0).focus()
    reader.press("ArrowRight", "ArrowDown")
    tabs = reader(group).evaluate_all(script)
    assert tabs.count(0) == 1
    assert tabs.index(0) == reader(group).evaluate_all("all => all.indexOf(document.activeElement)")


def test_arrows_home_and_end_walk_through_the_text(open_island: Open) -> None:
    reader = open_island(small())
    reader.pieces.first.focus()
    walked = [
        reader.press(key).focused
        for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "End", "ArrowRight", "Home")
    ]
    assert walked == [" capital", " is", " capital", "<|im_end|>", "<|im_end|>", "The"]
    assert reader.press("ArrowLeft").focused == "The"


def test_keys_that_walk_through_the_text_do_not_scroll_the_page_away_from_it(open_island: Open) -> None:
    reader = open_island(small(), height=600)
    reader.pieces.first.focus()
    before = reader.page.evaluate("scrollY")
    reader.press("End", "Home", "ArrowDown", "ArrowDown", "ArrowRight")
    assert reader.page.evaluate("scrollY") == before


def test_walking_by_words_leaves_out_what_is_between_them(open_island: Open) -> None:
    reader = open_island(small()).select(by="word")
    reader.pieces.first.focus()
    assert [reader.press("ArrowRight").focused for _ in range(3)] == ["capital", "is", "Paris"]


def test_up_and_down_go_to_the_nearest_piece_of_the_next_line(open_island: Open) -> None:
    pieces = [f"{line}{place} " if place < 9 else f"{line}{place}\n" for line in "abc" for place in range(10)]
    reader = open_island(make_island([Prompt("p", [Text(pieces, [-1.0] * 30)])]))
    reader.pieces.nth(4).focus()
    walked = [
        reader.press(key).focused.strip()
        for key in ("ArrowDown", "ArrowDown", "ArrowUp", "ArrowUp", "ArrowUp")
    ]
    assert walked == ["b4", "c4", "b4", "a4", "a4"]


def test_arrows_follow_the_eye_in_text_from_right_to_left(open_island: Open) -> None:
    text = Text(["مرحبا", " بالعالم", " هذا"], [-1.0] * 4)
    reader = open_island(make_island([Prompt("p", [text])]))
    reader.pieces.first.focus()
    boxes = [reader("#text .piece:focus").bounding_box()]
    reader.press("ArrowLeft")
    boxes.append(reader("#text .piece:focus").bounding_box())
    assert reader.focused == " بالعالم"
    assert boxes[0] is not None
    assert boxes[1] is not None
    assert boxes[1]["x"] < boxes[0]["x"]


def test_u_goes_to_the_underlined_pieces(open_island: Open) -> None:
    reader = open_island(small(), hash="#prompt=france&kind=sample&sample=0")
    underlined = [piece["text"] for piece in reader.drawn() if piece["underlined"]]
    assert underlined == [".", "↵\n", "!"]
    assert [reader.press("u").focused for _ in range(4)] == [*underlined, "!"]
    assert [reader.press("U").focused for _ in range(3)] == ["↵\n", ".", "."]


def test_brackets_go_from_sequence_to_sequence_and_the_focus_stays_at_its_place(open_island: Open) -> None:
    reader = open_island(small())
    reader.pieces.nth(3).focus()
    found = [(reader.press(key).sequence, reader.focused) for key in ("]", "]", "]", "]", "[")]
    assert found == [
        ("sample 0", " Lyon"),
        ("sample 1", "I"),
        ("sample 2", " Paris"),
        ("sample 2", " Paris"),
        ("sample 1", "I"),
    ]
    assert reader.card["token"] == "4 of 7"


def test_n_and_p_go_from_prompt_to_prompt(open_island: Open) -> None:
    reader = open_island(small())
    found = [reader.press(key).prompt for key in ("n", "n", "n", "p", "p", "p")]
    assert found == ["json", "sky", "sky", "json", "france", "france"]


def test_arrows_choose_among_sequences_and_among_prompts(open_island: Open) -> None:
    reader = open_island(small())
    reader('[role="tab"]').first.focus()
    assert [reader.press(key).sequence for key in ("ArrowRight", "End", "ArrowRight", "Home")] == [
        "sample 0",
        "sample 2",
        "sample 2",
        "greedy",
    ]
    reader('[role="option"]').first.focus()
    assert [reader.press(key).prompt for key in ("ArrowDown", "End", "ArrowUp", "Home")] == [
        "json",
        "sky",
        "json",
        "france",
    ]


def test_c_shows_all_side_by_side_and_goes_back(open_island: Open) -> None:
    reader = open_island(small())
    assert reader.press("c")("#panels .panel").count() == 4
    assert reader("#panel").is_hidden()
    assert reader.press("c")("#panels").is_hidden()
    assert reader("#panel").is_visible()


def test_slash_searches_and_what_is_typed_there_is_no_command(open_island: Open) -> None:
    reader = open_island(small())
    reader.press("/")
    reader.page.keyboard.type("wcn?[")
    assert reader("#search").input_value() == "wcn?["
    assert not reader("#spaces").is_checked()
    assert reader("#comparison").is_hidden()
    reader.press("Escape")
    assert reader("#search").input_value() == ""
    assert len(reader.texts("#prompts li")) == 3


def test_the_question_mark_opens_the_list_of_keys(open_island: Open) -> None:
    reader = open_island(small())
    assert reader("#keys dl").is_hidden()
    assert reader.press("?")("#keys dl").is_visible()
    assert reader.focused == "Keys"


def test_keys_with_control_or_alt_are_left_to_the_browser(open_island: Open) -> None:
    reader = open_island(small())
    reader.press("Control+c", "Alt+w", "Control+]")
    assert reader("#comparison").is_hidden()
    assert reader.sequence == "greedy"
    assert not reader("#spaces").is_checked()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_focus_is_always_seen(open_island: Open, scheme: str) -> None:
    reader = open_island(small(), scheme=scheme)
    seen = """() => {
        const one = document.activeElement;
        const shown = one.matches("input[type=radio]") ? one.nextElementSibling : one;
        const { outlineStyle, outlineWidth } = getComputedStyle(shown);
        return outlineStyle !== "none" && parseFloat(outlineWidth) >= 2;
    }"""
    for _ in range(18):
        assert reader.press("Tab").page.evaluate(seen), reader.focused


def test_controls_have_names_and_roles(open_island: Open) -> None:
    page = open_island(small()).page
    for role, name in [
        ("searchbox", "Search prompts"),
        ("listbox", "Prompts"),
        ("tablist", "Sequences of this prompt"),
        ("combobox", "by"),
        ("combobox", "statistic"),
        ("checkbox", "whitespace"),
        ("group", "Sequences shown"),
        ("group", "View"),
        ("group", "Where to look for them"),
        ("radio", "side by side"),
        ("radio", "this page"),
        ("region", "Detail"),
        ("tabpanel", "Sequence"),
        ("list", "Least confident tokens"),
        ("group", "Text of greedy, by token and logprob"),
        ("button", "Dark"),
    ]:
        assert page.get_by_role(role, name=name, exact=True).count() == 1, (role, name)  # type: ignore[arg-type]
    assert page.get_by_role("tab", selected=True).count() == 1
    assert page.get_by_role("listbox", name="Prompts").get_by_role("option", selected=True).count() == 1
