"""Where the text of an export goes: a file that is there whole or not at all, or a stream."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

from toolkit.characters import quoted, visible_lines
from toolkit.errors import ToolkitError, argument
from toolkit.store.files import aside, is_stream, writing


def write_export(chunks: Iterable[bytes], output: Path | None) -> None:
    """Write the text of an export, a chunk at a time.

    Parameters
    ----------
    chunks : iterable of bytes
    output : Path, optional
        A file, which is replaced when everything is written and stays as it was after an error; a pipe or a
        device is written to as it is. Standard output by default.

    Raises
    ------
    ToolkitError
        `output` is a folder, or in none that exists.
    DataFault
        The disk is full or read-only.
    """
    if output is None:
        _write(map(_for_terminal, chunks) if sys.stdout.isatty() else chunks, sys.stdout.buffer)
        return
    check_output(output)
    if is_stream(output):
        with output.open("wb") as stream:
            _write(chunks, stream)
        return
    with aside(output) as temporary:
        with writing(output):
            stream = temporary.open("wb")
        with stream:
            _write(chunks, stream, lambda: writing(output))


def _for_terminal(chunk: bytes) -> bytes:
    """Whole lines in which nothing acts on a terminal; a file or a pipe gets them as they are."""
    return visible_lines(chunk.decode("utf-8", "replace")).encode()


def check_output(output: Path) -> None:
    """Raise a ToolkitError where no file can be made."""
    if output.is_dir():
        raise ToolkitError(
            f"{argument('output')}: {quoted(str(output))} is a folder; give the path of a file"
        )
    if not output.parent.is_dir():
        raise ToolkitError(
            f"{argument('output')}: there is no folder {quoted(str(output.parent))}; make it first"
        )


def _write(
    chunks: Iterable[bytes],
    stream: BinaryIO,
    faults: Callable[[], AbstractContextManager[None]] = nullcontext,
) -> None:
    for chunk in chunks:
        with faults():
            stream.write(chunk)
    with faults():
        stream.flush()
