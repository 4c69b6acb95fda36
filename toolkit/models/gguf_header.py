"""Read the header of a GGUF file with every length checked against the file.

`mlx.core.load` trusts what a GGUF says of itself: a wrong count or a huge string ends the process, and
a type it does not know is read as another. This reader runs before it. It knows the format only, and
nothing of models: metadata and a list of tensors go out, the first fault is a ToolkitError.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
"""

from __future__ import annotations

import math
import mmap
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from toolkit.errors import ToolkitError

MAX_KEY_BYTES = 65_535  # of the format
MAX_NAME_BYTES = 255  # the format says 64; some writers go over it
MAX_DIMENSIONS = 4
MAX_ALIGNMENT = 1 << 20
DEFAULT_ALIGNMENT = 32
LONGEST_MESSAGE = 200  # characters of a fault, which may hold names out of the file
SMALLEST_PAIR = 8 + 1 + 4 + 1  # bytes of a metadata entry: key length, key, type, value
SMALLEST_TENSOR = 8 + 1 + 4 + 8 + 4 + 8  # name length, name, dimensions, one of them, type, offset

# Numbers of the metadata types, and their NumPy dtypes
UINT32, STRING, ARRAY = 4, 8, 9
UNSIGNED = {0: "u1", 2: "<u2", 4: "<u4", 10: "<u8"}
SIGNED = {1: "i1", 3: "<i2", 5: "<i4", 11: "<i8"}
SCALARS = {**UNSIGNED, **SIGNED, 6: "<f4", 7: "?", 12: "<f8"}


class BlockType(NamedTuple):
    """How a tensor type is laid out: `n_values` values in `n_bytes` bytes."""

    name: str
    n_values: int
    n_bytes: int


TENSOR_TYPES = {
    0: BlockType("F32", 1, 4),
    1: BlockType("F16", 1, 2),
    2: BlockType("Q4_0", 32, 18),
    3: BlockType("Q4_1", 32, 20),
    6: BlockType("Q5_0", 32, 22),
    7: BlockType("Q5_1", 32, 24),
    8: BlockType("Q8_0", 32, 34),
    9: BlockType("Q8_1", 32, 36),
    10: BlockType("Q2_K", 256, 84),
    11: BlockType("Q3_K", 256, 110),
    12: BlockType("Q4_K", 256, 144),
    13: BlockType("Q5_K", 256, 176),
    14: BlockType("Q6_K", 256, 210),
    15: BlockType("Q8_K", 256, 292),
    16: BlockType("IQ2_XXS", 256, 66),
    17: BlockType("IQ2_XS", 256, 74),
    18: BlockType("IQ3_XXS", 256, 98),
    19: BlockType("IQ1_S", 256, 50),
    20: BlockType("IQ4_NL", 32, 18),
    21: BlockType("IQ3_S", 256, 110),
    22: BlockType("IQ2_S", 256, 82),
    23: BlockType("IQ4_XS", 256, 136),
    24: BlockType("I8", 1, 1),
    25: BlockType("I16", 1, 2),
    26: BlockType("I32", 1, 4),
    27: BlockType("I64", 1, 8),
    28: BlockType("F64", 1, 8),
    29: BlockType("IQ1_M", 256, 56),
    30: BlockType("BF16", 1, 2),
    34: BlockType("TQ1_0", 256, 54),
    35: BlockType("TQ2_0", 256, 66),
    39: BlockType("MXFP4", 32, 17),
}


class TensorInfo(NamedTuple):
    """A tensor as the header describes it."""

    name: str
    shape: tuple[int, ...]  # rows first, as in NumPy; the file has it the other way round
    type_name: str
    offset: int  # bytes from the start of the file
    n_bytes: int


@dataclass(frozen=True)
class GgufHeader:
    """What a GGUF file says of itself, checked.

    Metadata values are int, float, bool, str, a list of str, or a one-dimensional NumPy array.
    """

    path: Path
    version: int
    metadata: dict[str, Any]
    tensors: dict[str, TensorInfo]

    def get(self, key: str, kind: type, default: Any = None) -> Any:
        """A metadata value, or `default` where the file is silent; a ToolkitError if it is not of `kind`."""
        value = self.metadata.get(key)
        if value is None:
            return default
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise damaged(self.path, f"{key} is {value!r}, and a {kind.__name__} is expected")
        return value


def damaged(path: Path, what: str) -> ToolkitError:
    """The error for a file that contradicts itself or its format."""
    what = what[:LONGEST_MESSAGE]
    return ToolkitError(f"{path}: damaged GGUF: {what}; fetch or convert the file again")


def read_header(path: str | Path) -> GgufHeader:
    """Read and check the header of a GGUF file.

    Parameters
    ----------
    path : str or Path
        A file of GGUF version 2 or 3, little-endian.

    Returns
    -------
    GgufHeader

    Raises
    ------
    ToolkitError
        If the file cannot be read, is no GGUF, or is damaged: a count, length, type, dimension or
        offset that does not fit the file. Memory taken is bounded by the file's size.
    """
    path = Path(path)
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Reader(path, data).header()
    except OSError as error:
        raise ToolkitError(f"{path}: cannot read this file: {error.strerror or error}") from error
    except ValueError as error:  # mmap of an empty file
        raise ToolkitError(f"{path}: not a GGUF file: it is empty") from error


