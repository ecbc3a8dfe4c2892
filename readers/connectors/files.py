"""FileSource and FileSink. Package `org.apache.flink.connector.file`.

| value | version | bytes |
|---|---|---|
| FileSourceSplit | 1 | utf id, path, i8 offset, i8 length, i8 modification time, i8 file size, i4 n, n × utf host |
| | | and bool → i8 offset of the reader, i8 records after it |
| PendingSplitsCheckpoint | 1 | little endian: u4 DEADBEEF, i4 split version, i4 n, i4 m |
| | | n × (i4 length, split), m × (i4 length, UTF-8 path) |
| FileWriterBucketState | 1–3 | u4 1E764B79, versioned bucket id (1: i4 little-endian length, UTF-8), utf path |
| | | i8 creation time, bool → versioned in-progress file |
| | 1, 2 | i4 version of pending files, i4 n, n × (i8 checkpoint, i4 m, m × (i4 length, pending file)) |

A path is `bool present`, the scheme, user info and host of its URI, each `bool, string`, i4 port, and path, query, fragment likewise.

Flink: FileSourceSplitSerializer, PendingSplitsCheckpointSerializer, FileWriterBucketStateSerializer, Path#write.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from readers.connectors.layout import (
    SourceOffset,
    check_version,
    coordinator_layout,
    expect_end,
    flag,
    versioned,
    versioned_layout,
)
from readers.cursor import Cursor
from readers.schemas import struct_of

_PACKAGE = "org.apache.flink.connector.file."
_PENDING_MAGIC = 0xDEADBEEF
_BUCKET_MAGIC = 0x1E764B79
_PENDING_IN_COMMITTABLES = 3  # since this version pending files are in the committables
_NO_OFFSET = -1  # CheckpointedPosition.NO_OFFSET
_LE_I4 = struct.Struct("<i")
_PENDING_HEADER = struct.Struct("<Iiii")

SPLIT = struct_of(
    "split_id, path, offset bigint, length bigint, modification_time timestamp, file_size bigint, hosts text[],"
    " reader_offset bigint, records_after_offset bigint"
)
_PENDING = struct_of("splits split[], already_processed_paths text[]", split=SPLIT)
_BUCKET = struct_of(
    "bucket_id, bucket_path, in_progress_file_creation_time timestamp, in_progress_file_version int,"
    " in_progress_file binary, pending_file_version int, pending_files pending[]",
    pending=struct_of("checkpoint_id bigint, files binary[]"),
)


def read_split(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a FileSourceSplit; `reader_offset` is null if the reader has not begun, or only counts records."""
    check_version(cursor, "a FileSourceSplit", version, 1)
    split: dict[str, Any] = {"split_id": cursor.utf("split id"), "path": _path(cursor)}
    for name in ("offset", "length", "modification_time", "file_size"):
        split[name] = cursor.i8()
    split["hosts"] = [cursor.utf("host") for _ in range(cursor.count("hosts", 2))]
    if flag(cursor):
        offset, split["records_after_offset"] = cursor.i8(), cursor.i8()
        split["reader_offset"] = None if offset == _NO_OFFSET else offset
    expect_end(cursor)
    return split


def read_pending(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a PendingSplitsCheckpoint: the splits that no reader has, and the paths that were already processed."""
    check_version(cursor, "a PendingSplitsCheckpoint", version, 1)
    start = cursor.position
    magic, split_version, splits, paths = _PENDING_HEADER.unpack(cursor.read(_PENDING_HEADER.size, "header"))
    # Each split and each path has a length of 4 bytes: this bounds the counts.
    if magic != _PENDING_MAGIC or min(splits, paths) < 0 or 4 * (splits + paths) > cursor.remaining:
        raise cursor.corrupt("expected pending splits", start)
    return {
        "splits": [read_split(split_version, cursor.sub(_le_i4(cursor), "split")) for _ in range(splits)],
        "already_processed_paths": [_utf8(cursor, _le_i4(cursor)) for _ in range(paths)],
    }


def read_bucket(version: int, cursor: Cursor) -> dict[str, Any]:
    """Read a FileWriterBucketState (up to version 2 BucketState of StreamingFileSink); its files are recoverables as bytes."""
    check_version(cursor, "a FileWriterBucketState", version, 1, 3)
    start = cursor.position
    if cursor.i4() != _BUCKET_MAGIC:
        raise cursor.corrupt("expected the state of a file writer's bucket", start)
    id_version, bucket_id = versioned(cursor)
    check_version(cursor, "a bucket id", id_version, 1)
    bucket: dict[str, Any] = {"bucket_id": _utf8(bucket_id, _le_i4(bucket_id))}
    expect_end(bucket_id)
    bucket["bucket_path"] = cursor.utf("bucket path")
    bucket["in_progress_file_creation_time"] = cursor.i8()
    if flag(cursor):
        # A recoverable belongs to the file system that wrote it, so it stays bytes.
        bucket["in_progress_file_version"], file = versioned(cursor)
        bucket["in_progress_file"] = bytes(file.read(file.remaining))
    if version < _PENDING_IN_COMMITTABLES:
        bucket["pending_file_version"] = cursor.i4()
        bucket["pending_files"] = [
            {"checkpoint_id": cursor.i8(), "files": _blobs(cursor)}
            for _ in range(cursor.count("checkpoints", 12))
        ]
    return bucket


def _blobs(cursor: Cursor) -> list[bytes]:
    return [cursor.blob("pending file") for _ in range(cursor.count("pending files", 4))]


def _split_offsets(split: dict[str, Any]) -> Iterator[SourceOffset]:
    reader_offset = split.get("reader_offset")
    details = {"source": "FileSource"} | {
        name: split[name] for name in ("split_id", "path", "length", "file_size")
    }
    if split.get("records_after_offset") is not None:
        details["records_after_offset"] = split["records_after_offset"]
    yield SourceOffset(
        starting_offset=split["offset"] if reader_offset is None else reader_offset,
        stopping_offset=split["offset"] + split["length"],
        details=details,
    )


def _path(cursor: Cursor) -> str | None:
    """Read a path as the text that `Path#toString` returns."""
    if not flag(cursor):
        return None
    scheme, user, host = (_optional_text(cursor) for _ in range(3))
    port = cursor.i4()
    path, query, fragment = (_optional_text(cursor) for _ in range(3))
    authority = (
        "" if host is None else f"//{f'{user}@' if user else ''}{host}{f':{port}' if port >= 0 else ''}"
    )
    tail = f"{f'?{query}' if query else ''}{f'#{fragment}' if fragment else ''}"
    return f"{f'{scheme}:' if scheme else ''}{authority}{path or ''}{tail}"


def _optional_text(cursor: Cursor) -> str | None:
    return cursor.string("URI part") if flag(cursor) else None


def _le_i4(cursor: Cursor) -> int:
    return int(_LE_I4.unpack(cursor.read(4, "length"))[0])


def _utf8(cursor: Cursor, length: int) -> str:
    start = cursor.position
    try:
        return bytes(cursor.read(length, "text")).decode("utf-8")
    except UnicodeDecodeError as error:
        raise cursor.corrupt(f"expected UTF-8: {error.reason}", start) from error


SPLITS = versioned_layout("filesystem", _PACKAGE + "src.FileSourceSplit", SPLIT, read_split, _split_offsets)
PENDING = coordinator_layout(
    "filesystem", _PACKAGE + "src.PendingSplitsCheckpoint", _PENDING, read_pending, _split_offsets
)
WRITER = versioned_layout("filesystem", _PACKAGE + "sink.writer.FileWriterBucketState", _BUCKET, read_bucket)
