"""Every option of every verb with values that it cannot take, and files that are none: one line, exit 2.

The options are found by walking the parsers, so that a new one is tried too.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.faults.tally import Record, tell
from tests.graded import graded_run
from toolkit.cli.main import VERBS, build_parser, main

JUNK = ("", "x\x1b[31m", "-1e999", "nan", "\u202e1", "9" * 400)
# Options whose text is the user's own, and any text is one.
FREE = {
    *("--model", "--output", "--prompts", "--input", "--stop", "--system-prompt", "--prefill-response"),
    *("--title", "--prompt", "--grader", "--file"),
}
RUN, NEW, PROMPTS = "{run}", "{new}", "{prompts}"
# What each verb cannot do without, around the option that is tried.
NEEDED: dict[str, list[str]] = {
    "collect": ["--model", "{model}", "--prompts", PROMPTS, "--output", NEW],
    "score": ["--model", "{model}", "--input", PROMPTS, "--output", NEW],
    "ingest": [PROMPTS, "--from", "openai", "--output", NEW],
    "ask": ["--model", "{model}", "--prompts", PROMPTS, "--output", NEW],
    "audit": [RUN, "--model", "{model}"],
    "p-true": [RUN, "--model", "{model}"],
    "model": ["info", "{model}"],
    "plot": [RUN, "reliability", "-o", "{new}.png"],
    "report": [RUN, "-o", "{new}.html"],
    "export": [RUN, "--format", "jsonl", "-o", "{new}.jsonl"],
    "recalibrate": [RUN, "--estimator", "mean_logprob", "-o", "{new}.json"],
    "grade": [RUN, "--grader", "exact"],
    "similarity": [RUN, "--model", "{model}"],
    "compare": [RUN, NEW],
    "doctor": [],
}


def tried() -> Iterator[tuple[str, str, str]]:
    """(verb, option, junk) for every option with a type or choices."""
    for verb in VERBS:
        for action in build_parser(verb)._actions:
            typed = action.choices is not None or action.type not in (None, Path, str)
            if action.option_strings and action.nargs != 0 and typed:
                for junk in JUNK:
                    yield verb, action.option_strings[-1], junk


CASES = [case for case in tried() if case[1] not in FREE]


@pytest.fixture(scope="module")
def places(tiny_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("places")
    prompts = folder / "prompts.jsonl"
    prompts.write_text('{"prompt": "What?", "completion": "This."}\n')
    run = graded_run(folder / "run").path
    return {"model": str(tiny_folder), "prompts": str(prompts), "run": str(run), "new": str(folder / "new")}


def check_refused(arguments: list[str], places: dict[str, str], capsys: pytest.CaptureFixture[str]) -> str:
    before = set(Path(places["run"]).parent.rglob("*"))
    capsys.readouterr()
    status = main(arguments)
    captured = capsys.readouterr()
    assert status == 2, (arguments, captured.err)
    assert captured.out == ""
    message = captured.err
    assert message.count("\n") == 1, message
    assert message.startswith(f"toolkit {arguments[0]}: ")
    assert "Traceback" not in message
    assert "internal error" not in message
    assert all(character.isprintable() for character in message.rstrip("\n"))
    assert set(Path(places["run"]).parent.rglob("*")) == before
    return message


@pytest.mark.parametrize(("verb", "option", "junk"), CASES, ids=range(len(CASES)))
def test_an_option_that_cannot_be_is_one_line_and_leaves_nothing(
    verb: str,
    option: str,
    junk: str,
    places: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    record_property: Record,
) -> None:
    tell(record_property, "junk for an option, every verb")
    needed = [part.format(**places) for part in NEEDED.get(verb, [RUN])]
    assert option in check_refused([verb, *needed, f"{option}={junk}"], places, capsys)


def utf16(path: Path) -> None:
    path.write_text('{"prompt": "a"}', encoding="utf-16")


def marked(path: Path) -> None:
    path.write_bytes(b"\xef\xbb\xbf" + b'{"prompt": "a"}')


def with_nul(path: Path) -> None:
    path.write_bytes(b'{"prompt": "a\x00"}')


def one_long_line(path: Path) -> None:
    path.write_bytes(b'{"prompt": "' + b"a" * (50 << 20) + b'"}')


def nested(path: Path) -> None:
    path.write_bytes(b'{"prompt": ' + b"[" * 200_000)


def unknown_role(path: Path) -> None:
    path.write_text(json.dumps({"messages": [{"role": "wizard", "content": "a"}]}))


def odd_reference(path: Path) -> None:
    path.write_text(json.dumps({"prompt": "a", "reference": {"a": 1}}))


def long_id(path: Path) -> None:
    path.write_text(json.dumps({"id": "x" * 10_000, "prompt": "a"}))


def empty_id(path: Path) -> None:
    path.write_text(json.dumps({"id": "", "prompt": "a"}))


def number_id(path: Path) -> None:
    path.write_text(json.dumps({"id": 7, "prompt": "a"}))


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)))


def a_folder(path: Path) -> None:
    path.mkdir()


def empty(path: Path) -> None:
    path.write_bytes(b"")


FILES = (
    *(utf16, marked, with_nul, one_long_line, nested, unknown_role, odd_reference),
    *(long_id, empty_id, number_id, binary, a_folder, empty),
)


@pytest.mark.parametrize("verb", ["collect", "score"])
@pytest.mark.parametrize("make", FILES)
def test_a_file_that_is_none_is_one_line_and_leaves_nothing(
    make: Callable[[Path], None],
    verb: str,
    places: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Record,
) -> None:
    tell(record_property, "a prompt file that is none")
    path = tmp_path / "bad.jsonl"
    make(path)
    message = check_refused(
        [verb, *(part.format(**{**places, "prompts": str(path)}) for part in NEEDED[verb])], places, capsys
    )
    assert str(path) in message


NOT_RUNS: dict[str, Callable[[Path], None]] = {
    "missing": lambda path: None,
    "a file": lambda path: path.write_bytes(b"x") and None,
    "an empty folder": lambda path: path.mkdir(),
    "an empty manifest": lambda path: (path.mkdir(), (path / "manifest.json").write_bytes(b""))[0],
    "a list as manifest": lambda path: (path.mkdir(), (path / "manifest.json").write_text("[]"))[0],
}
READING = [verb for verb in VERBS if verb not in ("collect", "score", "ask", "ingest", "model", "doctor")]


@pytest.mark.parametrize("verb", READING)
@pytest.mark.parametrize("kind", NOT_RUNS)
def test_what_is_no_run_is_one_line(
    kind: str,
    verb: str,
    places: dict[str, str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    record_property: Record,
) -> None:
    tell(record_property, "a folder that is no run, every reading verb")
    path = tmp_path / "no-run"
    NOT_RUNS[kind](path)
    given = {**places, "run": str(path), "new": str(tmp_path / "new")}
    status = main([verb, *(part.format(**given) for part in NEEDED.get(verb, [RUN]))])
    captured = capsys.readouterr()
    assert status in (1, 2)  # 1 where a manifest is there and damaged
    assert "Traceback" not in captured.err
    assert "internal error" not in captured.err
    assert str(path) in captured.err + captured.out
    assert not list(tmp_path.glob("new*"))


@pytest.mark.parametrize(
    "name", ["../../escape", "/etc/passwd", "a/../../b", "C:\\x", "..", "~", "%2e%2e%2f", "CON"]
)
def test_an_id_is_never_a_path(
    name: str, places: dict[str, str], tmp_path: Path, record_property: Record
) -> None:
    tell(record_property, "an id that looks like a path")
    prompts = tmp_path / "in" / "prompts.jsonl"
    prompts.parent.mkdir()
    prompts.write_text(json.dumps({"id": name, "prompt": "What?"}))
    given = {**places, "prompts": str(prompts), "new": str(tmp_path / "out" / "run")}
    command = ["collect", *(part.format(**given) for part in NEEDED["collect"]), "--max-tokens", "2"]
    assert main(command) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"in", "out"}
    assert {path.name for path in (tmp_path / "out").iterdir()} == {"run"}
    escaped = [
        path for path in (tmp_path / "out").rglob("*") if "escape" in path.name or "passwd" in path.name
    ]
    assert escaped == []
    shutil.rmtree(tmp_path / "out")


def test_there_are_enough_of_them() -> None:
    assert len(CASES) + 2 * len(FILES) >= 60
