"""A llama-like network's weights and step in compiled kernels alone: for models on the CPU.

Whether a network is of this kind is seen from its parts, and found by trial: whoever makes a `NativeNetwork` compares
its logits with the library's.
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
from numpy.typing import NDArray

from toolkit.generation.arrays import to_numpy
from toolkit.generation.kernels import can_compile
from toolkit.generation.numpy_kernels import Floats, Rotary
from toolkit.generation.row_passes import workspace
from toolkit.generation.threads import MIN_WORK, TeamSize, run_together
from toolkit.generation.weight_memory import WeightMemory
from toolkit.memory import free_memory_bytes

SHARE = 0.5  # of the free memory that a second copy of the weights may take
CHUNK = 128  # positions of a text that are read at once
N_MIXED = 16  # later positions attend to more: every share gets some of all, each N_MIXED-th of them
MOST_BYTES = 1.5  # of that copy, a byte of float32 weights: see `compiled_tile_products`

Indices = NDArray[np.intp]

_ONE_STEP = threading.Lock()  # two that wait for each other's threads would wait for ever


class NativePrompt:
    """A text that was read: its keys and values, as `compiled_prefix` keeps them."""

    def __init__(self, length: int, packed: Any) -> None:
        self.length = length
        self.packed = packed
        self.addresses: NDArray[np.int64] = packed.addresses

    def layers(self) -> list[tuple[Floats, Floats]]:
        """Keys and values of each layer, (kv_heads, length, dim)."""
        unpacked: list[tuple[Floats, Floats]] = self.packed.unpacked()
        return unpacked


@dataclass
class StepRows:
    """The running texts of a step: those of each prompt, and where keys and values are."""

    members: Sequence[Indices]  # the rows of each of `prompts`, disjoint, all of 0..n-1
    prompts: Sequence[NativePrompt]
    own: Indices  # (rows,) own positions that each row holds already
    stored: NDArray[np.int64]  # (layers, blocks, 2): addresses of the rows' own keys and values
    slots: int
    block_size: int


class NativeNetwork:
    """A network's weights in order, and its step. Make it with `NativeNetwork.of`.

    Attributes
    ----------
    kind : the module of its products, see `compiled_panels`
    network : what compiled code is told of it
    """

    def __init__(self, network: Any, output: Floats) -> None:
        from toolkit.generation.compiled_step import Network
        from toolkit.generation.products import kind_of_product

        body, self.kind = network.model, kind_of_product()
        attention, rope = body.layers[0].self_attn, body.layers[0].self_attn.rope
        norms = [norm for block in body.layers for norm in _norms(block)] + [body.norm]
        self._embedding = to_numpy(body.embed_tokens.weight)
        self._rotary = Rotary(rope.dims, rope.traditional, rope.base, rope.scale)
        self._weights = _Weights(self.kind, network, output)
        self.network = Network(
            prepare=self.kind.prepare.address,
            multiply=self.kind.multiply.address,
            products=self._weights.records,
            norms=np.stack([to_numpy(norm.weight) for norm in norms]),
            epsilons=np.array([norm.eps for norm in norms], np.float64),
            n_heads=attention.n_heads,
            n_kv_heads=attention.n_kv_heads,
            dim=attention.k_proj.weight.shape[0] // attention.n_kv_heads,
            scale=float(attention.scale),
            traditional=bool(rope.traditional),
        )
        self._inner = body.layers[0].mlp.gate_proj.weight.shape[0]
        self._vocabulary = len(output)
        self._logits = mx.zeros((0, self._vocabulary))
        self._team_size = TeamSize()

    @staticmethod
    def of(network: Any, output: mx.array | None) -> NativeNetwork | None:
        """The network's weights in order; None where it has other parts, or a second copy of them does not fit.

        Parameters
        ----------
        network : MLX-LM model
        output : (vocabulary, hidden) float32 weight of the output layer, or None where it cannot be reached
        """
        if output is None or not can_compile() or not _is_plain(network):
            return None
        from toolkit.generation.products import can_multiply

        size = output.nbytes + sum(
            part.weight.nbytes for _, part in network.named_modules() if type(part) is nn.Linear
        )
        free = free_memory_bytes()
        if not can_multiply() or (free is not None and MOST_BYTES * size > SHARE * free):
            return None
        return NativeNetwork(network, to_numpy(output))

    def step(self, token_ids: Indices, rows: StepRows) -> mx.array:
        """Logits (rows, vocabulary) after one more token a row; valid until the next step.

        Writes the new keys and values behind each row's own.
        """
        return self._run(token_ids, self._running(rows))

    def read(self, token_ids: Indices) -> tuple[NativePrompt, mx.array]:
        """Read a text; its keys and values, and the logits (1, vocabulary) after its last token."""
        from toolkit.generation.compiled_prefix import packed_prompt

        length, layers = len(token_ids), len(self.network.epsilons) // 2
        text = NativePrompt(0, packed_prompt(layers, *self.kv_shape, length))
        shape = (layers, 2, self.network.n_kv_heads, min(CHUNK, length), self.network.dim)
        new = np.empty(shape, np.float32)
        while text.length < length:
            ids = token_ids[text.length : text.length + CHUNK]
            logits = self._run(ids, self._reading(len(ids), text, new, text.length + len(ids) == length))
            text.packed.append(new[:, :, :, : len(ids)], text.length)
            text.length += len(ids)
        return text, mx.array(np.array(logits))

    def _run(self, token_ids: Indices, rows: Any) -> mx.array:
        from toolkit.generation import compiled_step
        from toolkit.generation.compiled_addresses import GIVEN_UP, TEAM_SIZE, YIELD

        logits = self._room_for_logits(len(token_ids) - rows.first_answer)
        space = self._space(token_ids, to_numpy(logits))
        work = len(token_ids) * self._weights.size // len(self.network.products)
        n = max(1, min(self._team_size.n, work // MIN_WORK))
        barrier = np.zeros(TEAM_SIZE, np.int64)
        team = compiled_step.Team(n, barrier.ctypes.data, YIELD)

        def give_up() -> None:
            barrier[GIVEN_UP] = 1

        jobs = [
            functools.partial(compiled_step.step, worker, team, self.network, rows, space)
            for worker in range(n)
        ]
        with _ONE_STEP:
            started, used = time.perf_counter(), time.process_time()
            run_together(jobs, give_up)
            self._team_size.tell(n, time.perf_counter() - started, time.process_time() - used)
        return logits

    def _room_for_logits(self, rows: int) -> mx.array:
        """(rows, vocabulary) of MLX's, which kernels write into, so that no step copies logits."""
        if self._logits.shape[0] < rows:
            self._logits = mx.zeros((rows, self._vocabulary))
        logits = self._logits[:rows]
        mx.eval(self._logits, logits)
        return logits

    @property
    def kv_shape(self) -> tuple[int, int]:
        """Heads of keys and values, and the numbers of each."""
        return self.network.n_kv_heads, self.network.dim

    def _space(self, token_ids: Indices, logits: Floats) -> Any:
        from toolkit.generation.compiled_step import Space

        n, array = len(token_ids), workspace().array
        network, hidden = self.network, self._embedding.shape[1]
        heads, dim = network.n_heads, network.dim
        x = array("hidden", (n, hidden))
        np.take(self._embedding, token_ids, axis=0, out=x)
        most_inputs = max(hidden, self._inner, heads * dim)
        return Space(
            x=x,
            normed=array("normed", (n, hidden)),
            prepared=array("prepared", (self.kind.prepared_size(n, most_inputs),), np.uint8),
            heads=array("heads", (n, heads + 2 * network.n_kv_heads, dim)),
            queries=array("queries", (n, heads, dim)),
            maximum=array("maximum", (n, heads)),
            total=array("total", (n, heads)),
            attention=array("attention", (n, heads, dim)),
            gate_and_up=array("gate_and_up", (n, 2 * self._inner)),
            active=array("active", (n, self._inner)),
            logits=logits,
        )

    def _running(self, rows: StepRows) -> Any:
        from toolkit.generation.compiled_step import Rows

        order = np.concatenate(rows.members)
        first = np.cumsum([0, *map(len, rows.members)])
        lengths = np.array([prompt.length for prompt in rows.prompts], np.intp)
        positions = np.empty(len(order), np.intp)
        positions[order] = np.repeat(lengths, np.diff(first))
        cos, sin = self._rotary.angles(positions + rows.own)
        return Rows(
            order=order,
            first=first,
            prefixes=np.stack([prompt.addresses for prompt in rows.prompts], axis=1),
            lengths=lengths,
            rooms=lengths,
            own=np.ascontiguousarray(rows.own),
            stored=rows.stored,
            slots=rows.slots,
            slot=np.arange(len(order)),
            block_size=rows.block_size,
            first_answer=0,
            cos=cos,
            sin=sin,
        )

    def _reading(self, n: int, before: NativePrompt, new: Floats, answers: bool) -> Any:
        """The next n positions of a text; their keys and values go into `new`, (layers, 2, kv_heads, most, dim)."""
        from toolkit.generation.compiled_step import Rows

        cos, sin = self._rotary.angles(before.length + np.arange(n))
        return Rows(
            order=np.concatenate([np.arange(i, n, N_MIXED) for i in range(N_MIXED)]),
            first=np.array([0, n]),
            prefixes=before.addresses[:, None],
            lengths=np.array([before.length]),
            rooms=np.array([before.packed.values.shape[3]]),
            own=np.arange(n),
            stored=np.array([[[one.ctypes.data for one in layer]] for layer in new], np.int64),
            slots=1,
            slot=np.zeros(n, np.intp),
            block_size=new.shape[3],
            first_answer=n - answers,
            cos=cos,
            sin=sin,
        )


