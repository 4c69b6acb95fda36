"""`toolkit validate RUN...`: everything that must hold in a run."""

from __future__ import annotations

import argparse
import dataclasses

from toolkit.characters import count, visible
from toolkit.cli.arguments import add_json, add_runs
from toolkit.cli.output import json_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser)
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Print what is wrong with each run; 1 where something is. With `--json`, a list of objects."""
    from toolkit.store.validate import validate

    findings = [(path, finding) for path in args.runs for finding in validate(path)]
    if args.json:
        rows = [{"run": str(path), **dataclasses.asdict(finding)} for path, finding in findings]
        print(json_text(rows))
        return 1 if findings else 0
    for path in args.runs:
        found = [finding for of, finding in findings if of == path]
        print(f"{visible(str(path))}: {count(len(found), 'fault') if found else 'all rules hold'}")
        for finding in found:
            print(f"  {visible(str(finding))}")
    return 1 if findings else 0
