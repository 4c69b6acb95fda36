"""Log-probabilities that other engines gave, as runs: the same tables as collecting writes.

A module a source turns its objects into `Given` continuations; `building` lays them over bytes and makes
records; `writing` puts those into a run. What a source lacks is null.
"""

from toolkit.ingest.writing import SOURCES, Outcome, Source, ingest

__all__ = ["SOURCES", "Outcome", "Source", "ingest"]
