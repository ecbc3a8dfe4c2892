"""The table of openers: a format is one folder and one line.

I want to add a format: touch `readers/metadata/model.py` (the class of its handle), `readers/metadata/handles.py` (a line: tag →
function that reads the handle), `readers/formats/<format>/source.py` (a `Source` and its `Opener`), `readers/formats/opener.py` (a
line: role and class → opener) and `tools/support.py` (a line: its row in the list of what is read). Nothing else knows formats.

The toy format of these tests is added so: entries of two longs, key and value, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

import catalog
from readers.decode.decoder import Page
from readers.decode.program import Program
from readers.formats.entry import Entry, EntryLayout, StateKind
from readers.formats.opener import OPENERS, Opener, OpeningContext, opener_of
from readers.formats.operatorstate import OperatorOpener
from readers.formats.source import HandleSource, Selection, Source, StateName
from readers.metadata import (
    ByteStreamStateHandle,
    FileMergingOperatorStreamStateHandle,
    KeyedStateHandle,
    KeyGroupRange,
    OperatorState,
    SavepointMetadata,
    StateRole,
    StreamStateHandle,
    SubtaskState,
    handles,
)
from readers.metadata.handles import HandleCursor
from readers.savepoint import Savepoint
from readers.serializers.primitives import LongSerializer, VoidNamespaceSerializer
from readers.storage.filesystems import Stream
from tests.support.metadata_writer import handle, i1, i4, i8, write_metadata

TAG = 99
ENTRY_BYTES = 16
OPERATOR_ID = "0123456789abcdef" * 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ToyStateHandle(KeyedStateHandle):
    """A stream of entries of one key group."""

    key_group_range: KeyGroupRange
    delegate: StreamStateHandle

    @property
    def size_bytes(self) -> int:
        return self.delegate.size_bytes

    def streams(self) -> Iterator[StreamStateHandle]:
        return self.delegate.streams()


@dataclass(frozen=True, kw_only=True, eq=False)
class ToySource(HandleSource):
    """One value state of longs."""

    stream: Stream

    backend = "toy"

    def columns(self, entry: Entry) -> dict[str, pa.DataType]:
        return {"key": pa.int64(), "namespace": pa.binary(), "value": pa.int64()}

    def emit(self, program: Program, layout: EntryLayout, entry: Entry) -> None:
        for name in ("key", "value"):
            with layout.column(program, name):
                program.fixed(8)
        with layout.column(program, "namespace"):
            program.null()

    def pages(self, state: StateName, selection: Selection) -> Iterator[Page]:
        starts = np.arange(0, self.stream.size_bytes, ENTRY_BYTES, dtype=np.int64).reshape(-1, 1)
        yield Page(
            data=self.stream.span(0, self.stream.size_bytes),
            starts=starts,
            ends=starts + ENTRY_BYTES,
            key_groups=np.full(len(starts), self.key_group_range.start, dtype=np.int32),
            subtask=self.subtask,
            path=self.path,
        )


class ToyOpener(Opener[ToyStateHandle]):
    family = StateKind.VALUE
    sources = (ToySource,)

    def open(self, handle: ToyStateHandle, context: OpeningContext) -> Source:
        stream = context.location.open_stream(handle.delegate)
        longs = LongSerializer()
        entry = Entry(kind=StateKind.VALUE, key=longs, namespace=VoidNamespaceSerializer(), value=longs)
        return ToySource(
            subtask=context.subtask,
            path=stream.path,
            size_bytes=handle.size_bytes,
            entries={StateName(name="numbers"): entry},
            handle=handle,
            stream=stream,
        )


def read_toy(cursor: HandleCursor) -> ToyStateHandle:
    group = cursor.i4()
    delegate = handles.read_stream_state_handle(cursor)
    assert delegate is not None
    return ToyStateHandle(key_group_range=KeyGroupRange(start=group, end=group), delegate=delegate)


@handle.register
def _(state: ToyStateHandle) -> bytes:
    return i1(TAG) + i4(state.key_group_range.start) + handle(state.delegate)


@pytest.fixture
def savepoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A savepoint with a toy handle, which `_metadata` may hold."""
    monkeypatch.setitem(handles.KEYED_STATE_HANDLES, TAG, read_toy)
    stream = ByteStreamStateHandle(handle_name="toy", data=i8(1, 10) + i8(2, 20))
    keyed = ToyStateHandle(key_group_range=KeyGroupRange(start=3, end=3), delegate=stream)
    subtask = SubtaskState(index=0, managed_keyed_state=keyed)
    operator = OperatorState(operator_id=OPERATOR_ID, parallelism=1, max_parallelism=128, subtasks=(subtask,))
    metadata = SavepointMetadata(version=3, checkpoint_id=1, operators=(operator,))
    (tmp_path / "_metadata").write_bytes(write_metadata(metadata))
    return tmp_path


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPENERS, (StateRole.MANAGED_KEYED, ToyStateHandle), ToyOpener())


@pytest.mark.usefixtures("registered")
def test_a_format_with_a_line_in_the_table_is_read(savepoint: Path) -> None:
    (operator,) = Savepoint(savepoint).operators

    (state,) = operator.states

    assert (state.name, state.backend, state.status, state.note) == ("numbers", "toy", "decoded", "")
    assert [row for batch in state.read() for row in batch.to_pylist()] == [
        {"key": key, "namespace": None, "value": 10 * key, "_key_group": 3, "_subtask": 0} for key in (1, 2)
    ]


@pytest.mark.usefixtures("registered")
def test_a_format_with_a_line_in_the_table_is_a_table_of_the_catalog(savepoint: Path) -> None:
    database = catalog.connect(savepoint).default
    assert database is not None

    table = database.table(OPERATOR_ID)
    files = database.table("files").scan(columns=["handle_type", "key_group_start"]).to_arrow()

    assert table.scan(columns=["value"]).to_arrow().column("value").to_pylist() == [10, 20]
    assert files.to_pylist() == [{"handle_type": "MANAGED_KEYED", "key_group_start": 3}]


def test_a_handle_without_a_line_is_listed_with_its_class(savepoint: Path) -> None:
    (operator,) = Savepoint(savepoint).operators

    (state,) = operator.states

    assert (state.name, state.parts) == ("(keyed state)", ())
    assert "found ToyStateHandle" in state.note


def test_a_handle_has_the_opener_of_the_nearest_class() -> None:
    merged = FileMergingOperatorStreamStateHandle(
        state_meta_infos=(),
        delegate=ByteStreamStateHandle(handle_name="", data=b""),
        task_owned_directory="",
        shared_directory="",
        empty=True,
    )

    assert isinstance(opener_of(StateRole.MANAGED_OPERATOR, merged), OperatorOpener)


def test_every_role_has_openers() -> None:
    assert {role for role, _ in OPENERS} == set(StateRole)
