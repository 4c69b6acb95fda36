"""The text: cut at the chosen granularity, coloured by the chosen statistic on its fixed scale."""

from __future__ import annotations

from typing import Any

import pytest

from tests.report.browser.colours import ratio, rgb
from tests.report.browser.conftest import Open
from tests.report.browser.islands import MASKED, Prompt, Text, make_island, piece_text
from tests.report.browser.made import LYON, PARIS, long, small
from toolkit.appearance import palette
from toolkit.appearance.scales import SPAN_SCALES, TOKEN_SCALES

STEPS = Text([f" s{i}" for i in range(41)], [-4.0 + i / 10 for i in range(41)])


def expected_colour(metric: str, value: float) -> tuple[int, ...]:
    return tuple(palette.colour({**TOKEN_SCALES, **SPAN_SCALES}[metric].confidence(value)))


def test_tokens_are_pieces_in_order_and_the_end_token_stands_after_the_text(open_island: Open) -> None:
    reader = open_island(small())
    assert reader.texts("#text .piece") == PARIS.tokens
    assert "chip" in reader.drawn()[-1]["classes"]


@pytest.mark.parametrize(
    ("by", "metric"),
    [
        ("token", "logprob"),
        ("token", "entropy"),
        ("token", "rank"),
        ("word", "min_logprob"),
        ("sentence", "mean_entropy"),
    ],
)
def test_colours_are_the_palettes_at_the_values_place_on_the_scale(
    open_island: Open, by: str, metric: str
) -> None:
    island = small()
    reader = open_island(island).select(by=by, metric=metric)
    sequence = island["sequences"][0]
    values = (sequence["tokens"] if by == "token" else sequence["spans"][by])[metric]
    drawn = reader.drawn()
    assert [rgb(piece["background"]) for piece in drawn] == [
        expected_colour(metric, value) for value in values
    ]
    scale = {**TOKEN_SCALES, **SPAN_SCALES}[metric]
    assert [piece["underlined"] for piece in drawn] == [scale.confidence(value) < 0.5 for value in values]


def test_ink_is_black_or_white_whichever_stands_out_more(open_island: Open) -> None:
    reader = open_island(make_island([Prompt("p", [STEPS])]))
    for piece in reader.drawn():
        best = palette.text_on(palette.RGB(*rgb(piece["background"])))
        assert rgb(piece["colour"]) == tuple(best)


def test_on_dark_paper_the_palette_keeps_its_order_and_what_is_sure_does_not_glare(open_island: Open) -> None:
    reader = open_island(make_island([Prompt("p", [STEPS])]), scheme="dark")
    backgrounds = [palette.RGB(*rgb(piece["background"])) for piece in reader.drawn()[:-1]]
    light = [palette.luminance(colour) for colour in backgrounds]
    assert light == sorted(light, reverse=True)
    paper = rgb(reader("main > section").first.evaluate("e => getComputedStyle(e).backgroundColor"))
    assert ratio(backgrounds[-1], paper) < 1.3
    assert ratio(backgrounds[0], paper) > 6


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("metric", ["logprob", "entropy", "rank"])
def test_the_legend_shows_exactly_what_is_drawn(open_island: Open, scheme: str, metric: str) -> None:
    scale = TOKEN_SCALES[metric]
    values = [scale.value(step / 8) for step in range(9)]
    text = Text([f" s{i}" for i in range(9)], values, entropies=values, ranks=values)  # type: ignore[arg-type]
    reader = open_island(make_island([Prompt("p", [text])]), scheme=scheme).select(metric=metric)
    looks = ("background", "colour", "underlined")
    legend = [[block[name] for name in looks] for block in reader.drawn("#legend .scale .piece")]
    assert legend == [[piece[name] for name in looks] for piece in reader.drawn()[:9]]
    assert [block[2] for block in legend] == [True] * 4 + [
        False
    ] * 5  # the middle of the scale is not below it
    shown = [float(block.replace("−", "-")) for block in reader.texts("#legend .scale .piece")]
    assert shown == pytest.approx(values, abs=0.005)


