"""DuckDB's average of integers or decimals: a function in Python that Spark's SQL calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def average(totals: pa.Array, counts: pa.Array) -> pa.Array:
    """Return averages as float64, NULL without values.

    DuckDB's `avg` adds in 128 bits, and divides once, as `long double`, by the count and the power of ten of the decimals.

    Args:
        totals: sums, decimal128.
        counts: counts of the values, int64.
    """
    known = pa.compute.and_(totals.is_valid(), pa.compute.greater(counts.fill_null(0), 0))
    divisors = counts.fill_null(1).to_numpy().astype(np.longdouble) * np.longdouble(
        float(10**totals.type.scale)
    )
    with np.errstate(divide="ignore", invalid="ignore"):
        quotients = (_wide(totals) / divisors).astype(np.float64)
    return pa.compute.if_else(known, pa.array(quotients), None)


def register(session: SparkSession, name: str) -> None:
    """Register `average` in a session's SQL by this name."""
    from pyspark.sql import functions

    untyped: Any = functions  # no function fits pyspark's annotations of `arrow_udf`
    session.udf.register(name, untyped.arrow_udf(average, "double"))


def _wide(totals: pa.Array) -> np.ndarray[Any, np.dtype[np.longdouble]]:
    """Convert integers of 128 bits to `long double` as DuckDB does: by halves, or by the complement of the lower half."""
    # 16 bytes a value, little endian: the lower half, then the upper one, which has the sign.
    words = np.frombuffer(totals.buffers()[1], np.uint64)[2 * totals.offset :][: 2 * len(totals)].reshape(
        -1, 2
    )
    lower, upper = words[:, 0], words[:, 1].view(np.int64)
    halves = lower.astype(np.longdouble) + upper.astype(np.longdouble) * np.longdouble(2) ** 64
    return np.where(upper == -1, -(~lower).astype(np.longdouble) - 1, halves)
