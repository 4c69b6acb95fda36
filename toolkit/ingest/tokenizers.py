"""What token ids stand for, from the file of a tokenizer."""

from __future__ import annotations

from pathlib import Path

from toolkit.alignment import TokenBytes
from toolkit.errors import ToolkitError, argument

_FILE = "tokenizer.json"


def load_tokenizer(path: Path) -> TokenBytes:
    """The bytes of each id of a tokenizer.

    Parameters
    ----------
    path : Path
        tokenizer.json of the `tokenizers` library, or the folder of a model with one.

    Raises
    ------
    ToolkitError
        There is none, or it cannot be read.
    """
    from tokenizers import Tokenizer

    file = path / _FILE if path.is_dir() else path
    if not file.is_file():
        raise ToolkitError(
            f"{argument('tokenizer')}: {file} is not there; give {_FILE}, or a folder with one"
        )
    try:
        return TokenBytes(Tokenizer.from_file(str(file)))
    except Exception as error:  # the library raises Exception itself
        reason = (str(error).splitlines() or ["unreadable"])[0]
        raise ToolkitError(f"{argument('tokenizer')}: {file} is no tokenizer: {reason[:80]}") from error
