"""Pseudonyms: keyed permutations of texts, bytes and integers that keep their form; and keyed hashes.

A pseudonym is another value of the same form, under a secret of 128 bits. Two values never share one: each value is permuted within
the values of its form, by a Feistel network over the digits and letters of the value.

| value | its form | permuted within |
|---|---|---|
| text | the class of each letter and digit; all other ASCII characters and their places | the texts of this form |
| text of an integer, integer | sign and number of digits | the integers of this form |
| bytes | the length | the byte strings of this length |

Classes of ASCII are digits, small letters and capital letters. All other characters are of one class if they share the kind of their
Unicode category and the length of their UTF-8, so that the bytes of a text have the same length before and after.

A text of an integer has the pseudonym of the integer: columns of Long and of String with one group can be joined. The integers of a
form that some types of Java cannot hold (`32768`, `2147483648`) are permuted among themselves, so that types stay.

The network: the letters of a form are two halves; each round adds to the letters of one half, modulo the sizes of their classes, what
a keyed function makes of the other half. Rounds are bijections whatever that function is. It is SipHash 1-3: its 64 bits are spread
over the letters by SplitMix64. Four rounds are enough for forms of many
values (Luby and Rackoff), eight for few.

Sources: NIST SP 800-38G (FF1); SipHash: Aumasson and Bernstein, 2012; SplitMix64: Steele, Lea and Flood, 2014.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from readers import kernel, load_i8, load_le_i4, load_le_i8, load_u1, store_1, store_8, store_be_8, subroutine

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_SPREAD = -0x61C8864680B583EB  # 2^64 / golden ratio
_MIX_1 = -0x40A7B892E31B1A47
_MIX_2 = -0x6B2FB644ECCEEE15
_SIP_0, _SIP_1, _SIP_2, _SIP_3 = (
    0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573,
)  # fmt: skip
_POSITIVE = 0x7FFFFFFFFFFFFFFF
_LOW_32 = 0xFFFFFFFF
_ROUNDS, _MORE_ROUNDS, _MANY_ROUNDS = 4, 6, 8
# So many digits and letters of ASCII, or bytes, are one number of 63 bits.
_PACKED, _PACKED_BYTES = 13, 7
_LARGE_BITS, _SOME_BITS = 64, 32
# An index in its class has this many bits in the words that are hashed: 21 for any character of Unicode, 8 for bytes and ASCII.
_WIDE_BITS, _NARROW_BITS = 21, 8
_DIGIT, _SMALL, _CAPITAL, _BYTE = 0, 1, 2, 3
_HEX_DIGITS = 32


@subroutine
def _sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    """Return the four words of SipHash after one round."""
    v0 += v1
    v2 += v3
    v1 = ((v1 << 13) | ((v1 >> 51) & 0x1FFF)) ^ v0
    v3 = ((v3 << 16) | ((v3 >> 48) & 0xFFFF)) ^ v2
    v0 = (v0 << 32) | ((v0 >> 32) & _LOW_32)
    v2 += v1
    v0 += v3
    v1 = ((v1 << 17) | ((v1 >> 47) & 0x1FFFF)) ^ v2
    v3 = ((v3 << 21) | ((v3 >> 43) & 0x1FFFFF)) ^ v0
    v2 = (v2 << 32) | ((v2 >> 32) & _LOW_32)
    return v0, v1, v2, v3


@subroutine
def _sip_taken(v0: int, v1: int, v2: int, v3: int, word: int) -> tuple[int, int, int, int]:
    """Return the state behind a word."""
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@subroutine
def _sip_begun(k0: int, k1: int, tweak: int) -> tuple[int, int, int, int]:
    """Return the state behind the first word, a tweak."""
    v0, v1, v2, v3 = _sip_taken(k0 ^ _SIP_0, k1 ^ _SIP_1, k0 ^ _SIP_2, k1 ^ _SIP_3, tweak)
    return v0, v1, v2, v3


@subroutine
def _sip_ended(v0: int, v1: int, v2: int, v3: int) -> int:
    """Return the hash of a state that has taken the last word."""
    v2 ^= 0xFF
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@subroutine
def _sip(k0: int, k1: int, tweak: int, numbers: int, start: int, end: int, bits: int) -> int:
    """Return SipHash 1-3 of a tweak and of `numbers[start:end]`, of which each has so many bits."""
    v0, v1, v2, v3 = _sip_begun(k0, k1, tweak)
    index = start
    while index < end:
        word = 0
        used = bits
        while index < end and used <= 64:
            word = (word << bits) | load_le_i8(numbers, index * 8)
            used += bits
            index += 1
        v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, word)
    v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, end - start)
    found: int = _sip_ended(v0, v1, v2, v3)
    return found


@subroutine
def _spread(seed: int, number: int) -> int:
    """Return 32 bits of the stream of SplitMix64 that begins with a seed."""
    found = seed + (number + 1) * _SPREAD
    found = (found ^ ((found >> 30) & 0x3FFFFFFFF)) * _MIX_1
    found = (found ^ ((found >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return (found ^ ((found >> 31) & 0x1FFFFFFFF)) & _LOW_32


# ---- integers ----


@subroutine
def _one_number(k0: int, k1: int, tweak: int, number: int) -> int:
    """Return a number of 63 bits from SipHash 1-3 of two words."""
    v0, v1, v2, v3 = _sip_begun(k0, k1, tweak)
    v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, number)
    found: int = _sip_ended(v0, v1, v2, v3) & _POSITIVE
    return found


@subroutine
def _within(k0: int, k1: int, tweak: int, value: int, count: int, low: int) -> int:
    """Permute a value within `range(count)`; its second half has `low` values. What falls behind the end is permuted again."""
    high = (count - 1) // low + 1
    rounds = _ROUNDS if count > _LOW_32 * 1024 else _MANY_ROUNDS
    while True:
        left = value // low
        right = value % low
        for number in range(0, rounds, 2):
            left = (left + _one_number(k0, k1, tweak + number, right) % high) % high
            right = (right + _one_number(k0, k1, tweak + number + 1, left) % low) % low
        value = left * low + right
        if value < count:
            return value


@subroutine
def _permuted_integer(k0: int, k1: int, value: int) -> int:
    """Return the pseudonym of an integer: of the same sign and number of digits; the least of 64 bits stays."""
    if value == -_POSITIVE - 1:
        return value
    is_negative = 1 if value < 0 else 0
    size = -value if is_negative else value
    least = 1 if is_negative else 0
    greatest = 9
    low = 3
    digits = 1
    while size > greatest:
        least = greatest + 1
        greatest = greatest * 10 + 9 if digits < 18 else _POSITIVE
        digits += 1
        if digits == 2:
            low = 10
        elif digits & 1 == 0:
            low *= 10
    # The greatest byte, short, int: what is beyond it fits no such column.
    for bits in range(7, 32, 8):
        last = (1 << bits) - 1 + is_negative
        if bits != 23 and least <= last < greatest:
            if size <= last:
                greatest = last
            else:
                least = last + 1
    tweak = (digits * 2 + is_negative) << 8
    found: int = least + _within(k0, k1, tweak, size - least, greatest - least + 1, low)
    return -found if is_negative else found


@kernel
def _permute_integers(values: int, count: int, k0: int, k1: int) -> None:
    """Replace integers of 64 bits by their pseudonyms."""
    for index in range(count):
        store_8(values, index * 8, _permuted_integer(k0, k1, load_le_i8(values, index * 8)))


@kernel
def _permute_words(values: int, count: int, bits: int, k0: int, k1: int) -> None:
    """Replace words of 8, 16, 32 or 64 bits, each in a word of 64, by others of the same bits: by a permutation of all of them."""
    half = bits // 2
    mask = (1 << half) - 1
    for index in range(count):
        value = load_le_i8(values, index * 8)
        left = (value >> half) & mask
        right = value & mask
        for number in range(0, _MANY_ROUNDS, 2):
            left ^= _one_number(k0, k1, number, right) & mask
            right ^= _one_number(k0, k1, number + 1, left) & mask
        store_8(values, index * 8, (left << half) | right)


# ---- texts ----


@subroutine
def _first_digit(data: int, start: int, end: int) -> int:
    """Return where the digits of the text of an integer begin, behind its sign and zeros; -1 if it is none."""
    if start < end and load_u1(data, start) == 0x2D:
        start += 1
    if start == end:
        return -1
    for position in range(start, end):
        found = load_u1(data, position)
        if found < 0x30 or found > 0x39:
            return -1
    while start < end - 1 and load_u1(data, start) == 0x30:
        start += 1
    return start


@subroutine
def _magnitude(data: int, start: int, end: int) -> int:
    """Return the number that digits are; negative, if they are 19 and it has more than 63 bits."""
    value = 0
    for position in range(start, end):
        value = value * 10 + load_u1(data, position) - 0x30
    return value


@subroutine
def _write_digits(data: int, end: int, value: int) -> None:
    """Write the digits of an integer that end at a position; the sign is there."""
    value = -value if value < 0 else value
    while True:
        end -= 1
        store_1(data, end, 0x30 + value % 10)
        value //= 10
        if value == 0:
            return


@subroutine
def _character(data: int, position: int, first: int) -> int:
    """Return the code point of the character of UTF-8 at a position."""
    if first < 0xE0:
        return (first & 0x1F) << 6 | (load_u1(data, position + 1) & 0x3F)
    second = (load_u1(data, position + 1) & 0x3F) << 6 | (load_u1(data, position + 2) & 0x3F)
    if first < 0xF0:
        return (first & 0x0F) << 12 | second
    return (first & 0x07) << 18 | second << 6 | (load_u1(data, position + 3) & 0x3F)


@subroutine
def _write_character(data: int, position: int, point: int) -> None:
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
def _packed(numbers: int, sizes: int, start: int, end: int) -> tuple[int, int]:
    """Return letters as one number, and how many such numbers there are."""
    found = 0
    radix = 1
    for index in range(start, end):
        size = load_le_i8(sizes, index * 8)
        found = found * size + load_le_i8(numbers, index * 8)
        radix *= size
    return found, radix


@subroutine
def _unpack(value: int, numbers: int, sizes: int, start: int, end: int) -> None:
    """Write the letters of a number."""
    for index in range(end - 1, start - 1, -1):
        size = load_le_i8(sizes, index * 8)
        rest = value // 26 if size == 26 else value // 10 if size == 10 else value // size
        store_8(numbers, index * 8, value - rest * size)
        value = rest


@subroutine
def _permute_packed(
    k0: int, k1: int, tweak: int, indexes: int, sizes: int, middle: int, count: int, rounds: int
) -> None:
    """Permute few letters: each half of them as one number."""
    left, left_size = _packed(indexes, sizes, 0, middle)
    right, right_size = _packed(indexes, sizes, middle, count)
    for number in range(0, rounds, 2):
        left += _one_number(k0, k1, tweak + number, right) % left_size
        left = left - left_size if left >= left_size else left
        right += _one_number(k0, k1, tweak + number + 1, left) % right_size
        right = right - right_size if right >= right_size else right
    _unpack(left, indexes, sizes, 0, middle)
    _unpack(right, indexes, sizes, middle, count)


@subroutine
def _permute_letters(
    k0: int, k1: int, tweak: int, indexes: int, sizes: int, count: int, bits: int, packed: int, rounds: int
) -> None:
    """Permute the letters of one form, each by its index in a class of a size; `packed` of them are one number."""
    if count == 1:
        size = load_le_i8(sizes, 0)
        store_8(indexes, 0, _within(k0, k1, tweak, load_le_i8(indexes, 0), size, 5 if size <= 256 else 128))
        return
    middle = count // 2
    if count - middle <= packed:
        _permute_packed(k0, k1, tweak, indexes, sizes, middle, count, rounds)
        return
    for number in range(rounds):
        if number & 1 == 0:
            seed = _sip(k0, k1, tweak + number, indexes, middle, count, bits)
            start = 0
            end = middle
        else:
            seed = _sip(k0, k1, tweak + number, indexes, 0, middle, bits)
            start = middle
            end = count
        for index in range(start, end):
            size = load_le_i8(sizes, index * 8)
            # A product and a shift take a third of the time of a remainder.
            moved = load_le_i8(indexes, index * 8) + ((_spread(seed, index) * size) >> 32)
            store_8(indexes, index * 8, moved if moved < size else moved - size)


@subroutine
def _permute_text(
    data: int, begin: int, fixed: int, end: int, k0: int, k1: int, scratch: int, room: int, classes: int,
    places: int, starts: int, alphabet: int,
) -> None:  # fmt: skip
    """Permute one text within its form; for the arguments see `_permute_texts`.

    Args:
        fixed: where the digits of an integer begin, of which the first stays other than 0; -1 for any other text.
    """
    sizes = scratch + room * 8
    positions = sizes + room * 8
    letters = 0
    tweak = end - begin
    bits = _NARROW_BITS
    capacity = 0
    position = begin
    while position < end:
        found = load_u1(data, position)
        size = 0
        place = 0
        kind = found
        length = 1
        if found >= 0x80:
            length = 2 if found < 0xE0 else 3 if found < 0xF0 else 4
            point = _character(data, position, found)
            of_class = load_u1(classes, point)
            place = load_le_i4(places, point * 4)
            size = load_le_i4(starts, of_class * 4 + 4) - load_le_i4(starts, of_class * 4)
            kind = 512 + of_class
            bits = _WIDE_BITS
            capacity += 8
        elif position < fixed:
            kind = found
        elif position == fixed:
            size = 9
            place = found - 0x31
            kind = 256
        elif 0x30 <= found <= 0x39:
            size = 10
            place = found - 0x30
            kind = 257
            capacity += 3
        elif 0x61 <= found <= 0x7A:
            size = 26
            place = found - 0x61
            kind = 258
            capacity += 4
        elif 0x41 <= found <= 0x5A:
            size = 26
            place = found - 0x41
            kind = 259
            capacity += 4
        tweak = (tweak ^ kind) * _SPREAD
        tweak ^= (tweak >> 29) & 0x7FFFFFFFF
        if size > 0:
            store_8(scratch, letters * 8, place)
            store_8(sizes, letters * 8, size)
            store_8(positions, letters * 8, position)
            letters += 1
        position += length
    rounds = _ROUNDS if capacity >= _LARGE_BITS else _MORE_ROUNDS if capacity >= _SOME_BITS else _MANY_ROUNDS
    packed = _PACKED if bits == _NARROW_BITS else 0
    _permute_letters(k0, k1, tweak, scratch, sizes, letters, bits, packed, rounds)
    for letter in range(letters):
        position = load_le_i8(positions, letter * 8)
        place = load_le_i8(scratch, letter * 8)
        found = load_u1(data, position)
        if found >= 0x80:
            of_class = load_u1(classes, _character(data, position, found))
            _write_character(
                data, position, load_le_i4(alphabet, (load_le_i4(starts, of_class * 4) + place) * 4)
            )
        elif position == fixed:
            store_1(data, position, 0x31 + place)
        elif found <= 0x39:
            store_1(data, position, 0x30 + place)
        elif found >= 0x61:
            store_1(data, position, 0x61 + place)
        else:
            store_1(data, position, 0x41 + place)


@kernel
def _permute_texts(
    data: int, offsets: int, count: int, k0: int, k1: int, scratch: int, room: int, classes: int, places: int,
    starts: int, alphabet: int,
) -> None:  # fmt: skip
    """Replace texts of UTF-8, in place, by their pseudonyms.

    Args:
        data: the bytes of all texts.
        offsets: of the texts, int32, one more than there are texts.
        count: the number of texts.
        k0, k1: the secret.
        scratch: int64 (3, room).
        room: bytes of the longest text.
        classes: uint8 by code point beyond ASCII: the class of a character.
        places: int32 by code point: the index of the character in its class.
        starts: int32 by class: where its characters begin in `alphabet`; one more than there are classes.
        alphabet: int32: the characters of the classes.
    """
    for text in range(count):
        begin = load_le_i4(offsets, text * 4)
        end = load_le_i4(offsets, text * 4 + 4)
        digits = _first_digit(data, begin, end)
        size = _magnitude(data, digits, end) if digits >= 0 and end - digits < 20 else -1
        is_negative = begin < end and load_u1(data, begin) == 0x2D
        if size < 0:
            _permute_text(data, begin, digits, end, k0, k1, scratch, room, classes, places, starts, alphabet)
            # Of 19 digits some are integers of 64 bits, which are permuted among themselves.
            while digits >= 0 and end - digits == 19 and _magnitude(data, digits, end) >= 0:
                _permute_text(
                    data, begin, digits, end, k0, k1, scratch, room, classes, places, starts, alphabet
                )
        elif not is_negative:
            _write_digits(data, end, _permuted_integer(k0, k1, size))
        elif size > 0:
            _write_digits(data, end, _permuted_integer(k0, k1, -size))


@kernel
def _permute_bytes(data: int, offsets: int, count: int, k0: int, k1: int, scratch: int, room: int) -> None:
    """Replace byte strings, in place, by others of the same lengths."""
    sizes = scratch + room * 8
    for index in range(room):
        store_8(sizes, index * 8, 256)
    for text in range(count):
        begin = load_le_i4(offsets, text * 4)
        length = load_le_i4(offsets, text * 4 + 4) - begin
        for index in range(length):
            store_8(scratch, index * 8, load_u1(data, begin + index))
        rounds = _ROUNDS if length >= 8 else _MANY_ROUNDS
        _permute_letters(k0, k1, length, scratch, sizes, length, _NARROW_BITS, _PACKED_BYTES, rounds)
        for index in range(length):
            store_1(data, begin + index, load_le_i8(scratch, index * 8))


@subroutine
def _two_hashes(k0: int, k1: int, data: int, begin: int, end: int) -> tuple[int, int]:
    """Return SipHash 1-3 of bytes, eight of them a word, for the tweaks 0 and 1; a processor computes both at once."""
    v0, v1, v2, v3 = _sip_begun(k0, k1, 0)
    w0, w1, w2, w3 = _sip_begun(k0, k1, 1)
    position = begin
    while position < end:
        if position + 8 <= end:
            word = load_i8(data, position)
        else:
            word = 0
            for last in range(position, end):
                word = (word << 8) | load_u1(data, last)
        v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, word)
        w0, w1, w2, w3 = _sip_taken(w0, w1, w2, w3, word)
        position += 8
    v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, end - begin)
    w0, w1, w2, w3 = _sip_taken(w0, w1, w2, w3, end - begin)
    return _sip_ended(v0, v1, v2, v3), _sip_ended(w0, w1, w2, w3)


@subroutine
def _hexadecimal(value: int) -> int:
    """Return eight hexadecimal digits of 32 bits, a byte each: the nibbles are spread, and 10 to 15 become letters."""
    spread = (value | value << 16) & 0x0000FFFF0000FFFF
    spread = (spread | spread << 8) & 0x00FF00FF00FF00FF
    spread = (spread | spread << 4) & 0x0F0F0F0F0F0F0F0F
    are_letters = ((spread + 0x0606060606060606) >> 4) & 0x0101010101010101
    return spread + 0x3030303030303030 + are_letters * 0x27


@kernel
def _hash_texts(data: int, offsets: int, count: int, k0: int, k1: int, output: int) -> None:
    """Write 32 hexadecimal digits for each text: two keyed hashes of its bytes."""
    position = 0
    for text in range(count):
        begin = load_le_i4(offsets, text * 4)
        end = load_le_i4(offsets, text * 4 + 4)
        first, second = _two_hashes(k0, k1, data, begin, end)
        store_be_8(output, position, _hexadecimal((first >> 32) & _LOW_32))
        store_be_8(output, position + 8, _hexadecimal(first & _LOW_32))
        store_be_8(output, position + 16, _hexadecimal((second >> 32) & _LOW_32))
        store_be_8(output, position + 24, _hexadecimal(second & _LOW_32))
        position += _HEX_DIGITS


def pseudonyms_of_integers(values: Words, secret: bytes) -> None:
    """Replace integers by their pseudonyms, in place: of the same sign and number of digits.

    Args:
        values: contiguous.
        secret: 16 bytes.
    """
    _permute_integers(values, len(values), *_words(secret))


def permuted_words(values: Words, bits: int, secret: bytes) -> None:
    """Replace words of so many bits, in place, by a permutation of all of them; of each result the low bits count."""
    _permute_words(values, len(values), bits, *_words(secret))


def pseudonyms_of_texts(data: Bytes, offsets: NDArray[np.int32], secret: bytes) -> None:
    """Replace texts of UTF-8 by their pseudonyms, in place.

    Args:
        data: all texts.
        offsets: of the texts in `data`.
        secret: 16 bytes.
    """
    count = len(offsets) - 1
    room = _longest(offsets)
    scratch = np.empty(3 * room, dtype=np.int64)
    classes, places, starts, alphabet = _beyond_ascii() if (data >= 0x80).any() else _NO_CLASSES
    _permute_texts(data, offsets, count, *_words(secret), scratch, room, classes, places, starts, alphabet)


def pseudonyms_of_bytes(data: Bytes, offsets: NDArray[np.int32], secret: bytes) -> None:
    """Replace byte strings by others of their lengths, in place; for the arguments see `pseudonyms_of_texts`."""
    room = _longest(offsets)
    _permute_bytes(data, offsets, len(offsets) - 1, *_words(secret), np.empty(2 * room, dtype=np.int64), room)


def hashes_of_bytes(data: Bytes, offsets: NDArray[np.int32], secret: bytes) -> Bytes:
    """Return 32 hexadecimal digits for each text or byte string; for the arguments see `pseudonyms_of_texts`."""
    count = len(offsets) - 1
    output = np.empty(count * _HEX_DIGITS, dtype=np.uint8)
    _hash_texts(data, offsets, count, *_words(secret), output)
    return output


def _longest(offsets: NDArray[np.int32]) -> int:
    return int(np.diff(offsets).max(initial=1))


def _words(secret: bytes) -> tuple[int, int]:
    return int.from_bytes(secret[:8], "little", signed=True), int.from_bytes(
        secret[8:16], "little", signed=True
    )


_Classes = tuple[Bytes, NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]
_NOTHING = np.zeros(1, dtype=np.int32)
_NO_CLASSES: _Classes = (np.zeros(1, dtype=np.uint8), _NOTHING, _NOTHING, _NOTHING)


@lru_cache(maxsize=1)
def _beyond_ascii() -> _Classes:
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
