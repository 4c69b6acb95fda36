"""The pages that most tests read."""

from __future__ import annotations

from typing import Any

from tests.report.browser.islands import MASKED, Prompt, Text, make_island

PARIS = Text(
    ["The", " capital", " is", " Paris", "."],
    [-0.25, -1.5, -0.05, -3.5, -0.6, -0.3],
    entropies=[1.0, 2.5, 0.2, 3.9, 0.1, 0.4],
    ranks=[1, 2, 1, 40, 1, 1],
    grade=1.0,
    extracted="Paris",
    alternatives=[[("The", -0.25), ("A", -2.0), ("It", -3.0)], [], [], [(" Lyon", -0.5), (" Nice", -1.8)]],
)
LYON = Text(
    ["The", " capital", " is", " Lyon", ".", "\n", "Yes", "!"],
    [-0.25, -1.5, -0.05, -0.5, -2.5, -4.5, None, MASKED, -0.2],
    kind="sample",
    sample=0,
    grade=0.0,
)
THINK = Text(
    ["The", " capital", "\t", "I", " think"],
    [-0.25, -1.5, -3.0, -0.1, -0.2],
    kind="sample",
    sample=1,
    has_end=False,
    finish="length",
    cut=[" that", " it"],
)
SAME = Text([*PARIS.pieces], PARIS.logprobs, kind="sample", sample=2, grade=1.0)

PROMPTS = [
    Prompt("france", [PARIS, LYON, THINK, SAME], "What is the capital of France?", ["Paris", "Paname"]),
    Prompt(
        "json",
        [
            Text(
                ['{"', "name", '": "', "Ada", " L.", '"}'],
                [-0.1, -0.2, -0.3, -2.2, -3.3, -0.4, -0.5],
                grade=0.0,
            )
        ],
        "Who wrote the first program?",
    ),
    Prompt(
        "sky",
        [
            Text(["Blue", "."], [-0.7, -0.1, -0.2], kind="sample", sample=3),
            Text(
                ["Blue", ",", " or", " grey", "."],
                [-0.7, -2.0, -2.1, -1.9, -0.3, -0.1],
                kind="sample",
                sample=7,
                grade=0.5,
            ),
        ],
        "What colour is the sky?",
    ),
]


def small() -> dict[str, Any]:
    """Three prompts with seven sequences: right, wrong, ungraded, masked, not computed, cut off."""
    return make_island(PROMPTS)


def long(n_tokens: int) -> dict[str, Any]:
    """One sequence of many tokens, every hundredth of them unsure."""
    logprobs = [-6.0 - i / n_tokens if i % 100 == 37 else -0.2 for i in range(n_tokens)]
    return make_island([Prompt("long", [Text([f" w{i}" for i in range(n_tokens)], logprobs)])])
