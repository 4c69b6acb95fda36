"""A checksum of a whole Parquet file, kept inside it.

Parquet's own checksums cover the data of its pages: a bit that flips in a page's header or in the footer can
change what is read without a word. So the footer has 16 hexadecimal digits among its key-value metadata: the
CRC-32 of the footer, taken with the digits as zeros, and the CRC-32 of everything before it. The first is
checked whenever a file is opened, the second where whole runs are checked.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import BinaryIO, NamedTuple

KEY = "toolkit.crc32"
UNSEALED = "0" * 16

# How Thrift's compact protocol writes the pair: the key, the next field as a binary of 16 bytes, the value.
_MARK = KEY.encode() + b"\x18\x10"
_BLOCK = 1 << 20


class _Footer(NamedTuple):
    start: int  # in the file
    content: bytes  # up to the end of the file
    value: int  # where in content the digits are; -1 without any


def seal(path: Path) -> None:
    """Fill in the checksums of a file that was written with `UNSEALED` under `KEY`."""
    with open(path, "r+b") as file:
        footer = _read_footer(file)
        digits = f"{_footer_crc(footer):08x}{_body_crc(file, footer):08x}"
        file.seek(footer.start + footer.value)
        file.write(digits.encode())


def check_seal(path: Path, whole: bool = False) -> bool:
    """Check the footer, and the rest of the file if `whole`.

    Returns
    -------
    bool
        Whether there are checksums; a Parquet file of somebody else's has none.

    Raises
    ------
    ValueError
        The file is not what was written.
    """
    with open(path, "rb") as file:
        footer = _read_footer(file)
        if footer.value < 0:
            return False
        digits = footer.content[footer.value : footer.value + len(UNSEALED)].decode("ascii", "replace")
        if digits[:8] != f"{_footer_crc(footer):08x}":
            raise ValueError("the checksum of its footer is wrong")
        if whole and digits[8:] != f"{_body_crc(file, footer):08x}":
            raise ValueError("the checksum of its pages is wrong")
    return True


def _read_footer(file: BinaryIO) -> _Footer:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - 8, 0))
    tail = file.read()
    start = size - 8 - int.from_bytes(tail[:4], "little")
    if tail[4:] != b"PAR1" or start < 4:
        raise ValueError("it is empty, cut off or no Parquet file")
    file.seek(start)
    content = file.read()
    place = content.rfind(_MARK)
    return _Footer(start, content, place + len(_MARK) if place >= 0 else -1)


def _footer_crc(footer: _Footer) -> int:
    before, after = footer.content[: footer.value], footer.content[footer.value + len(UNSEALED) :]
    return zlib.crc32(after, zlib.crc32(UNSEALED.encode(), zlib.crc32(before)))


def _body_crc(file: BinaryIO, footer: _Footer) -> int:
    file.seek(0)
    crc, left = 0, footer.start
    while left:
        block = file.read(min(_BLOCK, left))
        if not block:
            raise ValueError("it was cut off while it was read")
        crc, left = zlib.crc32(block, crc), left - len(block)
    return crc
