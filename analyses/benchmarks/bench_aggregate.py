"""Every statistic of tokens over segments, and three of them beside DuckDB and Polars, over one made run.

Each turn is a process of its own, so that its peak memory is its own: seconds of the aggregation itself, and the
largest resident size of the process. The run is made here: lengths and texts as answers have them, values of
plausible size, the tables as a collection writes them, without alternatives.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from toolkit import stats
from toolkit.alignment import align
from toolkit.records import PromptRecord, SequenceRecord, TokenStatistics
from toolkit.store import Manifest, RunWriter, open_run
from toolkit.store.blocks import Block
from toolkit.store.commit import commit_part
from toolkit.store.layout import part_name
from toolkit.store.rows import sequence_block

VOCABULARY_SIZE = 49_152
SAMPLES = 8
PART_TOKENS = 120_000  # about a row group
FIRST_COPY = 500_000  # number of a part; those of the writer are far below
PARTY = "🎉".encode()
THREE = ("sum_logprob", "mean_logprob", "min_logprob")


def made_vocabulary(rng: np.random.Generator) -> list[bytes]:
    """Words with a space before them and marks; at last the bytes of a character of several tokens."""
    letters = rng.choice(list("etaoinshrdlucmfw"), (4000, 9))
    words = [" " + "".join(row[: 1 + i % 9]) for i, row in enumerate(letters)]
    marks = [".", ",", "\n", " é", "日本", '"']
    return [text.encode() for text in [*words, *marks]] + [bytes([byte]) for byte in PARTY]


def made_statistics(n: int, rng: np.random.Generator) -> TokenStatistics:
    """Of n tokens: most of them all but certain, some open."""
    entropy = rng.gamma(0.5, 1.6, n)
    surprise = np.minimum(entropy * rng.gamma(1, 1, n), 25)
    top1 = -np.minimum(surprise, entropy * 0.6)
    columns: dict[str, Any] = {
        "logprob": -surprise,
        "constrained_logprob": np.full(n, np.nan),
        "sampling_logprob": -0.8 * surprise,
        "entropy": entropy,
        "varentropy": entropy * 1.5 + 1e-3,
        "logsumexp": rng.normal(18, 2, n),
        "mean_logit": rng.normal(0, 1, n),
        "lse_half": rng.normal(15, 1, n),
        "lse_quarter": rng.normal(13, 0.5, n),
        "top1_logprob": top1,
        "top2_logprob": top1 - rng.gamma(1, 2, n),
        "top15_entropy": np.minimum(entropy, 2.7),
        "top20_mean_logprob": -rng.gamma(20, 0.6, n),
        "boosted_prob": np.exp(-surprise),
    }
    return TokenStatistics(
        **{name: values.astype(np.float32) for name, values in columns.items()},
        rank=1 + rng.geometric(0.7, n).astype(np.int32) - 1,
        n_finite=np.full(n, VOCABULARY_SIZE, np.int32),
        alternative_ids=np.empty((n, 0), np.int32),
        alternative_logprobs=np.empty((n, 0), np.float32),
    )


def made_records(n_tokens: int, rng: np.random.Generator, pieces: list[bytes]) -> list[SequenceRecord]:
    """Sequences of 2 to 2,000 tokens, half of them below 130, in the order of their keys."""
    records: list[SequenceRecord] = []
    left = n_tokens
    while left > 0:
        n = int(np.clip(rng.lognormal(4.9, 0.9), 2, min(2000, max(left, 2))))
        left -= n
        ids = ((rng.zipf(1.15, n) - 1) % (len(pieces) - len(PARTY))).astype(np.int32)
        if n > 10 and rng.random() < 0.3:
            ids[5 : 5 + len(PARTY)] = range(len(pieces) - len(PARTY), len(pieces))
        token_bytes = [*(pieces[i] for i in ids[:-1]), None]
        ids[-1] = len(pieces)
        prompt, sample = divmod(len(records), SAMPLES)
        records.append(
            SequenceRecord(
                prompt_id=f"{prompt:05d}",
                kind="sample",
                sample_index=sample,
                token_ids=ids,
                statistics=made_statistics(n, rng),
                alignment=align(token_bytes),
                has_end=True,
                finish_reason="stop",
                stop_reason="<end>",
                seed=0,
            )
        )
    return records


def make_run(path: Path, n_tokens: int, seed: int = 0) -> None:
    """A run of n tokens; the parts after the first hold the same sequences under other prompts."""
    rng = np.random.default_rng(seed)
    pieces = made_vocabulary(rng)
    vocabulary = {i: (piece, piece.decode("utf-8", "replace"), False) for i, piece in enumerate(pieces)}
    vocabulary[len(pieces)] = (None, "<end>", True)
    records = made_records(min(n_tokens, PART_TOKENS), rng, pieces)
    with RunWriter.create(path, _manifest()) as writer:
        for number, first in enumerate(range(0, n_tokens, PART_TOKENS)):
            if n_tokens - first < PART_TOKENS:
                sizes = np.cumsum([len(record.token_ids) for record in records])
                records = records[: int(np.searchsorted(sizes, n_tokens - first)) + 1]
            if number == 0 or n_tokens - first < PART_TOKENS:
                block = sequence_block(records)
            names = {record.prompt_id: f"{number:04d}-{record.prompt_id}" for record in records}
            writer.add_prompts(PromptRecord(i, 0, "What?", np.zeros(1, np.int32)) for i in names.values())
            if number == 0:  # by the writer, which stores the vocabulary too
                writer.commit([replace(r, prompt_id=names[r.prompt_id]) for r in records], vocabulary)
            else:
                part = part_name(writer.session_id, FIRST_COPY + number)
                commit_part(path, "sequences", part, _renamed(block, number))


def _renamed(block: Block, number: int) -> Block:
    rows = {}
    for name, table in block.rows.items():
        ids = pc.binary_join_element_wise(f"{number:04d}", table["prompt_id"].cast(pa.string()), "-")
        rows[name] = table.set_column(0, table.schema.field(0), ids)
    return Block(rows, block.counts)


def _manifest() -> Manifest:
    return Manifest(
        command=("bench_aggregate",),
        config={},
        content_config={"model": {"name": "made"}},
        model={"name": "made"},
        tokenizer={},
        versions={},
        device="cpu",
        dtype="float32",
        logits_dtype="float32",
        seed=0,
    )


def ours_all(path: Path) -> int:
    """Every estimator of tokens over segments; spans counted."""
    return sum(table.num_rows for table in open_run(path).iter_spans("segment", stats.names("token-span")))


def ours_three(path: Path) -> int:
    return sum(table.num_rows for table in open_run(path).iter_spans("segment", list(THREE)))


def words(path: Path) -> int:
    """The default statistics over words, which are found in the texts."""
    return sum(table.num_rows for table in open_run(path).iter_spans("word"))


def duckdb_three(path: Path) -> int:
    """A segment's tokens by their numbers, joined, then grouped."""
    import duckdb

    query = f"""
        WITH pairs AS (
            SELECT prompt_id, kind, sample_index, segment_index,
                   unnest(range(token_start, token_end))::INTEGER AS token_index
            FROM '{path}/segments/*.parquet'
        )
        SELECT prompt_id, kind, sample_index, segment_index, sum(logprob), avg(logprob), min(logprob)
        FROM pairs JOIN '{path}/tokens/*.parquet' USING (prompt_id, kind, sample_index, token_index)
        GROUP BY ALL
    """
    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return sum(batch.num_rows for batch in connection.sql(query).to_arrow_reader(1 << 17))


