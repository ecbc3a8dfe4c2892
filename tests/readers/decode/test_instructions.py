"""The instruction set: each instruction is described, emitted and run, and its operands do not overwrite each other."""

from __future__ import annotations

import inspect
import re

from readers.decode import instructions, program
from readers.decode.machine import execute

NUMBERS = {name: value for name, value in vars(instructions).items() if name.isupper()}
OPCODES = list(NUMBERS)[: list(NUMBERS).index("OPCODE")]
OPERANDS = list(NUMBERS)[list(NUMBERS).index("COLUMN") + 1 : list(NUMBERS).index("WORDS")]


def described() -> list[tuple[set[str], list[str]]]:
    """The opcodes and the operands of each row of the tables."""
    text = re.sub(r"\b(FIXED|SLOT)1 2 4 8\b", r"\g<1>1 \g<1>2 \g<1>4 \g<1>8", instructions.__doc__ or "")
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| ")]
    return [
        (
            set(re.findall(r"\w+", opcodes)) & set(OPCODES),
            [word for word in re.findall(r"\w+", operands) if word in OPERANDS],
        )
        for opcodes, _, operands in rows
    ]


def used(module: object) -> set[str]:
    """The names of the instruction set in a module's source."""
    return set(re.findall(r"\bop\.([A-Z]\w*)", inspect.getsource(module)))  # type: ignore[arg-type]


def test_every_instruction_is_described_emitted_and_run():
    assert [NUMBERS[name] for name in OPCODES] == list(range(len(OPCODES)))
    assert set().union(*(opcodes for opcodes, _ in described())) == set(OPCODES)
    assert used(program) & set(OPCODES) == set(OPCODES)
    assert used(execute) & set(OPCODES) == set(OPCODES)


def test_operands_of_an_instruction_have_words_of_their_own():
    rows = [set(operands) for _, operands in described()]

    assert set().union(*rows) == set(OPERANDS)
    assert all(len({NUMBERS[operand] for operand in row}) == len(row) for row in rows)
    assert {NUMBERS[operand] for operand in OPERANDS} == set(range(2, instructions.WORDS))
