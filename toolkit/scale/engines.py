"""What an engine is, and the one that does everything in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import TypeVar

from toolkit.errors import ToolkitError

Task = TypeVar("Task")
Result = TypeVar("Result")
Handle = TypeVar("Handle")


class Engine(ABC):
    """Maps a function over tasks; use it as a context manager.

    Attributes
    ----------
    splits : bool
        Whether work should be cut into tasks for it. Results are the same either way.
    """

    splits: bool = True

    @abstractmethod
    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        """The function's result for each task, in the order of the tasks.

        Parameters
        ----------
        function : callable
            Pure, since a task whose worker died is done again. Other processes get a copy: it is a function of
            a module, or an object of a class of one.
        tasks : iterable
            Asked for a few at a time, so that memory holds a few results however many there are.

        Raises
        ------
        ToolkitError
            The function or a task cannot be sent to workers, or what the function raised.
        DataFault
            The workers died again and again.
        """

    def close(self) -> None:  # noqa: B027  # most have nothing to close
        """Let the workers go."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Local(Engine):
    """This process, one task after another."""

    splits = False

    def map(self, function: Callable[[Task], Result], tasks: Iterable[Task]) -> Iterator[Result]:
        return map(function, tasks)


LOCAL = Local()


def few_ahead(
    submit: Callable[[Task], Handle], tasks: Iterable[Task], ahead: int
) -> Iterator[tuple[Handle, deque[Handle]]]:
    """Hand in tasks in order, at most `ahead` at a time; yield each with those handed in after it.

    A task is handed in when the one `ahead` places before it was yielded.
    """
    waiting: deque[Handle] = deque()
    for task in tasks:
        waiting.append(submit(task))
        if len(waiting) >= ahead:
            yield waiting.popleft(), waiting
    while waiting:
        yield waiting.popleft(), waiting


def cannot_be_sent(error: BaseException) -> ToolkitError:
    """The error for a function or a task that other processes cannot get."""
    reason = (str(error).splitlines() or [type(error).__name__])[0]
    return ToolkitError(
        f"the work cannot be sent to other processes ({reason}): "
        "define functions at the top level of a module that they can import, or leave the engine local"
    )