def test_what_is_not_computed_has_no_colour_and_a_dashed_line(open_island: Open) -> None:
    reader = open_island(small(), hash="#prompt=france&kind=sample&sample=0")
    unknown = reader.drawn()[6]
    assert (unknown["text"], unknown["background"]) == ("Yes", "rgba(0, 0, 0, 0)")
    border = "e => getComputedStyle(e).borderBlockEndStyle"
    assert reader.pieces.nth(6).evaluate(border) == "dashed"
    assert reader("#legend .unknown").evaluate(border) == "dashed"


def test_what_is_masked_out_is_drawn_as_least_sure(open_island: Open) -> None:
    reader = open_island(small(), hash="#prompt=france&kind=sample&sample=0")
    assert LYON.logprobs[7] == MASKED
    assert rgb(reader.drawn()[7]["background"]) == tuple(palette.ANCHORS[0])


def test_text_between_words_belongs_to_no_piece(open_island: Open) -> None:
    reader = open_island(small()).select(by="word")
    assert reader.texts("#text .piece") == ["The", "capital", "is", "Paris"]
    assert reader.texts("#text .gap") == [" ", " ", " ", "."]


def test_a_text_without_such_spans_is_shown_and_says_so(open_island: Open) -> None:
    reader = open_island(small()).select(by="field")
    assert reader.texts("#text .block") == ["The capital is Paris."]
    assert reader("#no-spans").is_visible()
    assert reader.select(by="token")("#no-spans").is_hidden()


def test_fields_are_pieces_with_their_labels(open_island: Open) -> None:
    reader = open_island(small(), hash="#prompt=json&by=field")
    assert reader.texts("#text .piece") == ["Ada L."]
    reader.pieces.first.focus()
    assert reader.card["label"] == "field0"


ASTRAL = ["Hi", " 🎉", "🎉𝔘", "e\u0301", " 日本", "👩‍👩‍👧", "x"]


def test_places_are_utf16_units_also_past_the_basic_plane(open_island: Open) -> None:
    island = make_island([Prompt("p", [Text(ASTRAL, [-1.0] * 8)])])
    reader = open_island(island)
    assert reader.texts("#text .piece")[:-1] == ASTRAL
    sequence = island["sequences"][0]
    spans = sequence["spans"]["word"]
    expected = [
        piece_text(sequence["text"], *ends) for ends in zip(spans["start"], spans["end"], strict=True)
    ]
    assert reader.select(by="word").texts("#text .piece") == expected


def test_tokens_that_make_a_character_together_are_one_piece_by_the_least_sure_of_them(
    open_island: Open,
) -> None:
    text = Text(
        ["a", "<F0>", "<9F>", "<8E>", "<89>", "b"], [-0.1, -0.2, -3.7, -0.4, -0.5, -0.6], shared=(1, 5, "🎉")
    )
    reader = open_island(make_island([Prompt("p", [text])]))
    assert reader.texts("#text .piece")[:3] == ["a", "🎉", "b"]
    assert rgb(reader.drawn()[1]["background"]) == expected_colour("logprob", -3.7)
    reader.pieces.nth(1).focus()
    assert reader.texts("#card tbody th") == ["<F0>", "<9F>", "<8E>", "<89>"]


def test_a_token_that_ends_within_a_character_shares_it_with_the_next(open_island: Open) -> None:
    island = make_island([Prompt("p", [Text(["ab", "cd"], [-1.0, -2.0], has_end=False)])])
    island["sequences"][0]["tokens"].update(start=[0, 2], end=[3, 4])
    reader = open_island(island)
    assert reader.texts("#text .piece") == ["ab", "c", "d"]
    assert rgb(reader.drawn()[1]["background"]) == expected_colour("logprob", -2.0)


