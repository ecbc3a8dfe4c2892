"""The interpreter: encodes rows of columns into the bytes of their entries by a program.

`execute` is one dispatch loop over flat arrays, compiled as one function, with a branch for each instruction of
`readers/decode/instructions.py` and of `writers/encode/program.py`; the frequent ones come first. Before each there is room
for a number or a date, and a null where the instruction takes none stops the row; a branch that needs more room computes it, and
stops with FULL before it has written or taken anything if there is less.
"""

from __future__ import annotations

import numpy as np

from readers import instructions as op
from readers import (
    is_within,
    kernel,
    load_i2,
    load_i4,
    load_i8,
    load_le_i2,
    load_le_i4,
    load_le_i8,
    load_u1,
    store_1,
    store_2,
    store_4,
    store_8,
    store_be_2,
    store_be_4,
    store_be_8,
    target,
    word,
)
from writers.encode.machine import state
from writers.encode.machine.state import (
    CASE_TAG,
    CASE_TARGET,
    CURSOR,
    DATA,
    DATA_END,
    VALIDITY,
    VALUES,
    advance,
    byte_of,
    find_case,
    find_constant,
    frame,
    get_field,
    is_null,
    is_text,
    register,
    set_field,
    set_frame,
    set_register,
    skip_item,
    text_bounds,
)
from writers.encode.machine.values import (
    MAX_UTF_BYTES,
    NANOS_A_DAY,
    NANOS_A_MILLISECOND,
    NANOS_A_SECOND,
    bytes_of_128,
    civil_from_days,
    copy_bytes,
    floor_divide,
    put_128,
    put_char,
    put_decimal_text,
    put_string,
    put_utf,
    put_varint,
    split_millis,
)
from writers.encode.program import CHOOSE, REFUSE, REQUIRED, RESERVED

_MIN_I8 = -(2**63)
_MIN_I4 = -(2**31)
_MAX_INLINE_BYTES = 7  # of a text in its slot
_LARGE_DECIMAL_BYTES = 16
_LEAST_ROOM = 16  # most instructions write no more
_DELIMITER = 0x2C
# A varint has five bytes at most, and a copy writes up to seven bytes behind the text.
_TEXT_ROOM = 16


