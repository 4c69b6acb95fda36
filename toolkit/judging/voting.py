"""Votes of a run's samples: accuracy against the number of samples, and what stopping early would have saved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from toolkit import stats
from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.parts import Part
from toolkit.aggregation.selection import KEY, Selection, read_blocks
from toolkit.aggregation.targets import sample_kind
from toolkit.aggregation.units import sequence_values
from toolkit.characters import count
from toolkit.errors import ToolkitError
from toolkit.judging.evaluation import kinds_of, outcomes_of, part_of
from toolkit.stats import Estimator, Ranges
from toolkit.stats.bootstrap import intervals, mean_of
from toolkit.stats.distributions import token_topk_nll
from toolkit.stats.ranges import Floats
from toolkit.stats.stopping import EarlyStopping, replay_early_stopping
from toolkit.stats.subsets import majority_at_k, pass_at_k
from toolkit.stats.votes import (
    Rule,
    accuracy_by_samples,
    borda_vote,
    filtered_vote,
    weighted_vote,
)
from toolkit.store.grades import find_grades, grade_sets

if TYPE_CHECKING:
    from toolkit.store import Run
    from toolkit.store.keys import Key

RULES = ("majority", "weighted", "filtered", "borda")
PASS = "pass"  # at least one of k samples is right: what no vote can pass
_TOP = "top20_mean_logprob"


@dataclass(frozen=True)
class Election:
    """How samples vote.

    Attributes
    ----------
    grader : str, optional
        Whose grades; the only one there is by default.
    over : str or Part, optional
        Whose text says what a sample answers; as in `toolkit.question.Question`.
    comparison : Comparison
        What samples give the same answer.
    confidence : str
        The estimator that weighs a sample, at least 0 and rising with confidence.
    keep : float
        Share of the samples that a filtered vote keeps.
    p : float
        Exponent of the Borda vote, which ranks by self_certainty.
    max_subsets : int
        Subsets of k samples that are drawn where there are more.
    bootstrap, level, seed
        Of the intervals, over prompts, and of the subsets.
    """

    grader: str | None = None
    over: str | Part | None = None
    comparison: Comparison = field(default_factory=Comparison)
    confidence: str = "geometric_mean_prob"
    keep: float = 0.1
    p: float = 0.3
    max_subsets: int = 200
    bootstrap: int = 1000
    level: float = 0.95
    seed: int = 0

    @property
    def weight(self) -> Estimator:
        """The estimator that weighs.

        Raises
        ------
        ToolkitError
            It can be negative, or falls with confidence.
        """
        found = stats.get(self.confidence)
        if found.level != "token-span" or not found.higher_is_confident or found.range[0] < 0:
            fitting = [
                e.name for e in stats.estimators("token-span") if e.higher_is_confident and e.range[0] >= 0
            ]
            raise ToolkitError(
                f"confidence: {found.label} is no weight, which is at least 0 and rises with confidence: "
                f"give one of {', '.join(fitting)}"
            )
        return found


class _Ballot(NamedTuple):
    """The samples of a prompt, in the order drawn."""

    prompt: str
    keys: list[Key]
    classes: NDArray[np.int64]
    grades: Floats
    weights: Floats
    certainty: Floats


def vote_df(run: Run, election: Election, sizes: Sequence[int] | None = None) -> pd.DataFrame:
    """Accuracy of votes against the number of samples.

    Parameters
    ----------
    run : Run
        Graded already.
    election : Election
    sizes : sequence of int, optional
        Numbers of samples; 1, 2, 4, ... and all by default.

    Returns
    -------
    DataFrame
        rule, k, accuracy with low and high (bootstrap over prompts), n prompts, n_undefined. A prompt's
        accuracy is the mean over subsets of k of its samples, all of them where they are few. The rule `pass`
        is the chance that one of k samples is right. NaN where a prompt has fewer than k samples, or one that
        is not graded.

    Raises
    ------
    ToolkitError
        The run is not graded or has no samples, or a setting is out of range.
    """
    ballots = list(_ballots(run, election))
    most = max(len(ballot.grades) for ballot in ballots)
    wanted = list(sizes) if sizes is not None else _doubling(most)
    if any(k < 1 or k > most for k in wanted):
        raise ToolkitError(
            f"sizes: {', '.join(map(str, wanted))}: a prompt has at most {count(most, 'sample')}: "
            f"give 1 to {most}"
        )
    curves = {rule: np.array([_curve(rule, b, wanted, election) for b in ballots]) for rule in (*RULES, PASS)}
    prompts = np.array([ballot.prompt for ballot in ballots])
    rows = [
        {"rule": rule, "k": k, **_accuracy(values[:, i], prompts, election)}
        for rule, values in curves.items()
        for i, k in enumerate(wanted)
    ]
    return pd.DataFrame(rows)


def count_ungraded(run: Run, election: Election) -> tuple[int, int]:
    """Samples that are not graded, and all samples. A vote leaves out the prompts of the first."""
    grades = [np.asarray(ballot.grades, np.float64) for ballot in _ballots(run, election)]
    return sum(int(np.isnan(one).sum()) for one in grades), sum(len(one) for one in grades)


def early_stopping_df(
    run: Run,
    election: Election,
    *,
    percentiles: Sequence[float] = (10.0, 90.0),
    warmup: int = 16,
    window: int = 2048,
) -> pd.DataFrame:
    """What DeepConf's online rule would have cut from the samples of a run, and what that does to the vote.

    Parameters
    ----------
    run : Run
        Graded already.
    election : Election
        Samples weigh by their lowest window.
    percentiles : sequence of float
        Of the warm-up samples' lowest windows: where a later sample is cut. 10 is DeepConf-high, 90
        DeepConf-low.
    warmup : int
        First samples, drawn whole.
    window : int
        Tokens of a window; short answers never fill the published 2,048.

    Returns
    -------
    DataFrame
        A row a percentile: n_samples and n_cut; n_tokens as drawn and n_kept; saved, the share of the tokens;
        accuracy with low and high of the weighted vote of what is left, and accuracy_whole of all samples
        whole; n prompts and n_undefined.

    Raises
    ------
    ToolkitError
        As in `vote_df`, or an argument is out of range.
    """
    ballots = list(_ballots(run, election))
    tokens = _token_confidences(run, ballots)
    prompts = np.array([ballot.prompt for ballot in ballots])
    whole = [
        _weighted_grade(ballot, _replay(tokens, ballot, 0.0, len(ballot.keys), window)) for ballot in ballots
    ]
    rows = []
    for percentile in percentiles:
        replays = [_replay(tokens, ballot, percentile, warmup, window) for ballot in ballots]
        left = np.array([_weighted_grade(b, replay) for b, replay in zip(ballots, replays, strict=True)])
        n_tokens = sum(int(replay.n_tokens.sum()) for replay in replays)
        n_kept = sum(int(replay.n_kept.sum()) for replay in replays)
        rows.append(
            {
                "percentile": percentile,
                "warmup": warmup,
                "window": window,
                "n_samples": sum(len(replay.cut) for replay in replays),
                "n_cut": sum(int(replay.cut.sum()) for replay in replays),
                "n_tokens": n_tokens,
                "n_kept": n_kept,
                "saved": 1 - n_kept / n_tokens if n_tokens else np.nan,
                "accuracy_whole": float(np.mean(whole)),
                **_accuracy(left, prompts, election),
            }
        )
    return pd.DataFrame(rows)


def _ballots(run: Run, election: Election) -> Iterator[_Ballot]:
    sets = [one for one in grade_sets(run.path) if one.settings.get("by") is None]
    outcomes = outcomes_of(find_grades(sets, election.grader, str(run.path)))
    kind = sample_kind(kinds_of(run))
    if kind is None:
        raise ToolkitError(f"{run.path}: it has no samples to vote: collect some first")
    weight, certainty = election.weight, stats.get("self_certainty")
    part = part_of(run, election.over)
    values = sequence_values(run, part, list({e.label: e for e in (weight, certainty)}.values()), [kind])
    comparison = election.comparison.of_run(run, part)
    # Cut as arrays: a frame takes milliseconds to be cut, and there are many prompts.
    keys = list(values.rows[KEY].itertuples(index=False, name=None))
    texts = values.rows["text"].tolist()
    grades = np.array([outcomes.get(key, np.nan) for key in keys], np.float64)
    weights, certainties = (values.estimates[e.label].to_numpy(np.float64) for e in (weight, certainty))
    for prompt, places in values.rows.groupby("prompt_id", sort=True).indices.items():
        yield _Ballot(
            str(prompt),
            own := [keys[i] for i in places],
            comparison.classes([texts[i] for i in places], own),
            grades[places],
            weights[places],
            certainties[places],
        )


def _doubling(most: int) -> list[int]:
    sizes = [1 << i for i in range(most.bit_length()) if 1 << i <= most]
    return sizes if most in sizes else [*sizes, most]


def _curve(rule: str, ballot: _Ballot, sizes: Sequence[int], election: Election) -> Floats:
    """A prompt's accuracy for each number of samples."""
    if rule == "majority":
        return np.array([majority_at_k(ballot.classes, ballot.grades, k) for k in sizes])
    if rule == PASS:
        return np.array([_passes(ballot.grades, k) for k in sizes])
    votes: dict[str, Rule] = {
        "weighted": weighted_vote,
        "filtered": partial(filtered_vote, keep=election.keep),
        "borda": partial(borda_vote, p=election.p),
    }
    confidence = ballot.certainty if rule == "borda" else ballot.weights
    return accuracy_by_samples(
        ballot.classes,
        ballot.grades,
        sizes,
        votes[rule],
        confidence,
        max_subsets=election.max_subsets,
        seed=election.seed,
    )


