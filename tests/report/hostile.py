"""A run whose every text is hostile, and what a page says in its elements and its data."""

from __future__ import annotations

import dataclasses
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.answers import Answer, add_answers
from tests.store.factory import make_manifest
from toolkit.judging.grades import grade
from toolkit.records import PromptRecord
from toolkit.store import Run, RunWriter, open_run

MEGABYTE = "x" * 1_000_000
ATTACKS = [
    "</script><script>alert(1)</script>",
    "</ScRiPt ><img src=x onerror=alert(1)>",
    "<!--<script>",
    '" onmouseover="alert(1)" x=\'',
    "javascript:alert(1)",
    "{{ 7 * 7 }}{% raw %}",
    "]]></style><svg onload=alert(1)>",
    "&lt;b&gt;&#60;",
    "\u202eevil\u202c\u2066",
    "a\x00b\x1b[31m\x7f\x85\r\n\t",
    "\u2028\u2029\ufeff\uffff",
    "\ufffd é 日本 🎉 e\u0301",
    "\\u003c/script>",
]
OBEYED = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
"""What a browser obeys, drops or hides; a line feed is white space of the page."""


def hostile_run(path: Path) -> Run:
    """A prompt an attack, with a greedy answer and two samples that are attacks; graded."""
    manifest = make_manifest(
        command=("toolkit", "collect", *ATTACKS),
        config={attack: attack for attack in ATTACKS},
        model={"name": ATTACKS[0], "hash": ATTACKS[1]},
        tokenizer={"hash": ATTACKS[2], "kind": ATTACKS[3]},
        versions={attack: attack for attack in ATTACKS},
        device=ATTACKS[4],
        notes=tuple(ATTACKS),
    )
    with RunWriter.create(path, manifest) as writer:
        writer.add_prompts(map(_prompt, range(len(ATTACKS))))
        add_answers(writer, [answer for i in range(len(ATTACKS)) for answer in _answers(i)])
    run = open_run(path)
    grade(run, "contains")
    return run


def _prompt(i: int) -> PromptRecord:
    attack = ATTACKS[i]
    record = PromptRecord(attack, i, attack, _ids(), None, (attack, "Paris"), {attack: [attack]})
    asked = [{"role": "user", "content": attack + (MEGABYTE if i == 0 else "")}]
    return record if i % 2 else dataclasses.replace(record, messages=asked)


def _ids() -> Any:
    import numpy as np

    return np.array([1], np.int32)


def _answers(i: int) -> list[Answer]:
    attack, other = ATTACKS[i], ATTACKS[(i + 1) % len(ATTACKS)]
    pieces = [attack, other] + ([MEGABYTE] if i == 1 else [])
    values = [-3.0, -0.5, -0.1][: len(pieces)]
    return [
        Answer(attack, pieces, values, kind="greedy"),
        Answer(attack, ["Paris", attack], [-0.2, -4.0], sample_index=0),
        Answer(attack, [other], [-1.0], sample_index=1, end=None, finish_reason="length"),
    ]


class Page(HTMLParser):
    """A page as a browser takes it apart.

    Attributes
    ----------
    elements : list of (tag, attributes)
    scripts, styles : list of str
        Their contents.
    text : str
        All text outside of them.
    """

    def __init__(self, source: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.styles: list[str] = []
        self.text = ""
        self._open: list[str] | None = None
        self.feed(source)
        self.close()

    @property
    def island(self) -> dict[str, Any]:
        """The data."""
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found

    def attributes(self, name: str) -> list[str]:
        """Values of an attribute, of all elements that have it."""
        return [attributes[name] or "" for _, attributes in self.elements if name in attributes]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self._open = {"script": self.scripts, "style": self.styles}.get(tag)
        if self._open is not None:
            self._open.append("")

    def handle_endtag(self, tag: str) -> None:
        self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is None:
            self.text += data
        else:
            self._open[-1] += data


def read_page(path: Path) -> Page:
    """A page that was written."""
    return Page(path.read_text(encoding="utf-8"))
