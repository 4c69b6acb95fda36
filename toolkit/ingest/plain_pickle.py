"""Plain data from a pickle, which is read and never run: numbers, texts, containers and arrays of NumPy.

A pickle is a program for a small machine, and may call anything. Here its instructions are listed by
`pickletools`, which runs none, and the few that plain data needs are done here, without importing or calling
what a pickle names. Everything else is refused by its name.
"""

from __future__ import annotations

import pickletools
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from toolkit.characters import quoted
from toolkit.collect.json_lines import fail, located, source_name

_ARCHIVED = "data.pkl"  # where torch.save puts it inside its zip
_LARGEST = 4 << 30  # bytes
_MARK = object()


class _Name(NamedTuple):
    """A function or class that a pickle names; it is never looked up."""

    module: str
    name: str

    def __str__(self) -> str:
        return f"{self.module}.{self.name}"


class _Type:
    """A dtype that is being described; only plain numbers, texts and objects are made."""

    def __init__(self, code: str) -> None:
        self.code = code
        self.order = "="

    def made(self) -> np.dtype[Any]:
        if self.code[:1] not in "biufcSUO" or not (self.code[1:] or "0").isdecimal():
            fail(f"holds an array of the type {quoted(self.code)}, which is not plain")
        return np.dtype("O" if self.code[0] == "O" else self.order.replace("|", "=") + self.code)


class _Array:
    """An array that is not filled yet, and the places of the memo that hold it."""

    def __init__(self) -> None:
        self.memo: list[int] = []


def read_plain(path: Path) -> Any:
    """The data of a pickle, or of a file of `torch.save`, without running it.

    Raises
    ------
    ToolkitError
        It is neither, is damaged, or holds something that is not plain: the message names what.
    """
    with located(source_name(path)):
        return _Machine().run(_content(path))


def _content(path: Path) -> bytes:
    if not zipfile.is_zipfile(path):
        return path.read_bytes()
    try:
        with zipfile.ZipFile(path) as archive:
            inside = [one for one in archive.infolist() if one.filename.rpartition("/")[2] == _ARCHIVED]
            if not inside:
                fail(f"a zip without {_ARCHIVED}, so not of torch.save")
            if inside[0].file_size > _LARGEST:
                fail(f"its {_ARCHIVED} is larger than {_LARGEST >> 30} GiB")
            return archive.read(inside[0])
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError) as error:
        fail(f"a damaged zip ({str(error)[:60]})")


class _Machine:
    """The stack, its marks and the memo of a pickle."""

    def __init__(self) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}

    def run(self, data: bytes) -> Any:
        try:
            for opcode, value, _ in pickletools.genops(data):
                if opcode.name == "STOP":
                    return self._stack[-1]
                self._do(opcode.name, value)
        except (ValueError, IndexError, KeyError, TypeError, AttributeError, OverflowError) as error:
            fail(
                f"no pickle, or a damaged one ({str(error).splitlines()[0][:60] if str(error) else 'cut off'})"
            )
        fail("a pickle that was cut off")

    def _do(self, name: str, value: Any) -> None:
        if name in _IGNORED:
            return
        if name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name]())
        elif name in _VALUES:
            self._stack.append(bytearray(value) if name == "BYTEARRAY8" else value)
        elif name in _ACTIONS:
            _ACTIONS[name](self, value)
        else:
            fail(
                f"holds something that is not plain (the instruction {name}); save lists, numbers and arrays"
            )

    def _marked(self) -> list[Any]:
        """What is above the last mark, which is taken away with it."""
        place = len(self._stack) - 1
        while self._stack[place] is not _MARK:
            place -= 1
            if place < 0:
                raise IndexError("a mark is missing")
        found = self._stack[place + 1 :]
        del self._stack[place:]
        return found

    def _push_marked(self, make: Callable[[list[Any]], Any]) -> None:
        self._stack.append(make(self._marked()))

    def _push_popped(self, n: int) -> None:
        found = tuple(self._stack[-n:])
        del self._stack[-n:]
        self._stack.append(found)

    def _extend(self, items: list[Any]) -> None:
        top = self._stack[-1]
        if isinstance(top, set):
            top.update(items)
        elif isinstance(top, list):
            top.extend(items)
        else:
            raise TypeError(f"a {type(top).__name__} that is appended to")

    def _set(self, items: list[Any]) -> None:
        top = self._stack[-1]
        if not isinstance(top, dict):
            raise TypeError(f"a {type(top).__name__} whose items are set")
        top.update(zip(items[::2], items[1::2], strict=True))

    def _remember(self, key: int) -> None:
        top = self._memo[key] = self._stack[-1]
        if isinstance(top, _Array):
            top.memo.append(key)

    def _name(self) -> None:
        name, module = self._stack.pop(), self._stack.pop()
        if not (isinstance(name, str) and isinstance(module, str)):
            raise TypeError("a name that is no text")
        self._stack.append(_Name(module, name))

    def _call(self) -> None:
        arguments, function = self._stack.pop(), self._stack.pop()
        if not isinstance(function, _Name) or not isinstance(arguments, tuple):
            raise TypeError("a call of something that is no name")
        self._stack.append(_called(function, arguments))

    def _build(self) -> None:
        state, top = self._stack.pop(), self._stack[-1]
        if isinstance(top, _Type):
            if state[2:5] != (None, None, None):
                fail("holds an array with fields, which is not plain")
            top.order = state[1]
        elif isinstance(top, _Array):
            _, shape, kind, by_columns, data = state
            made = _array(data, kind, shape, "F" if by_columns else "C")
            self._stack[-1] = made
            self._memo.update(dict.fromkeys(top.memo, made))
        else:
            fail(f"holds an object with a state ({type(top).__name__}), which is not plain")


