"""Texts that differ only in what seldom changes an answer become equal."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

import regex

# SQuAD removes string.punctuation; here also what else Unicode calls punctuation.
_MARK = r"[\p{P}$+<=>^`|~--\p{Pd}_]"
# Between digits (3.14, 1/2, 10:30), .5, .NET, 5%, C# and C++; an ellipsis before a word is not meant.
_MEANT = rf"(?<=\d){_MARK}(?=\d)|(?<![\w.])\.(?=\w)|(?<=\d)[%‰]|(?<=\w[+#]?)[+#]"
_STEPS = (
    (regex.compile(r"(?<=\d) (?=[%‰])"), ""),  # 5 %
    (regex.compile(r"(?<=\d),(?=\d{3}(?!\d))"), ""),  # 1,000
    (regex.compile(r"[\p{Pd}−]"), "-"),
    # A hyphen is a space, unless it is between digits or the sign of a number.
    (regex.compile(r"((?<=\d)-(?=\d)|(?<!\w)-(?=\.?\d))|[-_]"), lambda match: match[1] or " "),
    (
        regex.compile(rf"(?V1)({_MEANT})|{_MARK}"),
        lambda match: match[1] or ("" if match[0] in "'’." else " "),
    ),
)
_ARTICLES = regex.compile(r"(?<![\w+#])(?:a|an|the)(?![\w+#])")


@dataclass(frozen=True)
class Normalizer:
    """A text in the form in which answers are compared.

    NFKC and case-folded, with runs of white space as one space; then what the attributes say.

    Attributes
    ----------
    punctuation : bool
        Apostrophes and points are removed, any other mark is a space. What belongs to a number or a name
        stays: -5, .5, 3.14, 1/2, 10:30, 5%, C++, C#, .NET; 1,000 becomes 1000, and 5 % 5%.
    articles : bool
        The words a, an and the are removed.
    accents : bool
        False removes them: Bogotá becomes bogota.

    A step that would leave nothing is not taken: "The" and "?" stay.

    Notes
    -----
    SQuAD's (Rajpurkar 2016, arXiv 1606.05250) removes every mark, so that 3.14 is 314, -5 is 5 and
    Port-au-Prince is portauprince; it knows ASCII punctuation only, and leaves width and composition of
    characters alone. TriviaQA's makes every mark a space.
    """

    punctuation: bool = True
    articles: bool = True
    accents: bool = True

    def __call__(self, text: str) -> str:
        # Folding can undo the composition, and composing can make letters that fold.
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
        current = _spaced(folded)
        if not self.accents:
            current = _or_before(_without_accents(current), current)
        if self.punctuation:
            stripped = current
            for pattern, by in _STEPS:
                stripped = pattern.sub(by, stripped)
            current = _or_before(stripped, current)
        if self.articles:
            current = _or_before(_ARTICLES.sub(" ", current), current)
        return current


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _or_before(after: str, before: str) -> str:
    return _spaced(after) or before


def _without_accents(text: str) -> str:
    parts = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(c for c in parts if unicodedata.category(c) != "Mn"))
