"""SipHash 1-3, and the Feistel network of pseudonyms: in machine code, for many values side by side.

The additions of one hash wait for each other. So the values of a block go through each round together: a processor computes several
hashes at once, in vectors if it has them.

A block has columns of int64, of `BLOCK` values each. A value is two numbers, the halves of the network: a round adds to one of them,
modulo its size, a hash of the other.

| column | meaning |
|---|---|
| LEFT, RIGHT | the halves |
| LEFT_SIZE, RIGHT_SIZE | how many numbers each of them can be |
| LEFT_INVERSE, RIGHT_INVERSE | `inverse` of these |
| TWEAK | what the hashes begin with; each round adds 1 |
| LEAST, GREATEST | a value `left * right_size + right` outside of them is permuted again |
| ROUNDS | 4, 6 or 8; 0 for a value that stays |
"""

from __future__ import annotations

from typing import Any

from readers import Intrinsic, load_le_i8, stack_memory, store_8, subroutine

BLOCK = 64
(
    LEFT, RIGHT, LEFT_SIZE, RIGHT_SIZE, LEFT_INVERSE, RIGHT_INVERSE, TWEAK, LEAST, GREATEST, ROUNDS, BLOCK_BYTES,
) = range(0, 11 * BLOCK * 8, BLOCK * 8)  # fmt: skip
_NEXT_COLUMN = RIGHT - LEFT
_FEWEST_ROUNDS, _MOST_ROUNDS = 4, 8
POSITIVE = 0x7FFFFFFFFFFFFFFF

_SPREAD = -0x61C8864680B583EB  # 2^64 / golden ratio
_MIX_1 = -0x40A7B892E31B1A47
_MIX_2 = -0x6B2FB644ECCEEE15
_SIP_0, _SIP_1, _SIP_2, _SIP_3 = (
    0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573,
)  # fmt: skip
LOW_32 = 0xFFFFFFFF


@subroutine
def _sip_round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    """Return the four words of SipHash after one round."""
    v0 += v1
    v2 += v3
    v1 = ((v1 << 13) | ((v1 >> 51) & 0x1FFF)) ^ v0
    v3 = ((v3 << 16) | ((v3 >> 48) & 0xFFFF)) ^ v2
    v0 = (v0 << 32) | ((v0 >> 32) & LOW_32)
    v2 += v1
    v0 += v3
    v1 = ((v1 << 17) | ((v1 >> 47) & 0x1FFFF)) ^ v2
    v3 = ((v3 << 21) | ((v3 >> 43) & 0x1FFFFF)) ^ v0
    v2 = (v2 << 32) | ((v2 >> 32) & LOW_32)
    return v0, v1, v2, v3


@subroutine
def sip_taken(v0: int, v1: int, v2: int, v3: int, word: int) -> tuple[int, int, int, int]:
    """Return the state behind a word."""
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@subroutine
def sip_begun(k0: int, k1: int, tweak: int) -> tuple[int, int, int, int]:
    """Return the state behind the first word, a tweak."""
    v0, v1, v2, v3 = sip_taken(k0 ^ _SIP_0, k1 ^ _SIP_1, k0 ^ _SIP_2, k1 ^ _SIP_3, tweak)
    return v0, v1, v2, v3


@subroutine
def sip_ended(v0: int, v1: int, v2: int, v3: int) -> int:
    """Return the hash of a state that has taken the last word."""
    v2 ^= 0xFF
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    return v0 ^ v1 ^ v2 ^ v3


@subroutine
def hash_of_letters(k0: int, k1: int, tweak: int, numbers: int, start: int, end: int, bits: int) -> int:
    """Return SipHash 1-3 of a tweak and of `numbers[start:end]`, of which each has so many bits."""
    v0, v1, v2, v3 = sip_begun(k0, k1, tweak)
    index = start
    while index < end:
        word = 0
        used = bits
        while index < end and used <= 64:
            word = (word << bits) | load_le_i8(numbers, index * 8)
            used += bits
            index += 1
        v0, v1, v2, v3 = sip_taken(v0, v1, v2, v3, word)
    v0, v1, v2, v3 = sip_taken(v0, v1, v2, v3, end - start)
    found: int = sip_ended(v0, v1, v2, v3)
    return found


