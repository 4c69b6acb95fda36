"""Which tokens are looked at however unlikely they are, and at which positions of a sequence."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from toolkit.records import TokenStatistics

WatchAt = Literal["first", "every"]
WATCH_AT: tuple[WatchAt, ...] = ("first", "every")


@dataclass(frozen=True)
class Watch:
    """Tokens that are watched, at the first position of a sequence or at every one; none by default."""

    token_ids: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, np.int32))  # (w,), rising
    at: WatchAt = "first"

    def given(self, position: int) -> dict[str, Any]:
        """What the statistics have to be asked for at a position of a sequence, from 0."""
        looks = len(self.token_ids) and (self.at == "every" or position == 0)
        return {"watched_ids": self.token_ids} if looks else {}

    def fill(self, statistics: TokenStatistics) -> TokenStatistics:
        """Statistics with columns for the watched tokens, also of positions where they were not looked at."""
        if statistics.watched_ids.shape[1] == len(self.token_ids):
            return statistics
        return statistics.watching(self.token_ids)


NO_WATCH = Watch()
"""Nothing is watched."""
