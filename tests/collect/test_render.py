"""Prompts as the model reads them."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.collect.prompts import Prompt
from toolkit.collect.render import render_prompts
from toolkit.collect.settings import RenderSettings
from toolkit.errors import ToolkitError


def render(model: Any, *prompts: Prompt, context_length: int | None = None, **settings: Any):
    return render_prompts(model.tokenizer, list(prompts), RenderSettings(**settings), context_length)


def text(index: int, prompt: str, prompt_id: str | None = None) -> Prompt:
    return Prompt(index, index + 1, id=prompt_id, prompt=prompt)


def test_a_text_is_a_user_message(tiny_model: Any) -> None:
    (record,) = render(tiny_model, text(0, "Hi"))
    assert record.text == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert record.messages == [{"role": "user", "content": "Hi"}]


def test_the_template_s_own_bos_is_not_doubled(tiny_model: Any) -> None:
    (record,) = render(tiny_model, text(0, "Hi"))
    bos = tiny_model.tokenizer.bos_token_id
    assert record.token_ids.tolist()[0] == bos
    assert record.token_ids.tolist()[1] != bos
    assert record.token_ids.tolist() == tiny_model.tokenizer.encode(record.text, add_special_tokens=False)


def test_system_prompt_prefill_and_bare_prompts(tiny_model: Any) -> None:
    (record,) = render(tiny_model, text(0, "Hi"), system_prompt="Be brief.", prefill_response="Well")
    assert record.text == (
        "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nWell"
    )
    (bare,) = render(tiny_model, text(0, "Hi"), ignore_chat_template=True, prefill_response=" you")
    assert bare.text == "Hi you"
    assert bare.messages is None


def test_a_system_message_of_the_prompt_stays(tiny_model: Any) -> None:
    messages = ({"role": "system", "content": "A"}, {"role": "user", "content": "B"})
    (record,) = render(tiny_model, Prompt(0, 1, messages=messages), system_prompt="C")
    assert [message["content"] for message in record.messages or ()] == ["A", "B"]


def test_ids_are_the_user_s_or_of_the_text(tiny_model: Any) -> None:
    records = render(tiny_model, text(0, "a"), text(1, "b", "mine"), text(2, "a"), text(3, "a"))
    first = records[0].prompt_id
    assert len(first) == 16
    assert [record.prompt_id for record in records] == [first, "mine", f"{first}-2", f"{first}-3"]
    (again,) = render(tiny_model, text(5, "a"))
    assert again.prompt_id == first


def test_a_numbered_id_never_takes_one_that_was_given(tiny_model: Any) -> None:
    first = render(tiny_model, text(0, "a"))[0].prompt_id
    records = render(tiny_model, text(0, "a"), text(1, "a"), text(2, "b", f"{first}-2"))
    ids = [record.prompt_id for record in records]
    assert len(set(ids)) == 3
    assert ids[2] == f"{first}-2"


def test_token_ids_are_taken_as_they_are(tiny_model: Any) -> None:
    ids = tuple(tiny_model.tokenizer.encode("The capital"))
    (record,) = render(tiny_model, Prompt(0, 1, token_ids=ids))
    assert tuple(record.token_ids.tolist()) == ids


def test_a_prompt_that_fills_the_context_is_named(tiny_model: Any) -> None:
    with pytest.raises(ToolkitError, match=r"line 2 \(id 'x'\): the prompt has \d+ tokens .* context is 30"):
        render(tiny_model, text(0, "a"), text(1, "many words " * 20, "x"), context_length=30)


def test_messages_without_a_template_are_refused(tiny_model: Any) -> None:
    messages = ({"role": "user", "content": "B"},)
    with pytest.raises(ToolkitError, match="line 1: messages need a chat template"):
        render(tiny_model, Prompt(0, 1, messages=messages), ignore_chat_template=True)


def test_a_template_that_fails_is_one_line(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> str:
        raise ValueError("roles must\nalternate")

    monkeypatch.setattr(tiny_model.tokenizer, "apply_chat_template", fail)
    with pytest.raises(
        ToolkitError, match="line 1: the chat template refused the messages: roles must alternate"
    ):
        render(tiny_model, text(0, "a"))
