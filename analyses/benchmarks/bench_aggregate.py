"""Statistics of tokens over segments beside DuckDB, Polars and bare reading; memory by size; many small files.

Each turn is a process of its own, so that its peak memory is its own: seconds of the work itself, without the
start of Python, and the largest resident size of the process. Runs are made here: lengths and texts as answers have
them, values of plausible size, the tables as a collection writes them, without alternatives. With
`--sizes 1000000 10000000 100000000` memory is measured up to a hundred million tokens, which take 6 GB of disk.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.metadata import version
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from toolkit import stats
from toolkit.aggregation.selection import ALTERNATIVES, KEY
from toolkit.alignment import align
from toolkit.cli.main import main as toolkit_main
from toolkit.records import PromptRecord, SequenceRecord, TokenStatistics, unwatched
from toolkit.store import Manifest, RunWriter, open_run
from toolkit.store.blocks import Block
from toolkit.store.commit import commit_part
from toolkit.store.compact import compact
from toolkit.store.layout import part_name
from toolkit.store.rows import sequence_block

VOCABULARY_SIZE = 49_152
SAMPLES = 8
PART_TOKENS = 120_000  # about a row group
FIRST_COPY = 500_000  # number of a part; those of the writer are far below
PARTY = "🎉".encode()
SMALL_PART = 500  # tokens of a part where there are many
THREE = ("sum_logprob", "mean_logprob", "min_logprob")
SEGMENT_COLUMNS = [
    "segment_index",
    "text",
    *("byte_start", "byte_end", "char_start", "char_end", "token_start", "token_end"),
]
FLAT = 1.5  # so much more memory a larger run may take
OUTPUT = Path(__file__).parents[2] / "data" / "reports" / "bench_aggregate.json"


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
        **unwatched(n),
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


def make_run(path: Path, n_tokens: int, seed: int = 0, part_tokens: int = PART_TOKENS) -> None:
    """A run of n tokens; the parts after the first hold the same sequences under other prompts."""
    rng = np.random.default_rng(seed)
    pieces = made_vocabulary(rng)
    vocabulary: dict[int, tuple[bytes | None, str, bool]] = {
        i: (piece, piece.decode("utf-8", "replace"), False) for i, piece in enumerate(pieces)
    }
    vocabulary[len(pieces)] = (None, "<end>", True)
    records = made_records(min(n_tokens, part_tokens), rng, pieces)
    prompts: list[str] = []
    with RunWriter.create(path, _manifest()) as writer, ThreadPoolExecutor(8) as threads:
        copies = []
        for number, first in enumerate(range(0, n_tokens, part_tokens)):
            if n_tokens - first < part_tokens:
                sizes = np.cumsum([len(record.token_ids) for record in records])
                records = records[: int(np.searchsorted(sizes, n_tokens - first)) + 1]
            if number == 0 or n_tokens - first < part_tokens:
                block = sequence_block(records)
            names = {record.prompt_id: f"{number:06d}-{record.prompt_id}" for record in records}
            if number == 0:  # by the writer, which stores the vocabulary too
                writer.add_prompts(map(_prompt, names.values()))
                writer.commit([replace(r, prompt_id=names[r.prompt_id]) for r in records], vocabulary)
            else:
                prompts += names.values()
                part = part_name(writer.session_id, FIRST_COPY + number)
                copies.append(threads.submit(_commit_copy, path, part, block, number))
        writer.add_prompts(map(_prompt, prompts))
        for copy in copies:
            copy.result()


def _commit_copy(path: Path, part: str, block: Block, number: int) -> None:
    commit_part(path, "sequences", part, _renamed(block, number))


def _prompt(name: str) -> PromptRecord:
    return PromptRecord(name, 0, "What?", np.zeros(1, np.int32))


def _renamed(block: Block, number: int) -> Block:
    rows = {}
    for name, table in block.rows.items():
        ids = pc.binary_join_element_wise(f"{number:06d}", table["prompt_id"].cast(pa.string()), "-")
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


def command_three(path: Path) -> int:
    """What a user types, with its result in a file."""
    return _summarized(path, ["--metrics", ",".join(THREE)])


def command_sequences(path: Path) -> int:
    return _summarized(path, [], by="sequence")


def _summarized(path: Path, options: list[str], by: str = "segment") -> int:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "spans.parquet")
        if toolkit_main(["summarize", str(path), "--by", by, *options, "-o", str(target)]):
            raise RuntimeError("toolkit summarize failed")
        return int(pq.read_metadata(target).num_rows)


def compacted(path: Path) -> int:
    """A copy of the run, its files merged; files of it counted."""
    with tempfile.TemporaryDirectory() as folder:
        copy = shutil.copytree(path, Path(folder, "run"))
        start = time.perf_counter()
        compact(copy)
        _took(time.perf_counter() - start)
        return len(list(copy.rglob("*.parquet")))


def opened(path: Path) -> int:
    """Opening alone; parts counted."""
    return len(open_run(path).parts())


def columns_read(path: Path) -> int:
    """The columns that every estimator of tokens needs, read by pyarrow a file at a time, and nothing else."""
    inputs = {name for one in stats.estimators("token-span") for name in one.inputs} - {ALTERNATIVES}
    columns = {
        "tokens": [*KEY, "token_index", "token_id", "byte_start", "byte_end", *sorted(inputs)],
        "sequences": [*KEY, "n_tokens", "n_bytes", "has_end", "finish_reason", "text"],
        "segments": [*KEY, *SEGMENT_COLUMNS],
    }
    for table, names in columns.items():
        rows = 0
        for file in sorted((path / table).glob("*.parquet")):
            rows += pq.ParquetFile(file).read(columns=names).num_rows
    return rows


def duckdb_three(path: Path) -> int:
    """A segment's tokens by their numbers, joined, then grouped."""
    return sum(batch.num_rows for batch in _duckdb().sql(_query(path)).to_arrow_reader(1 << 17))


