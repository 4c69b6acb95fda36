"""Arrays of ids and scores, as `generate` of transformers gives them, saved as .npz or JSON.

| name | shape | what it is |
|---|---|---|
| sequences | (B, L) | the ids of prompt and continuation |
| logits | (T, B, V) | before any processing (output_logits) |
| scores | (T, B, V) | after processors and temperature, before the draw (output_scores) |
| token_logprobs, transition_scores | (B, T) | of the tokens drawn (compute_transition_scores, normalised) |
| input_ids | (P, L - T) | the prompts: B is a multiple of P, and rows of one prompt follow each other |

and, as far as they are known: prompts or prompt_ids (P), texts (B), tokens (B, T), references (P),
eos_token_id, pad_token_id, model, temperature. From logits every statistic follows.
"""

from __future__ import annotations

import json
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.collect.json_lines import fail, located, source_name
from toolkit.collect.render import text_id
from toolkit.ingest.given import Given, GivenPrompt, Items, Position, Tally, Token
from toolkit.ingest.reading import read_objects
from toolkit.ingest.requests import kind_of_request, prompt_id, sampling_of
from toolkit.ingest.values import found_fields, id_of, list_of, logprob_of, text_of
from toolkit.records import TokenStatistics

SCORED = "scored"  # where only processed scores were given
EXPECTED = "sequences, and one of logits, scores, token_logprobs and transition_scores"
_OF_TOKENS = ("token_logprobs", "transition_scores")
_N_ALTERNATIVES = 5


def read(path: Path, tally: Tally) -> Items:
    """The rows of every group of arrays of a file.

    Raises
    ------
    ToolkitError
        The file is neither, or its arrays do not fit together.
    """
    if zipfile.is_zipfile(path):
        where = source_name(path)
        with located(where):
            yield from _rows(_archive(path), where, tally)
        return
    for where, value in read_objects(path):
        with located(where):
            found = list(_rows(value, where, tally))
        yield from found


def _archive(path: Path) -> dict[str, Any]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (ValueError, OSError, zipfile.BadZipFile, KeyError, EOFError) as error:
        if "allow_pickle" in str(error):
            fail("holds arrays of objects, which are not plain; save numbers and texts")
        fail(f"no .npz, or a damaged one ({str(error)[:60]})")


