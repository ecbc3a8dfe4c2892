"""A program of the readers, made ready to be run from columns to bytes.

Reading, the bytes say which case of a switch follows; writing, the columns must. All else of a program runs as serializers emitted it,
with two additions:

| opcode | bytes written | operands |
|---|---|---|
| CHOOSE | none; which of several programs a row needs | TABLE of cases, CASES |
| REFUSE | none: there are bytes here that no column holds | |

The opcode of an instruction that takes no null has REQUIRED added to it.
SLOT_NULL has the operand RESERVED: the bytes behind the slots that a null owns.

Which columns select which case is derived from the instructions of the cases. An instruction that decodes into a column says what the
column is when its case was read: NULL leaves null, CONSTANT one text, STRUCT and all values without a null of their own something. What a
null flag, a list or a mask guards may be anything. A case with switches inside has an alternative for each way through it.

Where several cases fit a row, that which its serializer emitted first is taken: serializers emit in Flink's order of
preference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from readers import NO_COLUMN, Code, ColumnTree
from readers import instructions as op
from writers.encode.machine.state import IS_NULL, IS_PRESENT, IS_TEXT

Test: TypeAlias = tuple[int, int, int, int]
"""Column, kind, offset and bytes of a text in the pool."""

Tests: TypeAlias = tuple[Test, ...]
Instructions: TypeAlias = Sequence[Sequence[int]]

SWITCHES = frozenset({op.SWITCH, op.SWITCH_I4, op.CLASS})
# More ways through a case are not told apart: values of nested types decide about them, and they seldom differ.
_MOST_WAYS = 64

# The instruction that they number follows whatever the value is.
_GUARDS = frozenset({op.NULL_FLAG, op.MASK_NULL, op.SLOT_NULL, op.ELEMENT_NULL, op.ELEMENT_MASKED})
_LISTS = frozenset({op.LIST, op.MASKED_LIST, op.BLOCKS, op.DELIMITED, op.ARRAY})
_PRESENT = _LISTS | {
    op.FIXED1, op.FIXED2, op.FIXED4, op.FIXED8, op.FIXED8_FLIPPED, op.BOOLEAN, op.UTF, op.BLOB, op.CHAR, op.ENUM,
    op.STRUCT, op.PRIMITIVES, op.TEXT, op.RAW_BYTES, op.REST, op.DECIMAL, op.TIMESTAMP_DATA, op.SLOT1, op.SLOT2,
    op.SLOT4, op.SLOT8, op.SLOT_TEXT, op.SLOT_BYTES, op.SLOT_DECIMAL, op.SLOT_TIMESTAMP, op.MAP_END,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Alternative:
    """One way to recognise a case.

    Attributes:
        tag: what the switch writes.
        target: the instruction to go on with.
        tests: all must be true.
    """

    tag: int
    target: int
    tests: Tests


class CaseTables:
    """Builds the array of the machine's tables; see `machine/state.py`."""

    def __init__(self) -> None:
        self._words: list[int] = []

    def add(self, alternatives: Sequence[Alternative]) -> tuple[int, int]:
        """Append a table; return its index, and the number of its alternatives."""
        pointers = []
        for alternative in alternatives:
            pointers.append(len(self._words))
            self._words.append(len(alternative.tests))
            for test in alternative.tests:
                self._words += test
        first = len(self._words)
        for alternative, pointer in zip(alternatives, pointers, strict=True):
            self._words += [alternative.tag, alternative.target, pointer]
        return first, len(alternatives)

    def finish(self) -> NDArray[np.int64]:
        """Return the tables."""
        return np.array(self._words or [0], dtype=np.int64)


