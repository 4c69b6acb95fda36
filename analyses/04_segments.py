"""Which pieces of text is the model least sure of? Names, numbers, first words of sentences, punctuation.

Every word of an answer is a piece, and so is every run of punctuation. What a piece is follows from the text,
and from whether its word stands in the question. Doubt is the entropy of what a token was drawn from.
"""

from __future__ import annotations

import json
import re
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from support.capitals import CAPITALS, GRADER
from support.drawing import plot_points
from support.intervals import Floats, difference, interval, mean, metric_difference, metric_of, ratio_of
from support.options import Options, ended, parse
from support.reports import Analysis, of_run
from support.runs import Collection, as_shell, collected, run_toolkit

import toolkit
from toolkit.figures.drawing import Drawing, Panel
from toolkit.plots import plot_distribution
from toolkit.plots.layout import rows_height
from toolkit.spans import Sentences, Span, find_words
from toolkit.stats.bootstrap import Interval
from toolkit.store.reader import Run

QUESTIONS = Collection("questions", "questions.jsonl", 32, samples=4, greedy=True)
COLLECTIONS = {"capitals": CAPITALS, "questions": QUESTIONS}
KEY = ["prompt_id", "kind", "sample_index"]
SENTENCES = Sentences()
PUNCTUATION = re.compile(r"(?:[^\w\s]|_)+")
ANSWER_START, SENTENCE_START = "start of the answer", "start of a later sentence"
NEW_NAME, NEW_WORD, NEW_NUMBER = "new name", "new word", "new number"
PUNCTUATION_MARK, ANSWER_END = "punctuation", "end of the answer"
PIECES = (
    ANSWER_START,
    SENTENCE_START,
    NEW_NAME,
    NEW_NUMBER,
    NEW_WORD,
    "name from the question",
    "number from the question",
    "word from the question",
    PUNCTUATION_MARK,
    ANSWER_END,
)
CONTRASTS = (
    (NEW_NAME, NEW_WORD),
    (NEW_NAME, "name from the question"),
    (NEW_NUMBER, NEW_WORD),
    (ANSWER_START, NEW_WORD),
    (SENTENCE_START, NEW_WORD),
    (PUNCTUATION_MARK, NEW_WORD),
)

ANALYSIS = Analysis("04_segments")


def main(argv: list[str] | None = None) -> int:
    options = parse(__doc__, argv)
    runs = {name: collected(collection, options) for name, collection in COLLECTIONS.items()}
    toolkit.grade(runs["capitals"], GRADER)
    pieces = {name: pieces_of(run) for name, run in runs.items()}
    samples = {name: table[table["kind"] == "sample"] for name, table in pieces.items()}
    greedy = {name: table[table["kind"] == "greedy"] for name, table in pieces.items()}
    results: dict[str, Any] = {
        "runs": {name: of_run(run) for name, run in runs.items()},
        "order": PIECES,
        "samples": {name: by_piece(table, options) for name, table in samples.items()},
        "greedy": {name: by_piece(table, options) for name, table in greedy.items()},
        "contrasts": {name: contrasts(table, options) for name, table in samples.items()},
        "in_names": {name: in_names(table, options) for name, table in samples.items()},
        "right_and_wrong": right_and_wrong(runs["capitals"], greedy["capitals"], options),
        "commands": [as_shell(command) for command in commands(options)],
    }
    figures = {"pieces": pieces_figure(results), "distribution": distribution_figure(samples)}
    ANALYSIS.write(results, figures, options)
    run_toolkit(commands(options)[-1])
    return 0


def find_pieces(text: str) -> list[tuple[int, int, str]]:
    """(start, end, what) of the words of a text and of its punctuation."""
    words = find_words(text)
    starts = {_first_word(words, sentence) for sentence in SENTENCES(text)}
    found = [
        (word.start, word.end, _label(text[word.start : word.end], place, place in starts))
        for place, word in enumerate(words)
    ]
    inside = np.zeros(len(text), bool)
    for word in words:
        inside[word.start : word.end] = True
    marks = (mark.span() for mark in PUNCTUATION.finditer(text))
    return found + [(start, end, PUNCTUATION_MARK) for start, end in marks if not inside[start]]


