"""What an evaluation is asked: whose grades, of what, by which estimators, with how many resamples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from toolkit import stats
from toolkit.aggregation.agreement import Comparison
from toolkit.aggregation.parts import Part
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.stats import Estimator
from toolkit.stats.metrics import METRICS, Metric
from toolkit.stats.registry import Level
from toolkit.stats.selective import prr_rows

BASELINES = ("random", "n_tokens")


@dataclass(frozen=True)
class Question:
    """What is evaluated, and how.

    Attributes
    ----------
    grader : str, optional
        Whose grades: a name as `toolkit grade` was given it, NAME@HASH for one of several; the only one there
        is by default.
    target : {None, "greedy", "first", "each", "vote", "mean", "pick", "pick:SCORE"}
        What is judged of each prompt; the pick by letter where a run has choices, else greedy where it has that,
        else each.
    over : str or Part, optional
        The tokens that an estimator sees: sequence, answer, regex:PATTERN or field:PATH; the answer where any
        text has a thinking block, else the sequence.
    by : {None, "field"}
        "field" judges each field of a JSON reference, with the tokens of its value.
    estimators : sequence of str, optional
        Names, as `min_k_percent(k=0.1)`; by default all there are, those of the level "asked" only where the
        model was asked. The baselines random and n_tokens are always among them.
    bootstrap : int
        Resamples of prompts for the intervals; 0 is none.
    level : float
        Of the intervals.
    seed : int
        Of the resamples and of the random baseline.
    max_rejection : float, optional
        Of one more prr, prr_at_X.
    threshold : float, optional
        A graded quality is right from here on; without it, metrics that need right and wrong are NaN for
        qualities between 0 and 1.
    comparison : Comparison
        What samples say the same, and how alike they are.
    include_end : bool
        Whether the end token takes part in a sequence.
    """

    grader: str | None = None
    target: str | None = None
    over: str | Part | None = None
    by: str | None = None
    estimators: Sequence[str] | None = None
    bootstrap: int = 1000
    level: float = 0.95
    seed: int = 0
    max_rejection: float | None = None
    threshold: float | None = None
    comparison: Comparison = field(default_factory=Comparison)
    include_end: bool = True

    def __post_init__(self) -> None:
        if self.by not in (None, "field"):
            raise ToolkitError(f"by: there is no {quoted(self.by)}: give field, or nothing")
        if self.bootstrap < 0:
            raise ToolkitError(f"bootstrap is {self.bootstrap}: give 0 or more, as 1000")
        if self.max_rejection is not None and not 0 < self.max_rejection <= 1:
            raise ToolkitError(f"max_rejection is {self.max_rejection}: give a share above 0 and up to 1")
        if not 0 < self.level < 1:
            raise ToolkitError(f"level is {self.level}: give a share between 0 and 1, as 0.95")
        if self.threshold is not None and not 0 < self.threshold <= 1:
            raise ToolkitError(f"threshold is {self.threshold}: give a grade above 0 and up to 1")
        if self.by == "field" and (self.target or "").partition(":")[0] in ("vote", "mean", "pick"):
            raise ToolkitError(
                f"target {self.target} is of whole answers: with by field give greedy, first or each"
            )
        if self.by == "field" and self.over is not None:
            raise ToolkitError("over: with by field an estimator sees the field's tokens: leave it out")

    @property
    def takes_all(self) -> bool:
        """Whether every estimator of whole answers is wanted that a run has values of."""
        return self.estimators is None and self.by is None

    @property
    def chosen(self) -> list[Estimator]:
        """The estimators, the baselines first; those of the level "asked" only by name."""
        level: Level | None = "token-span" if self.by == "field" else None
        asked = (
            [e.label for e in stats.estimators(level) if e.level != "asked"]
            if self.estimators is None
            else list(self.estimators)
        )
        found = [stats.get(name) for name in (*BASELINES, *asked)]
        other = [one.label for one in found if self.by == "field" and one.level != "token-span"]
        if other:
            raise ToolkitError(
                f"estimators: {other[0]} is of whole answers, and by field judges spans of text"
            )
        return list({one.label: one for one in found}.values())

    @property
    def metrics(self) -> list[Metric]:
        """All metrics, and the prr that was asked for."""
        more = self.max_rejection
        if more is None:
            return list(METRICS.values())
        rows = partial(prr_rows, max_rejection=more)
        return [*METRICS.values(), Metric(f"prr_at_{more:g}", rows, True, graded=True, scale_free=True)]