@kernel
def execute(
    instructions: int,
    targets: int,
    cases: int,
    pool: int,
    table: int,
    key_groups: int,
    segments: int,
    stop: int,
    output: int,
    capacity: int,
    ends: int,
    stack: int,
    registers: int,
) -> None:
    """Encode rows `registers[ROW]` to `stop`; return when done, when the output is full, or at an error.

    Args:
        instructions: int64 (n, WORDS); targets: int64; pool: uint8; see `readers.Code`. cases: int64; see `state.py`.
        table: int64 (columns, FIELDS); see `state.py`.
        key_groups: int32, the key group of each row; 0 if the program writes none.
        segments: the segments of an entry.
        stop: the first row not to encode.
        output: uint8 (capacity,). ends: int64 (rows, segments), the end of each segment in it.
        stack: int64 (depth, state.WORDS).
        registers: int64 (REGISTERS,); STATUS is FULL to go on at PC, DONE to begin row ROW.
    """
    row = register(registers, state.ROW)
    resume = register(registers, state.STATUS) == state.FULL
    pc = register(registers, state.PC)
    position = register(registers, state.POSITION)
    segment = register(registers, state.SEGMENT)
    top = register(registers, state.TOP)
    marked = register(registers, state.MARKED)
    status = state.DONE
    need = np.int64(0)
    detail = np.int64(0)
    column = np.int64(0)
    while row < stop:
        if not resume:
            pc = 0
            top = -1
            segment = 0
            marked = position
        resume = False
        while True:
            opcode = word(instructions, pc, op.OPCODE)
            column = word(instructions, pc, op.COLUMN)
            if opcode == op.END:
                break
            if capacity - position < _LEAST_ROOM:
                status, need = state.FULL, _LEAST_ROOM
                break
            if opcode >= REQUIRED:
                opcode -= REQUIRED
                if is_null(table, column):
                    status = state.NULL_VALUE
                    break
            # LLVM makes a jump table of these comparisons: their order costs nothing.
            if opcode == op.FIXED8:
                values = get_field(table, column, VALUES)
                store_be_8(output, position, load_le_i8(values, advance(table, column) * 8))
                position += 8
            elif opcode == op.FIXED4:
                values = get_field(table, column, VALUES)
                store_be_4(output, position, load_le_i4(values, advance(table, column) * 4))
                position += 4
            elif opcode == op.STRING:
                if is_null(table, column):
                    store_1(output, position, 0)
                    position += 1
                    skip_item(table, column)
                else:
                    start, end = text_bounds(table, column)
                    # A character of two bytes is a unit of two, one of three a unit of three, one of four two of three.
                    need = (end - start) * 3 // 2 + _TEXT_ROOM
                    if capacity - position < need:
                        status = state.FULL
                        break
                    at = put_string(
                        output,
                        position,
                        get_field(table, column, DATA),
                        start,
                        end,
                        get_field(table, column, DATA_END),
                        word(instructions, pc, op.NULLABLE),
                    )
                    if at < 0:
                        status = state.BAD_TEXT
                        break
                    position = at
                    advance(table, column)
            elif opcode == op.NULL_FLAG:
                need = 1 + word(instructions, pc, op.PADDING)
                if capacity - position < need:
                    status = state.FULL
                    break
                null_value = word(instructions, pc, op.NULL_VALUE)
                if is_null(table, column):
                    store_1(output, position, null_value)
                    for index in range(1, need):
                        store_1(output, position + index, 0)
                    position += need
                    skip_item(table, column)
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                store_1(output, position, 1 - null_value)
                position += 1
            elif opcode == op.STRUCT:
                advance(table, column)
            elif opcode == op.SKIP:
                need = word(instructions, pc, op.BYTES)
                if capacity - position < need:
                    status = state.FULL
                    break
                for index in range(need):
                    store_1(output, position + index, word(instructions, pc, op.FILL))
                position += need
            elif opcode == op.KEY_GROUP:
                group = load_le_i4(key_groups, row * 4)
                if word(instructions, pc, op.BYTES) == 1:
                    store_1(output, position, group)
                else:
                    store_be_2(output, position, group)
                position += word(instructions, pc, op.BYTES)
            elif opcode == op.SEGMENT:
                while segment < word(instructions, pc, op.SEGMENT_NUMBER):
                    store_8(ends, (row * segments + segment) * 8, position)
                    segment += 1
            elif opcode == op.LIST_NEXT:
                set_frame(stack, top, state.LEFT, frame(stack, top, state.LEFT) - 1)
                if frame(stack, top, state.LEFT) > 0:
                    pc = frame(stack, top, state.LOOP)
                    continue
                top -= 1
                advance(table, column)
            elif opcode == op.LIST or opcode == op.MASKED_LIST or opcode == op.BLOCKS:
                start, end = text_bounds(table, column)
                count = end - start
                mask = (count + 7) // 8 if opcode == op.MASKED_LIST else np.int64(0)
                need = 5 + mask
                if capacity - position < need:
                    status = state.FULL
                    break
                if opcode == op.BLOCKS:
                    # One block of all elements; an array without elements is the block that ends it.
                    position = put_varint(output, position, count)
                else:
                    store_be_4(output, position, count)
                    position += 4
                if count == 0:
                    advance(table, column)
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                top += 1
                set_frame(stack, top, state.LOOP, pc + 1)
                set_frame(stack, top, state.LEFT, count)
                set_frame(stack, top, state.COUNT, count)
                set_frame(stack, top, state.MASK, position)
                for index in range(mask):
                    store_1(output, position + index, 0)
                position += mask
            elif opcode == op.FIXED1 or opcode == op.BOOLEAN:
                store_1(output, position, byte_of(table, column))
                advance(table, column)
                position += 1
            elif opcode == op.FIXED2:
                values = get_field(table, column, VALUES)
                store_be_2(output, position, load_le_i2(values, advance(table, column) * 2))
                position += 2
            elif opcode == op.SWITCH or opcode == op.SWITCH_I4 or opcode == CHOOSE:
                first = word(instructions, pc, op.TABLE)
                case = find_case(table, cases, pool, first, word(instructions, pc, op.CASES))
                if case < 0:
                    status = state.NO_CASE
                    break
                tag = load_le_i8(cases, (case + CASE_TAG) * 8)
                if opcode == op.SWITCH:
                    store_1(output, position, tag)
                    position += 1
                elif opcode == op.SWITCH_I4:
                    store_be_4(output, position, tag)
                    position += 4
                pc = load_le_i8(cases, (case + CASE_TARGET) * 8)
                continue
            elif opcode == op.JUMP:
                pc = word(instructions, pc, op.BEHIND)
                continue
            elif opcode == op.NULL:
                if not is_null(table, column):
                    status = state.NOT_NULL
                    break
                skip_item(table, column)
            elif opcode == op.FIXED8_FLIPPED:
                values = get_field(table, column, VALUES)
                store_be_8(output, position, load_le_i8(values, advance(table, column) * 8) ^ _MIN_I8)
                position += 8
            elif opcode == op.MARK:
                marked = position
            elif opcode == op.LENGTH_SUFFIX:
                measured = position - marked
                store_1(output, position, measured)
                position += 1
                measured >>= 8
                while measured:
                    store_1(output, position, measured)
                    position += 1
                    measured >>= 8
                # The namespace follows, with a length of its own behind it.
                marked = position
            elif opcode == op.BLOB or opcode == op.TEXT or opcode == op.REST or opcode == op.RAW_BYTES:
                start, end = text_bounds(table, column)
                need = end - start + _TEXT_ROOM
                if capacity - position < need:
                    status = state.FULL
                    break
                if opcode == op.RAW_BYTES:
                    if end - start != word(instructions, pc, op.BYTES):
                        status, detail = state.WRONG_LENGTH, word(instructions, pc, op.BYTES)
                        break
                elif opcode != op.REST:
                    store_be_4(output, position, end - start)
                    position += 4
                data = get_field(table, column, DATA)
                copy_bytes(output, position, data, start, end, get_field(table, column, DATA_END))
                position += end - start
                advance(table, column)
            elif opcode == op.DELIMITED:
                start, end = text_bounds(table, column)
                if start == end:
                    advance(table, column)
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                top += 1
                set_frame(stack, top, state.LOOP, pc + 1)
                set_frame(stack, top, state.LEFT, end - start)
            elif opcode == op.DELIMITED_NEXT:
                set_frame(stack, top, state.LEFT, frame(stack, top, state.LEFT) - 1)
                if frame(stack, top, state.LEFT) > 0:
                    store_1(output, position, _DELIMITER)
                    position += 1
                    pc = frame(stack, top, state.LOOP)
                    continue
                top -= 1
                advance(table, column)
            elif opcode == op.BLOCKS_NEXT:
                set_frame(stack, top, state.LEFT, frame(stack, top, state.LEFT) - 1)
                if frame(stack, top, state.LEFT) > 0:
                    pc = frame(stack, top, state.LOOP)
                    continue
                store_1(output, position, 0)
                position += 1
                top -= 1
                advance(table, column)
            elif opcode == op.ELEMENT_MASKED:
                if is_null(table, column):
                    bit = frame(stack, top, state.COUNT) - frame(stack, top, state.LEFT)
                    at = frame(stack, top, state.MASK) + (bit >> 3)
                    store_1(output, at, load_u1(output, at) | (0x80 >> (bit & 7)))
                    skip_item(table, column)
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.PRIMITIVES:
                width = word(instructions, pc, op.WIDTH)
                start, end = text_bounds(table, column)
                count = end - start
                need = 4 + count * width
                if capacity - position < need:
                    status = state.FULL
                    break
                child = column + 1
                cursor = get_field(table, child, CURSOR)
                if get_field(table, child, VALIDITY):
                    while get_field(table, child, CURSOR) < cursor + count and not is_null(table, child):
                        advance(table, child)
                    if get_field(table, child, CURSOR) < cursor + count:
                        column = child
                        status = state.NULL_VALUE
                        break
                set_field(table, child, CURSOR, cursor + count)
                store_be_4(output, position, count)
                position += 4
                values = get_field(table, child, VALUES) + cursor * width
                if width == 8:
                    for index in range(count):
                        store_8(output, position + index * 8, load_i8(values, index * 8))
                elif width == 4:
                    for index in range(count):
                        store_4(output, position + index * 4, load_i4(values, index * 4))
                elif width == 2:
                    for index in range(count):
                        store_2(output, position + index * 2, load_i2(values, index * 2))
                else:
                    for index in range(count):
                        store_1(output, position + index, load_u1(values, index))
                position += count * width
                advance(table, column)
            elif opcode == op.CONSTANT:
                offset = word(instructions, pc, op.CONSTANT_OFFSET)
                size = word(instructions, pc, op.CONSTANT_BYTES)
                if not is_text(table, column, pool, offset, size):
                    status = state.OTHER_CONSTANT
                    break
                advance(table, column)
            elif opcode == op.ENUM:
                first = word(instructions, pc, op.TABLE)
                number = find_constant(table, column, pool, targets, first, word(instructions, pc, op.CASES))
                if number < 0:
                    status = state.NO_CONSTANT
                    break
                store_be_4(output, position, number)
                position += 4
                advance(table, column)
            elif opcode == op.MASK:
                need = word(instructions, pc, op.BYTES)
                if capacity - position < need:
                    status = state.FULL
                    break
                top += 1
                set_frame(stack, top, state.MASK, position)
                for index in range(need):
                    store_1(output, position + index, 0)
                position += need
            elif opcode == op.MASK_NULL:
                if is_null(table, column):
                    bit = word(instructions, pc, op.BIT)
                    at = frame(stack, top, state.MASK) + (bit >> 3)
                    store_1(output, at, load_u1(output, at) | (0x80 >> (bit & 7)))
                    skip_item(table, column)
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.MASK_KIND or opcode == op.ROW_KIND:
                number = np.int64(0)
                # A row without a kind is an insertion, as in Flink.
                if not is_null(table, column):
                    first = word(instructions, pc, op.TABLE)
                    count = word(instructions, pc, op.CASES) if opcode == op.ROW_KIND else np.int64(4)
                    number = find_constant(table, column, pool, targets, first, count)
                if number < 0:
                    status = state.NO_CONSTANT
                    break
                if opcode == op.ROW_KIND:
                    store_1(output, frame(stack, top, state.REGION), number)
                else:
                    # RowSerializer keeps the row kind in the first two bits of the mask, the less significant one first.
                    at = frame(stack, top, state.MASK)
                    bits = (number & 1) << 7 | (number >> 1) << 6
                    store_1(output, at, load_u1(output, at) | bits)
                advance(table, column)
            elif opcode == op.MASK_END:
                top -= 1
            elif opcode == op.CLASS:
                first = word(instructions, pc, op.TABLE)
                case = find_case(table, cases, pool, first, word(instructions, pc, op.CASES))
                if case < 0:
                    status = state.NO_CASE
                    break
                entry = load_le_i8(cases, (case + CASE_TAG) * 8)
                size = target(targets, entry + op.ENTRY_BYTES)
                need = 2 * size + _TEXT_ROOM
                if capacity - position < need:
                    status = state.FULL
                    break
                start = target(targets, entry + op.ENTRY_OFFSET)
                position = put_utf(output, position, pool, start, start + size)
                pc = load_le_i8(cases, (case + CASE_TARGET) * 8)
                continue
            elif opcode == op.UTF:
                start, end = text_bounds(table, column)
                need = (end - start) * 2 + _TEXT_ROOM
                if capacity - position < need:
                    status = state.FULL
                    break
                at = put_utf(output, position, get_field(table, column, DATA), start, end)
                if at < 0:
                    status = state.BAD_TEXT if at == -1 else state.TOO_LONG
                    detail = np.int64(MAX_UTF_BYTES)
                    break
                position = at
                advance(table, column)
            elif opcode == op.CHAR:
                start, end = text_bounds(table, column)
                if put_char(output, position, get_field(table, column, DATA), start, end):
                    status = state.OUT_OF_RANGE
                    break
                position += 2
                advance(table, column)
            elif opcode == op.BIG_INTEGER or opcode == op.BIG_DECIMAL:
                if is_null(table, column):
                    store_4(output, position, 0)
                    position += 4
                    skip_item(table, column)
                else:
                    start, end = text_bounds(table, column)
                    need = end - start + _TEXT_ROOM
                    if capacity - position < need:
                        status = state.FULL
                        break
                    data = get_field(table, column, DATA)
                    at = put_decimal_text(output, position, data, start, end, opcode == op.BIG_DECIMAL)
                    if at < 0:
                        status = state.NOT_A_NUMBER if at == -1 else state.OUT_OF_RANGE
                        break
                    position = at
                    advance(table, column)
            elif opcode == op.MILLIS:
                value = np.int64(_MIN_I8)
                if not is_null(table, column):
                    values = get_field(table, column, VALUES)
                    value = load_le_i8(values, get_field(table, column, CURSOR) * 8)
                    # It means null.
                    if value == _MIN_I8:
                        status = state.OUT_OF_RANGE
                        break
                store_be_8(output, position, value)
                position += 8
                advance(table, column)
            elif opcode == op.TIMESTAMP or opcode == op.INSTANT:
                if is_null(table, column):
                    store_be_8(output, position, _MIN_I8)
                    store_be_4(output, position + 8, _MIN_I4 if opcode == op.INSTANT else 0)
                else:
                    values = get_field(table, column, VALUES)
                    value = load_le_i8(values, get_field(table, column, CURSOR) * 8)
                    seconds = floor_divide(value, NANOS_A_SECOND)
                    # Of java.sql.Timestamp these are milliseconds, whose fraction the nanoseconds hold again.
                    first = seconds if opcode == op.INSTANT else floor_divide(value, NANOS_A_MILLISECOND)
                    store_be_8(output, position, first)
                    store_be_4(output, position + 8, value - seconds * NANOS_A_SECOND)
                position += 12
                advance(table, column)
            elif opcode == op.LOCAL_DATE or opcode == op.LOCAL_TIME or opcode == op.LOCAL_DATE_TIME:
                missing = is_null(table, column)
                cursor = get_field(table, column, CURSOR)
                values = get_field(table, column, VALUES)
                days = np.int64(0)
                nanos = np.int64(0)
                if not missing:
                    if opcode == op.LOCAL_DATE:
                        days = load_le_i4(values, cursor * 4)
                    elif opcode == op.LOCAL_TIME:
                        nanos = load_le_i8(values, cursor * 8)
                        if nanos < 0 or nanos >= NANOS_A_DAY:
                            status = state.OUT_OF_RANGE
                            break
                    else:
                        value = load_le_i8(values, cursor * 8)
                        days = floor_divide(value, NANOS_A_DAY)
                        nanos = value - days * NANOS_A_DAY
                if opcode != op.LOCAL_TIME:
                    if missing:
                        store_be_4(output, position, _MIN_I4)
                        store_be_2(output, position + 4, 0x8000)
                    else:
                        year, month, day = civil_from_days(days)
                        store_be_4(output, position, year)
                        store_1(output, position + 4, month)
                        store_1(output, position + 5, day)
                    position += 6
                if opcode != op.LOCAL_DATE:
                    if missing:
                        store_1(output, position, 0x80)
                        store_be_2(output, position + 1, 0x8000)
                        store_be_4(output, position + 3, _MIN_I4)
                    else:
                        seconds = floor_divide(nanos, NANOS_A_SECOND)
                        minutes = floor_divide(seconds, 60)
                        hours = floor_divide(minutes, 60)
                        store_1(output, position, hours)
                        store_1(output, position + 1, minutes - hours * 60)
                        store_1(output, position + 2, seconds - minutes * 60)
                        store_be_4(output, position + 3, nanos - seconds * NANOS_A_SECOND)
                    position += 7
                advance(table, column)
            elif opcode == op.DECIMAL:
                need = 4 + _LARGE_DECIMAL_BYTES + word(instructions, pc, op.BYTES)
                if capacity - position < need:
                    status = state.FULL
                    break
                values = get_field(table, column, VALUES) + get_field(table, column, CURSOR) * 16
                low = load_le_i8(values, 0)
                high = load_le_i8(values, 8)
                at = word(instructions, pc, op.PRECISION_BOUND)
                if not is_within(high, low, target(targets, at), target(targets, at + 1)):
                    status = state.OUT_OF_RANGE
                    break
                count = word(instructions, pc, op.BYTES)
                size = bytes_of_128(high, low)
                if word(instructions, pc, op.COMPACT):
                    count = np.int64(8)
                elif count == 0:
                    count = size
                    store_be_4(output, position, count)
                    position += 4
                elif size > count:
                    status, detail = state.WRONG_LENGTH, count
                    break
                put_128(output, position, high, low, count)
                position += count
                advance(table, column)
            elif opcode == op.TIMESTAMP_DATA:
                value = load_le_i8(get_field(table, column, VALUES), advance(table, column) * 8)
                millis, nanos = split_millis(value, word(instructions, pc, op.NANOS_A_UNIT))
                store_be_8(output, position, millis)
                store_be_4(output, position + 8, nanos)
                position += 12
            elif opcode == op.BINARY:
                top += 1
                set_frame(stack, top, state.PATCH, position)
                position += 4
                set_frame(stack, top, state.REGION, position)
                set_frame(stack, top, state.SLOTS, position)
                set_frame(stack, top, state.KIND, opcode)
            elif opcode == op.BINARY_SLOT or opcode == op.BINARY_KEYS or opcode == op.BINARY_VALUES:
                patch = position
                if opcode == op.BINARY_SLOT:
                    patch = frame(stack, top, state.SLOTS) + word(instructions, pc, op.SLOT)
                if opcode == op.BINARY_KEYS:
                    position += 4
                top += 1
                set_frame(stack, top, state.PATCH, patch)
                set_frame(stack, top, state.REGION, position)
                set_frame(stack, top, state.SLOTS, position)
                set_frame(stack, top, state.KIND, opcode)
            elif opcode == op.BINARY_END:
                region = frame(stack, top, state.REGION)
                patch = frame(stack, top, state.PATCH)
                kind = frame(stack, top, state.KIND)
                size = position - region
                top -= 1
                if kind == op.BINARY:
                    store_be_4(output, patch, size)
                elif kind == op.BINARY_KEYS:
                    store_4(output, patch, size)
                elif kind == op.BINARY_SLOT:
                    store_8(output, patch, (region - frame(stack, top, state.REGION)) << 32 | size)
                    # What follows begins at a multiple of 8 bytes of the region around this one.
                    for _ in range(-size & 7):
                        store_1(output, position, 0)
                        position += 1
            elif opcode == op.ROW:
                need = word(instructions, pc, op.BYTES)
                if capacity - position < need:
                    status = state.FULL
                    break
                for index in range(need // 8):
                    store_8(output, position + index * 8, 0)
                position += need
            elif opcode == op.SLOT_NULL:
                if is_null(table, column):
                    # A decimal or timestamp that is null may own the room of a value; see `Encoder`.
                    need = word(instructions, pc, RESERVED)
                    if capacity - position < need:
                        status = state.FULL
                        break
                    region = frame(stack, top, state.REGION)
                    if need:
                        slot = frame(stack, top, state.SLOTS) + word(instructions, pc + 1, op.SLOT)
                        store_8(output, slot, (position - region) << 32)
                        for index in range(need // 8):
                            store_8(output, position + index * 8, 0)
                        position += need
                    bit = word(instructions, pc, op.BIT)
                    at = region + (bit >> 3)
                    # The least significant bit first, unlike the masks of RowSerializer.
                    store_1(output, at, load_u1(output, at) | 1 << (bit & 7))
                    skip_item(table, column)
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.SLOT8:
                slot = frame(stack, top, state.SLOTS) + word(instructions, pc, op.SLOT)
                values = get_field(table, column, VALUES)
                store_8(output, slot, load_le_i8(values, advance(table, column) * 8))
            elif opcode == op.SLOT4:
                slot = frame(stack, top, state.SLOTS) + word(instructions, pc, op.SLOT)
                values = get_field(table, column, VALUES)
                value = load_le_i4(values, get_field(table, column, CURSOR) * 4)
                bound = word(instructions, pc, op.BOUND)
                if bound and (value < 0 or value >= bound):
                    status = state.OUT_OF_RANGE
                    break
                store_4(output, slot, value)
                advance(table, column)
            elif opcode == op.SLOT2:
                slot = frame(stack, top, state.SLOTS) + word(instructions, pc, op.SLOT)
                values = get_field(table, column, VALUES)
                store_2(output, slot, load_le_i2(values, advance(table, column) * 2))
            elif opcode == op.SLOT1:
                slot = frame(stack, top, state.SLOTS) + word(instructions, pc, op.SLOT)
                store_1(output, slot, byte_of(table, column))
                advance(table, column)
            elif opcode == op.SLOT_TEXT or opcode == op.SLOT_BYTES:
                slot = frame(stack, top, state.SLOTS) + word(instructions, pc, op.SLOT)
                start, end = text_bounds(table, column)
                data = get_field(table, column, DATA)
                size = end - start
                if size <= _MAX_INLINE_BYTES:
                    # The most significant bit marks a text in the slot: length in the other bits of that byte.
                    for index in range(size):
                        store_1(output, slot + index, load_u1(data, start + index))
                    store_1(output, slot + 7, 0x80 | size)
                else:
                    need = size + _TEXT_ROOM
                    if capacity - position < need:
                        status = state.FULL
                        break
                    store_8(output, slot, (position - frame(stack, top, state.REGION)) << 32 | size)
                    copy_bytes(output, position, data, start, end, get_field(table, column, DATA_END))
                    position += size
                    for _ in range(-size & 7):
                        store_1(output, position, 0)
                        position += 1
                advance(table, column)
            elif opcode == op.SLOT_DECIMAL:
                slot = frame(stack, top, state.SLOTS) + word(instructions, pc, op.SLOT)
                values = get_field(table, column, VALUES) + get_field(table, column, CURSOR) * 16
                low = load_le_i8(values, 0)
                high = load_le_i8(values, 8)
                at = word(instructions, pc, op.PRECISION_BOUND)
                if not is_within(high, low, target(targets, at), target(targets, at + 1)):
                    status = state.OUT_OF_RANGE
                    break
                if word(instructions, pc, op.COMPACT):
                    store_8(output, slot, low)
                else:
                    size = bytes_of_128(high, low)
                    store_8(output, slot, (position - frame(stack, top, state.REGION)) << 32 | size)
                    store_8(output, position, 0)
                    store_8(output, position + 8, 0)
                    put_128(output, position, high, low, size)
                    position += _LARGE_DECIMAL_BYTES
                advance(table, column)
            elif opcode == op.SLOT_TIMESTAMP:
                slot = frame(stack, top, state.SLOTS) + word(instructions, pc, op.SLOT)
                value = load_le_i8(get_field(table, column, VALUES), advance(table, column) * 8)
                millis, nanos = split_millis(value, word(instructions, pc, op.NANOS_A_UNIT))
                offset = position - frame(stack, top, state.REGION)
                store_8(output, slot, offset << 32 | nanos)
                store_8(output, position, millis)
                position += 8
            elif opcode == op.ARRAY:
                start, end = text_bounds(table, column)
                count = end - start
                header = 4 + (count + 31) // 32 * 4
                need = (header + count * word(instructions, pc, op.WIDTH) + 7) // 8 * 8
                if capacity - position < need:
                    status = state.FULL
                    break
                region = position
                for index in range(need // 8):
                    store_8(output, position + index * 8, 0)
                store_4(output, position, count)
                position += need
                if count == 0:
                    if word(instructions, pc, op.IN_MAP) == 0:
                        advance(table, column)
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                set_frame(stack, top, state.LOOP, pc + 1)
                set_frame(stack, top, state.LEFT, count)
                set_frame(stack, top, state.COUNT, count)
                set_frame(stack, top, state.SLOTS, region + header)
            elif opcode == op.ELEMENT_NULL:
                if is_null(table, column):
                    bit = frame(stack, top, state.COUNT) - frame(stack, top, state.LEFT)
                    at = frame(stack, top, state.REGION) + 4 + (bit >> 3)
                    store_1(output, at, load_u1(output, at) | 1 << (bit & 7))
                    skip_item(table, column)
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.ARRAY_NEXT:
                set_frame(stack, top, state.LEFT, frame(stack, top, state.LEFT) - 1)
                set_frame(
                    stack,
                    top,
                    state.SLOTS,
                    frame(stack, top, state.SLOTS) + word(instructions, pc, op.WIDTH),
                )
                if frame(stack, top, state.LEFT) > 0:
                    pc = frame(stack, top, state.LOOP)
                    continue
                if word(instructions, pc, op.IN_MAP) == 0:
                    advance(table, column)
            elif opcode == op.MAP_END:
                # Keys and values were taken beside each other; the struct of both has as many items more.
                start, end = text_bounds(table, column)
                child = column + 1
                set_field(table, child, CURSOR, get_field(table, child, CURSOR) + end - start)
                advance(table, column)
            elif opcode == op.PYTHON:
                status = state.LEAF
                break
            elif opcode == REFUSE:
                status = state.HIDDEN
                break
            pc += 1
        if status != state.DONE:
            break
        while segment < segments:
            store_8(ends, (row * segments + segment) * 8, position)
            segment += 1
        row += 1
    set_register(registers, state.STATUS, status)
    set_register(registers, state.ROW, row)
    set_register(registers, state.PC, pc)
    set_register(registers, state.POSITION, position)
    set_register(registers, state.SEGMENT, segment)
    set_register(registers, state.TOP, top)
    set_register(registers, state.MARKED, marked)
    set_register(registers, state.ROOM, need)
    set_register(registers, state.COLUMN, column)
    set_register(registers, state.DETAIL, detail)
