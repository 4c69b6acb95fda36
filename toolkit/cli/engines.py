"""The options `--engine`, `--scheduler` and `--workers`: what reads and aggregates a run, or collects it."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING

from toolkit.cli.arguments import one_of, positive_int
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.scale import Engine

ENGINES = ("local", "processes", "dask")


def add_engine(parser: argparse.ArgumentParser) -> None:
    """`--engine`, `--workers` and `--scheduler`, for a verb that reads."""
    parser.add_argument(
        "--engine",
        type=one_of(ENGINES),
        default="local",
        metavar="ENGINE",
        help="what reads the run: local, one process; processes, several on this machine; dask, the workers of "
        "a cluster. The result is the same (local)",
    )
    parser.add_argument(
        "--workers", type=positive_int, metavar="N", help="with processes: how many (as many as cores)"
    )
    _add_scheduler(parser)


def add_cluster(parser: argparse.ArgumentParser) -> None:
    """`--engine` and `--scheduler`, for a verb that collects."""
    parser.add_argument(
        "--engine",
        type=one_of(("local", "dask")),
        default="local",
        metavar="ENGINE",
        help="local; or dask: a shard for each worker of a cluster that has the resource MLX (local)",
    )
    _add_scheduler(parser)


def make_engine(args: argparse.Namespace) -> Engine:
    """The engine that the options of `add_engine` ask for; a context manager.

    Raises
    ------
    ToolkitError
        An option is given that its engine does not take, or the cluster cannot be used.
    """
    check_engine(args)
    from toolkit.scale import LOCAL, Dask, Processes

    if args.engine == "processes":
        return Processes(args.workers)
    if args.engine == "dask":
        quiet_cluster()
        return Dask(args.scheduler)
    return LOCAL


def check_engine(args: argparse.Namespace) -> None:
    """Refuse an option that the engine does not take, and dask without a scheduler."""
    if args.engine == "dask" and args.scheduler is None:
        raise ToolkitError(
            "--engine dask needs --scheduler: give the address that dask scheduler prints, as tcp://HOST:8786"
        )
    if args.engine != "dask" and args.scheduler is not None:
        raise ToolkitError(f"--scheduler {args.scheduler:.80}: it is for --engine dask; give that too")
    if args.engine != "processes" and getattr(args, "workers", None) is not None:
        raise ToolkitError(f"--workers {args.workers}: it is for --engine processes; give that too")


def quiet_cluster() -> None:
    """Let Dask's own log say nothing: what goes wrong is said in one line."""
    logging.getLogger("distributed").setLevel(logging.CRITICAL + 1)


def _add_scheduler(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--scheduler", metavar="ADDRESS", help="with dask: the scheduler's address, tcp://HOST:8786"
    )
