"""Dates and times: days and nanoseconds since the epoch → calendars."""

from __future__ import annotations

from typing import Any

from readers import Intrinsic, subroutine

NANOS_A_SECOND = 1_000_000_000
NANOS_A_MILLISECOND = 1_000_000
NANOS_A_DAY = 86_400_000_000_000
_CYCLES = 14_700  # of 400 years, more than an int32 of days
_SHIFT_DAYS = 719_468 + 146_097 * _CYCLES
_SHIFT_YEARS = 400 * _CYCLES
_JANUARY = 306  # days from March to December


def _divide_words(ir: Any, builder: Any, dividend: Any, divisor: Any) -> Any:
    return builder.sdiv(dividend, divisor)


# Towards zero. By a constant LLVM makes a multiplication of it; numba's own division, with a branch, stays one.
_divide = Intrinsic(_divide_words, 2)


@subroutine
def floor_divide(dividend: int, divisor: int) -> int:
    """Return the quotient, rounded down, by a positive constant."""
    quotient = _divide(dividend, divisor)
    return quotient + (dividend - quotient * divisor >> 63)


@subroutine
def split_millis(value: int, nanos_a_unit: int) -> tuple[int, int]:
    """Return a time in units of 1 or 1000 nanoseconds as milliseconds and nanoseconds of the millisecond."""
    if nanos_a_unit == 1:
        millis = floor_divide(value, NANOS_A_MILLISECOND)
        return millis, value - millis * NANOS_A_MILLISECOND
    millis = floor_divide(value, 1000)
    return millis, (value - millis * 1000) * nanos_a_unit


@subroutine
def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day in the proleptic Gregorian calendar (`LocalDate#ofEpochDay`)."""
    # The year begins in March here, as in `days_from_civil` of the decoding machine; the shift makes all numbers positive.
    # C. Neri and L. Schneider, "Euclidean affine functions and their application to calendar algorithms", 2022.
    scaled = 4 * (days + _SHIFT_DAYS) + 3
    century = _divide(scaled, 146_097)
    product = 2_939_745 * (scaled - century * 146_097 | 3)
    day_of_year = _divide(product & 0xFFFFFFFF, 2_939_745) >> 2
    year = 100 * century + (product >> 32) - _SHIFT_YEARS
    rest = 2141 * day_of_year + 197_913
    month = rest >> 16
    day = _divide(rest & 0xFFFF, 2141) + 1
    if day_of_year >= _JANUARY:
        return year + 1, month - 12, day
    return year, month, day
