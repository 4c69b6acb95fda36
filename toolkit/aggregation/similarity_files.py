"""Similarities from a file: a row a pair of samples, checked against the run before anything is kept."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from toolkit.aggregation.answer_pairs import Answers
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.store.similarities import PAIRS

COLUMNS = ("prompt_id", "i", "j", "value")
GREEDY = "greedy"
FORMATS = (".csv", ".jsonl", ".ndjson", ".parquet")

Member = tuple[str, int]  # kind and sample_index
_Values = dict[tuple[str, Member, Member], tuple[float, str]]  # by pair: the value, and where it stands


def read_pairs(path: Path, answers: Sequence[Answers]) -> pa.Table:
    """The similarities that a file gives to the pairs of a run, as rows with the columns of `PAIRS`.

    Parameters
    ----------
    path : Path
        .csv with a header, .jsonl or .parquet. Columns: prompt_id; i and j, the sample_index of a sample or
        "greedy"; value, 0 to 1. Others are not read. A pair is there once, or in both orders with one value.
    answers : sequence of Answers
        Of the run.

    Raises
    ------
    ToolkitError
        The file cannot be read; a line has an unknown prompt or sample, or no value from 0 to 1; a pair has
        two values, or none. Pairs with greedy answers may all be missing.
    """
    known = {one.prompt_id: one for one in answers}
    kinds = {kind for one in answers for kind, _ in one.members if kind != GREEDY}
    found: _Values = {}
    for where, row in _rows(path):
        prompt = _prompt(where, row, known)
        first, second = (_member(where, row, name, known[prompt], kinds) for name in ("i", "j"))
        _add(found, where, prompt, first, second, _value(where, row))
    rows = [row for one in answers for row in _pairs(path, one, found, _has_greedy(found))]
    columns = zip(*rows, strict=True) if rows else ([] for _ in PAIRS.names)
    return pa.table(dict(zip(PAIRS.names, map(list, columns), strict=True)), schema=PAIRS)


def _rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """(file:line, columns) of each row."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise ToolkitError(f"{path}: its name ends in {quoted(ending)}: give one of {', '.join(FORMATS)}")
    if ending == ".parquet":
        yield from _parquet_rows(path)
        return
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ToolkitError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ToolkitError(f"{path}: not UTF-8: save it as UTF-8") from None
    yield from _csv_rows(path, text) if ending == ".csv" else _json_rows(path, text)


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    reader = csv.DictReader(io.StringIO(text, newline=""))
    _check_columns(path, reader.fieldnames or ())
    try:
        for row in reader:
            yield f"{path}:{reader.line_num}", dict(row)
    except csv.Error as error:
        raise ToolkitError(f"{path}:{reader.line_num}: not CSV: {error}") from None


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ToolkitError(f"{path}:{number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise ToolkitError(
                f"{path}:{number}: {quoted(line.strip())} is no object with {', '.join(COLUMNS)}"
            )
        yield f"{path}:{number}", row


def _parquet_rows(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    try:
        _check_columns(path, pq.read_schema(path).names)
        rows = pq.read_table(path, columns=list(COLUMNS)).to_pylist()
    except OSError as error:
        reason = error.strerror or str(error).partition("\n")[0]
        raise ToolkitError(f"{path}: cannot be read: {reason}") from None
    except pa.ArrowException as error:
        raise ToolkitError(f"{path}: is no Parquet file: {str(error).partition(chr(10))[0]}") from None
    for number, row in enumerate(rows, start=1):
        yield f"{path}, row {number}", row


def _check_columns(path: Path, names: Sequence[str]) -> None:
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise ToolkitError(f"{path}: it has no column {missing[0]}: give {', '.join(COLUMNS)}")


def _get(where: str, row: dict[str, Any], name: str) -> Any:
    value = row.get(name)
    if value is None or value == "":
        raise ToolkitError(f"{where}: there is no {name}: give {', '.join(COLUMNS)}")
    return value


def _prompt(where: str, row: dict[str, Any], known: dict[str, Answers]) -> str:
    prompt = str(_get(where, row, "prompt_id"))
    if prompt not in known:
        raise ToolkitError(
            f"{where}: prompt_id {quoted(prompt)} is not in the run, or has no samples: leave it out"
        )
    return prompt


def _member(where: str, row: dict[str, Any], name: str, one: Answers, kinds: set[str]) -> Member:
    given = _get(where, row, name)
    if given == GREEDY:
        found = [member for member in one.members if member[0] == GREEDY]
    else:
        found = [member for member in one.members if member[0] in kinds and member[1] == _integer(given)]
    if not found:
        indices = [str(index) for kind, index in one.members if kind in kinds]
        also = f" or {GREEDY}" if any(kind == GREEDY for kind, _ in one.members) else ""
        raise ToolkitError(
            f"{where}: {name} {quoted(str(given))} is no sample of prompt {quoted(one.prompt_id)}: give a "
            f"sample_index, {indices[0] if indices else 0} to {indices[-1] if indices else 0}{also}"
        )
    return found[0]


def _integer(given: Any) -> int | None:
    """A whole number, also as 1.0, as which tables with gaps are written."""
    try:
        number = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        return None
    return int(number) if number.is_integer() else None


def _value(where: str, row: dict[str, Any]) -> float:
    given = _get(where, row, "value")
    try:
        value = math.nan if isinstance(given, bool) else float(given)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not 0 <= value <= 1:
        raise ToolkitError(f"{where}: value {quoted(str(given))} is no similarity: give a number from 0 to 1")
    return value


def _add(found: _Values, where: str, prompt: str, first: Member, second: Member, value: float) -> None:
    if first == second:
        if value != 1:
            raise ToolkitError(f"{where}: value {value:g} of a sample with itself: give 1, or leave it out")
        return
    low, high = sorted((first, second))
    before, place = found.setdefault((prompt, low, high), (value, where))
    if before != value:
        raise ToolkitError(
            f"{where}: value {value:g} of {_named(first)} and {_named(second)} of prompt {quoted(prompt)}, which "
            f"have {before:g} at {place}: give one value a pair, such as the mean of both"
        )


def _has_greedy(found: _Values) -> bool:
    return any(GREEDY in (first[0], second[0]) for _, first, second in found)


def _pairs(path: Path, one: Answers, found: _Values, greedy: bool) -> Iterator[tuple[Any, ...]]:
    """The rows of a prompt, none missing; those of its greedy answer only where the file has any."""
    members = [member for member in sorted(one.members) if greedy or member[0] != GREEDY]
    for first, second in combinations(members, 2):
        if (one.prompt_id, first, second) not in found:
            raise ToolkitError(
                f"{path}: there is no value of {_named(first)} and {_named(second)} of prompt "
                f"{quoted(one.prompt_id)}: give one for every pair of its samples"
            )
        yield (one.prompt_id, *first, *second, found[one.prompt_id, first, second][0])


def _named(member: Member) -> str:
    return GREEDY if member[0] == GREEDY else f"sample {member[1]}"
