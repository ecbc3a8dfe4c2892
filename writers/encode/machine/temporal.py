"""Dates and times: days and nanoseconds since the epoch → calendars."""

from __future__ import annotations

from readers import subroutine

NANOS_A_SECOND = 1_000_000_000
NANOS_A_MILLISECOND = 1_000_000
NANOS_A_DAY = 86_400_000_000_000


@subroutine
def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day in the proleptic Gregorian calendar (`LocalDate#ofEpochDay`)."""
    # The year begins in March here, as in `days_from_civil` of the decoding machine.
    days += 719_468
    era = days // 146_097
    day_of_era = days - era * 146_097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month + 2) // 5 + 1
    month += 3 if month < 10 else -9
    return year_of_era + era * 400 + (1 if month <= 2 else 0), month, day
