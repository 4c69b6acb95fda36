"""The option `--by`: what a text is cut into."""

from __future__ import annotations

import argparse
from collections.abc import Collection

from toolkit.errors import ToolkitError
from toolkit.spans.kinds import FORMS, SpanKind, span_kind


def add_by(parser: argparse.ArgumentParser, default: str, left_out: Collection[str] = ()) -> None:
    """`--by`, as `args.by`: a `SpanKind`.

    Parameters
    ----------
    parser : ArgumentParser
    default : str
    left_out : collection of str
        Names of kinds that the command cannot use.
    """
    usages = ", ".join(form.usage for name, form in FORMS.items() if name not in left_out)

    def parse(text: str) -> SpanKind:
        try:
            return span_kind(text, left_out)
        except ToolkitError as error:
            raise argparse.ArgumentTypeError(str(error)) from None

    parser.add_argument("--by", type=parse, default=default, metavar="SPAN", help=f"{usages} ({default})")