def _first_word(words: list[Span], sentence: Span) -> int:
    return sum(word.start < sentence.start for word in words)


def _label(word: str, place: int, starts_sentence: bool) -> str:
    """A number has a digit; a name has a capital where no sentence begins."""
    if starts_sentence:
        return SENTENCE_START if place else ANSWER_START
    if any(map(str.isdecimal, word)):
        return NEW_NUMBER
    return NEW_NAME if word[0].isupper() and re.split("['’]", word)[0] != "I" else NEW_WORD


def pieces_of(run: Run) -> pd.DataFrame:
    """A row a piece: what it is, its tokens, and the sums of their entropy and log-probability."""
    found = run.spans_df(by=find_pieces, metrics=["mean_entropy", "sum_logprob"], kinds=["sample", "greedy"])
    asked = asked_words(run)
    known = [
        word.casefold() in asked[prompt]
        for prompt, word in zip(found["prompt_id"], found["text"], strict=True)
    ]
    repeated = np.array(known) & found["label"].isin([NEW_NAME, NEW_NUMBER, NEW_WORD])
    found["label"] = found["label"].where(
        ~repeated, found["label"].str.replace("new ", "").add(" from the question")
    )
    tokens = run.tokens_df(columns=[*KEY, "token_index", "is_special", "entropy", "logprob"])
    first = tokens.rename(columns={"token_index": "token_start", "entropy": "first_entropy"})
    found = found.merge(first[[*KEY, "token_start", "first_entropy"]], on=[*KEY, "token_start"])
    found["entropy"] = found["mean_entropy"] * found["n_tokens"]
    ends = tokens[tokens["is_special"] & tokens["kind"].isin(["sample", "greedy"])]
    end_rows = ends.assign(
        label=ANSWER_END, n_tokens=1, first_entropy=ends["entropy"], sum_logprob=ends["logprob"]
    )
    columns = [*KEY, "label", "n_tokens", "entropy", "first_entropy", "sum_logprob"]
    return pd.concat([found[columns], end_rows[columns]], ignore_index=True)


def asked_words(run: Run) -> dict[str, set[str]]:
    """The words of what the user asked, by prompt."""
    rows = run.prompts_df(columns=["prompt_id", "text", "messages"])
    return {
        row.prompt_id: {word.casefold() for word in _words(_question(row.text, row.messages))}
        for row in rows.itertuples()
    }


def _question(text: str, messages: Any) -> str:
    turns = json.loads(messages) if isinstance(messages, str) else []
    return " ".join(turn["content"] for turn in turns if turn["role"] == "user") or text


def _words(text: str) -> list[str]:
    return [text[word.start : word.end] for word in find_words(text)]


def entropy_of(table: pd.DataFrame, label: str) -> Any:
    """A statistic: the mean entropy of the tokens of a kind of piece."""
    own = (table["label"] == label).to_numpy(np.float64)
    return ratio_of(own * table["entropy"], own * table["n_tokens"])


def by_piece(table: pd.DataFrame, options: Options) -> dict[str, dict[str, Any]]:
    """Of each kind of piece that occurs: nats of entropy a token and of its first token, and nats it cost."""
    prompts = table["prompt_id"].to_numpy()
    found = {}
    for label in PIECES:
        own = (table["label"] == label).to_numpy(np.float64)
        if own.any():
            found[label] = {
                "n": int(own.sum()),
                "n_tokens": int((own * table["n_tokens"]).sum()),
                "entropy": interval(entropy_of(table, label), prompts, options),
                "first": interval(ratio_of(own * table["first_entropy"], own), prompts, options),
                "cost": interval(ratio_of(own * -table["sum_logprob"], own), prompts, options),
            }
    return found


