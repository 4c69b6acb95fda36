"""The errors that a user can cause or meet, and the exit status each one has at the command line."""

from __future__ import annotations

from collections.abc import Callable

_MARK = "\0"  # around an argument's name; no path, option or quoted value can hold it


def argument(name: str) -> str:
    """An argument's name for the message of a `ToolkitError`, which the command line shows as its own option."""
    return f"{_MARK}{name}{_MARK}"


class ToolkitError(Exception):
    """Wrong usage or input: exit status 2.

    The message is one line. It names the argument or file and line, the bad value, what is allowed,
    and what to do. Arguments are called as in Python; where a command has an option for one, the name is put
    in with `argument`.
    """

    exit_status = 2

    def __init__(self, message: str = "") -> None:
        self._parts = message.split(_MARK)
        super().__init__("".join(self._parts))

    def spelled(self, spell: Callable[[str], str]) -> str:
        """The message with the name of each argument as `spell` writes it."""
        return "".join(spell(part) if i % 2 else part for i, part in enumerate(self._parts))


class DataFault(ToolkitError):
    """A fault found in stored data, or a result that is only partial: exit status 1."""

    exit_status = 1
