"""The merge: turns the entries of all sorted runs, in the order of their keys, into those that a reader of the database sees.

A sorted run is a sequence of tables whose keys follow each other: a file of level 0, or all files of another level. Each run
has a cursor. Entries come by user key ascending, then by sequence number descending, so the newest entry of a key is first:

| type | entry | result for the key |
|---|---|---|
| 0 | kTypeDeletion | no entry; older ones do not count |
| 1 | kTypeValue | the value; older ones do not count |
| 2 | kTypeMerge | an operand: older operands or the value come before it, joined by 2C |
| 7 | kTypeSingleDeletion | as 0 |

The merge is one compiled function over memory that Python owns. It returns when it needs more memory, the next bytes of a file, or
a library to decompress a block, and continues at the same point when it is called again. Its state is two tables of int64: the
merge, and a cursor per run:

| field of the merge | meaning |
|---|---|
| CURSORS RUNS STARTED | address of the cursors; how many; how many are at their first entry |
| HEAP HEAP_SIZE | address of cursor numbers, a binary heap: number 0 is the cursor with the least key |
| ADVANCING | 1 while the cursor on top moves on: it may have to wait for bytes |
| FIRST FIRST_BYTES BEHIND BEHIND_BYTES | address and length of the first wanted key, and of the key behind the last; -1 for no end |
| CURRENT CURRENT_BYTES | the current key, in the page or in CURRENT_COPY; -1 before the first |
| IS_OPEN | 1 if older entries of the current key count |
| CURRENT_COPY | memory for the current key, as large as the largest cursor's |
| OPERANDS … | memory for operands, newest first, each with its length behind it; bytes used, number |
| PAGE … STARTS ENDS PAGE_ENTRIES MAX_PAGE_ENTRIES | memory for keys and values; int64 (entries, 2) |
| WHICH DETAIL | the number of the cursor that needs something; how many bytes |
| SCRATCH | address of 64 bytes |
| KEYS_ONLY | 1 to leave values out, except those that are joined of operands; ALL_KEYS to put every key, deleted ones too |

| field of a cursor | meaning |
|---|---|
| KEY KEY_CAPACITY KEY_BYTES | the internal key of the current entry: memory, capacity, length |
| ORDER | the last eight bytes of the key: sequence << 8, type |
| VALUE VALUE_BYTES | the value |
| POSITION END | the next entry of the block, the end of its entries |
| RAW HANDLES BLOCKS BLOCK | a window of the file; the bounds of its blocks, int64 (blocks, 2); their number; the next one |
| PLAIN PLAIN_CAPACITY READY | memory for a decompressed block; the number of the block that Python put there |
| CHECKSUM CAN_MERGE | properties of the table |
| SEEKING | 1 as long as keys less than the first wanted one may come |
| EXHAUSTED | 1 if no window follows |

| it returns | because |
|---|---|
| PAGE_FULL | an entry of DETAIL bytes has no room |
| NEED_WINDOW | the cursor is at the end of its window of the file |
| NEED_PLAIN NEED_LIBRARY | a block has DETAIL plain bytes; a library has to decompress it into PLAIN |
| NEED_KEY NEED_OPERANDS | a key, or operands with their lengths, have DETAIL bytes |
| UNKNOWN CORRUPT | a type of entry or a compression that our reader does not know; bytes that contradict the format |

RocksDB: MergingIterator, DBIter, StringAppendTESTOperator.
"""

from __future__ import annotations

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i4, load_le_i8, load_u1, store_1, store_8
from readers.formats.rocksdb.sst.blocks import (
    LZ4,
    LZ4HC,
    NONE,
    SNAPPY,
    ZLIB,
    ZSTD,
    decompress_lz4,
    decompress_snappy,
    entries_length,
    entry_header,
    plain_length,
)
from readers.formats.rocksdb.sst.checksums import NO_CHECKSUM, block_checksum
from readers.formats.rocksdb.sst.words import compare_bytes, copy_words

# The fields of a cursor.
(
    KEY, KEY_CAPACITY, KEY_BYTES, ORDER, VALUE, VALUE_BYTES, POSITION, END, RAW, HANDLES, BLOCKS, BLOCK,
    PLAIN, PLAIN_CAPACITY, READY, CHECKSUM, CAN_MERGE, SEEKING, EXHAUSTED,
) = range(19)  # fmt: skip
CURSOR_FIELDS = 20

# The fields of the merge.
(
    CURSORS, RUNS, STARTED, HEAP, HEAP_SIZE, ADVANCING, FIRST, FIRST_BYTES, BEHIND, BEHIND_BYTES, CURRENT,
    CURRENT_BYTES, IS_OPEN, CURRENT_COPY, OPERANDS, OPERANDS_CAPACITY, OPERANDS_USED, OPERANDS_COUNT, PAGE,
    PAGE_CAPACITY, PAGE_USED, STARTS, ENDS, PAGE_ENTRIES, MAX_PAGE_ENTRIES, WHICH, DETAIL, SCRATCH,
    KEYS_ONLY,
) = range(29)  # fmt: skip
MERGE_FIELDS = 29

