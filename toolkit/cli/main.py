"""The command `toolkit`: finds the verb, runs it, and turns every error into one line and an exit status.

0 done; 1 a fault found in the data, a partial result, or an error of this program; 2 wrong usage or input;
130 interrupted.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import NamedTuple

from toolkit.characters import quoted, visible
from toolkit.cli.arguments import Parser, UsageError, option_of
from toolkit.errors import ToolkitError


class Verb(NamedTuple):
    """A subcommand: the module that has `add_arguments` and `run`, and what it does in one line."""

    module: str
    summary: str


VERBS = {
    "model": Verb("toolkit.cli.model", "fetch the default model, import a GGUF file, describe a model"),
    "collect": Verb("toolkit.cli.collect", "draw samples for a file of prompts and keep them as a run"),
    "score": Verb("toolkit.cli.score", "log-probabilities of given completions, kept as a run"),
    "ask": Verb("toolkit.cli.ask", "which choice of a question a model picks, and how surely, kept as a run"),
    "ingest": Verb("toolkit.cli.ingest", "log-probabilities that other engines gave, as a run"),
    "audit": Verb("toolkit.cli.audit", "score a run's own tokens again, and compare"),
    "status": Verb("toolkit.cli.status", "how far a run has come, and how large it is"),
    "show": Verb("toolkit.cli.show", "a run's texts in the terminal, coloured by confidence"),
    "summarize": Verb(
        "toolkit.cli.summarize", "the confidence of tokens, segments, sequences or prompts, as a table"
    ),
    "grade": Verb("toolkit.cli.grade", "right or wrong against the references, kept beside the run"),
    "similarity": Verb(
        "toolkit.cli.similarity",
        "how alike each prompt's samples are: by a model, by embeddings or from a file",
    ),
    "p-true": Verb(
        "toolkit.cli.p_true", "a model asked whether a run's answers are true, kept beside the run"
    ),
    "evaluate": Verb("toolkit.cli.evaluate", "every estimator of confidence against right and wrong"),
    "compare": Verb(
        "toolkit.cli.compare", "what a second run does differently on the same prompts, with intervals"
    ),
    "recalibrate": Verb(
        "toolkit.cli.recalibrate", "from an estimator's values to probabilities of being right"
    ),
    "vote": Verb(
        "toolkit.cli.vote", "accuracy of votes against the number of samples, and of stopping early"
    ),
    "plot": Verb("toolkit.cli.plot", "a figure of one run or of several, as PNG, SVG or PDF"),
    "export": Verb("toolkit.cli.export", "a run as csv, jsonl, or responses in the shape of the OpenAI API"),
    "report": Verb("toolkit.cli.report", "runs as HTML pages to read, look at and pass on"),
    "validate": Verb("toolkit.cli.validate", "check everything that must hold in a run"),
    "compact": Verb("toolkit.cli.compact", "merge a run's many small files into few"),
    "doctor": Verb("toolkit.cli.doctor", "device, BLAS and its speed, versions: what is slow here, and why"),
}
DEBUG_VARIABLE = "TOOLKIT_DEBUG"
_INTERRUPTED = 130
_WRONG_PATH = (FileNotFoundError, FileExistsError, IsADirectoryError, NotADirectoryError, PermissionError)


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command line and give its exit status.

    Parameters
    ----------
    argv : sequence of str, optional
        The arguments after the command's name; those of the process by default.
    """
    _print_anything()
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = f"toolkit {arguments[0]}" if arguments and arguments[0] in VERBS else "toolkit"
    try:
        status = _dispatch(arguments)
        _flush_output()
        return status
    except SystemExit as stop:  # argparse, after --help
        return stop.code if isinstance(stop.code, int) else 0
    except BrokenPipeError:
        _discard_output()
        return 0  # who reads the output has seen enough
    except (Exception, KeyboardInterrupt) as error:
        if os.environ.get(DEBUG_VARIABLE):
            traceback.print_exc()
        status, message = describe(error, arguments[0] if arguments else "")
        print(f"{error.prog if isinstance(error, UsageError) else name}: {visible(message)}", file=sys.stderr)
        return status


def describe(error: BaseException, verb: str = "") -> tuple[int, str]:
    """The exit status of an error, and what to say about it in one line: arguments are the verb's options."""
    if isinstance(error, ToolkitError):
        return error.exit_status, error.spelled(
            lambda name: option_of(build_parser(verb), name) if verb in VERBS else name
        )
    if isinstance(error, KeyboardInterrupt):
        return _INTERRUPTED, "interrupted"
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename is not None else ""
        return (2 if isinstance(error, _WRONG_PATH) else 1), f"{where}{error.strerror}"
    if isinstance(error, ModuleNotFoundError) and not (error.name or "toolkit").startswith("toolkit"):
        return 2, f"needs the package {quoted(error.name or '')}, which is not installed; install it with pip"
    if isinstance(error, MemoryError):
        return (
            1,
            "out of memory; read less at once (--prompt, --kind), or collect with a smaller --batch-size",
        )
    return 1, f"internal error: {type(error).__name__}: {error} (set {DEBUG_VARIABLE}=1 to see where)"


def _dispatch(arguments: list[str]) -> int:
    if not arguments:
        print(overview(), file=sys.stderr)
        return 2
    verb, rest = arguments[0], arguments[1:]
    if verb in ("-h", "--help"):
        print(overview())
        return 0
    if verb == "--version":
        print(f"toolkit {import_module('toolkit').__version__}")
        return 0
    if verb not in VERBS:
        raise UsageError("toolkit", _unknown(verb))
    module = import_module(VERBS[verb].module)
    return int(module.run(build_parser(verb).parse_args(rest)))


def build_parser(verb: str) -> argparse.ArgumentParser:
    """The parser of a verb, with all its options."""
    summary = VERBS[verb].summary
    parser = Parser(prog=f"toolkit {verb}", description=f"{summary[0].upper()}{summary[1:]}.")
    import_module(VERBS[verb].module).add_arguments(parser)
    return parser


def overview() -> str:
    """What `toolkit --help` prints: every verb with its line."""
    longest = max(map(len, VERBS))
    lines = [f"  {name:<{longest}}  {verb.summary}" for name, verb in VERBS.items()]
    head = [
        "usage: toolkit VERB [options]",
        "",
        "How sure was a language model of each piece of the text it wrote?",
        "",
    ]
    return "\n".join(
        [*head, *lines, "", "toolkit VERB --help shows a verb's options; toolkit --version the version."]
    )


def _unknown(verb: str) -> str:
    kind = "option" if verb.startswith("-") else "verb"
    near = get_close_matches(verb, VERBS, n=1)
    hint = f" (did you mean {near[0]}?)" if near else f"; use one of {', '.join(VERBS)}"
    return f"there is no {kind} {quoted(verb)}{hint}"


def _print_anything() -> None:
    """Let text that the terminal's encoding lacks be printed as escapes instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _flush_output() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:  # a reader that has gone is noticed here, not at exit
        _discard_output()


def _discard_output() -> None:
    # The interpreter flushes stdout once more at exit; it must not meet the broken pipe again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
