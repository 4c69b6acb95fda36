"""How sure was a language model of each piece of the text it wrote?

The public names, and nothing else. Each is imported when it is first used, so that the analysis half
works where MLX is not installed, and `import toolkit` takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toolkit.calls.asking import ask as ask
    from toolkit.calls.generating import generate as generate
    from toolkit.calls.generating import stream as stream
    from toolkit.calls.mlx_stream import stream_generate as stream_generate
    from toolkit.calls.scoring import score as score
    from toolkit.calls.truths import p_true as p_true
    from toolkit.errors import DataFault as DataFault
    from toolkit.errors import ToolkitError as ToolkitError
    from toolkit.judging.comparing import compare as compare
    from toolkit.judging.evaluation import evaluate as evaluate
    from toolkit.judging.grades import grade as grade
    from toolkit.models import load as load
    from toolkit.store import open_run as open_run
    from toolkit.store import open_runs as open_runs

_MODULES = {
    "load": "toolkit.models",
    "generate": "toolkit.calls.generating",
    "stream": "toolkit.calls.generating",
    "score": "toolkit.calls.scoring",
    "ask": "toolkit.calls.asking",
    "p_true": "toolkit.calls.truths",
    "stream_generate": "toolkit.calls.mlx_stream",
    "grade": "toolkit.judging.grades",
    "evaluate": "toolkit.judging.evaluation",
    "compare": "toolkit.judging.comparing",
    "open_run": "toolkit.store",
    "open_runs": "toolkit.store",
    "ToolkitError": "toolkit.errors",
    "DataFault": "toolkit.errors",
}
__all__ = [
    "DataFault",
    "ToolkitError",
    "ask",
    "compare",
    "evaluate",
    "generate",
    "grade",
    "load",
    "open_run",
    "open_runs",
    "p_true",
    "plots",
    "score",
    "stream",
    "stream_generate",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("token-confidence-toolkit")
    if name == "plots":
        return import_module("toolkit.plots")
    if name not in _MODULES:
        raise AttributeError(f"module 'toolkit' has no attribute {name!r}")
    value = getattr(import_module(_MODULES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
