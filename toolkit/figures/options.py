"""What a figure is asked for beside its runs, and the errors that name an option."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from toolkit.characters import quoted
from toolkit.errors import ToolkitError, argument
from toolkit.figures.kinds import BINNINGS, GROUPS, KINDS, RECALIBRATIONS

if TYPE_CHECKING:
    from toolkit.aggregation.agreement import Comparison
    from toolkit.spans import SpanKind, UserFinder
    from toolkit.stats import Estimator


def wrong(option: str, problem: str) -> ToolkitError:
    """The error for an option that cannot be, which the command line shows as its own."""
    return ToolkitError(f"{argument(option)}: {problem}")


@dataclass(frozen=True, kw_only=True)
class Options:
    """Options of figures; None is not given. Which of them a kind uses says `FigureKind.options`.

    Attributes
    ----------
    prompts, kinds, samples : sequence, optional
        Only sequences of these prompts, kinds and sample indices.
    by : sequence of str or function, optional
        What texts are cut into, as of `toolkit.tables.spans_df`.
    metric : str, optional
        The statistic that is shown.
    group : sequence of str, optional
        Of `toolkit.figures.kinds.GROUPS`: what a distribution is split by.
    estimators : sequence of str, optional
        Names, as `min_k_percent(k=0.1)`. In votes, the one that weighs a sample.
    agreement : str, optional
        An estimator of samples.
    grader, target, over, threshold, equivalence, similarity, bootstrap, seed : optional
        As of `toolkit.judging.question.Question`.
    bins, binning : optional
        As of `toolkit.stats.calibration.reliability_curve`.
    recalibrate : str, optional
        A method of `toolkit.stats.recalibration`, cross-validated over prompts.
    limit : int, optional
        Rows, at most.
    percentiles, warmup, window : optional
        As of `toolkit.judging.voting.early_stopping_df`.
    """

    prompts: Sequence[str] | None = None
    kinds: Sequence[str] | None = None
    samples: Sequence[int] | None = None
    by: Sequence[str | UserFinder | SpanKind] | None = None
    metric: str | None = None
    group: Sequence[str] | None = None
    estimators: Sequence[str] | None = None
    agreement: str | None = None
    grader: str | None = None
    target: str | None = None
    over: str | None = None
    threshold: float | None = None
    equivalence: str | None = None
    similarity: str | None = None
    bins: int | None = None
    binning: str | None = None
    recalibrate: str | None = None
    limit: int | None = None
    bootstrap: int | None = None
    seed: int | None = None
    percentiles: Sequence[float] | None = None
    warmup: int | None = None
    window: int | None = None

    @property
    def comparison(self) -> Comparison:
        """How the samples of a prompt are compared."""
        from toolkit.aggregation.agreement import Comparison

        given = {"equivalence": self.equivalence, "similarity": self.similarity}
        return Comparison(**{name: value for name, value in given.items() if value is not None})

    def estimators_or(self, default: Sequence[str]) -> list[Estimator]:
        """The estimators asked for, else others; each once.

        Raises
        ------
        ToolkitError
            There is no such estimator, or no name is given.
        """
        from toolkit import stats

        if self.estimators is not None and not self.estimators:
            raise wrong("estimators", "no name is given; write mean_logprob, for example")
        try:
            found = [stats.get(name) for name in self.estimators or default]
        except ToolkitError as error:
            raise wrong("estimators", str(error)) from None
        return list({one.label: one for one in found}.values())


OPTIONS = tuple(spec.name for spec in fields(Options))
_LISTS = ("prompts", "kinds", "samples", "by", "group", "estimators", "percentiles")
_ALLOWED = {"group": GROUPS, "recalibrate": RECALIBRATIONS, "binning": BINNINGS}
_AT_LEAST = {"limit": 1, "bins": 1, "bootstrap": 0, "seed": 0, "warmup": 1, "window": 1}


def make_options(kind: str, given: Mapping[str, Any]) -> Options:
    """The options of a kind of figure, checked; a single value stands for a list of one.

    Raises
    ------
    ToolkitError
        An option is unknown or not of this kind of figure, or its value is not one of those allowed.
    """
    used = KINDS[kind].options
    values = {name: _listed(name, value) for name, value in given.items() if value is not None}
    for name, value in values.items():
        if name not in used:
            raise wrong(name, f"the figure {kind} does not use it; it uses {', '.join(map(argument, used))}")
        for one in _listed("by", value) if name in _ALLOWED else ():
            if one not in _ALLOWED[name]:
                raise wrong(name, f"there is no {quoted(one)}; use one of {', '.join(_ALLOWED[name])}")
        if name in _AT_LEAST and value < _AT_LEAST[name]:
            raise wrong(name, f"{value} is below {_AT_LEAST[name]}; use {_AT_LEAST[name]} or more")
    return Options(**values)


def _listed(name: str, value: Any) -> Any:
    if name not in _LISTS:
        return value
    single = isinstance(value, str | int | float) or callable(value) or not isinstance(value, Sequence)
    return (value,) if single else tuple(value)
