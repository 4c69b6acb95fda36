"""The softmax of a batch of logits, computed once and shared by the statistics and the draw.

Knows NumPy arrays of logits only: nothing of models, text or files.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import ToolkitError
from . import kernels
from .row_passes import Moments, Workspace, find_moments, n_blocks, n_maxima


class Top(NamedTuple):
    """The k largest logits of each row, falling; equal ones by rising id."""

    ids: NDArray[np.int32]  # (B, k)
    logits: NDArray[np.float32]  # (B, k)


N_TOP = 32  # the likely tokens that statistics look at; the 20 of top20_mean_logprob are among them
NO_TOP = Top(np.empty((0, 0), np.int32), np.empty((0, 0), np.float32))


class Watched(NamedTuple):
    """Some tokens of every row, however unlikely."""

    logits: NDArray[np.floating]  # (B, w)
    ranks: NDArray[np.int32]  # (B, w), 1 + the number of logits strictly greater


class Candidates(NamedTuple):
    """Some tokens of each row, by rising id, padded to the longest row."""

    ids: NDArray[np.int32]  # (n, m), padded with 0
    logits: NDArray[np.float32]  # (n, m), padded with -inf


class Mass(NamedTuple):
    """Sums of exp((logit - maximum) / temperature)."""

    temperature: float
    block_sums: NDArray[np.float32]  # (B, n_blocks), of BLOCK neighbouring tokens
    total: NDArray[np.float64]  # (B,)


@dataclass(frozen=True)
class Distribution:
    """The softmax of B rows of logits over V tokens. Make it with `Distribution.of`.

    Logits of -inf are masked tokens. A row is bad where it holds NaN or +inf, or nothing but -inf: see
    `bad_rows`; whatever is computed from a bad row has no meaning.

    Attributes
    ----------
    logits : (B, V) float32
    maximum : (B,) float32
    mass : Mass
        At temperature 1.
    logsumexp : (B,) float64, nats
    block_maxima : (B, n) float32
        Of blocks that together hold each logit once.
    moments : Moments or None
    likely : Top
        The largest logits that were found on the way; none where they were not looked for.
    """

    logits: NDArray[np.float32]
    maximum: NDArray[np.float32]
    mass: Mass
    logsumexp: NDArray[np.float64]
    block_maxima: NDArray[np.float32]
    moments: Moments | None
    workspace: Workspace
    likely: Top

    @classmethod
    def of(
        cls, logits: ArrayLike, workspace: Workspace | None = None, *, moments: bool = True
    ) -> Distribution:
        """Compute the softmax of `logits`.

        Parameters
        ----------
        logits : (B, V) array
            Converted to float32 where it is not. It is referred to, not copied.
        workspace : Workspace, optional
            Where scratch arrays are kept between steps.
        moments : bool
            Also the sums that `token_statistics` needs. Not needed to draw.

        Raises
        ------
        ToolkitError
            If `logits` has not two axes, or no token.
        """
        rows = np.asarray(logits, np.float32, order="C")
        check_logits(rows.shape)
        space = Workspace() if workspace is None else workspace
        n_rows, n_tokens = rows.shape
        maxima = np.empty((n_rows, n_maxima(n_tokens)), np.float32)
        block_sums = np.empty((n_rows, n_blocks(n_tokens)), np.float32)
        sums = np.empty((n_rows, 5))
        with np.errstate(all="ignore"):
            k = min(N_TOP, n_tokens) if moments else 0
            likely = kernels.mass_and_moments(rows, maxima, block_sums, sums, space, k)
            maximum = maxima.max(axis=1)
            total = block_sums.sum(axis=1, dtype=np.float64)
            found = find_moments(rows, sums.T, maximum, total) if moments else None
            logsumexp = maximum + np.log(total)
        mass, top = Mass(1.0, block_sums, total), NO_TOP if likely is None else Top(*likely)
        return cls(rows, maximum, mass, logsumexp, maxima, found, space, top)

    @property
    def exp(self) -> NDArray[np.float32]:
        """exp(logits - maximum), (B, V), computed anew."""
        return np.exp(self.logits - self.maximum[:, None])

    @property
    def total(self) -> NDArray[np.float64]:
        """The sum of `exp`, (B,)."""
        return self.mass.total

    @property
    def n_rows(self) -> int:
        """B."""
        return self.logits.shape[0]

    @property
    def n_tokens(self) -> int:
        """V, masked tokens included."""
        return self.logits.shape[1]

    @property
    def bad_rows(self) -> NDArray[np.bool_]:
        """(B,): the row has NaN or +inf, or nothing but -inf."""
        return ~np.isfinite(self.maximum)

    def logits_of(self, token_ids: NDArray[np.integer]) -> NDArray[np.float32]:
        """The logit of one token a row, (B,)."""
        return self.logits[np.arange(self.n_rows), token_ids]

    def log_probability(self, token_ids: NDArray[np.integer]) -> NDArray[np.float64]:
        """The log-probability of one token a row, (B,), nats; -inf for a masked one."""
        with np.errstate(invalid="ignore"):  # bad rows
            return self.logits_of(token_ids) - self.logsumexp

    def tempered(self, temperature: float) -> Mass:
        """The mass at a temperature; one more pass of exponentials unless it is 1."""
        if temperature == 1:
            return self.mass
        block_sums = np.empty_like(self.mass.block_sums)
        with np.errstate(all="ignore"):
            kernels.mass(self.logits, self.maximum, temperature, block_sums, self.workspace)
        return Mass(temperature, block_sums, block_sums.sum(axis=1, dtype=np.float64))

    def lower_bound(self, k: int) -> NDArray[np.float32]:
        """A value, (B,), that at least `k` logits of each row reach, and few more where k is small.

        k blocks have a maximum of at least the k-th largest maximum, so at least k logits do.
        """
        if k >= self.n_tokens:
            return np.full(self.n_rows, -np.inf, np.float32)
        values = self.block_maxima if k <= self.block_maxima.shape[1] else self.logits
        place = values.shape[1] - k
        return np.partition(values, place, axis=1)[:, place]

    def at_least(self, cutoff: NDArray[np.float32]) -> list[NDArray[np.intp]]:
        """The tokens of each row whose logit is at least the row's cutoff, (B,), by rising id."""
        reach = self.workspace.array("mask", (self.n_tokens,), np.bool_)
        pairs = zip(self.logits, cutoff, strict=True)
        return [np.flatnonzero(np.greater_equal(row, lowest, out=reach)) for row, lowest in pairs]

    def candidates(self, rows: slice, tokens: list[NDArray[np.intp]], min_width: int = 1) -> Candidates:
        """The given tokens of some rows as arrays."""
        width = max([min_width, *map(len, tokens)])
        ids = np.zeros((len(tokens), width), np.int32)
        values = np.full((len(tokens), width), -np.inf, np.float32)
        for place, (row, found) in enumerate(zip(self.logits[rows], tokens, strict=True)):
            ids[place, : found.size] = found
            values[place, : found.size] = row.take(found)
        return Candidates(ids, values)

    def top(self, k: int, rows: NDArray[np.intp] | None = None) -> Top:
        """The `k` (at least 1) largest logits of each row, or of some, or all V where there are fewer, exactly."""
        if rows is not None:
            return self._of_rows(rows).top(k)
        k = min(k, self.n_tokens)
        if k <= self.likely.ids.shape[1]:
            return Top(self.likely.ids[:, :k], self.likely.logits[:, :k])
        compiled = kernels.top(self.logits, self.block_maxima, k)
        if compiled is not None:
            return Top(*compiled)
        found = self.candidates(slice(None), self.at_least(self.lower_bound(k)), min_width=k)
        # The candidates come by rising id and the sort is stable, so equal logits stay in that order.
        order = np.argsort(-found.logits, axis=1, kind="stable")[:, :k]
        return Top(np.take_along_axis(found.ids, order, 1), np.take_along_axis(found.logits, order, 1))

    def _of_rows(self, rows: NDArray[np.intp]) -> Distribution:
        return Distribution(
            self.logits[rows],
            self.maximum[rows],
            Mass(self.mass.temperature, self.mass.block_sums[rows], self.mass.total[rows]),
            self.logsumexp[rows],
            self.block_maxima[rows],
            None,
            self.workspace,
            NO_TOP,
        )

    def count_above(self, logits: NDArray[np.float32]) -> NDArray[np.int32]:
        """How many logits of each row are strictly greater than the given one, (B,)."""
        return kernels.count_above(self.logits, logits, self.workspace)

    def watched(self, token_ids: NDArray[np.integer]) -> Watched:
        """The logits of some tokens, (w,), the same ones in each row, and their ranks."""
        logits = self.logits[:, token_ids]
        return Watched(logits, 1 + kernels.count_above_each(self.logits, logits, self.workspace))


def check_logits(shape: tuple[int, ...]) -> None:
    """Raise ToolkitError unless the shape is (rows, tokens), with a token or more."""
    if len(shape) != 2 or shape[1] == 0:
        raise ToolkitError(
            f"logits: shape {shape}; it must be (rows, tokens), with a token or more: reshape the array"
        )
