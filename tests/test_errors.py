"""Messages name arguments as whoever reads them calls them: by name in Python, as options at the command line."""

from __future__ import annotations

import ast
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from toolkit.cli.arguments import option_of
from toolkit.cli.main import VERBS, build_parser
from toolkit.errors import DataFault, ToolkitError, argument

ROOT = Path(__file__).parents[1] / "toolkit"
LIBRARY = [path for path in sorted(ROOT.rglob("*.py")) if path.parent.name != "cli"]
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
# Whole, a command is right in either place; the second is Dask's own.
COMMAND = re.compile(r"toolkit summarize --list| --nworkers 1 --resources ")
PIP = ROOT / "models" / "fetch.py"  # passes options to pip


def test_a_message_is_plain_in_python_and_spelled_for_the_command_line() -> None:
    error = ToolkitError(f"{argument('top_k')}: -1 is below 0; leave out {argument('beams')} of 'top_k'")
    assert str(error) == "top_k: -1 is below 0; leave out beams of 'top_k'"
    assert error.spelled(lambda name: f"<{name}>") == "<top_k>: -1 is below 0; leave out <beams> of 'top_k'"
    assert ToolkitError("plain").spelled(str.upper) == "plain"


@pytest.mark.parametrize("kind", [ToolkitError, DataFault])
def test_an_error_that_was_sent_by_another_process_can_be_spelled(kind: type[ToolkitError]) -> None:
    error = pickle.loads(pickle.dumps(kind(f"{argument('seed')}: bad")))
    assert type(error) is kind
    assert (str(error), error.spelled(str.upper)) == ("seed: bad", "SEED: bad")


@pytest.mark.parametrize(
    ("verb", "name", "option"),
    [
        ("collect", "samples", "--num-samples"),
        ("collect", "temperature", "--temp"),
        ("collect", "n_returned", "--beams-returned"),
        ("collect", "extra_eos_tokens", "--extra-eos-token"),
        ("collect", "prompts", "--prompts"),
        ("collect", "json_schema", "--json-schema"),
        ("summarize", "samples", "--sample"),
        ("summarize", "prompts", "--prompt"),
        ("summarize", "metrics", "--metrics"),
        ("show", "metric", "--metric"),
        ("evaluate", "by", "--by"),
        ("compact", "samples", "samples"),
        ("show", "runs", "runs"),
    ],
)
def test_an_argument_is_spelled_as_the_option_of_the_verb(verb: str, name: str, option: str) -> None:
    assert option_of(build_parser(verb), name) == option


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Every text of a module but its docstrings."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings:
            yield node.lineno, node.value


@pytest.mark.parametrize("path", [path for path in LIBRARY if path != PIP], ids=lambda path: path.name)
def test_the_library_names_no_option(path: Path) -> None:
    found = [(line, text) for line, text in texts(path) if OPTION.search(COMMAND.sub("", text))]
    assert found == []


def test_every_argument_that_a_message_names_is_an_option_somewhere() -> None:
    names = {
        found
        for path in LIBRARY
        for found in re.findall(r"argument\(['\"](\w+)['\"]\)", path.read_text(encoding="utf-8"))
    }
    parsers = [build_parser(verb) for verb in VERBS]
    assert {"samples", "prompts", "stop", "overwrite"} <= names
    places = {action.dest for parser in parsers for action in parser._actions if not action.option_strings}
    options = {name for name in names if any(option_of(parser, name) != name for parser in parsers)}
    assert names - options - places == set()