def _called(function: _Name, arguments: tuple[Any, ...]) -> Any:
    """What the calls of plain data make; nothing else is called."""
    module, name = function
    if module == "collections" and name in ("OrderedDict", "defaultdict"):
        inner = [one for one in arguments if not isinstance(one, _Name)]
        return dict(*inner)
    if module in ("builtins", "__builtin__") and name in _MAKERS:
        if any(isinstance(one, int) for one in arguments):  # bytes(n) would be n zeros
            raise TypeError(f"a {name} of a number")
        return _MAKERS[name](*arguments)
    if function == ("_codecs", "encode"):
        return arguments[0].encode("latin-1")
    if module.partition(".")[0] == "numpy":
        return _of_numpy(function, arguments)
    return _refuse(function)


def _of_numpy(function: _Name, arguments: tuple[Any, ...]) -> Any:
    name = function.name
    if function == ("numpy", "dtype"):
        return _Type(arguments[0].lstrip("<>=|"))
    if name == "_reconstruct" and arguments[0] == ("numpy", "ndarray"):
        return _Array()
    if name == "scalar" and len(arguments) == 2:
        return _array(arguments[1], arguments[0], (), "C").item()
    if name == "_frombuffer":
        return _array(bytes(arguments[0]), arguments[1], arguments[2], arguments[3])
    return _refuse(function)


def _array(data: Any, kind: Any, shape: Any, order: Any) -> Any:
    """An array of bytes, or nested lists of one of objects."""
    if not isinstance(kind, _Type) or not isinstance(shape, tuple) or order not in ("C", "F"):
        raise TypeError("an array whose type or shape is none")
    made = kind.made()
    if made.hasobject:
        if not isinstance(data, list):
            raise TypeError("an array of objects without them")
        flat = np.empty(len(data), object)
        flat[:] = data
        return flat.reshape(shape, order=order).tolist()
    return np.frombuffer(bytes(data), made).reshape(shape, order=order).copy()


def _refuse(function: _Name) -> Any:
    fail(
        f"holds {quoted(str(function))}, which is not plain, and it is not run: save numbers, texts, lists, "
        "dictionaries and arrays of NumPy (a tensor as .tolist() or .numpy())"
    )


_MAKERS: dict[str, Callable[..., Any]] = {
    "set": set,
    "frozenset": frozenset,
    "list": list,
    "tuple": tuple,
    "complex": complex,
    "bytes": bytes,
    "bytearray": bytearray,
}
_IGNORED = {"PROTO", "FRAME"}
_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_LIST": list,
    "EMPTY_DICT": dict,
    "EMPTY_TUPLE": tuple,
    "EMPTY_SET": set,
    "MARK": lambda: _MARK,
}
_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
}
_ACTIONS: dict[str, Callable[[_Machine, Any], Any]] = {
    "POP": lambda machine, _: machine._stack.pop(),
    "POP_MARK": lambda machine, _: machine._marked(),
    "DUP": lambda machine, _: machine._stack.append(machine._stack[-1]),
    "LIST": lambda machine, _: machine._push_marked(list),
    "TUPLE": lambda machine, _: machine._push_marked(tuple),
    "FROZENSET": lambda machine, _: machine._push_marked(frozenset),
    "DICT": lambda machine, _: machine._push_marked(
        lambda items: dict(zip(items[::2], items[1::2], strict=True))
    ),
    "TUPLE1": lambda machine, _: machine._push_popped(1),
    "TUPLE2": lambda machine, _: machine._push_popped(2),
    "TUPLE3": lambda machine, _: machine._push_popped(3),
    "APPEND": lambda machine, _: machine._extend([machine._stack.pop()]),
    "APPENDS": lambda machine, _: machine._extend(machine._marked()),
    "ADDITEMS": lambda machine, _: machine._extend(machine._marked()),
    "SETITEM": lambda machine, _: machine._set([*reversed([machine._stack.pop(), machine._stack.pop()])]),
    "SETITEMS": lambda machine, _: machine._set(machine._marked()),
    "PUT": lambda machine, key: machine._remember(key),
    "BINPUT": lambda machine, key: machine._remember(key),
    "LONG_BINPUT": lambda machine, key: machine._remember(key),
    "MEMOIZE": lambda machine, _: machine._remember(len(machine._memo)),
    "GET": lambda machine, key: machine._stack.append(machine._memo[key]),
    "BINGET": lambda machine, key: machine._stack.append(machine._memo[key]),
    "LONG_BINGET": lambda machine, key: machine._stack.append(machine._memo[key]),
    "GLOBAL": lambda machine, names: machine._stack.append(_Name(*names.split(" ", 1))),
    "STACK_GLOBAL": lambda machine, _: machine._name(),
    "REDUCE": lambda machine, _: machine._call(),
    "BUILD": lambda machine, _: machine._build(),
    "BINPERSID": lambda machine, _: _refuse(_stored(machine._stack[-1])),
}


def _stored(value: Any) -> _Name:
    """What a file of torch.save keeps outside its pickle: the storage of a tensor."""
    names = [one for one in value if isinstance(one, _Name)] if isinstance(value, tuple) else []
    return names[0] if names else _Name("a", "persistent object")
