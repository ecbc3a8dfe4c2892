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

The rounds are in `network`: those of short texts and of integers are done for many values together.

Sources: NIST SP 800-38G (FF1); SipHash: Aumasson and Bernstein, 2012; SplitMix64: Steele, Lea and Flood, 2014.
"""

from __future__ import annotations

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
    magnitude,
    read_character,
    write_character,
    write_digits,
    write_hexadecimal,
)
from catalog.masks.network import (
    BLOCK,
    BLOCK_BYTES,
    GREATEST,
    LEAST,
    LEFT,
    LEFT_INVERSE,
    LEFT_SIZE,
    LOW_32,
    POSITIVE,
    RIGHT,
    RIGHT_INVERSE,
    RIGHT_SIZE,
    ROUNDS,
    TWEAK,
    compiled_inverse,
    divided,
    hash_of_letters,
    hash_of_number,
    inverse,
    packed_halves,
    permute_block,
    sip_begun,
    sip_ended,
    sip_taken,
    spread,
    unpack_halves,
)
from readers import (
    kernel,
    load_i8,
    load_le_i4,
    load_le_i8,
    load_u1,
    stack_memory,
    store_1,
    store_8,
    subroutine,
)

Words = NDArray[np.int64]
Bytes = NDArray[np.uint8]

_MIX = -0x61C8864680B583EB  # 2^64 / golden ratio
_ROUNDS, _MORE_ROUNDS, _MANY_ROUNDS = 4, 6, 8
_LARGE_BITS, _SOME_BITS = 64, 32
# So many digits and letters of ASCII, or bytes, are one number of 63 bits.
_PACKED, _PACKED_BYTES = 13, 7
# An index in its class has this many bits in the words that are hashed: 21 for any character of Unicode, 8 for bytes and ASCII.
_WIDE_BITS, _NARROW_BITS = 21, 8
_HEX_DIGITS = 32
_DIGITS_OF_WORD = 19
# Columns of letters, in bytes for each of their room.
_SIZE, _PLACE = 8, 16


# ---- integers ----

# Columns of the forms of integers, a row each.
(
    _FORM_FIRST, _FORM_LAST, _FORM_LEFT, _FORM_RIGHT, _FORM_LEFT_INVERSE, _FORM_RIGHT_INVERSE, _FORM_TWEAK, _FORM_ROUNDS,
    _FORM_BYTES,
) = range(0, 72, 8)  # fmt: skip


def _forms(sign: int) -> list[list[int]]:
    """Return the forms of the integers that are not negative, or of the others by their sizes, in order."""
    # The greatest byte, short, int: what is beyond it fits no such column.
    lasts = [(1 << bits) - 1 + sign for bits in (7, 15, 31)]
    forms = []
    first = sign
    for last in sorted([*(10**digits - 1 for digits in range(1, 19)), *lasts, POSITIVE]):
        digits = len(str(last))
        right = 3 if digits == 1 else 10 ** (digits // 2)
        left = (last - first) // right + 1
        rounds = _ROUNDS if last - first >= LOW_32 * 1024 else _MANY_ROUNDS
        tweak = (digits * 2 + sign) << 8
        forms.append([first, last, left, right, inverse(left), inverse(right), tweak, rounds])
        first = last + 1
    return forms


_FORMS = np.array([*_forms(0), *_forms(1)], dtype=np.int64)
_NEGATIVE_FORMS = len(_FORMS) // 2 * _FORM_BYTES
_LEAST_WORD = -POSITIVE - 1
# Columns of a block behind those of the network: the form of an integer; where the letters of a text begin, and their number.
_FORM, _FIRST, _LETTERS, _ALL_COLUMNS = range(BLOCK_BYTES, BLOCK_BYTES + 4 * BLOCK * 8, BLOCK * 8)
_block_memory = stack_memory(_ALL_COLUMNS)


@subroutine
def _begin_integer(block: int, index: int, value: int, forms: int, form: int) -> int:
    """Note an integer in a block; return its form. The least of 64 bits stays.

    Args:
        form: of another integer: those of a column are of few forms.
    """
    if value == _LEAST_WORD:
        store_8(block, ROUNDS + index * 8, 0)
        return form
    size = -value if value < 0 else value
    start = _NEGATIVE_FORMS if value < 0 else 0
    if (
        not start <= form < start + _NEGATIVE_FORMS
        or size < load_le_i8(forms, form)
        or size > load_le_i8(forms, form + _FORM_LAST)
    ):
        form = start
        while size > load_le_i8(forms, form + _FORM_LAST):
            form += _FORM_BYTES
    first = load_le_i8(forms, form)
    right_size = load_le_i8(forms, form + _FORM_RIGHT)
    right_inverse = load_le_i8(forms, form + _FORM_RIGHT_INVERSE)
    left, right = divided(size - first, right_size, right_inverse)
    store_8(block, LEFT + index * 8, left)
    store_8(block, RIGHT + index * 8, right)
    store_8(block, LEFT_SIZE + index * 8, load_le_i8(forms, form + _FORM_LEFT))
    store_8(block, RIGHT_SIZE + index * 8, right_size)
    store_8(block, LEFT_INVERSE + index * 8, load_le_i8(forms, form + _FORM_LEFT_INVERSE))
    store_8(block, RIGHT_INVERSE + index * 8, right_inverse)
    store_8(block, TWEAK + index * 8, load_le_i8(forms, form + _FORM_TWEAK))
    store_8(block, LEAST + index * 8, 0)
    store_8(block, GREATEST + index * 8, load_le_i8(forms, form + _FORM_LAST) - first)
    store_8(block, ROUNDS + index * 8, load_le_i8(forms, form + _FORM_ROUNDS))
    store_8(block, _FORM + index * 8, form)
    return form


@subroutine
def _permuted(block: int, index: int) -> int:
    """Return the two numbers of a value as one."""
    left = load_le_i8(block, LEFT + index * 8)
    return left * load_le_i8(block, RIGHT_SIZE + index * 8) + load_le_i8(block, RIGHT + index * 8)


@kernel
def _permute_integers(values: int, count: int, k0: int, k1: int, forms: int) -> None:
    """Replace integers of 64 bits by their pseudonyms."""
    block = _block_memory()
    form = 0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        for index in range(size):
            form = _begin_integer(block, index, load_le_i8(values, (start + index) * 8), forms, form)
        permute_block(block, size, k0, k1)
        for index in range(size):
            if load_le_i8(block, ROUNDS + index * 8) > 0:
                own = load_le_i8(block, _FORM + index * 8)
                found = load_le_i8(forms, own) + _permuted(block, index)
                store_8(values, (start + index) * 8, -found if own >= _NEGATIVE_FORMS else found)


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
            left ^= hash_of_number(k0, k1, number, right) & mask
            right ^= hash_of_number(k0, k1, number + 1, left) & mask
        store_8(values, index * 8, (left << half) | right)


# ---- texts ----


@subroutine
def _set_size(block: int, column: int, index: int, size: int) -> None:
    """Note the size of a half and its inverse; a place of a block often gets the size that it had."""
    if load_le_i8(block, column + index * 8) != size:
        store_8(block, column + index * 8, size)
        store_8(block, column + LEFT_INVERSE - LEFT_SIZE + index * 8, compiled_inverse(size))


@subroutine
def _begin_letters(
    block: int, index: int, letters: int, room: int, first: int, count: int, k0: int, k1: int, tweak: int, bits: int,
    packed: int, rounds: int,
) -> int:  # fmt: skip
    """Note the letters of one form in a block, or permute them at once if they are too many.

    Returns where the next letters may stand: at their place if nothing is noted.

    Args:
        letters: int64 (3, room): the index of each letter in its class; the size of the class; the place in the data, shifted, with
            the first character of the class if it is of ASCII.
        first: where the letters begin in it.
        count: their number.
        packed: so many of them are one number.
    """
    store_8(block, ROUNDS + index * 8, 0)
    if count == 0:
        return first
    places = letters + first * 8
    sizes = places + room * 8
    middle = count // 2
    if count == 1:
        size = load_le_i8(sizes, 0)
        right_size = 5 if size <= 256 else 128
        place = load_le_i8(places, 0)
        store_8(block, LEFT + index * 8, place // right_size)
        store_8(block, RIGHT + index * 8, place % right_size)
        _set_size(block, LEFT_SIZE, index, (size - 1) // right_size + 1)
        _set_size(block, RIGHT_SIZE, index, right_size)
        store_8(block, LEAST + index * 8, 0)
        store_8(block, GREATEST + index * 8, size - 1)
        rounds = _MANY_ROUNDS
    elif count - middle <= packed:
        left, left_size, right, right_size = packed_halves(places, sizes, middle, count)
        store_8(block, LEFT + index * 8, left)
        store_8(block, RIGHT + index * 8, right)
        _set_size(block, LEFT_SIZE, index, left_size)
        _set_size(block, RIGHT_SIZE, index, right_size)
        store_8(block, LEAST + index * 8, _LEAST_WORD)
        store_8(block, GREATEST + index * 8, POSITIVE)
    else:
        _permute_letters(k0, k1, tweak, places, sizes, count, bits, rounds)
        return first
    store_8(block, TWEAK + index * 8, tweak)
    store_8(block, ROUNDS + index * 8, rounds)
    store_8(block, _FIRST + index * 8, first)
    store_8(block, _LETTERS + index * 8, count)
    return first + count


@subroutine
def _permute_letters(
    k0: int, k1: int, tweak: int, indexes: int, sizes: int, count: int, bits: int, rounds: int
) -> None:
    """Permute many letters of one form, each by its index in a class of a size."""
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
def _end_letters(block: int, index: int, letters: int, room: int) -> None:
    """Write the letters that were permuted in a block to their places."""
    places = letters + load_le_i8(block, _FIRST + index * 8) * 8
    sizes = places + room * 8
    count = load_le_i8(block, _LETTERS + index * 8)
    if count == 1:
        store_8(places, 0, _permuted(block, index))
    else:
        left, right = load_le_i8(block, LEFT + index * 8), load_le_i8(block, RIGHT + index * 8)
        unpack_halves(left, right, places, sizes, count // 2, count)


@subroutine
def _write_letters(
    data: int, letters: int, room: int, first: int, count: int, classes: int, starts: int, alphabet: int
) -> None:
    """Write letters over those that stand in the data."""
    places = letters + first * 8
    for letter in range(0, count * 8, 8):
        index = load_le_i8(places, letter)
        place = load_le_i8(places, _PLACE * room + letter)
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
def _begin_text(
    data: int, begin: int, fixed: int, end: int, block: int, index: int, letters: int, room: int, first: int, k0: int,
    k1: int, known: int, classes: int, places: int, starts: int, alphabet: int,
) -> int:  # fmt: skip
    """Note the letters of a text in a block, see `_begin_letters`; for the other arguments see `_permute_texts`.

    Args:
        fixed: where the digits of an integer begin, of which the first stays other than 0; -1 for any other text.
    """
    count = 0
    tweak = end - begin
    bits = _NARROW_BITS
    capacity = 0
    position = begin
    letter = letters + first * 8
    while position < end:
        found = load_u1(data, position)
        length = 1
        if found < 0x80:
            character = load_le_i8(known, found * 8)
            if position <= fixed:
                character = FIRST_DIGIT if position == fixed else found
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
    rounds = _ROUNDS if capacity >= _LARGE_BITS else _MORE_ROUNDS if capacity >= _SOME_BITS else _MANY_ROUNDS
    packed = _PACKED if bits == _NARROW_BITS else 0
    free: int = _begin_letters(block, index, letters, room, first, count, k0, k1, tweak, bits, packed, rounds)
    if free == first:
        _write_letters(data, letters, room, first, count, classes, starts, alphabet)
    elif fixed >= 0 and end - fixed == _DIGITS_OF_WORD:
        # Some texts of this form are integers of 64 bits, which are permuted among themselves.
        store_8(block, LEAST + index * 8, POSITIVE - 10 ** (_DIGITS_OF_WORD - 1) + 1)
    return free


@kernel
def _permute_texts(
    data: int, offsets: int, count: int, k0: int, k1: int, letters: int, room: int, forms: int, known: int,
    classes: int, places: int, starts: int, alphabet: int,
) -> None:  # fmt: skip
    """Replace texts of UTF-8, in place, by their pseudonyms.

    Args:
        data: the bytes of all texts.
        offsets: of the texts, int32, one more than there are texts.
        count: the number of texts.
        k0, k1: the secret.
        letters: see `_begin_letters`.
        room: of the letters of a block, and of all letters of any text.
        forms: of integers.
        known: what characters of ASCII are.
        classes: uint8 by code point beyond ASCII: the class of a character.
        places: int32 by code point: the index of the character in its class.
        starts: int32 by class: where its characters begin in `alphabet`; one more than there are classes.
        alphabet: int32: the characters of the classes.
    """
    block = _block_memory()
    _clear_sizes(block)
    form = 0
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        first = 0
        for index in range(size):
            begin = load_le_i4(offsets, (start + index) * 4)
            end = load_le_i4(offsets, (start + index) * 4 + 4)
            digits = first_digit(data, begin, end)
            value = magnitude(data, digits, end) if digits >= 0 and end - digits < 20 else -1
            if value < 0:
                first = _begin_text(
                    data, begin, digits, end, block, index, letters, room, first, k0, k1, known, classes, places,
                    starts, alphabet,
                )  # fmt: skip
                continue
            is_negative = load_u1(data, begin) == 0x2D
            form = _begin_integer(block, index, -value if is_negative else value, forms, form)
            store_8(block, _LETTERS + index * 8, 0)
            if is_negative and value == 0:
                store_8(block, ROUNDS + index * 8, 0)
        permute_block(block, size, k0, k1)
        for index in range(size):
            own = load_le_i8(block, _LETTERS + index * 8)
            if load_le_i8(block, ROUNDS + index * 8) == 0:
                continue
            if own == 0:
                least = load_le_i8(forms, load_le_i8(block, _FORM + index * 8))
                end = load_le_i4(offsets, (start + index) * 4 + 4)
                write_digits(data, end, least + _permuted(block, index))
            else:
                _end_letters(block, index, letters, room)
                from_letter = load_le_i8(block, _FIRST + index * 8)
                _write_letters(data, letters, room, from_letter, own, classes, starts, alphabet)


@kernel
def _permute_bytes(data: int, offsets: int, count: int, k0: int, k1: int, letters: int, room: int) -> None:
    """Replace byte strings, in place, by others of the same lengths."""
    block = _block_memory()
    _clear_sizes(block)
    for start in range(0, count, BLOCK):
        size = min(BLOCK, count - start)
        first = 0
        for index in range(size):
            begin = load_le_i4(offsets, (start + index) * 4)
            length = load_le_i4(offsets, (start + index) * 4 + 4) - begin
            for byte in range(length):
                letter = letters + (first + byte) * 8
                store_8(letter, 0, load_u1(data, begin + byte))
                store_8(letter, _SIZE * room, 256)
            rounds = _ROUNDS if length >= 8 else _MANY_ROUNDS
            free = _begin_letters(
                block,
                index,
                letters,
                room,
                first,
                length,
                k0,
                k1,
                length,
                _NARROW_BITS,
                _PACKED_BYTES,
                rounds,
            )
            if free == first:
                _write_bytes(data, begin, letters + first * 8, length)
            first = free
        permute_block(block, size, k0, k1)
        for index in range(size):
            if load_le_i8(block, ROUNDS + index * 8) > 0:
                _end_letters(block, index, letters, room)
                places = letters + load_le_i8(block, _FIRST + index * 8) * 8
                begin = load_le_i4(offsets, (start + index) * 4)
                _write_bytes(data, begin, places, load_le_i8(block, _LETTERS + index * 8))


@subroutine
def _clear_sizes(block: int) -> None:
    """Forget the sizes that a block had: memory of a stack has any content."""
    for place in range(0, BLOCK * 8, 8):
        store_8(block, LEFT_SIZE + place, 0)
        store_8(block, RIGHT_SIZE + place, 0)


@subroutine
def _write_bytes(data: int, begin: int, places: int, count: int) -> None:
    for byte in range(count):
        store_1(data, begin + byte, load_le_i8(places, byte * 8))


# ---- hashes ----


@subroutine
def _two_hashes(k0: int, k1: int, data: int, begin: int, end: int) -> tuple[int, int]:
    """Return SipHash 1-3 of bytes, eight of them a word, for the tweaks 0 and 1; a processor computes both at once."""
    v0, v1, v2, v3 = sip_begun(k0, k1, 0)
    w0, w1, w2, w3 = sip_begun(k0, k1, 1)
    position = begin
    while position < end:
        if position + 8 <= end:
            word = load_i8(data, position)
        elif end >= 8:
            word = load_i8(data, end - 8) & ((1 << (end - position) * 8) - 1)
        else:
            word = 0
            for last in range(position, end):
                word = (word << 8) | load_u1(data, last)
        v0, v1, v2, v3 = sip_taken(v0, v1, v2, v3, word)
        w0, w1, w2, w3 = sip_taken(w0, w1, w2, w3, word)
        position += 8
    v0, v1, v2, v3 = sip_taken(v0, v1, v2, v3, end - begin)
    w0, w1, w2, w3 = sip_taken(w0, w1, w2, w3, end - begin)
    return sip_ended(v0, v1, v2, v3), sip_ended(w0, w1, w2, w3)


@kernel
def _hash_texts(data: int, offsets: int, count: int, k0: int, k1: int, output: int) -> None:
    """Write 32 hexadecimal digits for each text: two keyed hashes of its bytes."""
    position = 0
    for text in range(count):
        begin = load_le_i4(offsets, text * 4)
        end = load_le_i4(offsets, text * 4 + 4)
        first, second = _two_hashes(k0, k1, data, begin, end)
        write_hexadecimal(output, position, first)
        write_hexadecimal(output, position + 16, second)
        position += _HEX_DIGITS


def pseudonyms_of_integers(values: Words, secret: bytes) -> None:
    """Replace integers by their pseudonyms, in place: of the same sign and number of digits.

    Args:
        values: contiguous.
        secret: 16 bytes.
    """
    _permute_integers(values, len(values), *_words(secret), _FORMS)


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
    letters = _letters(offsets)
    beyond = beyond_ascii() if (data >= 0x80).any() else NO_CLASSES
    room = letters.shape[1]
    _permute_texts(data, offsets, count, *_words(secret), letters, room, _FORMS, ASCII, *beyond)


def pseudonyms_of_bytes(data: Bytes, offsets: NDArray[np.int32], secret: bytes) -> None:
    """Replace byte strings by others of their lengths, in place; for the arguments see `pseudonyms_of_texts`."""
    letters = _letters(offsets)
    _permute_bytes(data, offsets, len(offsets) - 1, *_words(secret), letters, letters.shape[1])


def hashes_of_bytes(data: Bytes, offsets: NDArray[np.int32], secret: bytes) -> Bytes:
    """Return 32 hexadecimal digits for each text or byte string; for the arguments see `pseudonyms_of_texts`."""
    count = len(offsets) - 1
    output = np.empty(count * _HEX_DIGITS, dtype=np.uint8)
    _hash_texts(data, offsets, count, *_words(secret), output)
    return output


def _letters(offsets: NDArray[np.int32]) -> Words:
    """Return room for the letters of a block; see `_begin_letters`."""
    return np.empty((3, 2 * _PACKED * BLOCK + int(np.diff(offsets).max(initial=1))), dtype=np.int64)


def _words(secret: bytes) -> tuple[int, int]:
    return int.from_bytes(secret[:8], "little", signed=True), int.from_bytes(
        secret[8:16], "little", signed=True
    )
