"""Prompts as the calls from Python take them: texts, messages or token ids, one or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from toolkit.errors import ToolkitError
from toolkit.records import PromptRecord

if TYPE_CHECKING:
    from toolkit.collect.prompts import Prompt as FilePrompt
    from toolkit.models import Model

Prompt = str | Sequence[Mapping[str, Any]] | Sequence[int]  # text, messages, or token ids


def is_one(prompts: Any) -> bool:
    """Whether it is one prompt; ids and messages of one prompt are sequences too."""
    return isinstance(prompts, str) or isinstance(next(iter(prompts), None), Mapping | int | np.integer)


def as_list(prompts: Any) -> list[Any]:
    """One prompt or several, as a list of prompts."""
    if isinstance(prompts, Mapping) or not isinstance(prompts, Iterable):
        raise ToolkitError(
            f"prompts: {str(prompts)[:60]!r} is no prompt; give a text, a list of messages or of token ids, "
            "or a list of such prompts"
        )
    prompts = prompts if isinstance(prompts, str) else list(prompts)
    if not len(prompts) and not isinstance(prompts, str):
        raise ToolkitError("prompts: there is none; give at least one")
    return [prompts] if is_one(prompts) else prompts


def render_given(
    model: Model, prompts: list[Any], system_prompt: str | None, template: bool
) -> list[PromptRecord]:
    """Prompt records, ids from the rendered text, as a collection would give them."""
    from toolkit.collect.render import render_prompts
    from toolkit.collect.settings import RenderSettings

    settings = RenderSettings(system_prompt=system_prompt, ignore_chat_template=not template)
    return render_prompts(model.tokenizer, as_given(model, prompts), settings, model.context_length)


def as_given(model: Model, prompts: list[Any]) -> list[FilePrompt]:
    """The prompts as a file would give them."""
    from toolkit.collect.prompts import Prompt as FilePrompt

    given: list[Any] = []
    for index, prompt in enumerate(prompts):
        if isinstance(prompt, str):
            given.append(FilePrompt(index, index + 1, prompt=prompt))
        elif isinstance(prompt, Sequence) and prompt and all(isinstance(part, Mapping) for part in prompt):
            given.append(FilePrompt(index, index + 1, messages=tuple(prompt)))
        else:
            given.append(FilePrompt(index, index + 1, token_ids=checked_ids(model, prompt, index)))
    return given


def checked_ids(model: Model, prompt: Any, index: int) -> tuple[int, ...]:
    """Token ids that the model has, at least one."""
    n = model.vocabulary_size
    ids = tuple(prompt) if isinstance(prompt, Sequence | np.ndarray) else ()
    if not ids or not all(isinstance(i, int | np.integer) and 0 <= i < n for i in ids):
        raise ToolkitError(
            f"prompts[{index}]: {str(prompt)[:60]!r} is neither text, nor messages, nor token ids from 0 to {n - 1}"
        )
    return tuple(int(i) for i in ids)
