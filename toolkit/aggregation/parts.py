"""Which part of a sequence's text is judged, or is what an estimator sees: all, the answer, a field, a match.

Text in, a range of characters out; knows nothing of tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, get_args

from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.grading.extract import Extracted, Extraction, Which
from toolkit.grading.fields import flatten, json_fields
from toolkit.spans import MARKS, find_document

PartName = Literal["sequence", "answer", "regex", "field"]
PART_NAMES: tuple[PartName, ...] = get_args(PartName)
_MISSING: Any = object()
PARTS = "sequence, answer, regex:PATTERN or field:PATH"


@dataclass(frozen=True)
class Part:
    """A part of a text.

    Attributes
    ----------
    name : {"sequence", "answer", "regex", "field"}
        All of it; the text after the last thinking block; in the answer, the first group of a regular
        expression (the whole match where it has none); in the answer, the value at a path of its JSON.
    value : str, optional
        The pattern, or the path ($.people[0].name).
    line : {"first", "last"}, optional
        Only that line, of those that are not blank.
    match : {"last", "first"}
        Which match of the pattern.
    """

    name: PartName = "answer"
    value: str | None = None
    line: Which | None = None
    match: Which = "last"

    def __post_init__(self) -> None:
        if self.name not in PART_NAMES:
            raise ToolkitError(f"over: there is no {quoted(self.name)}: give {PARTS}")
        needed = self.name in ("regex", "field")
        if needed and not self.value:
            raise ToolkitError(f"over: {self.name} needs a value: give {PARTS}")
        if not needed and self.value is not None:
            raise ToolkitError(f"over: {self.name} takes no value: give {PARTS}")
        _ = self._extraction  # refuses a pattern that is none

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}:{self.value}"

    def find(self, text: str, *, opened: bool = False) -> Extracted:
        """The range of characters, without space around it, and the text there; None where there is none.

        Parameters
        ----------
        text : str
        opened : bool
            The prompt ends inside a thinking block, so that the text begins in one.

        Raises
        ------
        ToolkitError
            If a pattern takes too long on this text.
        """
        found = (self._opened if opened and self.name != "sequence" else self._extraction)(text)
        if self.name != "field" or found.text is None:
            return found
        return _field(found, str(self.value))

    def references(self, references: Sequence[str]) -> list[str]:
        """What the part is compared with: of a reference that is JSON, the value at the field's own path."""
        if self.name != "field":
            return list(references)
        return [right for one in references if (right := _own_field(one, str(self.value))) is not None]

    def config(self) -> dict[str, Any]:
        """Settings, as JSON has them."""
        path = {"path": self.value} if self.name == "field" else {}
        return {**self._extraction.config(), **path}

    @cached_property
    def _extraction(self) -> Extraction:
        return Extraction(
            thinking=() if self.name == "sequence" else MARKS,
            pattern=self.value if self.name == "regex" else None,
            match=self.match,
            line=self.line,
        )

    @cached_property
    def _opened(self) -> Extraction:
        given = self._extraction
        return Extraction(given.thinking, True, given.pattern, given.match, given.line)


def parse_part(text: str, *, line: Which | None = None, match: Which = "last") -> Part:
    """A part as a command names it: sequence, answer, regex:PATTERN, field:PATH.

    Raises
    ------
    ToolkitError
        For anything else, or a pattern that is none.
    """
    name, colon, value = text.partition(":")
    return Part(name, value if colon else None, line, match)  # type: ignore[arg-type]


def is_thinking(text: str) -> bool:
    """Whether a text has a mark of a thinking block."""
    return any(mark in text for pair in MARKS for mark in pair)


def field_places(text: str) -> dict[str, tuple[int, int]]:
    """Where the value of each field of a text's JSON is, in characters, by its path ($.people[0].name)."""
    document = find_document(text)
    return {} if document is None else {_rooted(span.label): span[:2] for span in document.values}


def _field(answer: Extracted, path: str) -> Extracted:
    """The value at a path of the answer's JSON, as `json_fields` reads it."""
    text = str(answer.text)
    leaf = (json_fields(text) or {}).get(_rooted(path), _MISSING)
    start, end = field_places(text).get(_rooted(path), (len(text), len(text)))
    shown = None if leaf is _MISSING else _as_text(leaf)
    return Extracted(shown, answer.start + start, answer.start + end)


def _own_field(reference: str, path: str) -> str | None:
    """The value at a path of a reference that is JSON; None where it lacks the path; other text as it is."""
    try:
        document = json.loads(reference)
    except (ValueError, RecursionError):
        return reference
    if not isinstance(document, dict | list):
        return reference
    leaf = flatten(document).get(_rooted(path), _MISSING)
    return None if leaf is _MISSING else _as_text(leaf)


def _as_text(leaf: object) -> str:
    return leaf if isinstance(leaf, str) else json.dumps(leaf, ensure_ascii=False)


def _rooted(path: str) -> str:
    """name and $.name are one path."""
    if path.startswith("$"):
        return path
    return f"${path}" if path.startswith("[") else f"$.{path}"
