"""The Makefile: every target is explained, and the environment is chosen as the machine asks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
TARGETS = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split()  # type: ignore[index]

pytestmark = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


def make(folder: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "PATH": path or os.environ["PATH"]}
    for name in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS", "PYTHON", "EXTRA", "TOOLKIT_MODELS"):
        environ.pop(name, None)
    make_path = shutil.which("make")
    assert make_path is not None
    return subprocess.run(
        [make_path, *arguments], cwd=folder, env=environ, capture_output=True, text=True, check=False
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project of only a Makefile and a pyproject.toml."""
    for name in ("Makefile", "pyproject.toml"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    """A PATH with nothing on it but what the recipes use."""
    folder = tmp_path / "tools"
    folder.mkdir()
    for name in ("sh", "sed", "awk", "head", "touch", "rm", "find", "test", "echo"):
        found = shutil.which(name)
        if found is not None:
            (folder / name).symlink_to(found)
    script(folder / "uname", "echo Linux")
    return folder


def script(path: Path, body: str) -> None:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def python_of(tools: Path, name: str, minor: int, extra: str = "") -> None:
    """An interpreter that says it is 3.`minor` and notes what it is asked to do."""
    version = f'case "$*" in *"sys.version_info < (3, 11)"*) exit {int(minor < 11)};; esac'
    script(tools / name, f'{version}\n{extra}\necho "{name} $*" >> called')


def test_help_explains_every_target(folder: Path) -> None:
    shown = make(folder).stdout
    assert shown == make(folder, "help").stdout
    assert [line.split()[1] for line in shown.splitlines()] == TARGETS
    assert all(len(line.split()) > 3 for line in shown.splitlines())


def test_an_old_python3_is_passed_over_for_a_newer_one(folder: Path, tools: Path) -> None:
    python_of(tools, "python3", 9)
    python_of(tools, "python3.12", 12)
    shown = make(folder, "-n", "setup", path=str(tools)).stdout
    assert "python3.12 -m venv" in shown
    assert "python3 -m venv" not in shown


def test_without_a_python_setup_says_so(folder: Path, tools: Path) -> None:
    python_of(tools, "python3", 9)
    done = make(folder, "setup", path=str(tools))
    assert done.returncode != 0
    assert "no Python 3.11 or newer found" in done.stderr
    assert not (folder / ".venv").exists()


def test_without_ensurepip_and_pip_setup_says_what_to_install(folder: Path, tools: Path) -> None:
    python_of(tools, "python3", 11, 'case "$*" in *ensurepip*|*"-m pip"*) exit 1;; esac')
    done = make(folder, "setup", path=str(tools))
    assert done.returncode != 0
    assert "apt install python3-venv" in done.stderr
    assert not (folder / ".venv").exists()


def test_without_ensurepip_the_pip_that_is_there_serves(folder: Path, tools: Path) -> None:
    python_of(tools, "python3", 11, 'case "$*" in *ensurepip*) exit 1;; esac')
    make(folder, "setup", path=str(tools))
    called = (folder / "called").read_text()
    assert "python3 -m venv --clear --without-pip .venv" in called
    assert "python3 -m pip --python .venv/bin/python install pip" in called


@pytest.mark.parametrize(
    ("banner", "extra"),
    [
        ("| NVIDIA-SMI 550.54.15  Driver Version: 550.54.15  CUDA Version: 12.4 |", "cuda12"),
        ("| NVIDIA-SMI 580.65.06  Driver Version: 580.65.06  CUDA Version: 13.0 |", "cuda13"),
        ("| NVIDIA-SMI 590.44  KMD Version: 590.44  CUDA UMD Version: 13.1 |", "cuda13"),
        ("| NVIDIA-SMI 470.57.02  Driver Version: 470.57.02  CUDA Version: 11.4 |", "cpu"),
        ("NVIDIA-SMI has failed", "cpu"),
        (None, "cpu"),
    ],
)
def test_on_linux_the_driver_decides_the_extra(
    folder: Path, tools: Path, banner: str | None, extra: str
) -> None:
    python_of(tools, "python3", 11)
    if banner is not None:
        script(tools / "nvidia-smi", f"echo '{banner}'")
    assert f'".[dev,{extra}]"' in make(folder, "-n", "setup", path=str(tools)).stdout


def test_on_macos_there_is_no_extra_and_the_user_can_choose(folder: Path, tools: Path) -> None:
    python_of(tools, "python3", 11)
    assert '".[dev,cuda12]"' in make(folder, "-n", "setup", "EXTRA=cuda12", path=str(tools)).stdout
    script(tools / "uname", "echo Darwin")
    assert '".[dev]"' in make(folder, "-n", "setup", path=str(tools)).stdout


def test_setup_is_done_again_only_where_pyproject_changed(folder: Path, tools: Path) -> None:
    python_of(tools, "python3", 11)
    ready = folder / ".venv" / ".ready"
    ready.parent.mkdir()
    ready.touch()
    os.utime(folder / "pyproject.toml", (1, 1))
    assert "pip install" not in make(folder, "-n", "setup", path=str(tools)).stdout
    os.utime(ready, (0, 0))
    assert "pip install" in make(folder, "-n", "setup", path=str(tools)).stdout


def test_models_go_into_the_project_unless_the_user_says_otherwise(folder: Path) -> None:
    assert "TOOLKIT_MODELS ?= $(CURDIR)/data/models" in MAKEFILE
    probe = folder / "probe.mk"
    probe.write_text("include Makefile\nprobe:\n\t@echo $$TOOLKIT_MODELS\n")
    assert make(folder, "-f", "probe.mk", "probe").stdout == f"{folder}/data/models\n"
    assert make(folder, "-f", "probe.mk", "probe", "TOOLKIT_MODELS=x").stdout == "x\n"


def test_the_ci_script_checks_and_tests() -> None:
    script_path = ROOT / ".ci" / "run"
    assert os.access(script_path, os.X_OK)
    subprocess.run(["bash", "-n", str(script_path)], check=True)
    assert script_path.read_text().splitlines()[-2:] == ["make check", "make test"]
