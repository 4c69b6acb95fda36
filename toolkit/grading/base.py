"""What every grader is: a frozen record of its settings, with one function from text to a grade."""

from __future__ import annotations

import hashlib
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, NamedTuple

from toolkit.errors import ToolkitError

Key = tuple[str, str, int]  # (prompt_id, kind, sample_index)


class Grade(NamedTuple):
    """How right an answer is.

    `value` is in [0, 1], or NaN where nobody can say (no reference, no label): such a unit is counted as
    ungraded, not as wrong. `extracted` is the part of the text that was judged, None where there was none; an
    answer without what the grader looks for is wrong.
    """

    value: float
    extracted: str | None


UNGRADED = Grade(math.nan, None)
NO_ANSWER = Grade(0.0, None)


@dataclass(frozen=True)
class Grader(ABC):
    """A grader: its fields are its settings."""

    name: ClassVar[str]
    version: ClassVar[int] = 1  # raised when the same settings would grade otherwise

    def grade(self, text: str | None, references: Sequence[str] = (), *, key: Key | None = None) -> Grade:
        """Grade one answer.

        Parameters
        ----------
        text : str or None
            The answer; None where the text held none.
        references : sequence of str
            Any of them is right.
        key : (prompt_id, kind, sample_index), optional
            Of the sequence, for graders that look it up.

        Returns
        -------
        Grade
            NaN without a reference where the grader needs one.

        Raises
        ------
        ToolkitError
            If a reference cannot be used as this grader uses them.
        """
        if isinstance(references, str):
            raise ToolkitError(f"references is one text, {references!r:.40}: give a list of them")
        return self._grade(text, references, key)

    @property
    def needs_references(self) -> bool:
        """Without a reference every answer is ungraded."""
        return True

    @abstractmethod
    def _grade(self, text: str | None, references: Sequence[str], key: Key | None) -> Grade: ...

    def config(self) -> dict[str, Any]:
        """Name, version and settings, as JSON has them."""
        return {"grader": self.name, "version": self.version, **asdict(self)}

    @property
    def config_hash(self) -> str:
        """16 hexadecimal digits that change with any setting."""
        return config_hash(self.config())


def config_hash(config: Mapping[str, Any]) -> str:
    """16 hexadecimal digits of a configuration; the order of its names does not matter."""
    text = json.dumps(config, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]
