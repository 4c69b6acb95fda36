"""Graders whose judgement comes from outside: a Python function, a file of human labels."""

from __future__ import annotations

import csv
import hashlib
import importlib
import importlib.util
import inspect
import io
import json
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from toolkit.errors import ToolkitError
from toolkit.grading.base import NO_ANSWER, UNGRADED, Grade, Grader, Key
from toolkit.records import KINDS

Judge = Callable[[str, Sequence[str]], object]  # returns a bool, a number in [0, 1], or None


@dataclass(frozen=True)
class Function(Grader):
    """The value of a Python function of text and references.

    Attributes
    ----------
    target : str or function
        "module:function", importable or in the current folder; "path/file.py:function"; or the function. It
        takes the text and the list of references and returns a bool, a number in [0, 1], or None where it
        cannot say. An answer of None is not shown to it, and is wrong.

    Notes
    -----
    The configuration's hash covers the function's own source, where Python has it, and not what it calls.
    """

    name: ClassVar[str] = "function"
    target: str | Judge

    def __post_init__(self) -> None:
        if not callable(self._function):
            raise ToolkitError(f"{self._named} is {type(self._function).__name__}: give a function")

    def _grade(self, text: str | None, references: Sequence[str], key: Key | None) -> Grade:
        if text is None:
            return NO_ANSWER
        try:
            result = self._function(text, list(references))
        except Exception as error:
            raise ToolkitError(
                f"{self._named} raised {type(error).__name__}: {error} (on the text {text!r:.60})"
            ) from error
        return self._as_grade(result, text)

    def _as_grade(self, result: object, text: str) -> Grade:
        if result is None:
            return UNGRADED
        try:
            value = float(result)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            value = -1.0
        if math.isnan(value):
            return UNGRADED
        if not 0 <= value <= 1:
            raise ToolkitError(
                f"{self._named} returned {result!r:.60}: it may return 0 to 1, a bool, or None"
            )
        return Grade(value, text.strip())

    @property
    def needs_references(self) -> bool:
        return False

    def config(self) -> dict[str, Any]:
        """Name, version, the function's name and a hash of its source."""
        try:
            source: str | None = hashlib.sha256(inspect.getsource(self._function).encode()).hexdigest()[:16]
        except (OSError, TypeError):
            source = None
        return {"grader": self.name, "version": self.version, "target": self._named, "source": source}

    @property
    def _named(self) -> str:
        if isinstance(self.target, str):
            return self.target
        return (
            f"{getattr(self.target, '__module__', '?')}:{getattr(self.target, '__qualname__', self.target)}"
        )

    @cached_property
    def _function(self) -> Judge:
        return _import(self.target) if isinstance(self.target, str) else self.target