ALL_KEYS = 2

# Why the merge returns.
(
    DONE, PAGE_FULL, NEED_WINDOW, NEED_PLAIN, NEED_LIBRARY, NEED_KEY, NEED_OPERANDS, UNKNOWN, CORRUPT,
    WRONG_CHECKSUM,
) = range(10)  # fmt: skip

_MOVED = 0
_AT_END = 10
_DELETION, _VALUE, _MERGE, _SINGLE_DELETION = 0, 1, 2, 7
_SEQUENCE_BYTES = 8
_LENGTH_BYTES = 8
_DELIMITER = 0x2C
_U4 = 0xFFFFFFFF


@subroutine
def _get(table: int, field: int) -> int:
    return load_le_i8(table, field * 8)


@subroutine
def _set(table: int, field: int, value: int) -> None:
    store_8(table, field * 8, value)


@subroutine
def _cursor(merge: int, number: int) -> int:
    return _get(merge, CURSORS) + number * (CURSOR_FIELDS * 8)


# --- cursors ---


@subroutine
def _open_block(merge: int, cursor: int) -> int:
    """Check and decompress the next block of the window."""
    number = _get(cursor, BLOCK)
    if number >= _get(cursor, BLOCKS):
        return _AT_END if _get(cursor, EXHAUSTED) else NEED_WINDOW
    handle = _get(cursor, HANDLES) + number * 16
    block = _get(cursor, RAW) + load_le_i8(handle, 0)
    length = load_le_i8(handle, 8)
    checksum = _get(cursor, CHECKSUM)
    if checksum != NO_CHECKSUM:
        found = block_checksum(checksum, block, length, _get(merge, SCRATCH))
        if found != load_le_i4(block, length + 1) & _U4:
            return WRONG_CHECKSUM
    kind = load_u1(block, length)
    if kind != NONE:
        status = _decompress(merge, cursor, kind, block, length)
        if status != _MOVED:
            return status
        length = plain_length(kind, block, length)
        block = _get(cursor, PLAIN)
    entries = entries_length(block, length)
    if entries < 0:
        return CORRUPT
    _set(cursor, POSITION, block)
    _set(cursor, END, block + entries)
    _set(cursor, KEY_BYTES, 0)
    _set(cursor, BLOCK, number + 1)
    return _MOVED


@subroutine
def _decompress(merge: int, cursor: int, kind: int, block: int, length: int) -> int:
    """Decompress a block into PLAIN."""
    if kind not in (SNAPPY, ZLIB, LZ4, LZ4HC, ZSTD):
        return UNKNOWN
    plain_bytes = plain_length(kind, block, length)
    if plain_bytes < 0:
        return CORRUPT
    _set(merge, DETAIL, plain_bytes)
    # On the next call the block is opened again from the beginning, its checksum included: only large blocks come here twice.
    if plain_bytes > _get(cursor, PLAIN_CAPACITY):
        return NEED_PLAIN
    plain = _get(cursor, PLAIN)
    if kind == SNAPPY:
        return _MOVED if decompress_snappy(block, length, plain, plain_bytes) else CORRUPT
    if kind in (LZ4, LZ4HC):
        return _MOVED if decompress_lz4(block, length, plain, plain_bytes) else CORRUPT
    return _MOVED if _get(cursor, READY) == _get(cursor, BLOCK) else NEED_LIBRARY


@subroutine
def _advance(merge: int, cursor: int) -> int:
    """Move a cursor to its next entry that is not less than the first wanted key."""
    while True:
        while _get(cursor, POSITION) >= _get(cursor, END):
            status = _open_block(merge, cursor)
            if status != _MOVED:
                return status
        position = _get(cursor, POSITION)
        shared, more, value_bytes, position = entry_header(position, _get(cursor, END))
        if shared < 0 or shared > _get(cursor, KEY_BYTES) or shared + more < _SEQUENCE_BYTES:
            return CORRUPT
        key_bytes = shared + more
        if key_bytes > _get(cursor, KEY_CAPACITY):
            _set(merge, DETAIL, key_bytes)
            return NEED_KEY
        key = _get(cursor, KEY)
        copy_words(key + shared, position, more)
        order = load_le_i8(key, key_bytes - _SEQUENCE_BYTES)
        # No database has written so much that a sequence number of 56 bits reaches the sign: orders compare as signed numbers.
        if order < 0:
            return CORRUPT
        _set(cursor, KEY_BYTES, key_bytes)
        _set(cursor, ORDER, order)
        _set(cursor, VALUE, position + more)
        _set(cursor, VALUE_BYTES, value_bytes)
        _set(cursor, POSITION, position + more + value_bytes)
        if _get(cursor, SEEKING):
            length = key_bytes - _SEQUENCE_BYTES
            if compare_bytes(key, length, _get(merge, FIRST), _get(merge, FIRST_BYTES)) < 0:
                continue
            _set(cursor, SEEKING, 0)
        return _MOVED


