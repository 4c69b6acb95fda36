"""Ctrl-C and SIGTERM that wait until a commit is done, so that finished sequences are never dropped."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred() -> Iterator[None]:
    """Hold back SIGINT and SIGTERM inside; the first of them is delivered when it is left.

    In a thread other than the main one signals do not arrive, and nothing is done.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[int, Any]] = []
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    for number in _SIGNALS:
        signal.signal(number, lambda *received: arrived.append(received))
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None was not set from Python, and cannot be set again
                signal.signal(number, handler)
    if arrived:
        _deliver(*arrived[0], before[signal.Signals(arrived[0][0])])


def _deliver(number: int, frame: Any, handler: Any) -> None:
    if callable(handler):
        handler(number, frame)
    elif handler != signal.SIG_IGN:
        signal.raise_signal(number)
