"""The reader as a test uses it: what is on the page, and what a person does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Locator, Page

# Everything that a test asks of drawn pieces, in one call.
_PIECES = """pieces => pieces.map(piece => {
    const style = getComputedStyle(piece);
    return {
        text: piece.textContent,
        background: style.backgroundColor,
        colour: style.color,
        underlined: style.textDecorationLine.includes("underline"),
        bidi: style.unicodeBidi,
        tab: piece.tabIndex,
        classes: [...piece.classList],
    };
})"""


class Reader:
    """A page with the reader in it."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def __call__(self, selector: str) -> Locator:
        return self.page.locator(selector)

    @property
    def pieces(self) -> Locator:
        """The pieces of the one text that can be focused."""
        return self("#text .piece")

    def drawn(self, selector: str = "#text .piece") -> list[dict[str, Any]]:
        """Text, colours and more of each piece."""
        found: list[dict[str, Any]] = self(selector).evaluate_all(_PIECES)
        return found

    def texts(self, selector: str) -> list[str]:
        return self(selector).all_text_contents()

    def press(self, *keys: str) -> Reader:
        for key in keys:
            self.page.keyboard.press(key)
        return self

    def choose(self, name: str, value: str) -> Reader:
        """Click a choice: filter, view or scope."""
        self(f'label:has(input[name="{name}"][value="{value}"])').click()
        return self

    def select(self, *, by: str | None = None, metric: str | None = None) -> Reader:
        if by is not None:
            self("#by").select_option(by)
        if metric is not None:
            self("#metric").select_option(metric)
        return self

    @property
    def sequence(self) -> str:
        """The name of the chosen sequence."""
        tab = self('[role="tab"][aria-selected="true"]')
        return str(tab.evaluate("tab => tab.firstChild.textContent.trim()"))

    @property
    def prompt(self) -> str:
        """The id of the chosen prompt."""
        return self('#prompts [aria-selected="true"] .prompt-id').text_content() or ""

    @property
    def focused(self) -> str:
        """The text of what has the focus."""
        return str(self.page.evaluate("document.activeElement.textContent"))

    @property
    def card(self) -> dict[str, str]:
        """The facts on the card."""
        names, values = self.texts("#card dt"), self.texts("#card dd")
        return dict(zip(names, values, strict=True))

    @property
    def card_is_open(self) -> bool:
        return self("#card:not(.closed)").count() == 1

    @property
    def least(self) -> list[tuple[str, str]]:
        """(value, text) of each entry of the list of the least confident."""
        entries = self("#least-list .entry")
        found = entries.evaluate_all(
            """entries => entries.map(entry =>
                [".value", ".entry-text"].map(part => entry.querySelector(part).textContent))"""
        )
        return [(value, text) for value, text in found]

    @property
    def hash(self) -> str:
        return str(self.page.evaluate("location.hash"))

    def overflow(self) -> int:
        """By how many pixels the page is wider than its window."""
        return int(
            self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        )