def duckdb_file(path: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "spans.parquet")
        _duckdb().sql(f"COPY ({_query(path, 'text')}) TO '{target}' (FORMAT parquet, COMPRESSION zstd)")
        return int(pq.read_metadata(target).num_rows)


def _duckdb() -> Any:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET enable_progress_bar = false")
    return connection


def _query(path: Path, *more: str) -> str:
    also = "".join(f", {name}" for name in more)
    return f"""
        WITH pairs AS (
            SELECT prompt_id, kind, sample_index, segment_index{also},
                   unnest(range(token_start, token_end))::INTEGER AS token_index
            FROM '{path}/segments/*.parquet'
        )
        SELECT prompt_id, kind, sample_index, segment_index{also}, sum(logprob), avg(logprob), min(logprob)
        FROM pairs JOIN '{path}/tokens/*.parquet' USING (prompt_id, kind, sample_index, token_index)
        GROUP BY ALL
    """


def polars_three(path: Path) -> int:
    """The same in Polars, on its streaming engine."""
    return int(_polars(path).collect(engine="streaming").height)


def polars_file(path: Path) -> int:
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder, "spans.parquet")
        _polars(path, "text").sink_parquet(target, compression="zstd", compression_level=1)
        return int(pq.read_metadata(target).num_rows)


def _polars(path: Path, *more: str) -> Any:
    import polars as pl

    pairs = (
        pl.scan_parquet(path / "segments" / "*.parquet")
        .select(
            *KEY,
            "segment_index",
            *more,
            pl.int_ranges("token_start", "token_end", dtype=pl.Int32).alias("token_index"),
        )
        .explode("token_index")
    )
    tokens = pl.scan_parquet(path / "tokens" / "*.parquet").select(*KEY, "token_index", "logprob")
    return (
        pairs.join(tokens, on=[*KEY, "token_index"])
        .group_by(*KEY, "segment_index", *more)
        .agg(
            pl.col("logprob").sum().alias("sum"),
            pl.col("logprob").mean().alias("mean"),
            pl.col("logprob").min().alias("min"),
        )
    )


