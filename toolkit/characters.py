"""Text that is safe to print: control characters made visible, and widths in terminal columns.

Standard library only, so that error messages can use it at no cost. What a model wrote may hold escape
sequences, carriage returns or bidirectional overrides: they are shown here, never sent to a terminal.

A text is looked at in clusters, which is what a person takes for one character: a letter with its marks, an
emoji of several, a flag. What combines stays only where it does so in a cluster; elsewhere it is shown.
"""

from __future__ import annotations

import re
import unicodedata

ELLIPSIS = "…"
_ZWNJ, _ZWJ, _AS_EMOJI = "\u200c", "\u200d", "\ufe0f"
JOINERS = (_ZWNJ, _ZWJ)
_HIDDEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
_MARKS = frozenset({"Mn", "Me", "Mc"})
_NAMED = {"\t": "⇥", "\x7f": "␡"}
_CIRCLE = "◌"  # carries a mark that has nothing to stand on, as in Unicode's own charts
_LONGEST = 16  # code points of a cluster: more marks than a script needs would cover the lines around
_INVISIBLE = (  # neither format characters nor unassigned, and drawn as nothing: Default_Ignorable_Code_Point
    "\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180f\u3164\uffa0"
    + "".join(map(chr, (*range(0xFE00, 0xFE10), *range(0xE0100, 0xE01F0))))
)
# Controls that JSON lets stand, bidirectional and other invisible format characters, line separators.
_ACTED_ON = re.compile("[\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]")
_SKINS = "🏻🏼🏽🏾🏿"
_VIRAMAS = "\u094d\u09cd\u0acd\u0b4d\u0c4d\u0d4d"  # join two consonants into one form
# One column wide unless U+FE0F follows (emoji-variation-sequences.txt of Unicode).
_NARROW_EMOJI = frozenset(
    "#*0123456789©®‼⁉™ℹ↔↕↖↗↘↙↩↪⌨⏏⏭⏮⏯⏱⏲⏸⏹⏺Ⓜ▪▫▶◀◻◼☀☁☂☃☄☎☑☘☝☠☢☣☦☪☮☯☸☹☺♀♂♟♠♣♥♦♨♻♾⚒⚔⚕⚖⚗⚙⚛⚜⚠⚧⚰⚱⛈⛏⛑⛓⛩⛰⛱⛴⛷⛸⛹✂✈✉✌✍✏✒✔✖✝"
    "✡✳✴❄❇❣❤➡⤴⤵⬅⬆⬇🅰🅱🅾🅿🌡🌤🌥🌦🌧🌨🌩🌪🌫🌬🌶🍽🎖🎗🎙🎚🎛🎞🎟🏋🏌🏍🏎🏔🏕🏖🏗🏘🏙🏚🏛🏜🏝🏞🏟🏳🏵🏷🐿👁📽🕉🕊🕯🕰🕳🕴🕵🕶🕷🕸🕹🖇🖊🖋🖌🖍🖐🖥🖨🖱🖲🖼🗂🗃🗄🗑🗒🗓🗜🗝🗞🗡🗣🗨"
    "🗯🗳🗺🛋🛍🛎🛏🛠🛡🛢🛣🛤🛥🛩🛰🛳"
)
_WIDE_EMOJI_OF_CJK = frozenset("〰〽㊗㊙")


def visible(text: str, *, newlines: bool = False) -> str:
    r"""`text` with every character that a terminal would obey or hide replaced by a visible one.

    C0 controls become their pictures (ESC is `␛`), a newline `↵` and a tab `⇥`. Other controls, format
    characters (bidirectional overrides, zero-width space, tags), variation selectors and fillers, private and
    unassigned code points, surrogates and the line and paragraph separators become `<U+XXXX>`. Joiners and
    U+FE0F stay within an emoji or between letters of a script that needs them; a mark on nothing gets `◌`.

    Parameters
    ----------
    text : str
    newlines : bool
        Keep the break after each `↵`.
    """
    if text.isascii() and text.isprintable():
        return text
    newline = "↵\n" if newlines else "↵"
    return "".join(newline if cluster == "\n" else visible_cluster(cluster) for cluster in clusters(text))


def visible_lines(text: str) -> str:
    """`visible` of each line; the line breaks are obeyed and not shown."""
    return "\n".join(map(visible, text.split("\n")))


def visible_cluster(cluster: str) -> str:
    """One of `clusters` as `visible` shows it; what follows it in the text is no matter any more."""
    first = cluster[0]
    if first == "\n":
        return "↵"
    if _is_hidden(first):
        return _NAMED.get(first) or (chr(0x2400 + ord(first)) if first < " " else f"<U+{ord(first):04X}>")
    return _CIRCLE + cluster if _is_mark(first) else cluster


def clusters(text: str) -> list[str]:
    """`text` cut where a person sees the next character; what is hidden or obeyed is alone.

    Marks, emoji of several code points, flags, Hangul syllables in parts and Indic conjuncts stay whole, as in
    UAX #29; joiners and selectors only where they have an effect on what is drawn.
    """
    if text.isascii():
        return list(text)
    found, start = [], 0
    for i in range(1, len(text)):
        if text[i] < "\u0300" or not _joins(text, start, i):
            found.append(text[start:i])
            start = i
    return [*found, text[start:]]