class _Weights:
    """The weights of all products, in order, and their records; those that read the same are one product."""

    def __init__(self, kind: Any, network: Any, output: Floats) -> None:
        self._kind, self._memory = kind, WeightMemory()
        self._kept: list[Any] = []  # what records have addresses of
        records = []
        for block in network.model.layers:
            attention, mlp = block.self_attn, block.mlp
            records += [
                self._record(attention.q_proj, attention.k_proj, attention.v_proj),
                self._record(attention.o_proj),
                self._record(mlp.gate_proj, mlp.up_proj),
                self._record(mlp.down_proj),
            ]
        records.append(self._record_of([output], [None]))
        self.records = np.stack(records)

    @property
    def size(self) -> int:
        """Numbers in all of them."""
        return sum(panels.outputs * panels.inputs for panels, _ in self._kept)

    def _record(self, *layers: nn.Linear) -> NDArray[np.int64]:
        biases = [to_numpy(one.bias) if "bias" in one else None for one in layers]
        return self._record_of([to_numpy(one.weight) for one in layers], biases)

    def _record_of(self, weights: list[Floats], biases: Sequence[Floats | None]) -> NDArray[np.int64]:
        bias = None
        if any(one is not None for one in biases):
            bias = np.concatenate(
                [
                    np.zeros(len(w), np.float32) if b is None else b
                    for w, b in zip(weights, biases, strict=True)
                ]
            )
        panels = self._kind.pack(weights[0] if len(weights) == 1 else np.concatenate(weights), self._memory)
        self._kept.append((panels, bias))
        record: NDArray[np.int64] = panels.record(bias)
        return record


