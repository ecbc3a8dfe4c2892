"""The interpreter: decodes the entries of a page into column arenas by a program.

`execute` is one dispatch loop over flat arrays, compiled as one function, with a branch for each instruction of
`readers/decode/instructions.py`; the frequent ones come first. Its arrays are described in `columns.py` and
`registers.py`. Every length is compared with the bytes that are left in the segment before it is believed, so that
hostile bytes end in a status of `registers.py`. `measure` and `measure_each` are the loops of a walker.

Where an instruction has no column, `column` is -1: its bytes are checked and stepped over, and nothing is written.
"""

from __future__ import annotations

import numpy as np

from readers.compiled.kernel import kernel
from readers.decode import instructions as op
from readers.decode.columns import LENGTH, VALUES
from readers.decode.loads import (
    load_i2,
    load_i4,
    load_i8,
    load_le_i2,
    load_le_i4,
    load_le_i8,
    load_u1,
    load_u2,
    store_1,
    store_2,
    store_4,
    store_8,
)
from readers.decode.machine.blocks import BLOCK_ENTRIES, DECODED, UNFIT, decode_block
from readers.decode.machine.columns import (
    MAX_BIG_INTEGER_BYTES,
    MAX_DECIMAL_BYTES,
    NANOS_A_SECOND,
    SECONDS_A_DAY,
    close_list,
    close_variable,
    days_from_civil,
    get_field,
    nanos_since_epoch,
    put1,
    put2,
    put4,
    put8,
    put_bytes,
    put_constant,
    put_decimal128,
    put_decimal_text,
    put_items,
    put_nulls,
    put_timestamp,
    read_two_complement,
    sign_bytes,
)
from readers.decode.machine.registers import (
    BAD_CLASS,
    BAD_COUNT,
    BAD_DATE,
    BAD_DELIMITER,
    BAD_FLAG,
    BAD_INDEX,
    BAD_SUFFIX,
    BAD_TAG,
    BAD_TEXT,
    CALL,
    DETAIL_A,
    DETAIL_B,
    DONE,
    FRAME_COUNT,
    FRAME_LEFT,
    FRAME_LIMIT,
    FRAME_LOOP,
    FRAME_MASK,
    FRAME_POSITION,
    FRAME_REGION,
    FRAME_SLOTS,
    FULL,
    KEPT,
    LIMIT,
    MARKED,
    OUT_OF_RANGE,
    PC,
    POSITION,
    READ,
    ROW,
    STATUS,
    TOO_SHORT,
    TOP,
    TRAILING,
    frame,
    register,
    set_frame,
    set_register,
    target,
    word,
)
from readers.decode.machine.text import (
    is_equal,
    put_char,
    put_modified_utf8,
    put_string,
    put_utf8,
    read_varint,
)

# Elements without bytes (a tuple of nothing, a class without fields): the input does not bound their count.
_MAX_ZERO_WIDTH = 1 << 24
_MIN_I8 = -(2**63)
_MIN_I4 = -(2**31)
_MAX_I4 = 2**31 - 1
_MAX_INLINE_BYTES = 7  # of a text in its slot, whose last byte is flag and length
_DELIMITER = 0x2C


