"""Which columns select which case of a switch: derived from the instructions of the cases.

An instruction that decodes into a column says what the column is when its case was read: NULL leaves null, CONSTANT one
text, STRUCT and all values without a null of their own something. What a null flag, a list or a mask guards may be
anything. A case with switches inside has an alternative for each way through it.

Where several cases fit a row, that which its serializer emitted first is taken: serializers emit in Flink's order of
preference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from readers import NO_COLUMN
from readers import instructions as op
from writers.encode.machine.cases import IS_NULL, IS_PRESENT, IS_TEXT

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
    """Builds the array of the machine's tables; see `machine/cases.py`."""

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
