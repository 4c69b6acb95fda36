"""What a beam search is asked to do."""

from __future__ import annotations

import math
from dataclasses import dataclass

from toolkit.errors import ToolkitError, argument


@dataclass(frozen=True)
class BeamSettings:
    """How beams are searched.

    Attributes
    ----------
    beams : beams kept alive, and hypotheses in the pool
    length_penalty : see `toolkit.generation.beam_step.score`
    early_stopping : end as soon as the pool is full; else only when no live beam can still enter it. One beam
        always stops early, which makes it the greedy search
    n_returned : hypotheses given back, best first; all by default

    Raises
    ------
    ToolkitError
        A value is out of range.
    """

    beams: int = 4
    length_penalty: float = 1.0
    early_stopping: bool = False
    n_returned: int | None = None

    def __post_init__(self) -> None:
        if self.beams < 1:
            raise ToolkitError(f"{argument('beams')}: {self.beams} is below 1; use 1 or more")
        if not math.isfinite(self.length_penalty):
            raise ToolkitError(
                f"{argument('length_penalty')}: {self.length_penalty} is not finite; use a number"
            )
        if self.n_returned is not None and not 1 <= self.n_returned <= self.beams:
            raise ToolkitError(
                f"{argument('n_returned')}: {self.n_returned} is outside 1 to {self.beams}, the number of beams; "
                "use a number in that range"
            )

    @property
    def wanted(self) -> int:
        """Hypotheses given back at most."""
        return self.beams if self.n_returned is None else self.n_returned
