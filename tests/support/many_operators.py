"""A savepoint of many operators: the state files of one that Flink wrote, under as many ids."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from catalog.references import open_savepoint
from readers.keygroups import operator_id_of
from readers.metadata import ByteStreamStateHandle, OperatorState, RelativeFileStateHandle, read_metadata
from tests.support.metadata_writer import write_metadata
from tests.support.paths import DATA

SAMPLE = DATA / "flink" / "2.3.0" / "wordcount-rocksdb-savepoints" / "canonical" / "_metadata"


def uid_of(number: int) -> str:
    return f"operator-{number}"


def write_many_operators(folder: Path, count: int) -> None:
    """Write a savepoint whose operators `operator-0`, … each have the states of `aggregate`, in files of their own."""
    write_operators(folder, [uid_of(number) for number in range(count)])


def write_operators(folder: Path, uids: Sequence[str]) -> None:
    """Write a savepoint whose operators, of these uids, each have the states of `aggregate`, in files of their own."""
    metadata = read_metadata(SAMPLE.read_bytes())
    [aggregate] = [operator for operator in metadata.operators if operator.uid == "aggregate"]
    operators = tuple(_copied(aggregate, folder, number, uid) for number, uid in enumerate(uids))
    (folder / "_metadata").write_bytes(write_metadata(replace(metadata, operators=operators)))


def files_of(folder: Path, number: int) -> list[Path]:
    return sorted(folder.glob(f"{uid_of(number)}.*"))


def keep_files_of(folder: Path, number: int) -> None:
    """Remove the state files of all other operators."""
    kept = files_of(folder, number)
    for path in folder.glob("operator-*"):
        if path not in kept:
            path.unlink()


@contextmanager
def opened_files(folder: Path) -> Iterator[list[Path]]:
    """The state files that this process opens while the block lasts; no savepoint is open before it."""
    found: list[Path] = []
    plain = os.open

    def noted(path: Any, *arguments: Any, **options: Any) -> int:
        if isinstance(path, str) and path.startswith(f"{folder}/operator-"):
            found.append(Path(path))
        return plain(path, *arguments, **options)

    open_savepoint.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", noted)
        yield found


def _copied(operator: OperatorState, folder: Path, number: int, uid: str) -> OperatorState:
    count = 0

    def outlined(value: Any) -> Any:
        nonlocal count
        if isinstance(value, ByteStreamStateHandle):
            count += 1
            name = f"{uid_of(number)}.{count}"
            (folder / name).write_bytes(value.data)
            return RelativeFileStateHandle(relative_path=name, state_size=len(value.data))
        if isinstance(value, tuple):
            parts = [outlined(part) for part in value]
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        if is_dataclass(value) and not isinstance(value, type):
            return replace(value, **{one.name: outlined(getattr(value, one.name)) for one in fields(value)})
        return value

    copied: OperatorState = outlined(operator)
    return replace(copied, uid=uid, name=f"name-{number}", operator_id=operator_id_of(uid))
