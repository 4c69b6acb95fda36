"""The command line of an analysis, and how a script ends."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from toolkit.characters import visible
from toolkit.cli.arguments import positive_int
from toolkit.errors import ToolkitError

ROOT = Path(__file__).parents[2]
PROMPTS = ROOT / "data" / "prompts"


@dataclass(frozen=True)
class Options:
    """What an analysis was asked.

    Attributes
    ----------
    runs : Path
        The folder of the runs.
    output : Path
        The folder of the reports; each analysis has one of its own in it.
    limit : int, optional
        Collect only for so many prompts; a run that has more is analysed whole.
    model : str, optional
        Another than the default model.
    quick : bool
        As tests have it: few prompts and resamples, and no figures in the HTML report.
    """

    runs: Path
    output: Path
    limit: int | None = None
    model: str | None = None
    quick: bool = False

    @property
    def resamples(self) -> int:
        """Of the bootstrap."""
        return 50 if self.quick else 1000


def parse(description: str | None, argv: Sequence[str] | None = None) -> Options:
    """The options of a command line; `description` is the script's docstring."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=Path, default=ROOT / "data" / "raw", metavar="DIR", help="data/raw")
    parser.add_argument(
        "--output", type=Path, default=ROOT / "data" / "reports", metavar="DIR", help="data/reports"
    )
    parser.add_argument(
        "--limit", type=positive_int, metavar="N", help="collect only for the first N prompts"
    )
    parser.add_argument("--quick", action="store_true", help="8 prompts, 50 resamples: for tests")
    parser.add_argument("--model", metavar="M", help="as of toolkit collect; the default model")
    args = parser.parse_args(argv)
    limit = args.limit if args.limit is not None or not args.quick else 8
    return Options(args.runs, args.output, limit, args.model, args.quick)


def ended(main: Callable[[], int]) -> int:
    """The exit status of a script; an error of the toolkit's is one line on stderr."""
    try:
        return main()
    except ToolkitError as error:
        print(f"{Path(sys.argv[0]).name}: {visible(str(error))}", file=sys.stderr)
        return error.exit_status