def _norms(block: Any) -> tuple[nn.RMSNorm, nn.RMSNorm]:
    return block.input_layernorm, block.post_attention_layernorm


def _is_plain(network: Any) -> bool:
    """Whether a network has the parts of a llama, and no others, with plain float32 weights."""
    body = getattr(network, "model", None)
    blocks = getattr(body, "layers", None)
    if body is None or not blocks or type(getattr(body, "embed_tokens", None)) is not nn.Embedding:
        return False
    weights = [part for _, part in network.named_modules() if hasattr(part, "weight")]
    return (
        {type(part) for part in weights} <= {nn.Linear, nn.RMSNorm, nn.Embedding}
        and all(part.weight.dtype == mx.float32 for part in weights)
        and all(_is_plain_block(block) for block in blocks)
        and len({_measures(block) for block in blocks}) == 1
    )


def _is_plain_block(block: Any) -> bool:
    names = {"self_attn", "mlp", "input_layernorm", "post_attention_layernorm"}
    if set(block.children()) != names:
        return False
    attention, mlp = block.self_attn, block.mlp
    return (
        set(attention.children()) == {"q_proj", "k_proj", "v_proj", "o_proj", "rope"}
        and type(attention.rope) is nn.RoPE
        and all(hasattr(attention, name) for name in ("n_heads", "n_kv_heads", "scale"))
        and set(mlp.children()) == {"gate_proj", "up_proj", "down_proj"}
        and attention.k_proj.weight.shape == attention.v_proj.weight.shape
    )


def _measures(block: Any) -> tuple[Any, ...]:
    """What has to be the same in all blocks."""
    attention, rope = block.self_attn, block.self_attn.rope
    return (
        *(attention.n_heads, attention.n_kv_heads, attention.scale),
        *(rope.dims, rope.traditional, rope.base, rope.scale),
        *(part.weight.shape for _, part in block.named_modules() if hasattr(part, "weight")),
    )
