"""What a prompt asks."""

from __future__ import annotations

import json

from toolkit.appearance.questions import question


def test_the_question_is_the_last_message_of_the_user_else_the_text() -> None:
    messages = [
        {"role": "user", "content": "first"},
        {"role": "user", "content": "last"},
        {"role": "assistant", "content": "so"},
    ]
    assert question({"messages": json.dumps(messages), "text": "x"}) == "last"
    assert question({"messages": json.dumps(messages[2:]), "text": "x"}) == "x"
    assert question({"messages": messages, "text": "x"}) == "last"
    assert question({"messages": None, "text": "x"}) == "x"