class _Reader:
    """A position in the file. Every read is checked against the end."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.at = 0

    def fault(self, what: str) -> NoReturn:
        raise damaged(self.path, what)

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, n_bytes: int, what: str) -> bytes:
        if n_bytes > self.left:
            self.fault(f"{what} needs {n_bytes} bytes at {self.at}, and {self.left} are left")
        self.at += n_bytes
        return self.data[self.at - n_bytes : self.at]

    def u32(self, what: str) -> int:
        return int(struct.unpack("<I", self.take(4, what))[0])

    def u64(self, what: str) -> int:
        return int(struct.unpack("<Q", self.take(8, what))[0])

    def count(self, what: str, smallest: int, at_most: int | None = None) -> int:
        """A count of things of at least `smallest` bytes each, which must fit into the file."""
        n = self.u64(what)
        if n * smallest > self.left or (at_most is not None and n > at_most):
            self.fault(f"{what} is {n}, more than the file can hold")
        return n

    def string(self, what: str, at_most: int | None = None) -> str:
        raw = self.take(self.count(f"length of {what}", 1, at_most), what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.fault(f"{what} is not UTF-8")

    def value(self, kind: int, key: str) -> Any:
        what = f"the value of {key!r}"
        if kind == STRING:
            return self.string(what)
        if kind == ARRAY:
            return self.array(what)
        return self.numbers(kind, 1, what)[0].item()

    def array(self, what: str) -> Any:
        kind = self.u32(f"element type of {what}")
        if kind == STRING:
            return [self.string(what) for _ in range(self.count(f"length of {what}", 8))]
        if kind not in SCALARS:
            self.fault(f"{what} has elements of type {kind}; known are {sorted(SCALARS)} and {STRING}")
        return self.numbers(kind, self.count(f"length of {what}", np.dtype(SCALARS[kind]).itemsize), what)

    def numbers(self, kind: int, n: int, what: str) -> np.ndarray[Any, Any]:
        if kind not in SCALARS:
            self.fault(f"{what} has type {kind}; known are {sorted([*SCALARS, STRING, ARRAY])}")
        dtype = np.dtype(SCALARS[kind])
        raw = self.take(n * dtype.itemsize, what)
        if dtype == np.bool_ and raw.strip(b"\x00\x01"):
            self.fault(f"{what} is a bool that is neither 0 nor 1")
        return np.frombuffer(raw, dtype)

    def header(self) -> GgufHeader:
        if self.data[:4] != b"GGUF":
            raise ToolkitError(f"{self.path}: not a GGUF file: it begins with {self.data[:4]!r}")
        self.at = 4
        version = self.u32("version")
        if version not in (2, 3):
            self.fault(f"version is {version}; little-endian 2 and 3 can be read")
        n_tensors = self.count("number of tensors", SMALLEST_TENSOR)
        metadata = self.metadata(self.count("number of metadata entries", SMALLEST_PAIR))
        alignment = metadata.get("general.alignment", DEFAULT_ALIGNMENT)
        if alignment % 8 or not 0 < alignment <= MAX_ALIGNMENT:
            self.fault(f"general.alignment is {alignment}; it is a multiple of 8 up to {MAX_ALIGNMENT}")
        tensors = [self.tensor(alignment) for _ in range(n_tensors)]
        start = -(-self.at // alignment) * alignment
        placed = [tensor._replace(offset=tensor.offset + start) for tensor in tensors]
        self.check_places(placed)
        return GgufHeader(self.path, version, metadata, {tensor.name: tensor for tensor in placed})

    def metadata(self, n: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for _ in range(n):
            key = self.string("a metadata key", MAX_KEY_BYTES)
            if key in found:
                self.fault(f"metadata key {key!r} occurs twice")
            kind = self.u32(f"type of {key!r}")
            if key == "general.alignment" and kind != UINT32:
                self.fault("general.alignment is not an unsigned 32-bit number")
            found[key] = self.value(kind, key)
        return found

    def tensor(self, alignment: int) -> TensorInfo:
        """One entry of the list of tensors; its offset counts from the start of the data."""
        name = self.string("a tensor name", MAX_NAME_BYTES)
        n_dimensions = self.u32(f"number of dimensions of {name!r}")
        if not 1 <= n_dimensions <= MAX_DIMENSIONS:
            self.fault(f"{name!r} has {n_dimensions} dimensions; 1 to {MAX_DIMENSIONS} are allowed")
        shape = tuple(self.u64(f"a dimension of {name!r}") for _ in range(n_dimensions))[::-1]
        type_number = self.u32(f"type of {name!r}")
        if type_number not in TENSOR_TYPES:
            self.fault(f"{name!r} has the unknown type {type_number}")
        type_name, n_values, n_bytes = TENSOR_TYPES[type_number]
        if 0 in shape or shape[-1] % n_values:
            self.fault(f"{name!r} ({type_name}) has the shape {shape}; rows are multiples of {n_values}")
        offset = self.u64(f"offset of {name!r}")
        if offset % alignment:
            self.fault(f"{name!r} begins at {offset}, which is no multiple of {alignment}")
        return TensorInfo(name, shape, type_name, offset, math.prod(shape) // n_values * n_bytes)

    def check_places(self, tensors: list[TensorInfo]) -> None:
        """Names are unique; tensors lie inside the file and do not overlap."""
        end = 0
        for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
            if tensor.offset < end:
                self.fault(f"{tensor.name!r} overlaps the tensor before it")
            end = tensor.offset + tensor.n_bytes
            if end > len(self.data):
                self.fault(f"{tensor.name!r} ends at {end}, and the file at {len(self.data)}")
        if len({tensor.name for tensor in tensors}) < len(tensors):
            self.fault("two tensors have the same name")
