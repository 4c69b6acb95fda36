"""A run on disk: schemas, a crash-safe writer, a reader that sees whole commits only, and its upkeep."""

from toolkit.store.lock import Shard
from toolkit.store.manifest import Manifest, Session, check_same_content, read_manifest
from toolkit.store.reader import Run, Runs, open_run, open_runs
from toolkit.store.rows import PromptTokens, VocabularyEntry
from toolkit.store.writer import RunWriter

__all__ = [
    "Manifest",
    "PromptTokens",
    "Run",
    "RunWriter",
    "Runs",
    "Session",
    "Shard",
    "VocabularyEntry",
    "check_same_content",
    "open_run",
    "open_runs",
    "read_manifest",
]
