"""Runs in the formats of others: CSV, JSON Lines, and the responses of the OpenAI API.

Everything is an iterator of UTF-8 text, made from a row group at a time, so that a run larger than memory can be
written. Nothing is rounded: a log-probability is written with the digits that give the same float32 back.
"""

from toolkit.exporting.output import write_export
from toolkit.exporting.responses import SHAPES, response_text
from toolkit.exporting.sequences import sequence_text
from toolkit.exporting.tables import TABLE_FORMATS, table_text

__all__ = ["SHAPES", "TABLE_FORMATS", "response_text", "sequence_text", "table_text", "write_export"]
