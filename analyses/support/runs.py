"""The runs of an analysis: opened where they are whole, collected where something is missing."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import toolkit
from support.options import PROMPTS, Options
from toolkit.cli.main import main as toolkit_command
from toolkit.collect.prompts import read_prompts
from toolkit.store.keys import Key
from toolkit.store.reader import Run


@dataclass(frozen=True)
class Collection:
    """A run that an analysis reads, and how it is collected.

    Attributes
    ----------
    name : str
        Of the run's folder.
    prompts : str
        A file of data/prompts.
    max_tokens : int
    samples, beams : int
        Of each prompt.
    greedy : bool
    temperature : float
    limit : int, optional
        Only the first prompts of the file.
    """

    name: str
    prompts: str
    max_tokens: int
    samples: int = 0
    beams: int = 0
    greedy: bool = False
    temperature: float = 1.0
    limit: int | None = None

    def command(self, options: Options) -> list[str]:
        """The `toolkit` command line that collects it."""
        given: list[tuple[str, object]] = [
            ("--prompts", shown(PROMPTS / self.prompts)),
            ("--output", self.path(options)),
            ("-n", self.samples or None),
            ("--beams", self.beams or None),
            ("--max-tokens", self.max_tokens),
            ("--temp", self.temperature if self.temperature != 1 else None),
            ("--limit", self._limit(options)),
            ("--model", options.model),
        ]
        words = [str(word) for flag, value in given if value is not None for word in (flag, value)]
        return ["collect", *words, *(["--greedy"] if self.greedy else [])]

    def path(self, options: Options) -> str:
        """Of the run, as a command names it."""
        return shown(options.runs / self.name)

    def missing(self, options: Options) -> int:
        """How many of its sequences are not there."""
        path = options.runs / self.name
        stored = toolkit.open_run(path).sequence_keys() if (path / "manifest.json").is_file() else set()
        return sum(key not in stored for key in self._keys(options))

    def _keys(self, options: Options) -> Iterator[Key]:
        """Of a beam search only the best sequence: it may find fewer than it was asked for."""
        for prompt in read_prompts(PROMPTS / self.prompts, limit=self._limit(options)):
            name = str(prompt.id)
            yield from ((name, "sample", i) for i in range(self.samples))
            yield from ((name, kind, 0) for kind in self._single)

    @property
    def _single(self) -> list[str]:
        return [kind for kind, wanted in (("greedy", self.greedy), ("beam", self.beams)) if wanted]

    def _limit(self, options: Options) -> int | None:
        return min((n for n in (self.limit, options.limit) if n is not None), default=None)


def collected(collection: Collection, options: Options) -> Run:
    """The run, with what was missing collected first, on the default model.

    Raises
    ------
    SystemExit
        It could not be collected; the command has said why.
    """
    if collection.missing(options):
        run_toolkit(collection.command(options))
    return toolkit.open_run(options.runs / collection.name)


def run_toolkit(arguments: list[str]) -> None:
    """Run a `toolkit` command in this process, and say so; the script ends where it fails."""
    print(as_shell(arguments), file=sys.stderr)
    status = toolkit_command(arguments)
    if status:
        raise SystemExit(status)


def as_shell(arguments: list[str]) -> str:
    """A `toolkit` command line as one types it."""
    return shlex.join(["toolkit", *arguments])


def shown(path: Path) -> str:
    """A path as a command names it: relative to where it is run, where it lies there."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)
