"""Is an answer right: text and references in, a value from 0 to 1 out. Knows nothing of runs or tables."""

from toolkit.grading.base import Grade, Grader, config_hash
from toolkit.grading.extract import Extracted, Extraction
from toolkit.grading.fields import FieldGrade, grade_fields, json_fields
from toolkit.grading.graders import AnyOf, Choice, Contains, Exact, Number, Regex
from toolkit.grading.judgements import Function, Labels
from toolkit.grading.normalize import Normalizer
from toolkit.grading.numbers import FoundNumber, find_numbers
from toolkit.grading.registry import GRADERS, Graded, Grading, make_grader, parse_grader

__all__ = [
    "GRADERS",
    "AnyOf",
    "Choice",
    "Contains",
    "Exact",
    "Extracted",
    "Extraction",
    "FieldGrade",
    "FoundNumber",
    "Function",
    "Grade",
    "Graded",
    "Grader",
    "Grading",
    "Labels",
    "Normalizer",
    "Number",
    "Regex",
    "config_hash",
    "find_numbers",
    "grade_fields",
    "json_fields",
    "make_grader",
    "parse_grader",
]
