"""Porter's stemmer as ROUGE's scores are published with it.

The package rouge-score stems by NLTK, which departs from Porter's rules in a few endings, so that day and
days, or use and uses, share a stem although words of three letters are not stemmed. A kept library gives
Porter's rules; what differs is done here.
"""

from __future__ import annotations

import re
from functools import cache

from snowballstemmer import stemmer

_IRREGULAR = {
    "dying": "die",
    "lying": "lie",
    "tying": "tie",
    "skies": "sky",
    "news": "news",
    "inning": "inning",
    "innings": "inning",
    "outing": "outing",
    "outings": "outing",
    "canning": "canning",
    "cannings": "canning",
    "howe": "howe",
    "proceed": "proceed",
    "exceed": "exceed",
    "succeed": "succeed",
}
# A suffix, and what it is read as.
_ADVERBS = (("fully", "ful"), ("ally", "al"), ("bly", "ble"))


@cache
def stem(word: str) -> str:
    """The stem of a word in lower case, of a to z and digits."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if len(word) == 4 and word.endswith(("ies", "ied")):
        return word[:3]  # ties, tied
    for ending, read in _ADVERBS:
        if word.endswith(ending) and _has_measure(word[: -len(ending)]):
            return stem(word[: -len(ending)] + read)
    found = stemmer("porter").stemWord(word)
    if re.search("[aeiou]i$", found) and word.startswith(found[:-1] + "y"):
        return found[:-1] + "y"  # keys: key
    if re.search("[^aeiou]y$", found) and len(found) > 2 and not word.endswith("ye"):
        return found[:-1] + "i"  # trying: tri
    if re.search("^[aeiou][^aeiou]$", found) and word[2:3] in ("e", "i"):
        return found + "e"  # uses: use
    if found.endswith("logi") and _has_measure(found[:-3]):
        return found[:-1]  # topology: topolog
    return found


def _has_measure(part: str) -> bool:
    """Whether a vowel is followed by a consonant: Porter's m > 0."""
    return re.search("([aeiou]|(?<=[^aeiou])y)[^aeiou]", part) is not None
