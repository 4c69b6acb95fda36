"""`toolkit.score`: what a model believed of given completions, in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.calls.prompts import Prompt, as_given, as_list, is_one
from toolkit.calls.results import Result, make_result
from toolkit.characters import count
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.collect.completions import Completion
    from toolkit.collect.prompts import Prompt as FilePrompt
    from toolkit.models import Model

Given = str | Sequence[int]  # a completion: text, or token ids


def score(
    model: Model,
    prompts: Prompt | Sequence[Prompt],
    completions: Given | Sequence[Given] | Sequence[Given | Sequence[Given]],
    *,
    joint: bool = False,
    add_end: bool = False,
    top_logprobs: int = 5,
    system_prompt: str | None = None,
    chat_template: bool = True,
    watch_tokens: Sequence[str] = (),
    watch_at: str | None = None,
) -> Result:
    """Log-probabilities and statistics of given completions: teacher forcing, a prompt read once for all its own.

    Parameters
    ----------
    model : Model
        From `toolkit.load`.
    prompts : str, messages, token ids, or a sequence of them
        As in `toolkit.generate`.
    completions : str, token ids, or a sequence of them; with several prompts, such a value for each
        What follows each prompt; several of one prompt are its samples.
    joint : bool
        Tokenise a text together with its prompt; else apart from it.
    add_end : bool
        The end token follows a completion that does not end in one.
    top_logprobs : int
        Alternatives a token.
    system_prompt : str, optional
    chat_template : bool
        Whether a text is one user message, where the model has a chat template.
    watch_tokens, watch_at : sequence of str, str
        As in `toolkit.generate`.

    Returns
    -------
    Result
        As of `toolkit.generate`, of kind "scored"; sampling_logprob is not computed.

    Raises
    ------
    ToolkitError
        An argument is out of range, a completion is empty, has a token that the model has not, or does not fit in
        the context behind its prompt.

    Examples
    --------
    >>> result = toolkit.score(model, "2 + 2 =", [" 4", " 5"], chat_template=False)  # doctest: +SKIP
    >>> [sequence.logprob for sequence in result.generations[0].sequences]  # doctest: +SKIP
    [-1.2, -3.4]
    """
    from toolkit.collect.render import render_prompts
    from toolkit.collect.score import scored
    from toolkit.collect.scoring_plans import ScoringPlan, completion_tokens
    from toolkit.collect.settings import RenderSettings, ScoreSettings
    from toolkit.collect.steps import make_scorer
    from toolkit.collect.watching import make_watch_settings, watch_of

    render = RenderSettings(system_prompt=system_prompt, ignore_chat_template=not chat_template)
    watched = make_watch_settings(watch_tokens, watch_at)
    settings = ScoreSettings(joint, add_end, top_logprobs, render, watched)
    prompts = prompts if isinstance(prompts, str) else list(prompts)  # type: ignore[assignment]
    given = as_given(model, as_list(prompts))
    records = render_prompts(model.tokenizer, given, render, model.context_length)
    plans = []
    for record, of_prompt in zip(records, _completions(given, completions, is_one(prompts)), strict=True):
        tokens = [completion_tokens(model, record, completion, settings) for completion in of_prompt]
        plans.append(ScoringPlan(record, [completion.where for completion in of_prompt], tokens))
    steps = scored(model, make_scorer(model, top_logprobs, watch_of(model, watched)), plans)
    found = [record for step in steps for record in step.records]
    return make_result(records, found, model.token_bytes.literal)


def _completions(prompts: list[FilePrompt], completions: Any, alone: bool) -> list[list[Completion]]:
    """The completions of each prompt, named as in the call."""
    if alone:
        return [_of_prompt(prompts[0], completions, "completions")]
    several = [] if isinstance(completions, str) else list(completions)
    if len(several) != len(prompts):
        raise ToolkitError(
            f"completions: there are {len(several)} for {count(len(prompts), 'prompt')}; "
            "give one, or a list, for each"
        )
    return [
        _of_prompt(prompt, own, f"completions[{index}]")
        for index, (prompt, own) in enumerate(zip(prompts, several, strict=True))
    ]


def _of_prompt(prompt: FilePrompt, given: Any, where: str) -> list[Completion]:
    if isinstance(given, str) or _are_ids(given):
        return [_completion(prompt, given, where)]
    if not isinstance(given, Sequence | np.ndarray) or not len(given):
        raise ToolkitError(
            f"{where}: {str(given)[:60]!r} holds no completion; give text, token ids or a list of them"
        )
    return [_completion(prompt, one, f"{where}[{place}]") for place, one in enumerate(given)]


def _completion(prompt: FilePrompt, given: Any, where: str) -> Completion:
    from toolkit.collect.completions import Completion

    if isinstance(given, str):
        return Completion(where, prompt, text=given)
    if not _are_ids(given):
        raise ToolkitError(f"{where}: {str(given)[:60]!r} is neither text nor token ids")
    return Completion(where, prompt, token_ids=tuple(int(i) for i in given))


def _are_ids(given: Any) -> bool:
    if isinstance(given, str | Mapping) or not isinstance(given, Sequence | np.ndarray) or not len(given):
        return False
    return all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in given)
