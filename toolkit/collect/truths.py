"""Is a proposed answer true? What a model is asked about it, and the probability that it says so.

After Kadavath et al. 2022, arXiv 2207.05221, section 3: the question, if wanted samples of the model's own as
brainstormed ideas, the proposed answer, and True or False as choices (A) and (B).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toolkit.characters import quoted
from toolkit.collect.letters import Asked, logprobs_after, parting
from toolkit.collect.prompts import Prompt
from toolkit.collect.render import is_templated, render_prompt
from toolkit.collect.settings import RenderSettings
from toolkit.errors import ToolkitError
from toolkit.models import Model

MOST_SHOWN = 5
"""Samples that are shown as ideas, as many as the paper's."""

WORDING = """\
Question: {question}
{ideas}Possible Answer: {answer}
Is the possible answer:
 (A) True
 (B) False
The possible answer is:"""
IDEAS = "Here are some brainstormed ideas: {ideas}\n"
TRUE_FALSE = ("(A)", "(B)")


class Truth(NamedTuple):
    """What a model said of a proposed answer."""

    p_true: float  # True over True and False; NaN where the logits were not finite
    mass: float  # of both, over the whole vocabulary


class Proposal(NamedTuple):
    """An answer that is asked about."""

    prompt_id: str
    question: str
    answer: str
    ideas: tuple[str, ...] = ()


def truth_text(proposal: Proposal) -> str:
    """What the model is asked."""
    ideas = IDEAS.format(ideas="\n".join(proposal.ideas)) if proposal.ideas else ""
    return WORDING.format(question=proposal.question, ideas=ideas, answer=proposal.answer)


def plan_truth(model: Model, proposal: Proposal, settings: RenderSettings) -> Asked:
    """The tokens of a proposal up to where True and False part, and the two tokens there.

    Raises
    ------
    ToolkitError
        It does not fit in the context, a template fails, or the two have the same tokens.
    """
    prompt = Prompt(0, 0, prompt=truth_text(proposal))
    record = render_prompt(model.tokenizer, prompt, settings)
    templated = is_templated(model.tokenizer, settings)
    replies = TRUE_FALSE if templated else [f" {reply}" for reply in TRUE_FALSE]
    asked = parting(model, record.text, templated, replies, whole=False)
    context = model.context_length
    if context is not None and len(asked.token_ids) >= context:
        raise ToolkitError(
            f"prompt {quoted(proposal.prompt_id)}: asked whether its answer is true, it has "
            f"{len(asked.token_ids)} tokens and the model's context is {context}: ask a model with a longer one"
        )
    return asked


def truths(model: Model, asked: Iterable[Asked]) -> Iterator[Truth]:
    """What the model says of each proposal, in order."""
    for found in logprobs_after(model, asked):
        yield truth_of(found)


def truth_of(logprobs: NDArray[np.float64]) -> Truth:
    """From the log-probabilities of True and False, (2,)."""
    both = float(np.logaddexp(*logprobs))
    return Truth(float(np.exp(logprobs[0] - both)), float(np.exp(both)))


def shown(samples: Sequence[str]) -> tuple[str, ...]:
    """The samples that are shown as ideas: the first that say something."""
    return tuple(text.strip() for text in samples if text.strip())[:MOST_SHOWN]
