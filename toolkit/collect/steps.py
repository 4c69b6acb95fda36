"""A model and plans to steps with text: makes the engine and the beam search that the settings ask for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from toolkit.alignment import align
from toolkit.collect.continuations import TextFollower, TextStep
from toolkit.collect.settings import Settings
from toolkit.collect.watching import watch_of
from toolkit.generation.backend import choose_batch, choose_statistics
from toolkit.generation.beam import BeamSearch
from toolkit.generation.engine import Batch, Chooser, Engine, FinishedSequence, Limits, Step
from toolkit.generation.forward import Forward
from toolkit.generation.plans import PromptPlan
from toolkit.generation.processing import Chain, LogitsProcessor, LogitsProcessors, Processing
from toolkit.generation.row_limits import FixedRows, GrowingRows, RowLimit
from toolkit.generation.row_memory import SHARE, most_rows
from toolkit.generation.sampling import Sampler
from toolkit.generation.scoring import Scorer
from toolkit.generation.watching import NO_WATCH, Watch
from toolkit.models import Model
from toolkit.models.blas_threads import BlasThreads
from toolkit.records import SequenceRecord, TokenStatistics

BEAM_ROWS = 64  # of a beam search whose batch size is not given


@dataclass(frozen=True)
class Hooks:
    """What a user passes in from Python: MLX-LM's own kinds of functions."""

    sampler: Chooser | None = None
    logits_processors: Sequence[LogitsProcessor] = ()
    constraint: Processing | None = None


class Generator:
    """Generates sequences with one model and one set of settings.

    Parameters
    ----------
    model : as loaded
    settings : how to draw
    batch_size : sequences at once; as many as make it quicker and memory allows if None
    share : of the free memory that the running sequences may take
    hooks : a user's sampler, processors and constraint
    """

    def __init__(
        self,
        model: Model,
        settings: Settings,
        batch_size: int | None = None,
        hooks: Hooks = Hooks(),
        share: float = SHARE,
    ) -> None:
        self.model = model = model.with_end_tokens(settings.extra_eos_tokens)
        self.settings = settings
        self.batch_size = batch_size
        self._hooks = hooks
        self._share = share
        self._threads = BlasThreads()
        self.forward, self.make_batch = prepared(model)
        self._processing = self._make_processing()
        self._watch = watch_of(model, settings.watch)

    def run(self, plans: Sequence[PromptPlan]) -> Iterator[TextStep]:
        """Steps of the sequences that the plans name: samples and greedy ones side by side, then beams."""
        drawn = [_only(plan, beams=False) for plan in plans]
        searched = [_only(plan, beams=True) for plan in plans]
        self._threads.check()
        for part in (
            self._sample([plan for plan in drawn if plan.sequences]),
            self._search([plan for plan in searched if plan.sequences]),
        ):
            for step in part:
                yield step
                self._threads.check()

    def _sample(self, plans: Sequence[PromptPlan]) -> Iterator[TextStep]:
        if not plans:
            return
        settings = self.settings
        follower = TextFollower(self.model.token_bytes, settings.stop, settings.seed)
        limit = self._row_limit(plans)
        engine = Engine(
            self.make_batch(limit.most),
            choose_statistics(settings.sampler, settings.top_logprobs),
            settings.sampler,
            self._limits(),
            seed=settings.seed,
            slots=limit,
            watcher=follower,
            processing=self._processing,
            chooser=self._hooks.sampler,
            watch=self._watch,
        )
        yield from follower.follow(engine.run(plans))

    def _search(self, plans: Sequence[PromptPlan]) -> Iterator[TextStep]:
        if not plans or self.settings.beam is None:
            return
        slots = max(self.batch_size or BEAM_ROWS, self.settings.beam.beams)
        search = BeamSearch(
            self.make_batch(slots),
            choose_statistics(self.settings.sampler, self.settings.top_logprobs),
            self.settings.beam,
            self._limits(),
            slots=slots,
            processing=self._processing,
            watch=self._watch,
        )
        for group in search.run(plans):
            step = Step([], np.empty(0, np.int32), TokenStatistics.empty(), group)
            yield TextStep(step, [], [self._beam_record(sequence) for sequence in group])

    def _row_limit(self, plans: Sequence[PromptPlan]) -> RowLimit:
        if self.batch_size is not None:
            return FixedRows(self.batch_size)
        longest = max(len(plan.token_ids) for plan in plans) + self.settings.max_tokens
        wanted = sum(len(plan.sequences) for plan in plans)
        return GrowingRows(min(wanted, most_rows(self.forward.network, longest, self._share)))

    def _limits(self) -> Limits:
        return Limits(self.settings.max_tokens, self.model.end_ids, self.model.context_length)

    def _beam_record(self, sequence: FinishedSequence) -> SequenceRecord:
        ids = sequence.token_ids
        pieces = self.model.token_bytes.pieces(ids.tolist())
        return SequenceRecord(
            prompt_id=sequence.prompt_id,
            kind="beam",
            sample_index=sequence.sample_index,
            token_ids=ids,
            statistics=sequence.statistics,
            alignment=align(pieces),
            has_end=sequence.has_end,
            finish_reason=sequence.finish_reason,
            stop_reason=self.model.token_bytes.literal(int(ids[-1]))
            if sequence.has_end
            else sequence.stop_reason,
            beam_score=sequence.beam_score,
        )

    def _make_processing(self) -> Processing | None:
        parts: list[Processing] = []
        if self._hooks.logits_processors:
            parts.append(LogitsProcessors(self._hooks.logits_processors))
        if self._hooks.constraint is not None:
            parts.append(self._hooks.constraint)
        if (constraint := self.settings.constraint) is not None:
            from toolkit.generation.grammar import json_grammar, regex_grammar

            make: Any = regex_grammar if constraint.regex is not None else json_grammar
            text = constraint.regex if constraint.regex is not None else constraint.json_schema
            parts.append(make(text, self.model.tokenizer, self.model.end_ids))
        if len(parts) > 1:
            return Chain(parts)
        return parts[0] if parts else None


_PREPARED: WeakKeyDictionary[Model, tuple[Forward, Callable[[int], Batch]]] = WeakKeyDictionary()


def prepared(model: Model) -> tuple[Forward, Callable[[int], Batch]]:
    """A model's forward pass and batch class, found by trial once a model."""
    if model not in _PREPARED:
        forward = Forward(model.network)
        _PREPARED[model] = forward, choose_batch(forward)
    return _PREPARED[model]


def make_scorer(model: Model, top_logprobs: int, watch: Watch = NO_WATCH) -> Scorer:
    """A scorer of given tokens, with so many alternatives a token, and with watched tokens."""
    _, make_batch = prepared(model)
    return Scorer(make_batch(1), choose_statistics(Sampler(), top_logprobs), watch)


def _only(plan: PromptPlan, *, beams: bool) -> PromptPlan:
    return plan._replace(sequences=[one for one in plan.sequences if (one[0] == "beam") == beams])