def switch_cases(instruction: Sequence[int], targets: Sequence[int]) -> list[tuple[int, int]]:
    """Return tag and first instruction of each case of a switch, in the order in which they were emitted.

    The tag of a class is the index of its entry in `targets`.
    """
    first, count = instruction[op.TABLE], instruction[op.CASES]
    if instruction[op.OPCODE] == op.CLASS:
        entries = [first + op.CLASS_WORDS * index for index in range(count)]
        cases = [(entry, targets[entry + op.ENTRY_TARGET]) for entry in entries]
    else:
        cases = [(tag, targets[first + tag]) for tag in range(count)]
    return sorted((case for case in cases if case[1] != op.NOWHERE), key=lambda case: case[1])


def switch_alternatives(instructions: Instructions, targets: Sequence[int], number: int) -> list[Alternative]:
    """Return the alternatives of the switch at instruction `number`, in the order of preference."""
    return [
        Alternative(tag, start, tests)
        for tag, start in switch_cases(instructions[number], targets)
        for tests in find_alternatives(instructions, targets, start)
    ]


def find_alternatives(
    instructions: Instructions, targets: Sequence[int], start: int, stop: int = -1
) -> list[Tests]:
    """Return the tests of each way from instruction `start` to `stop`, or to the end of its case or of the program."""
    return [tuple(dict.fromkeys(tests)) for tests in _walk(instructions, targets, start, stop)[0]]


def _walk(
    instructions: Instructions, targets: Sequence[int], pc: int, stop: int = -1
) -> tuple[list[Tests], int | None]:
    """Return the tests of each way through a case, and the instruction behind its switch (None if none is known)."""
    ways: list[Tests] = [()]
    while True:
        instruction = instructions[pc]
        opcode, column = instruction[op.OPCODE], instruction[op.COLUMN]
        if opcode == op.END or pc == stop:
            return ways, None
        if opcode == op.JUMP:
            return ways, instruction[op.BEHIND]
        if opcode in SWITCHES:
            inner, behind = _walk_switch(instructions, targets, instruction)
            # Behind a switch that has no case nothing is ever read.
            if not inner or behind is None:
                return [], behind
            ways = (
                [way + more for way in ways for more in inner]
                if len(ways) * len(inner) <= _MOST_WAYS
                else ways
            )
            pc = behind
            continue
        test = _test(opcode, column, instruction)
        if test is not None:
            ways = [(*way, test) for way in ways]
        pc = instruction[op.BEHIND] if opcode in _GUARDS or opcode in _LISTS else pc + 1


def _walk_switch(
    instructions: Instructions, targets: Sequence[int], instruction: Sequence[int]
) -> tuple[list[Tests], int | None]:
    ways: list[Tests] = []
    behind = None
    for _, start in switch_cases(instruction, targets):
        more, end = _walk(instructions, targets, start)
        ways += more
        behind = end if behind is None else behind
    return ways, behind


def _test(opcode: int, column: int, instruction: Sequence[int]) -> Test | None:
    if column == NO_COLUMN:
        return None
    if opcode == op.NULL:
        return column, IS_NULL, 0, 0
    if opcode == op.CONSTANT:
        return column, IS_TEXT, instruction[op.CONSTANT_OFFSET], instruction[op.CONSTANT_BYTES]
    if opcode in _PRESENT or (opcode == op.STRING and not instruction[op.NULLABLE]):
        return column, IS_PRESENT, 0, 0
    return None


CHOOSE = 100
REFUSE = 101
REQUIRED = 128  # on top of the opcode: the next item of the column must not be null
RESERVED = 3  # of SLOT_NULL: bytes behind the slots that a null owns

