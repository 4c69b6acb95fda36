"""What the verbs' options share: a parser whose errors are one line, and types that say what is allowed."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NoReturn

from toolkit.characters import quoted
from toolkit.errors import ToolkitError

OTHER_NAMES = {  # arguments in Python whose option has another name
    "temperature": "temp",
    "samples": "num_samples",
    "n_returned": "beams_returned",
    "extra_eos_tokens": "extra_eos_token",
}
LARGEST = 2**31 - 1  # of a count: token and sample indices are stored in 32 bits


class UsageError(ToolkitError):
    """A command line that cannot be understood. `prog` is the command it was meant for."""

    def __init__(self, prog: str, message: str) -> None:
        super().__init__(f"{message}; see {prog} --help")
        self.prog = prog


class Parser(argparse.ArgumentParser):
    """An argument parser that raises `UsageError` with one line, and takes no abbreviated options."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "allow_abbrev": False})

    def error(self, message: str) -> NoReturn:
        raise UsageError(self.prog, message.removeprefix("argument "))

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse, and name the nearest option where one is unknown."""
        parsed, unknown = self.parse_known_args(args, namespace)
        if unknown:
            self.error(self._unknown(unknown[0]))
        return parsed

    def _unknown(self, argument: str) -> str:
        if not argument.startswith("-"):
            return f"there is no place for {quoted(argument)}"
        name = argument.partition("=")[0]
        near = get_close_matches(name, self._option_string_actions, n=1)
        return f"there is no option {quoted(name)}" + (f" (did you mean {near[0]}?)" if near else "")


def option_of(parser: argparse.ArgumentParser, name: str) -> str:
    """How a parser's option for an argument of the library is spelled; the name itself where there is none."""
    options = {action.dest: action.option_strings for action in parser._actions if action.option_strings}
    spellings = options.get(name) or options.get(OTHER_NAMES.get(name, ""))
    return max(spellings, key=len) if spellings else name


def integer(minimum: int, maximum: int = LARGEST) -> Callable[[str], int]:
    """An argument type: a whole number from `minimum` to `maximum`, both included."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[+-]?[0-9]{1,30}", text):
            _refuse(f"{quoted(text)} is not a whole number; use {_range(minimum, maximum)}")
        return int(_within(int(text), minimum, maximum))

    return parse


def number(
    minimum: float = -math.inf, maximum: float = math.inf, *, above: bool = False
) -> Callable[[str], float]:
    """An argument type: a finite number from `minimum` (not itself, with `above`) to `maximum`."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            _refuse(f"{quoted(text)} is not a number; use {_range(minimum, maximum, above)}")
        if above and value <= minimum:
            _refuse(f"{_plain(value)} is not above {_plain(minimum)}; use {_range(minimum, maximum, above)}")
        return _within(value, minimum, maximum)

    return parse


positive_int = integer(1)
non_negative_int = integer(0)
seed = integer(0, 2**63 - 1)
non_negative_float = number(0.0)
probability = number(0.0, 1.0)
positive_probability = number(0.0, 1.0, above=True)


def existing_file(text: str) -> Path:
    """An argument type: a path of a file that is there."""
    path = Path(text)
    try:
        if path.is_file():
            return path
        problem = "is a folder" if path.is_dir() else "is not there"
    except (OSError, ValueError) as error:  # a name too long, a NUL
        problem = error.strerror or "" if isinstance(error, OSError) else "is not a path"
    _refuse(f"{quoted(text)} {problem}; give the path of a file")


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """An argument type: one of some names; the message lists them."""

    def parse(text: str) -> str:
        return (
            text if text in names else _refuse(f"there is no {quoted(text)}; use one of {', '.join(names)}")
        )

    return parse


def add_runs(parser: argparse.ArgumentParser, *, several: bool = True) -> None:
    """The positional `RUN`, a run's folder, as `args.runs`; with `several`, one or more."""
    parser.add_argument("runs", metavar="RUN", nargs="+" if several else 1, type=Path, help="folder of a run")


def add_json(parser: argparse.ArgumentParser) -> None:
    """The switch `--json`: the result as JSON, for programs."""
    parser.add_argument("--json", action="store_true", help="print the result as JSON")


def add_selection(parser: argparse.ArgumentParser) -> None:
    """Which sequences to read: `--prompt`, `--kind` and `--sample`, all repeatable."""
    parser.add_argument("--prompt", metavar="ID", action="append", dest="prompts", help="only this prompt")
    parser.add_argument(
        "--kind",
        metavar="KIND",
        action="append",
        dest="kinds",
        type=one_of(("sample", "greedy", "beam", "scored")),
        help="only sequences of this kind: sample, greedy, beam or scored",
    )
    parser.add_argument(
        "--sample",
        metavar="N",
        action="append",
        dest="samples",
        type=non_negative_int,
        help="only this sample",
    )


def _within(value: float, minimum: float, maximum: float) -> float:
    if value < minimum:
        _refuse(f"{_plain(value)} is below {_plain(minimum)}; use {_range(minimum, maximum)}")
    if value > maximum:
        _refuse(f"{_plain(value)} is above {_plain(maximum)}; use {_range(minimum, maximum)}")
    return value


def _range(minimum: float, maximum: float, above: bool = False) -> str:
    if minimum == -math.inf:
        return "a number" if maximum == math.inf else f"{_plain(maximum)} or less"
    low = f"a number above {_plain(minimum)}" if above else _plain(minimum)
    if maximum == math.inf:
        return low if above else f"{low} or more"
    return f"{low}, {_plain(maximum)} at most" if above else f"{low} to {_plain(maximum)}"


def _plain(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:g}"


def _refuse(message: str) -> NoReturn:
    raise argparse.ArgumentTypeError(message)
