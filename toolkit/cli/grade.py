"""`toolkit grade RUN...`: right or wrong against the references, kept beside the run."""

from __future__ import annotations

import argparse
import json
import sys
from typing import TYPE_CHECKING, Any

from toolkit.characters import quoted, visible
from toolkit.cli.arguments import add_json, add_runs, one_of
from toolkit.cli.output import json_rows, json_text, text_table
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    import pandas as pd

    from toolkit.judging.settings import Judging


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    parser.add_argument(
        "--grader",
        required=True,
        metavar="NAME",
        help="exact, contains, any-of, number[:TOLERANCE], regex[:PATTERN], choice[:LETTERS], "
        "function:MODULE:NAME or labels:FILE",
    )
    parser.add_argument(
        "--over",
        default="answer",
        metavar="PART",
        help="what is judged: answer (the text after the last thinking block), sequence, regex:PATTERN (its "
        "first group, in the answer) or field:PATH (of the answer's JSON, $.name)",
    )
    parser.add_argument(
        "--by", type=one_of(("field",)), metavar="field", help="judge each field of a JSON reference"
    )
    parser.add_argument(
        "--line", type=one_of(("first", "last")), metavar="WHICH", help="only the first or last line of it"
    )
    parser.add_argument(
        "--match",
        type=one_of(("first", "last")),
        default="last",
        metavar="WHICH",
        help="which match of --over regex: first or last (last)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        dest="settings",
        metavar="NAME=VALUE",
        help="a setting of the grader: which=first, whole_words=false, accents=false; repeatable",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="judge again what was judged with these settings"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print how many were judged and their mean value, by kind; with `--json`, a list of objects."""
    from toolkit.aggregation.parts import parse_part
    from toolkit.judging.grades import keep_grades, summarize_grades
    from toolkit.judging.settings import make_judging
    from toolkit.store import open_runs

    part = parse_part(args.over, line=args.line, match=args.match)
    judging = make_judging(args.grader, part, args.by, dict(map(_setting, args.settings)))
    rows = []
    for one in open_runs(args.runs):
        graded = keep_grades(one, judging, overwrite=args.overwrite)
        if graded.warning is not None:
            print(f"toolkit grade: {visible(str(one.path))}: {graded.warning}", file=sys.stderr)
        rows += _rows(str(one.path), judging, summarize_grades(graded.grades))
    if args.json:
        print(json_text(rows))
    elif rows:
        print(text_table(list(rows[0]), [list(row.values()) for row in rows]), end="")
    return 0


def _rows(path: str, judging: Judging, summary: pd.DataFrame) -> list[dict[str, Any]]:
    head = {"run": path, "grader": judging.grader.name, "config_hash": judging.config_hash}
    part = {"over": str(judging.part), "by": judging.by}
    return [{**head, **part, **row} for row in json_rows(summary)]


def _setting(text: str) -> tuple[str, Any]:
    """`which=first`: the value is JSON, or the text itself."""
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ToolkitError(f"--set: {quoted(text)} is no setting; write NAME=VALUE, as which=first")
    try:
        return name.strip(), json.loads(value)
    except ValueError:
        return name.strip(), value
