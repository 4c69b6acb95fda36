"""Given continuations as records: tokens laid over bytes, statistics with what is not given as NaN."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import count
from math import inf, isnan, nan
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.alignment import align
from toolkit.collect.json_lines import fail, located
from toolkit.errors import ToolkitError
from toolkit.ingest.given import Given, GivenPrompt, Likely, Position, Tally, Token
from toolkit.ingest.pieces import Laid, lay
from toolkit.ingest.vocabulary import Vocabulary
from toolkit.records import PromptRecord, SequenceRecord, TokenStatistics, unwatched
from toolkit.store import PromptTokens
from toolkit.store.rules import ROUNDING

GUESSED, UNLIKE, UNRANKED = "guessed", "unlike", "unranked"


class _How(NamedTuple):
    """How the tokens of a continuation that stand in no text are read."""

    where: str
    special: bool  # one without bytes is special
    blank: bool  # one of which the id alone is known has no bytes, since the whole text is known


class Builder:
    """Makes records of what a source gives, in its order.

    Parameters
    ----------
    vocabulary : Vocabulary
    tally : Tally
        Counts what is told at the end.
    """

    def __init__(self, vocabulary: Vocabulary, tally: Tally) -> None:
        self.vocabulary = vocabulary
        self.tally = tally
        self._next: Counter[tuple[str, str]] = Counter()
        self._where: dict[tuple[str, str, int], str] = {}

    def sequence(self, given: Given) -> SequenceRecord:
        """The record of a continuation.

        Raises
        ------
        ToolkitError
            A token has no log-probability, or the place of the sequence is taken; it names file and line.
        """
        with located(given.where):
            return self._sequence(given)

    def prompt_tokens(self, prompt: GivenPrompt, where: str) -> PromptTokens:
        """The prompt's own tokens, which it has positions of."""
        tokens = [self.vocabulary.known(one.token) for one in prompt.positions]
        laid = lay(tokens, prompt.text or None, self.vocabulary.is_exact)
        ids = self._ids(tokens, laid)
        how = _How(where, self.vocabulary.is_exact, bool(prompt.text))
        statistics = self._statistics(prompt.positions, ids, how)
        return PromptTokens(prompt.id, ids, laid.pieces, statistics)

    def _sequence(self, given: Given) -> SequenceRecord:
        tokens = [self.vocabulary.known(one.token) for one in given.positions]
        how = _How(given.where, given.null_is_special or self.vocabulary.is_exact, given.text is not None)
        laid = self._laid(given, tokens, how.special)
        ids = self._ids(tokens, laid)
        positions = given.positions if not given.may_append else _without_appended(given)
        statistics = given.statistics
        if statistics is None:
            statistics = self._statistics(positions, ids, how)
        else:
            self._name_alternatives(statistics, how)
        self._check_known(statistics)
        ends = bool(laid.pieces) and laid.pieces[-1] is None
        has_end = ends and (given.finish_reason == "stop" if given.has_end is None else given.has_end)
        stop_reason = given.stop_reason
        if has_end and stop_reason is None and given.has_end is None:
            stop_reason = self.vocabulary.entries[int(ids[-1])].literal
        return SequenceRecord(
            prompt_id=given.prompt.id,
            kind=given.kind,
            sample_index=self._index(given),
            token_ids=ids,
            statistics=statistics,
            alignment=align(laid.pieces, laid.n_bytes),
            has_end=has_end,
            finish_reason=given.finish_reason,
            stop_reason=stop_reason,
            beam_score=given.beam_score,
            seed=given.seed,
        )

    def _laid(self, given: Given, tokens: Sequence[Token], special: bool) -> Laid:
        laid = lay(tokens, given.text, special)
        if given.n_bytes is not None:
            total = sum(len(piece or b"") for piece in laid.pieces)
            laid = laid._replace(n_bytes=min(given.n_bytes, total))
        self.tally.add(GUESSED, given.where, laid.n_guessed)
        self.tally.add(UNLIKE, given.where, not laid.fits)
        return laid

    def _ids(self, tokens: Sequence[Token], laid: Laid) -> NDArray[np.int32]:
        pairs = zip(tokens, laid.pieces, strict=True)
        return np.array([self.vocabulary.add(token, piece) for token, piece in pairs], np.int32)

    def _index(self, given: Given) -> int:
        """The sequence's number: the one it has, else the next of its prompt and kind."""
        group = (given.prompt.id, given.kind)
        indices = count(self._next[group]) if given.sample_index is None else [given.sample_index]
        for index in indices:
            key = (*group, index)
            if key not in self._where:
                self._where[key] = given.where
                self._next[group] = max(self._next[group], index + (given.sample_index is None))
                return index
            if given.sample_index is not None:
                fail(
                    f"sequence {index} ({given.kind}) of prompt {given.prompt.id!r} is there already, from "
                    f"{self._where[key]}; give the responses of one run"
                )
        raise AssertionError("a count has no end")

    def _check_known(self, statistics: TokenStatistics) -> None:
        unknown = np.flatnonzero(np.isnan(statistics.logprob))
        if len(unknown):
            fail(f"token {unknown[0]} has no log-probability; ask for those of every token")

    def _name_alternatives(self, statistics: TokenStatistics, how: _How) -> None:
        """Give the alternatives of whole distributions, which are ids, their entries."""
        finite = np.isfinite(statistics.alternative_logprobs)
        for token_id in np.unique(statistics.alternative_ids[finite]).tolist():
            self.vocabulary.add_alone(Token(id=token_id), how.special, how.blank)

    def _statistics(
        self, positions: Sequence[Position], ids: NDArray[np.int32], how: _How
    ) -> TokenStatistics:
        """What was given of each token; everything else is NaN, and 0 where it is a whole number."""
        n, width = len(positions), max((len(one.likely) for one in positions), default=0)
        missing = np.full(n, nan, np.float32)
        columns = {name: missing for name in TokenStatistics._fields}
        found = TokenStatistics(**columns)._replace(  # type: ignore[arg-type]
            logprob=np.array([one.logprob for one in positions], np.float32),
            sampling_logprob=np.array([one.sampling_logprob for one in positions], np.float32),
            rank=np.zeros(n, np.int32),
            n_finite=np.zeros(n, np.int32),
            top1_logprob=missing.copy(),
            top2_logprob=missing.copy(),
            alternative_ids=np.full((n, width), -1, np.int32),
            alternative_logprobs=np.full((n, width), -inf, np.float32),
            **unwatched(n),
        )
        for i, position in enumerate(positions):
            self._fill(found, i, position, int(ids[i]), how)
        return found

    def _fill(self, found: TokenStatistics, i: int, position: Position, own: int, how: _How) -> None:
        """The likely tokens of a position, sorted, and what follows from them."""
        listed = [
            (self._same(token, position.token, own, how), value)
            for token, value in position.likely
            if not isnan(value)
        ]
        listed.sort(key=lambda pair: -pair[1])
        values = np.array([value for _, value in listed], np.float32)
        token_ids = [token_id for token_id, _ in listed]
        found.alternative_ids[i, : len(listed)] = token_ids
        found.alternative_logprobs[i, : len(listed)] = values
        if isnan(found.logprob[i]) and own in token_ids:
            found.logprob[i] = values[token_ids.index(own)]
        if position.rank:
            found.rank[i] = position.rank
        elif own in token_ids:
            found.rank[i] = 1 + int((values > found.logprob[i]).sum())
        if not listed:
            return
        if found.logprob[i] > values[0] + ROUNDING:  # likelier than all of them: they are not the likeliest
            found.rank[i] = position.rank
            self.tally.add(UNRANKED, how.where)
            return
        found.top1_logprob[i] = values[0]
        if len(listed) > 1:
            found.top2_logprob[i] = values[1]

    def _same(self, token: Token, drawn: Token, own: int, how: _How) -> int:
        """The id of a likely token: that of the drawn one, where they are the same."""
        if token.is_same(drawn):
            return own
        return self.vocabulary.add_alone(token, how.special, how.blank)