def polars_three(path: Path) -> int:
    """The same in Polars, on its streaming engine."""
    import polars as pl

    key = ["prompt_id", "kind", "sample_index"]
    pairs = (
        pl.scan_parquet(path / "segments" / "*.parquet")
        .select(
            *key,
            "segment_index",
            pl.int_ranges("token_start", "token_end", dtype=pl.Int32).alias("token_index"),
        )
        .explode("token_index")
    )
    tokens = pl.scan_parquet(path / "tokens" / "*.parquet").select(*key, "token_index", "logprob")
    found = (
        pairs.join(tokens, on=[*key, "token_index"])
        .group_by(*key, "segment_index")
        .agg(
            pl.col("logprob").sum().alias("sum"),
            pl.col("logprob").mean().alias("mean"),
            pl.col("logprob").min().alias("min"),
        )
        .collect(engine="streaming")
    )
    return found.height


TURNS: dict[str, tuple[str, Callable[[Path], int], str | None]] = {
    "all": ("this project, every estimator of tokens", ours_all, None),
    "three": ("this project, sum, mean and min", ours_three, None),
    "duckdb": ("DuckDB, sum, mean and min", duckdb_three, "duckdb"),
    "polars": ("Polars, sum, mean and min", polars_three, "polars"),
    "words": ("this project, five statistics over words", words, None),
}


def turn(name: str, path: Path) -> dict[str, Any]:
    """Seconds and peak memory of one, in this process."""
    start = time.perf_counter()
    n_spans = TURNS[name][1](path)
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_bytes": peak_bytes(), "n_spans": n_spans}


def peak_bytes() -> int:
    """The largest resident size of this process."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage would count what the process was forked from
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
        return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def measure(name: str, path: Path) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, __file__, "--turn", name, "--run", str(path)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=10_000_000)
    parser.add_argument("--run", type=Path, help="use this run, or make it there and keep it")
    parser.add_argument("--only", nargs="+", choices=list(TURNS), default=list(TURNS))
    parser.add_argument("--output", type=Path, help="write the figures here as JSON")
    parser.add_argument("--turn", choices=list(TURNS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.turn is not None:
        print(json.dumps(turn(args.turn, args.run)))
        return
    folder = Path(tempfile.mkdtemp())
    try:
        path = args.run if args.run is not None else folder / "run"
        if not path.exists():
            start = time.perf_counter()
            make_run(path, args.tokens)
            print(f"made a run of {args.tokens:,} tokens in {time.perf_counter() - start:.0f} s", flush=True)
        figures = {name: _shown(name, path) for name in args.only}
    finally:
        shutil.rmtree(folder)
    if args.output is not None:
        args.output.parent.mkdir(parents=True, exist_ok=True)
        args.output.write_text(json.dumps(figures, indent=2) + "\n")


def _shown(name: str, path: Path) -> dict[str, Any] | None:
    title, _, package = TURNS[name]
    if package is not None and importlib.util.find_spec(package) is None:
        print(f"  {title:<42} {package} is not installed: pip install {package}")
        return None
    figures = measure(name, path)
    print(
        f"  {title:<42} {figures['seconds']:6.1f} s  {figures['peak_bytes'] / 2**20:6.0f} MiB  "
        f"{figures['n_spans']:>12,} spans",
        flush=True,
    )
    return figures


if __name__ == "__main__":
    main()
