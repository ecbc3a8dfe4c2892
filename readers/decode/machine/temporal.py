"""Dates and times: calendars and units, appended as days or as units since the epoch."""

from __future__ import annotations

from readers.compiled.routines import subroutine
from readers.decode.machine.columns import put8
from readers.decode.machine.statuses import BAD_DATE, DONE, FULL, OUT_OF_RANGE

NANOS_A_SECOND = 1_000_000_000
SECONDS_A_DAY = 86_400
_NANOS_A_MILLISECOND = 1_000_000
_MAX_I8 = 2**63 - 1
_MAX_SECONDS = 9_223_372_036  # whole seconds in an int64 of nanoseconds


@subroutine
def put_timestamp(table: int, memory: int, column: int, millis: int, nanos: int, nanos_a_unit: int) -> int:
    """Append milliseconds and the nanoseconds of the millisecond, in units of the column; return the status."""
    if nanos < 0 or nanos >= _NANOS_A_MILLISECOND:
        return BAD_DATE
    if column < 0:
        return DONE
    units = _NANOS_A_MILLISECOND // nanos_a_unit
    # In the last millisecond of an int64 the nanoseconds could overflow; DuckDB reads its ends as infinity, too.
    if millis >= _MAX_I8 // units or millis <= -(_MAX_I8 // units):
        return OUT_OF_RANGE
    if put8(table, memory, column, millis * units + nanos // nanos_a_unit):
        return FULL
    return DONE


@subroutine
def days_from_civil(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01 in the proleptic Gregorian calendar (`LocalDate#toEpochDay`)."""
    # The year begins in March here: a leap day is the last day of its year, and months before it have fixed offsets.
    year -= month <= 2
    era = year // 400
    year_of_era = year - era * 400
    day_of_year = (153 * (month + (-3 if month > 2 else 9)) + 2) // 5 + day - 1
    return era * 146_097 + year_of_era * 365 + year_of_era // 4 - year_of_era // 100 + day_of_year - 719_468


@subroutine
def nanos_since_epoch(seconds: int, nanos: int) -> tuple[int, bool]:
    """Return the nanoseconds since the epoch, and whether an int64 holds them.

    Args:
        seconds: since the epoch.
        nanos: since then, less than a day.
    """
    if seconds > _MAX_SECONDS or seconds < -_MAX_SECONDS:
        return 0, False
    # Not the greatest int64 either: it is DuckDB's infinity.
    if seconds * NANOS_A_SECOND >= _MAX_I8 - nanos:
        return 0, False
    return seconds * NANOS_A_SECOND + nanos, True
