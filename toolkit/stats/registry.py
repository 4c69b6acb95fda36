"""The register of estimators: what each is called, reads, means and accepts.

It knows nothing of their formulas. A user adds one so:

    @register("mean_gap", inputs=("top1_logprob", "logprob"), higher_is_confident=False,
              range=(0, math.inf), source="ours")
    def mean_gap(columns: Columns, ranges: Ranges) -> NDArray[np.float64]:
        '''Mean of how much more likely the most likely token was, in nats.'''
        return ranges.mean(columns["top1_logprob"] - columns["logprob"])

and then `get("mean_gap")` is an estimator like any other. Keyword-only arguments of the function are its
parameters: `get("min_k_percent(0.1)")`, `get("lowest_window(window=64)")`.
"""

from __future__ import annotations

import ast
import difflib
import inspect
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from types import UnionType
from typing import Any, Literal, TypeVar

import numpy as np

from toolkit.characters import quoted
from toolkit.errors import ToolkitError

Level = Literal["token-span", "samples", "asked"]
LEVELS: tuple[Level, ...] = ("token-span", "samples", "asked")
Inputs = tuple[str, ...] | Callable[..., tuple[str, ...]]
F = TypeVar("F", bound=Callable[..., Any])

_ESTIMATORS: dict[str, Estimator] = {}


