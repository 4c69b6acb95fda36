"""The confidence table against plain loops over records."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.store.factory import (
    VOCABULARY,
    make_manifest,
    make_prompt,
    make_record,
    make_records,
    make_run,
    prompt_name,
)
from toolkit.aggregation.selection import Selection
from toolkit.aggregation.summary import least_confident_first, split_metrics, summaries_df, summary_df
from toolkit.errors import ToolkitError
from toolkit.records import SequenceRecord
from toolkit.store import RunWriter, open_run, open_runs


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("summary") / "run", batch=4)


@pytest.fixture(scope="module")
def records() -> dict[tuple[str, str, int], SequenceRecord]:
    return {record.key: record for record in make_records()}


def logprobs(record: SequenceRecord, *, end: bool = True) -> list[float]:
    """Of the tokens that begin within the text, and the end token."""
    starts, last = record.alignment.byte_start.tolist(), len(record.token_ids) - 1
    return [
        float(value)
        for i, value in enumerate(record.statistics.logprob)
        if (end if record.has_end and i == last else starts[i] < record.alignment.n_bytes)
    ]


def rows(frame: pd.DataFrame) -> Iterator[dict[str, object]]:
    yield from frame.to_dict("records")  # type: ignore[misc]


@pytest.mark.parametrize("end", [True, False])
def test_a_sequence_has_the_statistics_of_its_tokens(
    run_path: Path, records: dict[tuple[str, str, int], SequenceRecord], end: bool
) -> None:
    frame = summary_df(open_run(run_path), "sequence", include_end=end)
    assert len(frame) == len(records)
    for row in rows(frame):
        record = records[row["prompt_id"], row["kind"], row["sample_index"]]  # type: ignore[index]
        values = logprobs(record, end=end)
        assert row["n_tokens"] == len(values)
        assert (row["text"], row["finish_reason"]) == (record.alignment.text, record.finish_reason)
        if values:
            assert row["sum_logprob"] == pytest.approx(math.fsum(values))
            assert row["mean_logprob"] == pytest.approx(math.fsum(values) / len(values))
            assert row["min_logprob"] == min(values)
            assert row["perplexity"] == pytest.approx(math.exp(-math.fsum(values) / len(values)))
        else:
            assert math.isnan(row["mean_logprob"])  # type: ignore[arg-type]


def test_a_segment_has_the_statistics_of_the_tokens_with_a_byte_in_it(
    run_path: Path, records: dict[tuple[str, str, int], SequenceRecord]
) -> None:
    frame = summary_df(open_run(run_path), "segment")
    assert len(frame) == sum(len(record.alignment.segments) for record in records.values())
    for row in rows(frame):
        record = records[row["prompt_id"], row["kind"], row["sample_index"]]  # type: ignore[index]
        segment = record.alignment.segments[row["segment_index"]]  # type: ignore[index]
        inside = slice(segment.token_start, segment.token_end)
        values = record.statistics.logprob[inside].astype(float)
        assert (row["text"], row["n_tokens"]) == (segment.text, len(values))
        assert row["sum_logprob"] == pytest.approx(values.sum())
        assert row["mean_logprob"] == pytest.approx(values.mean())
        assert row["mean_entropy"] == pytest.approx(record.statistics.entropy[inside].astype(float).mean())


def test_a_prompt_has_a_row_a_kind_over_all_its_tokens(
    run_path: Path, records: dict[tuple[str, str, int], SequenceRecord]
) -> None:
    frame = summary_df(open_run(run_path), "prompt", ["mean_logprob", "n_tokens"])
    assert len(frame) == 6
    for row in rows(frame):
        own = [r for r in records.values() if (r.prompt_id, r.kind) == (row["prompt_id"], row["kind"])]
        values = [value for record in own for value in logprobs(record)]
        assert (row["n_sequences"], row["n_tokens"]) == (len(own), len(values))
        assert row["mean_logprob"] == pytest.approx(math.fsum(values) / len(values))


def test_tokens_are_those_of_the_text_and_the_end(
    run_path: Path, records: dict[tuple[str, str, int], SequenceRecord]
) -> None:
    frame = summary_df(open_run(run_path), "token", ["logprob", "rank", "constrained_logprob"])
    expected = [value for key in sorted(records) for value in logprobs(records[key])]
    assert frame["logprob"].tolist() == expected
    assert frame["constrained_logprob"].isna().all()
    assert [VOCABULARY[i][1] for i in frame["token_id"]] == frame["text"].tolist()
    assert len(summary_df(open_run(run_path), "token", include_end=False)) == len(frame) - sum(
        record.has_end for record in records.values()
    )


def test_alternatives_serve_estimators_that_need_them(
    run_path: Path, records: dict[tuple[str, str, int], SequenceRecord]
) -> None:
    frame = summary_df(open_run(run_path), "sequence", ["mean_topk_nll(3)", "mean_topk_nll(9)"])
    assert list(frame.columns[3:5]) == ["mean_topk_nll(k=3)", "mean_topk_nll(k=9)"]
    for row in rows(frame):
        record = records[row["prompt_id"], row["kind"], row["sample_index"]]  # type: ignore[index]
        kept = len(logprobs(record))  # without a stop string these are all
        expected = -record.statistics.alternative_logprobs[:kept, :3].astype(float).mean()
        assert row["mean_topk_nll(k=3)"] == pytest.approx(expected)
        assert math.isnan(row["mean_topk_nll(k=9)"])  # type: ignore[arg-type]  # five are stored


def test_tokens_past_a_stop_string_take_no_part(tmp_path: Path) -> None:
    whole = make_record(n_tokens=8, has_end=False)
    n_bytes = int(whole.alignment.byte_start[5])
    with RunWriter.create(tmp_path / "run", make_manifest()) as writer:
        writer.add_prompts([make_prompt("p")])
        writer.commit([make_record(n_tokens=8, has_end=False, n_bytes=n_bytes)], VOCABULARY)
    run = open_run(tmp_path / "run")
    assert summary_df(run, "token")["logprob"].tolist() == whole.statistics.logprob[:5].tolist()
    assert summary_df(run, "sequence")["n_tokens"].tolist() == [5]
    assert summary_df(run, "prompt")["n_tokens"].tolist() == [5]
    assert "".join(summary_df(run, "segment")["text"]) == summary_df(run, "sequence")["text"][0]


def test_rows_come_in_the_order_of_the_key_whatever_the_files(run_path: Path, tmp_path: Path) -> None:
    other = make_run(tmp_path / "run", batch=100)
    for by in ("token", "segment", "sequence", "prompt"):
        pd.testing.assert_frame_equal(summary_df(open_run(run_path), by), summary_df(open_run(other), by))


def test_a_selection_leaves_the_rest_out(run_path: Path) -> None:
    run = open_run(run_path)
    chosen = summary_df(run, "sequence", None, Selection([prompt_name(1)], ["sample"], [0, 2]))
    assert chosen[["prompt_id", "kind", "sample_index"]].values.tolist() == [
        [prompt_name(1), "sample", 0],
        [prompt_name(1), "sample", 2],
    ]
    whole = summary_df(run, "sequence")
    same = whole[whole["prompt_id"].eq(prompt_name(1)) & whole["sample_index"].isin([0, 2])]
    assert chosen["sum_logprob"].tolist() == same[same["kind"].eq("sample")]["sum_logprob"].tolist()


@pytest.mark.parametrize(
    ("by", "metrics", "selection", "message"),
    [
        ("wrd", None, Selection(), "there is no span 'wrd' (did you mean word?); use one of token, segment,"),
        (
            "token",
            ["mean_logprob"],
            Selection(),
            "a token has no statistic 'mean_logprob'; use one of logprob,",
        ),
        ("sequence", ["confidence"], Selection(), "confidence"),
        ("sequence", ["jaccard_degree"], Selection(), "a prompt's samples"),
        ("sequence", None, Selection(["no\x1b"]), "prompts: 'no␛' is not in"),
        ("sequence", None, Selection(None, ["beam"]), "no sequence is selected"),
        ("sequence", None, Selection(None, None, [99]), "no sequence is selected"),
    ],
)
def test_what_is_not_there_is_named(
    run_path: Path, by: str, metrics: list[str] | None, selection: Selection, message: str
) -> None:
    with pytest.raises(ToolkitError) as caught:
        summary_df(open_run(run_path), by, metrics, selection)
    assert message in str(caught.value)


@pytest.mark.parametrize(("metric", "rising"), [("mean_logprob", True), ("perplexity", False)])
def test_the_least_confident_come_first_and_undefined_last(metric: str, rising: bool) -> None:
    frame = pd.DataFrame({"id": list("abcd"), metric: [-1.0, math.nan, -3.0, -math.inf]})
    ordered = least_confident_first(frame, "sequence", metric)
    assert "".join(ordered["id"]) == ("dcab" if rising else "acdb")


def test_sorting_by_what_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(
        ToolkitError, match="cannot sort by 'perplexity', which is not in the table; name it in metrics"
    ):
        least_confident_first(pd.DataFrame({"mean_logprob": [0.0]}), "sequence", "perplexity")


def test_several_runs_come_one_below_the_other(run_path: Path, tmp_path: Path) -> None:
    second = make_run(tmp_path / "second", n_prompts=1, n_samples=1)
    frame = summaries_df(open_runs([run_path, second]), "sequence", ["mean_logprob"])
    assert list(frame.columns[:4]) == ["run", "model", "temperature", "top_p"]
    assert frame["run"].tolist() == ["run"] * 15 + ["second"] * 2
    assert "run" not in summaries_df(open_runs([second]), "sequence")


def test_commas_inside_parentheses_do_not_separate_metrics() -> None:
    assert split_metrics("a, b(x=1, y=2),c") == ["a", "b(x=1, y=2)", "c"]
    assert split_metrics(",") == []


def test_numbers_are_float64_of_the_stored_float32(run_path: Path) -> None:
    frame = summary_df(open_run(run_path), "sequence")
    assert frame["sum_logprob"].dtype == np.float64
    assert frame["n_tokens"].dtype == np.int32
