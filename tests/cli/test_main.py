"""The command itself: finding verbs, turning errors into one line, and being quick."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from toolkit.cli import main as module
from toolkit.cli.main import VERBS, Verb, main
from toolkit.errors import DataFault, ToolkitError


@pytest.fixture(autouse=True)
def _no_debug(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOOLKIT_DEBUG", raising=False)


def install(monkeypatch: pytest.MonkeyPatch, run: Any) -> None:
    """A verb `probe` whose `run` is given."""

    def add_arguments(parser: Any) -> None:
        parser.add_argument("--count", type=int)

    monkeypatch.setitem(sys.modules, "probe_verb", SimpleNamespace(add_arguments=add_arguments, run=run))  # type: ignore[arg-type]
    monkeypatch.setitem(VERBS, "probe", Verb("probe_verb", "does nothing"))


def raising(error: BaseException) -> Any:
    def run(args: Any) -> int:
        raise error

    return run


def test_help_lists_every_verb_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    shown = capsys.readouterr().out
    for name, verb in VERBS.items():
        assert f"  {name} " in shown
        assert verb.summary in shown


def test_help_and_version_import_nothing_slow() -> None:
    slow = ("numpy", "pandas", "pyarrow", "mlx", "matplotlib", "transformers")
    code = (
        "import sys; from toolkit.cli.main import main; main(['--help']); main(['--version']);"
        f"print([name for name in {slow} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_shows_its_help_without_mlx(verb: str) -> None:
    code = (
        "import sys; sys.modules['mlx'] = None; from toolkit.cli.main import main;"
        f"sys.exit(main([{verb!r}, '-h']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"usage: toolkit {verb}")
    assert done.stderr == ""


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "toolkit", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("toolkit 0.")


def test_no_verb_shows_the_help_and_is_wrong_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("usage: toolkit VERB")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["shwo"], "toolkit: there is no verb 'shwo' (did you mean show?); see toolkit --help"),
        (["--verison"], "toolkit: there is no option '--verison'; use one of "),
        (["a\x1b[31m\nb"], "toolkit: there is no verb 'a␛[31m↵b'; use one of "),
        (
            ["probe", "--cuont", "1"],
            "toolkit probe: there is no option '--cuont' (did you mean --count?); see",
        ),
        (["probe", "--coun", "1"], "toolkit probe: there is no option '--coun' (did you mean --count?); see"),
        (["probe", "extra"], "toolkit probe: there is no place for 'extra'; see toolkit probe --help"),
        (
            ["probe", "--count", "x"],
            "toolkit probe: --count: invalid int value: 'x'; see toolkit probe --help",
        ),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    install(monkeypatch, lambda args: 0)
    assert main(arguments) == 2
    shown = capsys.readouterr()
    assert shown.err.startswith(message)
    assert (shown.out, shown.err.count("\n")) == ("", 1)


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (ToolkitError("--temp: -1"), 2, "--temp: -1"),
        (DataFault("two\nlines\x1b"), 1, "two↵lines␛"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (FileNotFoundError(2, "No such file or directory", "x.gguf"), 2, "x.gguf: No such file or directory"),
        (PermissionError(13, "Permission denied", "x"), 2, "x: Permission denied"),
        (OSError(28, "No space left on device"), 1, "No space left on device"),
        (ModuleNotFoundError("No module named 'mlx_lm'", name="mlx_lm"), 2, "needs the package 'mlx_lm'"),
        (MemoryError(), 1, "out of memory"),
        (ValueError("odd"), 1, "internal error: ValueError: odd (set TOOLKIT_DEBUG=1 to see where)"),
        (ModuleNotFoundError("No module named 'toolkit.x'", name="toolkit.x"), 1, "internal error"),
    ],
)
def test_every_error_is_one_line_with_its_status(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    status: int,
    message: str,
) -> None:
    install(monkeypatch, raising(error))
    assert main(["probe"]) == status
    shown = capsys.readouterr()
    assert shown.err.startswith(f"toolkit probe: {message}")
    assert (shown.out, shown.err.count("\n")) == ("", 1)


def test_debugging_shows_the_traceback_and_the_same_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    install(monkeypatch, raising(ValueError("odd")))
    monkeypatch.setenv("TOOLKIT_DEBUG", "1")
    assert main(["probe"]) == 1
    shown = capsys.readouterr().err
    assert "Traceback" in shown
    assert shown.splitlines()[-1].startswith("toolkit probe: internal error")


def test_the_status_of_a_verb_is_that_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, lambda args: args.count)
    assert main(["probe", "--count", "1"]) == 1


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
def test_a_terminal_without_the_characters_gets_escapes(tmp_path: Path, encoding: str) -> None:
    script = tmp_path / "say.py"
    script.write_text(
        "import sys\nfrom types import SimpleNamespace\nfrom toolkit.cli import main as m\n"
        "sys.modules['p'] = SimpleNamespace(add_arguments=lambda p: None, run=lambda a: print('漢') or 0)\n"
        "m.VERBS['p'] = m.Verb('p', 'x')\nsys.exit(m.main(['p']))\n"
    )
    environ = {**os.environ, "PYTHONIOENCODING": encoding}
    done = subprocess.run([sys.executable, script], capture_output=True, check=False, env=environ)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode() == {"ascii": "\\u6f22\n", "utf-8": "漢\n"}[encoding]


def test_a_reader_that_leaves_is_no_noise() -> None:
    command = f"{sys.executable} -m toolkit --help | true; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


def test_the_table_of_verbs_is_all_there_is_to_a_new_verb(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, lambda args: 0)
    assert "  probe  " in module.overview()
    assert main(["probe"]) == 0
    assert main(["probe", "--help"]) == 0
