"""A page of the report as HTML: one file that needs nothing else and asks for nothing.

Texts of models and of users come in as plain text: Jinja escapes them, and `visible` shows what a browser
would obey (bidirectional overrides) or drop (control characters). The only script and the only style are those
of this package, and the content security policy names them by their hashes, so that nothing else can run.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from toolkit.characters import visible, visible_lines

FOLDER = Path(__file__).parent / "page"


@cache
def style() -> str:
    """The style of every page."""
    return "\n".join(_parts("*.css"))


@cache
def script() -> str:
    """The script of every page."""
    return "(() => {\n'use strict';\n" + "\n".join(_parts("*.js")) + "\n})();"


def policy() -> str:
    """The content security policy: this script, this style, pictures inside the page, and nothing else."""
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src '{_hash(script())}'",
            f"style-src '{_hash(style())}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


def render(template: str, values: Mapping[str, Any]) -> Markup:
    """A template of this package with its values escaped."""
    return Markup(_environment().get_template(template).render(values))


def document(sections: Mapping[str, Any], island: str) -> str:
    """A whole page.

    Parameters
    ----------
    sections : mapping
        The values of report.html.j2.
    island : str
        JSON that can stand in a script element, as `island_json` makes it.
    """
    assets = {"style": Markup(style()), "script": Markup(script()), "policy": policy()}
    return str(render("report.html.j2", {**sections, **assets, "island": Markup(island)}))


def _parts(pattern: str) -> list[str]:
    return [path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob(pattern))]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.filters["visible"] = visible
    made.filters["visible_lines"] = visible_lines
    return made
