"""Spans of a text: words, sentences, lines, JSON fields, and what else is looked at.

Text in, ranges of characters out. Knows nothing of tokens, tables or models.
"""

from toolkit.spans.base import Finder, Span, UserFinder
from toolkit.spans.json_fields import Fields
from toolkit.spans.json_scan import Document, find_document
from toolkit.spans.kinds import FORMS, SpanKind, Window, span_kind
from toolkit.spans.lines import find_lines, find_paragraphs
from toolkit.spans.patterns import Groups
from toolkit.spans.sentences import Sentences
from toolkit.spans.thinking import MARKS, Answer, Thinking, answer_range, ends_in_thinking, thinking_blocks
from toolkit.spans.words import find_words

__all__ = [
    "FORMS",
    "MARKS",
    "Answer",
    "Document",
    "Fields",
    "Finder",
    "Groups",
    "Sentences",
    "Span",
    "SpanKind",
    "Thinking",
    "UserFinder",
    "Window",
    "answer_range",
    "ends_in_thinking",
    "find_document",
    "find_lines",
    "find_paragraphs",
    "find_words",
    "span_kind",
    "thinking_blocks",
]
