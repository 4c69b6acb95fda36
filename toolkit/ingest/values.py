"""What the fields of a response may hold: numbers, texts and bytes, checked and named when they are wrong."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from toolkit.characters import quoted
from toolkit.collect.fields import LARGEST_ID
from toolkit.collect.json_lines import fail, kind_of
from toolkit.ingest.given import Tally
from toolkit.records import FinishReason
from toolkit.store.rules import ROUNDING

SENTINELS = (-9999.0, -100.0, -math.inf)
"""What sources write for a probability of zero, or one that they do not say."""

MASKED = "masked"  # how often a sentinel was read
_LEAST = -3.4028234663852886e38  # of float32

_REASONS: Mapping[str, FinishReason] = {
    "length": "length",
    "limit": "length",
    "max_tokens": "length",
    "context": "context",
    "model_length": "context",
    "error": "error",
    "cancelled": "cancelled",
    "abort": "cancelled",
    "content_filter": "cancelled",
    "none": "cancelled",
}
_PLAIN_REASONS = ("stop", "length", "eos", "limit", "word")


def logprob_of(value: Any, name: str, tally: Tally, where: str) -> float:
    """A log-probability, -inf for a sentinel.

    Raises
    ------
    LineError
        It is no number, NaN, or above 0 beyond rounding.
    """
    number = number_of(value, name)
    if number > ROUNDING:
        fail(f"{name} is {number:g}, above 0; a log-probability is 0 or less, in nats")
    if number in SENTINELS or number < _LEAST:
        tally.add(MASKED, where)
        return -math.inf
    return number


def logprob_of_probability(value: Any, name: str, tally: Tally, where: str) -> float:
    """The log of a probability, -inf for 0."""
    number = number_of(value, name)
    if not -ROUNDING <= number <= 1 + ROUNDING:
        fail(f"{name} is {number:g}; a probability is from 0 to 1")
    if number <= 0:
        tally.add(MASKED, where)
        return -math.inf
    return math.log(number)


def number_of(value: Any, name: str) -> float:
    """Any number but NaN."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        fail(f"{name} is {_shown(value)}; use a number")
    if math.isnan(value):
        fail(f"{name} is NaN; use a number, or null where it is not known")
    try:
        return float(value)
    except OverflowError:
        fail(f"{name} is too large; use a number")


def text_of(value: Any, name: str) -> str:
    """A text that UTF-8 can write."""
    if not isinstance(value, str):
        fail(f"{name} is {_shown(value)}; use a string")
    try:
        value.encode()
    except UnicodeEncodeError:
        fail(f"{name} has half of a surrogate pair; write the whole character")
    return value


def bytes_of(value: Any, name: str) -> bytes | None:
    """A list of numbers as bytes; None for null."""
    if value is None:
        return None
    try:
        return bytes(list_of(value, name))
    except (ValueError, TypeError):
        fail(f"{name} has something else than whole numbers from 0 to 255")


def id_of(value: Any, name: str) -> int | None:
    """A token id, also as the key of an object; None for null."""
    if value is None:
        return None
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 11:
        value = int(value)
    if type(value) is not int or not 0 <= value <= LARGEST_ID:
        fail(f"{name} is {_shown(value)}; a token id is a whole number from 0 to {LARGEST_ID}")
    return value


def ids_of(value: Any, name: str) -> list[int]:
    """A list of token ids."""
    found = [id_of(one, name) for one in list_of(value, name)]
    if None in found:
        fail(f"{name} has null; a token id is a whole number from 0 to {LARGEST_ID}")
    return [one for one in found if one is not None]


def list_of(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list | tuple):
        fail(f"{name} is {_shown(value)}; use an array")
    return value


def object_of(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        fail(f"{name} is {_shown(value)}; use an object")
    return value


def reason_of(value: Any, name: str = "finish_reason") -> tuple[FinishReason, str | None]:
    """A source's word for why it ended as ours, and the word where ours says less."""
    if value is None:
        return "cancelled", "no finish_reason"
    word = text_of(value, name)
    return _REASONS.get(word, "stop"), None if word in _PLAIN_REASONS else word


def found_fields(value: Mapping[str, Any]) -> str:
    """The names of an object's fields, for a message."""
    names = ", ".join(map(str, list(value)[:8]))
    return quoted(f"{names}, ..." if len(value) > 8 else names, 120) if value else "no field"


def _shown(value: Any) -> str:
    try:
        return kind_of(value)
    except KeyError:
        return type(value).__name__