@subroutine
def spread(seed: int, number: int) -> int:
    """Return 32 bits of the stream of SplitMix64 that begins with a seed."""
    found = seed + (number + 1) * _SPREAD
    found = (found ^ ((found >> 30) & 0x3FFFFFFFF)) * _MIX_1
    found = (found ^ ((found >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return (found ^ ((found >> 31) & 0x1FFFFFFFF)) & LOW_32


@subroutine
def hash_of_number(k0: int, k1: int, tweak: int, number: int) -> int:
    """Return a number of 63 bits from SipHash 1-3 of two words."""
    v0, v1, v2, v3 = sip_begun(k0, k1, tweak)
    v0, v1, v2, v3 = sip_taken(v0, v1, v2, v3, number)
    found: int = sip_ended(v0, v1, v2, v3) & POSITIVE
    return found


# ---- division ----


def _shifted_product(ir: Any, builder: Any, first: Any, second: Any) -> Any:
    wide = ir.IntType(128)
    product = builder.mul(builder.zext(first, wide), builder.zext(second, wide))
    return builder.trunc(builder.lshr(product, ir.Constant(wide, 63)), ir.IntType(64))


shifted_product = Intrinsic(_shifted_product, 2)
"""`shifted_product(first, second)`: the product of two unsigned words, divided by 2^63."""


def inverse(size: int) -> int:
    """Return 2^63 divided by a size, rounded up. For compiled code, too: a division takes as long as ten products."""
    return POSITIVE // size + 1


compiled_inverse = subroutine(inverse)


@subroutine
def divided(value: int, size: int, size_inverse: int) -> tuple[int, int]:
    """Return quotient and remainder of a value of 63 bits."""
    quotient = shifted_product(value, size_inverse)
    # The inverse was rounded up: the quotient may be one too large.
    rest = value - quotient * size
    return quotient + (rest >> 63), rest + (size & (rest >> 63))


# ---- the network ----


_dense_memory = stack_memory(BLOCK_BYTES + BLOCK * 8)
_HASHES = BLOCK_BYTES


@subroutine
def permute_block(block: int, count: int, k0: int, k1: int) -> None:
    """Permute the first values of a block, those of as many rounds together."""
    dense = _dense_memory()
    for rounds in range(_FEWEST_ROUNDS, _MOST_ROUNDS + 1, 2):
        waiting = 0
        for index in range(count):
            if load_le_i8(block, ROUNDS + index * 8) == rounds:
                for column in range(LEFT, ROUNDS, _NEXT_COLUMN):
                    store_8(dense, column + waiting * 8, load_le_i8(block, column + index * 8))
                store_8(dense, ROUNDS + waiting * 8, index)
                waiting += 1
        while waiting > 0:
            for number in range(rounds):
                _add_hashes(dense, waiting, number, k0, k1)
            waiting = _keep_outside(dense, waiting, block)


@subroutine
def _add_hashes(dense: int, count: int, number: int, k0: int, k1: int) -> None:
    """Do one round: the even ones add to the left half."""
    changed = (number & 1) * _NEXT_COLUMN
    other = RIGHT - changed
    for place in range(0, count * 8, 8):
        tweak = load_le_i8(dense, TWEAK + place) + number
        store_8(dense, _HASHES + place, hash_of_number(k0, k1, tweak, load_le_i8(dense, other + place)))
    for place in range(0, count * 8, 8):
        size = load_le_i8(dense, LEFT_SIZE + changed + place)
        _, rest = divided(
            load_le_i8(dense, _HASHES + place), size, load_le_i8(dense, LEFT_INVERSE + changed + place)
        )
        added = load_le_i8(dense, changed + place) + rest - size
        store_8(dense, changed + place, added + (size & (added >> 63)))


@subroutine
def _keep_outside(dense: int, count: int, block: int) -> int:
    """Write values back to the block, but those outside of their bounds, which become the first; return how many they are."""
    kept = 0
    for place in range(0, count * 8, 8):
        left = load_le_i8(dense, LEFT + place)
        right = load_le_i8(dense, RIGHT + place)
        value = left * load_le_i8(dense, RIGHT_SIZE + place) + right
        if load_le_i8(dense, LEAST + place) <= value <= load_le_i8(dense, GREATEST + place):
            index = load_le_i8(dense, ROUNDS + place)
            store_8(block, LEFT + index * 8, left)
            store_8(block, RIGHT + index * 8, right)
        else:
            for column in range(LEFT, BLOCK_BYTES, _NEXT_COLUMN):
                store_8(dense, column + kept * 8, load_le_i8(dense, column + place))
            kept += 1
    return kept


# ---- letters as numbers ----


@subroutine
def packed_halves(numbers: int, sizes: int, middle: int, count: int) -> tuple[int, int, int, int]:
    """Return the letters before the middle as one number, how many such numbers there are, and both of the other letters.

    A processor computes the two numbers at once: each step of one waits for the step before. The second half may be one letter longer.
    """
    left = right = 0
    left_size = right_size = 1
    for place in range(0, middle * 8, 8):
        size = load_le_i8(sizes, place)
        left = left * size + load_le_i8(numbers, place)
        left_size *= size
        size = load_le_i8(sizes, place + middle * 8)
        right = right * size + load_le_i8(numbers, place + middle * 8)
        right_size *= size
    if 2 * middle < count:
        size = load_le_i8(sizes, count * 8 - 8)
        right = right * size + load_le_i8(numbers, count * 8 - 8)
        right_size *= size
    return left, left_size, right, right_size


@subroutine
def unpack_halves(left: int, right: int, numbers: int, sizes: int, middle: int, count: int) -> None:
    """Write the letters of two numbers; see `packed_halves`."""
    if 2 * middle < count:
        right = _unpack_letter(right, numbers, sizes, count * 8 - 8)
    for place in range(middle * 8 - 8, -8, -8):
        left = _unpack_letter(left, numbers, sizes, place)
        right = _unpack_letter(right, numbers, sizes, place + middle * 8)


@subroutine
def _unpack_letter(value: int, numbers: int, sizes: int, place: int) -> int:
    """Write the last letter of a number, and return the number without it."""
    size = load_le_i8(sizes, place)
    rest = value // 26 if size == 26 else value // 10 if size == 10 else value // size
    store_8(numbers, place, value - rest * size)
    return rest
