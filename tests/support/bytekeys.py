"""A savepoint whose keys are bytes: canonical, one operator, uid `aggregate`, one state `count` of Long."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from tools.synthetic.savepoints import MAX_PARALLELISM, entry_bytes, keyed_header, metadata

_BASE = b"org.apache.flink.api.common.typeutils.base."
_STRING = _BASE + b"StringSerializer$StringSerializerSnapshot"
_BYTES = _BASE + b"array.BytePrimitiveArraySerializer$BytePrimitiveArraySerializerSnapshot"


def write_byte_keys(folder: Path, counts: Mapping[bytes, int], group: int = 5) -> Path:
    """Write the savepoint into a folder that is made; Java's hash of bytes is another in each process, so any key group will do."""
    folder.mkdir(parents=True)
    header = keyed_header(("count",)).replace(_utf(_STRING), _utf(_BYTES), 1)
    entries = [
        entry_bytes(
            bytes([group | (0x80 if number == len(counts) - 1 else 0)])
            + struct.pack(">i", len(key))
            + key
            + b"\x00",
            struct.pack(">q", count),
        )
        for number, (key, count) in enumerate(counts.items())
    ]
    content = header + b"\x00\x00" + b"".join(entries) + b"\xff\xff"
    (folder / "subtask-0").write_bytes(content)
    offsets = [len(header) if number == group else 0 for number in range(MAX_PARALLELISM)]
    (folder / "_metadata").write_bytes(metadata([(0, offsets, "subtask-0", len(content))]))
    return folder


def _utf(text: bytes) -> bytes:
    return struct.pack(">H", len(text)) + text
