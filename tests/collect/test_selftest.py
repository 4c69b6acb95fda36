"""The self-test's checks of generation: they pass on a sound model, and see one that is not."""

from __future__ import annotations

from typing import Any

import pytest

from toolkit.collect import selftest


@pytest.mark.parametrize("check", [selftest.check_seeds, selftest.check_batches, selftest.check_statistics])
def test_it_passes(check: Any, tiny_model: Any) -> None:
    found = check(tiny_model)
    assert found.passed, found.detail


def test_values_that_are_not_the_model_s_are_seen(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = selftest._draw

    def altered(*arguments: Any) -> Any:
        records = draw(*arguments)
        for record in records:
            record.statistics.logprob[0] -= 0.1
        return records

    monkeypatch.setattr(selftest, "_draw", altered)
    assert not selftest.check_batches(tiny_model).passed


def test_samples_that_do_not_follow_from_the_seed_are_seen(
    tiny_model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    seeds = iter(range(100))
    draw = selftest._draw
    monkeypatch.setattr(selftest, "_draw", lambda model, plans, seed: draw(model, plans, next(seeds)))
    assert not selftest.check_seeds(tiny_model).passed


def test_statistics_that_differ_are_seen(tiny_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    step = selftest.statistics_mlx.step

    def altered(*arguments: Any, **given: Any) -> Any:
        ids, statistics = step(*arguments, **given)
        return ids, statistics._replace(entropy=statistics.entropy + 1e-3)

    monkeypatch.setattr(selftest.statistics_mlx, "step", altered)
    assert not selftest.check_statistics(tiny_model).passed
