"""A savepoint without operators: what a new savepoint is made from.

Its `_metadata` has version 3, the one version that holds no object of Java, and that Flink 1.11 to 2.3 reads. That version stores no uids
and no names: for Flink 2 it has the newest version that the release reads, with the properties of a canonical savepoint, which Flink
1.16 to 2.3 writes with the same bytes.
"""

from __future__ import annotations

from pathlib import Path

from readers import METADATA_FILE_NAME
from readers.metadata import CheckpointProperties, SavepointFormatType, SavepointKind, SavepointMetadata
from writers.edits import newest_version
from writers.metadata import write_metadata
from writers.metadata.writer import NAMES_SINCE, OLDEST_VERSION

_CHECKPOINT_ID = 1  # the job's first checkpoint gets the next number


def write_empty_savepoint(folder: Path, release: tuple[int, int] | None = None) -> None:
    """Write `_metadata` of a savepoint without operators into a folder.

    Args:
        folder: an empty one.
        release: major and minor number of the Flink that will read it; None for any.

    Raises:
        RefusedEditError: no version of `_metadata` is written for this Flink.
    """
    version = OLDEST_VERSION if release is None else newest_version(release)
    has_names = version >= NAMES_SINCE
    metadata = SavepointMetadata(
        version=version if has_names else OLDEST_VERSION,
        checkpoint_id=_CHECKPOINT_ID,
        properties=_PROPERTIES if has_names else None,
    )
    (folder / METADATA_FILE_NAME).write_bytes(write_metadata(metadata))


def _text(text: str) -> bytes:
    return len(text).to_bytes(2, "big") + text.encode()


def _class(name: str, serial: int, flags: int, *fields: bytes) -> bytes:
    """Return the description of a class, up to that of its superclass."""
    head = b"r" + _text(name) + serial.to_bytes(8, "big") + bytes([flags])
    return head + len(fields).to_bytes(2, "big") + b"".join(fields) + b"x"


def _object_field(name: str, declared: str) -> bytes:
    return b"L" + _text(name) + b"t" + _text(f"L{declared};")


def _constant(name: str, superclass: bytes, constant: str) -> bytes:
    """Return a constant of an enum."""
    return b"~" + _class(name, 0, _ENUM) + superclass + b"t" + _text(constant)


_SERIALIZABLE, _ENUM = 2, 18
_NONE = b"p"  # no superclass
_ENUM_CLASS = _class("java.lang.Enum", 0, _ENUM) + _NONE
_ENUM_CLASS_AGAIN = b"q\x00\x7e\x00\x09"  # the tenth that the stream describes
_CHECKPOINT, _EXECUTION = "org.apache.flink.runtime.checkpoint", "org.apache.flink.core.execution"
_FLAGS = ("Cancelled", "Failed", "Finished", "Subsumed", "Suspended")
_PROPERTIES = CheckpointProperties(
    kind=SavepointKind.SAVEPOINT,
    format=SavepointFormatType.CANONICAL,
    stream=b"\xac\xed\x00\x05s"
    + _class(
        f"{_CHECKPOINT}.CheckpointProperties",
        2,
        _SERIALIZABLE,
        *(b"Z" + _text(name) for name in (*(f"discard{flag}" for flag in _FLAGS), "forced", "unclaimed")),
        _object_field("checkpointType", f"{_CHECKPOINT}.SnapshotType".replace(".", "/")),
    )
    + _NONE
    + b"\x00\x00\x00\x00\x00\x01\x00"  # forced
    + b"s"
    + _class(
        f"{_CHECKPOINT}.SavepointType",
        0xA087D308A45814B8,
        _SERIALIZABLE,
        _object_field("formatType", f"{_EXECUTION}.SavepointFormatType".replace(".", "/")),
        _object_field("name", "java/lang/String"),
        _object_field(
            "postCheckpointAction", f"{_CHECKPOINT}.SavepointType$PostCheckpointAction".replace(".", "/")
        ),
    )
    + _NONE
    + _constant(f"{_EXECUTION}.SavepointFormatType", _ENUM_CLASS, "CANONICAL")
    + b"t"
    + _text("Savepoint")
    + _constant(f"{_CHECKPOINT}.SavepointType$PostCheckpointAction", _ENUM_CLASS_AGAIN, "NONE"),
)