class _Arrays:
    """The arrays of a group, checked against each other."""

    def __init__(self, values: Mapping[str, Any], tally: Tally, where: str) -> None:
        self.values, self.where = values, where
        if "sequences" not in values or not {"logits", "scores", *_OF_TOKENS} & values.keys():
            fail(f"expected {EXPECTED}, and found {found_fields(values)}")
        self.rows = [_ids(row) for row in _two_axes(values["sequences"], "sequences")]
        self.logits, self.scores = (self._distributions(name) for name in ("logits", "scores"))
        self.logprobs = self._of_tokens(tally)
        self.end_ids = set(_numbers(values.get("eos_token_id")))
        self.pad_id = next(iter(_numbers(values.get("pad_token_id"))), None)

    def _distributions(self, name: str) -> NDArray[np.float32] | None:
        """(T, B, V)"""
        if self.values.get(name) is None:
            return None
        try:
            with np.errstate(
                over="ignore"
            ):  # what float32 cannot hold is infinite, and is refused with its token
                found = np.asarray(self.values[name], np.float32)
        except (ValueError, TypeError):
            fail(
                f"{name} has rows of different lengths, or no numbers; it is (tokens, sequences, vocabulary)"
            )
        if found.ndim == 2 and len(self.rows) == 1:
            found = found[:, None]
        if found.ndim != 3 or found.shape[1] != len(self.rows):
            fail(
                f"{name} has the shape {found.shape}, and there are {len(self.rows)} sequences; "
                "it is (tokens, sequences, vocabulary)"
            )
        return found

    def _of_tokens(self, tally: Tally) -> list[list[float]] | None:
        name = next((name for name in _OF_TOKENS if self.values.get(name) is not None), None)
        if name is None:
            return None
        rows = [_plain(row) for row in _two_axes(self.values[name], name)]
        if len(rows) != len(self.rows):
            fail(f"{name} has {len(rows)} rows, and there are {len(self.rows)} sequences")
        return [[self._logprob(one, name, tally) for one in list_of(row, name)] for row in rows]

    def _logprob(self, value: Any, name: str, tally: Tally) -> float:
        return nan if value is None or value != value else logprob_of(value, name, tally, self.where)

    def n_drawn(self, row: int) -> int:
        """How many of a row's ids were drawn, padding among them."""
        given = next((one for one in (self.logits, self.scores) if one is not None), None)
        n = len(given) if given is not None else len(self.logprobs[row]) if self.logprobs is not None else 0
        if n > len(self.rows[row]):
            fail(
                f"row {row}: {n} scores, and sequences has {len(self.rows[row])} ids; it has prompt and tokens"
            )
        return n

    def text(self, name: str, row: int) -> str | None:
        """The text of a row, or of the prompt that it belongs to."""
        values = self.values.get(name)
        if values is None:
            return None
        rows = [_plain(values)] if isinstance(_plain(values), str) else _plain(values)
        if not isinstance(rows, list) or not rows:
            fail(f"{name} has no text in it; leave it out, or give one for each row or prompt")
        value = rows[row * len(rows) // len(self.rows)]
        return str(value) if type(value) is int else text_of(value, name)


def _rows(values: Mapping[str, Any], where: str, tally: Tally) -> Items:
    arrays = _Arrays(values, tally, where)
    for row in range(len(arrays.rows)):
        yield _given(arrays, row, tally)


def _given(arrays: _Arrays, row: int, tally: Tally) -> Given:
    ids, n_drawn = arrays.rows[row], arrays.n_drawn(row)
    drawn, before = ids[len(ids) - n_drawn :], ids[: len(ids) - n_drawn]
    kept = _n_kept(drawn, arrays.end_ids, arrays.pad_id)
    ends = kept > 0 and drawn[kept - 1] in arrays.end_ids
    sampling = {
        name: float(found[0])
        for name in ("temperature", "top_p")
        if (found := _numbers(arrays.values.get(name)))
    }
    statistics = _statistics(arrays, row, drawn[:kept], tally)
    given = arrays.logprobs if statistics is None else None
    logprobs = [nan] * kept if given is None else given[row][:kept]
    names = _token_texts(arrays, row, kept)
    text = arrays.text("texts", row)
    return Given(
        where=arrays.where,
        prompt=_prompt(arrays, row, before),
        positions=[
            Position(Token(name, None, token_id, token_id in arrays.end_ids), logprob)
            for name, token_id, logprob in zip(names, drawn[:kept], logprobs, strict=True)
        ],
        text=text,
        finish_reason="stop" if ends else "length",
        kind=kind_of_request(sampling_of(sampling)),
        model=arrays.text("model", 0),
        sampling=sampling,
        statistics=statistics,
    )


def _n_kept(drawn: Sequence[int], end_ids: set[int], pad_id: int | None) -> int:
    """Tokens up to the first end token, or before what is padding."""
    for i, token_id in enumerate(drawn):
        if token_id in end_ids:
            return i + 1
        if token_id < 0:
            return i
    kept = len(drawn)
    while kept and drawn[kept - 1] == pad_id:
        kept -= 1
    return kept


def _statistics(arrays: _Arrays, row: int, ids: Sequence[int], tally: Tally) -> TokenStatistics | None:
    """Everything that follows from whole distributions; None without them."""
    if arrays.logits is None and arrays.scores is None:
        return None
    from toolkit.generation.statistics import Distribution, token_statistics

    wanted = np.array(ids, np.int32)
    raw = arrays.logits if arrays.logits is not None else arrays.scores
    assert raw is not None
    if not len(ids):
        return TokenStatistics.empty()
    if max(ids) >= raw.shape[2]:
        fail(f"row {row}: token id {max(ids)} is past the {raw.shape[2]} scores of a token")
    found = token_statistics(
        Distribution.of(np.ascontiguousarray(raw[: len(ids), row])), wanted, _N_ALTERNATIVES
    )
    if arrays.scores is not None:
        scores = Distribution.of(np.ascontiguousarray(arrays.scores[: len(ids), row]), moments=False)
        drawn = scores.log_probability(wanted).astype(np.float32)
        found = found._replace(sampling_logprob=drawn)
    if arrays.logits is None:
        tally.add(SCORED, arrays.where, len(ids))
    return found


def _token_texts(arrays: _Arrays, row: int, kept: int) -> Sequence[str | None]:
    values = arrays.values.get("tokens")
    if values is None:
        return [None] * kept
    rows = _two_axes(values, "tokens")
    if len(rows) != len(arrays.rows):
        fail(f"tokens has {len(rows)} rows, and there are {len(arrays.rows)} sequences")
    own = list_of(_plain(rows[row]), "tokens")
    if len(own) < kept:
        fail(f"row {row}: {len(own)} tokens, and {kept} ids were drawn; tokens has a text for each")
    return [text_of(one, "tokens") for one in own[:kept]]


def _prompt(arrays: _Arrays, row: int, before: Sequence[int]) -> GivenPrompt:
    """The prompt of a row: its text or ids where they are given, else what comes before the scores."""
    ids = [token_id for token_id in before if token_id >= 0 and token_id != arrays.pad_id]
    text = arrays.text("prompts", row) or ""
    given = arrays.text("prompt_ids", row)
    reference = arrays.text("references", row)
    named = given if given is not None else text_id(text or " ".join(map(str, ids)))
    if given is None and not text and not ids:
        named = f"{source_name(arrays.where).rpartition('/')[2]}/{row}"
    prompt = GivenPrompt(prompt_id(named, "prompt_ids"), text, token_ids=ids)
    return prompt if reference is None else replace(prompt, reference=[reference])


def _two_axes(value: Any, name: str) -> Sequence[Any]:
    """Rows; one row that is given alone is one of one."""
    rows = _plain(value) if isinstance(value, np.ndarray) and value.ndim < 2 else value
    rows = list(rows) if isinstance(rows, np.ndarray) else list_of(rows, name)
    return rows if len(rows) and isinstance(rows[0], list | np.ndarray) else [rows]


def _ids(row: Any) -> list[int]:
    """Token ids; what is negative is padding."""
    values = list_of(_plain(row), "sequences")
    return [one if type(one) is int and one < 0 else id_of(one, "sequences") or 0 for one in values]


def _numbers(value: Any) -> list[Any]:
    """A number, or several, as a list."""
    plain = _plain(value)
    values = [] if plain is None else plain if isinstance(plain, list) else [plain]
    if not all(isinstance(one, int | float) for one in values):
        fail(f"{json.dumps(values)[:40]} is no number")
    return values


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
