r"""Sequences as the choices of an OpenAI response, as JSON.

How the API writes a token's text, and how it is done here:

- Chat: a part that is no UTF-8 is escaped, `\xe2\x82`; `bytes` has the token exactly. A special token has its
  literal and `bytes` null.
- Completions have no `bytes`. A token that is no UTF-8 is `bytes:` and its bytes, those that are no printable
  ASCII escaped: `bytes: \xe2\x82`. A token whose own text begins with `bytes:` is written so too, and the
  backslash doubled, so that the bytes can be had back from every one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from toolkit.alignment import char_to_byte_offsets
from toolkit.exporting.cells import joined, json_columns, json_text, json_values, lists, objects
from toolkit.exporting.rows import first_rows
from toolkit.exporting.words import Words
from toolkit.store import Run, VocabularyEntry
from toolkit.store.blocks import Rows
from toolkit.store.keys import match_rows
from toolkit.store.schemas import SEQUENCES

COLUMNS = {
    "sequences": SEQUENCES.names,
    "tokens": [*SEQUENCES.key, "token_id", "bytes", "byte_start", "byte_end", "logprob"],
    "alternatives": [*SEQUENCES.key, "token_index", "alternative_rank", "token_id", "logprob"],
}
"""What is read of each table."""

_APART = ("text", "prompt_id", "kind")  # columns of sequences that have places of their own
_BYTES = "bytes:"


class Choices(Protocol):
    """Makes the choices of one shape.

    Attributes
    ----------
    object_name : str
        What a response says that it is.
    id_prefix : str
    """

    object_name: str
    id_prefix: str

    def of(self, rows: Rows) -> list[bytes]:
        """A JSON object without its opening brace for each sequence, as UTF-8."""
        ...


class ChatChoices:
    """Choices of chat completions.

    Parameters
    ----------
    run : Run
    include_end : bool
        Whether the end token is listed.
    """

    object_name = "chat.completion"
    id_prefix = "chatcmpl-"

    def __init__(self, run: Run, include_end: bool) -> None:
        self._words = Words(run, _chat_token)
        self._include_end = include_end

    def of(self, rows: Rows) -> list[bytes]:
        """A JSON object without its opening brace for each sequence, as UTF-8."""
        tokens, alternatives = rows["tokens"], rows["alternatives"]
        listed = Listed(rows, self._include_end)
        likely = joined([*self._head(alternatives), "}"])
        entries = joined([*self._head(tokens), ',"top_logprobs":', lists(likely, listed.n_alternatives), "}"])
        sequences = rows["sequences"]
        return _closed(
            sequences,
            ['"message":{"role":"assistant","content":', _json(sequences, "text"), ',"refusal":null},'],
            ['"logprobs":{"content":', listed.in_sequences(entries), ',"refusal":null},'],
        )

    def _head(self, rows: pa.Table) -> list[pa.Array | str]:
        """Token and bytes, then the log-probability."""
        return [self._words.of(rows["token_id"]), ',"logprob":', _json(rows, "logprob")]


class CompletionChoices:
    """Choices of the older completions; parameters are as of `ChatChoices`."""

    object_name = "text_completion"
    id_prefix = "cmpl-"

    def __init__(self, run: Run, include_end: bool) -> None:
        self._words = Words(run, completion_token)
        self._include_end = include_end

    def of(self, rows: Rows) -> list[bytes]:
        """A JSON object without its opening brace for each sequence, as UTF-8."""
        tokens, sequences = rows["tokens"], rows["sequences"]
        listed = Listed(rows, self._include_end)
        offsets = pa.array(text_offsets(rows))
        return _closed(
            sequences,
            ['"text":', _json(sequences, "text"), ',"logprobs":{'],
            ['"tokens":', listed.in_sequences(self._words.of(tokens["token_id"])), ","],
            ['"token_logprobs":', listed.in_sequences(_json(tokens, "logprob")), ","],
            ['"top_logprobs":', self._top(rows, listed), ","],
            ['"text_offset":', listed.in_sequences(json_values(offsets)), "},"],
        )

    def _top(self, rows: Rows, listed: Listed) -> pa.Array:
        """For each sequence, an object a token: the text of each alternative with its log-probability.

        Of ids with the same text the most likely one is kept: an object cannot have the others. Null where a
        sequence has no alternatives.
        """
        alternatives = rows["alternatives"]
        same = self._words.same(alternatives["token_id"])
        _, first = np.unique(listed.place * (same.max(initial=0) + 1) + same, return_index=True)
        kept = np.sort(first)
        likely = alternatives.take(kept)
        pairs = joined([self._words.of(likely["token_id"]), ":", _json(likely, "logprob")])
        counts = np.bincount(listed.place[kept], minlength=len(listed.n_alternatives))
        inside = listed.in_sequences(lists(pairs, counts, "{}"))
        return pc.if_else(pa.array(listed.has_alternatives), inside, None)


class Listed:
    """Which tokens of some sequences are listed, and where their alternatives are.

    Listed are the tokens that begin within the text kept, those without bytes at its end, and the end token
    where that is wanted: what was generated past a stop string is not.

    Attributes
    ----------
    place : (n_alternatives,) int64
        The token of each alternative.
    n_alternatives : (n_tokens,) int64
        How many each token has.
    has_alternatives : (n_sequences,) bool
    """

    def __init__(self, rows: Rows, include_end: bool) -> None:
        sequences, tokens, alternatives = (rows[name] for name in ("sequences", "tokens", "alternatives"))
        self._first = first_rows(tokens, sequences, "tokens")
        owners = match_rows(alternatives, sequences)
        self.place = self._first[owners] + alternatives["token_index"].to_numpy()
        self.n_alternatives = np.bincount(self.place, minlength=tokens.num_rows)
        self.has_alternatives = np.bincount(owners, minlength=sequences.num_rows) > 0
        self._kept = self._which(rows, include_end)

    def _which(self, rows: Rows, include_end: bool) -> NDArray[np.bool_]:
        counts = np.diff(self._first)
        n_bytes = np.repeat(rows["sequences"]["n_bytes"].to_numpy(), counts)
        start, end = (rows["tokens"][f"byte_{side}"].to_numpy() for side in ("start", "end"))
        kept = (start < n_bytes) | (end <= n_bytes)
        has_end = rows["sequences"]["has_end"].to_numpy(zero_copy_only=False) & (counts > 0)
        kept[self._first[1:][has_end] - 1] = include_end
        return np.asarray(kept)

    def in_sequences(self, values: pa.Array) -> pa.Array:
        """Values of all tokens as a JSON list for each sequence, of those that are listed."""
        counts = np.diff(np.concatenate([[0], np.cumsum(self._kept)])[self._first])
        return lists(values.filter(pa.array(self._kept)), counts)


def completion_token(entry: VocabularyEntry) -> str:
    """A token as completions write it: a JSON string."""
    data = entry.bytes
    if data is None:
        return json_text(entry.literal)
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return json_text(_escaped(data))
    return json_text(_escaped(data) if text.startswith(_BYTES) else text)


def text_offsets(rows: Rows) -> NDArray[np.int64]:
    """(n_tokens,) the character of the text in which each token begins; its length, for one past its end."""
    tokens = rows["tokens"]
    first = first_rows(tokens, rows["sequences"], "tokens")
    starts, pieces = tokens["byte_start"].to_numpy(), tokens["bytes"]
    found = np.zeros(tokens.num_rows, np.int64)
    texts, n_bytes = (rows["sequences"][name].to_pylist() for name in ("text", "n_bytes"))
    for i, text in enumerate(texts):
        own = slice(first[i], first[i + 1])
        places = np.minimum(starts[own], n_bytes[i])
        if not text.isascii():
            data = b"".join(piece or b"" for piece in pieces[own].to_pylist())[: n_bytes[i]]
            places = np.searchsorted(char_to_byte_offsets(data), places, side="right") - 1
        found[own] = places
    return found


def _chat_token(entry: VocabularyEntry) -> str:
    """The token and bytes of a chat completion, as the beginning of a JSON object."""
    if entry.bytes is None:
        return f'{{"token":{json_text(entry.literal)},"bytes":null'
    text = json_text(entry.bytes.decode("utf-8", "backslashreplace"))
    return f'{{"token":{text},"bytes":[{",".join(map(str, entry.bytes))}]'


def _escaped(data: bytes) -> str:
    r"""`bytes:` and the bytes, what is no printable ASCII or is a backslash as `\xNN` and `\\`."""
    plain = (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}" for byte in data.replace(b"\\", b"\\\\"))
    return _BYTES + "".join(plain)


def _json(rows: pa.Table, name: str) -> pa.Array:
    return json_columns(rows.select([name]))[name]


def _closed(sequences: pa.Table, *parts: Sequence[pa.Array | str]) -> list[bytes]:
    """The members of each choice, its finish_reason, and the sequence's other columns as its metadata."""
    more = objects(json_columns(sequences.drop_columns(_APART)))
    reasons = sequences["finish_reason"].cast(pa.string()).combine_chunks()
    finish = pc.if_else(pc.equal(reasons, "stop"), "stop", "length")
    flat = [part for several in parts for part in several]
    members = [*flat, '"finish_reason":"', finish, '","metadata":', more, "}}"]
    texts: list[bytes] = joined(members, "null").cast(pa.binary()).to_pylist()
    return texts
