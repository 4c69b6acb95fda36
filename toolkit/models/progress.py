"""Show on stderr how far a download is."""

from __future__ import annotations

import sys
import time

BAR_WIDTH = 30
MEGABYTE = 1_000_000
LINE_SECONDS = 5.0  # between plain lines


class Download:
    """A bar on a terminal; elsewhere a plain line every few seconds. Call it with bytes done and in all."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.shown_at = float("-inf")
        self.is_terminal = sys.stderr.isatty()

    def __call__(self, done: int, total: int) -> None:
        share = min(done / total, 1.0)
        text = f"{self.what}: {min(done, total) / MEGABYTE:.0f} of {total / MEGABYTE:.0f} MB"
        if self.is_terminal:
            filled = round(share * BAR_WIDTH)
            bar = "#" * filled + "-" * (BAR_WIDTH - filled)
            sys.stderr.write(f"\r{text} [{bar}] {share:4.0%}" + ("\n" if share == 1 else ""))
            sys.stderr.flush()
        elif share == 1 or time.monotonic() - self.shown_at >= LINE_SECONDS:
            self.shown_at = time.monotonic()
            print(f"{text}, {share:.0%}", file=sys.stderr, flush=True)