# --- the heap of cursors ---


@subroutine
def _is_before(merge: int, left: int, right: int) -> bool:
    """Return whether the entry of a cursor comes before that of another: its key is less, or equal and newer."""
    one = _cursor(merge, left)
    other = _cursor(merge, right)
    compared = compare_bytes(
        _get(one, KEY),
        _get(one, KEY_BYTES) - _SEQUENCE_BYTES,
        _get(other, KEY),
        _get(other, KEY_BYTES) - _SEQUENCE_BYTES,
    )
    if compared == 0:
        return _get(one, ORDER) > _get(other, ORDER)
    return compared < 0


@subroutine
def _sift_up(merge: int, place: int) -> None:
    heap = _get(merge, HEAP)
    number = _get(heap, place)
    while place > 0:
        parent = (place - 1) // 2
        above = _get(heap, parent)
        if not _is_before(merge, number, above):
            break
        _set(heap, place, above)
        place = parent
    _set(heap, place, number)


@subroutine
def _sift_down(merge: int) -> None:
    """Move the cursor on top down to its place."""
    heap = _get(merge, HEAP)
    size = _get(merge, HEAP_SIZE)
    number = _get(heap, 0)
    place = 0
    while 2 * place + 1 < size:
        child = 2 * place + 1
        if child + 1 < size and _is_before(merge, _get(heap, child + 1), _get(heap, child)):
            child += 1
        below = _get(heap, child)
        if not _is_before(merge, below, number):
            break
        _set(heap, place, below)
        place = child
    _set(heap, place, number)


@subroutine
def _start(merge: int) -> int:
    """Move every cursor to its first entry."""
    heap = _get(merge, HEAP)
    while _get(merge, STARTED) < _get(merge, RUNS):
        number = _get(merge, STARTED)
        _set(merge, WHICH, number)
        status = _advance(merge, _cursor(merge, number))
        if status == _MOVED:
            size = _get(merge, HEAP_SIZE)
            _set(heap, size, number)
            _set(merge, HEAP_SIZE, size + 1)
            _sift_up(merge, size)
        elif status != _AT_END:
            return status
        _set(merge, STARTED, number + 1)
    return _MOVED


@subroutine
def _advance_top(merge: int) -> int:
    heap = _get(merge, HEAP)
    number = _get(heap, 0)
    _set(merge, WHICH, number)
    status = _advance(merge, _cursor(merge, number))
    if status == _AT_END:
        size = _get(merge, HEAP_SIZE) - 1
        _set(merge, HEAP_SIZE, size)
        _set(heap, 0, _get(heap, size))
    elif status != _MOVED:
        return status
    _set(merge, ADVANCING, 0)
    _sift_down(merge)
    return _MOVED


# --- pages ---


@subroutine
def _has_room(merge: int, length: int) -> bool:
    _set(merge, DETAIL, length)
    if _get(merge, PAGE_ENTRIES) >= _get(merge, MAX_PAGE_ENTRIES):
        return False
    return _get(merge, PAGE_USED) + length <= _get(merge, PAGE_CAPACITY)


@subroutine
def _put_bounds(merge: int, key_bytes: int, value_bytes: int) -> None:
    """Store the bounds of an entry whose bytes were put at the end of the page."""
    start = _get(merge, PAGE_USED)
    row = _get(merge, PAGE_ENTRIES) * 16
    starts = _get(merge, STARTS)
    ends = _get(merge, ENDS)
    store_8(starts, row, start)
    store_8(starts, row + 8, start + key_bytes)
    store_8(ends, row, start + key_bytes)
    store_8(ends, row + 8, start + key_bytes + value_bytes)
    _set(merge, PAGE_USED, start + key_bytes + value_bytes)
    _set(merge, PAGE_ENTRIES, _get(merge, PAGE_ENTRIES) + 1)


@subroutine
def _put_operand(merge: int, address: int, length: int) -> bool:
    used = _get(merge, OPERANDS_USED)
    needed = used + length + _LENGTH_BYTES
    if needed > _get(merge, OPERANDS_CAPACITY):
        _set(merge, DETAIL, needed)
        return False
    operands = _get(merge, OPERANDS)
    copy_words(operands + used, address, length)
    store_8(operands, used + length, length)
    _set(merge, OPERANDS_USED, needed)
    _set(merge, OPERANDS_COUNT, _get(merge, OPERANDS_COUNT) + 1)
    return True


