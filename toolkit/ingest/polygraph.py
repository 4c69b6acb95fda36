"""Statistics that LM-Polygraph saved (`UEManager.save`), or a dictionary of them as JSON, or as a pickle.

Read are, of `stats`: input_texts and target_texts; greedy_texts, greedy_tokens, greedy_log_likelihoods,
greedy_log_probs and greedy_tokens_alternatives; sample_texts, sample_tokens and sample_log_likelihoods, a list a
prompt each. Nothing is unpickled: see `plain_pickle`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import nan
from pathlib import Path
from typing import Any

import numpy as np

from toolkit.collect.json_lines import fail, located, source_name
from toolkit.ingest.given import Given, GivenPrompt, Items, Likely, Position, Tally, Token
from toolkit.ingest.plain_pickle import read_plain
from toolkit.ingest.reading import read_objects
from toolkit.ingest.requests import prompt_id
from toolkit.ingest.values import found_fields, id_of, ids_of, list_of, logprob_of, text_of
from toolkit.records import Kind

EXPECTED = "stats with greedy_tokens and greedy_log_likelihoods, or sample_tokens and sample_log_likelihoods"
_HOW = "save them too (save_stats of UEManager)"


def read(path: Path, tally: Tally) -> Items:
    """The greedy answers, then the samples, of each prompt.

    Raises
    ------
    ToolkitError
        The file is neither, holds something that is not plain, or lacks ids or log-probabilities.
    """
    where = source_name(path)
    data = _json(path) if _is_json(path) else read_plain(path)
    with located(where):
        if not isinstance(data, dict):
            fail(f"holds a {type(data).__name__}; expected {EXPECTED}")
        stats = data.get("stats", data)
        if not isinstance(stats, dict):
            fail(f"its stats are a {type(stats).__name__}; expected {EXPECTED}")
        yield from _Stats(stats, where, tally).continuations()


def _is_json(path: Path) -> bool:
    with open(path, "rb") as stream:
        return stream.read(64).lstrip()[:1] in (b"{", b"[")


def _json(path: Path) -> Mapping[str, Any]:
    return next(iter(read_objects(path))).value


class _Stats:
    """The statistics of all prompts, by name."""

    def __init__(self, stats: Mapping[str, Any], where: str, tally: Tally) -> None:
        self._stats, self._where, self._tally = stats, where, tally

    def continuations(self) -> Iterator[Given]:
        has = {kind: f"{kind}_tokens" in self._stats for kind in ("greedy", "sample")}
        scored = [kind for kind in has if has[kind] and self._has_scores(kind)]
        if not scored:
            if any(has.values()):
                fail(f"stats without log-probabilities of tokens; expected {EXPECTED}; {_HOW}")
            fail(f"expected {EXPECTED}, and found {found_fields(self._stats)}")
        n = len(list_of(_plain(self._stats[f"{scored[0]}_tokens"]), f"{scored[0]}_tokens"))
        for index in range(n):
            prompt = self._prompt(index)
            if "greedy" in scored:
                yield self._one("greedy", prompt, index)
            for sample in range(self._n_samples(index) if "sample" in scored else 0):
                yield self._one("sample", prompt, index, sample)

    def _has_scores(self, kind: str) -> bool:
        return f"{kind}_log_likelihoods" in self._stats or f"{kind}_log_probs" in self._stats

    def _n_samples(self, index: int) -> int:
        return len(list_of(self._at("sample_tokens", index), "sample_tokens"))

    def _prompt(self, index: int) -> GivenPrompt:
        text = self._text("input_texts", index) or ""
        targets = self._at("target_texts", index)
        references = targets if isinstance(targets, list) else [] if targets is None else [targets]
        metadata = {"input_index": index}
        shown = [text_of(one, "target_texts") for one in references]
        return GivenPrompt(
            prompt_id(f"{index:06d}", "id"),
            text,
            reference=[one for one in shown if one.strip()],
            metadata=metadata,
        )

    def _one(self, kind: Kind, prompt: GivenPrompt, *place: int) -> Given:
        ids = ids_of(self._at(f"{kind}_tokens", *place), f"{kind}_tokens")
        text = self._text(f"{kind}_texts", *place)
        return Given(
            where=f"{self._where}, {kind} {'.'.join(map(str, place))}",
            prompt=prompt,
            positions=self._positions(kind, ids, *place),
            text=text,
            finish_reason="stop",
            kind=kind,
            may_append=False,
        )

    def _positions(self, kind: str, ids: Sequence[int], *place: int) -> list[Position]:
        values = self._logprobs(kind, ids, *place)
        listed = f"{kind}_tokens_alternatives"
        likely = list_of(self._at(listed, *place) or [], listed)
        name = f"{kind}_log_likelihoods"
        if len(values) != len(ids):
            fail(f"{name}[{place[0]}] has {len(values)} numbers for {len(ids)} tokens; they must be as many")
        if likely and len(likely) != len(ids):
            fail(f"{listed}[{place[0]}] has {len(likely)} lists for {len(ids)} tokens")
        lists = likely or [()] * len(ids)
        return [
            Position(Token(id=own), value, likely=tuple(map(self._likely, list_of(some, listed))))
            for own, value, some in zip(ids, values, lists, strict=True)
        ]

    def _logprobs(self, kind: str, ids: Sequence[int], *place: int) -> list[float]:
        """Of the tokens, or taken from whole distributions where only those are there."""
        name = f"{kind}_log_likelihoods"
        values = self._at(name, *place)
        if values is None:
            name = f"{kind}_log_probs"
            whole = self._at(name, *place)
            rows = np.asarray(whole, np.float64)
            if rows.ndim != 2 or len(rows) != len(ids) or (ids and max(ids) >= rows.shape[1]):
                fail(f"{name}[{place[0]}] has the shape {rows.shape}; it is (tokens, vocabulary)")
            values = rows[np.arange(len(ids)), list(ids)].tolist()
        return [self._logprob(one, name) for one in list_of(values, name)]

    def _logprob(self, value: Any, name: str) -> float:
        return nan if value is None else logprob_of(value, name, self._tally, self._where)

    def _likely(self, pair: Any) -> Likely:
        name = "greedy_tokens_alternatives"
        both = list_of(_plain(pair), name)
        if len(both) != 2:
            fail(f"{name} has a list of {len(both)}; use pairs of a token id and a log-probability")
        return Likely(Token(id=id_of(both[0], name)), self._logprob(both[1], name))

    def _text(self, name: str, *place: int) -> str | None:
        value = self._at(name, *place)
        return None if value is None else text_of(value, name)

    def _at(self, name: str, *place: int) -> Any:
        """What a statistic says of a prompt (and a sample); None where it is not saved."""
        value = _plain(self._stats.get(name))
        for index in place:
            if value is None:
                return None
            values = list_of(value, name)
            if index >= len(values):
                fail(f"{name} has {len(values)} entries, and others more; they must be as many")
            value = _plain(values[index])
        return value


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value
