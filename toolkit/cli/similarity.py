"""`toolkit similarity RUN`: how alike each prompt's samples are, from a file, by a model or by embeddings."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from toolkit.characters import count, visible
from toolkit.cli.arguments import add_json, add_runs, existing_file
from toolkit.cli.collecting import stop_on_sigterm
from toolkit.errors import ToolkitError

if TYPE_CHECKING:
    from toolkit.aggregation.answer_pairs import Answers, Measure, PairPlan
    from toolkit.store import Run

SOURCES = ("file", "model", "embeddings")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_runs(parser, several=False)
    parser.add_argument(
        "--from",
        dest="file",
        type=existing_file,
        metavar="FILE",
        help="take them from a .csv, .jsonl or .parquet with prompt_id, i, j and value (0 to 1); i and j are "
        "numbers of samples, or greedy",
    )
    parser.add_argument(
        "--model",
        nargs="?",
        const="",
        metavar="M",
        help="ask this model whether two answers mean the same: folder, .gguf or repository (the default model)",
    )
    parser.add_argument(
        "--embeddings", metavar="NAME", help="cosine of this model2vec model's vectors: folder or repository"
    )
    parser.add_argument(
        "--over",
        metavar="PART",
        help="what of each text is compared: sequence, answer, regex:PATTERN or field:PATH (the answer where texts "
        "have thinking blocks, else the sequence)",
    )
    parser.add_argument("--name", metavar="NAME", help=f"keep them as this ({', '.join(SOURCES)})")
    parser.add_argument(
        "--overwrite", action="store_true", help="compare again what is stored under the name"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="tell the number of pairs and the cost, and stop"
    )
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Compare and keep; print what was compared and where it is."""
    source = _source(args)
    from toolkit.aggregation.answer_pairs import answers_of
    from toolkit.judging.evaluation import part_of
    from toolkit.store import open_run
    from toolkit.store.similarities import check_name

    name = check_name(args.name or source)
    opened = open_run(args.runs[0])
    part = part_of(opened, args.over)
    answers = answers_of(opened, part, questions=source == "model")
    if source == "file":
        return _keep_file(opened, answers, name, args)
    settings, measure = _by_model(args.model) if source == "model" else _by_embeddings(args.embeddings)
    return _keep_measured(opened, answers, name, measure, {**settings, "over": str(part)}, args)


def _source(args: argparse.Namespace) -> str:
    given = [source for source in SOURCES if getattr(args, source) is not None]
    if len(given) != 1:
        raise ToolkitError("--from, --model, --embeddings: give one of them: where similarities come from")
    if given == ["file"] and args.over is not None:
        raise ToolkitError("--over: with --from nothing is compared here: leave it out")
    return given[0]


def _by_model(name: str) -> tuple[dict[str, Any], Measure]:
    from toolkit.collect.pair_judge import QUESTION, PairJudge
    from toolkit.models import load

    model = load(name or None)
    settings = {
        "source": "model",
        "model": model.name,
        "weights_hash": model.weights_hash,
        "template_hash": model.template_hash,
        "dtype": model.dtype,
        "question": QUESTION,
    }
    return settings, PairJudge(model)


def _by_embeddings(name: str) -> tuple[dict[str, Any], Measure]:
    from toolkit.aggregation.embedded_similarity import embedding_measure, load_embedder

    return {"source": "embeddings", "model": name}, embedding_measure(load_embedder(name))


def _keep_file(opened: Run, answers: list[Answers], name: str, args: argparse.Namespace) -> int:
    from toolkit.aggregation.similarity_files import read_pairs
    from toolkit.store.similarities import similarity_sets, write_similarities

    rows = read_pairs(args.file, answers)
    result = {"run": str(opened.path), "name": name, "n_pairs": rows.num_rows}
    if not args.dry_run:
        if not args.overwrite and any(one.name == name for one in similarity_sets(opened.path)):
            raise ToolkitError(
                f"{opened.path}: there are similarities named {name}: give --overwrite, or another --name"
            )
        write_similarities(opened.path, rows, name, {"source": "file"})
    said = f"{count(rows.num_rows, 'pair')} of {args.file}"
    _print(result, said if args.dry_run else f"{said} kept as stored:{name}", args.json)
    return 0


def _keep_measured(
    opened: Run,
    answers: list[Answers],
    name: str,
    measure: Measure,
    settings: dict[str, Any],
    args: argparse.Namespace,
) -> int:
    from toolkit.aggregation.answer_pairs import keep_similarities, plan_pairs, stored_values
    from toolkit.collect.progress import Progress

    known = {} if args.overwrite else stored_values(opened, name, settings, answers)
    plan = plan_pairs(answers, known)
    cost = _cost(plan, measure)
    result = {"run": str(opened.path), "name": name, **cost}
    if args.dry_run:
        _print(result, _told(cost), args.json)
        return 0
    print(f"toolkit similarity: {_told(cost)}", file=sys.stderr)
    stop_on_sigterm()
    n_before = len(plan.known)
    try:
        with Progress(len(plan.asked), label="similarity", unit="pair") as progress:
            keep_similarities(opened, plan, measure, name, settings, progress.update)
    except KeyboardInterrupt:
        print("toolkit similarity: interrupted; the same command goes on from here", file=sys.stderr)
        return 1
    before = f" ({count(n_before, 'pair')} of texts were known)" if n_before else ""
    _print(result, f"{count(plan.n_pairs, 'pair')} kept as stored:{name}{before}", args.json)
    return 0


def _cost(plan: PairPlan, measure: Measure) -> dict[str, Any]:
    """What is to be done; tokens and seconds only of a model that reads."""
    from toolkit.collect.pair_judge import PairJudge

    cost: dict[str, Any] = {"n_pairs": plan.n_pairs, "n_known": len(plan.known), "n_asked": len(plan.asked)}
    if isinstance(measure, PairJudge):
        cost["n_tokens"] = measure.count_tokens(plan.asked)
        speed = measure.tokens_a_second(plan.asked) if plan.asked else 1.0
        cost["seconds"] = cost["n_tokens"] / speed
    return cost


def _told(cost: dict[str, Any]) -> str:
    from toolkit.collect.progress import duration

    of_texts = count(cost["n_asked"], "pair")
    told = f"{count(cost['n_pairs'], 'pair')} of sequences; {of_texts} of different texts to compare"
    if cost["n_known"]:
        told += f", {cost['n_known']:,} known already"
    if "n_tokens" in cost:
        told += f"; {count(cost['n_tokens'], 'token')} to read, about {duration(cost['seconds'])}"
    return told


def _print(result: dict[str, Any], told: str, as_json: bool) -> None:
    from toolkit.cli.output import json_text

    print(json_text(result) if as_json else f"{visible(result['run'])}: {visible(told)}")
