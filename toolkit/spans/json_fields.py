"""The fields of a JSON answer as spans."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from toolkit.spans.base import Span
from toolkit.spans.json_scan import find_document
from toolkit.spans.thinking import answer_range


@dataclass(frozen=True)
class Fields:
    """Finds the fields of the JSON in an answer, labelled with their paths: `name`, `people[0].name`.

    Of several objects and lists in the answer, the longest; what is in a thinking block is not looked at. A
    key that is no plain name is spelled `["two words"]`. A value is a text without its quotes (an empty one
    with them), a number, true, false, null, or an empty list or object. JSON that the text's end cuts off has
    the fields up to there, and the value at the cut is not complete; a number at the cut never is.

    Attributes
    ----------
    path : str, optional
        Only the field at this path, with or without a leading `$.`.
    part : {"value", "key"}
        What of a field. A key that holds a list or an object is a key too.
    opened : bool
        The text begins inside a thinking block.
    """

    path: str | None = None
    part: Literal["value", "key"] = "value"
    opened: bool = False

    def __call__(self, text: str) -> list[Span]:
        """Spans in the order of the text."""
        document = find_document(text, answer_range(text, opened=self.opened)[0])
        if document is None:
            return []
        found = document.keys if self.part == "key" else document.values
        if self.path is None:
            return found
        wanted = self.path.removeprefix("$").removeprefix(".") or "$"
        return [span for span in found if span.label == wanted]