@kernel
def execute(
    instructions: int,
    targets: int,
    pool: int,
    data: int,
    starts: int,
    ends: int,
    segments: int,
    stop: int,
    table: int,
    memory: int,
    stack: int,
    registers: int,
) -> None:
    """Decode entries `registers[ROW]` to `stop`; return when done, full, at a Python leaf or at an error.

    Args:
        instructions: int64 (n, WORDS); targets: int64; pool: uint8; see `Code`.
        data: uint8, the page's buffer; starts, ends: int64 (entries, segments).
        segments: the segments of an entry.
        stop: the first entry not to decode.
        table: int64 (columns, FIELDS); memory: uint8; see `Arena`.
        stack: int64 (depth, FRAME_WORDS).
        registers: int64 (REGISTERS,); STATUS is CALL to go on at PC, DONE to begin entry ROW.
    """
    row = register(registers, ROW)
    resume = register(registers, STATUS) == CALL
    pc = register(registers, PC)
    position = register(registers, POSITION)
    limit = register(registers, LIMIT)
    top = register(registers, TOP)
    marked = register(registers, MARKED)
    # Bytes that the last entry read between REPEATED and REPEATED_END, and their number; 0 for none.
    repeated = 0
    repeated_bytes = 0
    status = DONE
    detail_a = 0
    detail_b = 0
    # The first entry from which on blocks are tried: a program with Python leaves has none.
    alone = stop if resume else row
    pause = BLOCK_ENTRIES
    while row < stop:
        if row >= alone and stop - row >= BLOCK_ENTRIES and not resume:
            found = decode_block(instructions, targets, data, starts, ends, segments, row, table, memory)
            if found == DECODED:
                row += BLOCK_ENTRIES
                pause = BLOCK_ENTRIES
                continue
            # The more blocks in turn are not regular, the more entries are decoded before another is tried.
            alone = stop if found == UNFIT else row + pause
            pause *= 2
        # After a Python leaf the entry goes on where it stopped; position and PC are set behind the leaf by then.
        if not resume:
            pc = 0
            top = -1
            position = load_le_i8(starts, row * segments * 8)
            limit = load_le_i8(ends, row * segments * 8)
            marked = position
        resume = False
        while True:
            opcode = word(instructions, pc, op.OPCODE)
            column = word(instructions, pc, op.COLUMN)
            if opcode == op.END:
                break
            # LLVM makes a jump table of these comparisons: their order costs nothing.
            if opcode == op.FIXED8:
                if limit - position < 8:
                    status, detail_a = TOO_SHORT, 8
                    break
                if column >= 0 and put8(table, memory, column, load_i8(data, position)):
                    status = FULL
                    break
                position += 8
            elif opcode == op.FIXED4:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                if column >= 0 and put4(table, memory, column, load_i4(data, position)):
                    status = FULL
                    break
                position += 4
            elif opcode == op.STRING:
                units, position = read_varint(data, position, limit)
                if position < 0:
                    status = BAD_TEXT
                    break
                if word(instructions, pc, op.NULLABLE):
                    if units == 0:
                        if column >= 0 and put_nulls(table, memory, column):
                            status = FULL
                            break
                        pc += 1
                        continue
                    units -= 1
                if units > limit - position:
                    status, detail_a = TOO_SHORT, units
                    break
                position, status = put_string(table, memory, column, data, position, limit, units)
                if status != DONE:
                    break
            elif opcode == op.NULL_FLAG:
                if position >= limit:
                    status, detail_a = TOO_SHORT, 1
                    break
                flag = load_u1(data, position)
                if flag > 1:
                    status, detail_a = BAD_FLAG, flag
                    break
                position += 1
                if flag == word(instructions, pc, op.NULL_VALUE):
                    if limit - position < word(instructions, pc, op.PADDING):
                        status, detail_a = TOO_SHORT, word(instructions, pc, op.PADDING)
                        break
                    position += word(instructions, pc, op.PADDING)
                    if column >= 0 and put_nulls(table, memory, column):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.STRUCT:
                if column >= 0 and put_items(table, column, 1):
                    status = FULL
                    break
            elif opcode == op.SKIP or opcode == op.KEY_GROUP:
                if limit - position < word(instructions, pc, op.BYTES):
                    status, detail_a = TOO_SHORT, word(instructions, pc, op.BYTES)
                    break
                position += word(instructions, pc, op.BYTES)
            elif opcode == op.REPEATED:
                if 0 < repeated_bytes <= limit - position and is_equal(
                    data, position, repeated, repeated_bytes
                ):
                    position += repeated_bytes
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                repeated = position
                repeated_bytes = 0
            elif opcode == op.REPEATED_END:
                repeated_bytes = position - repeated
            elif opcode == op.SEGMENT:
                segment = row * segments + word(instructions, pc, op.SEGMENT_NUMBER)
                position = load_le_i8(starts, segment * 8)
                limit = load_le_i8(ends, segment * 8)
            elif opcode == op.EXPECT_END:
                if position != limit:
                    status, detail_a = TRAILING, limit - position
                    break
            elif opcode == op.LIST_NEXT:
                set_frame(stack, top, FRAME_LEFT, frame(stack, top, FRAME_LEFT) - 1)
                if frame(stack, top, FRAME_LEFT) > 0:
                    pc = frame(stack, top, FRAME_LOOP)
                    continue
                top -= 1
                if column >= 0 and close_list(table, memory, column):
                    status = FULL
                    break
            elif opcode == op.LIST:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(data, position)
                # A count of 2^31 elements must not be believed because four bytes say so.
                least = word(instructions, pc, op.LEAST_BYTES)
                if (
                    count < 0
                    or count * least > limit - position - 4
                    or (least == 0 and count > _MAX_ZERO_WIDTH)
                ):
                    status, detail_a = BAD_COUNT, count
                    break
                position += 4
                if count == 0:
                    if column >= 0 and close_list(table, memory, column):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                top += 1
                set_frame(stack, top, FRAME_LOOP, pc + 1)
                set_frame(stack, top, FRAME_LEFT, count)
            elif opcode == op.FIXED1:
                if position >= limit:
                    status, detail_a = TOO_SHORT, 1
                    break
                if column >= 0 and put1(table, memory, column, load_u1(data, position)):
                    status = FULL
                    break
                position += 1
            elif opcode == op.FIXED2:
                if limit - position < 2:
                    status, detail_a = TOO_SHORT, 2
                    break
                if column >= 0 and put2(table, memory, column, load_i2(data, position)):
                    status = FULL
                    break
                position += 2
            elif opcode == op.BOOLEAN:
                if position >= limit:
                    status, detail_a = TOO_SHORT, 1
                    break
                flag = load_u1(data, position)
                if flag > 1:
                    status, detail_a = BAD_FLAG, flag
                    break
                if column >= 0 and put1(table, memory, column, flag):
                    status = FULL
                    break
                position += 1
            elif opcode == op.SWITCH:
                if position >= limit:
                    status, detail_a = TOO_SHORT, 1
                    break
                tag = load_u1(data, position)
                following = np.int64(op.NOWHERE)
                if tag < word(instructions, pc, op.CASES):
                    following = target(targets, word(instructions, pc, op.TABLE) + tag)
                if following == op.NOWHERE:
                    status, detail_a = BAD_TAG, tag
                    break
                position += 1
                pc = following
                continue
            elif opcode == op.JUMP:
                pc = word(instructions, pc, op.BEHIND)
                continue
            elif opcode == op.NULL:
                if column >= 0 and put_nulls(table, memory, column):
                    status = FULL
                    break
            elif opcode == op.FIXED8_FLIPPED:
                if limit - position < 8:
                    status, detail_a = TOO_SHORT, 8
                    break
                if column >= 0 and put8(table, memory, column, load_i8(data, position) ^ _MIN_I8):
                    status = FULL
                    break
                position += 8
            elif opcode == op.MARK:
                marked = position
            elif opcode == op.LENGTH_SUFFIX:
                # CompositeKeySerializationUtils#writeVariableIntBytes writes no leading zeros, but at least a byte.
                measured = position - marked
                size = 1
                while size < 8 and measured >> (8 * size):
                    size += 1
                if limit - position < size:
                    status, detail_a = TOO_SHORT, size
                    break
                stored = 0
                for index in range(size):
                    stored |= load_u1(data, position + index) << (8 * index)
                if stored != measured:
                    status, detail_a, detail_b = BAD_SUFFIX, stored, measured
                    break
                position += size
                # The namespace follows, with a length of its own behind it.
                marked = position
            elif opcode == op.BLOB:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(data, position)
                if count < 0 or count > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                if column >= 0 and put_bytes(table, memory, column, data, position + 4, count):
                    status = FULL
                    break
                position += 4 + count
            elif opcode == op.REST:
                if column >= 0 and put_bytes(table, memory, column, data, position, limit - position):
                    status = FULL
                    break
                position = limit
            elif opcode == op.DELIMITED:
                if position >= limit:
                    if column >= 0 and close_list(table, memory, column):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                top += 1
                set_frame(stack, top, FRAME_LOOP, pc + 1)
            elif opcode == op.DELIMITED_NEXT:
                if position < limit:
                    if load_u1(data, position) != _DELIMITER:
                        status, detail_a = BAD_DELIMITER, load_u1(data, position)
                        break
                    position += 1
                    pc = frame(stack, top, FRAME_LOOP)
                    continue
                top -= 1
                if column >= 0 and close_list(table, memory, column):
                    status = FULL
                    break
            elif opcode == op.ELEMENTS:
                count = register(registers, KEPT)
                set_register(registers, READ, 0)
                if word(instructions, pc, op.COUNTED):
                    if limit - position < 4:
                        status, detail_a = TOO_SHORT, 4
                        break
                    count = min(count, load_i4(data, position))
                    position += 4
                elif position >= limit:
                    count = 0
                if count <= 0:
                    if column >= 0 and (
                        put_nulls(table, memory, column + 1) or close_list(table, memory, column)
                    ):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                top += 1
                set_frame(stack, top, FRAME_LOOP, pc + 1)
                set_frame(stack, top, FRAME_LEFT, count)
            elif opcode == op.ELEMENTS_NEXT:
                set_register(registers, READ, register(registers, READ) + 1)
                count = frame(stack, top, FRAME_LEFT) - 1
                set_frame(stack, top, FRAME_LEFT, count)
                if not word(instructions, pc, op.COUNTED):
                    if position >= limit:
                        count = 0
                    elif load_u1(data, position) != _DELIMITER:
                        status, detail_a = BAD_DELIMITER, load_u1(data, position)
                        break
                    else:
                        position += 1
                if count > 0:
                    pc = frame(stack, top, FRAME_LOOP)
                    continue
                top -= 1
                if column >= 0 and (
                    put_nulls(table, memory, column + 1) or close_list(table, memory, column)
                ):
                    status = FULL
                    break
            elif opcode == op.PRIMITIVES:
                width = word(instructions, pc, op.WIDTH)
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(data, position)
                if count < 0 or count * width > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                position += 4
                if column >= 0:
                    base = get_field(table, column + 1, VALUES) + get_field(table, column + 1, LENGTH) * width
                    if put_items(table, column + 1, count):
                        status = FULL
                        break
                    for index in range(count):
                        if width == 8:
                            store_8(memory, base + index * 8, load_i8(data, position + index * 8))
                        elif width == 4:
                            store_4(memory, base + index * 4, load_i4(data, position + index * 4))
                        elif width == 2:
                            store_2(memory, base + index * 2, load_i2(data, position + index * 2))
                        else:
                            store_1(memory, base + index, load_u1(data, position + index))
                    if close_list(table, memory, column):
                        status = FULL
                        break
                position += count * width
            elif opcode == op.CONSTANT:
                offset = word(instructions, pc, op.CONSTANT_OFFSET)
                count = word(instructions, pc, op.CONSTANT_BYTES)
                if column >= 0 and put_bytes(table, memory, column, pool, offset, count):
                    status = FULL
                    break
            elif opcode == op.ENUM:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                index = load_i4(data, position)
                if index < 0 or index >= word(instructions, pc, op.CASES):
                    status, detail_a, detail_b = BAD_INDEX, index, word(instructions, pc, op.CASES)
                    break
                entry = word(instructions, pc, op.TABLE) + op.CONSTANT_WORDS * index
                if column >= 0 and put_constant(table, memory, column, pool, targets, entry):
                    status = FULL
                    break
                position += 4
            elif opcode == op.MASK:
                size = word(instructions, pc, op.BYTES)
                if limit - position < size:
                    status, detail_a = TOO_SHORT, size
                    break
                top += 1
                set_frame(stack, top, FRAME_MASK, position)
                position += size
            elif opcode == op.MASK_NULL:
                bit = word(instructions, pc, op.BIT)
                if load_u1(data, frame(stack, top, FRAME_MASK) + (bit >> 3)) & (0x80 >> (bit & 7)):
                    if column >= 0 and put_nulls(table, memory, column):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.MASK_KIND:
                # RowSerializer keeps the row kind in the first two bits of the mask, the less significant one first.
                byte = load_u1(data, frame(stack, top, FRAME_MASK))
                kind = (byte >> 7) + 2 * (byte >> 6 & 1)
                entry = word(instructions, pc, op.TABLE) + op.CONSTANT_WORDS * kind
                if column >= 0 and put_constant(table, memory, column, pool, targets, entry):
                    status = FULL
                    break
            elif opcode == op.MASK_END:
                top -= 1
            elif opcode == op.CLASS:
                if limit - position < 2:
                    status, detail_a = TOO_SHORT, 2
                    break
                count = load_u2(data, position)
                if count > limit - position - 2:
                    status, detail_a = TOO_SHORT, count
                    break
                following = np.int64(op.NOWHERE)
                for index in range(word(instructions, pc, op.CASES)):
                    entry = word(instructions, pc, op.TABLE) + op.CLASS_WORDS * index
                    if target(targets, entry + op.ENTRY_BYTES) == count:
                        name = target(targets, entry + op.ENTRY_OFFSET)
                        same = True
                        for offset in range(count):
                            if load_u1(data, position + 2 + offset) != load_u1(pool, name + offset):
                                same = False
                                break
                        if same:
                            following = target(targets, entry + op.ENTRY_TARGET)
                if following == op.NOWHERE:
                    status, detail_a = BAD_CLASS, count
                    break
                position += 2 + count
                pc = following
                continue
            elif opcode == op.UTF:
                if limit - position < 2:
                    status, detail_a = TOO_SHORT, 2
                    break
                count = load_u2(data, position)
                if count > limit - position - 2:
                    status, detail_a = TOO_SHORT, count
                    break
                if column >= 0:
                    status = put_modified_utf8(table, memory, column, data, position + 2, count)
                    if status != DONE:
                        break
                position += 2 + count
            elif opcode == op.CHAR:
                if limit - position < 2:
                    status, detail_a = TOO_SHORT, 2
                    break
                if column >= 0 and put_char(table, memory, column, load_u2(data, position)):
                    status = FULL
                    break
                position += 2
            elif opcode == op.BIG_INTEGER or opcode == op.BIG_DECIMAL:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                # BigIntSerializer writes the length + 4: 0 is null, 1 to 3 are the numbers 0, 1 and 10.
                encoded = load_i4(data, position)
                size = encoded - 4 if encoded > 4 else 0
                if encoded < 0 or encoded == 4 or size > limit - position - 4:
                    status, detail_a = BAD_COUNT, encoded
                    break
                if size > MAX_BIG_INTEGER_BYTES:
                    status, detail_a = OUT_OF_RANGE, size
                    break
                start = position + 4
                position = start + size
                if encoded == 0:
                    if column >= 0 and put_nulls(table, memory, column):
                        status = FULL
                        break
                    pc += 1
                    continue
                scale = 0
                if opcode == op.BIG_DECIMAL:
                    if limit - position < 4:
                        status, detail_a = TOO_SHORT, 4
                        break
                    scale = load_i4(data, position)
                    position += 4
                small = 10 if encoded == 3 else encoded - 1
                if column >= 0 and put_decimal_text(table, memory, column, data, start, size, small, scale):
                    status = FULL
                    break
            elif opcode == op.MILLIS:
                if limit - position < 8:
                    status, detail_a = TOO_SHORT, 8
                    break
                # DateSerializer writes Long.MIN_VALUE for null.
                value = load_i8(data, position)
                if column >= 0:
                    if value == _MIN_I8:
                        if put_nulls(table, memory, column):
                            status = FULL
                            break
                    elif put8(table, memory, column, value):
                        status = FULL
                        break
                position += 8
            elif opcode == op.TIMESTAMP or opcode == op.INSTANT:
                if limit - position < 12:
                    status, detail_a = TOO_SHORT, 12
                    break
                seconds = load_i8(data, position)
                nanos = load_i4(data, position + 8)
                # Null is Long.MIN_VALUE, then 0 (SqlTimestampSerializer) or Integer.MIN_VALUE (InstantSerializer).
                if seconds == _MIN_I8 and (nanos == 0 or nanos == _MIN_I4):
                    if column >= 0 and put_nulls(table, memory, column):
                        status = FULL
                        break
                else:
                    if nanos < 0 or nanos >= NANOS_A_SECOND:
                        status, detail_a = BAD_DATE, nanos
                        break
                    # Of java.sql.Timestamp these are milliseconds, whose fraction the nanoseconds hold again.
                    if opcode == op.TIMESTAMP:
                        seconds = seconds // 1000
                    value, fits = nanos_since_epoch(seconds, nanos)
                    if column >= 0:
                        if not fits:
                            status, detail_a = OUT_OF_RANGE, seconds
                            break
                        if put8(table, memory, column, value):
                            status = FULL
                            break
                position += 12
            elif opcode == op.LOCAL_DATE or opcode == op.LOCAL_TIME or opcode == op.LOCAL_DATE_TIME:
                with_date = opcode != op.LOCAL_TIME
                with_time = opcode != op.LOCAL_DATE
                size = 6 * with_date + 7 * with_time
                if limit - position < size:
                    status, detail_a = TOO_SHORT, size
                    break
                days = np.int64(0)
                nanos = np.int64(0)
                missing = False
                at = position
                if with_date:
                    year = load_i4(data, at)
                    month = load_u1(data, at + 4)
                    day = load_u1(data, at + 5)
                    # LocalDateSerializer writes Integer.MIN_VALUE and Short.MIN_VALUE for null.
                    missing = year == _MIN_I4 and month == 0x80 and day == 0
                    if not missing and (month < 1 or month > 12 or day < 1 or day > 31):
                        status, detail_a = BAD_DATE, month * 100 + day
                        break
                    if not missing:
                        days = days_from_civil(year, month, day)
                    at += 6
                if with_time:
                    hour = load_u1(data, at)
                    minute = load_u1(data, at + 1)
                    second = load_u1(data, at + 2)
                    nano = load_i4(data, at + 3)
                    # LocalTimeSerializer writes Byte.MIN_VALUE, Short.MIN_VALUE and Integer.MIN_VALUE for null.
                    if hour == 0x80 and minute == 0x80 and second == 0 and nano == _MIN_I4:
                        missing = True
                    elif hour > 23 or minute > 59 or second > 59 or nano < 0 or nano >= NANOS_A_SECOND:
                        status, detail_a = BAD_DATE, hour * 10_000 + minute * 100 + second
                        break
                    else:
                        nanos = ((hour * 60 + minute) * 60 + second) * NANOS_A_SECOND + nano
                if column >= 0:
                    full = False
                    if missing:
                        full = put_nulls(table, memory, column)
                    elif not with_date:
                        full = put8(table, memory, column, nanos)
                    elif not with_time:
                        if days > _MAX_I4 or days < _MIN_I4:
                            status, detail_a = OUT_OF_RANGE, days
                            break
                        full = put4(table, memory, column, days)
                    else:
                        value, fits = nanos_since_epoch(days * SECONDS_A_DAY, nanos)
                        if not fits:
                            status, detail_a = OUT_OF_RANGE, days
                            break
                        full = put8(table, memory, column, value)
                    if full:
                        status = FULL
                        break
                position += size
            elif opcode == op.PYTHON:
                status = CALL
                break
            elif opcode == op.TEXT:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(data, position)
                if count < 0 or count > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                if column >= 0 and put_utf8(table, memory, column, data, position + 4, count):
                    status = FULL
                    break
                position += 4 + count
            elif opcode == op.RAW_BYTES:
                count = word(instructions, pc, op.BYTES)
                if limit - position < count:
                    status, detail_a = TOO_SHORT, count
                    break
                if column >= 0 and put_bytes(table, memory, column, data, position, count):
                    status = FULL
                    break
                position += count
            elif opcode == op.SWITCH_I4:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                tag = load_i4(data, position)
                following = np.int64(op.NOWHERE)
                if tag >= 0 and tag < word(instructions, pc, op.CASES):
                    following = target(targets, word(instructions, pc, op.TABLE) + tag)
                if following == op.NOWHERE:
                    status, detail_a = BAD_TAG, tag
                    break
                position += 4
                pc = following
                continue
            elif opcode == op.BLOCKS or opcode == op.BLOCKS_NEXT:
                if opcode == op.BLOCKS_NEXT:
                    set_frame(stack, top, FRAME_LEFT, frame(stack, top, FRAME_LEFT) - 1)
                    if frame(stack, top, FRAME_LEFT) > 0:
                        pc = frame(stack, top, FRAME_LOOP)
                        continue
                count, behind = read_varint(data, position, limit)
                if behind < 0:
                    status, detail_a = TOO_SHORT, 1
                    break
                # Elements without bytes are counted over all blocks: each block costs bytes, but holds any number.
                least = word(instructions, pc, op.LEAST_BYTES)
                if opcode == op.BLOCKS:
                    top += 1
                    set_frame(stack, top, FRAME_LOOP, pc + 1)
                    set_frame(stack, top, FRAME_COUNT, 0)
                set_frame(stack, top, FRAME_COUNT, frame(stack, top, FRAME_COUNT) + count)
                if count * least > limit - behind or (
                    least == 0 and frame(stack, top, FRAME_COUNT) > _MAX_ZERO_WIDTH
                ):
                    status, detail_a = BAD_COUNT, count
                    break
                position = behind
                if count > 0:
                    set_frame(stack, top, FRAME_LEFT, count)
                    pc = frame(stack, top, FRAME_LOOP)
                    continue
                top -= 1
                if column >= 0 and close_list(table, memory, column):
                    status = FULL
                    break
                if opcode == op.BLOCKS:
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.MASKED_LIST:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(data, position)
                if count < 0 or (count + 7) // 8 > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                position += 4
                if count == 0:
                    if column >= 0 and close_list(table, memory, column):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                top += 1
                set_frame(stack, top, FRAME_LOOP, pc + 1)
                set_frame(stack, top, FRAME_LEFT, count)
                set_frame(stack, top, FRAME_MASK, position)
                set_frame(stack, top, FRAME_COUNT, count)
                position += (count + 7) // 8
            elif opcode == op.ELEMENT_MASKED:
                bit = frame(stack, top, FRAME_COUNT) - frame(stack, top, FRAME_LEFT)
                if load_u1(data, frame(stack, top, FRAME_MASK) + (bit >> 3)) & (0x80 >> (bit & 7)):
                    if column >= 0 and put_nulls(table, memory, column):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.DECIMAL:
                at = word(instructions, pc, op.PRECISION_BOUND)
                count = word(instructions, pc, op.BYTES)
                if word(instructions, pc, op.COMPACT):
                    count = np.int64(8)
                elif count == 0:
                    if limit - position < 4:
                        status, detail_a = TOO_SHORT, 4
                        break
                    count = load_i4(data, position)
                    position += 4
                # BigInteger#toByteArray has at least a byte, also of zero.
                if count < 1 or count > limit - position:
                    status, detail_a = BAD_COUNT, count
                    break
                if word(instructions, pc, op.COMPACT):
                    low = load_i8(data, position)
                    high = low >> 63
                else:
                    padding = sign_bytes(data, position, count)
                    if count - padding > MAX_DECIMAL_BYTES:
                        status, detail_a = OUT_OF_RANGE, count
                        break
                    high, low = read_two_complement(data, position + padding, count - padding)
                status = put_decimal128(
                    table, memory, column, high, low, target(targets, at), target(targets, at + 1)
                )
                if status != DONE:
                    detail_a = low
                    break
                position += count
            elif opcode == op.TIMESTAMP_DATA:
                if limit - position < 12:
                    status, detail_a = TOO_SHORT, 12
                    break
                millis = load_i8(data, position)
                nano = load_i4(data, position + 8)
                status = put_timestamp(
                    table, memory, column, millis, nano, word(instructions, pc, op.NANOS_A_UNIT)
                )
                if status != DONE:
                    detail_a = nano if status == BAD_DATE else millis
                    break
                position += 12
            elif opcode == op.BINARY:
                if limit - position < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_i4(data, position)
                if count < 0 or count > limit - position - 4:
                    status, detail_a = BAD_COUNT, count
                    break
                position += 4
                top += 1
                set_frame(stack, top, FRAME_REGION, position)
                set_frame(stack, top, FRAME_POSITION, position + count)
                set_frame(stack, top, FRAME_LIMIT, limit)
                set_frame(stack, top, FRAME_SLOTS, position)
                limit = position + count
            elif opcode == op.BINARY_SLOT or opcode == op.BINARY_KEYS or opcode == op.BINARY_VALUES:
                base = frame(stack, top, FRAME_REGION)
                if opcode == op.BINARY_SLOT:
                    slot = load_le_i8(data, frame(stack, top, FRAME_SLOTS) + word(instructions, pc, op.SLOT))
                    start = slot >> 32
                    count = slot & 0xFFFFFFFF
                else:
                    if limit - base < 8:
                        status, detail_a = TOO_SHORT, 8
                        break
                    start = np.int64(4)
                    count = load_le_i4(data, base)
                if count < 0 or start < 0 or start + count > limit - base:
                    status, detail_a = BAD_COUNT, count
                    break
                if opcode == op.BINARY_VALUES:
                    start += count
                    count = limit - base - start
                    if count < 4:
                        status, detail_a = TOO_SHORT, 4
                        break
                    # Keys and values are appended to one list of entries: there must be as many.
                    if load_le_i4(data, base + start) != load_le_i4(data, base + 4):
                        status, detail_a = BAD_COUNT, load_le_i4(data, base + start)
                        break
                top += 1
                set_frame(stack, top, FRAME_REGION, base + start)
                set_frame(stack, top, FRAME_POSITION, position)
                set_frame(stack, top, FRAME_LIMIT, limit)
                set_frame(stack, top, FRAME_SLOTS, base + start)
                position = base + start
                limit = position + count
            elif opcode == op.BINARY_END:
                position = frame(stack, top, FRAME_POSITION)
                limit = frame(stack, top, FRAME_LIMIT)
                top -= 1
            elif opcode == op.ROW:
                if limit - position < word(instructions, pc, op.BYTES):
                    status, detail_a = TOO_SHORT, word(instructions, pc, op.BYTES)
                    break
            elif opcode == op.ROW_KIND:
                tag = load_u1(data, frame(stack, top, FRAME_REGION))
                if tag >= word(instructions, pc, op.CASES):
                    status, detail_a = BAD_TAG, tag
                    break
                entry = word(instructions, pc, op.TABLE) + op.CONSTANT_WORDS * tag
                if column >= 0 and put_constant(table, memory, column, pool, targets, entry):
                    status = FULL
                    break
            elif opcode == op.SLOT_NULL:
                bit = word(instructions, pc, op.BIT)
                # The least significant bit first, unlike the masks of RowSerializer.
                if load_u1(data, frame(stack, top, FRAME_REGION) + (bit >> 3)) >> (bit & 7) & 1:
                    if column >= 0 and put_nulls(table, memory, column):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.SLOT8:
                value = load_le_i8(data, frame(stack, top, FRAME_SLOTS) + word(instructions, pc, op.SLOT))
                if column >= 0 and put8(table, memory, column, value):
                    status = FULL
                    break
            elif opcode == op.SLOT4:
                value = load_le_i4(data, frame(stack, top, FRAME_SLOTS) + word(instructions, pc, op.SLOT))
                if word(instructions, pc, op.BOUND) and (
                    value < 0 or value >= word(instructions, pc, op.BOUND)
                ):
                    status, detail_a = BAD_DATE, value
                    break
                if column >= 0 and put4(table, memory, column, value):
                    status = FULL
                    break
            elif opcode == op.SLOT2:
                value = load_le_i2(data, frame(stack, top, FRAME_SLOTS) + word(instructions, pc, op.SLOT))
                if column >= 0 and put2(table, memory, column, value):
                    status = FULL
                    break
            elif opcode == op.SLOT1:
                value = load_u1(data, frame(stack, top, FRAME_SLOTS) + word(instructions, pc, op.SLOT))
                if column >= 0 and put1(table, memory, column, value):
                    status = FULL
                    break
            elif opcode == op.SLOT_TEXT or opcode == op.SLOT_BYTES:
                at = frame(stack, top, FRAME_SLOTS) + word(instructions, pc, op.SLOT)
                slot = load_le_i8(data, at)
                # The most significant bit marks a text in the slot: length in the other bits of that byte.
                if slot < 0:
                    count = slot >> 56 & 0x7F
                    if count > _MAX_INLINE_BYTES:
                        status, detail_a = BAD_COUNT, count
                        break
                else:
                    count = slot & 0xFFFFFFFF
                    start = slot >> 32
                    if start + count > limit - frame(stack, top, FRAME_REGION):
                        status, detail_a = BAD_COUNT, count
                        break
                    at = frame(stack, top, FRAME_REGION) + start
                if column >= 0:
                    full = False
                    if opcode == op.SLOT_TEXT:
                        full = put_utf8(table, memory, column, data, at, count)
                    else:
                        full = put_bytes(table, memory, column, data, at, count)
                    if full:
                        status = FULL
                        break
            elif opcode == op.SLOT_DECIMAL:
                slot = load_le_i8(data, frame(stack, top, FRAME_SLOTS) + word(instructions, pc, op.SLOT))
                low = slot
                high = slot >> 63
                if not word(instructions, pc, op.COMPACT):
                    count = slot & 0xFFFFFFFF
                    start = slot >> 32
                    if count < 1 or start < 0 or start + count > limit - frame(stack, top, FRAME_REGION):
                        status, detail_a = BAD_COUNT, count
                        break
                    if count > MAX_DECIMAL_BYTES:
                        status, detail_a = OUT_OF_RANGE, count
                        break
                    high, low = read_two_complement(data, frame(stack, top, FRAME_REGION) + start, count)
                at = word(instructions, pc, op.PRECISION_BOUND)
                status = put_decimal128(
                    table, memory, column, high, low, target(targets, at), target(targets, at + 1)
                )
                if status != DONE:
                    detail_a = low
                    break
            elif opcode == op.SLOT_TIMESTAMP:
                slot = load_le_i8(data, frame(stack, top, FRAME_SLOTS) + word(instructions, pc, op.SLOT))
                start = slot >> 32
                if start < 0 or start + 8 > limit - frame(stack, top, FRAME_REGION):
                    status, detail_a = BAD_COUNT, start
                    break
                millis = load_le_i8(data, frame(stack, top, FRAME_REGION) + start)
                nano = slot & 0xFFFFFFFF
                status = put_timestamp(
                    table, memory, column, millis, nano, word(instructions, pc, op.NANOS_A_UNIT)
                )
                if status != DONE:
                    detail_a = nano if status == BAD_DATE else millis
                    break
            elif opcode == op.ARRAY:
                base = frame(stack, top, FRAME_REGION)
                if limit - base < 4:
                    status, detail_a = TOO_SHORT, 4
                    break
                count = load_le_i4(data, base)
                size = 4 + (count + 31) // 32 * 4
                if count < 0 or size + count * word(instructions, pc, op.WIDTH) > limit - base:
                    status, detail_a = BAD_COUNT, count
                    break
                if count == 0:
                    if (
                        word(instructions, pc, op.IN_MAP) == 0
                        and column >= 0
                        and close_list(table, memory, column)
                    ):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
                set_frame(stack, top, FRAME_LOOP, pc + 1)
                set_frame(stack, top, FRAME_LEFT, count)
                set_frame(stack, top, FRAME_SLOTS, base + size)
            elif opcode == op.ELEMENT_NULL:
                base = frame(stack, top, FRAME_REGION)
                bit = load_le_i4(data, base) - frame(stack, top, FRAME_LEFT)
                if load_u1(data, base + 4 + (bit >> 3)) >> (bit & 7) & 1:
                    if column >= 0 and put_nulls(table, memory, column):
                        status = FULL
                        break
                    pc = word(instructions, pc, op.BEHIND)
                    continue
            elif opcode == op.ARRAY_NEXT:
                set_frame(stack, top, FRAME_LEFT, frame(stack, top, FRAME_LEFT) - 1)
                set_frame(
                    stack, top, FRAME_SLOTS, frame(stack, top, FRAME_SLOTS) + word(instructions, pc, op.WIDTH)
                )
                if frame(stack, top, FRAME_LEFT) > 0:
                    pc = frame(stack, top, FRAME_LOOP)
                    continue
                if (
                    word(instructions, pc, op.IN_MAP) == 0
                    and column >= 0
                    and close_list(table, memory, column)
                ):
                    status = FULL
                    break
            elif opcode == op.MAP_END and column >= 0:
                # Keys and values were appended beside each other; the struct of both has as many items more.
                count = load_le_i4(data, frame(stack, top, FRAME_REGION) + 4)
                if put_items(table, column + 1, count) or close_list(table, memory, column):
                    status = FULL
                    break
            pc += 1
        if status != DONE:
            break
        row += 1
    # What is left is part of both messages; here once for all instructions.
    if status in (TOO_SHORT, BAD_COUNT):
        detail_b = limit - position
    set_register(registers, STATUS, status)
    set_register(registers, ROW, row)
    set_register(registers, PC, pc)
    set_register(registers, POSITION, position)
    set_register(registers, LIMIT, limit)
    set_register(registers, TOP, top)
    set_register(registers, MARKED, marked)
    set_register(registers, DETAIL_A, detail_a)
    set_register(registers, DETAIL_B, detail_b)


