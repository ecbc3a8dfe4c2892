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

The network: the letters of a form are two halves; each round moves the letters of one half on in their classes, by what a keyed
function makes of the form and of the other half. Rounds are bijections whatever that function is. It is SipHash 1-3. Four rounds are
enough for forms of many values (Luby and Rackoff), eight for few.

Three ways lead through it, each of them for all texts of a form: integers are two numbers (`integers`); texts of ASCII and byte strings
of 2 to 32 bytes go side by side (`lanes`); other texts one by one (`_permute_letters`): their halves are the letters before and behind
the middle, and SplitMix64 spreads the 64 bits of a hash over them.

Sources: NIST SP 800-38G (FF1); SipHash: Aumasson and Bernstein, 2012; SplitMix64: Steele, Lea and Flood, 2014.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from catalog.masks.characters import (
    ASCII,
    BASE_SHIFT,
    BITS_SHIFT,
    FIRST_DIGIT,
    NO_CLASSES,
    SIZE_SHIFT,
    beyond_ascii,
    first_digit,
    is_zero,
    magnitude,
    read_character,
    write_character,
    write_digits,
    write_hexadecimal,
)
from catalog.masks.integers import (
    ALL_NUMBERS,
    FORM,
    FORMS,
    begin_integer,
    most,
    new_array,
    permute_integers_of_block,
    permuted,
    words_of,
)
from catalog.masks.lanes import (
    ARE_BYTES,
    BLOCK,
    BLOCK_BYTES,
    DIGITS,
    FEWEST_ROUNDS,
    LANES,
    LARGE_BITS,
    LENGTH,
    LETTERS,
    MORE_ROUNDS,
    MOST_BYTES,
    MOST_ROUNDS,
    ROUNDS,
    SOME_BITS,
    VALUE,
    WORDS,
    begin_lanes,
    hash_lanes,
    permute_words_1,
    permute_words_2,
    permute_words_3,
    permute_words_4,
)
from catalog.masks.siphash import hash_of_bytes, hash_of_letters, hash_of_number, spread
from readers import (
    kernel,
    load_le_i4,
    load_le_i8,
    load_u1,
    stack_memory,
    store_1,
    store_8,
    store_be_8,
    subroutine,
)

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_MIX = -0x61C8864680B583EB  # 2^64 / golden ratio
# An index in its class has this many bits in the words that are hashed: 21 for any character of Unicode, 8 for bytes and ASCII.
_WIDE_BITS, _NARROW_BITS = 21, 8
HEX_DIGITS = 32
_DIGITS_OF_WORD = 19
_BEYOND_ASCII = -0x7F7F7F7F7F7F7F80  # the first bit of each byte
# Columns of letters, in bytes for each of their room.
_SIZE, _PLACE = 8, 16


# Behind the columns of texts: which way a text of the block goes.
_WAY, _ALL_LANES = BLOCK_BYTES, BLOCK_BYTES + BLOCK * 8
_numbers_memory = stack_memory(ALL_NUMBERS)
_lanes_memory = stack_memory(_ALL_LANES)
# The way of a text: its lane; alone; it stays; an integer and its place.
_ALONE, _STAYS, _INTEGER = BLOCK, BLOCK + 1, BLOCK + 2
# By length and word: the bytes of a word that a value of this length has.
_OWN = np.array(
    [
        [(1 << 8 * min(max(length - first, 0), 8)) - 1 for first in range(0, MOST_BYTES, 8)]
        for length in range(MOST_BYTES + 1)
    ],
    dtype=np.uint64,
)


# ---- values side by side ----


