"""What must hold of watched tokens within a row group; rules as in `rules`.

The same tokens are watched all over a run: at every position, or at the first of each sequence.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from toolkit.store.rules import Mask, View

ROUNDING = 1e-3
"""Nats by which a float32 log-probability may pass 0 or another one that bounds it."""


def wrong_values(view: View, table: str) -> Mask:
    """Other values than the tokens of their positions allow, or than the ranks beside them."""
    place, known = _tokens(view, table)
    logprob, rank = view.column(table, "logprob"), view.column(table, "rank")
    broken = rank < 1
    rows, at = np.flatnonzero(known), place[known]
    broken[rows] |= logprob[rows] > view.column("tokens", "top1_logprob")[at] + ROUNDING
    is_token = view.column("tokens", "token_id")[at] == view.column(table, "token_id")[rows]
    rows, at = rows[is_token], at[is_token]
    with np.errstate(invalid="ignore"):  # -inf from -inf
        broken[rows] |= np.abs(logprob[rows] - view.column("tokens", "logprob")[at]) > ROUNDING
    stored = view.rows["tokens"]["rank"].fill_null(0).to_numpy()[at]
    broken[rows] |= (stored > 0) & (stored != rank[rows])
    return broken | _out_of_rank(place, logprob, rank)


def _tokens(view: View, table: str) -> tuple[NDArray[np.int64], Mask]:
    """For each row, the row of tokens at its position, and whether there is one."""
    own, token = view.owner(table), view.column(table, "token_index")
    known = (token >= 0) & (token < np.diff(view.token_start)[own])
    return view.token_start[own] + token, known


def _out_of_rank(place: NDArray[np.int64], logprob: NDArray[Any], rank: NDArray[Any]) -> Mask:
    """Rows that are less likely than another one of their position, and not of a later rank."""
    order = np.lexsort((-logprob, place))
    same = np.diff(place[order], prepend=-1) == 0
    falls = np.concatenate([[0], logprob[order]])[:-1] > logprob[order]
    before = np.concatenate([[0], rank[order]])[:-1]
    broken = np.zeros(len(place), bool)
    # Logits that differ in the last bit may have one log-probability, so equal ones may have several ranks.
    broken[order] = same & falls & (rank[order] <= before)
    return broken


def wrong_positions(view: View, table: str) -> Mask:
    """Rows of a position that is none, that follows a gap, or where not the same tokens are watched as elsewhere."""
    own, token, ids = view.owner(table), view.column(table, "token_index"), view.column(table, "token_id")
    first = _first_rows(view, table)
    width = np.diff(first, append=len(ids))
    expected = ids[: width[0]] if len(width) else ids
    within = np.arange(len(ids)) - np.repeat(first, width)
    other = ids != expected[np.minimum(within, len(expected) - 1)]
    before = np.where(np.diff(own[first], prepend=-1) != 0, -1, np.concatenate([[-1], token[first]])[:-1])
    wrong = (width != len(expected)) | (token[first] != before + 1)
    return other | np.repeat(wrong, width) | ~_tokens(view, table)[1]


def wrong_extent(view: View, _: str) -> Mask:
    """Sequences that are not watched at all of their positions, where others are, or not at their first."""
    n_tokens = view.column("sequences", "n_tokens")
    if "watched" not in view.rows:
        return np.zeros(len(n_tokens), bool)
    own = view.owner("watched")[_first_rows(view, "watched")]
    positions = np.bincount(own, minlength=len(n_tokens))
    return positions != (n_tokens if (positions > 1).any() else np.minimum(n_tokens, 1))


def _first_rows(view: View, table: str) -> NDArray[np.intp]:
    """The first row of each position."""
    own, token = view.owner(table), view.column(table, "token_index")
    return np.flatnonzero((np.diff(own, prepend=-1) != 0) | (np.diff(token, prepend=-1) != 0))
