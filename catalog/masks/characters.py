"""Characters of texts: their classes, within which pseudonyms permute them; reads and writes them in UTF-8, and integers."""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from readers import load_u1, store_1, store_be_8, subroutine

# A character as one word: its kind; if it is a letter, the first one of its class in ASCII, about how many bits it has, and the size of
# its class.
BASE_SHIFT, BITS_SHIFT, SIZE_SHIFT = 16, 24, 32
FIRST_DIGIT = 256 | 0x31 << BASE_SHIFT | 9 << SIZE_SHIFT


def _ascii() -> NDArray[np.int64]:
    """Return what the characters of ASCII are."""
    found = np.arange(0x80, dtype=np.int64)
    for kind, base, bits, size in ((257, 0x30, 3, 10), (258, 0x61, 4, 26), (259, 0x41, 4, 26)):
        found[base : base + size] = kind | base << BASE_SHIFT | bits << BITS_SHIFT | size << SIZE_SHIFT
    return found


ASCII = _ascii()


@subroutine
def read_character(data: int, position: int, first: int) -> int:
    """Return the code point of the character of UTF-8 at a position."""
    if first < 0xE0:
        return (first & 0x1F) << 6 | (load_u1(data, position + 1) & 0x3F)
    second = (load_u1(data, position + 1) & 0x3F) << 6 | (load_u1(data, position + 2) & 0x3F)
    if first < 0xF0:
        return (first & 0x0F) << 12 | second
    return (first & 0x07) << 18 | second << 6 | (load_u1(data, position + 3) & 0x3F)


@subroutine
def write_character(data: int, position: int, point: int) -> None:
    """Write a character of UTF-8 beyond ASCII over one of the same length."""
    if point < 0x800:
        store_1(data, position, 0xC0 | point >> 6)
    else:
        if point < 0x10000:
            store_1(data, position, 0xE0 | point >> 12)
        else:
            store_1(data, position, 0xF0 | point >> 18)
            position += 1
            store_1(data, position, 0x80 | (point >> 12 & 0x3F))
        position += 1
        store_1(data, position, 0x80 | (point >> 6 & 0x3F))
    store_1(data, position + 1, 0x80 | (point & 0x3F))


@subroutine
def end_of_digits(data: int, start: int, end: int) -> int:
    """Return where the digits that begin at a position end."""
    while start < end and 0x30 <= load_u1(data, start) <= 0x39:
        start += 1
    return start


@subroutine
def first_digit(data: int, start: int, end: int) -> tuple[int, int]:
    """Return where the digits of a number begin, behind its sign and zeros, and where its whole part ends; -1, -1 for another text.

    A number has digits, and perhaps a point and digits behind it.
    """
    if start < end and load_u1(data, start) == 0x2D:
        start += 1
    point = end_of_digits(data, start, end)
    if start == point:
        return -1, -1
    if point < end and (
        load_u1(data, point) != 0x2E or point + 1 == end or end_of_digits(data, point + 1, end) != end
    ):
        return -1, -1
    while start < point - 1 and load_u1(data, start) == 0x30:
        start += 1
    return start, point


@subroutine
def is_zero(data: int, start: int, end: int) -> bool:
    """Return whether all digits of a number are 0."""
    while start < end and (load_u1(data, start) == 0x30 or load_u1(data, start) == 0x2E):
        start += 1
    return start == end


@subroutine
def magnitude(data: int, start: int, end: int) -> int:
    """Return the number that digits are; negative, if they are 19 and it has more than 63 bits."""
    value = 0
    for position in range(start, end):
        value = value * 10 + load_u1(data, position) - 0x30
    return value


@subroutine
def write_digits(data: int, end: int, value: int) -> None:
    """Write the digits of an integer that end at a position; the sign is there."""
    value = -value if value < 0 else value
    while True:
        end -= 1
        store_1(data, end, 0x30 + value % 10)
        value //= 10
        if value == 0:
            return


@subroutine
def _hexadecimal(value: int) -> int:
    """Return eight hexadecimal digits of 32 bits, a byte each: the nibbles are spread, and 10 to 15 become letters."""
    spread = (value | value << 16) & 0x0000FFFF0000FFFF
    spread = (spread | spread << 8) & 0x00FF00FF00FF00FF
    spread = (spread | spread << 4) & 0x0F0F0F0F0F0F0F0F
    are_letters = ((spread + 0x0606060606060606) >> 4) & 0x0101010101010101
    return spread + 0x3030303030303030 + are_letters * 0x27


@subroutine
def write_hexadecimal(data: int, position: int, value: int) -> None:
    """Write sixteen hexadecimal digits."""
    store_be_8(data, position, _hexadecimal((value >> 32) & 0xFFFFFFFF))
    store_be_8(data, position + 8, _hexadecimal(value & 0xFFFFFFFF))


_Classes = tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
_NOTHING = np.zeros(1, dtype=np.int32)
NO_CLASSES: _Classes = (np.zeros(1, dtype=np.uint8), _NOTHING, _NOTHING, _NOTHING)


@lru_cache(maxsize=1)
def beyond_ascii() -> _Classes:
    """Return classes, places, starts and alphabet of all characters beyond ASCII; see `_permute_texts`."""
    last = 0x110000
    points = np.arange(last, dtype=np.int32)
    kinds = {
        "Ll": 0,
        "Lu": 1,
        "Lt": 2,
        "Lm": 2,
        "Lo": 2,
        "Nd": 3,
        "Nl": 4,
        "No": 4,
        "Mn": 5,
        "Mc": 5,
        "Me": 5,
    }
    # Of all others each kind has a class, too: a sign may say as much as a letter.
    kind = np.fromiter((kinds.get(unicodedata.category(chr(one)), 6) for one in points), np.uint8, last)
    classes = kind * 3 + (points >= 0x800) + (points >= 0x10000)
    # Surrogates are no characters.
    classes[0xD800:0xE000] = classes.max() + 1
    classes[:0x80] = classes.max() + 2
    alphabet = np.argsort(classes, kind="stable").astype(np.int32)
    starts = np.searchsorted(classes[alphabet], np.arange(int(classes.max()) + 2)).astype(np.int32)
    places = np.empty(last, dtype=np.int32)
    places[alphabet] = points - starts[classes[alphabet]]
    return classes.astype(np.uint8), places, starts, alphabet