@kernel
def measure(
    instructions: int,
    targets: int,
    pool: int,
    data: int,
    position: int,
    limit: int,
    starts: int,
    ends: int,
    count: int,
    table: int,
    memory: int,
    stack: int,
    registers: int,
) -> None:
    """Find where entries that follow each other without lengths begin and end: native heap data, broadcast state.

    Run a program without columns on entry after entry from `position` on, and fill `starts` and `ends`, int64
    (entries, 1), from index `registers[ROW]` on. POSITION is behind the last entry if the status is DONE.
    """
    row = register(registers, ROW)
    while row < count:
        if register(registers, STATUS) != CALL:
            store_8(starts, row * 8, position)
            store_8(ends, row * 8, limit)
        set_register(registers, ROW, row)
        execute(instructions, targets, pool, data, starts, ends, 1, row + 1, table, memory, stack, registers)
        if register(registers, STATUS) != DONE:
            return
        position = register(registers, POSITION)
        store_8(ends, row * 8, position)
        row += 1
    set_register(registers, POSITION, position)


@kernel
def measure_each(
    instructions: int,
    targets: int,
    pool: int,
    data: int,
    starts: int,
    limits: int,
    ends: int,
    count: int,
    table: int,
    memory: int,
    stack: int,
    registers: int,
) -> None:
    """Find where values end whose begins are known: the key of each change in a changelog.

    Run a program without columns from each of `starts` up to `limits`, int64 (values, 1), and fill `ends`,
    int64 (values,), from index `registers[ROW]` on.
    """
    row = register(registers, ROW)
    while row < count:
        set_register(registers, ROW, row)
        execute(
            instructions, targets, pool, data, starts, limits, 1, row + 1, table, memory, stack, registers
        )
        if register(registers, STATUS) != DONE:
            return
        store_8(ends, row * 8, register(registers, POSITION))
        row += 1


@kernel
def append_nulls(table: int, memory: int, column: int) -> bool:
    """Append null for Python as the machine does; return True if a column is full."""
    return put_nulls(table, memory, column)


@kernel
def append_variable(table: int, memory: int, column: int, data_length: int) -> bool:
    """Append an item whose data Python has written, and which ends at `data_length`; return True if the column is full."""
    return close_variable(table, memory, column, data_length)
