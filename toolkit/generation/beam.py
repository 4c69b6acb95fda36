"""Beam search over the batch and statistics that sampling uses too. Knows token ids only.

A prompt expands from one row. After each step the caches and the recorded tokens follow the ancestors, so that
every hypothesis has its own tokens' log-probabilities; finished ones go to a pool.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.errors import ToolkitError, argument
from toolkit.generation.beam_settings import BeamSettings
from toolkit.generation.beam_step import Candidates, best_candidates, best_possible, score
from toolkit.generation.buffer import TokenBuffer
from toolkit.generation.engine import (
    NOT_FINITE_OR_FORBIDDEN,
    Batch,
    FinishedSequence,
    Limits,
    Statistics,
)
from toolkit.generation.plans import PromptPlan
from toolkit.generation.processing import NoProcessing, Processing
from toolkit.generation.watching import NO_WATCH, Watch
from toolkit.records import FinishReason, TokenStatistics


class Hypothesis(NamedTuple):
    """A finished hypothesis and its score."""

    sequence: FinishedSequence
    score: float


@dataclass(eq=False)
class _Beam:
    """A live beam; its row in the batch is its place in the list of all live beams."""

    slot: int
    last: int
    total: float
    state: Any  # of the processing


@dataclass(eq=False)
class _Group:
    """The beams of one prompt."""

    plan: PromptPlan
    n: int = 0  # tokens so far
    live: list[_Beam] = field(default_factory=list)
    pool: list[Hypothesis] = field(default_factory=list)


class BeamSearch:
    """Searches the most likely continuations of many prompts in one running batch.

    Parameters
    ----------
    batch : the caches
    statistics : describes the tokens
    settings : of the search
    limits : when a hypothesis ends
    slots : rows at once; at least `settings.beams`
    processing : changes logits, with a state a beam
    watch : tokens that are described however unlikely they are
    """

    def __init__(
        self,
        batch: Batch,
        statistics: Statistics,
        settings: BeamSettings,
        limits: Limits,
        *,
        slots: int,
        processing: Processing | None = None,
        watch: Watch = NO_WATCH,
    ) -> None:
        if slots < settings.beams:
            raise ToolkitError(
                f"{argument('batch_size')}: {slots} rows cannot hold {settings.beams} beams; "
                f"use {settings.beams} or more"
            )
        self._batch = batch
        self._statistics = statistics
        self._settings = settings
        self._limits = limits
        self._slots = slots
        self._processing = processing or NoProcessing()
        self._watch = watch
        # A prompt's candidates are recorded before their parents' slots are free again.
        self._n_candidates = settings.beams * (1 + len(limits.end_ids))
        self._buffer = TokenBuffer(slots + self._n_candidates)
        self._free = list(range(slots + self._n_candidates))
        self._groups: list[_Group] = []

    def run(self, plans: Iterable[PromptPlan]) -> Iterator[list[FinishedSequence]]:
        """The hypotheses of one prompt after another, best first: kind "beam", sample_index the place."""
        waiting = iter(plans)
        yield from self._fill(waiting)
        while self._groups:
            logits = self._batch.step([beam.last for group in self._groups for beam in group.live])
            start, kept = 0, []
            for group in self._groups:
                rows = np.arange(start, start + len(group.live))
                start += len(rows)
                kept += self._advance(group, logits, rows)
            self._batch.select(kept)
            yield from self._fill(waiting)

    def _fill(self, waiting: Iterator[PromptPlan]) -> Iterator[list[FinishedSequence]]:
        """Give back the groups that are done; begin waiting prompts where there is room."""
        for group in [group for group in self._groups if not group.live]:
            yield self._results(group)
        self._groups = [group for group in self._groups if group.live]
        while len(self._groups) < self._slots // self._settings.beams:
            plan = next(waiting, None)
            if plan is None:
                return
            group = self._begin(plan)
            if group.live:
                self._groups.append(group)
            else:
                yield self._results(group)

    def _begin(self, plan: PromptPlan) -> _Group:
        prompt, logits = self._batch.prefill(plan.token_ids)
        group = _Group(plan)
        group.live = [_Beam(self._free.pop(), -1, 0.0, self._processing.begin(plan.token_ids))]
        ancestors = self._advance(group, logits, np.zeros(1, np.intp))
        self._batch.admit([prompt] * len(ancestors))
        return group

    def _advance(self, group: _Group, logits: Any, rows: NDArray[np.intp]) -> list[int]:
        """Choose the group's next beams; the rows of their ancestors, in the beams' order."""
        own = self._batch.take(logits, rows)
        changed = self._processing.apply([beam.state for beam in group.live], own)
        logprobs = self._batch.logprobs(own, changed)
        if np.isnan(logprobs).any():
            return self._fail(group)
        totals = [beam.total for beam in group.live]
        # Every beam may end, with each end token; so many candidates still leave enough that go on.
        found = best_candidates(logprobs, totals, self._n_candidates)
        return self._take(group, own, changed, rows, self._chosen(group, found))

    def _chosen(self, group: _Group, found: Candidates) -> list[tuple[int, int, float, FinishReason | None]]:
        """(beam, token, total, why it ends or None) of the candidates that are taken, best first."""
        context = self._limits.context_length
        n = group.n + 1
        at_limit: FinishReason | None = None
        if n >= self._limits.max_tokens:
            at_limit = "length"
        elif context is not None and len(group.plan.token_ids) + n >= context:
            at_limit = "context"
        chosen: list[tuple[int, int, float, FinishReason | None]] = []
        n_live = 0
        for beam, token, total in zip(*(column.tolist() for column in found), strict=True):
            ends: FinishReason | None = "stop" if token in self._limits.end_ids else at_limit
            if n_live == self._settings.beams:
                break
            n_live += token not in self._limits.end_ids
            chosen.append((beam, token, total, ends))
        return chosen

    def _take(
        self,
        group: _Group,
        logits: Any,
        changed: Any,
        rows: NDArray[np.intp],
        chosen: list[tuple[int, int, float, FinishReason | None]],
    ) -> list[int]:
        """Record the chosen tokens under their ancestors; pool those that end."""
        if not chosen:
            return self._fail(group)
        parents = np.array([beam for beam, *_ in chosen], np.intp)
        token_ids = np.array([token for _, token, *_ in chosen], np.int32)
        given = self._watch.given(group.n)
        if changed is not None:
            given["constrained_logits"] = self._batch.take(changed, parents)
        n = len(chosen)
        _, statistics = self._statistics(
            self._batch.take(logits, parents), np.zeros(n), np.zeros(n, bool), forced_ids=token_ids, **given
        )
        slots = np.array([self._free.pop() for _ in chosen], np.intp)
        if group.n:
            self._buffer.copy_slots(np.array([group.live[p].slot for p in parents], np.intp), slots, group.n)
        self._buffer.write(slots, np.full(n, group.n, np.intp), token_ids, self._watch.fill(statistics))
        self._free += [beam.slot for beam in group.live]
        old, group.live = group.live, []
        group.n += 1
        ancestors = []
        for (parent, token, total, ends), slot in zip(chosen, slots.tolist(), strict=True):
            if ends is None:
                state = self._processing.follow(old[parent].state, token)
                group.live.append(_Beam(slot, token, total, state))
                ancestors.append(int(rows[parent]))
            else:
                self._pool(group, slot, total, ends)
        if self._is_done(group):
            self._free += [beam.slot for beam in group.live]
            group.live, ancestors = [], []
        return ancestors

    def _pool(self, group: _Group, slot: int, total: float, ends: FinishReason) -> None:
        token_ids, statistics = self._buffer.read(slot, group.n)
        self._free.append(slot)
        reached = score(total, group.n, self._settings.length_penalty)
        sequence = FinishedSequence(
            group.plan.prompt_id, "beam", -1, token_ids, statistics, ends == "stop", ends, None
        )
        group.pool.append(Hypothesis(sequence, reached))
        group.pool.sort(key=lambda hypothesis: -hypothesis.score)  # stable: of equals the first found
        del group.pool[self._settings.beams :]

    def _is_done(self, group: _Group) -> bool:
        if not group.live:
            return True
        if len(group.pool) < self._settings.beams:
            return False
        if self._settings.early_stopping or self._settings.beams == 1:
            return True
        best = max(
            best_possible(beam.total, group.n, self._limits.max_tokens, self._settings.length_penalty)
            for beam in group.live
        )
        return best <= group.pool[-1].score

    def _fail(self, group: _Group) -> list[int]:
        """End a group whose logits are not finite, or whose processing allows nothing: what is pooled stays."""
        for beam in group.live:
            self._free.append(beam.slot)
        group.live = []
        if not group.pool:
            reason = NOT_FINITE_OR_FORBIDDEN
            nothing = (np.empty(0, np.int32), TokenStatistics.empty())
            failed = FinishedSequence(group.plan.prompt_id, "beam", -1, *nothing, False, "error", reason)
            group.pool = [Hypothesis(failed, -np.inf)]
        return []

    def _results(self, group: _Group) -> list[FinishedSequence]:
        kept: Sequence[Hypothesis] = group.pool[: self._settings.wanted]
        return [
            hypothesis.sequence._replace(sample_index=place, beam_score=hypothesis.score)
            for place, hypothesis in enumerate(kept)
        ]
