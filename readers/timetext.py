"""Dates, times and durations as ISO 8601 text, as `java.time` prints them; years of any size, nothing wraps.

Python's `datetime` ends with the year 9999 and has no nanoseconds.
"""

from __future__ import annotations

_SECONDS_A_DAY = 86_400
_NANOS_A_SECOND = 1_000_000_000


def date_text(year: int, month: int, day: int) -> str:
    """Return `LocalDate#toString`."""
    sign = "+" if year > 9999 else "-" if year < 0 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day:02d}"


def time_text(hour: int, minute: int, second: int, nano: int) -> str:
    """Return `LocalTime#toString`: no seconds where they are zero, the fraction in groups of three digits."""
    text = f"{hour:02d}:{minute:02d}"
    if second or nano:
        text += f":{second:02d}"
    return text + _fraction(nano)


def instant_text(seconds: int, nano: int) -> str:
    """Return `Instant#toString`: always with seconds."""
    days, rest = divmod(seconds, _SECONDS_A_DAY)
    clock = f"{rest // 3600:02d}:{rest // 60 % 60:02d}:{rest % 60:02d}"
    return f"{date_text(*civil_from_days(days))}T{clock}{_fraction(nano)}Z"


def duration_text(seconds: int, nano: int) -> str:
    """Return `Duration#toString`."""
    # The nanos count upwards from the seconds, also in a negative duration.
    total = seconds * _NANOS_A_SECOND + nano
    sign = "-" if total < 0 else ""
    whole, nano = divmod(abs(total), _NANOS_A_SECOND)
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    text = f"{sign}{hours}H" * bool(hours) + f"{sign}{minutes}M" * bool(minutes)
    if rest or nano or not text:
        digits = f"{nano:09d}".rstrip("0")
        text += f"{sign}{rest}{'.' + digits if digits else ''}S"
    return f"PT{text}"


def _fraction(nano: int) -> str:
    if nano == 0:
        return ""
    digits = f"{nano:09d}"
    # `java.time` prints three, six or nine digits.
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}"


def civil_from_days(days: int) -> tuple[int, int, int]:
    """Return year, month and day of a day since 1970-01-01, in the proleptic Gregorian calendar."""
    # Years here begin in March, so that the leap day is the last; eras are the 400 years after which days repeat.
    days += 719_468
    era, day_of_era = divmod(days, 146_097)
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year_of_era + 400 * era + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1
