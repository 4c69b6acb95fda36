"""A grader with its settings, over a part of a text: what decides a grade. Knows nothing of runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from toolkit.aggregation.parts import Part, field_places, parse_part
from toolkit.characters import quoted
from toolkit.errors import ToolkitError
from toolkit.grading import Grader, Normalizer, Number, config_hash, grade_fields, parse_grader
from toolkit.store.keys import Key


class Row(NamedTuple):
    """A judgement of a stretch of a text, as the table grades has it."""

    span_kind: str
    span_start: int  # characters
    span_end: int
    value: float  # NaN where nobody can say
    extracted: str | None


@dataclasses.dataclass(frozen=True)
class Judging:
    """A grader, what part of each text it judges, and whether as one or field by field.

    Attributes
    ----------
    grader : Grader
    part : Part
    by : {None, "field"}
        "field" grades each leaf of a JSON reference by the answer's value at the same path.
    named : str
        How a person named the grader.
    """

    grader: Grader
    part: Part = dataclasses.field(default_factory=Part)
    by: str | None = None
    named: str = ""

    def __post_init__(self) -> None:
        if self.by not in (None, "field"):
            raise ToolkitError(f"by: there is no {quoted(self.by)}: give field, or nothing")

    @property
    def settings(self) -> dict[str, Any]:
        """What decides a grade, as JSON has it; and how a person named it."""
        return {
            "grader": self.grader.config(),
            "extraction": self.part.config(),
            "over": str(self.part),
            "by": self.by,
            "named": self.named or self.grader.name,
        }

    @property
    def config_hash(self) -> str:
        """16 hexadecimal digits that change with any setting."""
        return config_hash({name: value for name, value in self.settings.items() if name != "named"})

    def rows(self, text: str, references: Sequence[str], key: Key, opened: bool) -> Iterator[Row]:
        """The judgements of one text: one, or one a field."""
        found = self.part.find(text, opened=opened)
        if self.by is None:
            right = self.part.references(references)
            grade = self.grader.grade(found.text, right, key=key)
            yield Row(self.part.name, found.start, found.end, grade.value, grade.extracted)
            return
        number = {"number_grader": self.grader} if isinstance(self.grader, Number) else {}
        other = {} if number else {"text_grader": self.grader}
        places = field_places(found.text or "")
        for field in grade_fields(found.text or "", references, **number, **other):
            start, end = places.get(field.path, (found.end - found.start,) * 2)
            yield Row("field", found.start + start, found.start + end, field.value, field.extracted)


def make_judging(
    grader: str | Grader,
    over: str | Part = "answer",
    by: str | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Judging:
    """A grader by name with settings, over a part of the text.

    Parameters
    ----------
    grader : str or Grader
        exact, contains, any-of, number, regex:PATTERN, choice, function:module:name, labels:FILE; see
        `toolkit.grading.parse_grader`.
    over : str or Part
        sequence, answer, regex:PATTERN or field:PATH.
    by : {None, "field"}
    settings : mapping, optional
        Of the grader, by name; those of its normalizer too.

    Raises
    ------
    ToolkitError
        There is no such grader, part or setting.
    """
    made = parse_grader(grader) if isinstance(grader, str) else grader
    part = parse_part(over) if isinstance(over, str) else over
    named = grader if isinstance(grader, str) else made.name
    return Judging(with_settings(made, settings or {}), part, by, named)


def with_settings(grader: Grader, settings: Mapping[str, Any]) -> Grader:
    """The same grader with other settings, or other ones of its normalizer.

    Raises
    ------
    ToolkitError
        It has no such setting, or the value is of another kind.
    """
    own = {f.name: getattr(grader, f.name) for f in dataclasses.fields(grader)}
    normalizer = own.get("normalizer")
    inner = dataclasses.asdict(normalizer) if isinstance(normalizer, Normalizer) else {}
    known = {**{name: value for name, value in own.items() if name != "normalizer"}, **inner}
    for name, value in settings.items():
        if name not in known:
            raise ToolkitError(
                f"grader {grader.name} has no setting {name!r}: it has {', '.join(known) or 'none'}"
            )
        _check_kind(grader.name, name, value, known[name])
    changed = {name: value for name, value in settings.items() if name in own}
    if inner:
        changed["normalizer"] = Normalizer(**{**inner, **{n: v for n, v in settings.items() if n in inner}})
    return dataclasses.replace(grader, **changed)


def _check_kind(grader: str, name: str, value: Any, before: Any) -> None:
    numbers = isinstance(before, float) and isinstance(value, int | float) and not isinstance(value, bool)
    if not numbers and before is not None and type(value) is not type(before):
        kind = {bool: "true or false", float: "a number", str: "text"}.get(
            type(before), type(before).__name__
        )
        raise ToolkitError(f"grader {grader}: {name} is {value!r:.40}: give {kind}")
