"""A whole step of a llama-like network, compiled: every thread runs it at the same time, on its share of each part.

Threads wait for each other between the parts, some nine times a layer, by a barrier of their own: waking a thread
takes longer than most parts do. Every row is computed in an order that its own text alone decides.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import carray
from numpy.typing import NDArray

from toolkit.generation.compiled_addresses import LINE, as_pointer, call, fetch, wait_for_all
from toolkit.generation.compiled_attention import (
    attend_some,
    divide_rows,
    gated_rows,
    normalise,
    rotate,
)
from toolkit.generation.compiled_math import compiled
from toolkit.generation.compiled_panels import N_PANELS
from toolkit.generation.compiled_prefix import attend_packed
from toolkit.generation.compiled_vector_products import WIDTH

Floats = NDArray[np.float32]
Indices = NDArray[np.intp]
Addresses = NDArray[np.int64]

HEADS, AFTER_ATTENTION, GATE_AND_UP, DOWN = range(4)  # products of a layer
N_PRODUCTS = 4
FLOAT = 4  # bytes


class Team(NamedTuple):
    """The threads of a step."""

    n: int
    barrier: int  # addresses, as of `wait_for_all`
    give_way: int


class Network(NamedTuple):
    """What does not change from step to step."""

    prepare: int  # addresses of the kernels of a kind of product, see `compiled_panels`
    multiply: int
    products: Addresses  # (layers * N_PRODUCTS + 1, RECORD_SIZE): the last is the output layer
    norms: Floats  # (2 * layers + 1, hidden): before attention and before the activation, and the last
    epsilons: NDArray[np.float64]  # (2 * layers + 1,)
    n_heads: int
    n_kv_heads: int
    dim: int
    scale: float
    traditional: bool  # rotary embedding of neighbours in pairs


class Rows(NamedTuple):
    """The rows of a step, and where their keys and values are.

    Rows are running texts, each with its own keys and values behind its prompt's, or neighbouring positions of one
    text, whose keys and values are in one place, behind those of the positions before.
    """

    order: Indices  # (rows,) those of one prompt side by side
    first: Indices  # (prompts + 1,) where those of each prompt begin in `order`
    prefixes: Addresses  # (layers, prompts, 2): keys and values of one layer of a `PackedPrompt`
    lengths: Indices  # (prompts,)
    rooms: Indices  # (prompts,) positions that there is room for
    own: Indices  # (rows,) own positions before each row's new one
    stored: Addresses  # (layers, blocks, 2): keys and values (slots, kv_heads, block_size, dim)
    slots: int
    slot: Indices  # (rows,) where each row's are among them
    block_size: int
    first_answer: int  # the row from which on logits are wanted
    cos: Floats  # (rows, rotary dims / 2)
    sin: Floats


class Space(NamedTuple):
    """Arrays that a step works in."""

    x: Floats  # (rows, hidden): the embeddings when it begins, then the hidden states
    normed: Floats  # (rows, hidden)
    prepared: NDArray[np.uint8]  # inputs of a product
    heads: Floats  # (rows, heads + 2 kv_heads, dim)
    queries: Floats  # (rows, heads, dim), rotated and scaled
    maximum: Floats  # (rows, heads) of the running softmax
    total: Floats  # (rows, heads)
    attention: Floats  # (rows, heads, dim)
    gate_and_up: Floats  # (rows, 2 inner)
    active: Floats  # (rows, inner)
    logits: Floats  # (rows from first_answer on, vocabulary)


@compiled()
def _norm_and_prepare(network: Network, space: Space, place: int, rows: int, first: int, last: int) -> None:
    """Bring some rows' hidden states, normalised, into the form that products read."""
    normalise(space.x[first:last], network.norms[place], network.epsilons[place], space.normed[first:last])
    _prepare(network, space, space.normed.ctypes.data, space.normed.shape[1], rows, first, last)


@compiled()
def _prepare(
    network: Network, space: Space, inputs: int, n_inputs: int, rows: int, first: int, last: int
) -> None:
    call(network.prepare, (inputs, space.prepared.ctypes.data, n_inputs, rows, first, last))


