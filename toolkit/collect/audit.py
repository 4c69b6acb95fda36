"""Whether a run holds what the model says: scores its own tokens again and compares.

Goes through a run some sequences at a time, and keeps counts, so that a run of any size can be audited.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toolkit.characters import quoted
from toolkit.collect.progress import Progress
from toolkit.collect.spread import Spread, Summary
from toolkit.collect.steps import make_scorer
from toolkit.errors import DataFault, ToolkitError
from toolkit.generation.scoring import Scorer
from toolkit.models import Model
from toolkit.records import SequenceRecord, TokenStatistics
from toolkit.store import Run

# Nats. In float32, the order of sums in another batch moves log-probabilities by up to some 1e-4. Half precision
# rounds every activation of every layer: measured on the default model, see `tolerance_for`.
TOLERANCES = {"float32": 1e-3, "float16": 0.1, "bfloat16": 1.0}
MEASURES = ("logprob", "entropy", "alternatives")
N_WORST = 10
N_LIKELY = 32  # scored alternatives: more than are stored, so that near ties at the end are found
_CHUNK = 256  # sequences at a time
