"""Pieces of HTML with inline styles: a text with its tokens coloured, tables, lines and a legend.

Whatever comes from a model or a user is made visible and escaped here, and nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from itertools import islice

from toolkit.appearance import palette
from toolkit.appearance.scales import TOKEN_SCALES
from toolkit.characters import ELLIPSIS, count, visible
from toolkit.records import SequenceRecord
from toolkit.report.pieces import least_sure, split_by_tokens, whole_characters
from toolkit.report.terminal import UNSURE, number

Literals = Mapping[int, str]
"""What a person reads for a token id."""

LONGEST_TEXT = 2_000  # characters of one text; what is longer is cut
_LONGEST_LITERAL = 60
_MOST_DESCRIBED = 4  # tokens of one stretch of text
_MOST_ALTERNATIVES = 10
_SCALE = TOKEN_SCALES["logprob"]
_LEGEND_STEPS = 5
_WRAPPED = "white-space:pre-wrap;overflow-wrap:anywhere"
_IN_CELL = "white-space:pre-wrap"  # a column is as wide as its longest word; a table that is too wide scrolls
_CELL = "padding:.15em .8em .15em 0;text-align:left;vertical-align:top;border:0;background:transparent"


def block(*parts: str) -> str:
    """Everything that one object shows."""
    return f'<div style="margin:.5em 0;max-width:60em">{"".join(parts)}</div>'


def line(html: str, style: str = "") -> str:
    """HTML on a line of its own."""
    return f'<div style="{style}">{html}</div>' if style else f"<div>{html}</div>"


def text(given: str) -> str:
    """Any text as HTML: cut, its control characters visible, and isolated from the order of what is around."""
    return f'<bdi style="{_WRAPPED}">{_safe(given)}</bdi>'


def bold(given: str) -> str:
    """A text that stands out."""
    return f"<b>{text(given)}</b>"


def more(n: int, noun: str) -> str:
    """A line that says how many are not shown; nothing where all are."""
    return line(f"{ELLIPSIS} {count(n, f'more {noun}')}", "opacity:.8") if n > 0 else ""


def table(rows: Sequence[Sequence[str]], heads: Sequence[str] = ()) -> str:
    """Cells of plain text; without heads, the first of a row is its name."""
    head = "".join(f'<th style="{_CELL}">{escape(name)}</th>' for name in heads)
    body = "".join(f"<tr>{''.join(_cells(row, named=not heads))}</tr>" for row in rows)
    top = f"<thead><tr>{head}</tr></thead>" if heads else ""
    style = "border-collapse:collapse;margin:.3em 0;border:0"
    return line(f'<table style="{style}">{top}<tbody>{body}</tbody></table>', "overflow-x:auto")


def _cells(row: Sequence[str], *, named: bool) -> Iterator[str]:
    for i, cell in enumerate(row):
        style = f"{_CELL};opacity:.8" if named and not i else _CELL
        yield f'<td style="{style}"><bdi style="{_IN_CELL}">{_safe(cell)}</bdi></td>'


def legend() -> str:
    """What the colours mean."""
    values = [_SCALE.value(step / (_LEGEND_STEPS - 1)) for step in range(_LEGEND_STEPS)]
    blocks = "".join(f'<span style="{_style(value)};padding:0 .5em">{value:z.2g}</span>' for value in values)
    said = (
        f"underlined below {number(_SCALE.value(UNSURE))}; the pointer on a token shows what else was likely"
    )
    return line(f"logprob ({_SCALE.unit}): unsure {blocks} sure; {said}", "margin-top:.8em;font-size:.9em")


def record(given: SequenceRecord, literals: Literals, most: int) -> str:
    """What a sequence is, and its text with each token coloured by its log-probability.

    Parameters
    ----------
    given : SequenceRecord
    literals : Mapping
        Of its tokens and their alternatives; an id that it lacks is shown as a number.
    most : int
        Tokens that are shown, from the first.
    """
    logprobs = given.statistics.logprob.astype(float)
    facts = [
        f"{given.kind} {given.sample_index}",
        count(len(logprobs), "token"),
        f"sum_logprob {number(float(logprobs.sum()))}",
        f"mean_logprob {number(float(logprobs.mean()) if len(logprobs) else math.nan)}",
        given.finish_reason,
    ]
    spans = "".join(_span(part, owners, given, literals) for part, owners in _parts(given, literals, most))
    style = f"{_WRAPPED};unicode-bidi:isolate;line-height:1.6"
    body = f'<div dir="auto" style="{style}">{spans}</div>' if spans else ""
    rest = more(len(logprobs) - most, "token")
    return line(text(" · ".join(facts)), "margin-top:.5em;opacity:.8;font-size:.9em") + body + rest


def _parts(given: SequenceRecord, literals: Literals, most: int) -> list[tuple[str, tuple[int, ...]]]:
    """The text cut where tokens meet, then the end token: each part with the rows of its tokens."""
    parts = []
    for part, owners in _token_parts(given, literals):
        if owners and owners[-1] >= most:
            break
        parts.append((part, owners))
    return [
        (part, tuple(dict.fromkeys(i for owners in groups for i in owners)))
        for part, groups in whole_characters(parts)
    ]


def _token_parts(given: SequenceRecord, literals: Literals) -> Iterator[tuple[str, tuple[int, ...]]]:
    starts, ends = given.alignment.byte_start.tolist(), given.alignment.byte_end.tolist()
    for segment in given.alignment.segments:
        places = range(segment.token_start, segment.token_end)
        tokens = [(starts[i], ends[i]) for i in places]
        for part, owners in split_by_tokens(segment.text, segment.byte_start, segment.byte_end, tokens):
            yield part, tuple(places[i] for i in owners)
    if given.has_end:
        last = len(given.token_ids) - 1
        yield _literal(given, last, literals), (last,)


def _span(part: str, owners: Sequence[int], given: SequenceRecord, literals: Literals) -> str:
    value = least_sure([float(given.statistics.logprob[i]) for i in owners], _SCALE)
    title = "\n\n".join(_described(given, i, literals) for i in owners[:_MOST_DESCRIBED])
    style = "" if math.isnan(value) else f' style="{_style(value)}"'
    return f'<span{style} title="{escape(title)}">{_safe(part)}</span>'


def _described(given: SequenceRecord, i: int, literals: Literals) -> str:
    """A token in a few lines of plain text."""
    s, token_id = given.statistics, int(given.token_ids[i])
    logprob = float(s.logprob[i])
    chance = "" if math.isnan(logprob) else f" ({100 * math.exp(logprob):.1f} %)"
    lines = [
        f"{_quoted(_literal(given, i, literals))}: token {i}, id {token_id}",
        f"logprob {number(logprob)}{chance}, entropy {number(float(s.entropy[i]))}, rank {s.rank[i] or '?'}",
    ]
    pairs = zip(s.alternative_ids[i].tolist(), s.alternative_logprobs[i].tolist(), strict=True)
    for other, value in islice(pairs, _MOST_ALTERNATIVES):
        if other >= 0 and not math.isnan(value):
            mark = " *" if other == token_id else ""
            literal = _quoted(literals.get(other, f"<id {other}>"))
            lines.append(f"{100 * math.exp(value):.1f} % {literal}{mark}")
    return "\n".join(lines)


def _literal(given: SequenceRecord, i: int, literals: Literals) -> str:
    token_id, piece = int(given.token_ids[i]), given.alignment.pieces[i]
    own = f"<id {token_id}>" if piece is None else piece.decode("utf-8", "backslashreplace")
    return literals.get(token_id, own)


def _quoted(literal: str) -> str:
    return f"'{visible(_cut(literal, _LONGEST_LITERAL))}'"


def _style(value: float) -> str:
    confidence = _SCALE.confidence(value)
    ink = "#{:02x}{:02x}{:02x}".format(*palette.text_on(palette.colour(confidence)))
    underline = ";text-decoration:underline" if confidence < UNSURE else ""
    return f"background:{palette.hex_colour(confidence)};color:{ink}{underline}"


def _safe(given: str) -> str:
    return escape(visible(_cut(given, LONGEST_TEXT), newlines=True))


def _cut(given: str, most: int) -> str:
    return given if len(given) <= most else given[:most] + ELLIPSIS