@compiled()
def _multiply(
    network: Network,
    space: Space,
    place: int,
    inputs: int,
    rows: int,
    out: int,
    add: int,
    worker: int,
    n: int,
) -> None:
    """This thread's share of a product's outputs."""
    record = network.products[place]
    first, last = record[N_PANELS] * worker // n, record[N_PANELS] * (worker + 1) // n
    if first < last:
        call(
            network.multiply,
            (inputs, space.prepared.ctypes.data, rows, record.ctypes.data, first, last, out, add),
        )


@compiled()
def _stored(rows: Rows, network: Network, layer: int, block: int, which: int) -> Floats:
    """A block of own keys (0) or values (1) of all slots."""
    shape = (rows.slots, network.n_kv_heads, rows.block_size, network.dim)
    return carray(as_pointer(rows.stored[layer, block, which]), shape, np.float32)


@compiled()
def _take_heads(network: Network, rows: Rows, space: Space, layer: int, row: int) -> None:
    """Rotate a row's new query and key, and put key and value behind its own."""
    n_heads, n_kv, own, slot = network.n_heads, network.n_kv_heads, rows.own[row], rows.slot[row]
    block, position = own // rows.block_size, own % rows.block_size
    keys, values = _stored(rows, network, layer, block, 0), _stored(rows, network, layer, block, 1)
    cos, sin, factor = rows.cos[row], rows.sin[row], np.float32(network.scale)
    for head in range(n_heads):
        query = space.queries[row, head]
        rotate(space.heads[row, head], cos, sin, network.traditional, query)
        for d in range(query.size):
            query[d] *= factor
    for head in range(n_kv):
        rotate(space.heads[row, n_heads + head], cos, sin, network.traditional, keys[slot, head, position])
        given, kept = space.heads[row, n_heads + n_kv + head], values[slot, head, position]
        for d in range(given.size):
            kept[d] = given[d]


@compiled()
def _fetch_own(rows: Rows, network: Network, layer: int, row: int, head: int, block: int, n: int) -> None:
    """Ask for the first n own keys and values of a row's head."""
    for which in range(2):
        kept = _stored(rows, network, layer, block, which)
        start = kept[rows.slot[row], head].ctypes.data
        for line in range(0, n * network.dim * FLOAT, LINE):
            fetch(start + line)