@subroutine
def _put_joined(merge: int) -> bool:
    """Put the entry of the current key into the page, if it has operands; return whether there was room for it."""
    count = _get(merge, OPERANDS_COUNT)
    if count == 0:
        return True
    used = _get(merge, OPERANDS_USED)
    key_bytes = _get(merge, CURRENT_BYTES)
    value_bytes = used - count * _LENGTH_BYTES + count - 1
    if not _has_room(merge, key_bytes + value_bytes):
        return False
    target = _get(merge, PAGE) + _get(merge, PAGE_USED)
    copy_words(target, _get(merge, CURRENT), key_bytes)
    target += key_bytes
    # The operands were collected from the newest to the oldest, and are joined the other way round.
    operands = _get(merge, OPERANDS)
    while used > 0:
        length = load_le_i8(operands, used - _LENGTH_BYTES)
        used -= length + _LENGTH_BYTES
        copy_words(target, operands + used, length)
        target += length
        if used > 0:
            store_1(target, 0, _DELIMITER)
            target += 1
    _put_bounds(merge, key_bytes, value_bytes)
    _set(merge, OPERANDS_USED, 0)
    _set(merge, OPERANDS_COUNT, 0)
    return True


@subroutine
def _put_value(merge: int, cursor: int, key_bytes: int) -> bool:
    """Put the entry of a key whose newest entry is a value into the page; return whether there was room for it."""
    value_bytes = 0 if _get(merge, KEYS_ONLY) else _get(cursor, VALUE_BYTES)
    if not _has_room(merge, key_bytes + value_bytes):
        return False
    target = _get(merge, PAGE) + _get(merge, PAGE_USED)
    copy_words(target, _get(cursor, KEY), key_bytes)
    copy_words(target + key_bytes, _get(cursor, VALUE), value_bytes)
    _put_bounds(merge, key_bytes, value_bytes)
    _set(merge, CURRENT, target)
    return True


# --- entries ---


@subroutine
def _take_first(merge: int, cursor: int, key_bytes: int) -> int:
    """Take the newest entry of a key: a value goes straight into the page, for other types only the key is kept."""
    kind = _get(cursor, ORDER) & 0xFF
    if kind == _VALUE or _get(merge, KEYS_ONLY) == ALL_KEYS:
        if not _put_value(merge, cursor, key_bytes):
            return PAGE_FULL
        _set(merge, IS_OPEN, 0)
    else:
        copy = _get(merge, CURRENT_COPY)
        copy_words(copy, _get(cursor, KEY), key_bytes)
        _set(merge, CURRENT, copy)
        _set(merge, IS_OPEN, 1)
    _set(merge, CURRENT_BYTES, key_bytes)
    return _MOVED


@subroutine
def _take(merge: int, cursor: int) -> int:
    """Take an entry of the current key that counts: all newer ones were operands."""
    kind = _get(cursor, ORDER) & 0xFF
    if kind in (_DELETION, _SINGLE_DELETION):
        _set(merge, IS_OPEN, 0)
        return _MOVED
    if kind not in (_VALUE, _MERGE):
        return UNKNOWN
    if kind == _MERGE and not _get(cursor, CAN_MERGE):
        return UNKNOWN
    if not _put_operand(merge, _get(cursor, VALUE), _get(cursor, VALUE_BYTES)):
        return NEED_OPERANDS
    if kind == _VALUE:
        _set(merge, IS_OPEN, 0)
    return _MOVED


@kernel
def merge_runs(merge: int) -> int:
    """Fill the page; return why the merge stopped. Call it again when Python did what it needs."""
    status = _start(merge)
    if status != _MOVED:
        return status
    while True:
        if _get(merge, ADVANCING):
            status = _advance_top(merge)
            if status != _MOVED:
                return status
        if _get(merge, HEAP_SIZE) == 0:
            return DONE if _put_joined(merge) else PAGE_FULL
        number = load_le_i8(_get(merge, HEAP), 0)
        _set(merge, WHICH, number)
        cursor = _cursor(merge, number)
        key = _get(cursor, KEY)
        key_bytes = _get(cursor, KEY_BYTES) - _SEQUENCE_BYTES
        current_bytes = _get(merge, CURRENT_BYTES)
        if key_bytes != current_bytes or compare_bytes(key, key_bytes, _get(merge, CURRENT), key_bytes) != 0:
            if not _put_joined(merge):
                return PAGE_FULL
            behind_bytes = _get(merge, BEHIND_BYTES)
            if behind_bytes >= 0 and compare_bytes(key, key_bytes, _get(merge, BEHIND), behind_bytes) >= 0:
                return DONE
            status = _take_first(merge, cursor, key_bytes)
            if status != _MOVED:
                return status
        if _get(merge, IS_OPEN):
            status = _take(merge, cursor)
            if status != _MOVED:
                return status
        _set(merge, ADVANCING, 1)
