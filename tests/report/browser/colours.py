"""Contrast as WCAG 2 defines it, from the colours that the browser computed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from playwright.sync_api import Page

# Each text that is drawn with its colour and what lies behind it: of text nodes, controls, and what style inserts.
_TEXTS = """() => {
    const opaque = colour => !/^rgba\\(.*, 0\\)$/.test(colour);
    const behind = element => {
        for (let one = element; one; one = one.parentElement) {
            const { backgroundColor } = getComputedStyle(one);
            if (opaque(backgroundColor)) return backgroundColor;
        }
        return "rgb(255, 255, 255)";
    };
    const faded = element => {
        for (let one = element; one; one = one.parentElement) if (getComputedStyle(one).opacity !== "1") return true;
        return false;
    };
    const found = [];
    const note = (element, text, colour) => {
        if (text.trim() === "" || element.getClientRects().length === 0 || element.closest("svg")) return;
        found.push({ text: text.trim().slice(0, 40), colour, background: behind(element), faded: faded(element) });
    };
    for (const element of document.body.querySelectorAll("*:not(script)")) {
        const style = getComputedStyle(element);
        for (const node of element.childNodes) {
            const isText = node.nodeType === Node.TEXT_NODE && element.tagName !== "OPTION";
            if (isText) note(element, node.data, style.color);
        }
        if (element.matches("select, input[type=search]")) note(element, element.value || "control", style.color);
        if (element.placeholder) note(element, element.placeholder, getComputedStyle(element, "::placeholder").color);
        for (const pseudo of ["::before", "::after"]) {
            const { content, color } = getComputedStyle(element, pseudo);
            if (!["none", "normal"].includes(content)) note(element, content.replaceAll('"', ""), color);
        }
    }
    return found;
}"""


def rgb(colour: str) -> tuple[int, int, int]:
    """The parts of a computed colour that hides what is behind it."""
    match = re.fullmatch(r"rgb\((\d+), (\d+), (\d+)\)", colour)
    assert match is not None, colour
    red, green, blue = map(int, match.groups())
    return red, green, blue


def _luminance(colour: tuple[int, ...]) -> float:
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (part / 255 for part in colour)
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def ratio(one: tuple[int, ...], other: tuple[int, ...]) -> float:
    """Contrast of two colours, 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def drawn_texts(page: Page) -> list[dict[str, Any]]:
    """All text that is drawn: {text, colour, background, faded}."""
    found: list[dict[str, Any]] = page.evaluate(_TEXTS)
    return found


def weak(page: Page, least: float = 4.5) -> list[str]:
    """The texts whose contrast is too low, or that are faded."""
    return [
        f"{one['text']!r}: {one['colour']} on {one['background']}"
        for one in drawn_texts(page)
        if one["faded"] or ratio(rgb(one["colour"]), rgb(one["background"])) < least
    ]
