"""What the analyses compute, against plain loops over the same made runs."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toolkit
from tests.analyses.made import N_PROMPTS, script, support
from tests.analyses.test_reports import results_of
from tests.graded import mean, plain_auroc, plain_ece
from toolkit.records import SequenceRecord

named_city = support("capitals").named_city
Key = tuple[str, str, int]


class Loaded:
    """The sequences of a run by key, and their grades."""

    def __init__(self, path: Path, grader: str) -> None:
        run = toolkit.open_run(path)
        self.sequences: dict[Key, SequenceRecord] = {one.key: one for one in run.iter_sequences()}
        rows = run.grades_df(grader)[["prompt_id", "kind", "sample_index", "value"]]
        self.grades = {row[:3]: row[3] for row in rows.itertuples(index=False, name=None)}

    def of(self, kind: str) -> list[SequenceRecord]:
        return [one for key, one in sorted(self.sequences.items()) if key[1] == kind]

    def right(self, kind: str) -> list[float]:
        return [self.grades[one.key] for one in self.of(kind)]

    def by_prompt(self, kind: str) -> dict[str, list[SequenceRecord]]:
        found = defaultdict(list)
        for one in self.of(kind):
            found[one.prompt_id].append(one)
        return dict(found)


@pytest.fixture(scope="module")
def capitals(reports: Path, made_runs: Path) -> Loaded:
    return Loaded(made_runs / "capitals", "contains")


def total(one: SequenceRecord) -> float:
    return float(np.sum(one.statistics.logprob, dtype=np.float64))


def near(value: float) -> Any:
    return pytest.approx(value, rel=1e-5, abs=1e-6)


def test_capitals_accuracy_and_auroc(reports: Path, capitals: Loaded) -> None:
    found = results_of(reports, "01_capitals")
    assert found["accuracy"]["greedy"]["value"] == near(mean(capitals.right("greedy")))
    assert found["accuracy"]["each"]["value"] == near(mean(capitals.right("sample")))
    sums = [total(one) for one in capitals.of("greedy")]
    expected = plain_auroc(sums, capitals.right("greedy"))
    assert found["estimators"]["sum_logprob"]["auroc"]["value"] == near(expected)
    lengths = [-len(one.token_ids) for one in capitals.of("greedy")]
    assert found["estimators"]["n_tokens"]["auroc"]["value"] == near(
        plain_auroc(lengths, capitals.right("greedy"))
    )
    assert found["over_length"]["value"] == near(expected - plain_auroc(lengths, capitals.right("greedy")))


def test_capitals_calibration_is_of_probabilities_that_did_not_see_their_prompt(
    reports: Path, made_runs: Path, capitals: Loaded
) -> None:
    from toolkit.judging.question import Question
    from toolkit.judging.recalibrating import fit_run

    rows = results_of(reports, "01_capitals")["calibration"]
    right = capitals.right("greedy")
    given = [math.exp(total(one) / len(one.token_ids)) for one in capitals.of("greedy")]
    assert rows[0]["ece"] == near(plain_ece(given, right))
    assert rows[0]["mean"] == near(mean(given))
    assert rows[0]["brier"]["value"] == near(mean([(p - r) ** 2 for p, r in zip(given, right, strict=True)]))
    question = Question(grader="contains", target="greedy")
    run = toolkit.open_run(made_runs / "capitals")
    for row, method in ((rows[1], "isotonic"), (rows[2], "platt")):
        table = fit_run(run, "geometric_mean_prob", method, question).comparison.set_index("when")
        assert row["ece"] == near(table["ece"]["after"])
        assert row["brier"]["value"] == near(table["brier"]["after"])


def test_the_error_of_right_probabilities_is_that_of_drawn_outcomes(reports: Path) -> None:
    module, options = script("01_capitals"), support("options").Options(Path(), Path())
    certain = module.ece_if_calibrated(np.array([0.0, 1.0, 1.0]), options)
    assert certain[:3] == (0, 0, 0)
    halves = module.ece_if_calibrated(np.full(100, 0.5), options)
    # The share of heads in 100 throws is 0.5 off by √(2/π)·0.05 on average.
    assert halves.value == pytest.approx(math.sqrt(2 / math.pi) * 0.05, abs=0.004)


def test_rankings_are_counted_once_however_they_are_scaled(reports: Path) -> None:
    found = results_of(reports, "01_capitals")
    module = script("01_capitals")
    run = toolkit.open_run(found["commands"][0].split("--output ")[1].split()[0])
    units = support("judged").units_of(run, **module.GREEDY)
    names = ["mean_logprob", "geometric_mean_prob", "perplexity", "sum_logprob"]
    assert module.rankings(names, units)[0] == "mean_logprob"
    assert set(module.rankings(names, units)) <= {"mean_logprob", "sum_logprob"}


def test_temperature_means_are_over_tokens(reports: Path, made_runs: Path) -> None:
    found = results_of(reports, "02_temperature")["temperatures"]
    for name in ("0.3", "1.5"):
        run = Loaded(made_runs / f"temperature-{name}", "contains")
        tokens = [one.statistics for one in run.of("sample")]
        logprob = [float(v) for one in tokens for v in one.logprob]
        sampling = [float(v) for one in tokens for v in one.sampling_logprob]
        entropy = [float(v) for one in tokens for v in one.entropy]
        own = found[name]["of_tokens"]
        assert own["logprob"]["value"] == near(mean(logprob))
        assert own["divergence"]["value"] == near(mean(sampling) - mean(logprob))
        assert own["surprise"]["value"] == near(-mean(logprob) - mean(entropy))
        texts = [len({one.alignment.text for one in own}) for own in run.by_prompt("sample").values()]
        assert found[name]["diversity"]["texts"]["value"] == near(mean(texts))
        entropies = [-mean([total(one) for one in own]) for own in run.by_prompt("sample").values()]
        assert found[name]["entropy"]["equal"]["value"] == near(mean(entropies))


def test_temperature_accuracy_changes_are_paired(reports: Path, made_runs: Path) -> None:
    found = results_of(reports, "02_temperature")
    accuracy = {t: one["accuracy"]["samples"]["value"] for t, one in found["temperatures"].items()}
    for name, change in found["accuracy_change"].items():
        assert change["value"] == near(accuracy[name] - accuracy["1"])
    assert (found["accuracy_change"]["1"]["low"], found["accuracy_change"]["1"]["high"]) == (0, 0)


def test_effective_samples_are_all_where_the_model_drew_them_itself(reports: Path, made_runs: Path) -> None:
    found = results_of(reports, "02_temperature")["temperatures"]
    assert found["1"]["entropy"]["effective_samples"]["value"] == 4
    sizes = []
    for own in Loaded(made_runs / "temperature-0.3", "contains").by_prompt("sample").values():
        logs = [total(one) - float(np.sum(one.statistics.sampling_logprob, dtype=np.float64)) for one in own]
        weights = [math.exp(one - max(logs)) for one in logs]
        sizes.append(sum(weights) ** 2 / sum(w * w for w in weights))
    assert found["0.3"]["entropy"]["effective_samples"]["value"] == near(mean(sizes))


def test_votes_of_all_samples(reports: Path, made_runs: Path) -> None:
    found = results_of(reports, "03_votes")
    run = Loaded(made_runs / "arithmetic", "number")
    majority, reachable, single = [], [], []
    for own in run.by_prompt("sample").values():
        numbers = [re.findall(r"\d+", one.alignment.text)[-1] for one in own]
        grades = {n: run.grades[one.key] for n, one in zip(numbers, own, strict=True)}
        most = max(numbers.count(n) for n in numbers)
        winners = [n for n in dict.fromkeys(numbers) if numbers.count(n) == most]
        majority.append(mean([grades[n] for n in winners]))
        reachable.append(max(grades.values()))
        single.append(mean([grades[n] for n in numbers]))
    whole = found["whole"]
    assert whole["majority"]["accuracy"]["value"] == near(mean(majority))
    assert whole["reachable"]["value"] == near(mean(reachable))
    assert whole["single"]["value"] == near(mean(single))
    assert whole["majority"]["less_single"]["value"] == near(mean(majority) - mean(single))
    assert whole["majority"]["less_greedy"]["value"] == near(mean(majority) - mean(run.right("greedy")))
    for rule in ("majority", "weighted", "filtered", "borda"):
        assert whole[rule]["accuracy"]["value"] == near(found["votes"][rule]["16"]["value"])
        assert found["votes"][rule]["1"]["value"] == near(mean(single))


def test_gains_are_the_differences_of_the_curves(reports: Path) -> None:
    found = results_of(reports, "03_votes")
    for rule, sizes in found["gains"].items():
        for k, gain in sizes.items():
            curves = found["votes"]
            assert gain["value"] == pytest.approx(
                curves[rule][k]["value"] - curves["majority"][k]["value"], abs=1e-5
            )


def test_stopping_is_what_the_library_replays(reports: Path, made_runs: Path) -> None:
    from toolkit.aggregation.agreement import Comparison
    from toolkit.judging.voting import Election, early_stopping_df

    found = results_of(reports, "03_votes")
    election = Election("number", comparison=Comparison("number"), bootstrap=0)
    run = toolkit.open_run(made_runs / "arithmetic")
    table = early_stopping_df(run, election, percentiles=(10, 50, 90), warmup=4, window=4)
    for row, ours in zip(table.to_dict("records"), found["stopping"], strict=True):
        assert ours["n_cut"] == row["n_cut"]
        assert ours["saved"] == near(row["saved"])
        assert ours["accuracy"]["value"] == near(row["accuracy"])
        assert ours["whole"]["value"] == near(row["accuracy_whole"])
        assert ours["change"]["value"] == near(row["accuracy"] - row["accuracy_whole"])


def test_doubt_is_before_and_after_the_equals_sign(reports: Path, made_runs: Path) -> None:
    run = Loaded(made_runs / "arithmetic", "number")
    before, after = [], []
    for one in run.of("sample"):
        pieces = [piece.decode() for piece in one.alignment.pieces if piece is not None]
        sign = pieces.index(" =")
        values = [float(v) for v in one.statistics.entropy]
        before += values[: sign + 1]
        after += values[sign + 1 : len(pieces)]
    found = results_of(reports, "03_votes")["doubt"]
    assert found["question"]["value"] == near(mean(before))
    assert found["result"]["value"] == near(mean(after))


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        (
            "The capital is New York.",
            ["answer", "new word", "new word", "new name", "new name", "punctuation"],
        ),
        ("It is 42. Then Bob, I think.", None),
        ('"Paris" it is', ["punctuation", "answer", "punctuation", "new word", "new word"]),
        ("I'm sure I'd say 3.5", ["answer", "new word", "new word", "new word", "new number"]),
        ("", []),
        ("...", ["punctuation"]),
    ],
)
def test_pieces_are_told_from_the_text(text: str, labels: list[str] | None) -> None:
    module = script("04_segments")
    short = {module.ANSWER_START: "answer", module.SENTENCE_START: "sentence"}
    found = [short.get(label, label) for _, _, label in sorted(module.find_pieces(text))]
    if labels is None:
        later = ["sentence", "new name", "punctuation", "new word", "new word", "punctuation"]
        labels = ["answer", "new word", "new number", "punctuation", *later]
    assert found == labels


def test_pieces_cover_every_character_that_is_no_space_and_none_twice() -> None:
    find = script("04_segments").find_pieces
    for text in ("Well... 3.14 — it's_fine; «Zoë» (e.g. Mr. X)!", "日本。Tokyo is in Japan", "a_b __ c"):
        covered = [place for start, end, _ in find(text) for place in range(start, end)]
        assert sorted(covered) == [i for i, character in enumerate(text) if not character.isspace()]


def test_segments_are_means_over_tokens(reports: Path, made_runs: Path, capitals: Loaded) -> None:
    asked = toolkit.open_run(made_runs / "capitals").prompts_df(["prompt_id", "text"])
    questions = {row.prompt_id: set(re.findall(r"\w+", row.text.casefold())) for row in asked.itertuples()}
    names, entropies, costs, ends = 0, [], [], []
    for one in capitals.of("sample"):
        places = token_places(one)
        entropy = [float(v) for v in one.statistics.entropy]
        ends.append(entropy[-1])
        for word in re.finditer(r"\w+", one.alignment.text):
            is_name = word.start() > 0 and word[0][0].isupper()
            if is_name and word[0].casefold() not in questions[one.prompt_id]:
                own = [i for i, (a, b) in enumerate(places) if a < word.end() and b > word.start()]
                names += 1
                entropies += [entropy[i] for i in own]
                costs.append(-sum(float(one.statistics.logprob[i]) for i in own))
    assert len(entropies) > names  # of several tokens, some of them
    found = results_of(reports, "04_segments")["samples"]["capitals"]
    assert (found["new name"]["n"], found["new name"]["n_tokens"]) == (names, len(entropies))
    assert found["new name"]["entropy"]["value"] == near(mean(entropies))
    assert found["new name"]["cost"]["value"] == near(mean(costs))
    assert found["end of the answer"]["entropy"]["value"] == near(mean(ends))


def token_places(one: SequenceRecord) -> list[tuple[int, int]]:
    """Characters of each token but the end; the made texts are ASCII."""
    ends = np.cumsum([len(piece) for piece in one.alignment.pieces if piece is not None])
    return list(zip([0, *ends[:-1].tolist()], ends.tolist(), strict=True))


@pytest.mark.parametrize(
    ("text", "city"),
    [
        ("The capital of France is Paris.", "paris"),
        ("The capital of Guatemala is indeed called Guatemala City.", "guatemala city"),
        ("Lebanon's capital is Beirut, by the sea.", "beirut"),
        ("Lomé is the capital of Togo.", "lomé"),
        ("Paris, the capital of France.", "paris"),
        ("Turkey.", "turkey"),
        ("Algeria is a sovereign state in North Africa, bordering the sea", None),
        ("", None),
    ],
)
def test_a_city_is_told_from_the_form_of_the_sentence(text: str, city: str | None) -> None:
    found = named_city(text)
    assert (found and found.replace("lome", "lomé")) == city


def test_sampled_agreement_is_the_share_of_samples_that_name_the_best_beam_s_city(
    reports: Path, made_runs: Path, capitals: Loaded
) -> None:
    beams = Loaded(made_runs / "beams", "contains")
    best = [one for one in beams.of("beam") if one.sample_index == 0]
    right = [beams.grades[one.key] for one in best]
    found = results_of(reports, "05_beams")
    assert found["accuracy"]["beam"]["value"] == near(mean(right))
    scores = [total(one) / len(one.token_ids) for one in best]
    assert found["ranking"]["beam_score"]["auroc"]["value"] == near(plain_auroc(scores, right))
    samples = capitals.by_prompt("sample")
    shares, judged = [], []
    for one, grade in zip(best, right, strict=True):
        city = named_city(one.alignment.text)
        if city is not None:
            shares.append(mean([named_city(s.alignment.text) == city for s in samples[one.prompt_id]]))
            judged.append(grade)
    assert len(shares) < len(best)  # of some that names no city nothing can be said
    agreement = found["ranking"]["samples that name its city"]
    assert agreement["n"] == len(shares)
    assert agreement["auroc"]["value"] == near(plain_auroc(shares, judged))


def test_ways_name_the_same_city(reports: Path, made_runs: Path, capitals: Loaded) -> None:
    beams = Loaded(made_runs / "beams", "contains").by_prompt("beam")
    greedy = {one.prompt_id: one for one in capitals.of("greedy")}
    same = []
    for prompt, found in beams.items():
        first, second = found[0], greedy[prompt]
        cities = [named_city(one.alignment.text) for one in (first, second)]
        same.append(float(cities[0] is not None and cities[0] == cities[1]))
    assert len(same) == N_PROMPTS
    pair = results_of(reports, "05_beams")["pairs"]["beam and greedy"]
    assert pair["same"]["value"] == near(mean(same))
    accuracy = results_of(reports, "05_beams")["accuracy"]
    assert pair["gain"]["value"] == near(accuracy["beam"]["value"] - accuracy["greedy"]["value"])


def test_quantisation_shifts_are_of_the_same_tokens(reports: Path, made_runs: Path) -> None:
    found = results_of(reports, "06_quantisation")
    whole = Loaded(made_runs / "quantised-float32", "contains")
    for name in ("8-bit", "4-bit"):
        given = toolkit.open_run(made_runs / f"quantised-{name}-scored")
        moved = {one.prompt_id: one.statistics for one in given.iter_sequences()}
        shifts = [
            float(after) - float(before)
            for one in whole.of("greedy")
            for before, after in zip(one.statistics.logprob, moved[one.prompt_id].logprob, strict=True)
        ]
        own = found["shifts"][name]
        assert own["n"] == len(shifts)
        assert own["median"] == near(float(np.median(np.abs(shifts))))
        assert own["p99"] == near(float(np.quantile(np.abs(shifts), 0.99)))
        assert own["largest"] == near(max(map(abs, shifts)))
        assert own["logprob"]["value"] == near(mean(shifts))
        assert own["large"]["value"] == near(mean([float(abs(shift) > 0.1) for shift in shifts]))
    assert found["noise"]["largest"] == 0


def test_quantisation_differences_are_of_the_answers_of_each(reports: Path, made_runs: Path) -> None:
    found = results_of(reports, "06_quantisation")
    whole = Loaded(made_runs / "quantised-float32", "contains")
    for name in ("8-bit", "4-bit"):
        other = Loaded(made_runs / f"quantised-{name}", "contains")
        own = found["compared"][name]
        pairs = list(zip(whole.right("greedy"), other.right("greedy"), strict=True))
        assert own["greedy"]["accuracy"]["difference"]["value"] == near(mean([b - a for a, b in pairs]))
        assert (own["right_to_wrong"], own["wrong_to_right"]) == (pairs.count((1, 0)), pairs.count((0, 1)))
        aurocs = [
            plain_auroc([total(s) for s in one.of("greedy")], one.right("greedy")) for one in (whole, other)
        ]
        cells = own["greedy"]["auroc"]["sum_logprob"]
        assert (cells["a"]["value"], cells["b"]["value"]) == (near(aurocs[0]), near(aurocs[1]))
        assert own["samples"]["accuracy"]["b"]["value"] == near(mean(other.right("sample")))
        texts = [[one.alignment.text for one in run.of("greedy")] for run in (whole, other)]
        changed = [float(a != b) for a, b in zip(*texts, strict=True)]
        assert found["texts"][name]["greedy"]["value"] == near(mean(changed))