def contrasts(table: pd.DataFrame, options: Options) -> dict[str, dict[str, Any]]:
    """Differences of entropy a token: over all answers, and within those that have both kinds of piece."""
    prompts = table["prompt_id"].to_numpy()
    sums = table.groupby([*KEY, "label"])[["entropy", "n_tokens"]].sum()
    in_answer = (sums["entropy"] / sums["n_tokens"]).unstack("label")
    found = {}
    for first, second in CONTRASTS:
        if {first, second} <= set(in_answer):
            both = (in_answer[first] - in_answer[second]).dropna()
            among = difference(entropy_of(table, first), entropy_of(table, second))
            found[f"{first} less {second}"] = {
                "among": interval(among, prompts, options),
                "within": mean(both, both.index.get_level_values("prompt_id"), options),
                "n_within": len(both),
            }
    return found


def in_names(table: pd.DataFrame, options: Options) -> dict[str, Interval]:
    """Entropy at the first token of a new name, and at its later ones."""
    names = table[(table["label"] == NEW_NAME) & (table["n_tokens"] > 1)]
    later = ratio_of(names["entropy"] - names["first_entropy"], names["n_tokens"] - 1)
    first = ratio_of(names["first_entropy"], np.ones(len(names)))
    prompts = names["prompt_id"].to_numpy()
    made = {"first": first, "later": later, "difference": difference(first, later)}
    return {name: interval(statistic, prompts, options) for name, statistic in made.items()}


def right_and_wrong(run: Run, table: pd.DataFrame, options: Options) -> dict[str, Any]:
    """Where in the greedy answers the doubt is that tells right from wrong: in new names, or elsewhere."""
    grades = run.grades_df(GRADER, kinds="greedy").set_index("prompt_id")["value"]
    names = _mean_entropy(table[table["label"] == NEW_NAME], grades.index)
    others = _mean_entropy(table[~table["label"].isin([NEW_NAME, ANSWER_END])], grades.index)
    both = ~np.isnan(names) & ~np.isnan(others)
    judged = (np.where(both, grades, np.nan), grades.index.to_numpy(str), options)
    return {
        "n": int(both.sum()),
        "names": metric_of("auroc", -names, *judged),
        "others": metric_of("auroc", -others, *judged),
        "difference": metric_difference("auroc", -names, -others, *judged),
    }


def _mean_entropy(table: pd.DataFrame, prompts: pd.Index) -> Floats:
    sums = table.groupby("prompt_id")[["entropy", "n_tokens"]].sum().reindex(prompts)
    return (sums["entropy"] / sums["n_tokens"]).to_numpy(np.float64)


def pieces_figure(results: dict[str, Any]) -> Figure:
    groups = {
        name: {label: row["entropy"] for label, row in rows.items()}
        for name, rows in results["samples"].items()
    }
    note = "tokens of samples; 95 % intervals over prompts; " + results["runs"]["capitals"]["sampler"]
    draw = partial(plot_points, groups, quantity="mean entropy of a token, nats", note=note, order=PIECES)
    return Drawing(
        "How undecided the model was, by piece of text", [Panel("", draw, rows_height(len(PIECES)))]
    ).figure()


def distribution_figure(samples: dict[str, pd.DataFrame]) -> Figure:
    table = samples["capitals"]
    rows = {label: table.loc[table["label"] == label, "first_entropy"].to_numpy() for label in PIECES}
    groups = {label: values for label, values in rows.items() if values.size}
    note = "first token of each piece of the samples; run capitals"
    draw = partial(plot_distribution, groups, metric="entropy", unit="nats", note=note)
    title = "Entropy at the first token of a piece"
    return Drawing(title, [Panel("", draw, rows_height(len(groups)))]).figure()


def commands(options: Options) -> list[list[str]]:
    questions = QUESTIONS.path(options)
    return [
        CAPITALS.command(options),
        ["grade", CAPITALS.path(options), "--grader", GRADER],
        QUESTIONS.command(options),
        ["summarize", questions, "--by", "word", "--metrics", "mean_entropy,sum_logprob"],
        ANALYSIS.html(questions, options),
    ]


if __name__ == "__main__":
    raise SystemExit(ended(main))
