"""Who is said to have a tile unit."""

from __future__ import annotations

import pytest

from toolkit import tile_unit


@pytest.fixture
def with_unit(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine that has one and gives it."""

    class Library:
        def __init__(self, name: None) -> None: ...

        def syscall(self, *arguments: object) -> int:
            return 0

    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(tile_unit, "_flags", lambda: {"avx512f", "amx_tile", "amx_bf16"})
    monkeypatch.setattr("ctypes.CDLL", Library)
    monkeypatch.delenv(tile_unit.SWITCH, raising=False)
    monkeypatch.setattr(tile_unit, "has_tile_unit", tile_unit.has_tile_unit.__wrapped__)
    return monkeypatch


def test_a_machine_that_has_it_and_gives_it(with_unit: pytest.MonkeyPatch) -> None:
    assert tile_unit.use_tile_unit()
    with_unit.setenv(tile_unit.SWITCH, "0")
    assert not tile_unit.use_tile_unit()


@pytest.mark.parametrize("lacking", ["amx_tile", "amx_bf16", None])
def test_a_processor_that_does_not_say_so(lacking: str | None, with_unit: pytest.MonkeyPatch) -> None:
    flags = {"amx_tile", "amx_bf16"} - {lacking} if lacking else set()
    with_unit.setattr(tile_unit, "_flags", lambda: flags)
    assert not tile_unit.use_tile_unit()


def test_other_systems_and_processors(with_unit: pytest.MonkeyPatch) -> None:
    with_unit.setattr("platform.machine", lambda: "aarch64")
    assert not tile_unit.use_tile_unit()
    with_unit.setattr("platform.machine", lambda: "x86_64")
    with_unit.setattr("sys.platform", "darwin")
    assert not tile_unit.use_tile_unit()


def test_a_system_that_does_not_give_it(with_unit: pytest.MonkeyPatch) -> None:
    class Refusing:
        def __init__(self, name: None) -> None: ...

        def syscall(self, *arguments: object) -> int:
            return -1

    with_unit.setattr("ctypes.CDLL", Refusing)
    assert not tile_unit.use_tile_unit()
