"""Arrow tables as pandas frames, one way for all of them."""

from __future__ import annotations

import pandas as pd
import pyarrow as pa


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    """Dictionaries become plain strings, so that grouping and comparing frames holds no surprise.

    64-bit numbers (seeds) keep their digits where some are null; pandas would make them float64.
    """
    fields = [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in rows.schema
    ]
    return rows.cast(pa.schema(fields)).to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
