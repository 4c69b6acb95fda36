"""Hostile text: nothing of it is executed or obeyed, and nothing is broken by it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.report.browser.conftest import NARROW, Open
from tests.report.browser.islands import Prompt, Text, make_island
from tests.report.browser.reader import Reader

ATTACKS = [
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror='window.hacked = 1'>",
    "<svg/onload=window.hacked=1>",
    "<!--<script>",
    " javascript:window.hacked=1",
    "<a href='javascript:window.hacked=1'>x</a>",
    "<style>*{display:none}</style>",
    "<iframe src='https://example.org'></iframe>",
    "<link rel=stylesheet href=//example.org/x.css>",
    "]]>",
    "{{7*7}}{% raw %}",
    "${window.hacked=1}`\\u0022;",
    "&lt;b&gt;&#x3c;",
    "\\u003cscript>",
    "__proto__",
]
OBEYED = [
    "\u202eevil\u202c",
    "\u2066isolate\u2069",
    "\u200f\u200e\u061c",
    "\x00\x01\x1b[31m\x7f\x85",
    "\r\n\v\f",
    "\u2028\u2029",
    "\u200b\u00ad\ufeff",
    "\ufff9\U000e0041\U000e007f",
    "\uffff",
    "\x9b2J",
]
DRAWN = {
    "\u202eevil\u202c": "<U+202E>evil<U+202C>",
    "\x00\x01\x1b[31m\x7f\x85": "<NUL><SOH><ESC>[31m<DEL><U+0085>",
    "\u2028\u2029": "<U+2028><U+2029>",
    "\u200b\u00ad\ufeff": "<U+200B><U+00AD><U+FEFF>",
    "\ufff9\U000e0041\U000e007f": "<U+FFF9><U+E0041><U+E007F>",
    "\uffff": "<U+FFFF>",
    "\x9b2J": "<U+009B>2J",
}


def hostile() -> dict[str, Any]:
    """Every text of an island is an attack."""
    pieces = [*ATTACKS, *OBEYED]
    attack = "".join(pieces)
    texts = [
        Text(
            pieces,
            [-1.5] * 40,
            "sample",
            i,
            grade=i / 2,
            extracted=attack,
            finish=attack,
            alternatives=alternatives(),
        )
        for i in range(3)
    ]
    runs = [{"name": attack, "model": attack, "sampler": attack}] * 2
    prompts = [Prompt(attack, texts, attack, [attack, *pieces]), Prompt(attack, texts, attack, run=1)]
    island = make_island(prompts, runs=runs, title=attack)
    for sequence in island["sequences"]:
        sequence["spans"]["field"] = {**sequence["spans"]["word"]}
        sequence["spans"]["field"]["label"] = [attack] * len(sequence["spans"]["word"]["start"])
    island["granularities"].append({"name": "field", "metrics": ["mean_logprob"]})
    return island


def alternatives() -> list[list[tuple[str, float]]]:
    return [[(piece, -1.0), ("other" + piece, -2.0)] for piece in (*ATTACKS, *OBEYED)]


def visit_everything(reader: Reader) -> None:
    """Use all that the reader can do."""
    for by in ("token", "word", "field"):
        reader.select(by=by)
        reader.pieces.first.focus()
        reader.press("ArrowRight", "End", "u")
        reader.press("c", "]", "c", "w")
    reader.choose("scope", "page").choose("filter", "right").choose("filter", "all")
    reader("#search").fill("<script>")
    reader("#search").press("Enter")
    reader.press("n", "p", "?")


@pytest.fixture
def visited(open_island: Open) -> Reader:
    reader = open_island(hostile())
    visit_everything(reader)
    return reader


def test_hostile_text_executes_nothing_and_makes_no_element(visited: Reader) -> None:
    page = visited.page
    assert page.evaluate("window.hacked") is None
    assert page.locator("script").count() == 2
    assert page.locator("style").count() == 1
    assert page.locator("img, svg, iframe, link, object, embed, form, base, #reader a").count() == 0
    attributes = page.evaluate(
        "[...document.querySelectorAll('*')].flatMap(one => [...one.attributes].map(each => each.name.toLowerCase()))"
    )
    assert not [name for name in attributes if name.startswith("on")]
    assert page.evaluate("({}).hacked ?? Object.prototype.hacked ?? null") is None


def test_no_character_that_would_be_obeyed_or_hidden_is_in_the_document(visited: Reader) -> None:
    found = visited.page.evaluate(
        r"""() => {
            const texts = [...document.querySelectorAll("body :not(script)")].flatMap(one =>
                [...one.childNodes].filter(node => node.nodeType === 3).map(node => node.data));
            return texts.filter(text => /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}\p{Cs}\p{Cn}\p{Zl}\p{Zp}]/u.test(text));
        }"""
    )
    assert found == []


def test_they_are_drawn_as_visible_ones_in_pieces_that_are_isolated(open_island: Open) -> None:
    reader = open_island(hostile())
    drawn = dict(zip([*ATTACKS, *OBEYED], reader.drawn(), strict=False))
    assert {text: drawn[text]["text"] for text in DRAWN} == DRAWN
    assert {text: drawn[text]["text"] for text in ATTACKS} == {text: text for text in ATTACKS}
    assert {piece["bidi"] for piece in drawn.values()} == {"isolate"}


def test_text_that_looks_like_a_drawn_character_is_told_apart_from_it(open_island: Open) -> None:
    reader = open_island(make_island([Prompt("p", [Text(["<U+202E>", "\u202e"], [-1.0] * 3)])]))
    assert reader.texts("#text .piece")[:2] == ["<U+202E>", "<U+202E>"]
    marked = reader.pieces.evaluate_all(
        "all => all.map(one => one.querySelectorAll('.hidden-character').length)"
    )
    assert marked[:2] == [0, 1]


def test_an_override_does_not_reorder_what_stands_beside_it(open_island: Open) -> None:
    reader = open_island(make_island([Prompt("p", [Text(["ab", "\u202e", "cd", " ef"], [-1.0] * 5)])]))
    places = reader.pieces.evaluate_all("all => all.map(one => one.getBoundingClientRect().x)")
    assert places == sorted(places)


def test_a_megabyte_without_a_space_breaks_nothing(open_island: Open) -> None:
    million = "x" * 1_000_000
    texts = [
        Text([million, "end"], [-3.0, -1.0, -0.1], extracted=million, alternatives=[[(million, -0.5)]]),
        Text(["short", million], [-3.0, -1.0, -0.1], "sample", 0),
    ]
    reader = open_island(make_island([Prompt("p", texts, million, [million])]))
    for width in (1280, NARROW):
        reader.page.set_viewport_size({"width": width, "height": 900})
        for key in ("c", "c", "w"):
            reader.press(key)
            assert reader.overflow() == 0
    reader.pieces.first.focus()
    assert len(reader.page.evaluate("document.body.innerText")) < 100_000
    assert reader.card["bytes"].endswith("1000000 in all")
    assert reader.overflow() == 0
    reader.press("End", "ArrowLeft")
    assert reader.focused == "end"
    reader.press("ArrowLeft")
    assert set(reader.focused) == {"x"}
    assert reader.card["token"] == "1 of 3"
    reader.select(by="word")
    assert reader.overflow() == 0


def test_a_long_question_is_opened_on_demand(open_island: Open) -> None:
    reader = open_island(make_island([Prompt("p", [Text(["a"], [-1.0, -0.1])], "Why? " * 1000)]))
    assert len(reader("#prompt-head h3").text_content() or "") < 1300
    reader.page.get_by_role("button", name="Show all 5,000 characters").click()
    assert reader("#prompt-head h3").text_content() == "Why? " * 1000


def test_half_characters_break_nothing(open_island: Open) -> None:
    island = make_island([Prompt("p", [Text(["a" * 4001, "bc"], [-1.0] * 3)])])
    text = "\ud83d" + "a" * 3998 + "🎉" + "\ud83d" + "c"
    island["sequences"][0]["text"] = text
    source = json.dumps(island)  # lone surrogates stand as escapes
    assert "\\ud83d" in source
    reader = open_island(json.loads(source))
    joined = "".join(reader.texts("#text .piece"))
    assert joined.count("🎉") + joined.count("<U+D83D>") >= 1


def test_the_policy_lets_nothing_else_run(open_island: Open) -> None:
    policy = (
        open_island(hostile())('meta[http-equiv="Content-Security-Policy"]').get_attribute("content") or ""
    )
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert "*" not in policy
