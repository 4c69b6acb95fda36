"""Completions as tokens, under their prompts: what a scoring is to score, and whether a run already holds it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from toolkit.characters import quoted
from toolkit.collect.completions import Completion
from toolkit.collect.plan import Key
from toolkit.collect.render import encode, is_templated, render_prompt
from toolkit.collect.settings import RenderSettings, ScoreSettings
from toolkit.errors import ToolkitError, argument
from toolkit.models import Model
from toolkit.records import PromptRecord
from toolkit.store import Run
from toolkit.store.keys import key_tuples
from toolkit.store.schemas import TABLES


@dataclass(frozen=True)
class ScoringPlan:
    """A prompt and the tokens of its completions; a completion's place is its sample index."""

    prompt: PromptRecord
    where: list[str] = field(default_factory=list)  # of each completion, for messages
    completions: list[NDArray[np.int32]] = field(default_factory=list)


def plan_completions(model: Model, given: Sequence[Completion], settings: ScoreSettings) -> list[ScoringPlan]:
    """Render the prompts, gather the completions of each, and make them tokens.

    Completions belong to one prompt that have the same id, or no id and the same rendered prompt; those are its
    samples, in order. The first says the prompt's reference and metadata, and others repeat them or have none.

    Parameters
    ----------
    model : its tokenizer, end tokens and context
    given : as read from a file
    settings : how a text becomes tokens

    Raises
    ------
    ToolkitError
        Of two lines with one id the prompts differ, a token is none of the model's, a completion is empty, or
        does not fit in the context; the message names its line.
    """
    plans: dict[str, ScoringPlan] = {}
    for completion in given:
        prompt = render(model, completion, settings.render)
        plan = plans.setdefault(prompt.prompt_id, ScoringPlan(replace(prompt, prompt_index=len(plans))))
        if plan.where:
            _check_same_prompt(plan, prompt, completion)
        plan.completions.append(completion_tokens(model, plan.prompt, completion, settings))
        plan.where.append(completion.where)
    return list(plans.values())


def render(model: Model, completion: Completion, settings: RenderSettings) -> PromptRecord:
    """A completion's prompt as the model reads it."""
    if completion.prompt.token_ids is not None:
        _check_ids(model, completion.prompt.token_ids, completion.where, "prompt_token_ids")
    prompt = render_prompt(model.tokenizer, completion.prompt, settings, model.context_length)
    _check_ids(model, prompt.token_ids.tolist(), completion.where, "the prompt")
    return prompt


def completion_tokens(
    model: Model, prompt: PromptRecord, completion: Completion, settings: ScoreSettings
) -> NDArray[np.int32]:
    """The tokens of a completion, which is not empty and fits behind its prompt.

    A text is tokenised apart from the prompt, or together with it (`joint`). With `add_end`, the model's end
    token follows where none is last.
    """
    where = completion.where
    if completion.token_ids is not None:
        ids = list(completion.token_ids)
    elif settings.joint:
        ids = _joint_tokens(model, prompt, completion, settings.render)
    else:
        ids = list(model.tokenizer.encode(completion.text, add_special_tokens=False))
    _check_ids(
        model, ids, where, "the completion" if completion.token_ids is None else "completion_token_ids"
    )
    if settings.add_end and not (ids and ids[-1] in model.end_ids):
        ids.append(_end_id(model))
    if not ids:
        raise ToolkitError(
            f"{where}: the completion has no tokens; give it some text, or add the end token with "
            f"{argument('add_end')}"
        )
    n, context = len(prompt.token_ids) + len(ids), model.context_length
    if context is not None and n > context:
        raise ToolkitError(
            f"{where}: prompt and completion have {len(prompt.token_ids)} + {len(ids)} tokens and the model's "
            f"context is {context}; shorten them"
        )
    return np.array(ids, np.int32)


