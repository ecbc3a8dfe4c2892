"""Compiled code is kept, is never stale or damaged, and does the same as its source."""

from __future__ import annotations

import contextlib
import functools
import importlib
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.kernels import COMPILED_UNITS
from readers.compiled import kernel as code
from readers.compiled.kernel import Kernel
from readers.decode.decoder import Page
from readers.decode.machine import execute as machine
from readers.errors import ReaderError
from readers.formats import inflight as channelstate
from readers.formats.changelog import log as changelog
from readers.formats.full import layout as full
from readers.formats.rocksdb.sst import blocks, checksums
from readers.formats.source import Selection
from readers.rows import state_schema
from readers.savepoint import Savepoint
from readers.states import StatePart
from readers.storage.temporary import CACHE_VARIABLE
from tests.support.interpreted import interpreted
from tests.support.paths import PROJECT

DATA = PROJECT / "tests" / "data" / "flink"
CONSTANT = "FACTOR = 3"
SOURCE = f'''
"""A kernel for tests."""

from readers.compiled.kernel import kernel
from readers.compiled.routines import subroutine
from readers.decode.loads import load_le_i8, store_8
from scaling import SHIFT, scaled

{CONSTANT}


@subroutine
def tripled(value: int) -> int:
    return value * FACTOR


@kernel
def total(numbers: int, count: int) -> int:
    found = 0
    for index in range(count):
        found += scaled(tripled(load_le_i8(numbers, index * 8)))
    return found + SHIFT


@kernel
def bounds(numbers: int, count: int) -> tuple[int, int]:
    return load_le_i8(numbers, 0), load_le_i8(numbers, (count - 1) * 8)


@kernel
def is_empty(count: int) -> bool:
    return count == 0


@kernel
def clear(numbers: int, count: int) -> None:
    for index in range(count):
        store_8(numbers, index * 8, 0)
'''
SCALING = '''
"""A subroutine in another module."""

from readers.compiled.routines import subroutine

SHIFT = 1


@subroutine
def scaled(value: int) -> int:
    return value * 10
'''
PROGRAM = """
import sys
import numpy as np
import sample
print(sample.total(np.array([1, 2, 4]), 3), "numba" in sys.modules)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the modules `sample` and `scaling`, and an empty cache for their code."""
    (tmp_path / "sample.py").write_text(SOURCE)
    (tmp_path / "scaling.py").write_text(SCALING)
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path


@pytest.fixture(scope="module")
def kernels_of_the_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the object code of a project that is compiled."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "sample.py").write_text(SOURCE)
    (folder / "scaling.py").write_text(SCALING)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder / "cache"))
        assert outcome(started(folder)) == (211, True)
    return folder / "cache" / "kernels"


@pytest.fixture
def compiled(project: Path, kernels_of_the_project: Path) -> Path:
    """A project whose code is in its cache."""
    shutil.copytree(kernels_of_the_project, project / "cache" / "kernels")
    return project