class Turn(NamedTuple):
    """Something that is measured."""

    title: str
    function: Callable[[Path], int]  # what it counted
    package: str | None = None  # that it needs


TURNS = {
    "read": Turn("pyarrow, reading their columns alone", columns_read),
    "all": Turn("this project, every estimator of tokens", ours_all),
    "three": Turn("this project, sum, mean and min", ours_three),
    "duckdb": Turn("DuckDB, sum, mean and min", duckdb_three, "duckdb"),
    "polars": Turn("Polars, sum, mean and min", polars_three, "polars"),
    "command": Turn("toolkit summarize, the three into a file", command_three),
    "duckdb_file": Turn("DuckDB, the three into a file", duckdb_file, "duckdb"),
    "polars_file": Turn("Polars, the three into a file", polars_file, "polars"),
    "words": Turn("this project, five statistics over words", words),
    "sequences": Turn("toolkit summarize --by sequence, a file", command_sequences),
    "open": Turn("opening the run", opened),
    "compact": Turn("toolkit compact, of a copy", compacted),
}
COMPARED = ("read", "all", "three", "duckdb", "polars", "command", "duckdb_file", "polars_file", "words")
OF_SIZES = ("three", "all", "command", "sequences")
OF_FILES = ("open", "three", "command", "compact")

_own_seconds: list[float] = []


def _took(seconds: float) -> None:
    """A turn that prepares something says what counts."""
    _own_seconds.append(seconds)


def turn(name: str, path: Path) -> dict[str, Any]:
    """Seconds by the clock and of the cores, and peak memory, of one, in this process."""
    start, before = time.perf_counter(), time.process_time()
    counted = TURNS[name].function(path)
    seconds = _own_seconds[0] if _own_seconds else time.perf_counter() - start
    return {
        "seconds": seconds,
        "core_seconds": time.process_time() - before,
        "peak_bytes": peak_bytes(),
        "counted": counted,
    }


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


