"""The capital-city questions: their run, their grader, and which samples name the same city."""

from __future__ import annotations

import re

from support.runs import Collection
from toolkit.aggregation.agreement import Comparison
from toolkit.grading import Normalizer

CAPITALS = Collection("capitals", "capitals.jsonl", max_tokens=24, samples=8, greedy=True)
GRADER = "contains"

_NAME = r"[^.!?,;:\n()\"]+"
_FORMS = (
    re.compile(
        rf"\bcapital\b[^.!?\n]*?\b(?:is|was)\s+(?:(?:indeed|actually|called|named|known as)\s+)*({_NAME})"
    ),
    re.compile(rf"^({_NAME}?),?(?: is| was)? (?:the|a|its) capital\b"),
)
_MOST_WORDS = 4  # of an answer that is a name alone
_plain = Normalizer()


def named_city(text: str) -> str | None:
    """The city that an answer names, normalised; None where it is none of the usual forms.

    "The capital of X is Y", "Y is the capital of X", or a few words. Knows no cities, and no right answers.
    """
    for form in _FORMS:
        found = form.search(text)
        if found:
            return _plain(found[1]) or None
    line = text.strip().partition("\n")[0]
    return (_plain(line) or None) if len(line.split()) <= _MOST_WORDS else None


SAME_CITY = Comparison(named_city)