def started(project: Path, program: str = PROGRAM) -> subprocess.Popen[str]:
    environment = os.environ | {
        "PYTHONPATH": f"{project}{os.pathsep}{PROJECT}",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def outcome(process: subprocess.Popen[str]) -> tuple[int, bool]:
    """Return what `PROGRAM` printed: the total, and whether numba was imported."""
    output, errors = process.communicate()
    assert process.returncode == 0, errors
    total, compiled = output.split()
    return int(total), compiled == "True"


def files(project: Path) -> list[Path]:
    return list((project / "cache" / "kernels").iterdir())


@pytest.fixture
def sample(project: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(project))
    yield importlib.import_module("sample")
    for name in ("sample", "scaling"):
        del sys.modules[name]


def test_kernels_take_arrays_and_numbers_and_return_what_they_say(sample: Any):
    numbers = np.array([1, 2, 4])

    assert sample.total(numbers, np.int64(3)) == 211
    assert sample.bounds(numbers, 3) == (1, 4)
    assert (sample.is_empty(0), sample.is_empty(3)) == (True, False)
    assert sample.clear(numbers, 2) is None
    assert numbers.tolist() == [0, 0, 4]


def test_where_the_system_does_not_describe_the_processor_llvm_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    kernels = list(code.kernels_of(full.__name__).values())
    known = code.identity_of(kernels)
    monkeypatch.setattr(code, "_MODEL", tmp_path / "none")

    other = code.identity_of(kernels)

    assert len(other) == 64
    assert other != known or sys.platform != "linux"


def test_arrays_in_pieces_are_refused(sample: Any):
    with pytest.raises(ValueError, match=r"expected an array in one piece, found one of shape \(2,\)"):
        sample.total(np.arange(4)[::2], 2)


@pytest.mark.slow
def test_what_was_compiled_once_needs_no_compiler_wherever_its_sources_are(compiled: Path):
    assert outcome(started(compiled)) == (211, False)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "old", "new", "expected"),
    [
        ("sample.py", CONSTANT, "FACTOR = 5", 351),
        pytest.param("sample.py", "found = 0", "found = 1", 212, marks=pytest.mark.slow),
        pytest.param("scaling.py", "SHIFT = 1", "SHIFT = 2", 212, marks=pytest.mark.slow),
        ("scaling.py", "value * 10", "value * 100", 2101),
    ],
)
def test_a_changed_source_is_compiled_anew(compiled: Path, module: str, old: str, new: str, expected: int):
    path = compiled / module
    path.write_text(path.read_text().replace(old, new))

    found = outcome(started(compiled))

    assert found == (expected, True)
    assert len(files(compiled)) == 2


@pytest.mark.slow
def test_damaged_files_are_not_loaded_and_are_replaced(compiled: Path):
    (path,) = files(compiled)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 1
    for content in (b"", whole[:20], whole[:-1], bytes(damaged)):
        path.write_bytes(content)

        assert outcome(started(compiled)) == (211, True)
        assert outcome(started(compiled)) == (211, False)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files")
