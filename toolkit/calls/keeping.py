"""Rows of a table beside a run, written from time to time as they come, and whatever ends it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from toolkit.collect.collector import COMMIT_SECONDS
from toolkit.collect.interrupts import deferred
from toolkit.collect.progress import Progress
from toolkit.store.beside import write_beside


class Keeping:
    """A table beside a run, and the rows of it that are not written yet.

    Parameters
    ----------
    run : Path
    table : str
    rows : Table
        What is there already and stays.
    settings : Mapping
        Written with the rows.
    """

    def __init__(self, run: Path, table: str, rows: pa.Table, settings: Mapping[str, Any]) -> None:
        self._run, self._table, self._rows, self._settings = run, table, rows, settings
        self._pending: list[pa.Table] = []

    def keep(self, found: Iterable[tuple[pa.Table, int]], display: Progress | None) -> bool:
        """Keep all rows that come, each with the tokens that were read for them; False where it was interrupted."""
        written = time.monotonic()
        try:
            for rows, n_read in found:
                self._pending.append(rows)
                if display is not None:
                    display.update(1, n_read)
                if time.monotonic() - written >= COMMIT_SECONDS:
                    self._write()
                    written = time.monotonic()
        except KeyboardInterrupt:
            return False
        finally:
            with deferred():
                self._write()
            if display is not None:
                display.close()
        return True

    def _write(self) -> None:
        if self._pending:
            self._rows = pa.concat_tables([self._rows, *self._pending])
            write_beside(self._run, self._table, self._rows, self._settings)
            self._pending = []
