"""Pseudonyms and hashes: the same as a plain form in Python makes of each value, and as they were made before."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Iterator
from decimal import Context, Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.masks.rules import derived_key, read_rule

KEY = b"0123456789abcdef"
MASK = (1 << 64) - 1
EXACT = Context(prec=38)
CONSTANTS = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


# ---- the plain form ----


def turned(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & MASK


def mixed(state: list[int]) -> list[int]:
    """The words of SipHash after one round."""
    a, b, c, d = state
    a, c = (a + b) & MASK, (c + d) & MASK
    b, d = turned(b, 13) ^ a, turned(d, 16) ^ c
    a = turned(a, 32)
    c, a = (c + b) & MASK, (a + d) & MASK
    b, d = turned(b, 17) ^ c, turned(d, 21) ^ a
    return [a, b, turned(c, 32), d]


def taken(key: bytes, words: list[int], tweak: int = 0) -> list[int]:
    """The state of SipHash 1-3 behind words of 64 bits, with a tweak in its secret."""
    keys = (int.from_bytes(key[:8], "little"), int.from_bytes(key[8:], "little"))
    state = [keys[number & 1] ^ constant for number, constant in enumerate(CONSTANTS)]
    state[1] ^= tweak
    for word in words:
        state[3] ^= word & MASK
        state = mixed(state)
        state[0] ^= word & MASK
    return state


def ended(state: list[int], mark: int = 0xFF) -> list[int]:
    return mixed(mixed(mixed([state[0], state[1], state[2] ^ mark, state[3]])))


def siphash(key: bytes, words: list[int], tweak: int = 0) -> int:
    """SipHash 1-3 of words of 64 bits, without the word that tells the length of bytes."""
    a, b, c, d = ended(taken(key, words, tweak))
    return a ^ b ^ c ^ d


def only_letter(tweak: int, value: int, count: int) -> int:
    """Permute a number within `range(count)`, as two numbers."""
    low = 5 if count <= 256 else 128
    sizes = ((count - 1) // low + 1, low)
    while True:
        halves = list(divmod(value, low))
        for number in range(8):
            made = siphash(KEY, [tweak + number, halves[1 - number % 2]]) & (MASK >> 1)
            halves[number % 2] = (halves[number % 2] + made) % sizes[number % 2]
        value = halves[0] * low + halves[1]
        if value < count:
            return value


def within(tweak: int, value: int, count: int) -> int:
    """Permute a number within `range(count)`, for an integer."""
    low = math.isqrt(count - 1) + 1
    sizes = ((count - 1) // low + 1, low)
    while True:
        halves = list(divmod(value, low))
        for number in range(4 if count > 0xFFFFFFFF * 1024 else 8):
            size = sizes[number % 2]
            made = siphash(KEY, [halves[1 - number % 2]], tweak + number) * size >> 64
            halves[number % 2] = (halves[number % 2] + made) % size
        value = halves[0] * low + halves[1]
        if value < count:
            return value


def pseudonym_of_integer(value: int) -> int:
    if value == -(1 << 63):
        return value
    digits, is_negative = len(str(abs(value))), value < 0
    least = 10 ** (digits - 1) if digits > 1 else int(is_negative)
    greatest = min(10**digits - 1, (1 << 63) - 1)
    for last in ((1 << bits) - 1 + is_negative for bits in (7, 15, 31)):
        if least <= last < greatest:
            least, greatest = (least, last) if abs(value) <= last else (last + 1, greatest)
    found = least + within((digits * 2 + is_negative) << 8, abs(value) - least, greatest - least + 1)
    return -found if is_negative else found


def packed(numbers: list[int], sizes: list[int]) -> int:
    found = 0
    for number, size in zip(numbers, sizes, strict=True):
        found = found * size + number
    return found


def letters_permuted(tweak: int, numbers: list[int], sizes: list[int], bits: int, rounds: int) -> list[int]:
    """Permute the letters of one form, one value by itself."""
    count = len(numbers)
    if count == 1:
        return [only_letter(tweak, numbers[0], sizes[0])]
    middle = count // 2
    parts = (slice(0, middle), slice(middle, count))
    for number in range(rounds):
        changed, other = parts[number % 2], numbers[parts[1 - number % 2]]
        of_word = 64 // bits
        words = [packed(other[at : at + of_word], [1 << bits] * len(other[at : at + of_word]))
                 for at in range(0, len(other), of_word)]  # fmt: skip
        seed = siphash(KEY, [tweak + number, *words, len(other)])
        for index in range(changed.start, changed.stop):
            numbers[index] = (numbers[index] + (spread(seed, index) * sizes[index] >> 32)) % sizes[index]
    return numbers


def side_by_side(
    value: bytes, letters: list[int], rounds: int, kind: Callable[[int], int], move: Callable[[int, int], int]
) -> bytes:
    """Permute the bytes at some places of at most 32: these belong by turns to the one and the other half."""
    found = list(value)
    for number in range(rounds):
        changed = letters[number % 2 :: 2]
        seen = bytes(kind(one) if at in changed else one for at, one in enumerate(found))
        words = [int.from_bytes(seen[at : at + 8], "little") for at in range(0, len(seen), 8)]
        state = taken(KEY, words, number | len(value) << 8)
        by = b"".join(
            ((before + after) & MASK).to_bytes(8, "little")
            for before, after in zip(state, ended(state), strict=True)
        )
        for at in changed:
            found[at] = move(found[at], by[at])
    return bytes(found)


KIND_OF_CLASS = {"0123456789": 0x80, "abcdefghijklmnopqrstuvwxyz": 0x81, "ABCDEFGHIJKLMNOPQRSTUVWXYZ": 0x82}


def alphabet_of(byte: int) -> str:
    return next((one for one in KIND_OF_CLASS if chr(byte) in one), "")


def moved(byte: int, by: int) -> int:
    alphabet = alphabet_of(byte)
    return ord(alphabet[(alphabet.index(chr(byte)) + (by * len(alphabet) >> 8)) % len(alphabet)])


def spread(seed: int, number: int) -> int:
    """32 bits of SplitMix64."""
    found = (seed + (number + 1) * 0x9E3779B97F4A7C15) & MASK
    found = (found ^ found >> 30) * 0xBF58476D1CE4E5B9 & MASK
    found = (found ^ found >> 27) * 0x94D049BB133111EB & MASK
    return (found ^ found >> 31) & 0xFFFFFFFF


KINDS = {"Ll": 0, "Lu": 1, "Lt": 2, "Lm": 2, "Lo": 2, "Nd": 3, "Nl": 4, "No": 4, "Mn": 5, "Mc": 5, "Me": 5}


def class_of(character: str) -> int:
    size = len(character.encode("utf-8", "surrogatepass")) - 2
    return KINDS.get(unicodedata.category(character), 6) * 3 + size


def alphabets() -> dict[int, str]:
    found: dict[int, list[str]] = {}
    for point in range(0x80, 0x110000):
        if not 0xD800 <= point < 0xE000:
            found.setdefault(class_of(chr(point)), []).append(chr(point))
    return {number: "".join(characters) for number, characters in found.items()}


ALPHABETS = alphabets()
ASCII = [
    (257, "0123456789", 3), (258, "abcdefghijklmnopqrstuvwxyz", 4), (259, "ABCDEFGHIJKLMNOPQRSTUVWXYZ", 4),
]  # fmt: skip


def letters_of(text: str, first: int, least: int) -> Iterator[tuple[int, str, int]]:
    """Yield the number of the class of each character, its alphabet, and the bits that it adds."""
    for position, character in enumerate(text):
        if character >= "\x80":
            yield 512 + class_of(character), ALPHABETS[class_of(character)], 8
        elif position == first and least:
            yield 256, "123456789", 0
        elif position >= first and (known := [one for one in ASCII if character in one[1]]):
            yield known[0]
        else:
            yield ord(character), "", 0


def pseudonym_of_form(text: str, first: int = 0, least: int = 0, *, is_number: bool = False) -> str:
    tweak = len(text.encode())
    letters = list(letters_of(text, first, least))
    for kind, _, _ in letters:
        tweak = (tweak ^ kind) * 0x9E3779B97F4A7C15 & MASK
        tweak ^= tweak >> 29
    capacity = sum(bits for _, _, bits in letters)
    rounds = 4 if capacity >= 64 else 6 if capacity >= 32 else 8
    is_wide = any(character >= "\x80" for character in text)
    places = [index for index, (_, alphabet, _) in enumerate(letters) if alphabet]
    if not is_number and not is_wide and len(text) <= 32 and len(places) > 1:
        return side_by_side(
            text.encode(), places, rounds, lambda byte: KIND_OF_CLASS[alphabet_of(byte)], moved
        ).decode()
    if not places:
        return text
    found = letters_permuted(
        tweak, [letters[index][1].index(text[index]) for index in places],
        [len(letters[index][1]) for index in places], 21 if is_wide else 8, rounds,
    )  # fmt: skip
    characters = list(text)
    for index, number in zip(places, found, strict=True):
        characters[index] = letters[index][1][number]
    return "".join(characters)


def pseudonym_of_text(text: str) -> str:
    number = re.fullmatch(r"(-?0*?)([1-9][0-9]*|0)(\.[0-9]+)?", text)
    if number is None:
        return pseudonym_of_form(text)
    before, whole, rest = number.groups("")
    is_negative, size = before.startswith("-"), int(whole)
    if is_negative and not (whole + rest).strip("0."):
        return text
    if not rest and size < 1 << 63:
        return before + str(abs(pseudonym_of_integer(-size if is_negative else size)))
    while True:
        text = pseudonym_of_form(text, len(before), int(len(whole) > 1), is_number=True)
        found = text[len(before) :]
        if not rest and len(whole) == 19:
            if int(found) >= 1 << 63:
                return text
        elif not is_negative or found.strip("0."):
            return text


def pseudonym_of_decimal(value: Decimal) -> Decimal:
    return Decimal(pseudonym_of_text(str(int(value.scaleb(4, EXACT))))).scaleb(-4, EXACT)


def pseudonym_of_bytes(value: bytes) -> bytes:
    count = len(value)
    rounds = 4 if count >= 8 else 6 if count >= 4 else 8
    if 2 <= count <= 32:
        return side_by_side(value, list(range(count)), rounds, lambda _: 0, lambda byte, by: byte ^ by)
    return bytes(letters_permuted(count, list(value), [256] * count, 8, rounds)) if count else value


def hash_of_bytes(value: bytes) -> str:
    words = [int.from_bytes(value[at : at + 8], "little") for at in range(0, len(value), 8)]
    state = taken(derived_key(KEY, "hash"), [*words, len(value)], 0xEE)
    first = ended(state, 0xEE)
    second = ended([first[0], first[1] ^ 0xDD, first[2], first[3]], 0)
    return "".join(f"{a ^ b ^ c ^ d:016x}" for a, b, c, d in (first, second))


def hash_of_integer(value: int, bits: int) -> int:
    key, half = derived_key(KEY, "hash"), bits // 2
    low = (1 << half) - 1
    halves = [value >> half & low, value & low]
    for number in range(8):
        halves[number % 2] ^= siphash(key, [number, halves[1 - number % 2]]) & low
    found = halves[0] << half | halves[1]
    return found - (1 << bits) if found >> (bits - 1) else found


# ---- compared ----

MORE_TEXTS = (
    st.text(max_size=40)
    | st.from_regex(r"[a-zA-Z]{0,30}[ ._@-]?[0-9]{0,30}", fullmatch=True)
    | st.from_regex(r"-?0{0,3}[0-9]{1,24}", fullmatch=True)
    | st.from_regex(r"-?0{0,2}[0-9]{1,3}\.[0-9]{1,3}\.?", fullmatch=True)
    | st.from_regex(r"-?9[0-9]{18}", fullmatch=True)
)
CASES: list[tuple[str, pa.DataType, st.SearchStrategy[Any], Callable[[Any], Any]]] = [
    ("pseudonym", pa.string(), MORE_TEXTS, pseudonym_of_text),
    (
        "pseudonym",
        pa.decimal128(38, 4),
        st.decimals(-(10**34) + 1, 10**34 - 1, places=4, allow_nan=False),
        pseudonym_of_decimal,
    ),
    ("pseudonym", pa.binary(), st.binary(max_size=70), pseudonym_of_bytes),
    ("hash", pa.string(), MORE_TEXTS, lambda value: hash_of_bytes(value.encode())),
    *(
        (rule, kind, st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) | st.integers(-128, 127), plain)
        for bits, kind in ((8, pa.int8()), (16, pa.int16()), (32, pa.int32()), (64, pa.int64()))
        for rule, plain in (
            ("pseudonym", pseudonym_of_integer),
            ("hash", lambda value, bits=bits: hash_of_integer(value, bits)),
        )
    ),
]


@pytest.mark.parametrize(
    ("rule", "kind", "values", "plain"), CASES, ids=[f"{rule}-{kind}" for rule, kind, _, _ in CASES]
)
@given(data=st.data())
def test_masks_are_those_of_the_plain_form(
    rule: str,
    kind: pa.DataType,
    values: st.SearchStrategy[Any],
    plain: Callable[[Any], Any],
    data: st.DataObject,
) -> None:
    # Few values, and so many that not all are permuted side by side; some of them null, and of a longer array.
    chosen = data.draw(st.lists(values | st.none(), min_size=1, max_size=30))
    many = chosen * data.draw(st.sampled_from([1, 5, 20]))
    first = data.draw(st.integers(0, len(many)))
    masked = read_rule(rule).masked(pa.array(many, kind)[first:], KEY)

    assert masked.to_pylist() == [None if one is None else plain(one) for one in many][first:]
    masked.validate(full=True)


def test_bytes_of_every_length_become_others() -> None:
    values = [bytes(range(length)) for length in range(8, 40)]
    found = read_rule("pseudonym").masked(pa.array(values), KEY).to_pylist()

    # Not even half of one stays: of 16 bytes are identifiers.
    assert all(
        one[: len(one) // 2] != other[: len(one) // 2] and one[len(one) // 2 :] != other[len(one) // 2 :]
        for one, other in zip(values, found, strict=True)
    )


EARLIER = [
    (
        "pseudonym",
        ["", "a", "name_123456", "Zoë-12 a@b.C", "-0042", "9999999999999999999", "2024-05-17", "ID" * 20],
        [
            "",
            "c",
            "tsow_667606",
            "Iz\u0441-22 l@z.E",
            "-0066",
            "9354058915134469650",
            "0631-31-67",
            "XHXQYVHRTQITTECEWKACILRQDESATELKMCTTRRIW",
        ],
    ),
    ("pseudonym", [7, -42, 1234567, 1 << 40], [1, -66, 5239949, 2628308579894]),
    (
        "hash",
        ["", "name_1", "Ada@example.com"],
        [
            "d1346836d2ab56eb33724b39dcb60802",
            "dc320b9f380a1e6d78ee6fcea14bfc15",
            "f4ec93c0a95cff1b9c16f4e66e99c417",
        ],
    ),
    ("hash", [7, -42], [4353345291142248814, 1026315987720526281]),
]


@pytest.mark.parametrize(("rule", "values", "expected"), EARLIER)
def test_masks_are_those_of_earlier_versions(rule: str, values: list[Any], expected: list[Any]) -> None:
    assert read_rule(rule).masked(pa.array(values), KEY).to_pylist() == expected