def _joint_tokens(
    model: Model, prompt: PromptRecord, completion: Completion, settings: RenderSettings
) -> list[int]:
    if completion.prompt.token_ids is not None:
        raise ToolkitError(
            f"{completion.where}: prompt_token_ids are no text to be tokenised with the completion; "
            f"leave out {argument('joint')}, or give completion_token_ids"
        )
    templated = is_templated(model.tokenizer, settings)
    ids = encode(model.tokenizer, prompt.text + (completion.text or ""), templated)
    n = len(prompt.token_ids)
    if ids[:n] != prompt.token_ids.tolist():
        raise ToolkitError(
            f"{completion.where}: tokenised with its completion, the prompt gets other tokens than alone: "
            f"move spaces from its end to the completion's beginning, or leave out {argument('joint')}"
        )
    return ids[n:]


def _end_id(model: Model) -> int:
    """The end token to append: the tokenizer's own, where the model has several."""
    if not model.end_ids:
        raise ToolkitError(f"{argument('add_end')}: the model has no end token; leave it out")
    own = model.tokenizer.eos_token_id
    return own if own in model.end_ids else min(model.end_ids)


def _check_ids(model: Model, token_ids: Sequence[int], where: str, what: str) -> None:
    n = model.vocabulary_size
    for token_id in token_ids:
        if not 0 <= token_id < n:
            raise ToolkitError(f"{where}: {what} has token id {token_id}; the model's are 0 to {n - 1}")


def _check_same_prompt(plan: ScoringPlan, prompt: PromptRecord, completion: Completion) -> None:
    """Refuse what would be lost: of a prompt, one text, one reference and one metadata are kept."""
    where, first, kept = completion.where, plan.where[0], plan.prompt
    if prompt.text != kept.text or not np.array_equal(prompt.token_ids, kept.token_ids):
        named = f"id {quoted(prompt.prompt_id)}" if completion.prompt.id is not None else "its text"
        raise ToolkitError(f"{where}: {named} is that of another prompt, {first}; give each an id of its own")
    for name in ("reference", "metadata"):
        own = getattr(prompt, name)
        if own and own != getattr(kept, name):
            raise ToolkitError(
                f"{where}: its {name} is not that of {first}, which has the same prompt; leave it out here, or "
                "give each an id of its own"
            )


def check_stored(run: Run, plans: Sequence[ScoringPlan]) -> None:
    """Refuse to go on in a run that holds other prompts or completions in the place of these.

    Raises
    ------
    ToolkitError
        A prompt or a completion that is stored has other tokens; the message names the line.
    """
    prompts = {plan.prompt.prompt_id: plan for plan in plans}
    for prompt_id, stored in _stored_prompts(run):
        plan = prompts.get(prompt_id)
        if plan is not None and not np.array_equal(stored, plan.prompt.token_ids):
            raise _changed(plan.where[0], f"prompt {quoted(prompt_id)}")
    for (prompt_id, kind, index), stored, is_cut in _stored_completions(run):
        plan = prompts.get(prompt_id) if kind == "scored" else None
        if plan is None or index >= len(plan.completions):
            continue
        given = plan.completions[index]
        if not np.array_equal(stored, given[: len(stored)] if is_cut else given):
            raise _changed(plan.where[index], f"completion {index} of prompt {quoted(prompt_id)}")


def _changed(where: str, what: str) -> ToolkitError:
    return ToolkitError(
        f"{where}: the run holds another {what}: "
        f"score into another {argument('output')}, or replace the run with {argument('overwrite')}"
    )


def _stored_prompts(run: Run) -> Iterator[tuple[str, NDArray[np.int32]]]:
    for rows in run.iter_row_groups("prompts", ["prompt_id", "token_ids"]):
        for prompt_id, token_ids in zip(
            rows["prompt_id"].to_pylist(), rows["token_ids"].to_pylist(), strict=True
        ):
            yield prompt_id, np.array(token_ids, np.int32)


def _stored_completions(run: Run) -> Iterator[tuple[Key, NDArray[np.int32], bool]]:
    """Key, tokens, and whether an error left only the first ones."""
    key = TABLES["sequences"].key
    for rows in run.iter_groups({"sequences": [*key, "n_tokens", "finish_reason"], "tokens": ["token_id"]}):
        heads = rows["sequences"]
        ends = np.cumsum(heads["n_tokens"].to_numpy())
        ids = np.split(rows["tokens"]["token_id"].to_numpy(), ends[:-1])
        is_cut = (reason == "error" for reason in heads["finish_reason"].to_pylist())
        yield from zip(key_tuples(heads), ids, is_cut, strict=True)