def _passes(grades: Floats, k: int) -> float:
    binary = np.isin(grades[~np.isnan(grades)], (0, 1)).all()
    return pass_at_k(grades, k) if binary else np.nan


def _accuracy(values: Floats, prompts: NDArray[np.str_], election: Election) -> dict[str, float]:
    """Mean over prompts with its interval; prompts where it is undefined are left out and counted."""
    known = ~np.isnan(values)
    row = {"accuracy": float(values[known].mean()) if known.any() else np.nan, "low": np.nan, "high": np.nan}
    if election.bootstrap and known.any():
        (found,) = intervals(
            mean_of(values[known]),
            prompts[known],
            n_resamples=election.bootstrap,
            level=election.level,
            seed=election.seed,
        )
        row |= {"low": found.low, "high": found.high}
    return {**row, "n": int(known.sum()), "n_undefined": int((~known).sum())}


def _token_confidences(run: Run, ballots: Sequence[_Ballot]) -> dict[Key, Floats]:
    """DeepConf's confidence of each token, by sequence, the end token included."""
    kind = ballots[0].keys[0][1]
    found = {}
    for block in read_blocks(run, {_TOP}, Selection(kinds=[kind]), segments=False):
        values, ranges = token_topk_nll(block.kept_columns, 20), block.kept_ranges
        for key, start, end in zip(block.keys, ranges.starts, ranges.ends, strict=True):
            found[key] = values[start:end]
    return found


def _replay(
    tokens: dict[Key, Floats], ballot: _Ballot, percentile: float, warmup: int, window: int
) -> EarlyStopping:
    own = [tokens[key] for key in ballot.keys]
    ends = np.cumsum([len(values) for values in own])
    ranges = Ranges(ends - [len(values) for values in own], ends)
    return replay_early_stopping(
        np.concatenate(own), ranges, warmup=warmup, percentile=percentile, window=window
    )


def _weighted_grade(ballot: _Ballot, replay: EarlyStopping) -> float:
    vote = replay.vote(ballot.classes)
    return float(ballot.grades[vote.sample]) if vote.sample >= 0 else 0.0
