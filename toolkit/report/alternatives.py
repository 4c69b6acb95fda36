"""Tokens in the terminal, each over what else could have stood there, with probabilities as bars."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from toolkit.characters import clip, pad, visible
from toolkit.report.terminal import ColourMode, bold, fold, number

if TYPE_CHECKING:
    from toolkit.report.views import TokenView

NOTE = "* marks the token that was written"
_EIGHTHS = " ▏▎▍▌▋▊▉"
_LEAST = 0.0005  # a smaller share is `<0.1 %`, and as a remainder it is left out
_INDENT = " " * 6
_WIDE, _LONG_BAR, _SHORT_BAR = 60, 20, 8  # columns: from _WIDE on, bars are long


def token_lines(token: TokenView, mode: ColourMode, columns: int | None = None) -> Iterator[str]:
    """What a token is, then a line for each likely token, the one written, and all others together.

    Parameters
    ----------
    token : TokenView
    mode : ColourMode
        The token that was written is bold where there are colours, and has a star everywhere.
    columns : int, optional
        Width to keep to, 40 or more; no limit by default.
    """
    rank = "?" if math.isnan(token.rank) else f"{token.rank:.0f}"
    values = [f"logprob {number(token.logprob)}", f"entropy {number(token.entropy)}", f"rank {rank}"]
    yield fold([f"{token.position:>5} {_quoted(token.text, columns)}", *values], columns, indent=_INDENT)
    for probability, text, is_chosen in _shares(token):
        bar = _bar(probability, _LONG_BAR if columns is None or columns >= _WIDE else _SHORT_BAR)
        line = f"{_INDENT[2:]}{'*' if is_chosen else ' '} {_percent(probability):>7} {bar} {text}"
        line = (line if columns is None else clip(line, columns)).rstrip()
        yield bold(line, mode) if is_chosen else line


def _shares(token: TokenView) -> Iterator[tuple[float, str, bool]]:
    """(probability, text, whether it is the token written); together they make 1."""
    rest = 1.0
    listed = [(one.logprob, one.text, one.is_chosen) for one in token.alternatives]
    if not any(is_chosen for *_, is_chosen in listed) and not math.isnan(token.logprob):
        listed.append((token.logprob, token.text, True))
    for logprob, text, is_chosen in listed:
        rest -= math.exp(logprob)
        yield math.exp(logprob), _quoted(text), is_chosen
    if listed and rest >= _LEAST:
        yield rest, "all others", False


def _quoted(text: str, columns: int | None = None) -> str:
    shown = f"'{visible(text)}'"
    return shown if columns is None else clip(shown, columns - len(_INDENT))


def _percent(probability: float) -> str:
    return "<0.1 %" if 0 < probability < _LEAST else f"{100 * probability:.1f} %"


def _bar(probability: float, columns: int) -> str:
    eighths = round(8 * columns * min(probability, 1.0))
    full, part = divmod(max(eighths, 1 if probability > 0 else 0), 8)
    return pad("█" * full + (_EIGHTHS[part] if part else ""), columns)
