"""Entries are decoded the same a block at a time as one by one: rows, nulls, and the errors of bytes that contradict the program."""

from __future__ import annotations

import struct
from random import Random
from typing import Literal

import numpy as np
import pyarrow as pa
import pytest

from readers.decode.columns import ColumnTree
from readers.decode.decoder import Decoder, Page
from readers.decode.machine.blocks import BLOCK_ENTRIES
from readers.decode.program import Program
from readers.errors import CorruptDataError
from readers.serializers.primitives import StringSerializer

ROWS = 4 * BLOCK_ENTRIES + 50
Segments = tuple[bytes, bytes]
OBJECT = pa.struct(
    [
        pa.field("double", pa.float64()),
        pa.field("int", pa.int32()),
        pa.field("short", pa.int16()),
        pa.field("byte", pa.int8()),
        pa.field("bool", pa.bool_()),
        pa.field("name", pa.string()),
    ]
)
COLUMNS = pa.struct(
    [
        pa.field("key", pa.string()),
        pa.field("time", pa.int64()),
        pa.field("object", OBJECT),
        pa.field("nothing", pa.struct([pa.field("text", pa.string()), pa.field("number", pa.int32())])),
    ]
)


def program_of(tree: ColumnTree) -> Program:
    """A program with each instruction that blocks know: a key, a gap and a text that no column shows; then an object."""
    program = Program(tree)
    program.key_group(1)
    with program.field(0):
        program.string()
    program.skip(1)
    with program.repeated(), program.without_column():
        program.string(nullable=False)
    with program.field(1):
        program.flipped()
    program.expect_end()
    program.segment(1)
    with program.field(2):
        cases = program.switch({0: "object", 1: "null"})
        with cases.case(0):
            program.struct()
            widths: tuple[Literal[8, 4, 2, 1], ...] = (8, 4, 2, 1)
            for index, width in enumerate(widths):
                with program.field(index), program.nullable(null_flag=True, padding=index):
                    program.fixed(width)
            with program.field(4):
                program.boolean()
            with program.field(5):
                program.string()
        with cases.case(1):
            program.null()
        cases.end()
    program.skip(2)
    with program.field(3):
        program.null()
    return program


def text(value: str | None) -> bytes:
    return StringSerializer().encode(value) or b"\0"


def entry(random: Random, *, odd: str = "") -> Segments:
    """The segments of a random entry, which is like all others but for the part `odd`."""
    name = (
        random.choice([None, "", "näme €𐍈", "x" * 300, "\0"]) if odd == "name" else f"name {random.random()}"
    )
    key = random.choice(["", "ключ", "k" * 200]) if odd == "key" else f"key_{random.randrange(10**9)}"
    hidden = b"\1\xfc\1" if odd == "hidden" else b"\6hidden"
    first = b"\7" + text(key) + b"\0" + hidden + struct.pack(">q", random.getrandbits(63))
    if odd == "object":
        return first, b"\1" + b"\0\0"
    second = b"\0"
    values = [random.random(), random.getrandbits(31), random.getrandbits(15), random.getrandbits(7)]
    for index, (kind, value) in enumerate(zip("dihb", values, strict=True)):
        if odd == f"field {index}":
            second += b"\1" + bytes(index)
        else:
            second += b"\0" + struct.pack(f">{kind}", value)
    return first, second + bytes([random.getrandbits(1)]) + text(name) + b"\0\0"


def page_of(entries: list[Segments]) -> Page:
    """The entries with four bytes before each segment, as canonical savepoints have their lengths."""
    data = bytearray()
    starts: list[list[int]] = []
    ends: list[list[int]] = []
    for segments in entries:
        places = []
        for segment in segments:
            data += bytes(4)
            places.append((len(data), len(data) + len(segment)))
            data += segment
        starts.append([place for place, _ in places])
        ends.append([place for _, place in places])
    return Page(
        data=np.frombuffer(bytes(data), dtype=np.uint8),
        starts=np.array(starts, dtype=np.int64),
        ends=np.array(ends, dtype=np.int64),
        key_groups=np.zeros(len(entries), dtype=np.int32),
        subtask=0,
        path="",
    )


def decoded(page: Page, *, blocks: bool) -> list[object] | tuple[object, ...]:
    """The rows, or the error of the first entry that contradicts the program."""
    tree = ColumnTree(COLUMNS)
    size = len(page) if blocks else BLOCK_ENTRIES - 1
    decoder = Decoder(tree, program_of(tree).finish(), batch_entries=size)
    rows: list[object] = []
    try:
        for batch in decoder.decode(page):
            for array in batch.arrays:
                array.validate(full=True)
            rows += zip(*(array.to_pylist() for array in batch.arrays), strict=True)
    except CorruptDataError as error:
        return error.message, error.position, error.breadcrumbs
    return rows


ODD = ("", "key", "hidden", "object", "field 0", "field 1", "field 2", "field 3", "name")


@pytest.mark.parametrize("odd", ODD)
def test_a_block_with_an_odd_entry_is_decoded_as_its_entries_are(odd: str) -> None:
    random = Random(odd)
    odd_rows = {random.randrange(ROWS) for _ in range(2)} | {BLOCK_ENTRIES}
    page = page_of([entry(random, odd=odd if row in odd_rows else "") for row in range(ROWS)])

    found = decoded(page, blocks=True)

    assert len(found) == ROWS
    assert found == decoded(page, blocks=False)


@pytest.mark.parametrize("seed", range(4))
def test_entries_of_all_kinds_are_decoded_as_one_by_one(seed: int) -> None:
    random = Random(seed)
    # From no odd entry to one in four, so that blocks are regular, or are not, for a while.
    page = page_of(
        [
            entry(random, odd=random.choice(ODD) if random.random() < row / ROWS / 4 - 0.1 else "")
            for row in range(3 * ROWS)
        ]
    )

    assert decoded(page, blocks=True) == decoded(page, blocks=False)


def test_texts_that_outgrow_their_column_are_decoded_by_further_batches() -> None:
    random = Random(1)
    short = [entry(random) for _ in range(ROWS)]
    page = page_of([*short, *(entry(random, odd="name") for _ in range(ROWS)), *short])

    assert decoded(page, blocks=True) == decoded(page, blocks=False)


@pytest.mark.parametrize("cut", [1, 2, 3, 9])
@pytest.mark.parametrize("number", [0, 1])
def test_a_segment_that_ends_too_early_is_refused_though_its_bytes_go_on(number: int, cut: int) -> None:
    random = Random(cut)
    page = page_of([entry(random) for _ in range(2 * BLOCK_ENTRIES)])
    page.ends[BLOCK_ENTRIES + 7, number] -= cut

    found = decoded(page, blocks=True)

    assert isinstance(found, tuple)
    assert found == decoded(page, blocks=False)


@pytest.mark.parametrize("seed", range(40))
def test_damaged_bytes_end_in_the_same_rows_or_error(seed: int) -> None:
    random = Random(seed)
    entries = [entry(random) for _ in range(2 * BLOCK_ENTRIES + 20)]
    row = random.randrange(len(entries))
    segments = [bytearray(segment) for segment in entries[row]]
    damaged = segments[random.getrandbits(1)]
    match random.randrange(3):
        case 0:
            damaged[random.randrange(len(damaged))] = random.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
        case 1:
            del damaged[random.randrange(len(damaged)) :]
        case _:
            damaged += random.randbytes(random.randint(1, 3))
    entries[row] = bytes(segments[0]), bytes(segments[1])
    page = page_of(entries)

    assert decoded(page, blocks=True) == decoded(page, blocks=False)