def median_of(names: Sequence[str], path: Path, repeat: int) -> dict[str, dict[str, Any]]:
    """Each turn by its median, the turns one after the other in every round: the machine's pace wanders."""
    able = [name for name in names if _is_there(TURNS[name].package)]
    for name in names:
        if name not in able:
            print(f"  {TURNS[name].title:<42} {TURNS[name].package} is not installed")
    rounds = [{name: measure(name, path) for name in able} for _ in range(repeat)]
    found = {}
    for name in able:
        each = sorted((one[name] for one in rounds), key=itemgetter("seconds"))
        found[name] = each[len(each) // 2] | {"all_seconds": [one["seconds"] for one in each]}
        print(
            f"  {TURNS[name].title:<42} {found[name]['seconds']:7.2f} s  "
            f"{found[name]['core_seconds']:7.2f} core s  "
            f"{found[name]['peak_bytes'] / 2**20:6.0f} MiB  {found[name]['counted']:>12,}",
            flush=True,
        )
    return found


def _is_there(package: str | None) -> bool:
    return package is None or importlib.util.find_spec(package) is not None


class Goal(NamedTuple):
    """A figure that is wanted."""

    name: str
    value: float
    limit: float
    at_most: bool

    @property
    def reached(self) -> bool:
        return self.value <= self.limit if self.at_most else self.value >= self.limit

    def shown(self) -> str:
        return (
            f"  {self.name:<62} {self.value:6.2f}, wanted {'at most' if self.at_most else 'at least'} "
            f"{self.limit:g}: {'reached' if self.reached else 'short'}"
        )


def goals_of(compared: dict[str, Any], sizes: dict[int, Any], files: dict[str, Any]) -> list[Goal]:
    """What was measured beside what is wanted."""
    found = []
    for theirs, ours in (("duckdb", "three"), ("polars", "three")):
        if theirs in compared:
            found += [
                _ratio(f"{TURNS[them].title} / ours", compared, them, own)
                for them, own in ((theirs, ours), (f"{theirs}_file", "command"))
            ]
    if compared:
        ratio = compared["all"]["seconds"] / compared["read"]["seconds"]
        found.append(Goal("every estimator / reading their columns", ratio, 3, True))
    if len(sizes) > 1:
        smallest, largest = sizes[min(sizes)], sizes[max(sizes)]
        for name in OF_SIZES:
            ratio = largest[name]["peak_bytes"] / smallest[name]["peak_bytes"]
            what = f"peak memory at {max(sizes):,} / {min(sizes):,} tokens, {name}"
            found.append(Goal(what, ratio, FLAT, True))
    if files:
        found.append(Goal("seconds to open the run of many files", files["open"]["seconds"], 2, True))
    return found


def _ratio(name: str, compared: dict[str, Any], theirs: str, ours: str) -> Goal:
    return Goal(name, compared[theirs]["seconds"] / compared[ours]["seconds"], 1, False)


def environment() -> dict[str, Any]:
    """What the figures depend on."""
    packages = ("numpy", "pyarrow", "duckdb", "polars")
    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.platform(),
        "cores": os.cpu_count(),
        "load": os.getloadavg(),
        "packages": {name: version(name) for name in packages if _is_there(name)},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tokens", type=int, default=10_000_000, help="of the run that all are compared on")
    parser.add_argument("--run", type=Path, help="compare on this run, or make it there and keep it")
    parser.add_argument("--repeat", type=int, default=3, help="rounds; medians are shown")
    parser.add_argument(
        "--sizes",
        type=int,
        nargs="*",
        default=[1_000_000, 10_000_000],
        metavar="TOKENS",
        help="runs whose peak memory is compared, about 60 bytes a token on disk (1,000,000 10,000,000)",
    )
    parser.add_argument(
        "--files", type=int, default=10_000, help="parts of a run of many small ones; 0: none"
    )
    parser.add_argument("--output", type=Path, default=OUTPUT, help="write the figures here as JSON")
    parser.add_argument("--turn", choices=list(TURNS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.turn is not None:
        print(json.dumps(turn(args.turn, args.run)))
        return
    with tempfile.TemporaryDirectory() as folder:
        compared = _compared(Path(folder), args)
        sizes = {size: _of_size(Path(folder, "sized"), size) for size in sorted(args.sizes)}
        files = _of_files(Path(folder, "files"), args.files) if args.files else {}
    goals = goals_of(compared, sizes, files)
    print("\n".join(["Goals:", *(goal.shown() for goal in goals)]))
    figures = {
        "environment": environment(),
        "tokens": args.tokens,
        "compared": compared,
        "sizes": sizes,
        "n_files": args.files,
        "files": files,
        "goals": [{**goal._asdict(), "reached": goal.reached} for goal in goals],
    }
    args.output.parent.mkdir(parents=True, exist_ok=True)
    args.output.write_text(json.dumps(figures, indent=2) + "\n")


def _compared(folder: Path, args: argparse.Namespace) -> dict[str, Any]:
    if not args.repeat:
        return {}
    path = args.run if args.run is not None else folder / "compared"
    if not path.exists():
        make_run(path, args.tokens)
    size = sum(file.stat().st_size for file in path.rglob("*.parquet"))
    print(f"{path.name}: {args.tokens:,} tokens, {size / args.tokens:.1f} bytes each on disk", flush=True)
    found = median_of(COMPARED, path, args.repeat)
    if args.run is None:
        shutil.rmtree(path)
    return found


def _of_size(path: Path, n_tokens: int) -> dict[str, Any]:
    print(f"{n_tokens:,} tokens:", flush=True)
    make_run(path, n_tokens)
    found = median_of(OF_SIZES, path, 1)
    shutil.rmtree(path)
    return found


def _of_files(path: Path, n_files: int) -> dict[str, Any]:
    print(f"{n_files:,} parts:", flush=True)
    make_run(path, n_files * SMALL_PART, part_tokens=SMALL_PART)
    found = median_of(OF_FILES, path, 1)
    shutil.rmtree(path)
    return found


if __name__ == "__main__":
    main()
