"""What a crash or a bad disk left in a run: parts that cannot be read are found and moved aside."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from toolkit.errors import DataFault
from toolkit.store.layout import committed_parts, part_path, set_aside
from toolkit.store.manifest import Manifest, read_manifest
from toolkit.store.parquet import TableFile
from toolkit.store.schemas import GROUPS


class Damage(NamedTuple):
    """A part that cannot be read, and why."""

    group: str
    part: str
    message: str


def find_damage(run: Path) -> Iterator[Damage]:
    """Read every file of every part; its checksum tells whether it is what was written.

    Reading costs some millionth of the time that collecting took.
    """
    manifest = read_manifest(run)
    for group in GROUPS:
        for part in committed_parts(run, group):
            try:
                _check(run, manifest, group, part)
            except DataFault as fault:
                yield Damage(group, part, str(fault))


def move_damage_aside(run: Path) -> list[Damage]:
    """Move the files of unreadable parts into the run's folder `damaged`: their rows are not collected."""
    found = list(find_damage(run))
    for damage in found:
        set_aside(run, damage.group, damage.part)
    return found


def _check(run: Path, manifest: Manifest, group: str, part: str) -> None:
    shapes = set()
    for table in manifest.tables_of(group):
        path = part_path(run, table, part)
        with TableFile(path, table, whole=True) as file:
            shapes.add(file.n_groups)
    if len(shapes) > 1:
        raise DataFault(f"{part_path(run, group, part)} and the other files of its part differ in row groups")
