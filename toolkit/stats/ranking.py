"""How well a confidence ranks right answers above wrong ones: AUROC and AUPRC.

Knows nothing of probabilities: any confidence that rises with certainty will do, infinities included, and a
strictly rising function of it gives the same values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.characters import count
from toolkit.errors import ToolkitError
from toolkit.stats.tally import Floats, Judged, Tally, judge, ratio, require_binary, vector


def auroc(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Area under the receiver operating characteristic; being right is the positive class.

    The chance that a right unit has more confidence than a wrong one, ties counting one half.

    Parameters
    ----------
    confidence : (n,) array_like
        Higher means more confident; -inf and inf rank below and above all else, NaN is left out.
    correct : (n,) array_like of 0 and 1
        NaN is left out.

    Returns
    -------
    float
        In [0, 1], 0.5 is chance, higher is better; NaN where all are right, all are wrong, or none is there.

    Raises
    ------
    ToolkitError
        If lengths differ, or `correct` holds something else.

    Notes
    -----
    scikit-learn's `roc_auc_score`, given the ranks because it refuses infinities. LM-Polygraph replaces an
    infinity by the largest finite value plus 1, which is the same. Hanley & McNeil 1982,
    doi:10.1148/radiology.143.1.7063747.
    """
    from sklearn.metrics import roc_auc_score

    judged = require_binary(judge(confidence, correct))
    return float(roc_auc_score(judged.outcome, _ranks(judged))) if _has_both(judged) else float("nan")


def auprc(confidence: ArrayLike, correct: ArrayLike) -> float:
    """Area under precision and recall, as average precision; being right is the positive class.

    Parameters, errors and NaN are those of `auroc`.

    Returns
    -------
    float
        In (0, 1], higher is better; a ranking by chance gives about the share that is right, so compare
        only on the same units.

    Notes
    -----
    scikit-learn's `average_precision_score`: the sum over thresholds of the gain in recall times the
    precision there, not the trapezoid (`auc(recall, precision)`), which is too kind. LM-Polygraph's takes
    whatever class it is given as the positive one. Davis & Goadrich 2006, doi:10.1145/1143844.1143874.
    """
    from sklearn.metrics import average_precision_score

    judged = require_binary(judge(confidence, correct))
    return (
        float(average_precision_score(judged.outcome, _ranks(judged))) if _has_both(judged) else float("nan")
    )


def auroc_rows(tally: Tally) -> Floats:
    """`auroc` of each resample of a tally of binary outcomes: (b,), NaN where a class is missing."""
    wrong = tally.taken - tally.good
    all_wrong = tally.n - tally.total
    # The wrong ones below a block, and half of those inside it.
    beaten = all_wrong[:, None] - (tally.taken_to - tally.good_to) + 0.5 * wrong
    return ratio(np.einsum("ij,ij->i", tally.good, beaten), tally.total * all_wrong)


def auprc_rows(tally: Tally) -> Floats:
    """`auprc` of each resample of a tally of binary outcomes: (b,), NaN where a class is missing."""
    precision = tally.good_to / np.maximum(tally.taken_to, 1)
    both = (tally.total > 0) & (tally.total < tally.n)
    return ratio(np.einsum("ij,ij->i", tally.good, precision), np.where(both, tally.total, 0))


class WithinPrompts(NamedTuple):
    """The AUROC inside each prompt that has right and wrong units."""

    value: float  # mean over those prompts; NaN where there is none
    prompts: NDArray[np.intp]  # (p,) index into `unique`
    aurocs: Floats  # (p,)
    n_prompts: int  # p
    n_undefined: int  # prompts whose units are all right, all wrong, or not there
    unique: NDArray[np.generic]  # every prompt, sorted


def within_prompt_auroc(confidence: ArrayLike, correct: ArrayLike, prompts: ArrayLike) -> WithinPrompts:
    """How well confidence tells right from wrong samples of the same prompt.

    An AUROC over the samples of all prompts mostly sees which prompts are hard; this one does not.

    Parameters
    ----------
    confidence, correct : (n,) array_like
        As in `auroc`.
    prompts : (n,) array_like
        The prompt of each unit.

    Returns
    -------
    WithinPrompts
        Each prompt counts once, however many units it has.

    Raises
    ------
    ToolkitError
        As in `auroc`, or if `prompts` has another length.
    """
    judged = require_binary(judge(confidence, correct))
    unique, codes = prompt_codes(prompts, len(judged.kept))
    aurocs = _grouped_auroc(judged, codes[judged.kept], len(unique))
    defined = np.flatnonzero(~np.isnan(aurocs))
    value = float(aurocs[defined].mean()) if defined.size else float("nan")
    return WithinPrompts(value, defined, aurocs[defined], len(defined), len(unique) - len(defined), unique)


def prompt_codes(prompts: ArrayLike, n: int) -> tuple[NDArray[np.generic], NDArray[np.intp]]:
    """The distinct prompts, sorted, and the place among them of each of the n units.

    Raises
    ------
    ToolkitError
        If there are not n of them, or they are of kinds that have no order, such as text and None.
    """
    given = np.asarray(prompts)
    if given.shape != (n,):
        raise ToolkitError(f"prompts has shape {given.shape}: give the prompt of each of {count(n, 'unit')}")
    try:
        unique, codes = np.unique(given, return_inverse=True)
    except TypeError:
        kinds = ", ".join(sorted({type(prompt).__name__ for prompt in given.tolist()}))
        raise ToolkitError(f"prompts holds {kinds}: give prompts of one kind, such as text") from None
    return unique, codes


def as_confidence(values: ArrayLike, higher_is_confident: bool) -> Floats:
    """Values of an estimator as a confidence: negated where lower is more confident. NaN stays NaN."""
    array = vector(values, "values")
    return array if higher_is_confident else -array


def _has_both(judged: Judged) -> bool:
    return judged.n > 0 and bool(judged.outcome.min() < judged.outcome.max())


def _ranks(judged: Judged) -> Floats:
    from scipy.stats import rankdata

    return rankdata(judged.confidence)


def _grouped_auroc(judged: Judged, codes: NDArray[np.intp], n_groups: int) -> Floats:
    """(n_groups,) AUROC by the rank-sum statistic, all groups at once; NaN where a class is missing."""
    order = np.lexsort((judged.confidence, codes))
    group, right = codes[order], judged.outcome[order]
    ranks = _ranks_of_sorted(group, judged.confidence[order])
    size = np.bincount(codes, minlength=n_groups)
    n_right = np.bincount(group, weights=right, minlength=n_groups)
    rank_sum = np.bincount(group, weights=right * ranks, minlength=n_groups)
    before = (np.cumsum(size) - size) * n_right  # ranks run over all groups: take off the earlier ones
    wins = rank_sum - before - n_right * (n_right + 1) / 2
    return ratio(wins, n_right * (size - n_right))


def _ranks_of_sorted(group: NDArray[np.intp], confidence: Floats) -> Floats:
    """Ranks from 1 over sorted (group, confidence) pairs; equal pairs share their mean rank."""
    if not len(group):
        return np.empty(0)
    new = np.r_[True, (group[1:] != group[:-1]) | (confidence[1:] != confidence[:-1])]
    start = np.flatnonzero(new)
    end = np.r_[start[1:], len(group)]
    return ((start + 1 + end) / 2)[np.cumsum(new) - 1]
