"""`show` from the command line: in pipes, in a real pseudo-terminal, and with hostile texts."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from tests.graded import Answer, make_answers, prompt
from tests.report.test_terminal import ESCAPE, assert_closed
from tests.store.factory import make_run, prompt_name
from tests.test_characters import HARMFUL, WHOLE
from toolkit.aggregation.summary import summary_df
from toolkit.appearance import palette
from toolkit.characters import visible, width
from toolkit.cli.main import main
from toolkit.report.alternatives import NOTE, token_lines
from toolkit.report.terminal import ColourMode
from toolkit.report.views import Alternative, TokenView
from toolkit.store import open_run

Captured = pytest.CaptureFixture[str]
OSC = "\x1b]0;stolen\x07\x1b]52;c;aGk=\x07\x1b[2J\x1b[6n\x1bc\x9b31m\x9d8;;http://evil\x9c"
BIDI = "\u202egpj.\u2066\u2067\u202d\u061c\u200f"
UNSEEN = "\u200b\u2060\ufeff\xad\u2028\u2029\u3164\u115f\U000e0041\U000e0100\ufe01\u034f"
HOSTILE = f"a\r\x08\x7f\x00{OSC}{BIDI}{UNSEEN}z"


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("show") / "run", batch=4)


@pytest.fixture(scope="module")
def hostile_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    answers = [
        Answer(f"id{HOSTILE}", ["well ", HOSTILE, "é", "\u0301", "\n", HOSTILE], [-0.1, -3, -1, -5, -2, -9]),
        Answer(f"id{HOSTILE}", list("".join(WHOLE)), [-1.0] * len("".join(WHOLE)), sample_index=1),
        Answer(f"id{HOSTILE}", ["漢字" * 40, "x" * 500, "\u0301" * 40], [-1, -3, -2], sample_index=2),
        Answer(f"id{HOSTILE}", [], [], sample_index=3),
    ]
    question = prompt(f"id{HOSTILE}", f"right{HOSTILE}", text=f"asked{HOSTILE}")
    return make_answers(tmp_path_factory.mktemp("hostile") / "run", [question], answers).path


@pytest.fixture(autouse=True)
def _plain(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "LINES", "COLORTERM", "NO_COLOR", "TOOLKIT_DEBUG"):
        monkeypatch.delenv(name, raising=False)


def shown(capsys: Captured, *arguments: object) -> str:
    assert main(["show", *map(str, arguments)]) == 0
    captured = capsys.readouterr()
    assert captured.err == ""
    return captured.out


def in_terminal(path: Path, columns: int, *arguments: str, **environ: str) -> str:
    """What the command writes to a real pseudo-terminal of so many columns."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    command = [sys.executable, "-m", "toolkit", "show", str(path), *arguments]
    with subprocess.Popen(
        command, stdin=slave, stdout=slave, stderr=subprocess.PIPE, env={**os.environ, **environ}
    ) as process:
        os.close(slave)
        written = b"".join(iter(lambda: _read(master), b""))
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(master)
    assert process.returncode == 0
    return written.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # Linux says so when the other side is closed
        return b""


def test_key_prompt_reference_text_and_legend_are_printed(capsys: Captured, run_path: Path) -> None:
    text = shown(capsys, run_path, "--prompt", prompt_name(2), "--kind", "greedy")
    assert text.startswith(f"{prompt_name(2)}  greedy 0  ")
    assert f"prompt: What is {prompt_name(2)}?" in text
    assert "right: Paris | paris" in text
    assert text.splitlines()[-1] == "logprob (nats): ⟦text value⟧ marks below -2"


def test_the_limit_is_kept_and_said(capsys: Captured, run_path: Path) -> None:
    text = shown(capsys, run_path, "--limit", 2, "--sort", "mean_logprob")
    assert text.count("prompt: ") == 2
    assert text.splitlines()[-1] == "2 of 15 sequences; --limit N shows more"
    order = summary_df(open_run(run_path), "sequence").sort_values("mean_logprob")
    assert text.startswith(f"{order['prompt_id'].iloc[0]}  {order['kind'].iloc[0]} ")


