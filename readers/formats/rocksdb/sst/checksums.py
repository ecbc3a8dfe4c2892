"""The checksums of RocksDB's blocks and log records.

| number | name | checksum of a block's bytes and the type byte behind them |
|---|---|---|
| 0 | kNoChecksum | 0 |
| 1 | kCRC32c | CRC-32C of both, rotated right by 15 bits, plus A282EAD8 |
| 4 | kXXH3 | low half of XXH3_64bits(bytes), XOR type byte × 6B9083D9 |

kxxHash (2) and kxxHash64 (3) are left to RocksDB: Flink never sets them.

RocksDB: crc32c::Mask, ComputeBuiltinChecksumWithLastByte; xxHash: XXH3_64bits with the default secret and seed 0.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from readers.compiled.kernel import kernel
from readers.compiled.routines import Alternative, Intrinsic, subroutine
from readers.decode.loads import load_le_i4, load_le_i8, load_u1, store_8
from readers.formats.rocksdb.sst.words import (
    multiply_fold,
    rotate_left,
    shift_right,
    swap_bytes,
    wrapping_product,
    wrapping_sum,
)

NO_CHECKSUM, CRC32C, XXH3 = 0, 1, 4
CHECKSUMS = frozenset({NO_CHECKSUM, CRC32C, XXH3})

_U4 = 0xFFFFFFFF
_MASK_DELTA = 0xA282EAD8
_LAST_BYTE_PRIME = 0x6B9083D9
_CRC32C_POLYNOMIAL = 0x82F63B78


def _signed(value: int) -> int:
    """Return the signed number with the bits of an unsigned word."""
    return value - (value >> 63 << 64)


_PRIME_1 = _signed(0x9E3779B185EBCA87)
_PRIME_2 = _signed(0xC2B2AE3D27D4EB4F)
_PRIME_3 = _signed(0x165667B19E3779F9)
_PRIME_4 = _signed(0x85EBCA77C2B2AE63)
_PRIME_5 = _signed(0x27D4EB2F165667C5)
_SHORT_PRIME_1 = 0x9E3779B1
_SHORT_PRIME_2 = 0x85EBCA77
_SHORT_PRIME_3 = 0xC2B2AE3D
_MIX_PRIME = _signed(0x165667919E3779F9)
_SMALL_PRIME = _signed(0x9FB21C651E98DF25)
_SECRET = np.frombuffer(
    bytes.fromhex(
        "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671f"
        "cb79e64eccc0e578825ad07dccff7221b8084674f743248ee03590e6813a264c"
        "3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8"
        "a8fa763fe39c343ff9dcbbc7c70b4f1d8a51e04bcdb45931c89f7ec9d9787364"
        "eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e"
        "2b16be587d47a1fc8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
    ),
    dtype=np.uint8,
)
_SECRET_WORDS = np.array(
    [int.from_bytes(_SECRET[at : at + 8].tobytes(), "little", signed=True) for at in range(192)],
    dtype=np.int64,
)
"""The word that begins at each byte of the secret: XXH3 reads it at unaligned positions."""


# --- CRC-32C ---


def _tables() -> np.ndarray[Any, np.dtype[np.int64]]:
    """Return the tables of "slicing by eight", shape (8, 256): the effect of a byte with 0–7 more bytes behind it."""
    tables = np.zeros((8, 256), dtype=np.int64)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_CRC32C_POLYNOMIAL if value & 1 else 0)
        tables[0, byte] = value
    for more in range(1, 8):
        tables[more] = tables[0, tables[more - 1] & 0xFF] ^ tables[more - 1] >> 8
    return tables


_TABLES = _tables()


@kernel
def crc_word_by_tables(crc: int, word: int) -> int:
    """Continue a CRC-32C with eight bytes, little endian."""
    low = (crc ^ word) & _U4
    high = shift_right(word, 32)
    return (
        _TABLES[7, low & 0xFF]
        ^ _TABLES[6, low >> 8 & 0xFF]
        ^ _TABLES[5, low >> 16 & 0xFF]
        ^ _TABLES[4, low >> 24]
        ^ _TABLES[3, high & 0xFF]
        ^ _TABLES[2, high >> 8 & 0xFF]
        ^ _TABLES[1, high >> 16 & 0xFF]
        ^ _TABLES[0, high >> 24]
    )


def _crc_instruction(ir: Any, builder: Any, crc: Any, word: Any) -> Any:
    word_type = ir.IntType(64)
    function_type = ir.FunctionType(word_type, [word_type, word_type])
    function = builder.module.declare_intrinsic("llvm.x86.sse42.crc32.64.64", (), function_type)
    return builder.call(function, [crc, word])


# SSE 4.2 has an instruction for eight bytes; processors without it use the tables, with the same result.
_crc_word = Alternative("sse4.2", Intrinsic(_crc_instruction, 2), crc_word_by_tables)


@kernel
def crc32c(crc: int, address: int, length: int) -> int:
    """Continue a CRC-32C, 0 at the start, with `length` bytes."""
    crc ^= _U4
    index = 0
    while index + 8 <= length:
        crc = _crc_word(crc, load_le_i8(address, index))
        index += 8
    while index < length:
        crc = _TABLES[0, (crc ^ load_u1(address, index)) & 0xFF] ^ crc >> 8
        index += 1
    return crc ^ _U4


@kernel
def masked(crc: int) -> int:
    """Mask a CRC-32C as RocksDB stores it: a CRC of data that contains its own CRC would be weak."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & _U4


