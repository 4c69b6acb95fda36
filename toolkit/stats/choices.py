"""Questions with choices, and answers put back to the model: which choice it picks, and how surely.

A choice has five scores, each a log-probability in nats: of its letter after the prompt that lists the choices;
of its full text after the question, as a sum, a mean over its tokens and a mean over its bytes; and how much
the question raised that sum (PMI). The softmax of a score over the choices of a question is the probability of
each. Estimators here are of level "asked": they read what was put beside a run, under "TABLE.COLUMN", with the
rows of a question as a range, and give a value a row.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.stats.ranges import Columns, Floats, Ranges, column
from toolkit.stats.registry import register

Score = Literal["letter", "sum", "mean", "byte", "pmi"]
SCORES: tuple[Score, ...] = get_args(Score)
MOST_CHOICES = 26  # one a letter


class TextScores(NamedTuple):
    """Scores of the full texts of n choices, (n,) each, in nats."""

    sum: Floats
    mean: Floats
    byte: Floats
    pmi: Floats


def softmax(scores: ArrayLike) -> Floats:
    """Probabilities in proportion to exp(scores).

    Parameters
    ----------
    scores : (..., n)
        Log-probabilities; -inf is a choice that cannot be.

    Returns
    -------
    (..., n) float64
        Each row sums to 1; NaN where a score is NaN or none is above -inf.
    """
    values = np.asarray(scores, np.float64)
    top = values.max(axis=-1, keepdims=True)
    weights = np.exp(values - np.where(np.isneginf(top), np.nan, top))
    return weights / weights.sum(axis=-1, keepdims=True)


def rotations(n: int) -> NDArray[np.int64]:
    """All n rotations of n choices, (n, n): row r has the choice that stands at each place; row 0 is 0 to n-1."""
    places = np.arange(n)
    return (places[:, None] + places) % n


def by_choice(at_place: ArrayLike, orders: ArrayLike) -> Floats:
    """What was found at each place of each order, put under the choice that stood there.

    Parameters
    ----------
    at_place : (n_orders, n)
    orders : (n_orders, n) integers
        Which choice stood at each place.

    Returns
    -------
    (n_orders, n) float64
    """
    values, chosen = np.asarray(at_place, np.float64), np.asarray(orders)
    found = np.empty_like(values)
    np.put_along_axis(found, chosen, values, axis=1)
    return found


def average_orders(logprobs: ArrayLike) -> tuple[Floats, Floats]:
    """Log-probabilities and choice probabilities over several orders of the same choices.

    Parameters
    ----------
    logprobs : (n_orders, n)
        Of each choice's letter, in each order.

    Returns
    -------
    logprob : (n,)
        Log of the mean probability of the choice's letter.
    probability : (n,)
        Mean over orders of the softmax over choices. Probabilities are averaged, not their logarithms, as
        Zheng et al. do (2023, arXiv 2309.03882): the mean is a distribution, and one order in which a choice
        is all but impossible does not decide.
    """
    values = np.asarray(logprobs, np.float64)
    return np.logaddexp.reduce(values, axis=0) - math.log(len(values)), softmax(values).mean(axis=0)


def text_scores(sums: ArrayLike, n_tokens: ArrayLike, n_bytes: ArrayLike, bare: ArrayLike) -> TextScores:
    """Scores of choices by their full texts.

    Parameters
    ----------
    sums : (n,)
        Log-probability of each text after the question.
    n_tokens, n_bytes : (n,)
        Lengths of the texts, at least 1.
    bare : (n,)
        Log-probability of each text after a prompt without the question.
    """
    total = np.asarray(sums, np.float64)
    return TextScores(
        sum=total,
        mean=total / np.asarray(n_tokens, np.float64),
        byte=total / np.asarray(n_bytes, np.float64),
        pmi=total - np.asarray(bare, np.float64),
    )


@register(
    "choice_letter",
    level="asked",
    inputs=("choices.p_letter",),
    higher_is_confident=True,
    range=(0, 1),
    source="Hendrycks et al. 2021, arXiv 2009.03300",
)
def choice_letter(columns: Columns, questions: Ranges) -> Floats:
    """Probability of a choice by its letter: the softmax over the letters of all choices; higher is more confident.

    The letter is the first token after a prompt that lists the choices (Hendrycks et al. 2021, arXiv 2009.03300).
    Of several orders it is the mean over them (Zheng et al. 2023, arXiv 2309.03882).
    """
    return column(columns, "choices.p_letter")


@register(
    "choice_sum",
    level="asked",
    inputs=("choices.p_sum",),
    higher_is_confident=True,
    range=(0, 1),
    source="Trinh and Le 2018, arXiv 1806.02847",
)
def choice_sum(columns: Columns, questions: Ranges) -> Floats:
    """Probability of a choice by its text: the softmax of the summed log-probabilities; higher is more confident.

    Trinh and Le 2018, arXiv 1806.02847. Shorter texts have the advantage.
    """
    return column(columns, "choices.p_sum")


@register(
    "choice_mean",
    level="asked",
    inputs=("choices.p_mean",),
    higher_is_confident=True,
    range=(0, 1),
    source="Brown et al. 2020, arXiv 2005.14165",
)
def choice_mean(columns: Columns, questions: Ranges) -> Floats:
    """Probability of a choice by the mean over its tokens: the softmax of it; higher is more confident.

    Brown et al. 2020, arXiv 2005.14165. A mean is flatter than a sum, and so is its softmax.
    """
    return column(columns, "choices.p_mean")


@register(
    "choice_byte",
    level="asked",
    inputs=("choices.p_byte",),
    higher_is_confident=True,
    range=(0, 1),
    source="Biderman et al. 2024, arXiv 2405.14782",
)
def choice_byte(columns: Columns, questions: Ranges) -> Floats:
    """Probability of a choice by the mean over its bytes: the softmax of it; higher is more confident.

    Biderman et al. 2024, arXiv 2405.14782. It does not depend on how the tokenizer cuts the text.
    """
    return column(columns, "choices.p_byte")


@register(
    "choice_pmi",
    level="asked",
    inputs=("choices.p_pmi",),
    higher_is_confident=True,
    range=(0, 1),
    source="Holtzman et al. 2021, arXiv 2104.08315",
)
def choice_pmi(columns: Columns, questions: Ranges) -> Floats:
    """Probability of a choice by what the question adds to it: the softmax of the PMI; higher is more confident.

    log p(choice | question) - log p(choice | bare prompt): pointwise mutual information, where a text that is
    likely anywhere has no advantage (Holtzman et al. 2021, arXiv 2104.08315).
    """
    return column(columns, "choices.p_pmi")


def _of_score(score: Score) -> tuple[str, ...]:
    return (f"choices.p_{score}",)


@register(
    "choice_margin",
    level="asked",
    inputs=_of_score,
    higher_is_confident=True,
    range=(-1, 1),
    source="Scheffer et al. 2001, doi 10.1007/3-540-44816-0_31",
)
def choice_margin(columns: Columns, questions: Ranges, *, score: Score = "letter") -> Floats:
    """Probability of a choice less the largest of the other choices; higher is more confident.

    Scheffer et al. 2001, doi 10.1007/3-540-44816-0_31. Below 0 for a choice that another one beats.

    Parameters
    ----------
    score : letter, sum, mean, byte or pmi
    """
    values = column(columns, f"choices.p_{score}").astype(np.float64)
    found = np.full(len(values), np.nan)
    for start, end in zip(questions.starts, questions.ends, strict=True):
        own = values[start:end]
        others = np.where(np.eye(len(own), dtype=bool), -np.inf, own)
        found[start:end] = own - others.max(axis=1)
    return found


@register(
    "choice_entropy",
    level="asked",
    inputs=_of_score,
    higher_is_confident=False,
    range=(0, math.log(MOST_CHOICES)),
    source="Shannon 1948, doi 10.1002/j.1538-7305.1948.tb01338.x",
)
def choice_entropy(columns: Columns, questions: Ranges, *, score: Score = "letter") -> Floats:
    """Entropy of the probabilities over the choices of a question, in nats; lower is more confident.

    Shannon 1948, doi 10.1002/j.1538-7305.1948.tb01338.x. It is the same for all choices of a question.

    Parameters
    ----------
    score : letter, sum, mean, byte or pmi
    """
    values = column(columns, f"choices.p_{score}").astype(np.float64)
    surprise = np.where(values == 0, 0.0, -values * np.log(np.where(values == 0, 1.0, values)))
    found = np.full(len(values), np.nan)
    for start, end in zip(questions.starts, questions.ends, strict=True):
        found[start:end] = surprise[start:end].sum()
    return found


@register(
    "p_true",
    level="asked",
    inputs=("truths.p_true",),
    higher_is_confident=True,
    range=(0, 1),
    source="Kadavath et al. 2022, arXiv 2207.05221",
)
def p_true(columns: Columns, questions: Ranges) -> Floats:
    """Probability of True over True and False, the model asked of its own answer; higher is more confident.

    Kadavath et al. 2022, arXiv 2207.05221. `toolkit p-true` asks.
    """
    return column(columns, "truths.p_true")


@register(
    "p_true_with_samples",
    level="asked",
    inputs=("truths.p_true_with_samples",),
    higher_is_confident=True,
    range=(0, 1),
    source="Kadavath et al. 2022, arXiv 2207.05221",
)
def p_true_with_samples(columns: Columns, questions: Ranges) -> Floats:
    """`p_true`, where the model is first shown samples of its own; higher is more confident.

    Kadavath et al. 2022, arXiv 2207.05221: up to five samples stand before the answer as brainstormed ideas.
    """
    return column(columns, "truths.p_true_with_samples")
