"""Statistics: arrays in, arrays out. NumPy and SciPy, and rapidfuzz and a stemmer for similarity of texts.

Importing this package registers the built-in estimators.
"""

from toolkit.stats import agreement, choices, distributions, graphs, samples, semantic, tokens, windows
from toolkit.stats.ranges import Ranges, count_values
from toolkit.stats.registry import Estimator, estimators, get, names, register
from toolkit.stats.samples import Estimate, Samples, Target, estimate

__all__ = [
    "Estimate",
    "Estimator",
    "Ranges",
    "Samples",
    "Target",
    "agreement",
    "choices",
    "count_values",
    "distributions",
    "estimate",
    "estimators",
    "get",
    "graphs",
    "names",
    "register",
    "samples",
    "semantic",
    "tokens",
    "windows",
]
