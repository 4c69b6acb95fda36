"""Prompts as the model reads them: the chat template, token ids and the prompt's id."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from toolkit.collect.prompts import Prompt
from toolkit.collect.settings import RenderSettings
from toolkit.errors import ToolkitError
from toolkit.records import PromptRecord


def render_prompts(
    tokenizer: Any, prompts: Sequence[Prompt], settings: RenderSettings, context_length: int | None = None
) -> list[PromptRecord]:
    """Render and tokenise prompts, and give each its id: the user's, else a hash of the rendered text.

    Parameters
    ----------
    tokenizer : MLX-LM's TokenizerWrapper
    prompts : as read from a file
    settings : template and system prompt
    context_length : a prompt must be shorter than this many tokens

    Raises
    ------
    ToolkitError
        A template that fails on a prompt, a prompt without tokens, or one that fills the context.
    """
    records = [render_prompt(tokenizer, prompt, settings, context_length) for prompt in prompts]
    return list(_with_unique_ids(records, {p.id for p in prompts if p.id is not None}))


def render_prompt(
    tokenizer: Any, prompt: Prompt, settings: RenderSettings, context_length: int | None = None
) -> PromptRecord:
    """One prompt, as in `render_prompts`; prompts of the same text have the same id, unless they have their own."""
    record = _render(tokenizer, prompt, settings)
    where = f"line {prompt.line}" + (f" (id {prompt.id!r})" if prompt.id is not None else "")
    if len(record.token_ids) == 0:
        raise ToolkitError(f"{where}: the prompt has no tokens; give it some text")
    if context_length is not None and len(record.token_ids) >= context_length:
        raise ToolkitError(
            f"{where}: the prompt has {len(record.token_ids)} tokens and the model's context is "
            f"{context_length}; shorten it"
        )
    return record


def is_templated(tokenizer: Any, settings: RenderSettings) -> bool:
    """Whether the chat template is applied to prompts of text."""
    return bool(tokenizer.has_chat_template) and not settings.ignore_chat_template


def _render(tokenizer: Any, prompt: Prompt, settings: RenderSettings) -> PromptRecord:
    if prompt.token_ids is not None:
        return _record(prompt, tokenizer.decode(list(prompt.token_ids)), list(prompt.token_ids), None)
    templated = is_templated(tokenizer, settings)
    messages = _messages(prompt, settings) if templated or prompt.messages is not None else None
    if templated:
        text = _apply_template(tokenizer, messages, prompt, settings)
    elif prompt.messages is not None:
        raise ToolkitError(
            f"line {prompt.line}: messages need a chat template, and "
            + ("it is to be left out" if tokenizer.has_chat_template else "the model has none")
            + "; use prompt instead"
        )
    else:
        text = (prompt.prompt or "") + (settings.prefill_response or "")
    return _record(prompt, text, encode(tokenizer, text, templated), messages)


def _record(prompt: Prompt, text: str, token_ids: list[int], messages: Any) -> PromptRecord:
    return PromptRecord(
        prompt_id=prompt.id if prompt.id is not None else text_id(text),
        prompt_index=prompt.index,
        text=text,
        token_ids=np.array(token_ids, np.int32),
        messages=messages,
        reference=prompt.reference,
        metadata=prompt.metadata,
    )


def _messages(prompt: Prompt, settings: RenderSettings) -> list[dict[str, Any]]:
    messages = (
        [{"role": "user", "content": prompt.prompt}]
        if prompt.messages is None
        else [dict(message) for message in prompt.messages]
    )
    if settings.system_prompt is not None and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": settings.system_prompt})
    if settings.prefill_response is not None:
        messages.append({"role": "assistant", "content": settings.prefill_response})
    return messages


def _apply_template(tokenizer: Any, messages: Any, prompt: Prompt, settings: RenderSettings) -> str:
    continued = settings.prefill_response is not None
    try:
        return tokenizer.apply_chat_template(
            messages,
            tokenize=False,
            add_generation_prompt=not continued,
            continue_final_message=continued,
            **settings.chat_template_config,
        )
    except Exception as error:  # a template is a program of the model's; it raises what it likes
        reason = " ".join(str(error).split())
        raise ToolkitError(f"line {prompt.line}: the chat template refused the messages: {reason}") from None


def encode(tokenizer: Any, text: str, templated: bool) -> list[int]:
    """Token ids of a prompt. A template writes its own special tokens, so none is added to its text."""
    starts_with_bos = tokenizer.bos_token is not None and text.startswith(tokenizer.bos_token)
    return tokenizer.encode(text, add_special_tokens=not templated and not starts_with_bos)


def text_id(text: str) -> str:
    """A prompt's id where the user gives none: 16 hexadecimal digits of its rendered text's BLAKE2b."""
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _with_unique_ids(records: Sequence[PromptRecord], given: set[str]) -> Iterator[PromptRecord]:
    """A repeated prompt without an id gets `-2`, the next `-3`; an id that the user gave is never taken."""
    seen: Counter[str] = Counter()
    for record in records:
        seen[record.prompt_id] += 1
        n, candidate = seen[record.prompt_id], record.prompt_id
        if n > 1:
            candidate = f"{record.prompt_id}-{n}"
            while candidate in given:
                n += 1
                candidate = f"{record.prompt_id}-{n}"
        yield PromptRecord(**{**vars(record), "prompt_id": candidate})
