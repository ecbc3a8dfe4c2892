"""SipHash 1-3 of one value, and SplitMix64: in machine code. `lanes` has those of many values side by side."""

from __future__ import annotations

from readers import load_le_i8, subroutine

_SPREAD = -0x61C8864680B583EB  # 2^64 / golden ratio
_MIX_1 = -0x40A7B892E31B1A47
_MIX_2 = -0x6B2FB644ECCEEE15
SIP = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)
_SIP_0, _SIP_1, _SIP_2, _SIP_3 = SIP
_POSITIVE = 0x7FFFFFFFFFFFFFFF
LOW_32 = 0xFFFFFFFF
# What sets the hash of 128 bits apart.
WIDE, WIDER = 0xEE, 0xDD


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
def _sip_taken(v0: int, v1: int, v2: int, v3: int, word: int) -> tuple[int, int, int, int]:
    """Return the state behind a word."""
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3 ^ word)
    return v0 ^ word, v1, v2, v3


@subroutine
def _sip_begun(k0: int, k1: int) -> tuple[int, int, int, int]:
    return k0 ^ _SIP_0, k1 ^ _SIP_1, k0 ^ _SIP_2, k1 ^ _SIP_3


@subroutine
def _three_rounds(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _sip_round(v0, v1, v2, v3)
    return v0, v1, v2, v3


@subroutine
def _sip_ended(v0: int, v1: int, v2: int, v3: int) -> int:
    """Return the hash of a state that has taken the last word."""
    v0, v1, v2, v3 = _three_rounds(v0, v1, v2 ^ 0xFF, v3)
    return v0 ^ v1 ^ v2 ^ v3


@subroutine
def hash_of_bytes(k0: int, k1: int, data: int, begin: int, end: int) -> tuple[int, int]:
    """Return SipHash 1-3 with 128 bits of more than eight bytes, eight of them a word."""
    v0, v1, v2, v3 = _sip_begun(k0, k1)
    v1 ^= WIDE
    for position in range(begin, end, 8):
        behind = position + 8 - end
        word = load_le_i8(data, position if behind <= 0 else end - 8)
        if behind > 0:
            word = (word >> behind * 8) & ((1 << (8 - behind) * 8) - 1)
        v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, word)
    v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, end - begin)
    v0, v1, v2, v3 = _three_rounds(v0, v1, v2 ^ WIDE, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v0, v1, v2, v3 = _three_rounds(v0, v1 ^ WIDER, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@subroutine
def hash_of_letters(k0: int, k1: int, tweak: int, numbers: int, start: int, end: int, bits: int) -> int:
    """Return SipHash 1-3 of a tweak and of `numbers[start:end]`, of which each has so many bits."""
    v0, v1, v2, v3 = _sip_begun(k0, k1)
    v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, tweak)
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
def spread(seed: int, number: int) -> int:
    """Return 32 bits of the stream of SplitMix64 that begins with a seed."""
    found = seed + (number + 1) * _SPREAD
    found = (found ^ ((found >> 30) & 0x3FFFFFFFF)) * _MIX_1
    found = (found ^ ((found >> 27) & 0x1FFFFFFFFF)) * _MIX_2
    return (found ^ ((found >> 31) & 0x1FFFFFFFF)) & LOW_32


@subroutine
def hash_of_number(k0: int, k1: int, tweak: int, number: int) -> int:
    """Return a number of 63 bits from SipHash 1-3 of two words."""
    v0, v1, v2, v3 = _sip_begun(k0, k1)
    v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, tweak)
    v0, v1, v2, v3 = _sip_taken(v0, v1, v2, v3, number)
    found: int = _sip_ended(v0, v1, v2, v3) & _POSITIVE
    return found
