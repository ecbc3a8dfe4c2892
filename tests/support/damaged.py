"""Savepoints that Flink wrote, with all state in files beside `_metadata`, so that a test can remove, cut or change one."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from readers.metadata import ByteStreamStateHandle, RelativeFileStateHandle, read_metadata
from tests.support.metadata_writer import write_metadata


def write_in_files(savepoint: Path, folder: Path) -> Path:
    """Write a savepoint whose inline state stands in files called `<operator id or uid>-<subtask>.<number>`; return its folder."""
    metadata = read_metadata((savepoint / "_metadata").read_bytes())
    folder.mkdir(parents=True)
    count = 0

    def outlined(value: Any, label: str) -> Any:
        nonlocal count
        if isinstance(value, ByteStreamStateHandle):
            count += 1
            name = f"{label}.{count}"
            (folder / name).write_bytes(value.data)
            return RelativeFileStateHandle(relative_path=name, state_size=len(value.data))
        if isinstance(value, tuple):
            parts = [outlined(part, label) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(
                value, **{one.name: outlined(getattr(value, one.name), label) for one in fields(value)}
            )
        return value

    operators = tuple(
        replace(
            operator,
            subtasks=tuple(
                outlined(subtask, f"{operator.uid or operator.operator_id}-{subtask.index}")
                for subtask in operator.subtasks
            ),
            coordinator_state=outlined(operator.coordinator_state, f"{operator.uid}-coordinator"),
        )
        for operator in metadata.operators
    )
    (folder / "_metadata").write_bytes(write_metadata(replace(metadata, operators=operators)))
    return folder


def remove(file: Path) -> None:
    """Remove a file."""
    file.unlink()


def cut(file: Path) -> None:
    """Cut a file in half."""
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])


def corrupt(file: Path) -> None:
    """Overwrite the header of a file."""
    data = file.read_bytes()
    file.write_bytes(b"\xee" * 64 + data[64:])
