"""Dates and times. Package `org.apache.flink.api.common.typeutils.base`; the snapshots have no body.

| serializer | bytes | null | column |
|---|---|---|---|
| Date, SqlDate, SqlTime | i8 ms since the epoch | smallest i8 | timestamp[ms] |
| SqlTimestamp | i8 ms, i4 nanos of the second (the ms are in both) | smallest i8, 0 | timestamp[ns] |
| Instant | i8 s, i4 nanos | smallest i8, smallest i4 | timestamp[ns], in UTC |
| LocalDate | i4 year, u1 month, u1 day | 80000000 8000 | date32 |
| LocalTime | u1 hour, u1 minute, u1 second, i4 nanos | 80 8000 80000000 | time64[ns] |
| LocalDateTime | LocalDate, LocalTime | both | timestamp[ns] |

No column carries a time zone: an instant is shown in UTC, `java.sql` types as the zone-less milliseconds that they store. A
value that an int64 of nanoseconds cannot hold (years before 1677 or after 2262) is NULL, and its text is kept beside the
column: see `readers.decode.outliers`. Nothing wraps.
"""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from readers.decode.program import Program
from readers.keygroups import hash_instant, hash_local_date, hash_long
from readers.serializers.primitives import BASE, BasicSerializer, simple
from readers.serializers.snapshot import SnapshotBody

_EPOCH = datetime.datetime(1970, 1, 1)  # columns carry no zone
_MICROSECOND = datetime.timedelta(microseconds=1)


class BoundedSerializer(BasicSerializer):
    """A type whose column ends earlier than `java.time` does."""

    @property
    def has_outliers(self) -> bool:
        return True


class DateSerializer(BasicSerializer):
    java_class = BASE + "DateSerializer"
    name, arrow_type, fixed_length = "java.util.Date", pa.timestamp("ms"), 8

    def emit(self, program: Program) -> None:
        program.millis()

    def hash_code(self, value: Any) -> int | None:
        microseconds = _microseconds(value)
        # A finer time is not in the savepoint, so it has no hash.
        return None if microseconds is None or microseconds % 1000 else hash_long(microseconds // 1000)


class SqlDateSerializer(DateSerializer):
    java_class = BASE + "SqlDateSerializer"
    name = "java.sql.Date"


class SqlTimeSerializer(DateSerializer):
    java_class = BASE + "SqlTimeSerializer"
    name = "java.sql.Time"


class SqlTimestampSerializer(BoundedSerializer):
    java_class = BASE + "SqlTimestampSerializer"
    name, arrow_type, fixed_length = "java.sql.Timestamp", pa.timestamp("ns"), 12

    def emit(self, program: Program) -> None:
        program.timestamp()

    def hash_code(self, value: Any) -> int | None:
        """Return the hash of the milliseconds, which is that of `java.util.Date`."""
        microseconds = _microseconds(value)
        return None if microseconds is None else hash_long(microseconds // 1000)


class InstantSerializer(BoundedSerializer):
    java_class = BASE + "InstantSerializer"
    name, arrow_type, fixed_length = "Instant", pa.timestamp("ns"), 12

    def emit(self, program: Program) -> None:
        program.instant()

    def hash_code(self, value: Any) -> int | None:
        microseconds = _microseconds(value)
        if microseconds is None:
            return None
        return hash_instant(microseconds // 1_000_000, microseconds % 1_000_000 * 1000)


class LocalDateSerializer(BoundedSerializer):
    java_class = BASE + "LocalDateSerializer"
    name, arrow_type, fixed_length = "LocalDate", pa.date32(), 6

    def emit(self, program: Program) -> None:
        program.local_date()

    def hash_code(self, value: Any) -> int | None:
        # A datetime is a date to Python.
        if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
            return None
        return hash_local_date(value.year, value.month, value.day)


class LocalTimeSerializer(BasicSerializer):
    java_class = BASE + "LocalTimeSerializer"
    name, arrow_type, fixed_length = "LocalTime", pa.time64("ns"), 7

    def emit(self, program: Program) -> None:
        program.local_time()

    def hash_code(self, value: Any) -> int | None:
        return _hash_time(value) if isinstance(value, datetime.time) and value.tzinfo is None else None


class LocalDateTimeSerializer(BoundedSerializer):
    java_class = BASE + "LocalDateTimeSerializer"
    name, arrow_type, fixed_length = "LocalDateTime", pa.timestamp("ns"), 13

    def emit(self, program: Program) -> None:
        program.local_date_time()

    def hash_code(self, value: Any) -> int | None:
        if _microseconds(value) is None:
            return None
        return hash_local_date(value.year, value.month, value.day) ^ _hash_time(value.time())


def _hash_time(value: datetime.time) -> int:
    """Return `LocalTime#hashCode`: that of the nanoseconds of the day."""
    seconds = (value.hour * 60 + value.minute) * 60 + value.second
    return hash_long((seconds * 1_000_000 + value.microsecond) * 1000)


def _microseconds(value: Any) -> int | None:
    """Return the microseconds since the epoch of a zone-less datetime; None for any other value."""
    # The timestamps of pandas are datetimes with nanoseconds beside the microseconds.
    if (
        not isinstance(value, datetime.datetime)
        or value.tzinfo is not None
        or getattr(value, "nanosecond", False)
    ):
        return None
    return (value - _EPOCH) // _MICROSECOND


SNAPSHOTS: dict[str, SnapshotBody] = dict(
    map(
        simple,
        (
            DateSerializer,
            SqlDateSerializer,
            SqlTimeSerializer,
            SqlTimestampSerializer,
            InstantSerializer,
            LocalDateSerializer,
            LocalTimeSerializer,
            LocalDateTimeSerializer,
        ),
    )
)