def _joins(text: str, start: int, i: int) -> bool:
    """Whether character `i` belongs to the cluster that began at `start`."""
    character, before = text[i], text[i - 1]
    if i - start >= _LONGEST or text[start].isspace() or _is_hidden(text[start]):
        return False
    if character == _AS_EMOJI:
        return (before.isascii() and before in _NARROW_EMOJI) or _is_emoji(before)
    if character in JOINERS:
        return i + 1 < min(len(text), start + _LONGEST) and (
            (character == _ZWJ and _ends_in_emoji(text, start, i) and _is_emoji(text[i + 1]))
            or (_needs_joiners(before) and _needs_joiners(text[i + 1]))
        )
    if before == _ZWJ and _is_emoji(character):
        return _ends_in_emoji(text, start, i - 1)
    if character in _SKINS:
        return _ends_in_emoji(text, start, i)
    if _is_regional(character):
        return i - start == 1 and _is_regional(before)
    if _is_jamo(character):
        return _takes_jamo(before)
    return _is_mark(character) or (before in _VIRAMAS and _needs_joiners(character))


def _ends_in_emoji(text: str, start: int, end: int) -> bool:
    while end - 1 > start and (text[end - 1] == _AS_EMOJI or text[end - 1] in _SKINS):
        end -= 1
    return _is_emoji(text[end - 1])


def _is_emoji(character: str) -> bool:
    if character in _NARROW_EMOJI or character in _WIDE_EMOJI_OF_CJK:
        return not character.isascii()
    is_place = "\u231a" <= character < "\u2e80" or character >= "\U0001f000"
    return is_place and _is_wide(character) and not _is_regional(character)


def _needs_joiners(character: str) -> bool:
    """Letters without case and marks (Arabic, Indic and other scripts), and not the ideographs."""
    return unicodedata.category(character) in ("Lo", "Mn", "Mc") and not (
        _is_wide(character) or _is_jamo(character) or character in _INVISIBLE
    )


def _is_hidden(character: str) -> bool:
    if character.isascii():
        return not character.isprintable()
    if unicodedata.category(character) not in _HIDDEN:
        return character in _INVISIBLE
    return not _is_future_emoji(character)


def _is_future_emoji(character: str) -> bool:
    """Reserved for emoji, and not yet known to this Python."""
    return "\U0001f300" <= character <= "\U0001faff" and unicodedata.category(character) == "Cn"


def _is_mark(character: str) -> bool:
    """Whether a character is drawn on the one before it."""
    is_mark = unicodedata.category(character) in _MARKS or _is_jamo(character)
    return is_mark and character not in _INVISIBLE


def _is_regional(character: str) -> bool:
    return "\U0001f1e6" <= character <= "\U0001f1ff"


def _is_jamo(character: str) -> bool:
    """Vowels and final consonants of Hangul, which complete the syllable before them."""
    return "\u1161" <= character <= "\u11ff" or "\ud7b0" <= character <= "\ud7fb"


def _takes_jamo(character: str) -> bool:
    return (
        _is_jamo(character)
        or character == _CIRCLE
        or "\u1100" <= character <= "\u115e"
        or "\uac00" <= character <= "\ud7a3"
    )


def _is_wide(character: str) -> bool:
    return unicodedata.east_asian_width(character) in ("W", "F") or _is_future_emoji(character)


def width(text: str) -> int:
    """Columns that `text` takes in a terminal: a wide cluster two, a mark or a joiner none."""
    return len(text) if text.isascii() else sum(map(cluster_width, clusters(text)))


def cluster_width(cluster: str) -> int:
    """Columns of one of `clusters`: 0, 1 or 2."""
    if _AS_EMOJI in cluster[1:2]:
        return 2
    joined = cluster.partition(_ZWJ)[0] or cluster
    return min(2, sum(map(_columns, joined.rstrip(_SKINS) or joined)))


def room(text: str) -> int:
    """Columns that `text` takes at most: in a terminal that knows no clusters and draws each code point apart."""
    return (
        len(text)
        if text.isascii()
        else sum(max(sum(map(_columns, c)), cluster_width(c)) for c in clusters(text))
    )


def _columns(character: str) -> int:
    if _is_regional(character) or _is_wide(character):
        return 0 if _is_mark(character) or character in _INVISIBLE else 2
    spacing = unicodedata.category(character) == "Mc"
    return 0 if (_is_mark(character) and not spacing) or character in (_ZWNJ, _ZWJ, _AS_EMOJI) else 1


def clip(text: str, columns: int) -> str:
    """`text` cut to at most `columns` columns; what was cut ends in an ellipsis."""
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for cluster in clusters(text):
        used += cluster_width(cluster)
        if used > columns - 1:
            break
        kept.append(cluster)
    return "".join(kept) + ELLIPSIS if columns > 0 else ""


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """`text` filled with spaces to `columns` columns; with `right`, the spaces come first."""
    spaces = " " * max(0, columns - width(text))
    return spaces + text if right else text + spaces


def quoted(value: object, limit: int = 60) -> str:
    """A value for an error message: visible, cut to `limit` columns, text in single quotes."""
    text = clip(visible(str(value)), limit)
    return f"'{text}'" if isinstance(value, str) else text


def safe_json(text: str) -> str:
    """JSON with every character escaped that a terminal or a reader of lines would act on; it says the same."""
    return _ACTED_ON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def count(n: int, noun: str, plural: str = "") -> str:
    """A number with what it counts: `1 prompt`, `1,234 prompts`; `plural` where it is not the noun with s."""
    return f"{n:,} {noun if n == 1 else plural or f'{noun}s'}"
