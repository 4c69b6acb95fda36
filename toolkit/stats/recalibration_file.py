"""A fitted recalibration as a JSON file of plain numbers: written whole or not at all, checked when read."""

from __future__ import annotations

import json
import math
import os
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from toolkit.errors import ToolkitError
from toolkit.stats.recalibration import MAPS, RECALIBRATIONS, Map
from toolkit.stats.tally import Floats

FORMAT = "toolkit.recalibration"
VERSION = 1


@dataclass(frozen=True)
class Recalibration:
    """A map, and what it was fitted on.

    Attributes
    ----------
    estimator : str
        The name of the estimator whose values it takes, in the direction where higher is more confident.
    map : Map
    n_units, n_prompts : int
        What it was fitted on.
    """

    estimator: str
    map: Map
    n_units: int
    n_prompts: int

    def __call__(self, confidence: ArrayLike) -> Floats:
        """Probabilities (n,) for confidences (n,) of the estimator; NaN stays NaN."""
        return self.map(confidence)

    def save(self, path: str | Path) -> None:
        """Write to `path`, through a file beside it that then takes its name.

        Raises
        ------
        ToolkitError
            If it cannot be written.
        """
        content = {
            "format": FORMAT,
            "version": VERSION,
            "estimator": self.estimator,
            "method": self.map.method,
            "parameters": dict(vars(self.map)),
            "n_units": self.n_units,
            "n_prompts": self.n_prompts,
        }
        target = Path(path)
        partial = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            partial.write_text(json.dumps(content, indent=1, allow_nan=False) + "\n", encoding="utf-8")
            partial.replace(target)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise ToolkitError(f"{path}: cannot be written: {error.strerror}") from None


def load_recalibration(path: str | Path) -> Recalibration:
    """Read what `Recalibration.save` wrote.

    Raises
    ------
    ToolkitError
        If it cannot be read, is not such a file, is of another version, or a number in it is not possible.
    """
    content = _read(path)
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ToolkitError(f'{path}: no recalibration: its "format" is not {FORMAT!r}')
    if content.get("version") != VERSION:
        raise ToolkitError(
            f"{path}: version {content.get('version')!r}: this toolkit reads version {VERSION}"
        )
    method = content.get("method")
    if method not in RECALIBRATIONS:
        raise ToolkitError(f"{path}: method is {method!r}: one of {', '.join(RECALIBRATIONS)} is possible")
    if not isinstance(content.get("estimator"), str):
        raise ToolkitError(f"{path}: estimator is {content.get('estimator')!r}: it should be a name")
    try:
        fitted = _map(method, content.get("parameters"))
    except ToolkitError as error:
        raise ToolkitError(f"{path}: {error}") from None
    counts = [_count(content, name, path) for name in ("n_units", "n_prompts")]
    return Recalibration(content["estimator"], fitted, *counts)


def _read(path: str | Path) -> Any:
    try:
        return json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise ToolkitError(f"{path}: cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ToolkitError(f"{path}: not JSON: {error}") from None


def _map(method: str, parameters: Any) -> Map:
    kind = MAPS[method]
    names = [f.name for f in fields(kind)]
    if not isinstance(parameters, dict) or sorted(parameters) != sorted(names):
        raise ToolkitError(f"parameters of {method} are {', '.join(names)}, and it has {parameters!r:.80}")
    values = {f.name: _value(parameters[f.name], f.name, many="tuple" in str(f.type)) for f in fields(kind)}
    return kind(**values)  # type: ignore[arg-type]


def _value(given: Any, name: str, *, many: bool) -> float | tuple[float, ...]:
    if not many:
        return _number(given, name)
    if not isinstance(given, list):
        raise ToolkitError(f"{name} is {given!r:.40}: it should be a list of numbers")
    return tuple(_number(item, name) for item in given)


def _number(given: Any, name: str) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float):
        raise ToolkitError(f"{name} holds {given!r:.40}: it should hold finite numbers")
    try:
        value = float(given)
    except OverflowError:
        value = math.inf
    if not math.isfinite(value):
        raise ToolkitError(f"{name} holds a number that is not finite")
    return value


def _count(content: dict[str, Any], name: str, path: str | Path) -> int:
    given = content.get(name)
    if isinstance(given, bool) or not isinstance(given, int) or given < 0:
        raise ToolkitError(f"{path}: {name} is {given!r:.40}: it should be a whole number, 0 or more")
    return given
