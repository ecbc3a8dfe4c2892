"""The rows of a JSON answer, collected before the first byte is sent: it says how many there are before them.

A few are kept in memory, more in a file (`service.queries.spool`), so an answer costs the server little however long it is and
however slowly it is read. There are `max_answer_bytes` of text at most; what comes behind is cut off, as behind `max_rows`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

import pyarrow as pa
from anyio import to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.encode import json_rows
from service.errors import MemoryExceededError
from service.queries.spool import Place, SpoolFile
from service.sql.types import Column

_SLICE_BYTES = 256 * 1024
_SLICE_CELLS = 512 * 1024
_PART_BYTES = 256 * 1024


class AnswerBuffer:
    """Rows as text, with commas between them. One thread at a time.

    Args:
        memory_bytes: that are kept in memory at most.
        max_bytes: of all rows.
        file: for the others.

    Attributes:
        columns: of the rows.
        row_count: how many there are.
        size_bytes: of their text.
        is_full: whether one had no room.
    """

    def __init__(self, memory_bytes: int, max_bytes: int, file: SpoolFile) -> None:
        self._memory_bytes = memory_bytes
        self._max_bytes = max_bytes
        self._file = file
        self._pieces: list[bytes | Place] = []
        self.columns: Sequence[Column] = ()
        self.row_count = 0
        self.size_bytes = 0
        self.is_full = False

    @property
    def is_in_memory(self) -> bool:
        """Whether none is in the file."""
        return self.size_bytes <= self._memory_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the rows of a batch, as many as have room.

        Raises:
            MemoryExceededError: there is no room on the disk.
        """
        for part in _slices(batch):
            rows = json_rows(self.columns, part)
            text = ",".join(rows).encode()
            if self.size_bytes + len(text) + 1 > self._max_bytes:
                self.is_full = True
                rows = self._fitting(rows)
                text = ",".join(rows).encode()
            if rows:
                self._keep(b"," + text if self.row_count else text)
                self.row_count += len(rows)
            if self.is_full:
                return

    def parts(self) -> Iterator[bytes]:
        """All of it, once."""
        for piece in self._pieces:
            content = self._file.take(piece) if isinstance(piece, Place) else piece
            assert content is not None  # it is closed behind the answer
            yield content

    def close(self) -> None:
        """Let go of it."""
        self._pieces.clear()
        self._file.close()

    def _keep(self, text: bytes) -> None:
        self.size_bytes += len(text)
        if self.is_in_memory:
            self._pieces.append(text)
            return
        place = self._file.put(memoryview(text))
        if place is None:
            raise MemoryExceededError(
                "there is no room to keep the answer until it is read",
                hint="ask for Arrow, CSV or JSON lines, which are sent as they are found, or for fewer rows",
            )
        self._pieces.append(place)

    def _fitting(self, rows: list[str]) -> list[str]:
        """The first rows, as many as have room."""
        left = self._max_bytes - self.size_bytes
        for number, row in enumerate(rows):
            left -= len(row.encode()) + 1
            if left < 0:
                return rows[:number]
        return rows


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """The batch in parts whose text is not long, unless one row's is."""
    by_bytes = _SLICE_BYTES * batch.num_rows // max(1, batch.nbytes)
    rows = max(1, min(by_bytes, _SLICE_CELLS // max(1, batch.num_columns)))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


class BufferedAnswer(StreamingResponse):
    """An answer with many rows.

    Args:
        before: what stands before the rows.
        rows: let go of with it.
        after: what stands behind them.
        media_type: of all of it.
    """

    def __init__(self, before: bytes, rows: AnswerBuffer, after: bytes, media_type: str) -> None:
        self._rows = rows
        length = len(before) + rows.size_bytes + len(after)
        super().__init__(
            self._parts(before, after), media_type=media_type, headers={"Content-Length": str(length)}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it, or what its client takes of it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._rows.close()

    async def _parts(self, before: bytes, after: bytes) -> AsyncIterator[bytes]:
        yield before
        pieces = self._rows.parts()
        while (piece := await to_thread.run_sync(next, pieces, None)) is not None:
            for start in range(0, len(piece), _PART_BYTES):
                yield piece[start : start + _PART_BYTES]
        yield after
