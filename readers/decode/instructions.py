"""The instruction set of the decoding machine: how each instruction lays out bytes, and the names of its operands.

A program describes how one entry is laid out. The builder (`program.py`) writes it, and the interpreter
(`machine/execute.py`) runs it; both use the names of this module. To add an instruction, see `machine/__init__.py`.

An instruction is a row of five int64 words, `OPCODE, COLUMN` and three operands. COLUMN is the column that the
instruction writes to, or `NO_COLUMN` to step over the bytes. An instruction goes on with the next one, or with the
one that its operand BEHIND numbers: a null or an empty list skips what describes the value.

Values of Flink's serializers, big endian:

| opcode | bytes read | operands |
|---|---|---|
| FIXED1 2 4 8 | 1, 2, 4 or 8 | |
| FIXED8_FLIPPED | 8; the sign bit is inverted (timers) | |
| BOOLEAN | 1; 0 or 1 | |
| STRING | varint count of UTF-16 units, a varint each | NULLABLE: 1 if the count is units + 1 and 0 is null |
| UTF | u2 length, modified UTF-8 | |
| TEXT | i4 length, UTF-8 | |
| BLOB | i4 length, bytes | |
| RAW_BYTES | BYTES | BYTES |
| CHAR | u2, a UTF-16 unit | |
| BIG_INTEGER BIG_DECIMAL | i4 length, two's complement; BIG_DECIMAL: i4 scale | |
| DECIMAL | the unscaled number: i8, or two's complement of BYTES (0: behind an i4 length) | BYTES, COMPACT: 1 for the i8, PRECISION_BOUND |
| MILLIS TIMESTAMP INSTANT | 8, 12, 12; each with the null pattern of its serializer | |
| LOCAL_DATE LOCAL_TIME LOCAL_DATE_TIME | 6, 7, 13; as above | |
| TIMESTAMP_DATA | i8 milliseconds, i4 nanoseconds of the millisecond | NANOS_A_UNIT |
| ENUM | i4 index | TABLE of constants, CASES |
| PRIMITIVES | i4 count, elements of WIDTH bytes | WIDTH |
| PYTHON | as many as leaf LEAF reads; suspends the machine | LEAF |
| CONSTANT | none | CONSTANT_OFFSET, CONSTANT_BYTES: the text in the pool |
| STRUCT NULL | none | |

Structure:

| opcode | bytes read | operands |
|---|---|---|
| END | none; closes the program | |
| SEGMENT | none; goes on at segment SEGMENT_NUMBER of the entry | SEGMENT_NUMBER |
| EXPECT_END | none; the segment must be used up | |
| SKIP REST | BYTES; all that is left of the segment | SKIP: BYTES, FILL |
| KEY_GROUP | BYTES: the entry's key group | BYTES |
| MARK LENGTH_SUFFIX | none; bytes since MARK, little endian, in as few bytes as hold them (ambiguous composite keys of RocksDB) | |
| REPEATED … REPEATED_END | none; steps over the bytes between both if they are those that the entry before had there | REPEATED: BEHIND |
| JUMP | none | BEHIND |
| NULL_FLAG | u1 flag; PADDING bytes if it is NULL_VALUE | NULL_VALUE, PADDING, BEHIND |
| SWITCH SWITCH_I4 | u1 or i4: which target of the table follows | TABLE of targets, CASES |
| CLASS | `writeUTF` of a class name: which target follows | TABLE of classes, CASES |
| LIST … LIST_NEXT | i4 count, elements | LIST: LEAST_BYTES, BEHIND |
| BLOCKS … BLOCKS_NEXT | blocks of varint count and elements, the last of count 0 (Avro) | LEAST_BYTES; BLOCKS: BEHIND |
| DELIMITED … DELIMITED_NEXT | elements joined by 0x2C up to the end of the segment | DELIMITED: BEHIND |
| ELEMENTS … ELEMENTS_NEXT | the first elements of LIST (COUNTED) or DELIMITED; null for the others | COUNTED; ELEMENTS: BEHIND |
| MASKED_LIST, ELEMENT_MASKED … LIST_NEXT | i4 count, a bit an element (1 is null), the elements of bit 0 | BEHIND: the list; the element |
| MASK … MASK_END | BYTES of bits, the most significant first (`RowSerializer`) | MASK: BYTES |
| MASK_NULL | none; tests a bit of the mask | BIT, BEHIND |
| MASK_KIND | none; bit 0 + 2 · bit 1 of the mask is a constant | TABLE of constants |

The formats of `org.apache.flink.table.data.binary` are little endian, and a slot of 1, 2, 4 or 8 bytes holds a value
or the offset and size of a value in the region around it:

| opcode | bytes read | operands |
|---|---|---|
| BINARY … BINARY_END | i4 size, a region of that size | |
| BINARY_SLOT … BINARY_END | the region that a slot points to | SLOT |
| ROW | none; the header and slots, BYTES together, must be there | BYTES |
| ROW_KIND | none; byte 0 of the row is a constant | TABLE of constants, CASES |
| SLOT_NULL | none; tests a null bit of the row | BIT, BEHIND |
| SLOT1 2 4 8 | none; a number in the slot | SLOT; SLOT4: BOUND |
| SLOT_TEXT SLOT_BYTES | none; up to seven bytes in the slot, or bytes in the region | SLOT |
| SLOT_DECIMAL | none; i8 in the slot, or two's complement in the region | SLOT; COMPACT: 1 for the i8; PRECISION_BOUND |
| SLOT_TIMESTAMP | none; nanoseconds of the millisecond in the slot, i8 milliseconds in the region | SLOT, NANOS_A_UNIT |
| ARRAY … ARRAY_NEXT | none; i4 count, null bits in whole words, elements of WIDTH bytes | WIDTH, IN_MAP; ARRAY: BEHIND |
| ELEMENT_NULL | none; tests the null bit of the element | BEHIND |
| BINARY_KEYS … BINARY_END | none; i4 size of the first array of a map, that array | |
| BINARY_VALUES … BINARY_END | none; the second array of a map | |
| MAP_END | none; the keys and values of a map are a map | |
"""