_RESERVED_BYTES = {op.SLOT_DECIMAL: 16, op.SLOT_TIMESTAMP: 8}
# They describe the bytes around values, whichever column is shown.
_WITHOUT_COLUMN = frozenset(
    {
        op.END, op.EXPECT_END, op.SEGMENT, op.SKIP, op.KEY_GROUP, op.MARK, op.LENGTH_SUFFIX, op.JUMP, op.MASK,
        op.MASK_END, op.BINARY, op.BINARY_SLOT, op.BINARY_END, op.ROW, op.SWITCH, op.SWITCH_I4, op.CLASS,
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodingCode:
    """A program of the encoding machine.

    Attributes:
        instructions: int64, shape (n, WORDS).
        targets: int64; the tables of constants, and the bounds of decimals.
        cases: int64; the tables of switches, see `machine/state.py`.
        pool: uint8; constant strings and class names.
        paths: the field path of each instruction, for errors.
        depth: how deep lists, masks and regions nest.
        segments: of an entry.
    """

    instructions: NDArray[np.int64]
    targets: NDArray[np.int64]
    cases: NDArray[np.int64]
    pool: NDArray[np.uint8]
    paths: tuple[tuple[str, ...], ...]
    depth: int
    segments: int


def encoding_code(
    tree: ColumnTree, codes: Sequence[Code], segments: int, *, reserves_nulls: bool
) -> EncodingCode:
    """Return the encoding program of one or several programs, of which each row has the first that fits it.

    Args:
        tree: the columns. Of an object that only Python reads the column must hold its bytes.
        codes: programs with these columns.
        segments: of an entry.
        reserves_nulls: whether a decimal or timestamp of a binary row owns its room even if it is null.
    """
    choice = 1 if len(codes) > 1 else 0
    joined = _Joined(choice)
    starts = [joined.add(code) for code in codes]
    if reserves_nulls:
        joined.reserve()
    joined.keep_regions()
    for instruction in joined.instructions:
        if instruction[op.OPCODE] == op.PYTHON and pa.types.is_binary(tree.types[instruction[op.COLUMN]]):
            instruction[op.OPCODE] = op.REST
    instructions, pool = joined.instructions, bytes(joined.pool)
    tables = CaseTables()
    if choice:
        alternatives = [
            Alternative(0, start, tests)
            for start in starts
            for tests in find_alternatives(instructions, joined.targets, start)
        ]
        instructions[0][op.TABLE], instructions[0][op.CASES] = tables.add(alternatives)
    for number in range(choice, len(instructions)):
        instruction = instructions[number]
        if instruction[op.OPCODE] in SWITCHES:
            alternatives = switch_alternatives(instructions, joined.targets, number)
            instruction[op.TABLE], instruction[op.CASES] = tables.add(alternatives)
    for instruction in instructions:
        if instruction[op.OPCODE] in _TAKE_NO_NULL and not (
            instruction[op.OPCODE] == op.STRING and instruction[op.NULLABLE]
        ):
            instruction[op.OPCODE] += REQUIRED
    return EncodingCode(
        instructions=np.array(instructions, dtype=np.int64),
        targets=np.array(joined.targets, dtype=np.int64),
        cases=tables.finish(),
        pool=np.frombuffer(pool, dtype=np.uint8),
        paths=tuple(joined.paths),
        depth=max(code.depth for code in codes),
        segments=segments,
    )


class _Joined:
    """Programs one after the other, with the numbers in them moved.

    Attributes:
        instructions, targets, pool, paths: of all programs; room for CHOOSE is first.
    """

    def __init__(self, choice: int) -> None:
        self.instructions: list[list[int]] = [[CHOOSE, NO_COLUMN, 0, 0, 0]] * choice
        self.targets: list[int] = []
        self.pool = bytearray()
        self.paths: list[tuple[str, ...]] = [()] * choice

    def add(self, code: Code) -> int:
        """Append a program; return the number of its first instruction."""
        start, tables, texts = len(self.instructions), len(self.targets), len(self.pool)
        targets = code.targets.tolist()
        for instruction in code.instructions.tolist():
            self._move(instruction, targets, start, tables, texts)
            self.instructions.append(instruction)
        self.targets += targets
        self.pool += code.pool.tobytes()
        self.paths += code.paths
        return start

    def reserve(self) -> None:
        """Let nulls own the room of a value where the instruction behind the test has one."""
        for instruction, following in zip(self.instructions, self.instructions[1:], strict=False):
            if instruction[op.OPCODE] == op.SLOT_NULL and not (
                following[op.OPCODE] == op.SLOT_DECIMAL and following[op.COMPACT]
            ):
                instruction[RESERVED] = _RESERVED_BYTES.get(following[op.OPCODE], 0)

    def keep_regions(self) -> None:
        """Let a field whose region can hold nothing but null have its region, as Flink's data views do."""
        for number, instruction in enumerate(self.instructions):
            if instruction[op.OPCODE] != op.SLOT_NULL:
                continue
            if self.instructions[number + 1][op.OPCODE] != op.BINARY_SLOT:
                continue
            ways = find_alternatives(self.instructions, self.targets, number + 1, instruction[op.BEHIND])
            nothing = (instruction[op.COLUMN], IS_NULL, 0, 0)
            if ways and all(nothing in way for way in ways):
                instruction[op.OPCODE], instruction[op.BEHIND] = op.JUMP, number + 1

    def _move(self, instruction: list[int], targets: list[int], start: int, tables: int, texts: int) -> None:
        opcode = instruction[op.OPCODE]
        if instruction[op.COLUMN] == NO_COLUMN and opcode not in _WITHOUT_COLUMN:
            instruction[op.OPCODE] = REFUSE
            return
        if opcode in _NUMBERS:
            instruction[op.BEHIND] += start
        if opcode in _DECIMALS:
            instruction[op.PRECISION_BOUND] += tables
        if opcode in _CONSTANTS:
            first = instruction[op.TABLE]
            # Four kinds are in the mask: see `Program.row_kind`.
            count = 4 if opcode == op.MASK_KIND else instruction[op.CASES]
            for entry in range(first, first + op.CONSTANT_WORDS * count, op.CONSTANT_WORDS):
                targets[entry + op.ENTRY_OFFSET] += texts
            instruction[op.TABLE] += tables
        if opcode == op.CONSTANT:
            instruction[op.CONSTANT_OFFSET] += texts
        if opcode in SWITCHES:
            self._move_cases(instruction, targets, start, texts)
            instruction[op.TABLE] += tables

    def _move_cases(self, instruction: list[int], targets: list[int], start: int, texts: int) -> None:
        first, count = instruction[op.TABLE], instruction[op.CASES]
        is_class = instruction[op.OPCODE] == op.CLASS
        for index in range(count):
            entry = first + (op.CLASS_WORDS * index if is_class else index)
            if is_class:
                targets[entry + op.ENTRY_OFFSET] += texts
                entry += op.ENTRY_TARGET
            if targets[entry] != op.NOWHERE:
                targets[entry] += start


_NUMBERS = frozenset(
    {
        op.JUMP, op.NULL_FLAG, op.LIST, op.MASKED_LIST, op.BLOCKS, op.DELIMITED, op.ELEMENT_MASKED, op.MASK_NULL,
        op.SLOT_NULL, op.ARRAY, op.ELEMENT_NULL,
    }
)  # fmt: skip
_TAKE_NO_NULL = frozenset(
    {
        op.FIXED1, op.FIXED2, op.FIXED4, op.FIXED8, op.FIXED8_FLIPPED, op.BOOLEAN, op.STRING, op.UTF, op.CHAR, op.TEXT,
        op.BLOB, op.RAW_BYTES, op.REST, op.DECIMAL, op.TIMESTAMP_DATA, op.ENUM, op.STRUCT, op.PRIMITIVES, op.LIST, op.BLOCKS,
        op.MASKED_LIST, op.DELIMITED, op.ARRAY, op.BINARY_KEYS, op.BINARY_VALUES, op.SLOT1, op.SLOT2, op.SLOT4, op.SLOT8,
        op.SLOT_TEXT, op.SLOT_BYTES, op.SLOT_DECIMAL, op.SLOT_TIMESTAMP,
    }
)  # fmt: skip
_DECIMALS = frozenset({op.DECIMAL, op.SLOT_DECIMAL})
_CONSTANTS = frozenset({op.ENUM, op.MASK_KIND, op.ROW_KIND})