def _import(target: str) -> Any:
    module_name, _, name = target.rpartition(":")
    if not module_name or not name:
        raise ToolkitError(f"{target!r} names no function: give module:function or path/file.py:function")
    try:
        module = _file_module(module_name) if module_name.endswith(".py") else _module(module_name)
    except Exception as error:
        raise ToolkitError(
            f"{target}: cannot import {module_name}: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(module, name):
        raise ToolkitError(f"{target}: {module_name} has no {name}")
    return getattr(module, name)


def _module(name: str) -> Any:
    # A command's path holds the folder of the command, not the one that its user is in.
    here = str(Path.cwd())
    if here in sys.path:
        return importlib.import_module(name)
    sys.path.append(here)
    try:
        return importlib.import_module(name)
    finally:
        if here in sys.path:
            sys.path.remove(here)


def _file_module(path: str) -> Any:
    where = hashlib.sha256(str(Path(path).resolve()).encode()).hexdigest()[:8]
    name = f"toolkit_user_{Path(path).stem}_{where}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError("not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # a dataclass looks its own module up
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


_WORDS = dict.fromkeys(("true", "right", "correct", "yes"), 1.0) | dict.fromkeys(
    ("false", "wrong", "incorrect", "no"), 0.0
)


@dataclass(frozen=True)
class Labels(Grader):
    """Human labels from a file.

    Attributes
    ----------
    path : str
        JSONL, or CSV with a header (a name ending in .csv). Columns: prompt_id; value; and for a label of one
        sequence kind and sample_index, or of one wording text. A value is 0 to 1, true or false, right or
        wrong, yes or no; empty or null is "not judged". Other columns are not read.

    Notes
    -----
    The label of the sequence comes first, then that of its prompt and text, then that of its prompt. A
    sequence without any is ungraded.
    """

    name: ClassVar[str] = "labels"
    path: str

    def __post_init__(self) -> None:
        if not self._labels:
            raise ToolkitError(f"{self.path}: no labels in it")

    def _grade(self, text: str | None, references: Sequence[str], key: Key | None) -> Grade:
        if key is None:
            raise ToolkitError("labels are looked up by prompt_id, kind and sample_index: give key")
        answer = text.strip() if text is not None else None
        for name in (key, (key[0], answer), (key[0],)):
            if name in self._labels:
                return Grade(self._labels[name], answer)
        return Grade(math.nan, answer)

    @property
    def needs_references(self) -> bool:
        return False

    def config(self) -> dict[str, Any]:
        """Name, version and a hash of what the labels say, wherever the file is."""
        said = sorted((list(map(str, key)), repr(value)) for key, value in self._labels.items())
        digest = hashlib.sha256(json.dumps(said).encode()).hexdigest()[:16]
        return {"grader": self.name, "version": self.version, "labels": digest}

    @cached_property
    def _labels(self) -> dict[tuple[Any, ...], float]:
        labels: dict[tuple[Any, ...], float] = {}
        for line, row in _rows(self.path):
            key, value = _label_key(row, f"{self.path}:{line}"), _label_value(row, f"{self.path}:{line}")
            before = labels.setdefault(key, value)
            if before != value and not (math.isnan(before) and math.isnan(value)):
                raise ToolkitError(f"{self.path}:{line}: {key} already has the value {before:g}: keep one")
        return labels


def _rows(path: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """(line, columns) of each row of a CSV or JSONL file."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ToolkitError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ToolkitError(f"{path}: not UTF-8: save it as UTF-8") from None
    if Path(path).suffix.lower() == ".csv":
        reader = csv.DictReader(io.StringIO(text, newline=""))
        for row in reader:
            yield reader.line_num, {k: v for k, v in row.items() if v not in ("", None)}
        return
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ToolkitError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise ToolkitError(f"{path}:{number}: {line.strip():.40} is no object: give one with prompt_id")
        yield number, {k: v for k, v in row.items() if v is not None}


def _label_key(row: dict[str, Any], at: str) -> tuple[Any, ...]:
    if "prompt_id" not in row:
        raise ToolkitError(f"{at}: no prompt_id")
    prompt = str(row["prompt_id"])
    if ("kind" in row) != ("sample_index" in row):
        raise ToolkitError(f"{at}: give kind and sample_index, or neither")
    if "kind" not in row:
        return (prompt, str(row["text"]).strip()) if "text" in row else (prompt,)
    if row["kind"] not in KINDS:
        raise ToolkitError(f"{at}: kind is {row['kind']!r}: give one of {', '.join(KINDS)}")
    return (prompt, row["kind"], _sample_index(row["sample_index"], at))


def _sample_index(given: Any, at: str) -> int:
    """A whole number of at least 0; also as 1.0, as which tables with gaps are written."""
    try:
        number = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (number.is_integer() and number >= 0):
        raise ToolkitError(f"{at}: sample_index is {given!r:.40}: give a whole number, from 0")
    return int(number)


def _label_value(row: dict[str, Any], at: str) -> float:
    given = row.get("value")
    if given is None:
        return math.nan
    word = str(given).strip().lower()
    try:
        value = _WORDS[word] if word in _WORDS else float(word)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise ToolkitError(f"{at}: value is {given!r:.40}: give 0 to 1, true or false, or nothing")
    return value
