"""Grade a JSON answer field by field against a JSON reference."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, NoReturn

from toolkit.errors import ToolkitError
from toolkit.grading.base import Grader
from toolkit.grading.graders import Exact, Number

Leaf = str | int | float | bool | None | dict[str, Any] | list[Any]  # containers only where they are empty
_MISSING = object()


class FieldGrade(NamedTuple):
    """A field of the reference, and how right the answer's is."""

    path: str  # $.people[0].name
    value: float  # in [0, 1]; 0 where the answer has no such field; NaN where the grader cannot say
    extracted: str | None  # the answer's value: text as it is, the rest as JSON; None where there is none
    expected: str


def grade_fields(
    text: str,
    references: Sequence[str],
    *,
    text_grader: Grader | None = None,
    number_grader: Grader | None = None,
) -> list[FieldGrade]:
    """Grade each leaf of a JSON reference by the answer's value at the same path.

    Parameters
    ----------
    text : str
        The answer, with JSON in it; see `json_fields`.
    references : sequence of str
        JSON texts; of several, the one that gives the answer the best mean value counts, for all its fields.
    text_grader, number_grader : Grader, optional
        For leaves of text and of number: `Exact()` and `Number()` by default. A number given as text, or text
        as a number, is graded by its text. true, false, null, empty text and empty containers must be the
        same.

    Returns
    -------
    list of FieldGrade
        In the order of the reference. Lists are compared place by place. Fields that only the answer has are
        not graded.

    Raises
    ------
    ToolkitError
        If a reference is not JSON.
    """
    graders = (text_grader or Exact(), number_grader or Number())
    answer = json_fields(text) or {}
    graded = [_against(answer, flatten(_parse(reference)), graders) for reference in references]
    return max(graded, key=_mean_value, default=[])


def json_fields(text: str) -> dict[str, Leaf] | None:
    """The leaves of the JSON in a text by their paths, or None where there is no JSON.

    The longest object or list in the text is taken, so that words and code fences around it do not matter. Of
    one that was cut off, the leaves that were complete are kept; a number at the cut may be incomplete and
    is not. What is no JSON to a strict parser, such as one with a comma before a closing bracket, single
    quotes or comments, has no fields: what reads the answer would not get them either.
    """
    found = _longest(text)
    return None if found is _MISSING else flatten(found)


def flatten(value: Any, path: str = "$") -> dict[str, Leaf]:
    """Leaves by path: $.name, $.list[0], and $["two words"] where a key is no plain name."""
    leaves: dict[str, Leaf] = {}
    stack = [(path, value)]
    while stack:
        at, node = stack.pop()
        children = list(_children(node))
        if not children:
            leaves[at] = node
        stack.extend((at + step, child) for step, child in reversed(children))
    return leaves


def _children(node: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for key, child in node.items():
            plain = key.isidentifier()
            yield (f".{key}" if plain else f"[{json.dumps(key, ensure_ascii=False)}]"), child
    elif isinstance(node, list):
        for index, child in enumerate(node):
            yield f"[{index}]", child


def _against(
    answer: Mapping[str, Leaf], reference: Mapping[str, Leaf], graders: tuple[Grader, Grader]
) -> list[FieldGrade]:
    rows = []
    for path, wanted in reference.items():
        if path not in answer:
            rows.append(FieldGrade(path, 0.0, None, _shown(wanted)))
            continue
        value = _leaf_value(answer[path], wanted, graders)
        rows.append(FieldGrade(path, value, _shown(answer[path]), _shown(wanted)))
    return rows


def _leaf_value(found: Leaf, wanted: Leaf, graders: tuple[Grader, Grader]) -> float:
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return float(type(found) is type(wanted) and found == wanted)
    if isinstance(wanted, bool) or not isinstance(wanted, str | int | float):
        return 0.0
    text, number = graders
    if isinstance(wanted, str):
        if text.needs_references and not wanted.strip():  # the grader could not use it
            return float(isinstance(found, str) and not found.strip())
        return text.grade(_shown(found), [wanted]).value
    if isinstance(number, Number):
        return number.grade_value(found, wanted).value
    return number.grade(_shown(found), [_shown(wanted)]).value


def _shown(leaf: Leaf) -> str:
    return leaf if isinstance(leaf, str) else json.dumps(leaf, ensure_ascii=False)


def _mean_value(rows: list[FieldGrade]) -> float:
    known = [row.value for row in rows if not math.isnan(row.value)]
    return sum(known) / len(known) if known else -1.0


def _parse(reference: str) -> Any:
    try:
        return json.loads(reference, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ToolkitError(
            f"reference {reference!r:.60} is not JSON, as grading by field needs: {error}"
        ) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")


_DECODER = json.JSONDecoder(parse_constant=_no_constant)
_OPENING = re.compile(r'\{(?=\s*(?:["}]|\Z))|\[(?=\s*(?:[-\["{\]\dtfn]|\Z))')
_MARKS = re.compile(r'"(?:[^"\\]|\\.)*"?|[{}\[\],]', re.DOTALL)  # strings go by whole
# Each place tried, and more so each one mended, may cost a pass over the rest of the text.
_MOST_TRIED, _MOST_MENDED = 200, 8


def _longest(text: str) -> Any:
    """The value of the longest JSON object or list in a text; else of one that the end cuts off."""
    best, length, at, failed = _MISSING, 0, 0, 0
    while failed < _MOST_TRIED and (opening := _OPENING.search(text, at)) is not None:
        at = opening.start()
        try:
            value, end = _DECODER.raw_decode(text, at)
        except RecursionError:
            break
        except ValueError:
            failed += 1
            if failed <= _MOST_MENDED and len(text) - at > length:
                cut = _mended(text[at:])
                if cut is not _MISSING:
                    return cut
            at += 1
            continue
        if end - at > length:
            best, length = value, end - at
        at = end
    return best


def _mended(text: str) -> Any:
    """The value of JSON that the end cuts off: up to its last complete member, with what is open closed.

    A member is complete before a comma and after a bracket; at the very end, if it is a string, true, false
    or null.
    """
    stack: list[str] = []
    last = 0
    for mark in _MARKS.finditer(text):
        character = mark.group()
        if character in "{[":
            stack.append("}" if character == "{" else "]")
        elif character in "}]" and (not stack or stack.pop() != character):
            return _MISSING
        if not stack:
            return _MISSING  # it ends, so it is damaged and not cut off
        if character in "{[]},":
            last = mark.start() if character == "," else mark.end()
    whole, closers = text.rstrip(), "".join(reversed(stack))
    for candidate in (whole if whole.endswith(('"', "true", "false", "null")) else "", text[:last]):
        try:
            return json.loads(candidate + closers, parse_constant=_no_constant)
        except (ValueError, RecursionError):
            continue
    return _MISSING