@pytest.mark.parametrize(
    ("by", "metric"),
    [
        ("token", "entropy"),
        ("segment", "max_entropy"),
        ("word", "min_prob"),
        ("sentence", "mean_prob"),
        ("line", "mean_rank"),
        ("field", "mean_margin"),
        ("sequence", "perplexity"),
    ],
)
def test_the_whole_text_is_coloured_at_each_grain(
    capsys: Captured, run_path: Path, by: str, metric: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORTERM", "truecolor")
    text = shown(capsys, run_path, "--by", by, "--metric", metric, "--color", "always", "--limit", 99)
    plain = ESCAPE.sub("", text)
    assert "\x1b[38;2;" in text
    assert metric in plain.splitlines()[-1]
    for written in summary_df(open_run(run_path), "sequence")["text"]:
        assert (
            "\n".join(f"  {line}" for line in visible(written, newlines=True).rstrip("\n").split("\n"))
            in plain
        )
    assert plain.count("(no field in it)") == (15 if by == "field" else 0)


def test_what_was_not_computed_is_said_and_not_drawn_as_sure(capsys: Captured, run_path: Path) -> None:
    ask = ["--metric", "sampling_logprob", "--kind", "greedy", "--limit", 1]
    text = shown(capsys, run_path, *ask)
    assert re.search(r"^  ⟦.* \?⟧$", text, re.MULTILINE)
    assert text.splitlines()[-2].endswith("marks below -2 ? was not computed")
    coloured = shown(capsys, run_path, *ask, "--color", "always")
    assert "plain was not computed" in coloured
    assert "\x1b" not in coloured.splitlines()[3]


def test_a_pipe_gets_no_escapes_and_no_breaks(capsys: Captured, hostile_path: Path) -> None:
    text = shown(capsys, hostile_path)
    assert "\x1b" not in text
    assert max(map(width, text.splitlines())) > 500


@pytest.mark.parametrize("arguments", [[], ["--alternatives"], ["--by", "word"], ["--by", "sequence"]])
@pytest.mark.parametrize("colour", ["always", "never"])
def test_hostile_text_is_shown_and_never_obeyed_wherever_it_stands(
    capsys: Captured, hostile_path: Path, arguments: list[str], colour: str
) -> None:
    text = shown(capsys, hostile_path, "--color", colour, *arguments)
    assert_closed(text)
    plain = ESCAPE.sub("", text)
    assert HARMFUL.intersection(plain) <= set("\n\u200c\u200d\ufe0f")
    for where in (f"id{HOSTILE}", f"asked{HOSTILE}", f"right{HOSTILE}"):
        assert visible(where) in plain
    assert "".join(WHOLE[:5]) in plain


def test_an_error_shows_hostile_text_and_never_obeys_it(capsys: Captured, run_path: Path) -> None:
    assert main(["show", str(run_path), "--prompt", HOSTILE]) == 2
    assert main(["show", str(run_path), "--metric", HOSTILE]) == 2
    assert main(["show", f"nowhere{HOSTILE}".replace("\0", "")]) == 2
    assert main(["show", str(run_path), "--by", HOSTILE]) == 2
    errors = capsys.readouterr().err
    assert errors.count("\n") == 4
    assert not HARMFUL.intersection(errors.replace("\n", ""))


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [40, 80])
@pytest.mark.parametrize(
    "arguments", [[], ["--alternatives"], ["--by", "word", "--metric", "geometric_mean_prob"]]
)
def test_everything_but_a_long_id_keeps_to_the_width(
    run_path: Path, monkeypatch: pytest.MonkeyPatch, columns: int, arguments: list[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setattr(sys, "stdout", terminal)
    assert main(["show", str(run_path), "--limit", "99", *arguments]) == 0
    lines = ESCAPE.sub("", terminal.getvalue()).splitlines()
    assert max(map(width, lines)) <= columns
    assert_closed(terminal.getvalue())


def xterm_background(confidence: float) -> str:
    return f"48;5;{palette.xterm_colour(confidence)}m"


@pytest.mark.parametrize(
    ("environ", "mark"),
    [
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "48;2;252;246;231m"),
        ({"TERM": "xterm-256color"}, xterm_background(1.0)),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, ""),
        ({"TERM": "dumb", "COLORTERM": "truecolor"}, ""),
    ],
)
def test_a_real_terminal_gets_the_colours_it_has_and_lines_of_its_width(
    hostile_path: Path, environ: dict[str, str], mark: str
) -> None:
    environ = {"COLUMNS": "", "NO_COLOR": "", "COLORTERM": "", **environ}
    text = in_terminal(hostile_path, 48, "--alternatives", **environ)
    assert (mark in text) if mark else ("\x1b" not in text)
    assert "⟦" not in text if mark else "⟦" in text
    assert_closed(text)
    plain = ESCAPE.sub("", text)
    assert HARMFUL.intersection(plain) <= set("\n\u200c\u200d\ufe0f")
    body = [line for line in plain.splitlines() if not line.startswith("id")]  # an id is never cut
    assert max(map(width, body)) <= 48
    assert "".join(plain.split()).count("漢字") >= 40


