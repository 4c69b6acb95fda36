"""Reduce columns of tokens over spans: sums, means, extremes, means of the lowest, sliding windows.

A span is a run of rows, `start:end`. Spans may overlap, lie in any order and be empty. Nothing here knows
what a column means. Every reduction is made in float64; -inf stays -inf; a NaN (not computed) in a span, or
no row at all, gives NaN for that span.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from toolkit.characters import count
from toolkit.errors import ToolkitError

Floats = NDArray[np.float64]
Columns = Mapping[str, NDArray[Any]]
"""Columns of the tokens table by name, each of shape (n_tokens,), or (n_tokens, k) for alternatives."""

_BLOCK = 1 << 22  # elements of a padded matrix that are sorted at once, which bounds the memory


class ValueCounts(NamedTuple):
    """How many values there are, and how many of them are no finite number."""

    n: int
    n_undefined: int  # NaN: nothing to compute from
    n_infinite: int  # -inf or inf: a masked token took part


def count_values(values: ArrayLike) -> ValueCounts:
    """Count the undefined (NaN) and the infinite among `values`, of any shape."""
    array = np.asarray(values, np.float64)
    return ValueCounts(array.size, int(np.isnan(array).sum()), int(np.isinf(array).sum()))


def column(columns: Columns, name: str) -> NDArray[Any]:
    """The column `name`, or a ToolkitError that says which columns there are."""
    if name not in columns:
        raise ToolkitError(
            f"column {name!r} is needed and was not given: there are {', '.join(sorted(columns))}"
        )
    return np.asarray(columns[name])


@dataclass(frozen=True, eq=False)
class Ranges:
    """Spans as half-open ranges of rows.

    Parameters
    ----------
    starts, ends : (n_spans,) integers, 0 <= start <= end
    weights : (n_rows,) optional
        A weight for each row of each span, spans one after another (`sum(ends - starts)` values, at least
        0), such as the share of a token's bytes that lies in the span. Sums and means use it; a row of
        weight 0 takes no part in them. Extremes, counts, ranks and windows do not use it.

    Raises
    ------
    ToolkitError
        Where a range is reversed or negative, or the weights do not fit.
    """

    starts: NDArray[np.int64]
    ends: NDArray[np.int64]
    weights: Floats | None = None

    def __post_init__(self) -> None:
        starts, ends = np.asarray(self.starts), np.asarray(self.ends)
        if starts.shape != ends.shape or starts.ndim != 1:
            raise ToolkitError(
                f"starts and ends must be of one shape (n,): got {starts.shape} and {ends.shape}"
            )
        object.__setattr__(self, "starts", starts.astype(np.int64, copy=False))
        object.__setattr__(self, "ends", ends.astype(np.int64, copy=False))
        wrong = np.flatnonzero((self.starts < 0) | (self.ends < self.starts))
        if wrong.size:
            i = wrong[0]
            raise ToolkitError(f"range {i} is {starts[i]}:{ends[i]}: it must have 0 <= start <= end")
        if self.weights is not None:
            self._set_weights(np.asarray(self.weights, np.float64))

    def _set_weights(self, weights: Floats) -> None:
        n_rows = int(self.lengths.sum())
        if weights.shape != (n_rows,) or not (weights >= 0).all():
            raise ToolkitError(
                f"weights must be {n_rows} numbers of at least 0, one for each row of each span"
            )
        object.__setattr__(self, "weights", weights)

    def __len__(self) -> int:
        return len(self.starts)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """(n_spans,) number of rows."""
        return self.ends - self.starts

    @cached_property
    def offsets(self) -> NDArray[np.int64]:
        """(n_spans,) where each span begins among the gathered rows."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def rows(self) -> NDArray[np.int64]:
        """(n_rows,) row numbers of all spans, one span after another."""
        n_rows = int(self.lengths.sum())
        return np.repeat(self.starts - self.offsets, self.lengths) + np.arange(n_rows)

    def gather(self, values: NDArray[Any]) -> NDArray[Any]:
        """The rows of all spans, (n_rows, ...). ToolkitError where a span ends past the column."""
        self._check(values)
        return values[self.rows]

    def take(self, index: NDArray[Any]) -> Ranges:
        """Some of the spans, without weights."""
        return Ranges(self.starts[index], self.ends[index])

    def last(self, n: int) -> Ranges:
        """The last `n` rows of each span, or all of a shorter one, without weights."""
        if self.weights is None and self.lengths.max(initial=0) <= n:
            return self
        return Ranges(np.maximum(self.starts, self.ends - n), self.ends)

    def sum(self, values: NDArray[Any]) -> Floats:
        """(n_spans,) sums, of weight times value where there are weights."""
        if self.weights is None:
            return self._reduce(np.add, values)
        gathered = self.gather(values)
        product = np.zeros(len(gathered))
        np.multiply(gathered, self.weights, out=product, where=self.weights > 0)
        return np.where(self._total_weight > 0, self._reduce_gathered(np.add, product), np.nan)

    def mean(self, values: NDArray[Any]) -> Floats:
        """(n_spans,) means, weighted where there are weights."""
        total = self.sum(values)
        return np.divide(total, self._divisors, out=total)

    def min(self, values: NDArray[Any]) -> Floats:
        """(n_spans,) smallest values."""
        return self._reduce(np.minimum, values)

    def max(self, values: NDArray[Any]) -> Floats:
        """(n_spans,) largest values."""
        return self._reduce(np.maximum, values)

    def lowest_mean(self, values: NDArray[Any], counts: NDArray[np.int64]) -> Floats:
        """Mean of the `counts` smallest values of each span.

        Parameters
        ----------
        values : (n_tokens,)
        counts : (n_spans,) integers; a span with count 0, or fewer rows than its count, gives NaN

        Returns
        -------
        (n_spans,)
        """
        self._check(values)
        result = np.full(len(self), np.nan)
        wanted = (counts > 0) & (counts <= self.lengths)
        # Spans are sorted as rows of a padded matrix. Those whose lengths round up to one power of two share
        # a matrix, so less than half of it is padding.
        exponents = np.frexp(self.lengths - 1)[1]
        for exponent in np.unique(exponents[wanted]):
            members = np.flatnonzero(wanted & (exponents == exponent))
            width = 1 << int(exponent)
            for block in np.array_split(members, max(1, -(-members.size * width // _BLOCK))):
                result[block] = self._lowest_mean_of(values, block, counts[block], width)
        return result

    def _lowest_mean_of(
        self, values: NDArray[Any], spans: NDArray[np.int64], counts: NDArray[np.int64], width: int
    ) -> Floats:
        place = np.arange(width)
        rows = np.minimum(self.starts[spans, None] + place, len(values) - 1)  # (n, width)
        matrix = np.where(place < self.lengths[spans, None], values[rows], np.inf)
        matrix[np.isnan(matrix).any(axis=1)] = np.nan  # one of them would be sorted past the padding
        matrix.sort(axis=1)
        return np.where(place < counts[:, None], matrix, 0).sum(axis=1, dtype=np.float64) / counts

    def _check(self, values: NDArray[Any]) -> None:
        last = self.ends.max(initial=0)
        if last > len(values):
            raise ToolkitError(f"a range ends at {last}, past the column's {count(len(values), 'row')}")

    @cached_property
    def _total_weight(self) -> Floats:
        if self.weights is None:
            return self.lengths.astype(np.float64)
        return np.nan_to_num(self._reduce_gathered(np.add, self.weights))

    @cached_property
    def _divisors(self) -> Floats:
        """(n_spans,) what a mean divides by."""
        return np.where(self._total_weight > 0, self._total_weight, np.nan)

    @cached_property
    def _filled(self) -> NDArray[np.bool_] | None:
        """Which spans have rows; None for all of them."""
        return None if self.lengths.all() else self.lengths > 0

    @cached_property
    def _longer(self) -> tuple[NDArray[np.int64], Ranges] | None:
        """The spans of more than one row, where they are few: most segments are one token."""
        several = np.flatnonzero(self.lengths > 1)
        return (several, self.take(several)) if several.size * 4 < len(self) else None

    def _reduce(self, ufunc: np.ufunc, values: NDArray[Any]) -> Floats:
        """(n_spans,) reductions over the rows of each span, without weights."""
        if self._longer is None:
            return self._reduce_gathered(ufunc, self.gather(values))
        self._check(values)
        several, longer = self._longer
        result = self._spread(values[self.starts if self._filled is None else self.starts[self._filled]])
        result[several] = longer._reduce_gathered(ufunc, longer.gather(values))
        return result

    def _reduce_gathered(self, ufunc: np.ufunc, gathered: NDArray[Any]) -> Floats:
        """`reduceat` over gathered rows. It reads a row even for an empty range, so those are left out."""
        offsets = self.offsets if self._filled is None else self.offsets[self._filled]
        if not offsets.size:
            return np.full(len(self), np.nan)
        return self._spread(ufunc.reduceat(gathered, offsets, dtype=np.float64))

    def _spread(self, found: NDArray[Any]) -> Floats:
        """(n_spans,) values of the spans that have rows, NaN for the others."""
        if self._filled is None:
            return np.asarray(found, np.float64)
        result = np.full(len(self), np.nan)
        result[self._filled] = found
        return result


def sliding_sums(values: NDArray[Any], length: int) -> Floats:
    """Sums of every window of `length` neighbours.

    Sums of 1, 2, 4, ... neighbours are added up as the bits of `length` say. Differences of a running sum
    would be fewer operations, but they lose digits and turn every window after a -inf into NaN.

    Parameters
    ----------
    values : (n,)
    length : at least 1

    Returns
    -------
    (n - length + 1,), empty where n < length
    """
    block = np.asarray(values, np.float64)  # block[i] is the sum of `size` values from i on
    n = max(0, len(block) - length + 1)
    total = np.zeros(n)
    size, done = 1, 0
    while n and size <= length:
        if length & size:
            total += block[done : done + n]
            done += size
        block = block[:-size] + block[size:]
        size *= 2
    return total