@pytest.mark.parametrize("mode", [0o666, 0o664])
def test_files_that_others_could_have_written_are_not_loaded(compiled: Path, mode: int):
    (path,) = files(compiled)
    path.chmod(mode)
    path.parent.chmod(0o775)

    found = outcome(started(compiled))

    assert found == (211, True)
    assert path.stat().st_mode & 0o777 == 0o644
    assert path.parent.stat().st_mode & 0o777 == 0o755
    assert outcome(started(compiled)) == (211, False)


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file of a unit, alone in a cache of its own."""
    unit = checksums.__name__
    code.compile_all([unit])
    (path,) = [
        path
        for folder in code.folders()
        if folder.is_dir()
        for path in folder.glob(f"{unit}-{code.identity_of(code.kernels_of(unit).values())}.bin")
    ][:1]
    folder = tmp_path / "above" / "cache" / "kernels"
    folder.mkdir(parents=True, mode=0o755)
    folder.chmod(0o755)
    monkeypatch.setenv(CACHE_VARIABLE, str(folder.parent))
    return Path(shutil.copy(path, folder))


def is_loaded() -> bool:
    return code.missing_units([checksums.__name__]) == []


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files")
def test_what_a_group_may_write_is_not_loaded(kept: Path):
    found = [is_loaded()]
    for path, mode in ((kept, 0o664), (kept, 0o646), (kept.parent, 0o775), (kept.parent, 0o757)):
        before = path.stat().st_mode
        path.chmod(mode)
        found.append(is_loaded())
        path.chmod(before)
    # What is above may be the group's: what its members put there is theirs.
    kept.parent.parent.chmod(0o775)
    found.append(is_loaded())

    assert found == [True, False, False, False, False, True]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners of files")
def test_a_link_to_code_is_not_loaded_and_one_above_it_only_if_it_is_this_users(kept: Path, tmp_path: Path):
    target = Path(shutil.move(kept, tmp_path / "code"))
    kept.symlink_to(target)
    linked_file = is_loaded()
    kept.unlink()
    shutil.move(target, kept)
    moved = kept.parent.rename(tmp_path / "elsewhere")
    kept.parent.symlink_to(moved)
    linked_folder = is_loaded()
    kept.parent.unlink()
    moved.rename(kept.parent)
    above = kept.parent.parent.parent
    above.rename(tmp_path / "moved")
    above.symlink_to(tmp_path / "moved")

    assert (linked_file, linked_folder, is_loaded()) == (False, False, True)


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("what", ["file", "folder", "above", "link", "behind a link"])
def test_code_below_or_behind_what_belongs_to_another_user_is_not_loaded(
    kept: Path, tmp_path: Path, what: str
):
    if what == "above":
        os.chown(kept.parent.parent, 65534, 65534)
    elif what in ("link", "behind a link"):
        above = kept.parent.parent.parent
        above.rename(tmp_path / "moved")
        above.symlink_to(tmp_path / "moved")
        os.lchown(above if what == "link" else tmp_path / "moved", 65534, 65534)
    else:
        os.chown(kept if what == "file" else kept.parent, 65534, 65534)

    assert not is_loaded()


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="only root gives files away")
def test_nothing_is_written_into_the_folder_of_another_user(project: Path):
    folder = project / "cache" / "kernels"
    folder.mkdir(parents=True)
    os.chown(folder, 65534, 65534)

    assert outcome(started(project)) == (211, True)
    assert files(project) == []


@pytest.mark.slow
def test_where_nothing_can_be_written_the_code_serves_the_process(project: Path):
    (project / "cache").write_text("not a folder")

    found = outcome(started(project))

    assert found == (211, True)


@pytest.mark.slow
def test_processes_that_compile_at_once_leave_one_file(project: Path):
    processes = [started(project) for _ in range(3)]

    assert [outcome(process)[0] for process in processes] == [211, 211, 211]
    assert [path.suffix for path in files(project)] == [".bin"]
    assert outcome(started(project)) == (211, False)


@pytest.mark.slow
def test_what_a_killed_process_left_is_removed_by_a_later_one(project: Path):
    folder = project / "cache" / "kernels"
    folder.mkdir(parents=True)
    left = folder / ".unfinished-abc"
    left.write_bytes(b"half")
    os.utime(left, (0, 0))

    outcome(started(project))

    assert not left.exists()


def test_every_module_with_kernels_is_compiled_ahead():
    names = {
        ".".join(path.relative_to(PROJECT).with_suffix("").parts)
        for room in ("readers", "writers", "catalog")
        for path in (PROJECT / room).rglob("*.py")
        if "\n@kernel\n" in path.read_text(encoding="utf-8")
    }

    assert names == set(COMPILED_UNITS)
    assert all(
        isinstance(kernel, Kernel) for unit in COMPILED_UNITS for kernel in code.kernels_of(unit).values()
    )


# --- compiled code does what its source says, run by Python ---

bytes_and_slack = st.binary(max_size=300).map(
    lambda data: np.frombuffer(data + bytes(64), dtype=np.uint8).copy()
)


@given(data=bytes_and_slack)
def test_checksums_are_those_of_their_source(data: np.ndarray):
    length, scratch = len(data) - 64, np.zeros(8, dtype=np.int64)

    for kernel in (checksums.xxh3, checksums.crc32c):
        arguments = (data, length, scratch) if kernel is checksums.xxh3 else (0, data, length)
        assert kernel(*arguments) == interpreted(kernel)(*arguments)


@given(
    data=bytes_and_slack,
    kind=st.sampled_from([blocks.SNAPPY, blocks.LZ4]),
    size=st.integers(0, 200),
)
def test_decompression_is_that_of_its_source(data: np.ndarray, kind: int, size: int):
    length = len(data) - 64
    decompress = blocks.decompress_snappy if kind == blocks.SNAPPY else blocks.decompress_lz4
    plain, expected = np.zeros(size + 64, dtype=np.uint8), np.zeros(size + 64, dtype=np.uint8)

    assert blocks.plain_length(kind, data, length) == interpreted(blocks.plain_length)(kind, data, length)
    assert decompress(data, length, plain, size) == interpreted(decompress)(data, length, expected, size)
    assert plain[:size].tolist() == expected[:size].tolist()


@given(data=bytes_and_slack, start=st.integers(0, 20))
def test_headers_of_entries_are_those_of_their_source(data: np.ndarray, start: int):
    address, length = data.ctypes.data, len(data) - 64

    for kernel, arguments in (
        (blocks.entry_header, (address + min(start, length), address + length)),
        (blocks.entries_length, (address, length)),
        (blocks.varint, (address + min(start, length), address + length)),
    ):
        assert kernel(*arguments) == interpreted(kernel)(*arguments)


def index_block(keys: list[bytes], shared: int) -> bytes:
    """A plain index block without delta encoding, every entry of which is a restart, but those that share bytes."""
    block, restarts = b"", []
    for number, key in enumerate(keys):
        internal, handle = key + bytes(8), bytes([number, 1])
        same = shared if number % 2 and keys[number - 1][:shared] == key[:shared] else 0
        if not same:
            restarts.append(len(block))
        block += bytes([same, len(internal) - same, len(handle)]) + internal[same:] + handle
    numbers = [*restarts, len(restarts)]
    return block + b"".join(value.to_bytes(4, "little") for value in numbers)


def index_keys(keys: list[bytes]) -> blocks.Keys:
    """Keys, as an index is asked for them."""
    ends = np.cumsum([len(key) for key in keys], dtype=np.int64)
    bounds = np.zeros((2, len(keys), 2), dtype=np.int64)
    bounds[0, 1:, 0], bounds[1, :, 0] = ends[:-1], ends
    data = np.frombuffer(b"".join(keys) + bytes(64), dtype=np.uint8)
    return blocks.Keys(data=data, starts=bounds[0], ends=bounds[1])


@given(
    keys=st.lists(st.binary(min_size=1, max_size=3), max_size=20).map(sorted),
    shared=st.integers(0, 1),
    damage=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=2),
    first=st.binary(max_size=3),
    behind=st.one_of(st.none(), st.binary(max_size=3)),
    delta=st.booleans(),
    sought=st.one_of(st.none(), st.sets(st.binary(max_size=3), max_size=5).map(sorted)),
)
def test_walks_of_an_index_are_those_of_their_source(
    keys: list[bytes],
    shared: int,
    damage: list[tuple[int, int]],
    first: bytes,
    behind: bytes | None,
    delta: bool,
    sought: list[bytes] | None,
):
    content = bytearray(index_block(keys, shared))
    for position, byte in damage:
        content[position % len(content)] = byte
    block = np.frombuffer(bytes(content) + bytes(64), dtype=np.uint8)
    bounds = np.frombuffer(first + bytes(64) + (behind or b"") + bytes(64), dtype=np.uint8)
    key = np.zeros(len(content) + 128, dtype=np.uint8)
    found, expected = (np.zeros((30, 2), dtype=np.int64) for _ in range(2))
    before = (block.ctypes.data, len(content), delta, 8, bounds.ctypes.data, len(first))
    after = (-1 if behind is None else len(behind), key.ctypes.data, 10_000)
    keys_sought = index_keys(sought or [])
    number = -1 if sought is None else len(keys_sought)
    addresses = (*keys_sought.addresses[:3], number)

    count = blocks._walk_index(*before, *after, found.ctypes.data, 30, *addresses)

    assert count == interpreted(blocks._walk_index)(*before, *after, expected.ctypes.data, 30, *addresses)
    assert found.tolist() == expected.tolist()
    if not damage and not delta:
        candidates = [number for number, key in enumerate(keys) if key >= first]
        last = next(
            (at for at, number in enumerate(candidates) if behind is not None and keys[number] >= behind), 30
        )
        wanted = candidates[: last + 1]
        if sought is not None:
            # The last entries of a key may be the first of the next block.
            begins = [b"", *(keys[number] for number in wanted)]
            wanted = [
                number
                for begin, number in zip(begins, wanted, strict=False)
                if any(begin <= one <= keys[number] for one in sought)
            ]
        assert found[:count, 0].tolist() == wanted


entry = st.tuples(st.binary(min_size=1, max_size=20), st.binary(max_size=20), st.booleans())


@given(entries=st.lists(entry, max_size=6), noise=st.binary(max_size=20), wanted=st.integers(0, 1))
def test_entries_of_a_key_group_are_those_of_their_source(
    entries: list[tuple[bytes, bytes, bool]], noise: bytes, wanted: int
):
    data = b""
    for key, value, switches in entries:
        flagged = bytes([key[0] & 0x7F | (0x80 if switches else 0)]) + key[1:]
        data += len(key).to_bytes(4, "big") + flagged + len(value).to_bytes(4, "big") + value
        data += b"\x00\x01" if switches else b""
    buffer = np.frombuffer(data + noise + bytes(64), dtype=np.uint8)
    found, expected = (np.zeros((2, 4, 2), dtype=np.int64) for _ in range(2))
    marks, expected_marks = (np.zeros((full.MOST_RANGES, 2), dtype=np.int64) for _ in range(2))

    for room, stop in product((4, -1), (1, 30, len(data + noise) + 1)):
        first = (buffer, 0, len(data + noise), stop, 0, wanted)
        assert full._walk(*first, *found, room, marks, 1) == interpreted(full._walk)(
            *first, *expected, room, expected_marks, 1
        )
    assert found.tolist() == expected.tolist()
    assert marks.tolist() == expected_marks.tolist()


@given(
    data=st.lists(st.sampled_from([b"\0\0\0\x01", b"\0\0\0\x05", b"abc", b"\0\0"]), max_size=12).map(b"".join)
)
def test_changes_and_records_are_those_of_their_source(data: bytes):
    buffer = np.frombuffer(data + bytes(64), dtype=np.uint8)
    found, expected = (np.zeros((3, 4), dtype=np.int64) for _ in range(2))

    for kernel, arrays in ((changelog._walk, 3), (channelstate._walk, 2)):
        one, other = list(found[:arrays]), list(expected[:arrays])
        assert kernel(buffer, len(data), 0, *one, 4) == interpreted(kernel)(buffer, len(data), 0, *other, 4)
        assert found.tolist() == expected.tolist()


EVERYTHING = DATA / "2.3.0" / "everything-hashmap-savepoints"
"""A savepoint with a state of every type."""


def parts_of(path: Path) -> list[StatePart]:
    """Return the first part of each state."""
    operators = Savepoint(path).operators
    return [state.parts[0] for operator in operators for state in operator.states if state.parts]


def rows_of(part: StatePart) -> list[str] | str:
    """Return the rows as text, or the error."""
    schema = state_schema(part.entry)
    try:
        batches = list(part.read(schema.names, schema, Selection()))
    except ReaderError as error:
        return str(error)
    return [column.to_string(window=1000) for batch in batches for column in batch.columns]


@contextlib.contextmanager
def by_python() -> Iterator[None]:
    """Let Python run the machine inside."""
    with pytest.MonkeyPatch.context() as patch:
        for name, kernel in code.kernels_of(machine.__name__).items():
            patch.setattr(machine, name, interpreted(kernel))
        yield


@pytest.mark.parametrize("layout", ["native", "canonical"])
def test_decoding_is_that_of_its_source(layout: str):
    found = [rows_of(part) for part in parts_of(EVERYTHING / layout)]
    with by_python():
        expected = [rows_of(part) for part in parts_of(EVERYTHING / layout)]

    assert found == expected
    assert sum(len(rows) for rows in found if isinstance(rows, list)) > 100


@functools.cache
def pages() -> list[tuple[StatePart, Page]]:
    """Return a page of up to three entries of each state, with a copy of their bytes."""
    found = []
    for part in parts_of(EVERYTHING / "canonical"):
        for page in part.source.pages(part.name, Selection()):
            if len(page):
                found.append((part, replace(page.slice(0, 3), data=page.data.copy())))
                break
    return found


@given(data=st.data())
def test_decoding_of_damaged_bytes_is_that_of_its_source(data: st.DataObject):
    part, page = data.draw(st.sampled_from(pages()))
    entry = st.integers(0, len(page) - 1)
    damaged = page.data.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(entry)
        at = data.draw(st.integers(int(page.starts[row].min()), int(page.ends[row].max()) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(part.source), "pages", lambda *_: iter([replace(page, data=damaged)]))
        found = rows_of(part)
        with by_python():
            expected = rows_of(part)

    assert found == expected
