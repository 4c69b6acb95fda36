"""Arrow tables as pandas frames, one way for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

LABELS = pa.schema(
    [("run", pa.string()), ("model", pa.string()), ("temperature", pa.float64()), ("top_p", pa.float64())]
)
"""The columns that come first in a table of several runs."""


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """Dictionaries become plain strings, so that grouping and comparing frames holds no surprise.

    64-bit numbers (seeds) keep their digits where some are null; pandas would make them float64.
    """
    fields = [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in rows.schema
    ]
    return rows.cast(pa.schema(fields)).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)


def labelled(rows: pa.Table, labels: Mapping[str, Any]) -> pa.Table:
    """Rows of one of several runs, with `LABELS` first; `labels` is an element of `Runs.labels`."""
    leading = [pa.repeat(pa.scalar(labels[field.name], field.type), rows.num_rows) for field in LABELS]
    return pa.table([*leading, *rows.columns], names=[*LABELS.names, *rows.column_names])