@compiled()
def _attend_own(network: Network, rows: Rows, space: Space, layer: int, first: int, last: int) -> None:
    """Attention of the rows first to last of the order over their own positions.

    What the next head reads is asked for while one is computed.
    """
    group = network.n_heads // network.n_kv_heads
    scores = np.empty(rows.block_size, np.float32)
    for place in range(first, last):
        row = rows.order[place]
        slot, count = rows.slot[row], rows.own[row] + 1
        for block in range((count + rows.block_size - 1) // rows.block_size):
            keys, values = _stored(rows, network, layer, block, 0), _stored(rows, network, layer, block, 1)
            n = min(rows.block_size, count - block * rows.block_size)
            for kv in range(network.n_kv_heads):
                if kv + 1 < network.n_kv_heads:
                    _fetch_own(rows, network, layer, row, kv + 1, block, n)
                elif place + 1 < last:
                    after = rows.order[place + 1]
                    _fetch_own(rows, network, layer, after, 0, 0, min(rows.block_size, rows.own[after] + 1))
                for h in range(kv * group, (kv + 1) * group):
                    attend_some(
                        space.queries[row, h],
                        keys[slot, kv],
                        values[slot, kv],
                        n,
                        scores,
                        space.maximum[row, h : h + 1],
                        space.total[row, h : h + 1],
                        space.attention[row, h],
                    )


@compiled()
def _take_rows(network: Network, rows: Rows, space: Space, layer: int, first: int, last: int) -> None:
    """Begin attention of the rows first to last of the order."""
    for row in rows.order[first:last]:
        _take_heads(network, rows, space, layer, row)
        space.maximum[row] = -np.inf
        space.total[row] = 0
        space.attention[row] = 0


@compiled()
def _attend(network: Network, rows: Rows, space: Space, layer: int, first: int, last: int) -> None:
    """Attention of the rows first to last of the order, when all rows' keys and values are there."""
    n_kv, dim = network.n_kv_heads, network.dim
    for prompt in range(rows.lengths.size):
        start, end = max(first, rows.first[prompt]), min(last, rows.first[prompt + 1])
        if start < end and rows.lengths[prompt]:
            room = rows.rooms[prompt]
            keys = (n_kv, (room + WIDTH - 1) // WIDTH, dim, WIDTH)
            values = (n_kv, (dim + WIDTH - 1) // WIDTH, room, WIDTH)
            attend_packed(
                rows.order[start:end],
                space.queries,
                carray(as_pointer(rows.prefixes[layer, prompt, 0]), keys, np.float32),
                carray(as_pointer(rows.prefixes[layer, prompt, 1]), values, np.float32),
                rows.lengths[prompt],
                space.maximum,
                space.total,
                space.attention,
            )
    _attend_own(network, rows, space, layer, first, last)
    divide_rows(rows.order[first:last], space.total, space.attention)


@compiled()
def step(worker: int, team: Team, network: Network, rows: Rows, space: Space) -> None:
    """One thread's part, of `team.n`, in a step: from x to the logits.

    Writes the new keys and values behind each row's own. Returns when this thread is ready; when all are, it is done.
    """
    n_rows, n = rows.order.size, team.n
    first, last = n_rows * worker // n, n_rows * (worker + 1) // n
    x, attention, active = space.x.ctypes.data, space.attention.ctypes.data, space.active.ctypes.data
    n_layers = network.epsilons.size // 2
    for layer in range(n_layers):
        place = layer * N_PRODUCTS
        _norm_and_prepare(network, space, 2 * layer, n_rows, first, last)
        wait_for_all(team.barrier, n, team.give_way)
        normed = space.normed.ctypes.data
        _multiply(network, space, place + HEADS, normed, n_rows, space.heads.ctypes.data, 0, worker, n)
        wait_for_all(team.barrier, n, team.give_way)
        _take_rows(network, rows, space, layer, first, last)
        wait_for_all(team.barrier, n, team.give_way)
        _attend(network, rows, space, layer, first, last)
        wait_for_all(team.barrier, n, team.give_way)
        _prepare(network, space, attention, network.n_heads * network.dim, n_rows, first, last)
        wait_for_all(team.barrier, n, team.give_way)
        _multiply(network, space, place + AFTER_ATTENTION, attention, n_rows, x, 1, worker, n)
        wait_for_all(team.barrier, n, team.give_way)
        _norm_and_prepare(network, space, 2 * layer + 1, n_rows, first, last)
        wait_for_all(team.barrier, n, team.give_way)
        both = space.gate_and_up.ctypes.data
        _multiply(network, space, place + GATE_AND_UP, normed, n_rows, both, 0, worker, n)
        wait_for_all(team.barrier, n, team.give_way)
        gated_rows(space.gate_and_up[first:last], space.active[first:last])
        _prepare(network, space, active, space.active.shape[1], n_rows, first, last)
        wait_for_all(team.barrier, n, team.give_way)
        _multiply(network, space, place + DOWN, active, n_rows, x, 1, worker, n)
        wait_for_all(team.barrier, n, team.give_way)
    _answer(worker, team, network, rows, space, n_layers)


@compiled()
def _answer(worker: int, team: Team, network: Network, rows: Rows, space: Space, n_layers: int) -> None:
    """The logits of the rows for which they are wanted."""
    start, n = rows.first_answer, team.n
    n_rows = rows.order.size - start
    if n_rows == 0:
        return
    first, last = n_rows * worker // n, n_rows * (worker + 1) // n
    normed, last_norm = space.normed[start:], 2 * n_layers
    normalise(
        space.x[start:][first:last],
        network.norms[last_norm],
        network.epsilons[last_norm],
        normed[first:last],
    )
    inputs, out = normed.ctypes.data, space.logits.ctypes.data
    _prepare(network, space, inputs, normed.shape[1], n_rows, first, last)
    wait_for_all(team.barrier, n, team.give_way)
    _multiply(network, space, n_layers * N_PRODUCTS, inputs, n_rows, out, 0, worker, n)
