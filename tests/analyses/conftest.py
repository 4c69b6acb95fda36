"""The analyses on made runs, once for all tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.analyses.made import SCRIPTS, make_runs, script


@pytest.fixture(scope="session")
def made_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    make_runs(folder)
    return folder


@pytest.fixture(scope="session")
def reports(made_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of reports of all scripts."""
    output = tmp_path_factory.mktemp("reports")
    for name in SCRIPTS:
        assert script(name).main(["--quick", "--runs", str(made_runs), "--output", str(output)]) == 0
    return output