# --- XXH3, 64 bits ---


@subroutine
def _avalanche(value: int) -> int:
    value = wrapping_product(value ^ shift_right(value, 37), _MIX_PRIME)
    return value ^ shift_right(value, 32)


@subroutine
def _avalanche_64(value: int) -> int:
    """The final mix of XXH64, which XXH3 uses for the shortest inputs."""
    value = wrapping_product(value ^ shift_right(value, 33), _PRIME_2)
    value = wrapping_product(value ^ shift_right(value, 29), _PRIME_3)
    return value ^ shift_right(value, 32)


@subroutine
def _mix(address: int, position: int, secret: int) -> int:
    return multiply_fold(
        load_le_i8(address, position) ^ _SECRET_WORDS[secret],
        load_le_i8(address, position + 8) ^ _SECRET_WORDS[secret + 8],
    )


@subroutine
def _up_to_16_bytes(address: int, length: int) -> int:
    if length > 8:
        low = load_le_i8(address, 0) ^ _SECRET_WORDS[24] ^ _SECRET_WORDS[32]
        high = load_le_i8(address, length - 8) ^ _SECRET_WORDS[40] ^ _SECRET_WORDS[48]
        total = wrapping_sum(wrapping_sum(length, swap_bytes(low)), high)
        return _avalanche(wrapping_sum(total, multiply_fold(low, high)))
    if length >= 4:
        first = load_le_i4(address, 0) & _U4
        last = load_le_i4(address, length - 4) & _U4
        value = rotate_left(first, 32) | last
        value ^= _SECRET_WORDS[8] ^ _SECRET_WORDS[16]
        value = wrapping_product(value ^ rotate_left(value, 49) ^ rotate_left(value, 24), _SMALL_PRIME)
        value = wrapping_product(value ^ (shift_right(value, 35) + length), _SMALL_PRIME)
        return value ^ shift_right(value, 28)
    if length > 0:
        first = load_u1(address, 0)
        middle = load_u1(address, length >> 1)
        combined = first << 16 | middle << 24 | load_u1(address, length - 1) | length << 8
        return _avalanche_64(combined ^ ((_SECRET_WORDS[0] ^ _SECRET_WORDS[4]) & _U4))
    return _avalanche_64(_SECRET_WORDS[56] ^ _SECRET_WORDS[64])


