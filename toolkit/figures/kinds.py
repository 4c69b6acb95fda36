"""The kinds of figures there are: what each shows, needs, and can be asked for. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass

_ONE_PROMPT = ("prompts", "kinds", "samples", "grader")
_JUDGED = ("grader", "target", "over", "threshold", "equivalence", "similarity", "seed")
_VOTED = ("grader", "over", "equivalence", "estimators", "bootstrap", "seed")


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure.

    Attributes
    ----------
    help : str
        What it shows, in a line.
    module : str
        Of `toolkit.figures`, with the function `function` that prepares it.
    function : str
    options : tuple of str
        Names of the options of `make_figure` that it uses.
    needs_grades : bool
        Whether the run has to be graded.
    needs_prompt : bool
        Whether it shows one prompt: the most telling one where none is named.
    needs_samples : bool
        Whether a prompt needs two samples or more.
    """

    help: str
    module: str
    function: str
    options: tuple[str, ...]
    needs_grades: bool = False
    needs_prompt: bool = False
    needs_samples: bool = False

    @property
    def needs(self) -> str:
        """What it needs of a run, in words; empty where any run will do."""
        named = {"grades": self.needs_grades, "two samples a prompt": self.needs_samples}
        return ", ".join(name for name, needed in named.items() if needed)


KINDS: dict[str, FigureKind] = {
    "sequence": FigureKind(
        "confidence along an answer, token by token, with the mass of the alternatives",
        "sequences",
        "sequence",
        _ONE_PROMPT,
        needs_prompt=True,
    ),
    "distribution": FigureKind(
        "a statistic over tokens, words, sentences, fields or answers, by group",
        "spread",
        "distribution",
        ("by", "metric", "group", "prompts", "kinds", "samples", "grader", "limit"),
    ),
    "reliability": FigureKind(
        "how often an estimator's probability is right: accuracy in bins, with counts and intervals",
        "judged",
        "reliability",
        ("estimators", "bins", "binning", "recalibrate", *_JUDGED),
        needs_grades=True,
    ),
    "risk-coverage": FigureKind(
        "share of wrong answers against the share answered, with the optimum and chance",
        "judged",
        "risk_coverage",
        ("estimators", *_JUDGED),
        needs_grades=True,
    ),
    "estimators": FigureKind(
        "every estimator's AUROC or another metric, with intervals",
        "judged",
        "estimators",
        ("estimators", "metric", "limit", "bootstrap", *_JUDGED),
        needs_grades=True,
    ),
    "samples": FigureKind(
        "the samples of a prompt side by side, each token coloured, and where they part",
        "sequences",
        "samples",
        (*_ONE_PROMPT, "metric", "limit"),
        needs_prompt=True,
        needs_samples=True,
    ),
    "agreement": FigureKind(
        "how many samples agree with an answer, against the confidence of its tokens",
        "judged",
        "agreement",
        ("estimators", "agreement", *_JUDGED),
        needs_samples=True,
    ),
    "votes": FigureKind(
        "accuracy of votes against the number of samples",
        "voting",
        "votes",
        _VOTED,
        needs_grades=True,
        needs_samples=True,
    ),
    "entropy-logprob": FigureKind(
        "each token's entropy against its log-probability",
        "spread",
        "entropy_logprob",
        ("prompts", "kinds", "samples"),
    ),
    "entropy-map": FigureKind(
        "entropy of a prompt's samples over their positions",
        "sequences",
        "entropy_map",
        (*_ONE_PROMPT, "limit"),
        needs_prompt=True,
        needs_samples=True,
    ),
    "early-stopping": FigureKind(
        "accuracy and tokens saved where unsure samples are cut short",
        "voting",
        "early_stopping",
        ("grader", "over", "equivalence", "percentiles", "warmup", "window", "bootstrap", "seed"),
        needs_grades=True,
        needs_samples=True,
    ),
}

GROUPS = ("grade", "kind", "finish", "label", "span", "run", "model", "temperature", "none")
"""What a distribution can be split by."""

RECALIBRATIONS = ("isotonic", "platt", "temperature", "histogram")
BINNINGS = ("equal_width", "equal_mass")