@subroutine
def _load_value(lanes: int, lane: int, data: int, begin: int, end: int, limit: int, own: int) -> int:
    """Note a value of at most 32 bytes; return its words, one OR the other.

    Args:
        limit: where the data ends.
        own: `_OWN`.
    """
    place = lanes + lane * 8
    length = end - begin
    store_8(place, LENGTH, length)
    seen = 0
    if begin + MOST_BYTES <= limit:
        for word in range(WORDS):
            value = load_le_i8(data, begin + word * 8) & load_le_i8(own, (length * WORDS + word) * 8)
            store_8(place, VALUE + word * BLOCK * 8, value)
            seen |= value
    else:
        for word in range(WORDS):
            value = 0
            for position in range(begin + word * 8, min(end, begin + word * 8 + 8)):
                value |= load_u1(data, position) << (position - begin) % 8 * 8
            store_8(place, VALUE + word * BLOCK * 8, value)
            seen |= value
    return seen


@subroutine
def _fill_lanes(lanes: int, count: int, own: int) -> None:
    """Note empty values behind the last ones, up to the end of their vector."""
    for lane in range(count, (count + LANES - 1) // LANES * LANES):
        _load_value(lanes, lane, 0, 0, 0, 0, own)


@subroutine
def _write_value(lanes: int, lane: int, output: int, begin: int) -> None:
    """Write a value with zeros behind it, 32 bytes: the next one replaces them."""
    place = lanes + lane * 8
    for word in range(WORDS):
        store_8(output, begin + word * 8, load_le_i8(place, VALUE + word * BLOCK * 8))


@subroutine
def _copy_value(data: int, begin: int, end: int, output: int) -> None:
    for position in range(begin, end):
        store_1(output, position, load_u1(data, position))


@subroutine
def _permute_lanes(lanes: int, count: int, secret: int, own: int) -> None:
    """Permute the values that are noted."""
    _fill_lanes(lanes, count, own)
    for first in range(0, count, LANES):
        place = lanes + first * 8
        begin_lanes(place)
        rounds, longest = most(place, ROUNDS), most(place, LENGTH)
        for number in range(0, rounds, 2):
            if longest <= 8:
                permute_words_1(place, secret, number)
            elif longest <= 16:
                permute_words_2(place, secret, number)
            elif longest <= 24:
                permute_words_3(place, secret, number)
            else:
                permute_words_4(place, secret, number)


# ---- texts ----


@subroutine
def _permute_letter(k0: int, k1: int, tweak: int, index: int, size: int) -> int:
    """Permute the only letter of a form: its index in a class of a size, as two numbers."""
    right_size = 5 if size <= 256 else 128
    left_size = (size - 1) // right_size + 1
    while True:
        left = index // right_size
        right = index % right_size
        for number in range(0, MOST_ROUNDS, 2):
            left = (left + hash_of_number(k0, k1, tweak + number, right) % left_size) % left_size
            right = (right + hash_of_number(k0, k1, tweak + number + 1, left) % right_size) % right_size
        index = left * right_size + right
        if index < size:
            return index


@subroutine
def _permute_letters(
    k0: int, k1: int, tweak: int, indexes: int, sizes: int, count: int, bits: int, rounds: int
) -> None:
    """Permute the letters of one form, each by its index in a class of a size."""
    if count == 1:
        store_8(indexes, 0, _permute_letter(k0, k1, tweak, load_le_i8(indexes, 0), load_le_i8(sizes, 0)))
        return
    middle = count // 2
    for number in range(rounds):
        if number & 1 == 0:
            seed = hash_of_letters(k0, k1, tweak + number, indexes, middle, count, bits)
            start = 0
            end = middle
        else:
            seed = hash_of_letters(k0, k1, tweak + number, indexes, 0, middle, bits)
            start = middle
            end = count
        for index in range(start, end):
            size = load_le_i8(sizes, index * 8)
            # A product and a shift take a third of the time of a remainder.
            moved = load_le_i8(indexes, index * 8) + ((spread(seed, index) * size) >> 32)
            store_8(indexes, index * 8, moved if moved < size else moved - size)


@subroutine
def _write_letters(
    data: int, letters: int, room: int, count: int, classes: int, starts: int, alphabet: int
) -> None:
    """Write letters over those that stand in the data."""
    for letter in range(0, count * 8, 8):
        index = load_le_i8(letters, letter)
        place = load_le_i8(letters, _PLACE * room + letter)
        position = place >> 8
        base = place & 0xFF
        if base > 0:
            store_1(data, position, base + index)
        else:
            of_class = load_u1(classes, read_character(data, position, load_u1(data, position)))
            write_character(
                data, position, load_le_i4(alphabet, (load_le_i4(starts, of_class * 4) + index) * 4)
            )


@subroutine
def _permute_text(
    data: int, begin: int, first: int, least: int, end: int, k0: int, k1: int, letters: int, room: int, known: int,
    classes: int, places: int, starts: int, alphabet: int,
) -> None:  # fmt: skip
    """Replace a text; for the arguments see `_permute_texts`.

    Args:
        first: where the letters begin; what is before them stays.
        least: 1 if the first of them is a digit that stays other than 0, else 0.
    """
    count = 0
    tweak = end - begin
    bits = _NARROW_BITS
    capacity = 0
    position = begin
    letter = letters
    while position < end:
        found = load_u1(data, position)
        length = 1
        if found < 0x80:
            character = load_le_i8(known, found * 8)
            if position < first + least:
                character = FIRST_DIGIT if position == first else found
            base = (character >> BASE_SHIFT) & 0xFF
            place = found - base
        else:
            length = 2 if found < 0xE0 else 3 if found < 0xF0 else 4
            point = read_character(data, position, found)
            of_class = load_u1(classes, point)
            size = load_le_i4(starts, of_class * 4 + 4) - load_le_i4(starts, of_class * 4)
            character = (512 + of_class) | 8 << BITS_SHIFT | size << SIZE_SHIFT
            base = 0
            place = load_le_i4(places, point * 4)
            bits = _WIDE_BITS
        tweak = (tweak ^ (character & 0xFFFF)) * _MIX
        tweak ^= (tweak >> 29) & 0x7FFFFFFFF
        capacity += (character >> BITS_SHIFT) & 0xFF
        size = character >> SIZE_SHIFT
        if size > 0:
            store_8(letter, 0, place)
            store_8(letter, _SIZE * room, size)
            store_8(letter, _PLACE * room, position << 8 | base)
            count += 1
            letter += 8
        position += length
    rounds = (
        FEWEST_ROUNDS if capacity >= LARGE_BITS else MORE_ROUNDS if capacity >= SOME_BITS else MOST_ROUNDS
    )
    if count > 0:
        _permute_letters(k0, k1, tweak, letters, letters + room * _SIZE, count, bits, rounds)
        _write_letters(data, letters, room, count, classes, starts, alphabet)


@kernel
def _survey(data: int, limit: int, offsets: int, count: int) -> tuple[int, int]:
    """Return the length of the longest value, at least 1, and all words of the data, one OR the other."""
    longest = 1
    seen = 0
    for index in range(count):
        longest = max(longest, load_le_i4(offsets, index * 4 + 4) - load_le_i4(offsets, index * 4))
    for position in range(0, limit - 7, 8):
        seen |= load_le_i8(data, position)
    for position in range(limit // 8 * 8, limit):
        seen |= load_u1(data, position)
    return longest, seen


@kernel
def _permute_texts(
    data: int, limit: int, offsets: int, count: int, output: int, secret: int, own: int, letters: int, room: int,
    forms: int, known: int, classes: int, places: int, starts: int, alphabet: int,
) -> None:  # fmt: skip
    """Write the pseudonyms of texts of UTF-8, which have the same offsets.

    Args:
        data: the bytes of all texts.
        limit: their number.
        offsets: of the texts, int32, one more than there are texts.
        count: the number of texts.
        output: 32 bytes more than the data.
        secret: two words.
        own: `_OWN`.
        letters: int64 (3, room), for one text: the index of each letter in its class; the size of the class; the place in the data,
            shifted, with the first character of the class if it is of ASCII.
        room: of letters.
        forms: of integers.
        known: what characters of ASCII are.
        classes: uint8 by code point beyond ASCII: the class of a character.
        places: int32 by code point: the index of the character in its class.
        starts: int32 by class: where its characters begin in `alphabet`; one more than there are classes.
        alphabet: int32: the characters of the classes.
    """
    k0, k1 = load_le_i8(secret, 0), load_le_i8(secret, 8)
    numbers = _numbers_memory()
    lanes = _lanes_memory()
    form = 0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        waiting = integers = 0
        for index in range(size):
            begin = load_le_i4(offsets, (start + index) * 4)
            end = load_le_i4(offsets, (start + index) * 4 + 4)
            digits, point = first_digit(data, begin, end)
            is_integer = digits >= 0 and point == end and end - digits <= _DIGITS_OF_WORD
            value = magnitude(data, digits, end) if is_integer else -1
            way = _ALONE
            if digits >= 0 and load_u1(data, begin) == 0x2D and is_zero(data, digits, end):
                way = _STAYS
            elif value >= 0:
                value = -value if load_u1(data, begin) == 0x2D else value
                form = begin_integer(numbers, integers, value, forms, form)
                way = _INTEGER + integers
                integers += 1
            elif digits < 0 and end - begin <= MOST_BYTES:
                seen = _load_value(lanes, waiting, data, begin, end, limit, own)
                store_8(lanes, ARE_BYTES + waiting * 8, 0)
                if seen & _BEYOND_ASCII == 0:
                    way = waiting
                    waiting += 1
            store_8(lanes, _WAY + index * 8, way)
        permute_integers_of_block(numbers, integers, secret)
        _permute_lanes(lanes, waiting, secret, own)
        for index in range(size):
            begin = load_le_i4(offsets, (start + index) * 4)
            end = load_le_i4(offsets, (start + index) * 4 + 4)
            way = load_le_i8(lanes, _WAY + index * 8)
            if way < BLOCK and load_le_i8(lanes, LETTERS + way * 8) != 1:
                _write_value(lanes, way, output, begin)
                continue
            _copy_value(data, begin, end, output)
            if way >= _INTEGER:
                own_form = load_le_i8(numbers, FORM + (way - _INTEGER) * 8)
                write_digits(output, end, load_le_i8(forms, own_form) + permuted(numbers, way - _INTEGER))
            elif way != _STAYS:
                digits, point = first_digit(data, begin, end)
                # A number keeps its zeros, and no other one comes in front.
                first = begin if digits < 0 else digits
                least = 1 if digits >= 0 and point - digits > 1 else 0
                is_outside = True
                while is_outside:
                    _permute_text(
                        output, begin, first, least, end, k0, k1, letters, room, known, classes, places, starts,
                        alphabet,
                    )  # fmt: skip
                    # Integers of 64 bits are permuted among themselves, and negative numbers, too: there is no -0.0.
                    if point == end and end - digits == _DIGITS_OF_WORD:
                        is_outside = magnitude(output, digits, end) >= 0
                    else:
                        is_outside = (
                            digits >= 0 and load_u1(output, begin) == 0x2D and is_zero(output, digits, end)
                        )


@kernel
def _permute_bytes(
    data: int,
    limit: int,
    offsets: int,
    count: int,
    output: int,
    secret: int,
    own: int,
    letters: int,
    room: int,
) -> None:
    """Write other byte strings of the same lengths; for the arguments see `_permute_texts`."""
    k0, k1 = load_le_i8(secret, 0), load_le_i8(secret, 8)
    lanes = _lanes_memory()
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        waiting = 0
        for index in range(size):
            begin = load_le_i4(offsets, (start + index) * 4)
            end = load_le_i4(offsets, (start + index) * 4 + 4)
            if 2 <= end - begin <= MOST_BYTES:
                _load_value(lanes, waiting, data, begin, end, limit, own)
                store_8(lanes, ARE_BYTES + waiting * 8, -1)
                waiting += 1
        _permute_lanes(lanes, waiting, secret, own)
        waiting = 0
        for index in range(size):
            begin = load_le_i4(offsets, (start + index) * 4)
            length = load_le_i4(offsets, (start + index) * 4 + 4) - begin
            if 2 <= length <= MOST_BYTES:
                _write_value(lanes, waiting, output, begin)
                waiting += 1
            elif length > 0:
                for byte in range(length):
                    store_8(letters, byte * 8, load_u1(data, begin + byte))
                    store_8(letters, (room + byte) * _SIZE, 256)
                rounds = FEWEST_ROUNDS if length > 1 else MOST_ROUNDS
                _permute_letters(
                    k0, k1, length, letters, letters + room * _SIZE, length, _NARROW_BITS, rounds
                )
                for byte in range(length):
                    store_1(output, begin + byte, load_le_i8(letters, byte * 8))


# ---- hashes ----


@kernel
def _hash_texts(data: int, limit: int, offsets: int, count: int, output: int, secret: int, own: int) -> None:
    """Write 32 hexadecimal digits for each text: a keyed hash of its bytes. For the arguments see `_permute_texts`."""
    lanes = _lanes_memory()
    for start in range(0, count, BLOCK):
        waiting = 0
        for index in range(start, min(start + BLOCK, count)):
            begin = load_le_i4(offsets, index * 4)
            end = load_le_i4(offsets, index * 4 + 4)
            if end - begin <= MOST_BYTES:
                _load_value(lanes, waiting, data, begin, end, limit, own)
                store_8(lanes, _WAY + waiting * 8, index)
                waiting += 1
            else:
                first, second = hash_of_bytes(load_le_i8(secret, 0), load_le_i8(secret, 8), data, begin, end)
                write_hexadecimal(output, index * HEX_DIGITS, first)
                write_hexadecimal(output, index * HEX_DIGITS + 16, second)
        _fill_lanes(lanes, waiting, own)
        for first_lane in range(0, waiting, LANES):
            hash_lanes(lanes + first_lane * 8, secret)
        for lane in range(waiting):
            place = lanes + lane * 8
            position = load_le_i8(place, _WAY) * HEX_DIGITS
            for part in range(HEX_DIGITS // 8):
                digits = load_le_i8(place, DIGITS + part * BLOCK * 8)
                store_be_8(output, position + part * 8, digits)


def pseudonyms_of_texts(data: Bytes, offsets: NDArray[np.int32], secret: bytes) -> Bytes:
    """Return the pseudonyms of texts of UTF-8, which have the same offsets.

    Args:
        data: all texts.
        offsets: of the texts in `data`.
        secret: 16 bytes.
    """
    longest, seen = _survey(data, len(data), offsets, len(offsets) - 1)
    letters = np.empty((3, longest), dtype=np.int64)
    beyond = beyond_ascii() if seen & _BEYOND_ASCII else NO_CLASSES
    return _permuted_values(_permute_texts, data, offsets, secret, letters, longest, FORMS, ASCII, *beyond)


def pseudonyms_of_bytes(data: Bytes, offsets: NDArray[np.int32], secret: bytes) -> Bytes:
    """Return other byte strings of the same lengths; for the arguments see `pseudonyms_of_texts`."""
    longest, _ = _survey(data, len(data), offsets, len(offsets) - 1)
    return _permuted_values(
        _permute_bytes, data, offsets, secret, np.empty((2, longest), dtype=np.int64), longest
    )


def _permuted_values(
    permute: Any, data: Bytes, offsets: NDArray[np.int32], secret: bytes, *rest: Any
) -> Bytes:
    output: Bytes = new_array(len(data) + MOST_BYTES, np.uint8)
    permute(data, len(data), offsets, len(offsets) - 1, output, words_of(secret), _OWN, *rest)
    return output[: len(data)]


def hashes_of_bytes(data: Bytes, offsets: NDArray[np.int32], secret: bytes) -> Bytes:
    """Return 32 hexadecimal digits for each text or byte string; for the arguments see `pseudonyms_of_texts`."""
    count = len(offsets) - 1
    output: Bytes = new_array(count * HEX_DIGITS, np.uint8)
    _hash_texts(data, len(data), offsets, count, output, words_of(secret), _OWN)
    return output
