"""How a token is to be drawn: temperature and filters, and the order of them.

- `temperature_first`, as Hugging Face does: temperature, top-k, top-p, min-p, each on what the one before
  left, renormalised. Tokens that tie with the k-th stay (Hugging Face, vLLM); top-p keeps the smallest set,
  so of tokens that tie at its edge those with lower ids stay (Hugging Face: whichever its sort puts last).
  vLLM applies min-p before top-k and top-p.
- `mlx_lm`, as MLX-LM's `make_sampler` does: top-p, min-p and top-k over the untempered probabilities, top-p
  taking its share of all of them, then the temperature. Tokens that tie at the edge of top-p stay, and of
  those that tie with the k-th only k in all, the lower ids here (MLX-LM: any).

A mass within 1e-6 of top_p has reached it, and a probability within 1e-6 of min_p times the largest stays:
the set must not depend on the rounding of float32.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NoReturn, get_args

import numpy as np

from ..errors import ToolkitError

Order = Literal["temperature_first", "mlx_lm"]

MIN_TEMPERATURE = 1e-5


@dataclass(frozen=True)
class Sampler:
    """How a token is drawn. The defaults draw from the model's own distribution.

    Attributes
    ----------
    temperature : float
        0 takes the most likely token (the lowest id of equals); else from 1e-5.
    top_k : int
        Keep the k most likely tokens; 0 keeps all, and 1 takes the most likely.
    top_p : float
        Keep the smallest set with at least this mass, in (0, 1]; 1 keeps all.
    min_p : float
        Keep tokens with at least this share of the largest probability, in [0, 1].
    order : {"temperature_first", "mlx_lm"}
        Whether the temperature comes before the filters or after them, see the module.

    Raises
    ------
    ToolkitError
        If a value is out of its range.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    order: Order = "temperature_first"

    def __post_init__(self) -> None:
        temperature = _number("temperature", self.temperature)
        if temperature != 0 and not MIN_TEMPERATURE <= temperature < math.inf:
            _refuse(
                "temperature", temperature, "0, or from 1e-5 on and finite; 0 takes the most likely token"
            )
        if isinstance(self.top_k, bool) or not isinstance(self.top_k, int | np.integer) or self.top_k < 0:
            _refuse("top_k", self.top_k, "a whole number of at least 0; 0 keeps all tokens")
        if not 0 < _number("top_p", self.top_p) <= 1:
            _refuse("top_p", self.top_p, "over 0 and at most 1; 1 keeps all tokens")
        if not 0 <= _number("min_p", self.min_p) <= 1:
            _refuse("min_p", self.min_p, "from 0 to 1; 0 keeps all tokens")
        if self.order not in get_args(Order):
            _refuse("order", self.order, " or ".join(get_args(Order)))

    @property
    def is_greedy(self) -> bool:
        """The most likely token is taken, whatever the random number."""
        return self.temperature == 0 or self.top_k == 1

    @property
    def has_filter(self) -> bool:
        """Some tokens may be left out."""
        return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


def _number(name: str, value: float) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        _refuse(name, value, "a number")


def _refuse(name: str, value: object, allowed: str) -> NoReturn:
    raise ToolkitError(f"{name}: {value!r}; it must be {allowed}")
