"""Stands for a thread in tests whose events have to come in one order."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any


class AtOnce:
    """Stands for a `ThreadPoolExecutor`: what is submitted is done before `submit` returns."""

    def __init__(self, n: int, **named: Any) -> None: ...

    def __enter__(self) -> AtOnce:
        return self

    def __exit__(self, *given: object) -> None: ...

    def submit(self, function: Callable[..., Any], *given: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*given))
        except Exception as error:
            future.set_exception(error)
        return future