@subroutine
def _up_to_128_bytes(address: int, length: int) -> int:
    total = wrapping_product(length, _PRIME_1)
    for pair in range((length - 1) // 32 + 1):
        total = wrapping_sum(total, _mix(address, 16 * pair, 32 * pair))
        total = wrapping_sum(total, _mix(address, length - 16 * (pair + 1), 32 * pair + 16))
    return _avalanche(total)


@subroutine
def _up_to_240_bytes(address: int, length: int) -> int:
    total = wrapping_product(length, _PRIME_1)
    for index in range(8):
        total = wrapping_sum(total, _mix(address, 16 * index, 16 * index))
    total = _avalanche(total)
    for index in range(8, length // 16):
        total = wrapping_sum(total, _mix(address, 16 * index, 16 * (index - 8) + 3))
    return _avalanche(wrapping_sum(total, _mix(address, length - 16, 119)))


@subroutine
def _accumulate(sums: int, address: int, secret: int) -> None:
    """Add a stripe of 64 bytes to the eight sums; each lane also feeds the one beside it."""
    for lane in range(8):
        data = load_le_i8(address, 8 * lane)
        key = data ^ _SECRET_WORDS[secret + 8 * lane]
        across = 8 * (lane ^ 1)
        store_8(sums, across, wrapping_sum(load_le_i8(sums, across), data))
        product = wrapping_product(key & _U4, shift_right(key, 32))
        store_8(sums, 8 * lane, wrapping_sum(load_le_i8(sums, 8 * lane), product))


@subroutine
def _scramble(sums: int) -> None:
    for lane in range(8):
        value = load_le_i8(sums, 8 * lane)
        value ^= shift_right(value, 47) ^ _SECRET_WORDS[128 + 8 * lane]
        store_8(sums, 8 * lane, wrapping_product(value, _SHORT_PRIME_1))


@subroutine
def _more_bytes(address: int, length: int, sums: int) -> int:
    store_8(sums, 0, _SHORT_PRIME_3)
    store_8(sums, 8, _PRIME_1)
    store_8(sums, 16, _PRIME_2)
    store_8(sums, 24, _PRIME_3)
    store_8(sums, 32, _PRIME_4)
    store_8(sums, 40, _SHORT_PRIME_2)
    store_8(sums, 48, _PRIME_5)
    store_8(sums, 56, _SHORT_PRIME_1)
    for stripe in range((length - 1) // 64):
        _accumulate(sums, address + 64 * stripe, 8 * (stripe % 16))
        if stripe % 16 == 15:
            _scramble(sums)
    _accumulate(sums, address + length - 64, 121)
    total = wrapping_product(length, _PRIME_1)
    for pair in range(4):
        low = load_le_i8(sums, 16 * pair) ^ _SECRET_WORDS[11 + 16 * pair]
        high = load_le_i8(sums, 16 * pair + 8) ^ _SECRET_WORDS[19 + 16 * pair]
        total = wrapping_sum(total, multiply_fold(low, high))
    return _avalanche(total)


@kernel
def xxh3(address: int, length: int, scratch: int) -> int:
    """Return XXH3_64bits of `length` bytes; `scratch` is the address of 64 bytes of working memory."""
    if length <= 16:
        return _up_to_16_bytes(address, length)
    if length <= 128:
        return _up_to_128_bytes(address, length)
    if length <= 240:
        return _up_to_240_bytes(address, length)
    return _more_bytes(address, length, scratch)


@kernel
def block_checksum(kind: int, address: int, length: int, scratch: int) -> int:
    """Return the checksum of a block of `length` bytes and the type byte behind it; `kind` is one of `CHECKSUMS`."""
    if kind == CRC32C:
        return masked(crc32c(0, address, length + 1))
    if kind == XXH3:
        last = load_u1(address, length) * _LAST_BYTE_PRIME
        return (xxh3(address, length, scratch) ^ last) & _U4
    return 0
