"""`toolkit collect --engine dask`: the command line of a collection on a cluster."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from toolkit.cli.collecting import report, stop_on_sigterm
from toolkit.cli.engines import quiet_cluster
from toolkit.errors import ToolkitError
from toolkit.store.lock import live_writers

if TYPE_CHECKING:
    from toolkit.collect.settings import Settings

_REFUSED = {  # by argument: the option, and why a collection on a cluster does not take it
    "shard": ("--shard", "each worker gets its own"),
    "stream": ("--stream", "the text comes on other machines"),
    "overwrite": ("--overwrite", "the shards go on in one run: remove it first"),
}


def collect_on_cluster(args: argparse.Namespace, settings: Settings, n_prompts: int) -> int:
    """Collect on the workers of a cluster; the exit status of `toolkit collect`.

    Raises
    ------
    ToolkitError
        An option does not go together with a cluster, or it cannot be used; or a shard ended with an error.
    """
    _check(args)
    from toolkit.collect.cluster import Job, collect_on_workers
    from toolkit.collect.plan import wanted_sequences
    from toolkit.collect.progress import Progress
    from toolkit.scale.cluster import connect

    job = Job("toolkit.cli.shard", _arguments(args), n_prompts * len(wanted_sequences(settings)))
    quiet_cluster()
    with connect(args.scheduler) as client:
        stop_on_sigterm()
        outcome = collect_on_workers(
            client, args.scheduler, job, lambda total, done: Progress(total, done=done, label="collect")
        )
    return report("collect", args, outcome)


def _check(args: argparse.Namespace) -> None:
    for name, (option, reason) in _REFUSED.items():
        if getattr(args, name):
            raise ToolkitError(f"{option} with --engine dask: leave it out, since {reason}")
    if not args.resume:
        raise ToolkitError("--no-resume with --engine dask: the shards go on in one run: name a new folder")
    if args.prompts == "-":
        raise ToolkitError(
            "--prompts - with --engine dask: give a file that every worker finds at the same path"
        )
    if args.output.is_dir() and live_writers(args.output):
        raise ToolkitError(f"{args.output} is being written by another process: wait until it ends")


def _arguments(args: argparse.Namespace) -> dict[str, Any]:
    """The arguments for the workers: paths are absolute, since each works in a folder of its own."""
    given = {name: value for name, value in vars(args).items() if name not in ("engine", "scheduler", "json")}
    paths = {name: _absolute(given[name]) for name in ("output", "prompts", "model", "json_schema")}
    return {**given, **paths, "command": sys.argv}


def _absolute(value: Any) -> str | None:
    """What is there as a path; any other text, such as a repository's name or a schema, stays."""
    if value is None or not (isinstance(value, Path) or _is_there(value)):
        return value
    return str(Path(value).resolve())


def _is_there(text: str) -> bool:
    try:
        return os.path.exists(text)
    except ValueError:  # a NUL
        return False
