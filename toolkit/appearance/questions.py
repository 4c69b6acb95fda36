"""What a prompt asks, for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any


def question(prompt: Mapping[str, Any]) -> str:
    """The last message by the user, else the prompt's text; `messages` may be JSON, or None."""
    given = prompt["messages"]
    messages = json.loads(given) if isinstance(given, str) else given or []
    asked = [m["content"] for m in messages if m.get("role") == "user" and isinstance(m.get("content"), str)]
    return asked[-1] if asked else str(prompt["text"])
