"""The rows of a JSON answer, collected before the first byte is sent: status and Content-Length depend on all rows.

A few rows are kept in memory, more in a file (`service.query.serving.results`), so a long answer that is read slowly costs the
server little. The text of the rows has at most `max_answer_bytes`; further rows are cut off, as after `max_rows`.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence

import pyarrow as pa
from anyio import to_thread
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from service.base.errors import MemoryExceededError
from service.query.encode import json_rows
from service.query.serving.results import Extent, SpoolFile
from service.query.sql.types import Column

# JSON text may be many times as long as its batch, so only a slice is text at a time.
_SLICE_BYTES = 256 * 1024
_SLICE_CELLS = 512 * 1024
_SEND_BYTES = 256 * 1024


class AnswerBuffer:
    """The text of rows, with commas between them. Not safe for several threads at the same time.

    Args:
        memory_bytes: most bytes that are kept in memory.
        max_bytes: most bytes of all rows.
        file: takes the rows that are not kept in memory.

    Attributes:
        columns: columns of the rows.
        row_count: number of rows.
        size_bytes: size of their text.
        is_full: True if a row had no room.
    """

    def __init__(self, memory_bytes: int, max_bytes: int, file: SpoolFile) -> None:
        self._memory_bytes = memory_bytes
        self._max_bytes = max_bytes
        self._file = file
        self._chunks: list[bytes | Extent] = []
        self.columns: Sequence[Column] = ()
        self.row_count = 0
        self.size_bytes = 0
        self.is_full = False

    @property
    def is_in_memory(self) -> bool:
        """True if no row is in the file."""
        return self.size_bytes <= self._memory_bytes

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows of a batch, as many as have room.

        Raises:
            MemoryExceededError: there is no room on the disk.
        """
        for rows_slice in _slices(batch):
            rows = json_rows(self.columns, rows_slice)
            text = ",".join(rows).encode()
            # One byte more: the comma between the rows.
            if self.size_bytes + len(text) + 1 > self._max_bytes:
                self.is_full = True
                rows = self._fitting(rows)
                text = ",".join(rows).encode()
            if rows:
                self._keep(b"," + text if self.row_count else text)
                self.row_count += len(rows)
            if self.is_full:
                return

    def chunks(self) -> Iterator[bytes]:
        """Yield all text, once."""
        for chunk in self._chunks:
            content = self._file.take(chunk) if isinstance(chunk, Extent) else chunk
            assert content is not None  # the file is closed only after the answer
            yield content

    def close(self) -> None:
        """Drop the text."""
        self._chunks.clear()
        self._file.close()

    def _keep(self, text: bytes) -> None:
        self.size_bytes += len(text)
        if self.is_in_memory:
            self._chunks.append(text)
            return
        extent = self._file.put(memoryview(text))
        if extent is None:
            raise MemoryExceededError(
                "there is no room on the disk for the answer",
                hint="request Arrow, CSV or JSON lines, which stream, or fewer rows",
            )
        self._chunks.append(extent)

    def _fitting(self, rows: list[str]) -> list[str]:
        """Return the first rows, as many as have room."""
        left = self._max_bytes - self.size_bytes
        for number, row in enumerate(rows):
            left -= len(row.encode()) + 1
            if left < 0:
                return rows[:number]
        return rows


def _slices(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch whose text is short, so that little text is in memory at once."""
    by_bytes = _SLICE_BYTES * batch.num_rows // max(1, batch.nbytes)
    rows = max(1, min(by_bytes, _SLICE_CELLS // max(1, batch.num_columns)))
    if 0 < batch.num_rows <= rows:
        yield batch
        return
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)


class BufferedAnswer(StreamingResponse):
    """An answer whose rows are in a buffer.

    Args:
        before: text before the rows.
        rows: the buffer; closed with the answer.
        after: text behind the rows.
        media_type: media type of the answer.
    """

    def __init__(self, before: bytes, rows: AnswerBuffer, after: bytes, media_type: str) -> None:
        self._rows = rows
        length = len(before) + rows.size_bytes + len(after)
        super().__init__(
            self._content(before, after), media_type=media_type, headers={"Content-Length": str(length)}
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the answer, and close the buffer even if the client disconnects."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._rows.close()

    async def _content(self, before: bytes, after: bytes) -> AsyncIterator[bytes]:
        yield before
        chunks = self._rows.chunks()
        while (chunk := await to_thread.run_sync(next, chunks, None)) is not None:
            for start in range(0, len(chunk), _SEND_BYTES):
                yield chunk[start : start + _SEND_BYTES]
        yield after
