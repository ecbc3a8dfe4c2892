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
column: see `readers.decode.columns`. Nothing wraps.
"""

from __future__ import annotations

import datetime
from typing import Any

import pyarrow as pa

from readers.decode.program import Program
from readers.keygroups import hash_instant, hash_local_date, hash_long
from readers.serializers.base import SnapshotBody
from readers.serializers.primitives import BASE, BasicSerializer, simple
from readers.serializers.structs import ScalarLayout

_EPOCH = datetime.datetime(1970, 1, 1)  # columns carry no zone
_MICROSECOND = datetime.timedelta(microseconds=1)


class BoundedSerializer(BasicSerializer):
    """A type whose column ends earlier than `java.time` does."""

    @property
    def has_outliers(self) -> bool:
        return True


class DateSerializer(BasicSerializer, package=BASE):
    name, layout, fixed_length = "java.util.Date", ScalarLayout(pa.timestamp("ms"), Program.millis), 8

    def hash_code(self, value: Any) -> int | None:
        microseconds = _microseconds(value)
        # A finer time is not in the savepoint, so it has no hash.
        return None if microseconds is None or microseconds % 1000 else hash_long(microseconds // 1000)


class SqlDateSerializer(DateSerializer, package=BASE):
    name = "java.sql.Date"


class SqlTimeSerializer(DateSerializer, package=BASE):
    name = "java.sql.Time"


class SqlTimestampSerializer(BoundedSerializer, package=BASE):
    name, layout, fixed_length = "java.sql.Timestamp", ScalarLayout(pa.timestamp("ns"), Program.timestamp), 12

    def hash_code(self, value: Any) -> int | None:
        """Return the hash of the milliseconds, which is that of `java.util.Date`."""
        microseconds = _microseconds(value)
        return None if microseconds is None else hash_long(microseconds // 1000)


class InstantSerializer(BoundedSerializer, package=BASE):
    name, layout, fixed_length = "Instant", ScalarLayout(pa.timestamp("ns"), Program.instant), 12

    def hash_code(self, value: Any) -> int | None:
        microseconds = _microseconds(value)
        if microseconds is None:
            return None
        return hash_instant(microseconds // 1_000_000, microseconds % 1_000_000 * 1000)


class LocalDateSerializer(BoundedSerializer, package=BASE):
    name, layout, fixed_length = "LocalDate", ScalarLayout(pa.date32(), Program.local_date), 6

    def hash_code(self, value: Any) -> int | None:
        # A datetime is a date to Python.
        if not isinstance(value, datetime.date) or isinstance(value, datetime.datetime):
            return None
        return hash_local_date(value.year, value.month, value.day)


class LocalTimeSerializer(BasicSerializer, package=BASE):
    name, layout, fixed_length = "LocalTime", ScalarLayout(pa.time64("ns"), Program.local_time), 7

    def hash_code(self, value: Any) -> int | None:
        return _hash_time(value) if isinstance(value, datetime.time) and value.tzinfo is None else None


class LocalDateTimeSerializer(BoundedSerializer, package=BASE):
    name, layout, fixed_length = (
        "LocalDateTime",
        ScalarLayout(pa.timestamp("ns"), Program.local_date_time),
        13,
    )

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
    is_plain = isinstance(value, datetime.datetime) and value.tzinfo is None
    return (value - _EPOCH) // _MICROSECOND if is_plain and not getattr(value, "nanosecond", 0) else None


SNAPSHOTS: dict[str, SnapshotBody] = dict(
    map(
        simple,
        (
            DateSerializer, SqlDateSerializer, SqlTimeSerializer, SqlTimestampSerializer, InstantSerializer,
            LocalDateSerializer, LocalTimeSerializer, LocalDateTimeSerializer,
        ),
    )
)  # fmt: skip