def prompt_record(prompt: GivenPrompt, index: int) -> PromptRecord:
    """The record of a prompt."""
    return PromptRecord(
        prompt_id=prompt.id,
        prompt_index=index if prompt.index is None else prompt.index,
        text=prompt.text,
        token_ids=np.array(prompt.token_ids, np.int32),
        messages=prompt.messages,
        reference=prompt.reference,
        metadata=prompt.metadata,
    )


def _without_appended(given: Given) -> list[Position]:
    """Lists of likely tokens without the token itself, where it was put there for being drawn, not for being likely.

    It is so where its rank is past the others; and where ranks are not given, where the list is longer than
    `n_likely` and it is the least likely one, or where it is all there is. What was asked for is taken from the
    shortest list where the source does not say it.
    """
    lengths = [len(one.likely) for one in given.positions if one.likely]
    asked = given.n_likely if given.n_likely is not None else min(lengths, default=0)
    alone = given.n_likely is None and max(lengths, default=0) <= 1
    return [one._replace(likely=_kept(one, 0 if alone else asked)) for one in given.positions]


def _kept(position: Position, asked: int) -> tuple[Likely, ...]:
    own = [one for one in position.likely if one.token.is_same(position.token)]
    others = tuple(one for one in position.likely if not one.token.is_same(position.token))
    if position.rank:
        is_appended = position.rank > len(others) + 1
    else:
        least = min((one.logprob for one in others), default=inf)
        is_appended = len(position.likely) > asked and bool(own) and own[0].logprob <= least
    return others if is_appended else position.likely


def check_one_model(models: dict[str, str]) -> str | None:
    """The name of the only model of a file; None where it names none.

    Parameters
    ----------
    models : dict of str to str
        Where each was named first.

    Raises
    ------
    ToolkitError
        There are two.
    """
    if len(models) > 1:
        (first, where), (second, other) = list(models.items())[:2]
        raise ToolkitError(
            f"{other} is of the model {second!r}, and {where} of {first!r}: a run holds one model; "
            "put each model's responses into a file of its own"
        )
    return next(iter(models), None)