def test_colours_for_a_pager_keep_to_the_terminal_behind_it(
    capsys: Captured, run_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setattr(os, "get_terminal_size", lambda *_: os.terminal_size((40, 24)))
    monkeypatch.setattr(sys.stderr, "fileno", lambda: 2)
    lines = ESCAPE.sub("", shown(capsys, run_path, "--color", "always", "--limit", 99)).splitlines()
    assert 30 < max(map(width, lines)) <= 40
    assert max(map(width, shown(capsys, run_path, "--limit", 99).splitlines())) > 40


def test_a_reader_that_leaves_early_is_no_error(run_path: Path) -> None:
    command = [sys.executable, "-m", "toolkit", "show", str(run_path), "--alternatives", "--limit", "99"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_each_token_is_listed_with_its_alternatives(capsys: Captured, run_path: Path) -> None:
    text = shown(capsys, run_path, "--alternatives", "--prompt", prompt_name(0), "--sample", 3)
    heads = re.findall(r"^ +(\d+) '.*logprob \S+  entropy \S+  rank \d+$", text, re.MULTILINE)
    (n,) = summary_df(open_run(run_path), "sequence").query(
        f"prompt_id == '{prompt_name(0)}' and sample_index == 3"
    )["n_tokens"]
    assert heads == [str(i) for i in range(n)]
    assert len(re.findall(r"^    \* ", text, re.MULTILINE)) == n
    assert NOTE in text


def token(chosen: int | None, *logprobs: float, own: float = -3.0) -> TokenView:
    others = tuple(Alternative(f" {i}", value, i == chosen) for i, value in enumerate(logprobs))
    return TokenView(7, " x", own, 1.5, 9.0, others)


def percents(lines: list[str]) -> list[float]:
    return [float(found[1]) for line in lines if (found := re.search(r"([\d.]+) %", line))]


def test_the_token_written_is_marked_and_shares_are_those_of_all() -> None:
    head, *lines = token_lines(token(1, -0.5, -1.5, -3.0), ColourMode.NONE)
    assert head == "    7 ' x'  logprob -3  entropy 1.50  rank 9"
    assert percents(lines) == [60.7, 22.3, 5.0, 12.1]
    assert [line[4] for line in lines] == [" ", "*", " ", " "]
    assert [line.split(" % ")[1].split("  ")[-1].strip() for line in lines] == [
        "' 0'",
        "' 1'",
        "' 2'",
        "all others",
    ]
    assert [line.count("█") for line in lines] == [12, 4, 1, 2]


def test_a_token_that_is_not_among_the_likely_has_its_own_line() -> None:
    _, *lines = token_lines(token(None, -0.5, -1.5, own=-9.0), ColourMode.XTERM256)
    assert lines[2] == f"\x1b[1m    *  <0.1 % ▏{' ' * 20}' x'\x1b[0m"
    assert percents(lines[-1:]) == [17.0]


def test_without_alternatives_a_token_is_shown_against_all_others() -> None:
    _, *lines = token_lines(token(None, own=-0.6931471805599453), ColourMode.NONE)
    assert percents(lines) == [50.0, 50.0]
    _, *lines = token_lines(token(None, own=float("nan")), ColourMode.NONE)
    assert lines == []
    _, *lines = token_lines(token(0, 0.0, float("-inf"), own=0.0), ColourMode.NONE)
    assert percents(lines) == [100.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN", "--by", "window:4"], "--by: window cannot be used here; use one of token, segment,"),
        (["RUN", "--by", "promt"], "--by: there is no span 'promt'; use one of token, segment,"),
        (["RUN", "RUN"], "there is no place for"),
        (["RUN", "--metric", "warmth"], "--metric: no scale for 'warmth'; use one of logprob,"),
        (["RUN", "--by", "segment", "--metric", "logprob"], "use one of mean_logprob,"),
        (["RUN", "--color", "red"], "--color: there is no 'red'"),
        (["RUN", "--limit", "many"], "--limit: 'many' is not a whole number"),
        (["RUN", "--prompt", "nobody"], "--prompt: 'nobody' is not in"),
        (["RUN", "--sample", "99"], "no sequence is selected; name other --prompt, --kind or --sample"),
        (["RUN", "--sort", "warmth"], "there is no estimator 'warmth'"),
        (["nowhere"], "no run at nowhere"),
    ],
)
def test_wrong_calls_are_one_line_and_status_2(
    capsys: Captured, run_path: Path, arguments: list[str], message: str
) -> None:
    assert main(["show", *(str(run_path) if argument == "RUN" else argument for argument in arguments)]) == 2
    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert message in captured.err


@pytest.mark.parametrize("by", ["prompt", "window:4", "wrd"])
def test_a_span_that_cannot_be_shown_is_not_offered(capsys: Captured, run_path: Path, by: str) -> None:
    assert main(["show", str(run_path), "--by", by]) == 2
    offered = capsys.readouterr().err.partition("use one of")[2]
    assert "word" in offered
    assert "prompt" not in offered
    assert "window" not in offered