@dataclass(frozen=True)
class Estimator:
    """A formula with its parameters bound, ready to be called.

    A token-span estimator is called with (columns, ranges) and returns (n_spans,) float64. A samples
    estimator is called with a `Samples` record and returns a float. An asked one is called with (columns,
    questions), columns of what was put beside a run, and returns a value a row.
    """

    name: str
    function: Callable[..., Any]
    level: Level
    inputs: tuple[str, ...]  # columns of the tokens table, fields of Samples, or TABLE.COLUMN
    higher_is_confident: bool
    range: tuple[float, float]  # the smallest and largest value there can be
    source: str  # authors, year, arXiv or DOI
    parameters: Mapping[str, Any] = field(default_factory=dict)  # all of them, as bound
    inputs_of: Callable[..., tuple[str, ...]] | None = field(default=None, repr=False)

    @property
    def summary(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @cached_property
    def label(self) -> str:
        """The name with the parameters that are not the default; `get(label)` gives this estimator again."""
        defaults = {p.name: p.default for p in _signature(self.function)}
        changed = [f"{k}={_spell(v)}" for k, v in self.parameters.items() if v != defaults[k]]
        return f"{self.name}({', '.join(changed)})" if changed else self.name

    def bind(self, *positional: Any, **named: Any) -> Estimator:
        """The same estimator with other parameters, given in order or by name.

        Raises
        ------
        ToolkitError
            For a parameter that there is not, or a value of the wrong kind.
        """
        if not positional and not named:
            return self
        accepted = _signature(self.function)
        if len(positional) > len(accepted):
            raise ToolkitError(f"{self.name} takes {_describe(accepted)}: got {len(positional)} values")
        given = dict(zip((p.name for p in accepted), positional, strict=False))
        for key in named:
            if key in given:
                raise ToolkitError(f"{self.name}: {key} is given twice")
        given |= named
        given = {
            key: value.item() if isinstance(value, np.generic) else value for key, value in given.items()
        }
        hints = _hints(self.function) if given else {}
        for key, value in given.items():
            if key not in self.parameters:
                raise ToolkitError(f"{self.name} has no parameter {key!r}: it takes {_describe(accepted)}")
            if not _fits(value, hints.get(key, Any)):
                raise ToolkitError(f"{self.name}: {key} must be {_kind(hints[key])}, not {value!r}")
        parameters = {**self.parameters, **given}
        inputs = self.inputs if self.inputs_of is None else self.inputs_of(**parameters)
        return replace(self, parameters=parameters, inputs=inputs)

    def __call__(self, *args: Any) -> Any:
        """Evaluate: (samples) for a samples estimator, (columns, ranges) for the others.

        Raises
        ------
        ToolkitError
            Where an input is missing.
        """
        if self.level != "samples":
            return self.function(*args, **self.parameters)
        (samples,) = args
        values = {name: getattr(samples, name) for name in self.inputs}
        missing = [name for name, value in values.items() if value is None]
        if missing:
            raise ToolkitError(
                f"{self.label} needs {', '.join(missing)} of the samples, which were not given"
            )
        return self.function(**values, **self.parameters)


def register(
    name: str,
    *,
    inputs: Inputs,
    higher_is_confident: bool,
    range: tuple[float, float],
    source: str,
    level: Level = "token-span",
) -> Callable[[F], F]:
    """Decorator that makes a function an estimator under `name`; the function stays what it was.

    Parameters
    ----------
    name : an identifier that is not taken
    inputs : columns of the tokens table, fields of `Samples`, or "TABLE.COLUMN" of a table beside the run, which
        the function reads; or a function from the parameters to them, where they depend on the parameters
    higher_is_confident : whether a larger value means that the model was surer
    range : smallest and largest value
    source : authors, year, arXiv or DOI
    level : "token-span", a function of (columns, ranges); "samples", a function with an argument for each input;
        or "asked", a function of (columns, ranges) of rows beside a run, a range a prompt, that gives a value a
        row. Parameters are keyword-only arguments with defaults.

    Raises
    ------
    ToolkitError
        For a name that is no identifier or belongs to another function, or inputs that are not as the level has
        them.
    """
    if not name.isidentifier():
        raise ToolkitError(f"estimator name {name!r} must be an identifier, such as mean_logprob")
    if level not in LEVELS:
        raise ToolkitError(f"estimator {name}: level must be one of {', '.join(LEVELS)}, not {level!r}")

    def add(function: F) -> F:
        taken = _ESTIMATORS.get(name)
        if taken is not None and _origin(taken.function) != _origin(function):
            raise ToolkitError(
                f"estimator {name!r} is already {_origin(taken.function)}: choose another name"
            )
        parameters = {p.name: p.default for p in _signature(function)}
        if inspect.Parameter.empty in parameters.values():
            raise ToolkitError(f"estimator {name}: every keyword-only argument needs a default")
        reads, inputs_of = (inputs(**parameters), inputs) if callable(inputs) else (tuple(inputs), None)
        if level == "asked" and len({one.partition(".")[0] for one in reads if "." in one}) != 1:
            raise ToolkitError(
                f"estimator {name}: inputs must be TABLE.COLUMN, of one table, not {', '.join(reads)}"
            )
        _ESTIMATORS[name] = Estimator(
            name, function, level, reads, higher_is_confident, range, source, parameters, inputs_of
        )
        return function

    return add


def get(text: str) -> Estimator:
    """The estimator that `text` names, its parameters bound: "mean_logprob", "min_k_percent(0.1)",
    "semantic_entropy(variant=farquhar, unique=True)".

    Words, numbers (also inf and -inf), quoted strings, True and False are values; nothing is evaluated.

    Raises
    ------
    ToolkitError
        For an unknown name (the message has those that are close), an unknown parameter, a value of the wrong
        kind, or anything that is not of this form.
    """
    name, positional, named = _parse(text)
    if name not in _ESTIMATORS:
        close = difflib.get_close_matches(name, _ESTIMATORS, n=3)
        hint = f" (did you mean {' or '.join(close)}?)" if close else ""
        raise ToolkitError(
            f"there is no estimator {quoted(name)}{hint}; toolkit summarize --list, or toolkit.stats.names(), "
            f"has all {len(_ESTIMATORS)}"
        )
    return _ESTIMATORS[name].bind(*positional, **named)


def estimators(level: Level | None = None) -> list[Estimator]:
    """All estimators with default parameters, or those of one level: token-span first, then as added."""
    found = [estimator for estimator in _ESTIMATORS.values() if level in (None, estimator.level)]
    return sorted(found, key=lambda estimator: LEVELS.index(estimator.level))


def names(level: Level | None = None) -> list[str]:
    """The names of `estimators(level)`."""
    return [estimator.name for estimator in estimators(level)]


def _origin(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"


@cache
def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    return typing.get_type_hints(function)


@cache
def _signature(function: Callable[..., Any]) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]


def _describe(parameters: list[inspect.Parameter]) -> str:
    return ", ".join(f"{p.name}={p.default}" for p in parameters) or "no parameters"


def _parse(text: str) -> tuple[str, list[Any], dict[str, Any]]:
    problem = ToolkitError(f"estimator {text!r} must be a name, or a name with values: min_k_percent(k=0.2)")
    try:
        node = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise problem from None
    call = ast.Call(node, [], []) if isinstance(node, ast.Name) else node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
        raise problem
    try:
        positional = [_value(argument) for argument in call.args]
        named = {keyword.arg: _value(keyword.value) for keyword in call.keywords if keyword.arg is not None}
    except ValueError:
        raise problem from None
    if len(named) != len(call.keywords):
        raise problem
    return call.func.id, positional, named


_INFINITE = {"inf": math.inf, "-inf": -math.inf}


def _value(node: ast.expr) -> Any:
    if (written := ast.unparse(node)) in _INFINITE:
        return _INFINITE[written]
    if isinstance(node, ast.Name):
        return node.id
    value = ast.literal_eval(node)
    if not isinstance(value, str | int | float):
        raise ValueError(value)
    return value


def _spell(value: Any) -> str:
    return value if isinstance(value, str) and value.isidentifier() else repr(value)


def _fits(value: Any, hint: Any) -> bool:
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        return value in options
    if origin in (typing.Union, UnionType):
        return any(_fits(value, option) for option in options)
    if hint in (int, float):
        return isinstance(value, (int, hint)) and not isinstance(value, bool) and value == value
    return hint is Any or isinstance(value, hint)


def _kind(hint: Any) -> str:
    options = typing.get_args(hint)
    if typing.get_origin(hint) is Literal:
        return "one of " + ", ".join(str(option) for option in options)
    if options:
        return " or ".join(_kind(option) for option in options)
    kinds = {int: "a whole number", float: "a number", str: "text", bool: "True or False"}
    return kinds.get(hint, str(hint))
