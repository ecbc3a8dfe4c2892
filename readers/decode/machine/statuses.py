"""Why the machine stops: the codes of the register STATUS, and what the errors among them mean."""

from __future__ import annotations

DONE = 0  # all entries are decoded
FULL = 1  # an arena is full; entry ROW is not finished
CALL = 2  # a Python leaf is to be read: instruction PC at POSITION

TOO_SHORT = 10
TRAILING = 11
BAD_FLAG = 12
BAD_TAG = 13
BAD_CLASS = 14
BAD_COUNT = 15
BAD_DELIMITER = 16
BAD_INDEX = 17
BAD_TEXT = 18  # not modified UTF-8, or a varint too long
BAD_SUFFIX = 19
OUT_OF_RANGE = 20  # a date or time beyond its column: the decoder sets it aside and goes on; else an error
BAD_DATE = 21

# {a} and {b} are the registers DETAIL_A and DETAIL_B.
MESSAGES = {
    TOO_SHORT: "expected {a} bytes, found {b} left",
    TRAILING: "expected the end of the entry, found {a} bytes more",
    BAD_FLAG: "expected a flag 0 or 1, found {a}",
    BAD_TAG: "expected a known tag, found {a}",
    BAD_CLASS: "expected the name of a known class, found another of {a} bytes",
    BAD_COUNT: "expected a count or length, found {a} with {b} bytes left",
    BAD_DELIMITER: "expected the list delimiter 44, found {a}",
    BAD_INDEX: "expected an index of {b} enum constants, found {a}",
    BAD_TEXT: "expected text, found bytes that are none",
    BAD_SUFFIX: "expected the length {b} behind the key, found {a}",
    OUT_OF_RANGE: "the value does not fit its column type exactly ({a})",
    BAD_DATE: "expected a date or time, found {a}",
}
