"""The packages that the toolkit runs on, with their versions and licences, as a table in docs/licences.md.

Follows the requirements of the installed toolkit, extras left out, through their own requirements; what is not
installed on this platform is not listed.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROJECT = "token-confidence-toolkit"
HEAD = """# Licences

The packages that the toolkit needs when it runs, with what they need, as installed on Linux for the CPU. Made by
`make audit`.

| package | version | licence |
|---|---|---|
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "docs" / "licences.md")
    output: Path = parser.parse_args().output
    rows = [f"| {d.metadata['Name']} | {d.version} | {licence(d)} |" for d in needed()]
    output.write_text(HEAD + "\n".join(rows) + "\n", encoding="utf-8")
    print(f"{len(rows)} packages: {output}")


def needed(root: str = PROJECT) -> list[metadata.Distribution]:
    """Installed packages that `root` needs, itself left out, by name."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [root]
    while waiting:
        name = normalized(waiting.pop())
        if name in found:
            continue
        try:
            found[name] = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform
        waiting += requirements(found[name])
    del found[normalized(root)]
    return [found[name] for name in sorted(found)]


def requirements(distribution: metadata.Distribution) -> Iterator[str]:
    """Names of what a package needs without extras."""
    for requirement in distribution.requires or []:
        if "extra ==" not in requirement:
            yield re.match(r"[\w.-]+", requirement)[0]  # type: ignore[index]


def normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def licence(distribution: metadata.Distribution) -> str:
    """The SPDX expression, else the classifiers, else the field; one line."""
    meta = distribution.metadata
    if expression := meta.get("License-Expression"):
        return str(expression)
    classifiers = [
        c.rpartition(" :: ")[2] for c in meta.get_all("Classifier") or [] if c.startswith("License")
    ]
    field = str(meta.get("License") or "").strip()
    return ", ".join(classifiers) or (field if field and "\n" not in field else "see the package")


if __name__ == "__main__":
    main()