from __future__ import annotations

(
    END, EXPECT_END, SEGMENT, SKIP, REST, FIXED1, FIXED2, FIXED4, FIXED8, FIXED8_FLIPPED, BOOLEAN, STRING,
    UTF, BLOB, CHAR, BIG_INTEGER, BIG_DECIMAL, MILLIS, TIMESTAMP, INSTANT, LOCAL_DATE, LOCAL_TIME,
    LOCAL_DATE_TIME, ENUM, CONSTANT, STRUCT, NULL, NULL_FLAG, LIST, LIST_NEXT, DELIMITED, DELIMITED_NEXT,
    PRIMITIVES, SWITCH, CLASS, MASK, MASK_NULL, MASK_KIND, MASK_END, MARK, LENGTH_SUFFIX, PYTHON, JUMP,
    TEXT, RAW_BYTES, SWITCH_I4, BLOCKS, BLOCKS_NEXT, MASKED_LIST, ELEMENT_MASKED, DECIMAL, TIMESTAMP_DATA,
    BINARY, BINARY_SLOT, BINARY_END, ROW, ROW_KIND, SLOT_NULL, SLOT1, SLOT2, SLOT4, SLOT8, SLOT_TEXT,
    SLOT_BYTES, SLOT_DECIMAL, SLOT_TIMESTAMP, ARRAY, ELEMENT_NULL, ARRAY_NEXT, BINARY_KEYS, BINARY_VALUES,
    MAP_END, ELEMENTS, ELEMENTS_NEXT, KEY_GROUP, REPEATED, REPEATED_END,
) = range(77)  # fmt: skip

# Words of an instruction. An operand has the same word in every instruction that takes it, so that one name serves
# the builder, the interpreter and what else runs programs; operands that no instruction takes together share a word.
OPCODE = 0
COLUMN = 1

BIT = 2  # of the mask, or of the null bits
BYTES = 2  # how many follow, or must be there
CONSTANT_OFFSET = 2  # in the pool
LEAF = 2  # index in `Code.leaves`
LEAST_BYTES = 2  # of one element: bounds a count before it is believed
NULLABLE = 2
NULL_VALUE = 2  # the flag that means null
SEGMENT_NUMBER = 2
SLOT = 2  # offset in bytes from where the slots begin
TABLE = 2  # index in `Code.targets` of the first entry
WIDTH = 2  # bytes an element

BOUND = 3  # the number is at least 0 and less than this; 0 for no bound
CASES = 3  # entries of the table
COMPACT = 3  # 1 if the unscaled number is an i8
CONSTANT_BYTES = 3
COUNTED = 3  # 1 if an i4 count stands before the elements, 0 if 0x2C joins them
FILL = 3  # the byte that Flink writes, where no column shows it
IN_MAP = 3  # 1 if the array is one of the two of a map, whose list MAP_END closes
NANOS_A_UNIT = 3  # of the column
PADDING = 3  # bytes behind a flag that means null

BEHIND = 4  # the instruction to go on with if there is no value, no element or no further case
# Index in `Code.targets` of 10^precision, high and low 64 bits: the number's magnitude is less.
PRECISION_BOUND = 4

WORDS = 5

# Entries of a table. An entry of targets is one word, the instruction to go on with, or NOWHERE.
NOWHERE = -1
ENTRY_OFFSET = 0  # of constants and classes: the text in the pool
ENTRY_BYTES = 1
ENTRY_TARGET = 2  # of classes: the instruction to go on with
CONSTANT_WORDS = 2
CLASS_WORDS = 3