def test_spans_that_overlap_begin_where_the_one_before_ends(open_island: Open) -> None:
    island = small()
    words = island["sequences"][0]["spans"]["word"]
    words["start"][1:3], words["end"][1:3] = [1, 12], [11, 14]
    reader = open_island(island).select(by="word")
    assert reader.texts("#text .piece") == ["The", " capital", "is", "Paris"]


def test_tokens_past_a_stop_string_are_not_drawn_but_counted(open_island: Open) -> None:
    reader = open_island(small(), hash="#prompt=france&kind=sample&sample=1")
    assert reader.texts("#text .piece") == ["The", " capital", "\t", "I", " think"]
    assert "2 tokens past a stop string not shown" in reader.texts("#facts .fact")


def test_whitespace_is_made_visible_and_hidden_again(open_island: Open) -> None:
    reader = open_island(small(), hash="#prompt=france&kind=sample&sample=0")
    plain = reader.texts("#text .piece")
    reader.page.get_by_label("whitespace").check()
    assert reader.texts("#text .piece")[:6] == ["The", "·capital", "·is", "·Lyon", ".", "↵\n"]
    assert reader.press("[", "]", "]").texts("#text .piece")[2] == "⇥\t"
    reader.press("[", "w")
    assert reader.texts("#text .piece") == plain
    assert not reader.page.get_by_label("whitespace").is_checked()


def test_a_line_break_that_is_a_piece_of_its_own_is_always_seen(open_island: Open) -> None:
    reader = open_island(small(), hash="#prompt=france&kind=sample&sample=0")
    assert reader.texts("#text .piece")[5] == "↵\n"
    box = reader.pieces.nth(5).bounding_box()
    assert box is not None
    assert box["width"] > 4


def test_the_facts_of_a_sequence_are_said_in_words(open_island: Open) -> None:
    reader = open_island(small())
    facts = " ".join(reader.texts("#facts .fact"))
    for part in ("right", "read as Paris", "6 tokens", "sum −6.20 nats", "mean −1.03 nats", "finish: stop"):
        assert part in facts
    assert reader.texts("#prompt-head .reference") == ["Paris", "Paname"]
    assert reader("#prompt-head h3").text_content() == "What is the capital of France?"


def chips(reader: Any) -> int:
    return int(reader("#text .chip").count())


def test_a_long_text_keeps_few_pieces_in_the_document(open_island: Open) -> None:
    reader = open_island(long(50_000))
    reader.pieces.first.focus()
    for key in ("End", "ArrowLeft", "Home", "ArrowRight", "End"):
        reader.press(key)
        assert reader.pieces.count() <= 1800
    assert chips(reader) == 1
    assert reader.focused == "<|im_end|>"


def test_every_piece_of_a_long_text_is_reached_by_its_buttons_and_by_keys(open_island: Open) -> None:
    n = 2400
    reader = open_island(long(n))
    seen: set[str] = set(reader.texts("#text .piece"))
    while reader("#text .later").count():
        reader("#text .later").click()
        seen |= set(reader.texts("#text .piece"))
    assert seen == {f" w{i}" for i in range(n)} | {"<|im_end|>"}
    assert " w0" not in reader.texts("#text .piece")
    while reader("#text .earlier").count():
        reader("#text .earlier").click()
    assert " w0" in reader.texts("#text .piece")


def test_keys_walk_over_the_edge_of_what_is_drawn(open_island: Open) -> None:
    reader = open_island(long(1500))
    last = reader.pieces.last
    before = last.text_content() or ""
    last.focus()
    reader.press("ArrowRight")
    assert reader.focused == f" w{int(before[2:]) + 1}"
    reader.press("ArrowLeft")
    assert reader.focused == before
    down = [reader.press("ArrowDown").focused for _ in range(30)]
    places = [int(text[2:]) for text in down]
    assert places == sorted(set(places))
