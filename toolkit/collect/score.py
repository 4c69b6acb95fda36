"""Given completions to rows: tokenises them, scores each after its prompt, and keeps them as a run.

A prompt is read once for all its completions. What is stored is not scored again, so a longer file goes on in
the same run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from toolkit.alignment import align
from toolkit.collect.collector import CommitLoop, Outcome, add_prompt_tokens, open_writer
from toolkit.collect.describe import make_manifest
from toolkit.collect.plan import Key, in_shard
from toolkit.collect.progress import Progress
from toolkit.collect.scoring_plans import ScoringPlan, check_stored
from toolkit.collect.settings import ScoreSettings
from toolkit.collect.steps import make_scorer, prepared
from toolkit.collect.watching import watch_of
from toolkit.generation.scoring import Scorer
from toolkit.models import Model
from toolkit.records import FinishReason, SequenceRecord, TokenStatistics
from toolkit.store import Manifest, open_run
from toolkit.store.lock import Shard

NOT_FINITE = "the model's logits are not finite"


@dataclass(frozen=True)
class ScoreWork:
    """A scoring that is about to begin."""

    model: Model
    settings: ScoreSettings
    plans: Sequence[ScoringPlan]  # all of the file, also those of other shards
    shard: Shard | None = None
    input_hash: str | None = None
    prompt_logprobs: bool = False  # also store the prompts' own tokens

    def mine(self) -> list[ScoringPlan]:
        """The plans of this shard: all completions of a prompt belong to one."""
        return [plan for plan in self.plans if in_shard(plan.prompt.prompt_id, self.shard)]


class Scored(NamedTuple):
    """A completion that was scored."""

    records: list[SequenceRecord]
    n_tokens: int


def score(
    work: ScoreWork,
    output: str | Path,
    *,
    resume: bool = True,
    overwrite: bool = False,
    progress: Callable[[int, int], Progress] | None = None,
) -> Outcome:
    """Score the completions of `work` that the run at `output` lacks.

    Parameters
    ----------
    work : what is wanted
    output : the run's folder; made if it is not there
    resume : go on with a run that is there; else it is refused
    overwrite : replace a run that is there
    progress : makes the progress display from (sequences in all, sequences done); none by default

    Raises
    ------
    ToolkitError
        The folder holds something else, a run with other settings, or another completion in the place of one of
        these, or another process writes there.
    """
    plans = work.mine()
    total = sum(len(plan.completions) for plan in plans)
    watch = watch_of(work.model, work.settings.watch)
    with open_writer(output, _manifest(work), work.shard, resume=resume, overwrite=overwrite) as writer:
        if writer.prompt_ids:
            check_stored(open_run(output), plans)
        writer.add_prompts(plan.prompt for plan in plans)
        missing = sum(len(lacking(plan, writer.keys)) for plan in plans)
        display = progress(total, total - missing) if progress is not None and missing else None
        scorer = make_scorer(work.model, work.settings.top_logprobs, watch)
        if work.prompt_logprobs:
            add_prompt_tokens(work.model, scorer, (plan.prompt for plan in plans), writer)
        steps = scored(work.model, scorer, plans, writer.keys)
        return CommitLoop(work.model, writer, display).collect(steps, total - missing)


def _manifest(work: ScoreWork) -> Manifest:
    forward, _ = prepared(work.model)
    return make_manifest(
        work.model,
        work.settings,
        {
            "n_prompts": len(work.plans),
            "n_scored": sum(len(plan.completions) for plan in work.plans),
            "shard": None if work.shard is None else str(work.shard),
        },
        logits_dtype=forward.logits_dtype,
        prompt_file_hash=work.input_hash,
    )


def lacking(plan: ScoringPlan, stored: Collection[Key]) -> list[int]:
    """The sample indices of the completions that are not stored."""
    return [i for i in range(len(plan.completions)) if (plan.prompt.prompt_id, "scored", i) not in stored]


def scored(
    model: Model, scorer: Scorer, plans: Sequence[ScoringPlan], stored: Collection[Key] = ()
) -> Iterator[Scored]:
    """The completions that are not stored, one after another, a prompt's together."""
    for plan in plans:
        indices = lacking(plan, stored)
        if not indices:
            continue
        completions = [plan.completions[i].tolist() for i in indices]
        statistics = scorer.continuations(plan.prompt.token_ids.tolist(), completions)
        for index, found in zip(indices, statistics, strict=True):
            record = _record(model, plan, index, found)
            yield Scored([record], len(record.token_ids))


def _record(model: Model, plan: ScoringPlan, index: int, statistics: TokenStatistics) -> SequenceRecord:
    token_ids = plan.completions[index]
    known = np.isfinite(statistics.logprob) | np.isneginf(statistics.logprob)
    kept = len(known) if known.all() else int(known.argmin())
    ends = kept == len(known) and int(token_ids[-1]) in model.end_ids
    finish_reason: FinishReason = "error" if kept < len(known) else "stop" if ends else "length"
    stop_reason = NOT_FINITE if finish_reason == "error" else None
    return SequenceRecord(
        prompt_id=plan.prompt.prompt_id,
        kind="scored",
        sample_index=index,
        token_ids=token_ids[:kept],
        statistics=statistics.rows(slice(0, kept)),
        alignment=align(model.token_bytes.pieces(token_ids[:kept])),
        has_end=ends,
        finish_reason=finish_reason,
        stop_reason=model.token_bytes.literal(int(token_ids[-1])) if ends else stop_reason,
    )
