"""Why the machine stops: the codes of the register STATUS, and what the errors among them mean."""

from __future__ import annotations

DONE = 0  # all entries are encoded
FULL = 1  # the output has too little room for the instruction

NULL_VALUE = 10
NOT_NULL = 11
OUT_OF_RANGE = 12
WRONG_LENGTH = 13
NO_CONSTANT = 14
OTHER_CONSTANT = 15
NO_CASE = 16
BAD_TEXT = 17
TOO_LONG = 18
NOT_A_NUMBER = 19
LEAF = 20  # an object that only Python reads
HIDDEN = 21  # bytes that no column holds

# {value} is the value, {type} the column type, {detail} the register DETAIL.
MESSAGES = {
    NULL_VALUE: "expected a value of type {type}, found NULL, for which the serializer has no bytes",
    NOT_NULL: "expected NULL, found {value}: no bytes stand for a value here",
    OUT_OF_RANGE: "expected a value that the serializer can write, found {value} ({type})",
    WRONG_LENGTH: "expected {detail} bytes, found {value}",
    NO_CONSTANT: "expected one of the constants that the savepoint describes, found {value}",
    OTHER_CONSTANT: "expected the only value of this type, found {value}",
    NO_CASE: "expected a value of a class or case that the savepoint describes, found {value}",
    BAD_TEXT: "expected text in UTF-8, found {value}",
    TOO_LONG: "expected at most {detail} bytes, found more: {value}",
    NOT_A_NUMBER: "expected a decimal number, found {value}",
}
