"""An average of integers or decimals as DuckDB has it, which Spark takes from its Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def average(totals: pa.Array, counts: pa.Array) -> pa.Array:
    """Sums by counts.

    DuckDB's `avg` adds in 128 bits, and divides once, as `long double`, by the count and the power of ten of the decimals.

    Args:
        totals: decimals of 128 bits.
        counts: int64; no average of none.
    """
    known = pa.compute.and_(totals.is_valid(), pa.compute.greater(counts.fill_null(0), 0))
    divisors = counts.fill_null(1).to_numpy().astype(np.longdouble) * np.longdouble(
        float(10**totals.type.scale)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = (_wide(totals) / divisors).astype(np.float64)
    return pa.compute.if_else(known, pa.array(quotients), None)


def register(session: SparkSession, name: str) -> None:
    """Have a session's SQL know `average` by this name."""
    from pyspark.sql import functions

    untyped: Any = functions  # what pyspark says of `arrow_udf` fits no function
    session.udf.register(name, untyped.arrow_udf(average, "double"))


def _wide(totals: pa.Array) -> np.ndarray[Any, np.dtype[np.longdouble]]:
    """Integers of 128 bits as DuckDB makes `long double` of them: by halves, or by the complement of the lower one."""
    words = np.frombuffer(totals.buffers()[1], np.uint64)[2 * totals.offset :][: 2 * len(totals)].reshape(
        -1, 2
    )
    lower, upper = words[:, 0], words[:, 1].view(np.int64)
    halves = lower.astype(np.longdouble) + upper.astype(np.longdouble) * np.longdouble(2) ** 64
    return np.where(upper == -1, -(~lower).astype(np.longdouble) - 1, halves)
