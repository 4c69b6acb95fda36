"""The progress display, with a clock that is set by hand."""

from __future__ import annotations

import io
from typing import Any

import pytest

from toolkit.collect.progress import Progress, bar, duration


@pytest.fixture(autouse=True)
def _wide_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


def progress(total: int, terminal: bool = False, **options: Any) -> tuple[Progress, Clock, Stream]:
    clock, stream = Clock(), Stream(terminal)
    return Progress(total, stream=stream, clock=clock, terminal=terminal, **options), clock, stream


def test_lines_come_every_tenth_and_every_ten_seconds_without_carriage_returns() -> None:
    shown, clock, stream = progress(100, label="collect")
    for _ in range(25):
        clock.now += 1
        shown.update(sequences=1, tokens=20)
    lines = stream.getvalue().splitlines()
    assert "\r" not in stream.getvalue()
    # the first at once; then after ten sequences or ten seconds, which here are the same
    assert [line.split(" sequences")[0] for line in lines] == [
        "collect: 1/100",
        "collect: 11/100",
        "collect: 21/100",
    ]
    assert lines[1] == "collect: 11/100 sequences (11 %), 20 tokens/s, 1:29 left"


def test_the_end_is_shown_once() -> None:
    shown, _, stream = progress(4)
    shown.update(sequences=3)
    shown.update(sequences=1)
    shown.close()
    assert stream.getvalue().splitlines() == ["3/4 sequences (75 %)", "4/4 sequences (100 %)"]


def test_ten_seconds_without_a_sequence_give_a_line() -> None:
    shown, clock, stream = progress(1000)
    for _ in range(30):
        clock.now += 1
        shown.update(tokens=5)
    assert len(stream.getvalue().splitlines()) == 3


def test_a_quick_whole_of_few_sequences_gives_no_flood() -> None:
    shown, _, stream = progress(10_000)
    for _ in range(10_000):
        shown.update(sequences=1)
    assert len(stream.getvalue().splitlines()) <= 11


def test_the_bar_is_redrawn_in_place_and_covers_what_was_there() -> None:
    shown, clock, stream = progress(4, terminal=True)
    shown.update(tokens=1)
    clock.now += 1
    shown.update(sequences=2, tokens=99)
    clock.now += 1
    shown.update(sequences=2)
    shown.close()
    text = stream.getvalue()
    drawings = text.rstrip("\n").split("\r")[1:]
    assert text.endswith("\n")
    assert "\n" not in text[:-1]
    assert "[############............] 2/4 sequences (50 %), 100 tokens/s, 0:01 left" in drawings[1]
    assert "[########################] 4/4 sequences (100 %)" in drawings[2]
    assert len(drawings[2]) >= len(drawings[1].rstrip())


def test_the_bar_is_drawn_at_most_ten_times_a_second() -> None:
    shown, clock, stream = progress(1000, terminal=True)
    for _ in range(100):
        clock.now += 0.01
        shown.update(sequences=1)
    assert 8 <= stream.getvalue().count("\r") <= 12


def test_what_was_done_before_does_not_count_towards_the_speed() -> None:
    shown, clock, stream = progress(100, done=50)
    clock.now += 10
    shown.update(sequences=10, tokens=100)
    assert stream.getvalue() == "60/100 sequences (60 %), 10 tokens/s, 0:40 left\n"


def test_the_speed_is_that_of_the_last_half_minute() -> None:
    shown, clock, stream = progress(10_000)
    for speed in [1000] * 60 + [10] * 60:
        clock.now += 1
        shown.update(sequences=1, tokens=speed)
    assert stream.getvalue().splitlines()[-1].split(", ")[1] == "10 tokens/s"


def test_a_message_has_a_line_of_its_own() -> None:
    shown, _, stream = progress(4, terminal=True)
    shown.update(sequences=1)
    shown.message("saved")
    assert stream.getvalue().split("\r")[-2].rstrip(" ") == "saved\n"
    plain, _, plain_stream = progress(4)
    plain.message("saved")
    assert plain_stream.getvalue() == "saved\n"


def test_a_lost_stream_raises_nothing() -> None:
    class Gone(Stream):
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    closed = Stream(False)
    closed.close()
    for stream in (closed, Gone(True), None):
        shown = Progress(2, stream=stream)
        shown.update(sequences=1)
        shown.message("x")
        shown.close()


def test_an_error_inside_still_leaves_the_line() -> None:
    shown, _, stream = progress(4, terminal=True)
    with pytest.raises(KeyError), shown:
        raise KeyError
    assert stream.getvalue().endswith("\n")


@pytest.mark.parametrize(
    ("done", "total", "inside"),
    [(0, 3, "...."), (1, 3, "#..."), (299, 300, "###."), (3, 3, "####"), (0, 0, "####")],
)
def test_the_bar_is_full_only_when_all_is_done(done: int, total: int, inside: str) -> None:
    assert bar(done, total, 4) == f"[{inside}]"


def test_durations() -> None:
    assert [duration(s) for s in (0, 7.4, 750, 3723)] == ["0:00", "0:07", "12:30", "1:02:03"]


def test_a_whole_of_nothing_is_done() -> None:
    shown, _, stream = progress(0)
    shown.close()
    assert stream.getvalue() == "0/0 sequences (100 %)\n"
